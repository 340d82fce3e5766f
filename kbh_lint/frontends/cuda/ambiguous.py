"""What the grammar of C++ cannot decide without knowing names: is `(n) - 1` a cast, is `a < b` a template?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tree_sitter import Node

from kbh_lint.base import ir
from kbh_lint.frontends.cuda.base import MAX_DEPTH

if TYPE_CHECKING:
    from kbh_lint.frontends.cuda.exprs import Exprs


def template_call(lower: Exprs, node: Node, left: ir.Expr) -> ir.Expr | None:
    """The method call `a.f<1>(x, y)` from a node that the grammar reads as two comparisons; None where it may be
    comparisons."""
    right = node.child_by_field_name("right")
    if right is None or right.type != "parenthesized_expression" or node.children[0].type != "binary_expression":
        return None
    if not isinstance(left, ir.Compare) or left.ops != ("<",):
        return None
    outer, called = None, left.left
    while isinstance(called, ir.Binary):
        outer, called = called, called.right
    if not isinstance(called, ir.Attr) or called.args is not None:
        return None
    items: list[Node] = []
    inner = right.named_children[-1]
    while inner.type == "comma_expression" and inner.named_children:
        items.append(inner.named_children[0])
        inner = inner.named_children[-1]
        if len(items) > MAX_DEPTH:
            return None
    args = lower.exprs([*items, inner])
    where = lower.loc(node)
    made = ir.Call(ir.Attr(called.value, called.name, called.loc, (left.rights[0],)), args, (), where)
    if outer is None:
        return made
    outer.right = made
    return left.left


def less_than_a_template(lower: Exprs, func: Node, args: tuple[ir.Expr, ...], where: ir.Loc) -> ir.Expr | None:
    """The comparison `k < size<2>(a)` from a node that the grammar reads as a call of a template `k`; None where it may
    be such a call."""
    name, given = func.child_by_field_name("name"), func.child_by_field_name("arguments")
    inner = [child for child in given.named_children if child.type != "comment"] if given is not None else []
    if name is None or len(inner) != 1 or inner[0].type != "binary_expression":
        return None
    left, operator, right = (inner[0].child_by_field_name(part) for part in ("left", "operator", "right"))
    if left is None or right is None or operator is None or operator.type != "<":
        return None
    if left.type not in ("identifier", "qualified_identifier") or not _is_given_values(lower, lower.source(name)):
        return None
    called = ir.TypeRef(lower.compact(left).removeprefix("::"), (lower.expr(right),), lower.loc(left))
    return ir.Binary("<", lower.expr(name), ir.Call(called, args, (), where), where)


def _is_given_values(lower: Exprs, name: str) -> bool:
    """Whether the text assigns to a name, or counts it, somewhere."""
    pattern = rf"(?:\+\+|--)\s*{name}\b|\b{name}\s*(?:\+\+|--|[-+*/]?=(?!=))"
    return name.isidentifier() and re.search(pattern, lower.text) is not None


def is_value(lower: Exprs, described: Node) -> bool:
    """Whether `(name)` in front of an operator is a value in parentheses and not a cast: a lone name of no known
    type."""
    if described.child_count != 1 or described.children[0].type != "type_identifier":
        return False
    name = lower.source(described)
    return not lower.is_type(name) and not name.endswith("_t")


def no_cast(lower: Exprs, node: Node, described: Node, value: Node) -> ir.Expr | None:
    """The binary operation `(n) - 1` or `(a) & b` from a node that the grammar reads as a cast of `-1` or `&b`; None
    for real casts."""
    if value.type not in ("unary_expression", "pointer_expression"):
        return None
    op = value.children[0].type
    if op not in "-+*&":
        return None
    left = ir.Name(lower.source(described), lower.loc(described))
    return ir.Binary(op, left, lower.field(value, "argument"), lower.loc(node))
