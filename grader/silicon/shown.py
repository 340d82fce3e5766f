"""What the record of the silicon says in words, for a screen and for pages."""

from __future__ import annotations

from collections.abc import Iterator

from grader.silicon.record import ShapeEvidence, Silicon

__all__ = ["code_rows", "executed", "instructions", "remarks"]

LEAST_SHOWN = 0.005  # of the algorithm's operations


def executed(shape: ShapeEvidence) -> str:
    """Executed tensor operations by type, as shares of those that the algorithm needs: `fp8 2.00`."""
    share = sorted(
        ((count / shape.needed, kind) for kind, count in shape.tensor.items() if count and shape.needed), reverse=True
    )
    return ", ".join(f"{kind} {value:.2f}" for value, kind in share if value >= LEAST_SHOWN) or "none"


def instructions(silicon: Silicon, label: str) -> str:
    """The matrix instructions that stand in the machine code which ran at a shape; empty where none is known."""
    found = dict.fromkeys(row.products for row in silicon.code if label in row.shapes and row.products)
    return "; ".join(found)


def code_rows(silicon: Silicon) -> Iterator[tuple[str, ...]]:
    """The kernels that ran with their machine code: name, SHA-256 of the cubin, instructions, same when built again."""
    yield "kernel", "cubin", "matrix instructions", "compiled again"
    for row in silicon.code:
        yield row.name, row.sha256[:12], row.products or "none", "the same" if row.again else "NOT THE SAME"


def remarks(silicon: Silicon) -> Iterator[str]:
    """One line each: what a second build gave, and what the evidence took."""
    if silicon.code:
        same = sum(row.again for row in silicon.code)
        yield f"of {len(silicon.code)} kernels that ran, {same} have the same instructions when they are compiled again"
    if silicon.spent:
        yield "evidence took " + ", ".join(f"{name} {value:.1f} s" for name, value in silicon.spent.items())
