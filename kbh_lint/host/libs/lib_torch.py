"""torch outside tensors: modules of it that make objects, read the device or change settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import DType, Func
from kbh_lint.host.datamodel import modules, operators
from kbh_lint.host.effects import foreign, outside
from kbh_lint.host.libs import custom_ops, extensions, lib_objects, nn_layers
from kbh_lint.host.python import lanes
from kbh_lint.host.torch import subclasses, tensor_attributes, tensor_copies, tensor_makers, tensor_views, torchlib
from kbh_lint.host.values import device, objects, tensor_arguments, unknowns
from kbh_lint.host.values.named_objects import TorchLayer
from kbh_lint.host.values.objects import (
    Blob,
    Bound,
    Compiled,
    Graph,
    Instance,
    LibObject,
    Memo,
    Partial,
    find_method,
    is_module,
)
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MOST_BYTES = 64 << 30  # no graded shape needs a tensor of this size


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


def numpy_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A function of numpy: one of torch that has its name, but for where it writes."""
    name = path.rsplit(".", 1)[-1]
    if name in _NUMPY_NUMBERS and len(args) == 1 and isinstance(args[0], (int, float)):
        return float(args[0]) if name.startswith("float") else int(args[0])
    at = _NUMPY_OUT.get(name, len(args))
    if at < len(args) and isinstance(args[at], Tensor):
        args, kwargs = args[:at], {**kwargs, "out": args[at]}
    if name in _NUMPY_INTO and args and isinstance(args[0], Tensor):
        return torchlib.compute(interp, path, name, args, kwargs, loc, True)
    return torch_call(interp, path, args, kwargs, loc)


def torch_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if path.startswith("torch.ops.") and path.count(".") == 4:  # torch.ops.aten.max.dim: an overload by its name
        path = path.rsplit(".", 1)[0]
        name = path.rsplit(".", 1)[-1]
    made_by_class = path.startswith("torch.classes.")
    if made_by_class or path.startswith("torch.ops.") and not path.startswith("torch.ops.aten."):
        own = interp.custom_ops.get(path.removeprefix("torch.ops."))
        own = own if own is not None else interp.custom_ops.get(f"classes.{name}" if made_by_class else name)
        if isinstance(own, custom_ops.Operator):
            return own.call(interp, args, kwargs, loc)
        if own is not None:
            return interp.call(own, args, kwargs, loc)
        if any(kind == "binary" for kind, _, _ in interp.trace.notes):  # an operator that a prebuilt library registered
            return foreign.call_blob(interp, Blob(path, loc), args, kwargs, loc)
        given = tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs)
        if given and interp.files.unread_build:  # one that the sources may register that could not be read
            return foreign.unread_call(interp, path, given, loc)
        return foreign.foreign(interp, path, args, kwargs, loc)
    if name in subclasses.SUBCLASSING:
        return subclasses.subclass(interp, name, args, kwargs, loc)
    tensors = tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs)
    if path.startswith("torch.nn.init."):
        return tensor_copies.fill(interp, "normal", args or [kwargs.get("tensor")], {}, loc)
    if path.startswith("torch.nn.") and not path.startswith("torch.nn.functional") and name[:1].isupper():
        return nn_layers.module(interp, path, args, kwargs, loc)
    if path.startswith("torch.nn.") and name in ("__call__", "forward") and args and _is_layer(args[0], name):
        return interp.call(args[0], args[1:], kwargs, loc)
    if tensors and any(isinstance(value, (Func, Bound, Partial, Memo)) for value in args):
        return foreign.unread_call(interp, path, tensors, loc)
    if path.startswith("torch.Tensor.") and tensors:
        return lib_objects.call_method(interp, tensors[0], name, args[1:], kwargs, loc)
    base = name.rstrip("_")
    if base in tensor_makers.MAKERS or tensors:
        made = subclasses.viewed(
            name, tensors[0] if tensors else None, torchlib.call(interp, path, args, kwargs, loc), loc
        )
        if isinstance(made, Tensor) and (made.storage.size or 0) > MOST_BYTES:
            outside.note(interp, "resource", path, f"{made.storage.size >> 30} GiB of memory", loc)  # type: ignore[operator]
        return made
    if name[:1].isupper():
        return LibObject.by_path(path, {}, tuple(args), kwargs)
    foreign.addressed(interp, path, [*args, *kwargs.values()], loc)
    return unknowns.merged(interp, *args, why=path)


def _is_layer(value: object, name: str) -> bool:
    """Whether a value is a layer of torch, or a module whose own class does not say what `name` of it does."""
    if isinstance(value, Instance):
        return is_module(value.cls) and (name == "__call__" or find_method(value, name) is None)
    return isinstance(value, TorchLayer)


_CUDA_STATE = {
    "is_available": True, "current_device": 0, "device_count": 1, "is_bf16_supported": True, "is_initialized": True,
    "is_current_stream_capturing": True, "synchronize": None, "empty_cache": None, "set_device": None, "init": None,
}  # fmt: skip
_OF_THE_DEVICE = frozenset(
    "get_device_capability get_device_properties get_device_name mem_get_info get_arch_list".split()
)


def _about_device(interp: Run, name: str, loc: ir.Loc | None) -> Any:
    """What torch says of the GPU."""
    found = interp.session.device
    if name == "mem_get_info":
        return operators.binary(interp, "-", found.memory, 8 << 30, loc), found.memory
    if name == "get_arch_list":
        return [f"sm_{found.major}{found.minor}"]
    interp.note("capability-read", {}, loc)
    if name == "get_device_capability":
        return found.major, found.minor
    return found.name if name == "get_device_name" else device.torch_properties(found)


def cuda_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if args and isinstance(args[0], Graph):  # a function of the class, called with the object
        return lib_objects.call_method(interp, args[0], name, args[1:], kwargs, loc)
    if name in _OF_THE_DEVICE:
        return _about_device(interp, name, loc)
    if name == "synchronize":
        interp.lanes.wait_all()
    if name == "current_stream":
        return lanes.current(interp)
    if name == "set_stream":
        lanes.set_stream(interp, args[0] if args else None)
    if name in _CUDA_STATE:
        return _CUDA_STATE[name]
    if "memory" in name and name.rpartition("_")[2] in ("allocated", "reserved", "cached"):
        return Unknown((), path)
    if name == "CUDAGraph":
        return Graph()
    if name == "cudart":
        return LibObject.by_path(objects.OF_TORCH)
    if name == "_compile_kernel":
        return extensions.raw_kernel(interp, args, kwargs, loc)
    if name == "make_graphed_callables":
        return args[0] if args else Unknown()
    return LibObject.by_path(path, {}, tuple(args), kwargs)


def t_parameter(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    tensor = args[0] if args else kwargs.get("data")
    if not isinstance(tensor, Tensor):
        return tensor
    made = tensor_views.alias(tensor, tensor.shape, tensor.strides)
    made.parameter = True
    return made


def t_compile(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    target = args[0] if args else kwargs.get("model")
    if target is None or isinstance(target, str):
        return LibObject("torch.compile.decorator")
    interp.note("torch-compile", {}, loc)
    return Compiled(target, loc)


def t_device(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return tensor_attributes.device(tensor_arguments.device_of(args[0]) if args else "cuda")


def t_backend(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if args:
        modules.setting(interp, path, args[0], loc)
    return LibObject.by_path(path)


def t_context(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if args and isinstance(args[0], (Func, Bound)):
        return args[0]
    return LibObject.by_path(path, {}, tuple(args), kwargs)


def t_cond(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """torch.cond(predicate, true function, false function, operands)."""
    names = ("pred", "true_fn", "false_fn", "operands")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    chosen = given.get("true_fn" if interp.truth(given.get("pred"), loc) else "false_fn")
    return interp.call(chosen, list(given.get("operands") or ()), {}, loc)


def t_seed(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if interp.trace.call_index and "Generator" not in path:
        modules.setting(interp, path, args[0] if args else None, loc)
    return LibObject("torch.Generator")


def t_finfo(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = args[0].name if args and isinstance(args[0], DType) else "f32"
    top = dtypes.TYPES[name].largest if name in dtypes.TYPES else 1.0
    return LibObject(path, {"max": top, "min": -top, "eps": 1e-7, "tiny": 1e-38, "bits": 8, "smallest_normal": 1e-38})


def t_load(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    interp.note("unpickle", {"symbol": path}, loc)
    return Unknown((), path)
