"""Coroutines: a body that runs when something waits for it, and asyncio, which decides when that is.

A task runs when its loop gets to it: at the next wait that gives the loop a turn, or when `asyncio.run` ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import exceptions, iteration, prelude
from kbh_lint.host.python import lanes, pools
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import Frame, Raised, Returned, builtin
from kbh_lint.host.values.named_objects import Coroutine, EventLoop, Task, Thread, Waiting
from kbh_lint.host.values.objects import Instance, LibObject, find_method
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_STEPS, _GAVE, _ERROR = "__steps__", "__gave__", "__error__"


def make(interp: Run, body: tuple[ir.Stmt, ...], frame: Frame) -> LibObject:
    """The coroutine that a call of an `async def` makes; nothing of its body has run."""

    def steps() -> Any:
        interp.frames.append(frame)
        try:
            signal = interp.block(body, frame)
        finally:
            interp.frames.pop()
        return signal.value if isinstance(signal, Returned) else None

    return Coroutine("coroutine", {_STEPS: steps})


def awaited(interp: Run, value: Value, loc: ir.Loc | None) -> Any:
    """`await value`."""
    if isinstance(value, Instance):
        own = find_method(value, "__await__")
        steps = interp.call(own, [], {}, loc) if own is not None else value
        return steps.filled().gave if isinstance(steps, Once) else steps
    if not isinstance(value, LibObject):
        return value
    if isinstance(value, Thread):
        return lanes.result(interp, value)
    if isinstance(value, (Coroutine, Waiting)):
        steps = value.attrs.pop(_STEPS, None)
        if steps is not None:
            return steps()
        interp.may_fail("RuntimeError", loc)
        return Unknown((), "a coroutine that has run")
    if isinstance(value, Task):
        _turn(interp)
        return _result(value)
    return value


def _result(task: LibObject) -> Any:
    if task.attrs.get(_ERROR) is not None:
        raise task.attrs[_ERROR]
    return task.attrs.get(_GAVE, Unknown((), "a task that has not run"))


def _turn(interp: Run) -> None:
    """The loop gets its turn: tasks run in the order in which they came."""
    while interp.tasks:
        task = interp.tasks.pop(0)
        try:
            task.attrs[_GAVE] = task.attrs.pop(_STEPS)()
        except Raised as error:
            task.attrs[_ERROR] = error


def _task(interp: Run, value: Value, loc: ir.Loc | None) -> LibObject:
    """The task that runs what is given, or what is a task already."""
    if isinstance(value, (Task, Thread)):
        return value
    task = Task("asyncio.Task", {_STEPS: lambda: awaited(interp, value, loc)})
    interp.tasks.append(task)
    return task


def _later(steps: Callable[[], Any]) -> LibObject:
    return Waiting("asyncio.waiting", {_STEPS: steps})


def _after_turn(interp: Run, then: Callable[[], Any]) -> Any:
    _turn(interp)
    return then()


def _run(interp: Run, value: Value, loc: ir.Loc | None) -> Any:
    """asyncio.run: a loop of its own; what became a task without a turn yet begins before the loop ends."""
    others, interp.tasks = interp.tasks, []
    try:
        found = awaited(interp, value, loc)
        _turn(interp)
        return found
    finally:
        interp.tasks = others


def _all(interp: Run, values: list[Any], caught: bool, loc: ir.Loc | None) -> LibObject:
    """asyncio.gather."""
    tasks = [_task(interp, value, loc) for value in values]

    def steps() -> list[Any]:
        _turn(interp)
        found: list[Any] = []
        for task in tasks:
            try:
                found.append(awaited(interp, task, loc))
            except Raised as error:
                if not caught:
                    raise
                found.append(error.value)
        return found

    return _later(steps)


def _beside(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> LibObject:
    """A function that runs in a thread, by `asyncio.to_thread` or `run_in_executor`: in a lane of its own."""
    return pools.start(interp, loc, lambda lane: lanes.run(interp, lane, args[0], args[1:], kwargs, loc))


def end_group(interp: Run, group: LibObject) -> None:
    """The end of `async with asyncio.TaskGroup()`: its tasks are waited for."""
    for task in group.attrs.get("tasks", ()):
        awaited(interp, task, None)


def call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A function of asyncio."""
    name = path.rpartition(".")[2]
    given = args[0] if args else next(iter(kwargs.values()), None)
    if name == "run":
        return _run(interp, given, loc)
    if name in ("get_event_loop", "new_event_loop", "get_running_loop"):
        return EventLoop("asyncio.loop")
    if name in ("create_task", "ensure_future"):
        return _task(interp, given, loc)
    if name == "gather":
        return _all(interp, args, kwargs.get("return_exceptions") is True, loc)
    if name == "sleep":
        gave = args[1] if len(args) > 1 else kwargs.get("result")
        return _later(lambda: _after_turn(interp, lambda: gave))
    if name in ("wait_for", "shield"):
        task = _task(interp, given, loc)
        return _later(lambda: awaited(interp, task, loc))
    if name == "wait":
        tasks = {_task(interp, value, loc) for value in iteration.iterate(interp, given, loc)}
        return _later(lambda: _after_turn(interp, lambda: (tasks, set())))
    if name == "as_completed":
        return [_task(interp, value, loc) for value in iteration.iterate(interp, given, loc)]
    if name == "to_thread" and args:
        return _later(lambda: lanes.result(interp, _beside(interp, args, kwargs, loc)))
    if name == "wrap_future":
        return given
    if name in ("iscoroutine", "isfuture"):
        return isinstance(given, Coroutine if name == "iscoroutine" else Task)
    return LibObject.by_path(path, {}, tuple(args), kwargs)


def method(
    interp: Run, owner: LibObject, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method of a coroutine, a task or a loop; NotImplemented for all else."""
    given = args[0] if args else next(iter(kwargs.values()), None)
    if isinstance(owner, EventLoop):
        if name == "run":
            return _run(interp, given, loc)
        if name == "run_until_complete":
            if isinstance(given, Coroutine):
                given = _task(interp, given, loc)
            _turn(interp)
            return awaited(interp, given, loc)
        if name == "create_task":
            task = _task(interp, given, loc)
            owner.attrs.setdefault("tasks", []).append(task)
            return task
        if name == "run_in_executor" and len(args) > 1:
            return _beside(interp, args[1:], {}, loc)
        if name in ("call_soon", "call_soon_threadsafe") and args:
            task = Task("asyncio.Task", {_STEPS: lambda: interp.call(args[0], args[1:], {}, loc)})
            interp.tasks.append(task)
            return task
        if name in ("close", "stop", "shutdown_default_executor", "shutdown_asyncgens"):
            return None
        return NotImplemented
    if isinstance(owner, Coroutine):
        if name == "__await__":
            return owner
        if name == "send":
            exceptions.raise_("StopIteration", [awaited(interp, owner, loc)], loc)
        return owner.attrs.pop(_STEPS, None) and None if name == "close" else NotImplemented
    if isinstance(owner, Task) and name in ("result", "done", "cancel", "exception"):
        if name == "result":
            return _result(owner)
        if name == "cancel":
            interp.tasks[:] = [task for task in interp.tasks if task is not owner]
            return True
        return _STEPS not in owner.attrs if name == "done" else getattr(owner.attrs.get(_ERROR), "value", None)
    return NotImplemented


@builtin
def _one_turn(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return call(interp, "asyncio.sleep", args, kwargs, loc)


prelude.NATIVE["__turn__"] = _one_turn
