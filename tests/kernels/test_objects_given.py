"""Objects of the submission's classes that launches give to kernels: launches are alike where numbers in them that
decided nothing differ, and where what was asked of those that decided comes out alike."""

from __future__ import annotations

from typing import Any

import pytest

from kbh_lint.base import ir, values
from kbh_lint.base.values import Buffer, Env, Func, Sym
from kbh_lint.dsl.tensors import kinds
from kbh_lint.frontends import python
from kbh_lint.host.gpu.kernel_cache import Normal, once
from kbh_lint.host.values.session import Known
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts

KERNEL = """
def kernel(plan, other, x, y):
    n = plan.rows * plan.tile[0]
    if plan.rows > 4:
        y[0] = x[n]
    if other.rows:
        y[1] = x[n]
"""


def plan(**fields: Any) -> kinds.Object:
    return kinds.Object(fields=tuple(fields.items()), methods=Env())


def asked(*launches: dict[str, Any]) -> list[KernelFacts]:
    """The facts of launches, one after another, as those of one file."""
    node = next(s for s in python.lower(KERNEL, "kernel.py").body if isinstance(s, ir.FuncDef))
    kernel = Func(node, values.Env({"cute": Sym("cutlass.cute")}), language="cute")
    known: list[Known] = []
    memory = {"x": Buffer("f32", 1, "f32"), "y": Buffer("f32", 2, "f32")}
    found = []
    for launch in launches:
        binding = {**launch, **memory}
        once(known, kernel, Normal(binding, {}, ()), lambda given: analyze(kernel, given))
        found.append(len(known))
    return [one.facts for one in known] if found else []


ONE = {"plan": plan(rows=8, tile=(16, 4)), "other": plan(rows=1)}


@pytest.mark.parametrize(
    ("launch", "times"),
    [
        pytest.param({"plan": plan(rows=8, tile=(16, 4)), "other": plan(rows=1)}, 1, id="the same"),
        pytest.param({"plan": plan(rows=9, tile=(32, 4)), "other": plan(rows=3)}, 1, id="other numbers"),
        pytest.param({"plan": plan(rows=4, tile=(16, 4)), "other": plan(rows=1)}, 2, id="a test comes out otherwise"),
        pytest.param({"plan": plan(rows=8, tile=(16, 4)), "other": plan(rows=0)}, 2, id="that of the other object"),
        pytest.param({"plan": plan(rows=8.0, tile=(16, 4)), "other": plan(rows=1)}, 2, id="a number of another type"),
        pytest.param({"plan": plan(rows=8, tile=(16,)), "other": plan(rows=1)}, 2, id="a shorter tuple"),
        pytest.param({"plan": plan(tile=(16, 4), rows=8), "other": plan(rows=1)}, 2, id="fields in another order"),
        pytest.param({"plan": plan(rows=8, tile=(16, "4")), "other": plan(rows=1)}, 2, id="a text for a number"),
    ],
)
def test_objects_that_differ_in_numbers_are_alike_where_these_decide_alike(launch: dict[str, Any], times: int) -> None:
    facts = asked(ONE, launch)
    assert len(facts) == times, facts
    assert not any(one.unread for one in facts)
    assert {len(one.stores) for one in facts} <= ({2} if times == 1 else {1, 2})


def test_an_object_that_is_given_twice_is_not_told_from_two() -> None:
    shared = plan(rows=8, tile=(16, 4))
    facts = asked({"plan": shared, "other": shared}, {"plan": shared, "other": plan(rows=9, tile=(16, 4))})
    assert len(facts) == 2
