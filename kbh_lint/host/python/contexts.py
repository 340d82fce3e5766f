"""`with`: what entering a context manager does, and what leaving it undoes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import exceptions
from kbh_lint.host.effects import modes
from kbh_lint.host.python import contextmanagers, coroutines, lanes
from kbh_lint.host.values.frames import Leave, Raised
from kbh_lint.host.values.modelled import Methods, Owner, Rows, Site, models
from kbh_lint.host.values.named_objects import (
    ChildProcess,
    Closing,
    ExitStack,
    GeneratorManager,
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


def enter(interp: Run, manager: Value, exits: list[Leave], loc: ir.Loc | None) -> Value:
    """Enters `with manager`: returns what `as` binds, and appends to `exits` what undoes it."""
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
        return _enter_own(interp, manager, exits, loc)
    if isinstance(manager, list):  # a @contextmanager generator: what it yields
        return manager[0] if manager else None
    return manager


def _enter_own(interp: Run, manager: Instance, exits: list[Leave], loc: ir.Loc | None) -> Value:
    """An object of the submission, by its own methods, those of `async with` too."""
    later = find_method(manager, "__aenter__") is not None and find_method(manager, "__enter__") is None
    entered = find_method(manager, "__aenter__" if later else "__enter__")
    leave = find_method(manager, "__aexit__" if later else "__exit__")
    if leave is not None:
        exits.append(lambda raised: _called(interp, leave, exceptions.exception_parts(raised), loc))
    if entered is None and leave is None and modes.is_mode(manager.cls):
        modes.note(interp, manager, True, loc)
        exits.append(lambda raised: modes.note(interp, manager, False, loc))
    return _called(interp, entered, [], loc) if entered is not None else manager


def _called(interp: Run, method: Value, args: list[Any], loc: ir.Loc | None) -> Any:
    """What a method of a manager gives; one of `async with` is waited for."""
    return coroutines.awaited(interp, interp.call(method, args, {}, loc), loc)


class _Stacks(Methods[Owner]):
    """Methods of an ExitStack, which runs its exits and callbacks in reverse order."""

    @models("enter_context")
    def enter_context(self, site: Site, owner: LibObject, cm: Value) -> Value:
        """Models `stack.enter_context(cm)`."""
        if isinstance(cm, GeneratorManager):
            return contextmanagers.enter(site.run, cm, _exits(owner), site.loc)
        return enter(site.run, cm, _exits(owner), site.loc)

    @models("callback")
    def callback(self, site: Site, owner: LibObject, callback: Value, /, *args: Value, **kwds: Value) -> Value:
        """Models `stack.callback(callback, *args)`."""
        _exits(owner).append(lambda raised: site.run.call(callback, list(args), kwds, site.loc) and None)
        return callback

    @models("push")
    def push(self, site: Site, owner: LibObject, exit: Value) -> Value:
        """Models `stack.push(exit)`."""
        leave = find_method(exit, "__exit__") if isinstance(exit, Instance) else exit
        _exits(owner).append(lambda raised: site.run.call(leave, exceptions.exception_parts(raised), {}, site.loc))
        return exit

    @models("pop_all")
    def pop_all(self, site: Site, owner: LibObject) -> Value:
        """Models `stack.pop_all()`: moves all exits to a new stack."""
        exits, owner.attrs[EXITS] = _exits(owner), []
        return ExitStack(STACK, {EXITS: exits})

    @models("close", "__exit__")
    def close(self, site: Site, owner: LibObject, *raised: Value) -> None:
        """Models `stack.close()`."""
        unwind(owner, None)

    @models("__enter__")
    def entered(self, site: Site, owner: LibObject) -> Value:
        """Models `stack.__enter__()`: returns the stack."""
        return owner

    def other(self, site: Site, owner: Owner) -> Value:
        """Answers a call of a method without a model (`Methods.other`): its first argument."""
        return site.args[0] if site.args else None


class _StreamContexts(Methods[Owner]):
    """`torch.cuda.stream(stream)` that is entered and left by calls, and not by `with`."""

    @models("__enter__")
    def entered(self, site: Site, owner: LibObject) -> Value:
        """The stream is current from here on."""
        owner.attrs["entered"] = lanes.enter(site.run, owner)
        return owner

    @models("__exit__")
    def left(self, site: Site, owner: LibObject, *raised: Value) -> None:
        """The stream before is current again."""
        if owner.attrs.pop("entered", False):
            lanes.leave(site.run)


METHODS: Rows = {ExitStack: _Stacks(), StreamContext: _StreamContexts()}


def _exits(stack: LibObject) -> list[Leave]:
    """What ends what a stack holds, in the order in which it came."""
    exits: list[Leave] = stack.attrs.setdefault(EXITS, [])
    return exits


def unwind(stack: LibObject, raised: Raised | None) -> bool:
    """Runs the exits of an ExitStack; returns whether they swallowed the exception `raised`."""
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
    """Starts capturing into a CUDA graph."""
    graph.events = []
    interp.capturing.append(graph)


def end_capture(interp: Run, graph: Graph) -> None:
    """Ends capturing into a CUDA graph."""
    if graph in interp.capturing:
        interp.capturing.remove(graph)
