"""torch: operators of the submission, layers, functions of tensors; and numpy, whose functions are torch's."""

from __future__ import annotations

from kbh_lint.base.values import Func, Single, Value
from kbh_lint.host.datamodel import schemas
from kbh_lint.host.effects import foreign, outside
from kbh_lint.host.libs import custom_ops, nn_layers
from kbh_lint.host.libs.plain import Decorating
from kbh_lint.host.libs.wrappers import OfTorch
from kbh_lint.host.torch import recording, subclasses, tensor_copies, tensor_makers, torchlib
from kbh_lint.host.torch.aten_names import family
from kbh_lint.host.values import tensor_arguments, unknowns
from kbh_lint.host.values.modelled import Library, Site
from kbh_lint.host.values.named_objects import TorchLayer
from kbh_lint.host.values.objects import (
    Blob,
    Bound,
    Instance,
    LibObject,
    Memo,
    Method,
    Partial,
    find_method,
    is_module,
)
from kbh_lint.host.values.tensors import Tensor

MOST_BYTES = 64 << 30  # no graded shape needs a tensor of this size


class Torch(OfTorch):
    """The package `torch`, but for the parts of it that have a row of their own."""

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`), by its path: an operator, a layer, a tensor
        function or an object."""
        run, path, args, kwargs = site.run, site.path, site.args, site.kwargs
        if path.startswith("torch.ops.") and path.count(".") == 4:  # torch.ops.aten.max.dim: an overload by its name
            path = path.rsplit(".", 1)[0]
        name = path.rpartition(".")[2]
        if name == schemas.UNNAMED:
            return foreign.foreign(Site(run, path, site.loc, args, kwargs))
        if (
            path.startswith("torch.classes.")
            or path.startswith("torch.ops.")
            and not path.startswith("torch.ops.aten.")
        ):
            return _registered(Site(run, path, site.loc, args, kwargs))
        if name in subclasses.SUBCLASSING:
            return subclasses.subclass(run, name, args, kwargs, site.loc)
        if path.startswith("torch.nn.init."):
            return tensor_copies.fill(run, "normal", args or [kwargs.get("tensor")], {}, site.loc)
        if path.startswith("torch.nn."):
            made = _of_layers(site)
            if made is not NotImplemented:
                return made
        tensors = tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs)
        if tensors and any(isinstance(value, (Func, Bound, Partial, Memo)) for value in args):
            return foreign.unread_call(run, path, tensors, site.loc)
        if path.startswith("torch.Tensor.") and tensors:
            return run.call(Method(tensors[0], name), args[1:], kwargs, site.loc)
        if name.rstrip("_") in tensor_makers.MAKERS or tensors:
            made = torchlib.call(run, path, args, kwargs, site.loc)
            made = subclasses.viewed(name, tensors[0] if tensors else None, made, site.loc)
            size = made.storage.size or 0 if isinstance(made, Tensor) else 0
            if size > MOST_BYTES:
                outside.note(run, "resource", path, f"{size >> 30} GiB of memory", site.loc)
            return made
        if name[:1].isupper():
            return LibObject.by_path(path, {}, tuple(args), kwargs)
        foreign.addressed(run, path, [*args, *kwargs.values()], site.loc)
        return unknowns.merged(run, *args, why=path)


def _registered(site: Site) -> Value:
    """An operator or a class that the submission, or a library that it loads, registers."""
    run, path, name = site.run, site.path, site.path.rpartition(".")[2]
    own = run.custom_ops.get(path.removeprefix("torch.ops."))
    if own is None:
        own = run.custom_ops.get(f"classes.{name}" if path.startswith("torch.classes.") else name)
    if isinstance(own, custom_ops.Operator):
        return own.call(run, site.args, site.kwargs, site.loc)
    if own is not None:
        return run.call(own, site.args, site.kwargs, site.loc)
    if any(kind == "binary" for kind, _, _ in run.trace.notes):  # an operator that a prebuilt library registered
        return foreign.call_blob(run, Blob(path, site.loc), site.args, site.kwargs, site.loc)
    given = tensor_arguments.tensors_in(site.args) + tensor_arguments.tensors_in(site.kwargs)
    if given and run.files.unread_build:  # one that the sources may register that could not be read
        return foreign.unread_call(run, path, given, site.loc)
    return foreign.foreign(site)


def _of_layers(site: Site) -> Value:
    """A layer of torch.nn that is made, or called by its class; NotImplemented for functions."""
    name, args = site.name, site.args
    if not site.path.startswith("torch.nn.functional") and name[:1].isupper():
        return nn_layers.module(site)
    if name in ("__call__", "forward") and args and _is_layer(args[0], name):
        return site.run.call(args[0], args[1:], site.kwargs, site.loc)
    return NotImplemented


def _is_layer(value: object, name: str) -> bool:
    """Whether a value is a layer of torch, or a module whose own class does not say what `name` of it does."""
    if isinstance(value, Instance):
        return is_module(value.cls) and (name == "__call__" or find_method(value, name) is None)
    return isinstance(value, TorchLayer)


# numpy's functions that write into an argument: which one it is when it is not named.
_UNARY = "abs absolute negative sign sqrt square exp log rint floor ceil logical_not invert isnan isfinite"
_BINARY = (
    "add subtract multiply divide floor_divide remainder mod maximum minimum greater greater_equal less less_equal "
    "equal not_equal logical_and logical_or bitwise_and bitwise_or left_shift right_shift matmul dot"
)
_NUMPY_NUMBERS = frozenset("int8 int16 int32 int64 intp intc uint8 uint16 uint32 uint64 float32 float64".split())
_NUMPY_OUT = {
    **dict.fromkeys(_UNARY.split(), 1), **dict.fromkeys(_BINARY.split(), 2),
    **dict.fromkeys(("cumsum", "cumprod", "sum", "prod", "take", "concatenate", "clip"), 3),
}  # fmt: skip
_NUMPY_INTO = frozenset(("copyto", "put", "place", "putmask", "fill_diagonal"))


class Numpy(Library):
    """The package `numpy`: each function is torch's function of that name, but for the parameter `out`."""

    def other(self, site: Site) -> Value:
        """Answers a call of any function of numpy (`Library.other`): most are torch's."""
        name, args, kwargs = site.name, site.args, site.kwargs
        first = args[0] if args else None
        if name in _NUMPY_NUMBERS and len(args) == 1 and isinstance(first, (int, float)):
            kind = Single if name == "float32" else float if name.startswith("float") else int
            return kind(first)
        packed = unknowns.packed(site.run, first, site.path) if name == "array" else None
        if packed is not None:
            return packed
        if family(name) == "selection" and not isinstance(first, Tensor):
            made = recording.ordered(site.run, site.path, args, site.loc)
            if made is not None:
                return made
        at = _NUMPY_OUT.get(name, len(args))
        if at < len(args) and isinstance(args[at], Tensor):
            args, kwargs = args[:at], {**kwargs, "out": args[at]}
        if name in _NUMPY_INTO and isinstance(first, Tensor):
            return torchlib.compute(site.run, site.path, name, args, kwargs, site.loc, True)
        return TORCH.other(Site(site.run, site.path, site.loc, args, kwargs))


class Settings(OfTorch):
    """A part of torch whose functions are settings: `torch.backends`."""

    def other(self, site: Site) -> Value:
        """Answers a call of any setter of a global setting (`Library.other`)."""
        return self.setting(site, *site.args)


class Contexts(OfTorch, Decorating):
    """A part of torch whose functions are context managers and decorators: `torch._dynamo`."""


TORCH = Torch()
