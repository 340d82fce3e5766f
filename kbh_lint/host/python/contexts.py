"""`with`: what entering a context manager does, and what leaving it undoes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import exceptions
from kbh_lint.host.python import contextmanagers, coroutines, lanes
from kbh_lint.host.values.frames import Leave, Raised
from kbh_lint.host.values.named_objects import (
    ChildProcess,
    Closing,
    ExitStack,
    GraphCapture,
    NullContext,
    Patcher,
    Pool,
    StreamContext,
    Suppress,
    TaskGroup,
)
from kbh_lint.host.values.objects import Graph, Instance, LibObject, Method, find_method

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

STACK, EXITS = "contextlib.ExitStack", "__exits__"


def enter(interp: Run, manager: Value, exits: list[Leave], loc: ir.Loc | None) -> Any:
    """`with manager`: what `as` binds; `exits` collects what to undo."""
    if isinstance(manager, GraphCapture):
        graph = manager.args[0] if manager.args else manager.kwargs.get("cuda_graph")
        if isinstance(graph, Graph):
            start_capture(interp, graph)
            exits.append(lambda raised: end_capture(interp, graph))
        return manager
    if isinstance(manager, StreamContext) or isinstance(manager, LibObject) and lanes.is_stream(manager):
        if lanes.enter(interp, manager):
            exits.append(lambda raised: lanes.leave(interp))
        return manager
    if isinstance(manager, (ChildProcess, Pool)):
        exits.append(lambda raised: interp.call(Method(manager, "__exit__"), [], {}, loc) and None)
        return manager
    if isinstance(manager, Suppress):
        exits.append(lambda raised: raised is not None and exceptions.catches(interp, manager.args, raised.value))
        return None
    if isinstance(manager, TaskGroup):
        exits.append(lambda raised: coroutines.end_group(interp, manager))
        return manager
    if isinstance(manager, ExitStack):
        exits.append(lambda raised: unwind(manager, raised))
        return manager
    if isinstance(manager, Closing) and manager.args:
        exits.append(lambda raised: interp.call(interp.get_attr(manager.args[0], "close", loc), [], {}, loc))
        return manager.args[0]
    if isinstance(manager, NullContext):
        return manager.args[0] if manager.args else manager.kwargs.get("enter_result")
    if isinstance(manager, Patcher):
        return interp.call(manager.attrs["__enter__"], [], {}, loc)
    if isinstance(manager, Instance):
        later = find_method(manager, "__aenter__") is not None and find_method(manager, "__enter__") is None
        entered = find_method(manager, "__aenter__" if later else "__enter__")
        leave = find_method(manager, "__aexit__" if later else "__exit__")
        if leave is not None:
            exits.append(lambda raised: _called(interp, leave, exceptions.exception_parts(raised), loc))
        return _called(interp, entered, [], loc) if entered is not None else manager
    if isinstance(manager, list):  # a @contextmanager generator: what it yields
        return manager[0] if manager else None
    return manager


def _called(interp: Run, method: Value, args: list[Any], loc: ir.Loc | None) -> Any:
    """What a method of a manager gives; one of `async with` is waited for."""
    return coroutines.awaited(interp, interp.call(method, args, {}, loc), loc)


def stack_method(
    interp: Run, owner: LibObject, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method of an ExitStack, which leaves what was entered and calls what was given, the last first."""
    exits: list[Leave] = owner.attrs.setdefault(EXITS, [])
    given = args[0] if args else None
    if isinstance(given, LibObject) and contextmanagers.is_manager(given) and name == "enter_context":
        return contextmanagers.enter(interp, given, exits, loc)
    if name == "enter_context":
        return enter(interp, given, exits, loc)
    if name == "callback":
        exits.append(lambda raised: interp.call(given, args[1:], kwargs, loc) and None)
    elif name == "push":
        leave = find_method(given, "__exit__") if isinstance(given, Instance) else given
        exits.append(lambda raised: interp.call(leave, exceptions.exception_parts(raised), {}, loc))
    elif name == "pop_all":
        owner.attrs[EXITS] = []
        return ExitStack(STACK, {EXITS: exits})
    elif name in ("close", "__exit__"):
        unwind(owner, None)
        return None
    elif name == "__enter__":
        return owner
    return given


def unwind(stack: LibObject, raised: Raised | None) -> bool:
    """Leaves an ExitStack; whether that swallowed the exception it was left with."""
    exits: list[Leave] = stack.attrs.pop(EXITS, [])
    now = raised
    while exits:
        try:
            if exits.pop()(now) is True:
                now = None
        except Raised as error:
            now = error
    if now is not None and now is not raised:
        raise now
    return raised is not None and now is None


def start_capture(interp: Run, graph: Graph) -> None:
    graph.events = []
    interp.capturing.append(graph)


def end_capture(interp: Run, graph: Graph) -> None:
    if graph in interp.capturing:
        interp.capturing.remove(graph)
