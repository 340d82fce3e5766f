"""Other views of a tensor's memory: view operations, indexing, and assignment to a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.dtypes import STORED
from kbh_lint.base.values import DType, Value
from kbh_lint.host.torch import recording, view_offsets, view_shapes, whole_numbers
from kbh_lint.host.torch.memory_order import Strides
from kbh_lint.host.torch.signatures import Shape
from kbh_lint.host.values import tensor_arguments, unknowns
from kbh_lint.host.values.tensors import Content, Event, EventAttrs, Tensor, Unknown, broadcast, product, row_major

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

VIEWS = frozenset(
    "view reshape permute transpose t squeeze unsqueeze expand flatten narrow select detach unflatten swapaxes movedim "
    "view_as expand_as as_strided unbind chunk split moveaxis broadcast_to ravel unfold view_as_real adjoint "
    "view_as_complex "
    "diagonal reshape_as alias requires_grad_ squeeze_ unsqueeze_ t_ transpose_ detach_ tensor_split split_with_sizes "
    "numpy_T swapdims meshgrid broadcast_tensors slice".split()
)
ARRAY = "array"  # the attribute of a tensor that is an array of a package with numpy's names (`arrays`)
_KEPT = ("range", "steer", "subclass", "lazy", "lazy_loc", "complex", ARRAY)  # what holds for a view as for its tensor
_COMPLEX_OF = {"f32": "c64", "f64": "c128"}
_PARTS_OF = {wide: part for part, wide in _COMPLEX_OF.items()}

LENGTHS = "lengths"  # the attribute of a view that says what its dimensions are that are no known numbers
_SAME: Any = object()

_PARAMETERS = {
    "flatten": ("start_dim", "end_dim"), "chunk": ("chunks", "dim"), "split": ("split_size", "dim"),
    "split_with_sizes": ("split_sizes", "dim"), "tensor_split": ("indices_or_sections", "dim"),
    "narrow": ("dim", "start", "length"), "slice": ("dim", "start", "end", "step"), "select": ("dim", "index"),
    "unflatten": ("dim", "sizes"),
    "transpose": ("dim0", "dim1"), "swapaxes": ("axis0", "axis1"), "swapdims": ("dim0", "dim1"),
    "movedim": ("source", "destination"),
    "moveaxis": ("source", "destination"), "as_strided": ("size", "stride", "storage_offset"),
    "diagonal": ("offset", "dim1", "dim2"),
    "unfold": ("dimension", "size", "step"), "permute": ("dims",), "expand": ("size",), "broadcast_to": ("size",),
    "reshape": ("shape",), "view": ("size",), "view_as": ("other",), "expand_as": ("other",), "reshape_as": ("other",),
}  # fmt: skip
_OTHER_NAMES = {
    "split_size": ("split_size_or_sections",), "indices_or_sections": ("sections", "indices"),
    "dim0": ("axis0",), "dim1": ("axis1",), "size": ("shape",), "dim": ("axis",),
}  # fmt: skip


def in_order(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> list[Any]:
    """Returns the arguments of a view after the tensor by position, with keywords placed by torch's parameter names."""
    out = list(args)
    names = _PARAMETERS.get(name, ("dim",))
    for place, parameter in enumerate(names):
        given = next((kwargs[k] for k in (parameter, *_OTHER_NAMES.get(parameter, ())) if k in kwargs), None)
        if given is None:
            continue
        while len(out) < place:
            out.append(0)  # only flatten's start_dim may be left out before another
        if len(out) == place:
            out.append(given)
    return out + ([kwargs["dtype"]] if not out and "dtype" in kwargs else [])


def alias(
    tensor: Tensor, shape: Shape | None, strides: Shape | None = None, dtype: str | None = None, is_slice: bool = False,
    offset: int | None = _SAME,
) -> Tensor:  # fmt: skip
    """Returns another view of the tensor's storage, at an `offset` in elements of its own type; at the tensor's start
    when not given."""
    if offset is _SAME:
        bits, wanted = STORED.get(tensor.dtype, 32), STORED.get(dtype or tensor.dtype, 32)
        offset = None if tensor.offset is None or tensor.offset * bits % wanted else tensor.offset * bits // wanted
    return Tensor(
        tensor.storage, dtype or tensor.dtype, shape, strides if strides is not None else row_major(shape),
        offset, tensor.device,
        attrs={name: tensor.attrs[name] for name in _KEPT if name in tensor.attrs},
        is_slice=tensor.is_slice or is_slice,
    )  # fmt: skip


def marked_as(made: Tensor, given: Sequence[Tensor]) -> Tensor:
    """Marks what was computed as an array, where one of the tensors that it was computed from is one; returns it."""
    if any(ARRAY in tensor.attrs for tensor in given):
        made.attrs[ARRAY] = True
    return made


def plain(tensor: Tensor) -> Tensor:
    """Returns the tensor of torch in the memory of an array; a tensor as it is."""
    if ARRAY not in tensor.attrs:
        return tensor
    made = alias(tensor, tensor.shape, tensor.strides)
    made.attrs.pop(ARRAY)
    return made


def view(interp: Run, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Value:
    """Models operations that return a view of the same memory."""
    if name in ("meshgrid", "broadcast_tensors"):
        return _spread(name, args, kwargs)
    tensor = args[0] if args else None
    if not isinstance(tensor, Tensor):
        return tensor
    rest = in_order(name, args[1:], kwargs)
    if name == "slice":  # of ATen: t.slice(dim, start, end, step)
        axis, *bounds = (*rest, 0)[: len(rest) or 1]
        return index(interp, tensor, view_shapes.sliced(tensor.shape, axis, bounds), loc)
    if name == "view" and rest and isinstance(rest[0], DType):
        new = rest[0].name
        strides = tensor.strides if STORED.get(tensor.dtype) == STORED.get(new) else None
        shape = view_shapes.bitcast(tensor.shape, tensor.dtype, new)
        if strides is None and not tensor.is_contiguous():
            strides = (None,) * len(shape or ())
        return alias(tensor, shape, strides, new)
    if name in ("view_as_complex", "view_as_real"):
        return _pairs(tensor, name == "view_as_complex")
    if name in ("unbind", "chunk", "split", "tensor_split", "split_with_sizes"):
        pieces = view_shapes.pieces(name, tensor.shape, rest)
        starts = view_offsets.of_pieces(name, tensor, pieces, rest)
        strides = view_shapes.of_pieces(name, tensor, rest)
        parts = [alias(tensor, s, strides, is_slice=True, offset=at) for s, at in zip(pieces, starts, strict=True)]
        return tuple(_bounded(interp, part, rest) for part in parts)
    shape, strides = view_shapes.viewed(name, tensor, rest)
    sliced = name in ("narrow", "select", "as_strided", "unfold", "diagonal")
    if name in ("reshape", "flatten", "ravel", "reshape_as") and not tensor.is_contiguous() and strides is None:
        event = recording.record(interp, "copy", "reshape", loc, [tensor], {"cast": False})
        return recording.make(interp, shape, tensor.dtype, event=event, device=tensor.device)
    offset = view_offsets.viewed(name, tensor, rest) if sliced else _SAME
    part = alias(tensor, shape, strides, is_slice=sliced, offset=offset)
    if name == "narrow":
        _narrowed(part, rest)
    return _bounded(interp, part, rest) if sliced else part


def _bounded(interp: Run, part: Tensor, bounds: Sequence[Value]) -> Tensor:
    """A part of a tensor, which depends on what its bounds were computed from."""
    steer = bounds_from(interp, bounds)
    if steer:
        part.attrs["steer"] = (*part.attrs.get("steer", ()), *steer)
    return part


def _pairs(tensor: Tensor, joined: bool) -> Tensor:
    """The last dimension's pairs of numbers as complex ones, or complex numbers as such pairs."""
    shape = None if tensor.shape is None else tensor.shape[:-1] if joined else (*tensor.shape, 2)
    dtype = (_COMPLEX_OF if joined else _PARTS_OF).get(tensor.dtype, "?")
    strides = None if tensor.is_contiguous() else (None,) * len(shape or ())
    made = alias(tensor, shape, strides, dtype)
    if not joined:
        made.attrs.pop("complex", None)
    return made


def _spread(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """Views of several tensors over one grid, or over the shape that they broadcast to."""
    tensors = tensor_arguments.tensors_in(args)
    if name == "broadcast_tensors":
        shape = broadcast([tensor.shape for tensor in tensors])
        return tuple(_expanded(tensor, tensor.shape, tensor.strides, shape) for tensor in tensors)
    sizes = [None if t.shape is None else t.shape[0] if t.shape else 1 for t in tensors]
    order = list(range(len(sizes)))
    if kwargs.get("indexing") == "xy":
        order[:2] = order[1::-1]
    grid = tuple(sizes[i] for i in order)
    out = []
    for i, tensor in enumerate(tensors):
        step = tensor.strides[0] if tensor.strides else 1
        shape = tuple(size if at == i else 1 for size, at in zip(grid, order, strict=True))
        out.append(_expanded(tensor, shape, tuple(step if at == i else 0 for at in order), grid))
    return tuple(out)


def _expanded(tensor: Tensor, shape: Shape, strides: Strides, wanted: Shape) -> Tensor:
    if shape is None or wanted is None:
        return alias(tensor, None)
    return alias(tensor, *view_shapes.expanded(shape, strides or row_major(shape), wanted))


def _narrowed(part: Tensor, rest: Sequence[Value]) -> None:
    """Notes how long a part is along the dimension that `narrow(axis, start, length)` cuts."""
    axis, length = (rest[0], rest[2]) if len(rest) > 2 else (None, None)
    if isinstance(axis, int) and isinstance(length, Unknown):
        part.attrs[LENGTHS] = {axis % len(part.shape or (1,)): length}


def index(interp: Run, tensor: Tensor, key: Value, loc: ir.Loc | None) -> Any:
    """Evaluates `tensor[key]`."""
    keys = key if isinstance(key, tuple) else (key,)
    # one element or row, as loops take them
    if keys and "known" not in tensor.attrs and all(type(k) is int for k in keys):
        rank, strides = len(keys), tensor.strides if tensor.strides is not None else row_major(tensor.shape)
        rest = None if tensor.shape is None else tensor.shape[rank:]
        steps = None if strides is None else strides[rank:]
        return alias(tensor, rest, steps, is_slice=True, offset=view_offsets.indexed(tensor, keys))
    known = tensor.attrs.get("known")
    if known is not None and len(keys) == 1 and isinstance(keys[0], int) and keys[0] in known:
        one = alias(tensor, (), (), is_slice=True, offset=view_offsets.indexed(tensor, keys))
        one.attrs["value"] = known[keys[0]]
        return one
    shape = view_shapes.indexed(tensor.shape, keys)
    picked = tensor_arguments.tensors_in(list(keys))
    if picked or any(isinstance(k, list) for k in keys):
        event = recording.record(interp, "copy", "index", loc, [tensor, *picked], {"cast": False})
        strides = None if tensor.is_contiguous() or shape is None else (None,) * len(shape)
        made = recording.make(interp, shape, tensor.dtype, event=event, strides=strides, device=tensor.device)
        return marked_as(made, [tensor])
    if all(map(_takes_all, keys)):
        return alias(tensor, shape, view_shapes.indexed_strides(tensor, keys))
    offset = view_offsets.indexed(tensor, keys)
    part = alias(tensor, shape, view_shapes.indexed_strides(tensor, keys), is_slice=True, offset=offset)
    _cut(interp, part, keys)
    return _bounded(interp, part, keys)


def _cut(interp: Run, part: Tensor, keys: Sequence[Value]) -> None:
    """Notes how long a part is along dimensions where it is cut at numbers that are not known."""
    if not all(isinstance(key, slice) for key in keys):
        return
    found = {}
    for axis, key in enumerate(keys):
        if isinstance(key, slice) and isinstance(key.stop, Unknown) and key.step in (None, 1):
            start = 0 if key.start is None else key.start
            ends = whole_numbers.apart(key.stop, start)
            found[axis] = unknowns.merged(interp, start, key.stop, why="a dimension", ends=ends)
    if found:
        part.attrs[LENGTHS] = found


def _takes_all(key: Value) -> bool:
    """Whether a key leaves nothing of a dimension out: `:`, `...`, and None, which adds one."""
    return not isinstance(key, Unknown) and (key is None or key is Ellipsis or key == slice(None))


def bounds_from(interp: Run, keys: Sequence[Value]) -> tuple[Content, ...]:
    """Returns the contents that indices and slice bounds were computed from."""
    parts = [part for key in keys for part in ((key.start, key.stop, key.step) if isinstance(key, slice) else (key,))]
    found: tuple[Content, ...] = interp.contents_of(parts)
    return found


def assign_index(interp: Run, tensor: Tensor, key: Value, value: Value, loc: ir.Loc | None) -> None:
    """Evaluates `tensor[key] = value`."""
    inputs = tensor_arguments.tensors_in([value]) + tensor_arguments.tensors_in([key])
    contents = interp.contents_of(value) if isinstance(value, Unknown) else ()
    attrs: EventAttrs = {}
    if isinstance(value, Tensor):
        attrs = {"from": value.dtype, "to": tensor.dtype, "cast": value.dtype != tensor.dtype}
    steer = (*recording.steered_by(inputs), *bounds_from(interp, key if isinstance(key, tuple) else (key,)))
    if steer:
        attrs["steer"] = steer
    event = Event("copy", "setitem", loc, [(t.storage.content, t) for t in inputs], attrs=attrs)
    event.reads.extend((c, Tensor(c.storage, c.dtype, None)) for c in contents)
    interp.emit(event)
    whole, old = key == slice(None) or key is Ellipsis, tensor.storage.content
    count = None if whole else product(view_shapes.indexed(tensor.shape, key if isinstance(key, tuple) else (key,)))
    recording.write(interp, tensor, event, partial=not whole, count=count)
    recording.addresses(interp, tensor, value, old)


def rows(interp: Run, tensor: Tensor, loc: ir.Loc | None, want: int | None) -> Sequence[Value]:
    """Returns the items of iterating over a tensor; `want` is their number where the tensor's length is not known."""
    count = tensor.shape[0] if tensor.shape else want
    if not isinstance(count, int):
        count = want or 1
    rest = tensor.shape[1:] if tensor.shape else None
    strides = tensor.strides[1:] if tensor.strides else None
    starts = [view_offsets.indexed(tensor, (i,)) for i in range(min(count, 4096))]
    return [alias(tensor, rest, strides, is_slice=True, offset=at) for at in starts]
