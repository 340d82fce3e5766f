"""Shapes and element types of what torch operations compute, by one table. None stands for what is not known: an
operation that is not in the table, or a call that its rule cannot read, has an unknown shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from kbh_lint.base.values import DType, Value
from kbh_lint.host.torch import aten_names, contractions, elementwise, rearranging, recurrent, reductions, windows
from kbh_lint.host.torch.signatures import NOTHING, Called, Made, Shape, Table, bind
from kbh_lint.host.values.tensors import Tensor, product

_PARTS = (elementwise, reductions, contractions, windows, rearranging, recurrent)
TABLE: Table = {name: rule for part in _PARTS for name, rule in part.TABLE.items()}
_BY_PATH = {"torch.nn.functional.unfold": "im2col"}  # where the last name says something else elsewhere


def name_of(path: str) -> str:
    """Returns the name of an operation in the table: the last part of its path, without a module name that ATen
    prefixes."""
    return _name_of(path) if type(path) is str else _name_of.__wrapped__(path)  # others know where they come from


@lru_cache(maxsize=4096)
def _name_of(path: str) -> str:
    return _BY_PATH.get(path) or aten_names.public(path.rsplit(".", 1)[-1].rsplit("::", 1)[-1])


def results(
    path: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], inputs: Sequence[Tensor]
) -> Made | list[Made]:
    """Returns the shape and element type of an operation's result, or of each of its results."""
    known = TABLE.get(name)
    if known is None or not inputs or path.startswith("numpy.") and name not in elementwise.TABLE:
        return NOTHING
    signature, rule = known
    given = bind(signature, args, kwargs)
    return NOTHING if given is None else rule(Called(name, given, inputs))


def product_flops(name: str, args: Sequence[Value], inputs: Sequence[Tensor], out: Shape) -> int | None:
    """Returns twice the multiply-adds of a product or a triangular solve, whose result has the shape `out`; None when a
    size is unknown."""
    if name in ("outer", "ger", "kron") or len(inputs) < 1:
        return 0
    if name == "einsum":
        return _einsum_flops(args, inputs)
    operands = list(inputs[1:]) if name in ("addmm", "baddbmm", "addmv", "addbmm") else list(inputs)
    if name == "convolution_backward":
        return _gradient_flops(args, operands)
    if name.startswith("conv") and len(operands) > 1 and operands[1].shape is not None:
        whole = product(operands[0].shape if "transpose" in name else out)
        each = product(operands[1].shape[1:])
        return 2 * whole * each if whole is not None and each is not None else None
    if name in ("solve_triangular", "solve", "inv", "inverse", "cholesky"):
        n = product(operands[0].shape)
        width = operands[-1].shape[-1] if operands[-1].shape else None
        return n * width if n is not None and isinstance(width, int) else None
    if len(operands) < 2 or not operands[0].shape:
        return None
    count, inner = product(out), operands[0].shape[-1]
    if "attention" in name:
        keys = operands[1].shape[-2] if operands[1].shape and len(operands[1].shape) > 1 else None
        inner = 2 * keys if isinstance(keys, int) else None
    return 2 * count * inner if count is not None and isinstance(inner, int) else None


def _gradient_flops(args: Sequence[Value], operands: Sequence[Tensor]) -> int | None:
    """What one of a convolution's two gradients takes: the gradient of its result, its input and its weight are the
    first three."""
    if len(operands) < 3 or not operands[2].shape:
        return None
    transposed = args[7] if len(args) > 7 else None
    whole, each = product(operands[1 if transposed else 0].shape), product(operands[2].shape[1:])
    return 2 * whole * each if whole is not None and each is not None else None


def _einsum_flops(args: Sequence[Value], inputs: Sequence[Tensor]) -> int | None:
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


def arange_length(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> int | None:
    """Returns the number of elements of arange, randperm or linspace; None when not known."""
    values = [*args]
    for key in ("start", "end", "step", "steps", "n"):
        if key in kwargs:
            values.append(kwargs[key])
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if len(numbers) != len([v for v in values if not isinstance(v, DType)]):
        return None
    if name == "randperm":
        return int(numbers[0]) if numbers else None
    if name in ("linspace", "logspace"):
        steps = kwargs.get("steps", args[2] if len(args) > 2 else None)
        return steps if isinstance(steps, int) else None
    start, end, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3] if len(numbers) > 1 else (0, 0, 1)
    return max(0, -int(-(end - start) // step)) if step else None
