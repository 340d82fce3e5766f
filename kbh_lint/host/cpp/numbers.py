"""Numbers of C++ on the host: those of a type other than `int` know it, until they leave for a library or Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import Value
from kbh_lint.cpp import integers
from kbh_lint.host.torch import whole_numbers
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def binary(op: str, left: int, right: int) -> Any:
    """`left op right` of whole numbers as their types have it; NotImplemented where nothing of C++'s own is in it.

    A plain number may be an `int64_t` that torch gave: it wraps around only beside one whose type is known.
    """
    known = isinstance(left, integers.Typed) or isinstance(right, integers.Typed)
    if known and is_number(left) and is_number(right) or op in ("/", "%"):
        if op in integers.OPERATORS:
            found = integers.binary(op, left, right)
            return Unknown((), "a division by zero" if op in "/%" else "a shift") if found is None else found
    return NotImplemented


def held(value: object, dtype: str | None) -> Any:
    """A number as a variable of an element type holds it. One that says more than how much it is, as a tensor's version
    or what `id()` gives, stays what it is."""
    special = isinstance(value, int) and not is_number(value)
    return value if special else integers.held(value, dtype)


def is_number(value: object) -> bool:
    """Whether a value is a number or a truth, and nothing that only passes for one."""
    return type(value) in (float, bool) or integers.is_plain(value)


def plain(value: object) -> Any:
    """A value as what is no C++ sees it: a number has no type of C++, nor has one in a tuple. A list is itself."""
    if isinstance(value, integers.Typed):
        return int(value)
    if type(value) is tuple and any(isinstance(item, integers.Typed) for item in value):
        return tuple(plain(item) for item in value)
    return value


def all_plain(values: list[Any]) -> list[Any]:
    """Copies a list, with its numbers as what is no C++ sees them (`plain`)."""
    return [plain(item) for item in values]


def extreme(interp: Run, name: str, args: list[Value]) -> Value:
    """`std::min` and `std::max` of numbers."""
    known = [a for a in args if isinstance(a, (int, float))]
    if len(known) == len(args) and known:
        return (min if "min" in name else max)(known)
    ends = whole_numbers.extreme(name, args)
    return Unknown(interp.contents_of(args) if ends else (), name, ends)
