"""The constants of a file of C++, as far as its own scope gives them: names of numbers, plain types, their sizes.

What needs a class or a template argument is left to the domains (`cpp.classes`); the rules are `cpp.constants`.
"""

from __future__ import annotations

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp import constants, integers, layout
from kbh_lint.cpp.constants import Number
from kbh_lint.cpp.domain import Type

MAX_ALIASES = 8


def constant(node: ir.Decl, env: values.Env, prefix: str = "") -> object:
    """The number of a declared constant; for other declarations the Decl itself."""
    if node.init is None or not (node.storage & {"constexpr", "const", "enum"}) or node.type is None:
        return node
    if node.type.pointers or node.type.reference or node.type.dims:
        return node
    init = node.init
    if isinstance(init, ir.Seq) and len(init.items) == 1:
        init = init.items[0]
    value = fold(init, env, prefix)
    if value is None:
        return node
    dt = dtypes.from_cpp(node.type.name)
    return value if type(value) is not int or dt == "bool" else int(integers.held(value, dt))


def fold(node: ir.Expr, env: values.Env, prefix: str = "") -> Number | None:
    """The number that a constant expression has, from literals and constants of the file as seen from the namespace
    `prefix`; None where it is not constant or too complex."""
    value = constants.value(_File(env, prefix), node)
    return int(value) if isinstance(value, integers.Typed) else value


class _File:
    """The names of a file, as a namespace of it sees them; see `constants.Names`."""

    def __init__(self, env: values.Env, prefix: str) -> None:
        self.env, self.prefix = env, prefix

    def number(self, node: ir.Name | ir.TypeRef, depth: int) -> Number | None:
        if isinstance(node, ir.TypeRef) and (node.args or node.member or node.pointers):
            return None
        at, found = self._found(node.id if isinstance(node, ir.Name) else node.name, (bool, int, float))
        if not isinstance(found, int | float):
            return None
        dt = (self.env.types or {}).get(at) if type(found) is int else None
        return found if dt is None or isinstance(found, float) else integers.typed(found, dt)

    def element(self, ref: ir.TypeRef) -> str | None:
        for _ in range(MAX_ALIASES):
            if ref.args or ref.member or ref.pointers or ref.dims:
                return None
            known = dtypes.from_cpp(ref.name)
            _, alias = ("", None) if known is not None else self._found(ref.name, (values.CppType,))
            node = alias.node if isinstance(alias, values.CppType) else None
            if not isinstance(node, ir.Using) or node.type is None or node.template:
                return known
            ref = node.type
        return None

    def size(self, node: ir.Expr, aligned: bool) -> int | None:
        if not isinstance(node, ir.TypeRef) or aligned:
            return None
        base, lanes = dtypes.vector_from_cpp(node.name) or (dtypes.from_cpp(node.name) or "", 1)
        plain = not (node.args or node.member or node.dims)
        return layout.size(Type(base, lanes, node.pointers)) if plain or node.pointers and not node.dims else None

    def spend(self, steps: int) -> None:
        """Does nothing, as the length of a text and the depth of an expression are bounded."""

    def _found(self, name: str, kinds: tuple[type, ...]) -> tuple[str, object]:
        """What a name means from the namespace outwards, and the name that it has in the file's scope."""
        scope = self.prefix
        while True:
            at = f"{scope}::{name}" if scope else name
            value = self.env.vars.get(at)
            if isinstance(value, kinds):
                return at, value
            if not scope:
                return "", None
            scope = scope.rpartition("::")[0]
