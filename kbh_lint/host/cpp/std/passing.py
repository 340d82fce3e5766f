"""Functions of C++'s standard library that pass on what they are given: moves, tuples and what is taken out of them,
minima."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Value
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp.types import is_of
from kbh_lint.host.values.cpp_objects import Slot
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

_Row = Callable[["Cpp", str, Sequence[ir.Expr], list[Value]], Value]


def call(run: Cpp, name: str, given: Sequence[ir.Expr], args: list[Value]) -> Value:
    """Models a standard function that passes its arguments on (`std::move`, `std::get<N>`), with its template
    arguments; NotImplemented for others."""
    row = _ROWS.get(name)
    return NotImplemented if row is None else row(run, name, given, args)


def _extreme(run: Cpp, name: str, given: Sequence[ir.Expr], args: list[Value]) -> Value:
    """The least or the greatest."""
    return cpp_numbers.extreme(run.interp, name, args)


def _first(run: Cpp, name: str, given: Sequence[ir.Expr], args: list[Value]) -> Value:
    """What is moved, referred to, or said to be likely."""
    return args[0] if args else NotImplemented


def _all(run: Cpp, name: str, given: Sequence[ir.Expr], args: list[Value]) -> Value:
    """A tuple of all."""
    return tuple(args)


def _joined(run: Cpp, name: str, given: Sequence[ir.Expr], args: list[Value]) -> Value:
    """One tuple of several."""
    parts = [one for one in args if isinstance(one, (tuple, list))]
    return tuple(item for part in parts for item in part) if len(parts) == len(args) else Unknown((), name)


def _get(run: Cpp, name: str, given: Sequence[ir.Expr], args: list[Value]) -> Value:
    """`std::get<0>(tuple)`; what no template argument says anything of is a tuple of one."""
    return tuple(args) if not args or not given else _item(run, name, given, args)


def _item(run: Cpp, name: str, given: Sequence[ir.Expr], args: list[Value]) -> Value:
    """`std::get<0>(tuple)`, `std::get<T>(tuple)` and the value of a variant or std::any."""
    if not args or not given:
        return NotImplemented
    held, wanted = args[0], given[0]
    index = wanted.value if isinstance(wanted, ir.Const) else run.eval(wanted, Env())
    if not isinstance(held, (tuple, list)):
        return held
    if isinstance(index, int):
        item = held[index] if index < len(held) else Unknown((), "std::get")
    else:
        item = next((item for item in held if is_of(run, item, wanted)), Unknown((), "std::get"))
    return item.get() if isinstance(item, Slot) else item


def _holds(run: Cpp, name: str, given: Sequence[ir.Expr], args: list[Value]) -> Value:
    """Whether a variant holds a value of a type."""
    known = is_of(run, args[0], given[0]) if args and given else None
    return NotImplemented if known is None else known


_ROWS: dict[str, _Row] = {
    **dict.fromkeys(("std::min", "min", "std::max", "max", "fmin", "fmax"), _extreme),
    **dict.fromkeys(("std::move", "std::forward", "std::launder", "std::to_address"), _first),
    **dict.fromkeys(("std::ref", "std::cref", "std::as_const"), _first),
    **dict.fromkeys(("std::make_optional", "c10::make_optional"), _first),
    **dict.fromkeys(("__builtin_expect", "__builtin_expect_with_probability", "C10_LIKELY", "C10_UNLIKELY"), _first),
    **dict.fromkeys(("std::make_tuple", "std::make_pair", "std::tie", "std::forward_as_tuple"), _all),
    "std::tuple_cat": _joined,
    "std::get": _get,
    **dict.fromkeys(("std::any_cast", "std::get_if"), _item),
    "std::holds_alternative": _holds,
}
