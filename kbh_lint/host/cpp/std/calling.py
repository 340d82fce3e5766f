"""Functions of C++'s standard library that call what they are given, and what any other one may do: call the functions
that it is given, and write where it is told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Env, Func, Overloads, Value
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp.std import removing
from kbh_lint.host.cpp.std.containers import END, put_through
from kbh_lint.host.python import lanes
from kbh_lint.host.values import bounds, unknowns
from kbh_lint.host.values.cpp_objects import CStruct, Future, OwnMethod, Slot
from kbh_lint.host.values.named_objects import Thread
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

# Functions that write through iterators or addresses: what is there then is not known.
WRITERS = frozenset(
    "memcpy memmove memset strcpy strncpy sprintf snprintf copy copy_n copy_if transform generate sort stable_sort "
    "reverse rotate shuffle partial_sum inclusive_scan exclusive_scan replace unique remove remove_if swap_ranges "
    "nth_element partial_sort partition".split()
)
# What keeps a function that it is given, and does not call it.
HANDED_ON = frozenset(
    "move forward make_pair make_tuple tie get as_const ref cref from_blob atexit at_quick_exit signal set_terminate "
    "make_optional".split()
)


@dataclass(slots=True)
class _Call:
    """A call of a standard function that is given a callable, the argument number `at`."""

    run: Cpp
    name: str
    args: list[Value]
    at: int
    func: Func
    loc: ir.Loc | None

    def of(self, *given: Value) -> Value:
        """Calls the function with the arguments `given`; further parameters get unknown values."""
        missing = [Unknown((), self.name)] * (len(self.func.node.params) - len(given))
        return self.run.call(self.func, [*given, *missing], self.loc)

    def unknown(self, result: Value) -> Value:
        """Returns an unknown value, as the result of the call, that was computed from the `result` of the function in
        it."""
        return unknowns.merged(self.run.interp, result, why=self.name)


def call(run: Cpp, name: str, args: list[Value], loc: ir.Loc | None) -> Value:
    """Calls a standard or unknown function that is given a callable or may write to its arguments; NotImplemented for
    any other function."""
    short = name.removeprefix("std::")
    plain = [a.get() if isinstance(a, Slot) else a for a in args]
    found = next(((at, func) for at, value in enumerate(plain) if (func := function_of(value, name)) is not None), None)
    if found is not None and name.rpartition("::")[2] not in HANDED_ON and not short.startswith(("cu", "nvrtc")):
        asked = _Call(run, short, plain, *found, loc)
        model = _ROWS.get("parallel_for" if short.endswith("parallel_for") else short)
        made = NotImplemented if model is None else model(asked)
        return _any(asked) if made is NotImplemented else made
    if found is not None and short.endswith("from_blob"):
        may_call(run, name, plain[found[0] : found[0] + 1], loc)  # at the end of the tensor
    return _written(run, name, plain, args) if short in WRITERS else NotImplemented


def function_of(value: Value, name: str = "std::") -> Func | None:
    """Returns the function of the host that a value is: a lambda, a function by its name, a method of an object, an
    object that can be called. None for others, and where a library of the device is given it."""
    if isinstance(value, Func) or not isinstance(value, (Overloads, OwnMethod, CStruct)):
        return value if isinstance(value, Func) else None
    if "::" in name and not name.startswith(("std::", "pybind11::", "py::")):
        return None
    owner = value.attrs["this"] if isinstance(value, OwnMethod) else value if isinstance(value, CStruct) else None
    found = value if isinstance(value, Overloads) else None
    if owner is not None:
        found = value.attrs["overloads"] if isinstance(value, OwnMethod) else cpp_classes.method(owner, "operator()")
    funcs = [func for func in found.funcs if func.node.body is not None] if found is not None else []
    if len(funcs) != 1 or funcs[0].node.kind in ("global", "device") or funcs[0].node.template:
        return None
    return funcs[0] if owner is None else replace(funcs[0], env=Env({"this": owner}, funcs[0].env))


def _written(run: Cpp, name: str, plain: list[Value], args: list[Value]) -> Unknown:
    """Nobody knows what is there where a function writes: any of what it is given may go to any."""
    contents = run.interp.contents_of(plain)
    for value, given in zip(plain, args, strict=True):
        if isinstance(value, list):
            value[:] = [Unknown(contents, name)] * len(value)
        elif isinstance(given, Slot) and not isinstance(value, LibObject):
            given.set(Unknown(contents, name))
    return Unknown((), name)


def _for_each(asked: _Call) -> Value:
    """`std::for_each`: of each element of a container, by reference."""
    items = asked.args[0]
    if not isinstance(items, list):
        return NotImplemented
    for at in range(len(bounds.visited(asked.run.interp, items))):
        asked.run.call(asked.func, [Slot(items, at)], asked.loc)
    return None


def _transform(asked: _Call) -> Value:
    """`std::transform` of one or two containers: the function is the last argument, where it writes the one before."""
    to, given = asked.args[asked.at - 1], [asked.args[0], *asked.args[2 : asked.at - 1]]
    if asked.at not in (3, 4) or asked.at != len(asked.args) - 1 or not isinstance(to, list):
        return NotImplemented
    if not all(isinstance(items, list) for items in given):
        return NotImplemented
    rows = list(zip(*(bounds.visited(asked.run.interp, items) for items in given), strict=False))
    put_through(to, [asked.run.call(asked.func, list(row), asked.loc) for row in rows])
    return None


def _find(asked: _Call) -> Value:
    """`std::find_if` and `std::find_if_not`: the first object of which the function says what is wanted."""
    items = asked.args[0]
    for item in bounds.visited(asked.run.interp, items) if isinstance(items, list) else ():
        answer = asked.run.call(asked.func, [item], asked.loc)
        if answer is (asked.name == "find_if") or not isinstance(answer, bool):
            return item if isinstance(answer, bool) and isinstance(item, LibObject) else NotImplemented
    return END if isinstance(items, list) else NotImplemented


def _remove_if(asked: _Call) -> Value:
    """`std::remove_if` of a whole container, which returns where what is to go begins."""
    items, last = asked.args[0], asked.args[1]
    if not isinstance(items, list) or isinstance(items, removing.Rest) or last != END:
        return NotImplemented
    return removing.partitioned(asked.run.interp, items, asked.of)


def _erase_if(asked: _Call) -> Value:
    """`std::erase_if` of a sequence."""
    items = asked.args[0]
    return removing.removed(asked.run.interp, items, asked.of) if isinstance(items, list) else NotImplemented


def _call_once(asked: _Call) -> Value:
    """`std::call_once`: its flag knows whether it was done."""
    flag = asked.args[0]
    if isinstance(flag, LibObject):
        if flag.attrs.get("done"):
            return None
        flag.attrs["done"] = True
    return asked.unknown(asked.of(*asked.args[asked.at + 1 :]))


def _invoke(asked: _Call) -> Value:
    """`std::invoke`."""
    return asked.of(*asked.args[asked.at + 1 :])


def _async(asked: _Call) -> Value:
    """`std::async`: the work is done at once."""
    return Future("cpp.future", {"result": asked.of(*asked.args[asked.at + 1 :])})


def _parallel_for(asked: _Call) -> Value:
    """`at::parallel_for`: all of a range as one part of it."""
    return asked.unknown(asked.of(*asked.args[:2])) if asked.at >= 2 else NotImplemented


_ROWS: dict[str, Callable[[_Call], Value]] = {
    "for_each": _for_each,
    "transform": _transform,
    "find_if": _find,
    "find_if_not": _find,
    "remove_if": _remove_if,
    "erase_if": _erase_if,
    "call_once": _call_once,
    "invoke": _invoke,
    "async": _async,
    "parallel_for": _parallel_for,
}


def _any(asked: _Call) -> Value:
    """A function of which no more is known than that it calls the one that it is given, with what nobody knows."""
    if any(isinstance(value, list) for value in asked.args):
        call(asked.run, "transform", asked.args[: asked.at] + asked.args[asked.at + 1 :], asked.loc)
    return asked.unknown(asked.of())


def thread(run: Cpp, items: list[Value], loc: ir.Loc | None) -> LibObject:
    """Models `std::thread`: the function runs from here on, beside the caller."""
    made = Thread("threading.Thread", {})
    func = function_of(items[0], "std::thread") if items else None
    if func is not None:
        made.attrs[lanes.GAVE] = lanes.run(run.interp, made, func, items[1:], {}, loc)
    return made


def may_call(run: Cpp, name: str, args: Sequence[Value], loc: ir.Loc | None) -> None:
    """Lets something of a library that is not followed call the functions that it is given, in a run of its own."""
    found = [func for value in args if (func := function_of(value)) is not None]
    if found:
        run.interp.may_call(name, found, {}, loc)
