"""Names of a kernel: what the scopes bind them to, and assignments to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir, values
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, V, constant

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


class Names:
    """Looks up names in scopes, and assigns to them; languages derive from it and add the meanings of other names."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.outer_cache: dict[tuple[int, str], V] = {}

    def outer_value(self, value: object) -> V:
        """A value of an enclosing scope as an abstract value of this analysis."""
        return constant(value) if value is not values.UNKNOWN else UNKNOWN_V

    def missing(self, name: str, loc: ir.Loc) -> V:
        """The value of a name that no scope binds: unknown, unless the language defines it."""
        return UNKNOWN_V

    def assign_other(self, target: ir.Expr, value: V) -> None:
        """Assigns `value` to a target that is neither a name nor a tuple, such as an attribute or an item."""

    def outer(self, name: str, loc: ir.Loc) -> V:
        """The value of `name` from the scopes around the function."""
        key = (id(self.run.frame.outer), name)
        found = self.outer_cache.get(key)
        if found is None:
            try:
                found = self.outer_value(self.run.frame.outer.lookup(name))
            except KeyError:
                found = self.missing(name, loc)
            self.outer_cache[key] = found
        return found

    def assign(self, target: ir.Expr, value: V) -> None:
        """Binds `target` to `value`."""
        if isinstance(target, ir.Name):
            self.bind(target.id, value)
        elif isinstance(target, ir.Seq):
            self._unpack(target, value)
        elif isinstance(target, ir.Star):
            self.assign(target.value, value)
        else:
            self.assign_other(target, value)

    def bind(self, name: str, value: V) -> None:
        """Gives a variable a new value."""
        self.run.frame.env[name] = value

    def _unpack(self, target: ir.Seq, value: V) -> None:
        items = value.x if isinstance(value.x, tuple) else None
        for position, part in enumerate(target.items):
            if items is not None and len(items) == len(target.items):
                self.assign(part, items[position])
            else:
                self.assign(part, mix([value]) if items else value.with_(const=NOTHING, x=None))

    def closure(self, node: ir.FuncDef) -> V:
        """A function defined inside the running one: it reads and changes the variables of this frame."""
        return V(const=values.Func(node, values.Env({"": self.run.frame}, self.run.frame.outer)))

    def enter_scope(self) -> None:
        """Begins a C++ block."""
        self.run.frame.shadowed.append({})

    def leave_scope(self) -> None:
        """Ends a C++ block: names that were declared in it have their meaning from outside again."""
        env = self.run.frame.env
        for name, old in self.run.frame.shadowed.pop().items():
            if old is None:
                env.pop(name, None)
            else:
                env[name] = old
