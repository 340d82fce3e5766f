"""Numbers of C++ on the host: those of a type other than `int` know it, until they leave for a library or Python."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Value
from kbh_lint.cpp import integers
from kbh_lint.host.torch import whole_numbers
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp
    from kbh_lint.host.run import Run

Table = dict[str, Any]  # variables by their names
Counted = list[tuple[Table, str, int]]
Lists = list[tuple[list[Any], int]]
Kept = list[tuple[Table, str, object, list[object]]]


def binary(op: str, left: int, right: int) -> Any:
    """Evaluates `left op right` on whole numbers by the rules of their C++ types; NotImplemented where neither has a
    C++ type and Python's result is the same. A plain number may be an `int64_t` from torch: it wraps around only beside
    a typed one."""
    known = isinstance(left, integers.Typed) or isinstance(right, integers.Typed)
    if known and is_number(left) and is_number(right) or op in ("/", "%"):
        if op in integers.OPERATORS:
            found = integers.binary(op, left, right)
            return Unknown((), "a division by zero" if op in "/%" else "a shift") if found is None else found
    return NotImplemented


def held(value: object, dtype: str | None) -> Any:
    """Returns a number as a variable of the element type `dtype` holds it. Numbers with a meaning of their own, such as
    a tensor's version or a result of `id()`, stay as they are."""
    special = isinstance(value, int) and not is_number(value)
    return value if special else integers.held(value, dtype)


def is_number(value: object) -> bool:
    """Whether a value is exactly a float, a bool or a whole number, and not a subclass with another meaning."""
    return type(value) in (float, bool) or integers.is_plain(value)


def plain(value: object) -> Any:
    """Returns a value without C++ types, as Python or a library sees it: typed numbers, also in a tuple, become plain;
    a list is returned as is."""
    if isinstance(value, integers.Typed):
        return int(value)
    if type(value) is tuple and any(isinstance(item, integers.Typed) for item in value):
        return tuple(plain(item) for item in value)
    return value


def all_plain(values: list[Any]) -> list[Any]:
    """Returns a copy of a list with its typed numbers made plain (`plain`)."""
    return [plain(item) for item in values]


def extreme(interp: Run, name: str, args: list[Value]) -> Value:
    """Models `std::min` and `std::max` of numbers."""
    known = [a for a in args if isinstance(a, (int, float))]
    if len(known) == len(args) and known:
        return (min if "min" in name else max)(known)
    ends = whole_numbers.extreme(name, args)
    return Unknown(interp.contents_of(args) if ends else (), name, ends)


class Variables:
    """The variables of a C++ function that a loop in it sees (`host.python.loops.Scope`)."""

    def __init__(self, run: Cpp, env: Env) -> None:
        self.run, self.env, self.interp = run, env, run.interp
        self.tables: list[Table] = []
        inner: Env | None = env
        while inner is not None and not inner.outermost:  # the outermost scope is the file
            self.tables.append(inner.vars)
            inner = inner.parent

    def whole(self) -> Counted:
        """Returns the variables that hold whole numbers, as (table, name, value)."""
        return [(t, name, value) for t in self.tables for name, value in t.items() if integers.is_plain(value)]

    def lists(self) -> Lists:
        """Returns the lists that variables hold, each with its length."""
        return [(value, len(value)) for table in self.tables for value in table.values() if isinstance(value, list)]

    def numbers(self) -> dict[Hashable, int]:
        return {
            (at, name): value
            for at, table in enumerate(self.tables)
            for name, value in table.items()
            if integers.is_plain(value)
        }

    def put(self, numbers: Mapping[Hashable, int]) -> None:
        for at, table in enumerate(self.tables):
            for name, value in table.items():
                number = numbers.get((at, name))
                if number is not None:
                    table[name] = integers.typed(number, value.dt) if isinstance(value, integers.Typed) else number

    def value(self, node: ir.Expr) -> Value:
        return self.run.eval(node, self.env)

    def store(self, name: str, value: float) -> None:
        table = next((table for table in self.tables if name in table), self.env.vars)
        table[name] = value

    def saved(self) -> Callable[[], None]:
        before = [(table, dict(table)) for table in self.tables]

        def back() -> None:
            for table, variables in before:
                table.clear()
                table.update(variables)

        return back

    def kept(self) -> Kept:
        """Returns the variables that hold no whole number, each with its value and the value's items."""
        return [
            (table, name, value, _inside(value))
            for table in self.tables
            for name, value in table.items()
            if not integers.is_plain(value)
        ]

    def keeps(self, before: Kept) -> bool:
        """Whether a loop iteration left the variables in `before` as they were, but for tensors and items appended to
        lists. Other writes into containers cannot be extrapolated to the iterations that are skipped."""
        for table, name, value, inside in before:
            now = table.get(name)
            if now is not value:
                if not isinstance(now, (Tensor, Unknown)):
                    return False
                continue
            here = _inside(now)
            grown = len(here) - len(inside)
            if grown < 0 or grown and not isinstance(now, list):
                return False
            if any(one is not other for one, other in zip(inside, here, strict=False)):
                return False
        return True


def _inside(value: object) -> list[object]:
    """What lies in a container or an object."""
    if isinstance(value, list):
        return list(value)
    if isinstance(value, LibObject):
        return [part for pair in value.attrs.items() for part in pair]
    return [part for pair in value.items() for part in pair] if isinstance(value, dict) else []
