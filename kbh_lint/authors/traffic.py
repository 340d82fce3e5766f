"""Compulsory traffic, worked out from the tensors of a contract."""

from __future__ import annotations

from math import prod

from kbh_lint.base import dtypes
from kbh_lint.base.formulas import evaluate
from kbh_lint.problems import ArgSpec, Contract, Shape, StateSpec


def compulsory_bytes(contract: Contract, shape: Shape) -> float:
    """Bytes that any kernel must move at one shape: every input, weight and output once. Raises FormulaError.

    A table whose rows an index input names (pages of a cache, rows of a rotary table) counts with as many rows as there
    are indices, at most all: the other rows need not be read.
    """
    binding = contract.bind(shape)
    total = 0.0
    for spec in (*binding.inputs, *binding.state.values(), *binding.outputs):
        rows = min(spec.shape[0], _indices(contract, spec.name, shape)) if spec.shape else 1
        total += rows * prod(spec.shape[1:]) * dtypes.STORED[spec.dtype] / 8
    return total


def _indices(contract: Contract, table: str, shape: Shape) -> float:
    """How many rows of a table the index inputs can name; infinite when nothing indexes it."""
    specs: dict[str, ArgSpec | StateSpec] = {arg.name: arg for arg in contract.forward}
    specs |= {entry.name: entry for entry in contract.state}
    spec = specs.get(table)
    if spec is None or not spec.shape or spec.dtype in _INTEGERS:
        return float("inf")
    rows = evaluate(spec.shape[0], shape.symbols)
    named = [
        prod(tensor.shape)
        for tensor, entry in zip(contract.bind(shape).inputs, contract.forward, strict=True)
        if entry.dtype in _INTEGERS and _reaches(entry, table, rows, shape)
    ]
    return max(named, default=float("inf"))


def _reaches(entry: ArgSpec, table: str, rows: object, shape: Shape) -> bool:
    """Whether an integer input holds row numbers of the table: it says so, or its values end at the table's length."""
    if entry.domain.get("kind") in ("distinct-pages", "rows"):
        return entry.domain.get("of") == table
    high = entry.domain.get("high")
    return entry.domain.get("kind") == "integers" and high is not None and evaluate(high, shape.symbols) == rows


_INTEGERS = frozenset({"i32", "i64"})
