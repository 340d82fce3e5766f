"""What a run passes around: calls in progress, and the ways out of one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Value
from kbh_lint.host.values.objects import ClassV

FULL_ITERATIONS = 6  # of a loop that works on tensors; the rest is taken to be like them
MAX_FRAMES = 60  # calls within one another
MAPPED_STRING = 24  # shorter literals carry no map: none holds code


def builtin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a Python function as a built-in of the interpreted program, called with (interp, args, kwargs, loc)."""
    function.__kbh_builtin__ = True  # type: ignore[attr-defined]
    return function


def method(function: Callable[..., Value]) -> Callable[..., Value]:
    """Marks a built-in as one that is bound to the object, or the class, whose attribute it is."""
    function.__kbh_method__ = True  # type: ignore[attr-defined]
    return builtin(function)


class OutOfFuel(Exception):
    """The run was stopped at its bound."""


class Raised(Exception):
    """An exception of the interpreted program."""

    def __init__(self, value: Value, loc: ir.Loc | None) -> None:
        super().__init__(value)
        self.value = value
        self.loc = loc


Leave = Callable[[Raised | None], Any]  # what ends a `with`, given the exception in it; True when that is swallowed


class Returned:
    """The signal of a `return` statement, with its value."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


BREAK = object()


CONTINUE = object()


SERIALS = count(1)  # of calls: what id() gives of one that ended is given out again


class CallSite:
    """A call in progress: the place where it was made, and a `serial` number that no other call has."""

    __slots__ = ("loc", "serial")

    def __init__(self, loc: ir.Loc | None) -> None:
        self.loc = loc
        self.serial = next(SERIALS)


class Frame(CallSite):
    """One call of a Python function: its variables, and where it was called from."""

    __slots__ = ("env", "globals", "outer", "func", "cls", "named")

    def __init__(self, env: Env, globals_: Env, loc: ir.Loc | None, func: Func | None) -> None:
        super().__init__(loc)
        self.env = env
        self.globals = globals_
        self.outer: dict[str, Env] = {}  # names declared global or nonlocal -> the scope that holds them
        self.named: Env | None = None  # of a comprehension: where `:=` in it puts a name
        self.func = func
        self.cls: ClassV | None = func.cls if func is not None else None


def target_names(target: ir.Expr) -> list[str]:
    """Returns the names that an assignment to a target binds."""
    if isinstance(target, ir.Name):
        return [target.id]
    if isinstance(target, ir.Seq):
        return [n for item in target.items for n in target_names(item)]
    return []
