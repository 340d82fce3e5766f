"""Functions under `contextlib.contextmanager`: the body of the `with` runs where they yield."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Func, Value
from kbh_lint.host.datamodel import generators
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import Leave, Raised
from kbh_lint.host.values.named_objects import GeneratorManager
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MARK = "__manager__"


class _Around(list[Any]):
    """Collects the values that a function of `@contextmanager` yields; at the first one the body of the with statement
    runs."""

    def __init__(self, body: Callable[[Any], Any]) -> None:
        super().__init__()
        self.body = body
        self.signal: Any = None

    def __bool__(self) -> bool:
        return True

    def append(self, value: Value) -> None:
        """Runs the body of the with statement when the function yields its first value."""
        super().append(value)
        if len(self) == 1:
            self.signal = self.body(value)


def manager(func: Func, args: Sequence[Value], kwargs: Mapping[str, Value]) -> LibObject:
    """Returns the context manager that a call makes; the function does not run until the manager is entered."""
    return GeneratorManager("contextlib.manager", {"func": func, "args": list(args), "kwargs": kwargs})


def is_manager(value: Value) -> bool:
    """Whether a value is a context manager made of a generator function."""
    return isinstance(value, GeneratorManager)


def run(interp: Run, made: LibObject, body: Callable[[Any], Any], loc: ir.Loc | None) -> Any:
    """Runs a function of `@contextmanager` as a whole, with `body`, the body of the with statement, in the place of its
    `yield`; returns the signal (a return, a break) that ended the body."""
    around = interp.around = _Around(body)
    try:
        interp.call(made.attrs["func"], made.attrs["args"], made.attrs["kwargs"], loc)
    finally:
        interp.around = None
    return around.signal


def enter(interp: Run, made: LibObject, exits: list[Leave], loc: ir.Loc | None) -> Value:
    """Enters a manager outside a with statement, by hand or on an ExitStack. Returns what it yields, and appends to
    `exits` what ends it; a function that cannot be followed step by step ends at once."""
    func = made.attrs["func"]
    plain = Func(func.node, func.env, func.defaults, {}, func.cls, func.language)
    steps = interp.call(plain, made.attrs["args"], made.attrs["kwargs"], loc) if interp.around is None else None
    if not isinstance(steps, Once) or steps.source is None:
        return run(interp, made, lambda value: value, loc) if not steps else steps[0]
    steps.more()

    def leave(raised: Raised | None) -> bool:
        if raised is not None:
            return not generators.throw(steps, raised)
        steps.more()
        return False

    exits.append(leave)
    return steps.pop(0) if len(steps) else None
