"""Shapes and element types of what torch operations compute. None stands for what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbh_lint.dtypes import FLOATS
from kbh_lint.host.values.tensors import Tensor, broadcast, product, promote
from kbh_lint.values import DType

Shape = tuple[Any, ...] | None

_TO_BOOL = frozenset(
    "eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_not isclose any all".split()
)
_REDUCE = frozenset(
    "sum mean amax amin max min prod any all norm var std argmax argmin logsumexp count_nonzero".split()
)
_FLOAT_RESULT = frozenset(
    "div true_divide exp log sqrt rsqrt sin cos sigmoid mean tanh softmax reciprocal exp2 log2".split()
)


def _dims(args: Sequence[Any], kwargs: dict[str, Any], rank: int) -> list[int] | None:
    """The reduced dimensions: None means all."""
    value = kwargs.get("dim", kwargs.get("axis"))
    if value is None and len(args) > 1 and isinstance(args[1], (int, tuple, list)) and not isinstance(args[1], bool):
        value = args[1]
    if value is None:
        return None
    values = value if isinstance(value, (tuple, list)) else [value]
    return [v % rank for v in values if isinstance(v, int) and rank]


def result(name: str, args: Sequence[Any], kwargs: dict[str, Any], inputs: Sequence[Tensor]) -> tuple[Shape, str]:
    """The shape and element type of an operation's (first) result."""
    first = inputs[0]
    dtype = _result_dtype(name, kwargs, inputs)
    if name in ("matmul", "mm", "bmm", "mv", "_scaled_mm", "scaled_mm", "_int_mm", "linear", "dot", "inner"):
        return matmul_shape(name, inputs), dtype
    if name in ("addmm", "baddbmm", "addmv", "addbmm"):
        return matmul_shape("matmul", inputs[1:]), dtype
    if name == "einsum":
        return einsum_shape(args, inputs), dtype
    if name in ("solve_triangular", "solve"):
        return inputs[-1].shape, dtype
    if name in ("cat", "concat"):
        return cat_shape(inputs, _axis(args, kwargs)), dtype
    if name == "stack":
        shape = first.shape
        if shape is None:
            return None, dtype
        axis = _axis(args, kwargs) % (len(shape) + 1)
        return (*shape[:axis], len(inputs), *shape[axis:]), dtype
    if name in _REDUCE and first.shape is not None:
        if name in ("max", "min") and len(inputs) > 1:
            return broadcast([t.shape for t in inputs]), dtype
        dims = _dims(args, kwargs, len(first.shape))
        keep = kwargs.get("keepdim", kwargs.get("keepdims", args[2] if len(args) > 2 else False)) is True
        if dims is None:
            return (), dtype
        kept = [1 if i in dims else d for i, d in enumerate(first.shape) if keep or i not in dims]
        return tuple(kept), dtype
    if name == "topk":
        k = args[1] if len(args) > 1 else kwargs.get("k")
        return (*first.shape[:-1], k if isinstance(k, int) else None) if first.shape else None, dtype
    if name == "pad" and first.shape is not None:
        return _padded(first.shape, args[1] if len(args) > 1 else kwargs.get("pad", ())), dtype
    if name in ("repeat", "tile", "repeat_interleave", "scatter_reduce", "nonzero", "masked_select", "unfold"):
        return None, "i64" if name == "nonzero" else dtype
    if name in ("gather", "index_select") and len(inputs) > 1:
        return (inputs[-1].shape if name == "gather" else None), dtype
    if name in ("cumsum", "cumprod", "sort", "softmax", "tril", "triu", "flip", "roll", "scatter", "index_add"):
        return first.shape, dtype
    return broadcast([t.shape for t in inputs]), dtype


def _axis(args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    value = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else 0))
    return value if isinstance(value, int) else 0


def _result_dtype(name: str, kwargs: dict[str, Any], inputs: Sequence[Tensor]) -> str:
    for key in ("dtype", "out_dtype"):
        if isinstance(kwargs.get(key), DType):
            return str(kwargs[key].name)
    if name in _TO_BOOL:
        return "bool"
    if name in ("argmax", "argmin", "argsort", "nonzero", "searchsorted", "bucketize"):
        return "i64"
    if name == "where" and len(inputs) > 1:
        inputs = inputs[1:]
    dtype = inputs[0].dtype
    for other in inputs[1:]:
        if other.shape == () and (other.dtype in FLOATS) == (dtype in FLOATS):
            continue
        dtype = promote(dtype, other.dtype)
    if name in ("sum", "cumsum", "prod") and dtype not in FLOATS:
        return "i64"
    if name in _FLOAT_RESULT and dtype not in FLOATS:
        return "f32"
    return dtype


def results(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    """How many tensors an operation returns."""
    if name in ("topk", "sort", "kthvalue", "cummax", "cummin", "aminmax", "inv_ex", "frexp"):
        return 2
    if name in ("max", "min", "median") and ("dim" in kwargs or (len(args) > 1 and isinstance(args[1], int))):
        return 2
    return 1


def matmul_shape(name: str, inputs: Sequence[Tensor]) -> Shape:
    """The shape of a product of the first two tensors."""
    if len(inputs) < 2 or inputs[0].shape is None or inputs[1].shape is None:
        return None
    a, b = inputs[0].shape, inputs[1].shape
    if name == "linear":
        return (*a[:-1], b[0]) if len(b) == 2 and a else None
    if name == "inner":
        return (*a[:-1], *b[:-1]) if a and b else a or b
    if len(a) == 1 and len(b) == 1:
        return ()
    if len(b) == 1:
        return a[:-1]
    if len(a) == 1:
        return (*b[:-2], b[-1])
    batch = broadcast([a[:-2], b[:-2]])
    return (*batch, a[-2], b[-1]) if batch is not None else None


def einsum_shape(args: Sequence[Any], inputs: Sequence[Tensor]) -> Shape:
    """The shape of an einsum with explicit output letters."""
    equation = args[0] if args and isinstance(args[0], str) else ""
    left, arrow, right = str(equation).replace(" ", "").partition("->")
    if not arrow or "." in equation:
        return None
    sizes: dict[str, Any] = {}
    for letters, tensor in zip(left.split(","), inputs, strict=False):
        if tensor.shape is None or len(letters) != len(tensor.shape):
            return None
        sizes.update(zip(letters, tensor.shape, strict=True))
    return tuple(sizes.get(letter) for letter in right)


def cat_shape(inputs: Sequence[Tensor], axis: int) -> Shape:
    """The shape of a concatenation."""
    shape = inputs[0].shape
    if not shape:
        return None
    axis %= len(shape)
    total: Any = 0
    for tensor in inputs:
        size = tensor.shape[axis] if tensor.shape is not None and len(tensor.shape) == len(shape) else None
        total = total + size if isinstance(total, int) and isinstance(size, int) else None
    return (*shape[:axis], total, *shape[axis + 1 :])


def _padded(shape: tuple[Any, ...], pad: Any) -> Shape:
    out = list(shape)
    if not isinstance(pad, (list, tuple)):
        return None
    for i in range(0, len(pad) - 1, 2):
        at = len(out) - 1 - i // 2
        if at < 0:
            return None
        known = all(isinstance(v, int) for v in (out[at], pad[i], pad[i + 1]))
        out[at] = out[at] + pad[i] + pad[i + 1] if known else None
    return tuple(out)


def product_flops(name: str, args: Sequence[Any], inputs: Sequence[Tensor]) -> int | None:
    """Twice the multiply-adds of a product or a triangular solve; None when a size is unknown."""
    if name in ("outer", "ger", "kron") or len(inputs) < 1:
        return 0
    if name == "einsum":
        equation = str(args[0]).replace(" ", "") if args and isinstance(args[0], str) else ""
        left, _, right = equation.partition("->")
        sizes: dict[str, Any] = {}
        for letters, tensor in zip(left.split(","), inputs, strict=False):
            if tensor.shape is None or len(letters) != len(tensor.shape):
                return None
            sizes.update(zip(letters, tensor.shape, strict=True))
        if set(sizes) <= set(right):
            return 0  # nothing is summed: an outer product or a scaling
        count = product(tuple(sizes.values()))
        return 2 * count if count is not None else None
    operands = list(inputs[1:]) if name in ("addmm", "baddbmm", "addmv", "addbmm") else list(inputs)
    if name.startswith("conv") and len(operands) > 1 and operands[1].shape is not None:
        count = product((*operands[1].shape[1:], *(operands[0].shape or (None,))))
        return 2 * count if count is not None else None
    if name in ("solve_triangular", "solve", "inv", "inverse", "cholesky"):
        n = product(operands[0].shape)
        width = operands[-1].shape[-1] if operands[-1].shape else None
        return n * width if n is not None and isinstance(width, int) else None
    if len(operands) < 2 or operands[0].shape is None or not operands[0].shape:
        return None
    out = product(matmul_shape(name, operands))
    inner = operands[0].shape[-1]
    return 2 * out * inner if out is not None and isinstance(inner, int) else None


def arange_length(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> int | None:
    """Elements of arange, randperm and linspace."""
    values = [*args]
    for key in ("start", "end", "step", "steps", "n"):
        if key in kwargs:
            values.append(kwargs[key])
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if len(numbers) != len([v for v in values if not isinstance(v, DType)]):
        return None
    if name == "randperm":
        return int(numbers[0]) if numbers else None
    if name == "linspace":
        return int(numbers[-1]) if numbers else None
    start, end, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3] if len(numbers) > 1 else (0, 0, 1)
    return max(0, -int(-(end - start) // step)) if step else None
