"""Single nodes of a libcst tree: their text, and what can be told from them alone."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst


def code(node: cst.CSTNode) -> str:
    """The text of a node."""
    return cst.Module([]).code_for_node(node)


def expression(text: str) -> cst.BaseExpression:
    """Parses an expression, which may go over several lines."""
    try:
        return cst.parse_expression(text)
    except cst.ParserSyntaxError:
        return cst.parse_expression(f"({text})")


def statements(text: str) -> list[cst.BaseStatement]:
    """Parses statements."""
    return [item for item in cst.parse_module(text).body if isinstance(item, cst.BaseStatement)]


def simple(statement: cst.CSTNode) -> cst.BaseSmallStatement | None:
    """The only small statement of a line, if it is one."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        return statement.body[0]
    return None


def plain_arguments(arguments: Sequence[cst.Arg]) -> bool:
    """Whether all arguments are positional and none is starred."""
    return all(arg.keyword is None and not arg.star for arg in arguments)


def is_pure(node: cst.BaseExpression) -> bool:
    """Whether evaluating the expression twice, or in another order, can make no difference: names and constants."""
    if isinstance(node, cst.Attribute):
        return isinstance(node.value, cst.Name) and node.value.value == "self"
    if isinstance(node, cst.UnaryOperation):
        return is_pure(node.expression)
    if isinstance(node, cst.Tuple):
        return all(isinstance(item, cst.Element) and is_pure(item.value) for item in node.elements)
    return isinstance(node, (cst.Name, cst.Integer, cst.Float, cst.SimpleString))


def is_still(node: cst.BaseExpression) -> bool:
    """Whether an expression only reads: names, constants, attributes and arithmetic on them."""
    if isinstance(node, cst.Attribute):
        return is_still(node.value)
    if isinstance(node, cst.BinaryOperation):
        return is_still(node.left) and is_still(node.right)
    return is_pure(node)


def names_in(node: cst.CSTNode) -> set[str]:
    """All names that a node mentions, attribute and keyword names left out."""
    found = _Names()
    node.visit(found)
    return found.names


def functions(body: Sequence[cst.CSTNode]) -> list[cst.FunctionDef]:
    """The functions among some statements."""
    return [item for item in body if isinstance(item, cst.FunctionDef)]


def string_value(node: cst.CSTNode) -> str | None:
    """The value of a string constant without replacement fields; None for anything else."""
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    return None


class _Names(cst.CSTVisitor):
    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False
