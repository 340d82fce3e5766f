"""Loads at several places of a kernel that read different elements, told from the sums that their addresses are."""

from __future__ import annotations

from typing import Any

import pytest
from compensation_cuda_support import kernel_of
from compensation_support import scope

from kbh_lint.base.ir import Attr, Call, Index, Name
from kbh_lint.base.values import Buffer, Func
from kbh_lint.frontends.walk import walk
from kbh_lint.kernels.extents.apart import apart

TRITON = """
def kernel(x, table, y, n, D: tl.constexpr):
    b = tl.program_id(0)
    lanes = tl.arange(0, D)
    total = tl.zeros((D,), tl.float32)
    for at in range(0, n):
        row = tl.load(table + b * n + at)
        one = tl.load(x + row * 2 * D + lanes)
        other = tl.load(OTHER)
        total += one * other
    tl.store(y + b * D + lanes, total)
"""
CUDA = """
__global__ void kernel(const float* x, const int* table, float* y, int n, int D) {
    float total = 0.f;
    for (int at = 0; at < n; ++at) {
        int row = table[blockIdx.x * n + at];
        total += x[row * 2 * D + threadIdx.x] * x[OTHER];
    }
    y[blockIdx.x * D + threadIdx.x] = total;
}
"""
OTHERS = {
    "the other half of a row": ("row * 2 * D + D + LANES", True),
    "the other half of the next row": ("(row + 1) * 2 * D + LANES + D", True),
    "the same again": ("row * 2 * D + LANES", False),
    "half of it again": ("row * 2 * D + D // 2 + LANES", False),
    "the next row": ("(row + 1) * 2 * D + LANES", False),
    "rows of another width": ("row * 3 * D + D + LANES", False),
}


def reads(kernel: Func) -> list[Any]:
    """Where elements of `x` are loaded."""
    nodes = list(walk(kernel.node.body or ()))
    loads = [n for n in nodes if isinstance(n, Call) and isinstance(n.func, Attr) and n.func.name == "load"]
    names = [(n.loc, {m.id for m in walk(n.args[0]) if isinstance(m, Name)}) for n in loads]
    indexed = [n.loc for n in nodes if isinstance(n, Index) and isinstance(n.value, Name) and n.value.id == "x"]
    return [loc for loc, used in names if "x" in used] + indexed


@pytest.mark.parametrize("other", OTHERS)
def test_two_places_are_apart_when_what_they_leave_of_a_row_is(other: str) -> None:
    text, expected = OTHERS[other]
    given = {"x": Buffer("f32", 1, "f32"), "table": Buffer("i32", 2, "i32"), "y": Buffer("f32", 3, "f32"), "n": 64}
    triton = scope(TRITON.replace("OTHER", f"x + {text}").replace("LANES", "lanes")).vars["kernel"].func
    native = kernel_of(CUDA.replace("OTHER", text.replace("//", "/")).replace("LANES", "threadIdx.x"))
    for kernel, block in ((triton, ()), (native, (128,))):
        places = reads(kernel)
        assert len(places) == 2
        assert apart(kernel, {**given, "D": 128}, (8,), block, places) is expected
