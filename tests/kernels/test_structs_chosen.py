"""Structs that a launch passes to a kernel, where one of several is meant: both are written through."""

from __future__ import annotations

import pytest
from compensation_cuda_support import kernel_of

from kbh_lint.base.values import Buffer, StructArg
from kbh_lint.kernels.analyze import analyze

KERNEL = """
struct Side { const float* in; float* out; int heads; };
__device__ void copy(Side side) { side.out[threadIdx.x] = side.in[threadIdx.x]; }
__global__ void kernel(Side one, Side other, int n) {
  BODY
}
"""
STORE = "s.out[threadIdx.x] = s.in[threadIdx.x];"
WAYS = {
    "an array": f"const Side both[2] = {{one, other}}; for (int i = 0; i < 2; ++i) {{ Side s = both[i]; {STORE} }}",
    "an array that is filled": f"Side both[2]; both[0] = one; both[1] = other; for (Side s : both) {{ {STORE} }}",
    "elements": "Side both[2] = {one, other}; for (int i = 0; i < n; ++i) both[i].out[0] = both[i].in[0];",
    "a reference to an element": f"Side both[2] = {{one, other}}; auto& s = both[n]; {STORE}",
    "a choice": f"const Side s = blockIdx.y ? one : other; {STORE}",
    "a choice that is handed on": "copy(blockIdx.y ? one : other);",
    "a branch": f"Side s = one; if (blockIdx.y) s = other; {STORE}",
    "two branches": f"Side s; if (blockIdx.y) s = other; else s = one; {STORE}",
    "each by itself": "copy(one); copy(other);",
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_both_are_read_and_written(way: str) -> None:
    given = {
        name: StructArg((("in", Buffer("f32", at, "f32")), ("out", Buffer("f32", at + 1, "f32")), ("heads", 4)))
        for name, at in (("one", 1), ("other", 3))
    }
    facts = analyze(kernel_of(KERNEL.replace("BODY", WAYS[way])), {**given, "n": 2})
    assert {store.storage for store in facts.stores} == {2, 4} and not facts.unread
    assert {load.storage for load in facts.loads} == {1, 3}
    for store in facts.stores:  # what is written to one may come from the other, as one element stands for all
        assert {origin.storage for origin in store.origins} >= {store.storage - 1}
