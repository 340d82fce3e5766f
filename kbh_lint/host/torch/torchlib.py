"""torch on abstract tensors: shapes, element types, and an event for everything that computes.

Functions and Tensor methods share one table: `x.add_(y)` is `torch.add_` with `x` first. An operation that is not in
a table still makes an event that reads its tensor arguments, and returns a tensor of unknown shape and type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.torch import (
    contractions,
    elementwise,
    limits,
    memory_order,
    out,
    recording,
    shapes,
    tensor_attributes,
    tensor_copies,
    tensor_flags,
    tensor_makers,
    tensor_views,
    whole_numbers,
    windows,
)
from kbh_lint.host.torch.aten_names import NAMES, PRODUCTS, SELECTIONS, SOFTMAXES, SOLVERS, family
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.tensors import Content, EventAttrs, Tensor, Unknown, product

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

COMPARISONS = frozenset("eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_not isclose".split())


_ITSELF = frozenset(("positive", "resolve_conj", "resolve_neg", "conj", "conj_physical"))  # of what is not complex


def kind_of(name: str) -> str:
    """Returns the kind of event that an operation of torch makes: library, copy or op."""
    if family(name):
        return "library"
    if name in ("copy", "to", "clone", "contiguous", "cat", "stack", "pad", "gather", "index_select", "repeat"):
        return "copy"
    return "op"


def _kind(name: str, args: Sequence[Value], kwargs: Mapping[str, Value], attrs: EventAttrs) -> str:
    """The kind of event that a call of an operation makes."""
    if not memory_order.sorts_entries(name, args, kwargs):
        return kind_of(name)
    attrs["orders"] = True
    return "library"


def call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Calls `torch.NAME`, `torch.nn.functional.NAME`, `torch.Tensor.NAME` or `aten::NAME` with abstract arguments."""
    name = shapes.name_of(path)
    if name.startswith("_foreach_") and args and isinstance(args[0], (list, tuple)):
        return _each(interp, path, name.removeprefix("_foreach_"), args, kwargs, loc)
    inplace = name.endswith("_") and not name.endswith("__") and name not in tensor_views.VIEWS
    base = name[:-1] if inplace else name
    if out.given(kwargs) and (base in _ITSELF or base in ("clone", "contiguous")):
        return _copied_into(interp, path, args, kwargs, loc)
    if base in _ITSELF and args and isinstance(args[0], Tensor) and not {"lazy", "complex"} & set(args[0].attrs):
        return args[0]
    if base in tensor_makers.MAKERS or base == "normal" and not inplace and not tensor_arguments.tensors_in(args):
        made = tensor_makers.maker(interp, base, args, kwargs, loc)
        tensor_flags.noticed(interp, base, args, kwargs, made)
        return made
    special = SPECIAL.get(base)
    if special is not None and _is_modelled(base, inplace):
        made = special(interp, base, args, kwargs, loc)
        if inplace:
            tensor_flags.noticed(interp, base, args, kwargs, made)
        return made
    if base in tensor_views.VIEWS:
        return tensor_views.view(interp, base, args, kwargs, loc)
    counts = inplace and base in ("add", "sub") and _counts(interp, args)
    made = compute(interp, path, base, args, kwargs, loc, inplace)
    if counts:
        tensor_flags.stepped(interp, base, args)
    return made


def asked(interp: Run, tensor: Tensor, name: str, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """Calls one of the `METADATA` of a tensor, without named arguments: as `call` does, by a shorter way for what
    programs ask most often."""
    return SPECIAL[name](interp, name, [tensor, *args], {}, loc)


def _copied_into(interp: Run, path: str, args: list[Value], kwargs: dict[str, Value], loc: ir.Loc | None) -> Value:
    """`out=` of an operation whose result is its argument, or a copy: what was brought is given the values."""
    [target, *_], made = out.given(kwargs), call(interp, path, args, out.without(kwargs), loc)
    if isinstance(made, Tensor):
        out.shaped(target, made.shape, lambda shape: _strides("clone", shape, [made]))
    tensor_copies.copy_(interp, "copy", [target, made], {}, loc)
    return target


def _is_modelled(name: str, inplace: bool) -> bool:
    """Whether the model of an operation that has one is of this form, in place or not."""
    fills = name in ("zero", "fill", "normal", "uniform")
    return inplace if fills else not inplace or name == "copy"


def _counts(interp: Run, args: Sequence[Value]) -> bool:
    """Whether a whole number goes to a tensor of which the number is known."""
    return len(args) > 1 and type(args[1]) is int and tensor_flags.known(interp, args[0]) is not None


def _each(
    interp: Run, path: str, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> list[Value]:
    """`torch._foreach_NAME`: the operation on each tensor of a list, with what stands beside it in other lists."""
    space = path[: len(path) - len(name) - len("_foreach_")]
    lists = [a if isinstance(a, (list, tuple)) else [a] * len(args[0]) for a in args]
    return [call(interp, f"{space}{name}", list(row), kwargs, loc) for row in zip(*lists, strict=False)]


def _asks(name: str) -> bool:
    """Whether an operation says whether something holds, by its name, which an operation on elements has not."""
    return name.startswith(("is_", "has_", "_is_", "_has_"))


def _answer(interp: Run, name: str, args: Sequence[Value]) -> Unknown:
    """Whether something holds that is not known; `is_nonzero` asks what a tensor holds."""
    return Unknown(tuple(interp.contents_of(args)) if name == "is_nonzero" else (), name)


def compute(
    interp: Run,
    path: str,
    name: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    loc: ir.Loc | None,
    inplace: bool,
) -> Any:
    """Calls an operation that computes new values, and records its event."""
    brought = out.given(kwargs)
    inputs = tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(out.without(kwargs))
    if not inputs and not isinstance(kwargs.get("out"), Tensor):
        return Unknown(tuple(interp.contents_of(args)), name)
    attrs: EventAttrs = {"symbol": path, "operands": tuple(t.dtype for t in inputs)}
    numbers = _numbers(interp, [*args, *kwargs.values()])
    if numbers:
        attrs["steer"] = numbers
    found = shapes.results(path, name, args, kwargs, inputs)
    if found == (None, "?") and _asks(name):
        return _answer(interp, name, args)
    if family(name) in ("product", "solver"):
        attrs["flops"] = shapes.product_flops(name, args, inputs, found[0] if isinstance(found, tuple) else None)
    least = limits.least(name, args, kwargs)
    if least is not None:
        attrs["least"] = least
    puts = _puts(name, args, kwargs, inplace)
    read = inputs[1:] if inputs and (puts or _unread_addend(name, args, kwargs)) else inputs
    event = recording.record(interp, _kind(name, args, kwargs, attrs), name, loc, read, attrs)
    if inplace and isinstance(args[0], Tensor):
        recording.write(interp, args[0], event, puts, count=_count_put(name, args, kwargs))
        recording.addresses(interp, args[0], args[1:])
        return args[0]
    if brought:
        out.write(interp, brought, event, found, lambda shape: _strides(name, shape, inputs))
        return kwargs["out"]
    if isinstance(found, tuple):
        made = recording.make(interp, *found, event=event, strides=_strides(name, found[0], inputs))
        made.attrs["range"] = _range(name, inputs) or whole_numbers.differences(name, args, made)
        whole_numbers.note(name, args, kwargs, made)
        memory_order.note_sparse(name, args, kwargs, made)
        recording.addresses(interp, made, args)
        return tensor_views.marked_as(made, inputs)
    several = (
        recording.make(interp, shape, dtype, event=event, strides=_strides(name, shape, inputs))
        for shape, dtype in found
    )
    return tuple(tensor_views.marked_as(one, inputs) for one in several)


_UNORDERED = SOLVERS | frozenset("eigh qr rot90 nonzero cholesky_inverse cholesky_ex pinv pinverse argwhere".split())
_ROW_MAJOR = contractions.TABLE.keys() | windows.TABLE.keys()  # however their inputs lie


def _strides(name: str, shape: tuple[Value, ...] | None, inputs: Sequence[Tensor]) -> tuple[Value, ...] | None:
    """How a new tensor lies in memory; None for row-major."""
    if name in elementwise.POINTWISE:
        return memory_order.following(shape, inputs)
    if shape and (name in _UNORDERED or name not in _ROW_MAJOR and not all(t.is_contiguous() for t in inputs)):
        return (None,) * len(shape)
    return None


ADDENDS = frozenset(("addmm", "addmv", "addr", "addbmm", "baddbmm"))


def _unread_addend(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a product is told not to read what it would add its result to: `beta=0`, in C++ the fourth argument."""
    beta = args[3] if len(args) > 3 else kwargs.get("beta")
    return name in ADDENDS and isinstance(beta, (int, float)) and beta == 0


_PUTS = {  # the parameters behind the tensor that elements are put into, and what makes it add to these
    "index_copy": "dim index source", "index_put": "indices values accumulate", "scatter": "dim index src reduce",
    "masked_scatter": "mask source", "index_fill": "dim index value",
}  # fmt: skip
_ADDING = ("accumulate", "reduce")


def _put(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> dict[str, Value]:
    return {**dict(zip(_PUTS[name].split(), args[1:], strict=False)), **kwargs}


def _puts(name: str, args: Sequence[Value], kwargs: Mapping[str, Value], inplace: bool) -> bool:
    """Whether an operation is in place and only puts other elements where an index says."""
    return inplace and name in _PUTS and not any(_put(name, args, kwargs).get(word) for word in _ADDING)


def _count_put(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> int | None:
    """How many elements that are, where the index or what is put says it."""
    given = _put(name, args, kwargs) if name in _PUTS else {}
    found = given.get({"index_copy": "source", "index_put": "values", "scatter": "index"}.get(name, ""))
    return product(found.shape) if isinstance(found, Tensor) else None


def _numbers(interp: Run, values: Sequence[Any]) -> tuple[Content, ...]:
    """What numbers and arrays that are not known, among arguments, were computed from: counts, bounds, masks."""
    found = [content for value in values if isinstance(value, Unknown) for content in value.contents]
    return tuple(dict.fromkeys(found))


def _range(name: str, inputs: Sequence[Tensor]) -> tuple[float, float] | None:
    """The interval of a result whose values come from one input with a known interval."""
    known: tuple[float, float] | None = inputs[0].attrs.get("range") if inputs else None
    if known is None or len(inputs) != 1:
        return None
    if name == "abs":
        return 0.0, max(abs(known[0]), abs(known[1]))
    return known if name in ("max", "amax", "min", "amin", "mean", "median") else None


_ATTRIBUTES = frozenset(
    "shape dtype device is_cuda T mT H mH data real imag grad ndim itemsize nbytes requires_grad is_sparse "
    "is_quantized is_meta is_mps is_nested layout is_leaf grad_fn names numpy numel sum mean max min abs add sub "
    "mul div pow exp log sqrt rsqrt neg amax amin argmax argmin cumsum prod std var norm softmax log_softmax "
    "sigmoid tanh relu gather scatter index_select index_add masked_fill where clamp round floor ceil repeat "
    "repeat_interleave roll flip tile eq ne lt le gt ge any all logical_and logical_or bitwise_and bitwise_or "
    "pin_memory is_pinned share_memory_ record_stream register_hook retain_grad backward apply_ map_ triu tril "
    "diag outer cross cdist histc bincount nonzero tolist searchsorted bucketize".split()
)


def has_attribute(name: str) -> bool:
    """Whether every tensor has an attribute of this name; attributes that a submission adds are kept elsewhere."""
    return name in NAMES or is_followed(name)


@lru_cache(maxsize=1024)
def is_followed(name: str) -> bool:
    """Whether an attribute that every tensor has is one that is followed, or is known for what it is."""
    if name.startswith("_"):
        return name.startswith("__") or name in ("_version", "_base", "_typed_storage") or name in PRODUCTS
    base = name.removesuffix("_")
    tables = (_ATTRIBUTES, tensor_views.VIEWS, tensor_makers.MAKERS, PRODUCTS, SOLVERS, SELECTIONS, SOFTMAXES, SPECIAL)
    return any(name in table or base in table for table in tables)


METADATA = frozenset(
    "stride size dim ndimension numel nelement __len__ data_ptr element_size is_contiguous storage_offset "
    "untyped_storage storage is_floating_point get_device is_set_to is_inference is_complex is_signed is_conj is_neg "
    "_is_zerotensor is_non_overlapping_and_dense "
    "is_same_size is_alias_of has_names is_distributed is_coalesced is_shared is_pinned".split()
)
SPECIAL: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(
        "to type cuda cpu float half bfloat16 double int long short byte char bool type_as".split(), tensor_copies.to
    ),
    **dict.fromkeys("zero fill normal uniform".split(), tensor_copies.fill),
    **dict.fromkeys("contiguous clone".split(), tensor_copies.contiguous),
    **dict.fromkeys("item tolist equal allclose numpy".split(), tensor_attributes.scalar),
    **{name: tensor_attributes.meta(name) for name in METADATA},
    "copy": tensor_copies.copy_,
}
