"""A walk that is asked whether what it loads reaches anything ends where all of it has."""

from __future__ import annotations

import textwrap

import pytest

from kbh_lint.base import ir, values
from kbh_lint.base.values import Buffer, Sym
from kbh_lint.frontends import python
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts

KERNEL = textwrap.dedent(
    """
    def kernel(lengths, pages, x, out):
        at = tl.program_id(0)
        length = tl.load(lengths + at)
        page = tl.load(pages + at)
        total = 0.0
        for i in range(length):
            total += tl.load(x + page * 16 + i)
        a = total + 1
        b = a * 2
        c = b - a
        d = c + 1
        e = d * 2
        f = e - d
        g = f + 1
        h = g + 1
        tl.store(out + at, h)
    """
)


def walked(text: str, until: frozenset[int]) -> KernelFacts:
    node = next(s for s in python.lower(text, "kernel.py").body if isinstance(s, ir.FuncDef))
    kernel = values.Func(node, values.Env({"tl": Sym("triton.language")}))
    dtypes = {"lengths": "i32", "pages": "i32", "x": "f32", "out": "f32"}
    args = {name: Buffer(dtype, at, dtype) for at, (name, dtype) in enumerate(dtypes.items(), 1)}
    return analyze(kernel, args, ranges={1: (1, 4096), 2: (0, 511)}, until=until)


@pytest.mark.parametrize(
    ("bound", "until"),
    [
        pytest.param("length", {1}, id="the length alone"),
        pytest.param("length + page", {1, 2}, id="the length and the page"),
    ],
)
def test_a_walk_ends_where_all_has_reached_something(bound: str, until: set[int]) -> None:
    text = KERNEL.replace("range(length)", f"range({bound})")
    whole, part = walked(text, frozenset()), walked(text, frozenset(until))
    assert whole.stores and not part.stores and not part.unread
    assert {origin.storage for bound in part.bounds for origin in bound.origins} == until


@pytest.mark.parametrize("until", [set(), {1, 2}], ids=["nothing is asked", "the page reaches nothing"])
def test_a_walk_goes_on_while_something_has_reached_nothing(until: set[int]) -> None:
    text = KERNEL.replace("page * 16", "(page < 512)")  # which holds of all legal pages
    facts = walked(text, frozenset(until))
    assert facts.stores and not facts.unread
    told = (*facts.stores, *facts.bounds, *facts.choices)
    assert 2 not in {origin.storage for one in told for origin in one.origins}
