"""Walks over the IR keep what is below a node."""

from __future__ import annotations

from kbh_lint.base import ir
from kbh_lint.frontends.walk import changed, children, walk

LOC = (None, 1)
A, B, C = (ir.Name(name, LOC) for name in "abc")


def test_what_is_below_a_node_is_the_same_each_time() -> None:
    node = ir.Call(A, (B, ir.Binary("+", C, A, LOC)), (("key", B),), LOC)
    first = walk(node)
    assert [type(one).__name__ for one in first] == ["Call", "Name", "Name", "Binary", "Name", "Name", "Name"]
    assert walk(node) == walk((node,)) == first
    assert children(node) == (A, B, node.args[1], B)
    assert children(A) == ()


def test_a_node_that_was_changed_is_looked_at_again() -> None:
    node = ir.Binary("+", A, B, LOC)
    assert walk(node) == [node, A, B]
    node.left = C
    changed(node)
    assert walk(node) == [node, C, B]
    assert children(node) == (C, B)
