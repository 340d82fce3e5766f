"""Loads of Triton kernels whose values go nowhere: the compiler drops them, and so do the facts."""

from __future__ import annotations

import pytest
import triton_support as support

from kbh_lint.values import UNKNOWN, Buffer, Scalar

KERNEL = """
def look(lengths, i):
    seen = tl.load(lengths + i)
    return {looked}

def kernel(lengths, x, out, n, S: tl.constexpr):
    i = tl.program_id(0)
    {first}
    acc = tl.zeros((32,), tl.float32)
    for k in range(0, {bound}, 32):
        acc += tl.load(x + k + tl.arange(0, 32))
        {again}
    tl.store(out + i * 32 + tl.arange(0, 32), acc{scale})
"""
PLAIN = {"first": "pass", "bound": "n", "again": "pass", "scale": "", "looked": "0"}
LOAD = "length = tl.load(lengths + i)"
IDLE = {
    "overwritten": {"first": f"{LOAD}; length = n", "bound": "length"},
    "never used": {"first": LOAD},
    "a statement": {"first": "tl.load(lengths + i)"},
    "times zero": {"first": f"{LOAD} * 0 + n", "bound": "length"},
    "zero times": {"first": LOAD, "bound": "n + 0 * length"},
    "used by what is not used": {"first": f"{LOAD}; last = tl.minimum(length, n); last += length"},
    "overwritten on both sides": {"first": f"{LOAD}; length = n if S else 2 * n", "bound": "length"},
    "again in the loop": {"again": LOAD},
    "in a helper": {"first": "length = look(lengths, i)", "bound": "n + length"},
}
USED = {
    "a bound": {"first": LOAD, "bound": "length"},
    "a factor": {"first": LOAD, "scale": " * length"},
    "a smaller one": {"first": LOAD, "bound": "tl.minimum(length, n)"},
    "an address": {"first": LOAD, "again": "acc += tl.load(x + length)"},
    "the next round": {"first": "length = n", "again": f"acc += length; {LOAD}"},
    "a way out": {"first": f"{LOAD}\n    if length == 0:\n        return"},
    "after a break": {
        "first": "length = n", "again": f"{LOAD}\n        if k > 64:\n            break", "scale": " * length"
    },
    "kept on one side": {"first": f"{LOAD}\n    if n > 4:\n        length = n", "bound": "length"},
    "by a helper": {"first": "length = look(lengths, i)", "bound": "length", "looked": "seen + 1"},
    "volatile": {"first": "length = tl.load(lengths + i, volatile=True)"},
    "an atomic": {"first": "tl.atomic_add(out, tl.load(lengths + i) + 0.0)"},
}  # fmt: skip


def loaded(changes: dict[str, str]) -> set[str]:
    """The parameters of which the kernel's facts name a load."""
    facts = support.run(
        KERNEL.format(**(PLAIN | changes)),
        lengths=Buffer("i32", 3, "i32"), x=support.X16, out=support.OUT, n=Scalar(UNKNOWN), S=1,
    )  # fmt: skip
    assert not facts.unread
    return {load.param for load in facts.loads} - {"out"}


@pytest.mark.parametrize("case", IDLE)
def test_a_load_that_nothing_needs_is_no_load(case: str) -> None:
    assert loaded(IDLE[case]) == {"x"}


@pytest.mark.parametrize("case", USED)
def test_a_load_that_the_result_depends_on_stays(case: str) -> None:
    assert loaded(USED[case]) == {"x", "lengths"}
