"""Operations that put elements elsewhere: joining, padding, picking, repeating."""

from __future__ import annotations

from typing import Any

from kbh_lint.base.dtypes import UNKNOWN
from kbh_lint.host.torch import whole_numbers
from kbh_lint.host.torch.signatures import NOTHING, Called, Made, Shape, Table, each
from kbh_lint.host.values.tensors import Tensor, broadcast, product


def _added(sizes: list[Any]) -> int | None:
    return sum(sizes) if all(isinstance(size, int) for size in sizes) else None


def joined(shapes: list[Shape], axis: int | None) -> Shape:
    """Returns the shape of a concatenation along a dimension, which may count from the end; None where not known."""
    known = [shape for shape in shapes if shape != (0,)] or shapes  # torch lets an empty row be anywhere
    first = known[0] if known else None
    if not first or axis is None or not -len(first) <= axis < len(first):
        return None
    axis %= len(first)
    whole = all(shape is not None and len(shape) == len(first) for shape in known)
    total = _added([shape[axis] for shape in known if shape]) if whole else None
    return (*first[:axis], total, *first[axis + 1 :])


def _listed(called: Called) -> list[Tensor]:
    """The tensors of a list; none when one of its items is not known to be one."""
    values = called.given.get("tensors")
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, Tensor) for value in values):
        return []
    return list(values)


def _cat(called: Called) -> Made:
    tensors = _listed(called)
    return (joined([t.shape for t in tensors], called.number("dim")) if tensors else None), called.common


def _stack(called: Called) -> Made:
    tensors = _listed(called)
    shape, axis = (tensors[0].shape if tensors else None), called.number("dim")
    if shape is None or axis is None or not -len(shape) - 1 <= axis <= len(shape):
        return None, called.common
    axis %= len(shape) + 1
    return (*shape[:axis], len(tensors), *shape[axis:]), called.common


def _grown(shape: Shape, name: str) -> Shape:
    """The shape that hstack, vstack, dstack and column_stack first give to each tensor."""
    if shape is None:
        return None
    if name == "hstack":
        return shape or (1,)
    if name == "column_stack":
        return (shape[0] if shape else 1, 1) if len(shape) < 2 else shape
    if name == "dstack":
        return (1, shape[0] if shape else 1, 1) if len(shape) < 2 else (*shape, 1) if len(shape) == 2 else shape
    return (1, shape[0] if shape else 1) if len(shape) < 2 else shape


def _stacked(called: Called) -> Made:
    grown = [_grown(tensor.shape, called.name) for tensor in _listed(called)]
    if not grown or grown[0] is None:
        return None, called.common
    axis = {"hstack": 0 if len(grown[0]) == 1 else 1, "column_stack": 1, "dstack": 2}.get(called.name, 0)
    return joined(grown, axis), called.common


def _pad(called: Called) -> Made:
    shape, pad = called.shape(), called.given.get("pad")
    if shape is None or not isinstance(pad, (list, tuple)) or len(pad) % 2 or len(pad) > 2 * len(shape):
        return None, called.dtype
    out = list(shape)
    for i in range(0, len(pad), 2):
        out[len(out) - 1 - i // 2] = _added([out[len(out) - 1 - i // 2], pad[i], pad[i + 1]])
    return tuple(out), called.dtype


def _repeat(called: Called) -> Made:
    shape, times = called.shape(), called.given.get("sizes")
    if shape is None or not isinstance(times, tuple):
        return None, called.dtype
    if called.name == "tile":
        times = (1,) * (len(shape) - len(times)) + times
    if len(times) < len(shape):
        return None, called.dtype
    pairs = zip((1,) * (len(times) - len(shape)) + shape, times, strict=True)
    return tuple(d * n if isinstance(d, int) and isinstance(n, int) else None for d, n in pairs), called.dtype


def _repeat_each(called: Called) -> Made:
    shape, times = called.shape(), called.number("repeats")
    if shape is None:
        return None, called.dtype
    repeats = called.given.get("repeats")
    if repeats is None and len(shape) == 1:  # the places of these counts
        return (whole_numbers.total(called.given.get("input")),), "i64"
    if called.given.get("dim") is None:
        count, told = product(shape), called.number("output_size")
        if told is None and isinstance(repeats, Tensor) and repeats.shape == (count,):
            told = whole_numbers.total(repeats)
        if told is not None:
            return (told,), called.dtype
        return (count * times if count is not None and times is not None else None,), called.dtype
    axis = called.axis()
    if axis is None or not shape:
        return None, called.dtype
    size = shape[axis] * times if isinstance(shape[axis], int) and times is not None else None
    if isinstance(repeats, Tensor) and repeats.shape == (shape[axis],):
        size = whole_numbers.total(repeats)
    if called.number("output_size") is not None:
        size = called.number("output_size")
    return (*shape[:axis], size, *shape[axis + 1 :]), called.dtype


def _gather(called: Called) -> Made:
    return called.shape("index"), called.dtype


def _take_along(called: Called) -> Made:
    shape, index, axis = called.shape(), called.shape("index"), called.axis()
    if shape is None or index is None or len(shape) != len(index) or axis is None:
        return (index if called.given.get("dim") is None else None), called.dtype
    both = [broadcast([(a,), (b,)]) for a, b in zip(shape, index, strict=True)]
    return tuple(index[i] if i == axis else b[0] if b else None for i, b in enumerate(both)), called.dtype


def _index_select(called: Called) -> Made:
    shape, index, axis = called.shape(), called.shape("index"), called.axis()
    if shape is None or index is None or axis is None:
        return None, called.dtype
    if not shape:
        return (), called.dtype
    return (*shape[:axis], index[0] if index else 1, *shape[axis + 1 :]), called.dtype


def _nonzero(called: Called) -> Made | list[Made]:
    shape = called.shape()
    if shape is None:
        return None, "i64"
    if called.given.get("as_tuple") is True:
        return [((None,), "i64")] * max(len(shape), 1)
    return (None, len(shape)), "i64"


def _halved(called: Called) -> Made:
    shape, axis = called.shape(), called.axis()
    if not shape or axis is None:
        return None, called.dtype
    half = shape[axis] // 2 if isinstance(shape[axis], int) else None
    return (*shape[:axis], half, *shape[axis + 1 :]), called.dtype


def _one_hot(called: Called) -> Made:
    shape, count = called.shape(), called.number("num_classes")
    return ((*shape, count if count is not None and count > 0 else None) if shape is not None else None), "i64"


def _drawn(called: Called) -> Made:
    shape = called.shape()
    return ((*shape[:-1], called.number("num_samples")) if shape else None), "i64"


def _diag(called: Called) -> Made:
    shape, off = called.shape(), called.number("diagonal")
    if shape is None or off is None or len(shape) not in (1, 2) or not all(isinstance(d, int) for d in shape):
        return None, called.dtype
    if len(shape) == 1:
        return (shape[0] + abs(off),) * 2, called.dtype
    return (diagonal_length(shape[0], shape[1], off),), called.dtype


def diagonal_length(rows: int, columns: int, off: int) -> int:
    """Returns the number of elements on a diagonal of a matrix, at the offset `off`."""
    return max(min(rows, columns - off) if off >= 0 else min(rows + off, columns), 0)


def _diag_embed(called: Called) -> Made:
    shape, off = called.shape(), called.number("offset")
    places = (called.number("dim1"), called.number("dim2"))
    if not shape or off is None or places != (-2, -1):
        return None, called.dtype
    size = shape[-1] + abs(off) if isinstance(shape[-1], int) else None
    return (*shape[:-1], size, size), called.dtype


def _meshgrid(called: Called) -> list[Made]:
    given = called.given["tensors"]
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        given = tuple(given[0])
    tensors = [value for value in given if isinstance(value, Tensor)]
    sizes = [None if t.shape is None else t.shape[0] if t.shape else 1 for t in tensors]
    if called.given.get("indexing") == "xy" and len(sizes) > 1:
        sizes[0], sizes[1] = sizes[1], sizes[0]
    return [(tuple(sizes), tensor.dtype) for tensor in tensors]


def _broadcast_all(called: Called) -> list[Made]:
    shape = broadcast([tensor.shape for tensor in called.inputs])
    return [(shape, tensor.dtype) for tensor in called.inputs]


def _turned(called: Called) -> Made:
    shape, times = called.shape(), called.number("k")
    dims = called.given.get("dims")
    if shape is None or times is None or not isinstance(dims, (list, tuple)) or len(dims) != 2:
        return None, called.dtype
    if not all(isinstance(d, int) and -len(shape) <= d < len(shape) for d in dims):
        return None, called.dtype
    out = list(shape)
    if times % 2:
        out[dims[0]], out[dims[1]] = out[dims[1]], out[dims[0]]
    return tuple(out), called.dtype


def _cross(called: Called) -> Made:
    a, b = called.tensor("input"), called.tensor("other")
    return (broadcast([a.shape, b.shape]) if a is not None and b is not None else None), called.common


def _differences(called: Called) -> Made:
    shape, axis, times = called.shape(), called.axis(), called.number("n")
    if not shape or axis is None or times is None or called.given.get("prepend") is not None:
        return None, called.dtype
    if called.given.get("append") is not None:
        return None, called.dtype
    size = max(shape[axis] - times, 0) if isinstance(shape[axis], int) else None
    return (*shape[:axis], size, *shape[axis + 1 :]), called.dtype


def _complex(called: Called) -> Made:
    return called.shape(), "c128" if called.dtype == "f64" else "c64" if called.dtype == "f32" else UNKNOWN


def _grid_of(called: Called) -> Made:
    """cartesian_prod of rows."""
    sizes = [tensor.shape[0] if tensor.shape else None for tensor in called.inputs]
    if len(sizes) < 2:
        return NOTHING
    return (product(tuple(sizes)), len(sizes)), called.common


TABLE: Table = {
    **each("cat concat concatenate", "tensors dim=0", _cat),
    **each("stack", "tensors dim=0", _stack),
    **each("hstack vstack dstack column_stack row_stack", "tensors", _stacked),
    **each("pad constant_pad_nd", "input pad mode='constant' value=None", _pad),
    **each("repeat tile", "input *sizes", _repeat),
    **each("repeat_interleave", "input repeats=None dim=None output_size=None", _repeat_each),
    **each("gather", "input dim index sparse_grad=None", _gather),
    **each("take", "input index", _gather),
    **each("take_along_dim", "input index dim=None", _take_along),
    **each("index_select", "input dim index", _index_select),
    **each("nonzero argwhere", "input as_tuple=False", _nonzero),
    **each("glu", "input dim=-1", _halved),
    **each("one_hot", "input num_classes=-1", _one_hot),
    **each("multinomial", "input num_samples replacement=None", _drawn),
    **each("diag", "input diagonal=0", _diag),
    **each("diag_embed", "input offset=0 dim1=-2 dim2=-1", _diag_embed),
    **each("meshgrid", "*tensors", _meshgrid),
    **each("broadcast_tensors", "*tensors", _broadcast_all),
    **each("cartesian_prod", "*tensors", _grid_of),
    **each("rot90", "input k=1 dims=(0,1)", _turned),
    **each("cross", "input other dim=None", _cross),
    **each("diff", "input n=1 dim=-1 prepend=None append=None", _differences),
    **each("complex polar", "input other", _complex),
}  # fmt: skip
