"""torch's operations that make tensors of sizes or of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.dtypes import UNKNOWN
from kbh_lint.base.values import DType, Value
from kbh_lint.host.torch import (
    memory_order,
    out,
    promotion,
    recording,
    shapes,
    tensor_copies,
    tensor_views,
    whole_numbers,
)
from kbh_lint.host.torch.signatures import Shape
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.objects import Instance
from kbh_lint.host.values.tensors import Event, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAKERS = frozenset(
    "empty zeros ones full rand randn randint arange linspace eye empty_strided tensor as_tensor from_numpy randperm "
    "scalar_tensor empty_like zeros_like ones_like full_like rand_like randn_like randint_like new_empty new_zeros "
    "new_ones new_full new_tensor empty_permuted new_empty_strided asarray empty_quantized logspace".split()
)
RANDOM = frozenset("normal rand randn randint randperm rand_like randn_like randint_like".split())


_OF_VALUES = frozenset("tensor as_tensor from_numpy new_tensor scalar_tensor asarray".split())
_BY_STRIDES = frozenset(("empty_strided", "empty_permuted", "new_empty_strided"))
Args = list[Any]
Named = dict[str, Any]
Sized = tuple[Shape, str]  # the shape and element type of what is made


def maker(interp: Run, name: str, args: Args, kwargs: Named, loc: ir.Loc | None) -> Any:
    """Models operations that allocate tensors, such as `empty`, `zeros_like` and `new_full`."""
    args = list(args)
    like: Tensor | None = None
    if name.startswith("new_") or name.endswith("_like"):
        if args and isinstance(args[0], Tensor):
            like = args.pop(0)
        elif isinstance(kwargs.get("input"), Tensor):
            like = kwargs["input"]
    device = tensor_arguments.device_of(kwargs.get("device"), like.device if like is not None else "cuda")
    if name in _OF_VALUES:
        return from_values(interp, args, kwargs, device, loc)
    dtype = tensor_arguments.dtype_of(kwargs.get("dtype"), like.dtype if like is not None else "f32")
    if name.endswith("_like"):
        shape = like.shape if like is not None else None
    else:
        shape, dtype = _SIZES.get(name, _sized)(name, args, kwargs, dtype)
    if name in ("full", "new_full") and not isinstance(kwargs.get("dtype"), DType) and like is None:
        dtype = promotion.of_number(kwargs.get("fill_value", args[1] if len(args) > 1 else None)) or UNKNOWN
    label = "empty" if "empty" in name else "random" if name in RANDOM else "constant"
    strides = _strides(name, shape, like, args, kwargs)
    brought = out.given(kwargs)
    if brought:
        tensor = brought[0]
        _into(interp, tensor, shape, strides, label, kwargs.get("dtype"), loc)
    else:
        tensor = recording.make(interp, shape, dtype, label, strides=strides, device=device)
    if name.startswith(("full", "new_full")):
        value = kwargs.get("fill_value", args[-1] if args else None)
        if type(value) is int:
            tensor.storage.content.notes[whole_numbers.ENDS] = value, value
            recording.addresses(interp, tensor, value)
    return tensor


def _into(
    interp: Run, target: Tensor, shape: Shape, strides: Shape, label: str, dtype: object, loc: ir.Loc | None
) -> None:  # fmt: skip
    """What is made is written where the caller says: `out=` may be of any type, but of no other than one that is named
    beside it."""
    if isinstance(dtype, DType) and UNKNOWN not in (dtype.name, target.dtype) and dtype.name != target.dtype:
        interp.fails("builtins.RuntimeError", loc)
    out.shaped(target, shape, lambda _: strides)
    if label != "empty":
        tensor_copies.overwrite(interp, target, label)


def _full(name: str, args: Args, kwargs: Named, dtype: str) -> Sized:
    size = args[0] if args else kwargs.get("size", kwargs.get("fill_value"))
    return tensor_arguments.size_args([size]), dtype


def _counted(name: str, args: Args, kwargs: Named, dtype: str) -> Sized:
    """arange and the like, whose length is worked out."""
    whole = not any(isinstance(a, float) for a in [*args, *(kwargs.get(key) for key in ("start", "end", "step"))])
    default = "i64" if whole and name in ("arange", "randperm") else "f32"
    return (shapes.arange_length(name, args, kwargs),), tensor_arguments.dtype_of(kwargs.get("dtype"), default)


def _eye(name: str, args: Args, kwargs: Named, dtype: str) -> Sized:
    n = args[0] if args and isinstance(args[0], int) else None
    return (n, args[1] if len(args) > 1 and isinstance(args[1], int) else n), dtype


def _drawn(name: str, args: Args, kwargs: Named, dtype: str) -> Sized:
    """normal and randint: the size comes last."""
    shape = tensor_arguments.size_args([kwargs.get("size", args[-1] if args else ())])
    return shape, tensor_arguments.dtype_of(kwargs.get("dtype"), "i64") if name == "randint" else dtype


def _sized(name: str, args: Args, kwargs: Named, dtype: str) -> Sized:
    """All others: sizes one by one or in one sequence, and perhaps an element type among them."""
    sizes = [a for a in args if not isinstance(a, DType)] or [kwargs.get("size", ())]
    named = next((a.name for a in args if isinstance(a, DType)), dtype)
    return tensor_arguments.size_args(sizes[:1] if name in _BY_STRIDES else sizes), named


_SIZES: dict[str, Callable[[str, Args, Named, str], Sized]] = {
    **dict.fromkeys(("full", "new_full"), _full),
    **dict.fromkeys(("arange", "randperm", "linspace", "logspace"), _counted),
    **dict.fromkeys(("normal", "randint"), _drawn),
    "eye": _eye,
}


def _strides(name: str, shape: Shape, like: Tensor | None, args: Args, kwargs: Named) -> Shape:
    """What is said of the strides; None: row-major."""
    if name == "empty_permuted" and shape is not None:
        return (None,) * len(shape)
    if "strided" in name and shape is not None:
        given = kwargs.get("stride", args[1] if len(args) > 1 else None)
        known = isinstance(given, (list, tuple)) and len(given) == len(shape)
        return tuple(s if isinstance(s, int) else None for s in given or ()) if known else (None,) * len(shape)
    return memory_order.following(shape, [like]) if name.endswith("_like") and like is not None else None


def _lent(interp: Run, lender: Instance, loc: ir.Loc | None) -> Value:
    """The memory that an object tells of by `__cuda_array_interface__`; the object where that is not known."""
    said = interp.get_attr(lender, "__cuda_array_interface__", loc)
    place = said.get("data") if isinstance(said, dict) else None
    tensor = interp.tensor_at(place[0]) if isinstance(place, (list, tuple)) and place else None
    return tensor if tensor is not None else lender


def from_values(
    interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], device: str, loc: ir.Loc | None
) -> Tensor:
    """Models torch.tensor and the like: the tensor has the data's own type, and its content comes from the unknowns in
    it."""
    data = args[0] if args else kwargs.get("data")
    if isinstance(data, Instance):
        data = _lent(interp, data, loc)
    if isinstance(data, Tensor):
        data = tensor_views.plain(data)
        dtype = tensor_arguments.dtype_of(kwargs.get("dtype"), data.dtype)
        return tensor_copies.convert(interp, data, dtype, loc) if dtype != data.dtype else data
    sample: Any = data
    shape: list[Any] = []
    while isinstance(sample, (list, tuple)) and len(shape) < 8:
        shape.append(len(sample))
        sample = sample[0] if sample else 0.0
    if isinstance(sample, Tensor) and sample.shape:
        shape.extend(sample.shape)
    guess = "f32" if isinstance(sample, float) else "bool" if isinstance(sample, bool) else "i64"
    dtype = tensor_arguments.dtype_of(kwargs.get("dtype"), sample.dtype if isinstance(sample, Tensor) else guess)
    contents = interp.contents_of(data)
    size: tuple[Any, ...] | None = None if isinstance(data, Unknown) else tuple(shape)
    if not contents:
        made = recording.make(interp, size, dtype, "constant", device=device)
    else:
        event = Event("copy", "tensor", loc, [(c, Tensor(c.storage, c.dtype, None)) for c in contents])
        interp.emit(event)
        made = recording.make(interp, size, dtype, event=event, device=device)
    if isinstance(data, (list, tuple)) and all(type(item) is int for item in data):
        made.storage.content.notes[whole_numbers.TOTAL] = sum(data)
    recording.addresses(interp, made, data)
    return made
