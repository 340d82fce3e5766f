"""Functions under contextlib.contextmanager: what stands between their start and their end is the body of a with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbh_lint import ir
from kbh_lint.host.objects import LibObject
from kbh_lint.values import Func

MARK = "__manager__"
PATH = "contextlib.manager"


class _Around(list[Any]):
    """What such a function yields: at the first value, the body runs."""

    def __init__(self, body: Callable[[Any], Any]) -> None:
        super().__init__()
        self.body = body
        self.signal: Any = None

    def __bool__(self) -> bool:
        return True

    def append(self, value: Any) -> None:
        super().append(value)
        if len(self) == 1:
            self.signal = self.body(value)


def manager(func: Func, args: list[Any], kwargs: dict[str, Any]) -> LibObject:
    """The context manager that a call makes; nothing of the function runs until it is entered."""
    return LibObject(PATH, {"func": func, "args": list(args), "kwargs": kwargs})


def is_manager(value: Any) -> bool:
    return isinstance(value, LibObject) and value.path == PATH


def run(interp: Any, made: LibObject, body: Callable[[Any], Any], loc: ir.Loc | None) -> Any:
    """Run the function with `body` where it yields; what the body gave."""
    around = interp.around = _Around(body)
    try:
        interp.call(made.attrs["func"], made.attrs["args"], made.attrs["kwargs"], loc)
    finally:
        interp.around = None
    return around.signal


def enter(interp: Any, made: LibObject, loc: ir.Loc | None) -> Any:
    """A manager that is entered by hand, or put on an ExitStack: its end follows at once. Gives what it yields."""
    return run(interp, made, lambda value: value, loc)
