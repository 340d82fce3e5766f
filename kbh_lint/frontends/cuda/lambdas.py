"""Lambdas of C++, lowered to the IR: a function with what it captures, by name or by default.

What host code makes of one is `host.cpp.lambdas`, what a kernel finds of one that a launch is given `host.gpu.lambdas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tree_sitter import Node

from kbh_lint.base import ir
from kbh_lint.frontends.walk import free_names

if TYPE_CHECKING:
    from kbh_lint.frontends.cuda.exprs import Exprs


def lowered(lower: Exprs, node: Node) -> ir.Expr:
    """Lowers a lambda expression, with what it captures."""
    captures = node.child_by_field_name("captures")
    declarator = node.child_by_field_name("declarator")
    params: tuple[ir.Param, ...] = ()
    returns: ir.Expr | None = None
    if declarator is not None:
        params = lower.parameters(declarator.child_by_field_name("parameters"))
        for child in declarator.named_children:
            if child.type == "trailing_return_type" and child.named_children:
                returns = lower.type_of(child.named_children[0])
    start, inside = node.start_byte + lower.shift, node.child_by_field_name("body")
    stop = (node.end_byte if inside is None else inside.start_byte) + lower.shift
    lower.in_function += 1
    body = lower.structured(lower.block(node.child_by_field_name("body")))
    lower.in_function -= 1
    func = ir.FuncDef(
        "",
        params,
        body,
        lower.loc(node),
        kind="lambda",
        returns=returns,
        template=lower.template_params(node.child_by_field_name("template_parameters")),
        attributes=tuple(sorted({*lower.blanked.inside(start, stop)})),
    )
    func.captures = _captures(lower, captures, func)
    return ir.Lambda(func, lower.loc(node))


def _captures(lower: Exprs, node: Node | None, func: ir.FuncDef) -> tuple[ir.Capture, ...]:
    """What is captured by name, then by default, each name once."""
    found: dict[str, ir.Capture] = {}
    default, reference = "", False
    for child in () if node is None else node.children:
        where = lower.loc(child)
        if child.type == "lambda_default_capture":
            default = lower.source(child)
        elif child.type == "lambda_capture_initializer":
            name, value = child.child_by_field_name("left"), child.child_by_field_name("right")
            named = [part for part in child.named_children if part.type != "comment"]
            name, value = name or named[0], value or named[-1]
            by_place = any(part.type == "&" for part in child.children)
            found[lower.compact(name)] = ir.Capture(lower.compact(name), by_place, lower.expr(value), where)
        elif child.type in ("identifier", "this"):
            name_text = lower.compact(child)
            found[name_text] = ir.Capture(name_text, reference, None, where)
        reference = child.type == "&" or reference and child.type == "comment"
    if default:
        for name_text, where in free_names(func).items():
            by_place = default == "&" or name_text == "this"
            found.setdefault(name_text, ir.Capture(name_text, by_place, None, where))
    return tuple(found.values())
