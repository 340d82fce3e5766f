"""Which argument each parameter of a kernel's function gets."""

from __future__ import annotations

from kbh_lint.base import ir
from kbh_lint.kernels.core.parameters import matched

PARAMS = [
    ir.Param(name, None, None, kind, ())
    for name, kind in (("a", "positional"), ("b", "positional"), ("rest", "star"), ("c", "keyword"))
]


def names(params: list[ir.Param]) -> list[str]:
    return [param.name for param in params]


def test_arguments_are_matched_by_place_and_by_name() -> None:
    found = matched(PARAMS, [1, 2, 3, 4], {"c": 5})
    assert found == ({"a": 1, "b": 2, "c": 5}, {"rest": (3, 4)}, [])
    assert matched(PARAMS, [1], {"b": 2}) == ({"a": 1, "b": 2}, {"rest": ()}, [PARAMS[3]])


def test_what_is_not_given_is_left_to_the_domain() -> None:
    found = matched(PARAMS, [], {"b": 2})
    assert (found.given, names(found.missing)) == ({"b": 2}, ["a", "c"])
