# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""Whether outputs are what the contract says, and how far they are from the oracle's.

Metrics, with y the output, r the oracle in fp64 and tol the bound:

- `scaled`: |y - r| <= tol * (|r| + s), s the root mean square of r over the dimensions `over`
- `element`: |y - r| <= tol * |r|
- `allclose`: |y - r| <= tol * (1 + |r|)
- `selection`: values equal to the oracle's bit for bit, indices unique, in range and pointing at the values

An element's error is the smallest tol that would pass it. NaN or Inf where the oracle is finite is an infinite error,
also outside a region.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from grader.deck.code import TORCH_DTYPES
from grader.wire.outputs import Expected, output_faults

if TYPE_CHECKING:
    from grader.deck.cases import Bound, Case
    from kbh_lint.problems import Binding

__all__ = [
    "Comparison",
    "Worst",
    "compare",
    "contract_faults",
    "error",
    "output_name",
]

CHUNK_ELEMENTS = 1 << 25  # about 1.5 GB of fp64 temporaries
WORDS = {
    "scaled": "relative to |r| + rms",
    "element": "relative to |r|",
    "allclose": "relative to 1 + |r|",
}


@dataclass(frozen=True, slots=True)
class Worst:
    """The element with the largest error of all outputs."""

    output: int
    index: tuple[int, ...]
    got: float
    expected: float
    error: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of one comparison. `error` is the smallest tolerance that would pass; `message` is for people."""

    ok: bool
    error: float
    tolerance: float
    wrong: int
    total: int
    worst: Worst | None
    message: str


def contract_faults(outputs: object, case: Case) -> list[str]:
    """What is wrong with the outputs before any value is looked at; one short sentence each, none when all is well."""
    return output_faults(outputs, expected_of(case), _device_of(case), {**case.inputs, **case.state})


def expected_of(case: Case) -> tuple[Expected, ...]:
    """The outputs that a case's contract asks for."""
    specs = case.binding.outputs
    return tuple(
        Expected(output_name(case.binding, i), TORCH_DTYPES[s.dtype], tuple(s.shape)) for i, s in enumerate(specs)
    )


def output_name(binding: Binding, position: int) -> str:
    """The output's name in the contract, or `y`, or `y0`, `y1`, ... where it has none."""
    outputs = binding.outputs
    return outputs[position].name or ("y" if len(outputs) == 1 else f"y{position}")


def compare(
    outputs: Sequence[Tensor], oracle: Sequence[Tensor], case: Case, *, rows: Tensor | None = None
) -> Comparison:
    """Outputs (of the contract's shapes, on the oracle's device) against the oracle by each output's bound.

    `rows` are the numbers that the rows have in the whole outputs, where only some are given; for what is said of them.
    """
    if case.bounds[0].metric == "selection":
        parts = [_compare_selection(outputs, oracle, case)]
    else:
        bounds = case.bounds
        parts = [_compare_one(i, *o, case, rows) for i, o in enumerate(zip(outputs, oracle, bounds, strict=True))]
    failing = [part for part in parts if not part.ok]
    leading = max(parts, key=_excess)
    return Comparison(
        ok=not failing,
        error=leading.error,
        tolerance=leading.tolerance,
        wrong=sum(part.wrong for part in parts),
        total=sum(part.total for part in parts),
        worst=leading.worst,
        message="; ".join(part.message for part in failing),
    )


def error(got: Tensor, want: Tensor, bound: Bound) -> Tensor:
    """Elementwise smallest tolerance that would pass, in fp64; 0 outside the bound's region."""
    metric, mask, _ = _rule(bound)
    scale = _scale(want, bound.over) if metric == "scaled" else None
    return _errors(got, want, metric, scale, mask)


def _rule(bound: Bound) -> tuple[str, Tensor | None, float]:
    """(metric, mask, tolerance) that hold for one output."""
    region = bound.region
    if region is None:
        return bound.metric, None, bound.tolerance
    return region.metric, region.mask, region.tolerance


def _errors(got: Tensor, want: Tensor, metric: str, scale: Tensor | None, mask: Tensor | None) -> Tensor:
    y, r = got.double(), want.double()
    if metric == "scaled":
        assert scale is not None
        unit = r.abs() + scale
    elif metric == "element":
        unit = r.abs()
    elif metric == "allclose":
        unit = r.abs() + 1.0
    else:
        raise ValueError(f"there is no elementwise error for the metric {metric!r}")
    distance = (y - r).abs_()
    result = distance / unit
    result.masked_fill_(distance == 0, 0.0)
    if mask is not None:
        result.masked_fill_(~mask, 0.0)
    finite_r = torch.isfinite(r)
    result.masked_fill_(finite_r & ~torch.isfinite(y), math.inf)
    same = (y == r) | (y.isnan() & r.isnan())
    result = torch.where(finite_r, result, torch.where(same, 0.0, math.inf))
    return result.nan_to_num_(nan=math.inf, posinf=math.inf)


def _scale(want: Tensor, over: tuple[int, ...]) -> Tensor:
    """Root mean square of the finite part over `over` (no dimensions: of every element by itself), kept as size 1."""
    dims = tuple(sorted({d % want.dim() for d in over})) if want.dim() else ()
    count = math.prod(want.shape[d] for d in dims)
    if not dims:
        return torch.where(torch.isfinite(want), want.double().abs(), 0.0)
    if 0 not in dims:
        parts = [_squares(want[rows], dims) for rows in _row_blocks(want)]
        total = torch.cat(parts) if parts else _squares(want, dims)
    else:
        total = torch.zeros([1 if d in dims else n for d, n in enumerate(want.shape)], dtype=torch.float64)
        total = total.to(want.device)
        for rows in _row_blocks(want):
            total += _squares(want[rows], dims)
    return (total / max(count, 1)).sqrt_()


def _squares(want: Tensor, dims: tuple[int, ...]) -> Tensor:
    values = want.double()
    return torch.where(torch.isfinite(values), values, 0.0).square_().sum(dims, keepdim=True)


def _row_blocks(tensor: Tensor) -> Iterator[slice]:
    """Slices of the first dimension of about CHUNK_ELEMENTS elements."""
    rows = tensor.shape[0] if tensor.dim() else 0
    each = max(1, tensor.numel() // max(rows, 1))
    step = max(1, CHUNK_ELEMENTS // each)
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def _compare_one(
    position: int, got: Tensor, want: Tensor, bound: Bound, case: Case, numbers: Tensor | None
) -> Comparison:
    if got.dim() == 0:
        got, want = got.reshape(1), want.reshape(1)
    metric, mask, tolerance = _rule(bound)
    scale = _scale(want, bound.over) if metric == "scaled" else None
    wrong, largest, place = 0, -1.0, -1
    each = max(1, got.numel() // max(got.shape[0], 1))
    for rows in _row_blocks(got):
        part = None if scale is None else (scale if scale.shape[0] == 1 else scale[rows])
        errors = _errors(got[rows], want[rows], metric, part, None if mask is None else mask[rows])
        wrong += int((errors > tolerance).sum())
        top, at = errors.reshape(-1).max(0)
        if float(top) > largest:
            largest, place = float(top), rows.start * each + int(at)
    total = got.numel() if mask is None else int(mask.sum())
    if place < 0:
        return Comparison(True, 0.0, tolerance, 0, total, None, "")
    index = _index(place, got.shape)
    shown = index if numbers is None else (int(numbers[index[0]]), *index[1:])
    worst = Worst(position, shown, float(got[index]), float(want[index]), largest)
    ok = largest <= tolerance
    message = "" if ok else _message(case, worst, wrong, total, tolerance, WORDS[metric], mask is not None)
    return Comparison(ok, largest, tolerance, wrong, total, worst, message)


def _index(place: int, shape: Sequence[int]) -> tuple[int, ...]:
    """An element's index by its number; torch's own function imports a library for symbols, which takes 0.4 s."""
    found = []
    for size in reversed(shape):
        place, at = divmod(place, size)
        found.append(at)
    return tuple(reversed(found))


def _compare_selection(outputs: Sequence[Tensor], oracle: Sequence[Tensor], case: Case) -> Comparison:
    """Values, and indices into the first input, of the k largest elements of each row."""
    first, second = (0, 1) if outputs[0].is_floating_point() else (1, 0)
    values, indices, want = outputs[first], outputs[second], oracle[first]
    source = next(iter(case.inputs.values()))
    size = source.shape[-1]
    inside = (indices >= 0) & (indices < size)
    gathered = source.gather(-1, indices.clamp(0, size - 1))
    ordered, order = indices.sort(dim=-1, stable=True)
    twice = torch.zeros_like(inside)
    twice[..., 1:] = ordered[..., 1:] == ordered[..., :-1]
    repeated = torch.zeros_like(inside).scatter_(-1, order, twice)
    faults = (
        (~(values.double() == want.double()), first, "values differ from the oracle's"),
        (~inside, second, f"indices are not in 0..{size - 1}"),
        (inside & repeated, second, "indices stand twice in their row"),
        (inside & (_bits(gathered) != _bits(values)), second, "indices do not point at their value"),
    )
    total, wrong = values.numel(), int(torch.stack([mask for mask, _, _ in faults]).any(0).sum())
    for mask, position, text in faults:
        count = int(mask.sum())
        if not count:
            continue
        index = tuple(int(i) for i in mask.nonzero()[0])
        got = float(outputs[position][index])
        expected = float(oracle[position][index])
        worst = Worst(position, index, got, expected, math.inf)
        at = f"{output_name(case.binding, position)}{list(index)} = {got:.9g}, the oracle has {expected:.9g}"
        message = f"{_where(case)}: {count:,} of {total:,} {text}; first {at}"
        return Comparison(False, math.inf, 0.0, wrong, total, worst, message)
    return Comparison(True, 0.0, 0.0, 0, total, None, "")


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.itemsize])


def _message(case: Case, worst: Worst, wrong: int, total: int, tolerance: float, words: str, region: bool) -> str:
    name = output_name(case.binding, worst.output)
    place = f"{name}{list(worst.index)} = {worst.got:.6g}, expected {worst.expected:.6g}"
    if not math.isfinite(worst.got) and math.isfinite(worst.expected):
        return f"{_where(case)}: {name} holds NaN or Inf ({wrong:,} of {total:,} elements are wrong); worst {place}"
    of = f"{wrong:,} of the {total:,} elements compared" if region else f"{wrong:,} of {total:,} elements"
    off = f"off by more than {tolerance:.3g} ({words})"
    return f"{_where(case)}: {of} are {off}; worst {place} (error {worst.error:.2g})"


def _where(case: Case) -> str:
    return f"{case.spec.id} at {case.shape.label}"


def _excess(part: Comparison) -> float:
    if part.tolerance > 0:
        return part.error / part.tolerance
    return math.inf if part.error > 0 else 0.0


def _device_of(case: Case) -> torch.device:
    return next(iter(case.inputs.values())).device
