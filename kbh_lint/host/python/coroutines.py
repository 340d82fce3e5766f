"""Coroutines: a body that runs when something waits for it, and asyncio, which decides when that is.

A task runs when its loop gets to it: at the next wait that gives the loop a turn, or when `asyncio.run` ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import exceptions, iteration, prelude
from kbh_lint.host.python import lanes, pools
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import Frame, Raised, Returned, builtin
from kbh_lint.host.values.modelled import Library, Methods, Owner, Rows, Site, models
from kbh_lint.host.values.named_objects import Coroutine, EventLoop, Task, Thread, Waiting
from kbh_lint.host.values.objects import Instance, LibObject, find_method
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_STEPS, _GAVE, _ERROR = "__steps__", "__gave__", "__error__"


def make(interp: Run, body: tuple[ir.Stmt, ...], frame: Frame) -> LibObject:
    """Returns the coroutine that a call of an `async def` makes, with nothing of its body run."""

    def steps() -> Value:
        interp.frames.append(frame)
        try:
            signal = interp.block(body, frame)
        finally:
            interp.frames.pop()
        return signal.value if isinstance(signal, Returned) else None

    return Coroutine("coroutine", {_STEPS: steps})


def awaited(interp: Run, value: Value, loc: ir.Loc | None) -> Any:
    """Evaluates `await value`."""
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


def _result(task: LibObject) -> Value:
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


def _after_turn(interp: Run, then: Callable[[], Any]) -> Value:
    _turn(interp)
    return then()


def _run(interp: Run, value: Value, loc: ir.Loc | None) -> Value:
    """asyncio.run: a loop of its own; what became a task without a turn yet begins before the loop ends."""
    others, interp.tasks = interp.tasks, []
    try:
        found = awaited(interp, value, loc)
        _turn(interp)
        return found
    finally:
        interp.tasks = others


def _all(interp: Run, values: Sequence[Value], caught: bool, loc: ir.Loc | None) -> LibObject:
    """asyncio.gather."""
    tasks = [_task(interp, value, loc) for value in values]

    def steps() -> list[Value]:
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


def _beside(interp: Run, func: Value, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> LibObject:
    """A function that runs in a thread, by `asyncio.to_thread` or `run_in_executor`: in a lane of its own."""
    return pools.start(interp, loc, lambda lane: lanes.run(interp, lane, func, args, kwargs, loc))


def end_group(interp: Run, group: LibObject) -> None:
    """Ends `async with asyncio.TaskGroup()`: waits for the group's tasks."""
    for task in group.attrs.get("tasks", ()):
        awaited(interp, task, None)


class Asyncio(Library):
    """The module `asyncio`."""

    @models("run")
    def run(self, site: Site, main: Value = None, **options: Value) -> Value:
        """Models `asyncio.run(main)`."""
        return _run(site.run, main, site.loc)

    @models("get_event_loop", "new_event_loop", "get_running_loop")
    def loop(self, site: Site) -> Value:
        """Models `asyncio.get_event_loop()` and the like."""
        return EventLoop("asyncio.loop")

    @models("create_task", "ensure_future")
    def create_task(self, site: Site, coro: Value, **options: Value) -> Value:
        """Models `asyncio.create_task(coro)`."""
        return _task(site.run, coro, site.loc)

    @models("gather")
    def gather(self, site: Site, *aws: Value, return_exceptions: Value = False) -> Value:
        """Models `asyncio.gather(*aws)`."""
        return _all(site.run, list(aws), return_exceptions is True, site.loc)

    @models("sleep")
    def sleep(self, site: Site, delay: Value = 0, result: Value = None) -> Value:
        """Models `asyncio.sleep(delay, result)`."""
        return sleep(site.run, result)

    @models("wait_for", "shield")
    def wait_for(self, site: Site, aw: Value, *timeout: Value, **options: Value) -> Value:
        """Models `asyncio.wait_for(aw, timeout)`."""
        task = _task(site.run, aw, site.loc)
        return _later(lambda: awaited(site.run, task, site.loc))

    @models("wait")
    def wait(self, site: Site, aws: Value, **options: Value) -> Value:
        """Models `asyncio.wait(aws)`: all are done, none is pending."""
        tasks = {_task(site.run, value, site.loc) for value in iteration.iterate(site.run, aws, site.loc)}
        return _later(lambda: _after_turn(site.run, lambda: (tasks, set())))

    @models("as_completed")
    def as_completed(self, site: Site, aws: Value, **options: Value) -> Value:
        """Models `asyncio.as_completed(aws)`."""
        return [_task(site.run, value, site.loc) for value in iteration.iterate(site.run, aws, site.loc)]

    @models("to_thread")
    def to_thread(self, site: Site, func: Value, /, *args: Value, **kwargs: Value) -> Value:
        """Models `asyncio.to_thread(func, ...)`."""
        return _later(lambda: lanes.result(site.run, _beside(site.run, func, list(args), kwargs, site.loc)))

    @models("wrap_future")
    def wrap_future(self, site: Site, future: Value, **options: Value) -> Value:
        """Models `asyncio.wrap_future(future)`: the future itself."""
        return future

    @models("iscoroutine", "isfuture")
    def asked(self, site: Site, obj: Value) -> bool:
        """Models `asyncio.iscoroutine(obj)` and `isfuture(obj)`."""
        return isinstance(obj, Coroutine if site.name == "iscoroutine" else Task)


def sleep(run: Run, result: Value) -> LibObject:
    """Models `asyncio.sleep`: other tasks of the loop get their turn."""
    return _later(lambda: _after_turn(run, lambda: result))


class _Loops(Methods[Owner]):
    """Methods of event loops, runners and task groups."""

    @models("run")
    def run(self, site: Site, owner: LibObject, coro: Value, **options: Value) -> Value:
        """Models `runner.run(coroutine)`."""
        return _run(site.run, coro, site.loc)

    @models("run_until_complete")
    def run_until_complete(self, site: Site, owner: LibObject, future: Value) -> Value:
        """Models `loop.run_until_complete(future)`."""
        waited = _task(site.run, future, site.loc) if isinstance(future, Coroutine) else future
        _turn(site.run)
        return awaited(site.run, waited, site.loc)

    @models("create_task")
    def create_task(self, site: Site, owner: LibObject, coro: Value, **options: Value) -> Value:
        """Models `group.create_task(coro)` and `loop.create_task(coro)`; the end of a group waits for its tasks."""
        task = _task(site.run, coro, site.loc)
        owner.attrs.setdefault("tasks", []).append(task)
        return task

    @models("run_in_executor")
    def run_in_executor(self, site: Site, owner: LibObject, executor: Value, func: Value, *args: Value) -> Value:
        """Models `loop.run_in_executor(executor, func)`."""
        return _beside(site.run, func, list(args), {}, site.loc)

    @models("call_soon", "call_soon_threadsafe")
    def call_soon(self, site: Site, owner: LibObject, callback: Value, *args: Value, **options: Value) -> Value:
        """Models `loop.call_soon(callback)`."""
        task = Task("asyncio.Task", {_STEPS: lambda: site.run.call(callback, list(args), {}, site.loc)})
        site.run.tasks.append(task)
        return task

    @models("close", "stop", "shutdown_default_executor", "shutdown_asyncgens")
    def close(self, site: Site, owner: LibObject, *timeout: Value) -> None:
        """Models `loop.close()` and the like, which do nothing more."""


class _Coroutines(Methods[Owner]):
    """Methods of coroutines and other awaitables."""

    @models("__await__")
    def wait(self, site: Site, owner: LibObject) -> Value:
        """Models `awaitable.__await__()`: returns the awaitable itself."""
        return owner

    @models("send")
    def send(self, site: Site, owner: LibObject, value: Value) -> Value:
        """Models `coroutine.send(value)`: the body runs to its end."""
        return exceptions.raise_("StopIteration", [awaited(site.run, owner, site.loc)], site.loc)

    @models("close")
    def close(self, site: Site, owner: LibObject) -> None:
        """Models `coroutine.close()`: the rest of the body never runs."""
        owner.attrs.pop(_STEPS, None)


class _Tasks(Methods[Owner]):
    """Tasks of a loop."""

    @models("result")
    def result(self, site: Site, owner: LibObject) -> Value:
        """Models `task.result()`."""
        return _result(owner)

    @models("cancel")
    def cancel(self, site: Site, owner: LibObject, *message: Value, **named: Value) -> bool:
        """Models `task.cancel()`: the task never runs."""
        site.run.tasks[:] = [task for task in site.run.tasks if task is not owner]
        return True

    @models("done")
    def done(self, site: Site, owner: LibObject) -> bool:
        """Models `task.done()`."""
        return _STEPS not in owner.attrs

    @models("exception")
    def exception(self, site: Site, owner: LibObject) -> Value:
        """Models `task.exception()`."""
        return getattr(owner.attrs.get(_ERROR), "value", None)


METHODS: Rows = {EventLoop: _Loops(), Coroutine: _Coroutines(), Task: _Tasks()}


@builtin
def _one_turn(interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    return sleep(interp, None)


prelude.NATIVE["__turn__"] = _one_turn
