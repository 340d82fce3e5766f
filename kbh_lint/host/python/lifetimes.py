"""The ends of objects: `__del__`, callbacks of weak references and finalizers run once nothing holds an object.

An object of the program is one of ours, and dies when ours does; what was to happen then happens after the statement.
Objects that hold one another end when a collector finds them, which is never.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import Raised, builtin
from kbh_lint.host.values.modelled import Methods, Owner, Rows, Site, models
from kbh_lint.host.values.named_objects import Finalizer
from kbh_lint.host.values.objects import Bound, Instance, LibObject, find_method

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_collecting: list[bool] = []
MAX_HELD = 3  # objects in objects in which one is looked for


def _notice(phase: str, info: dict[str, int]) -> None:
    _collecting[:] = [True] if phase == "start" else []


def watch(interp: Run, value: Instance | LibObject | Once, then: Callable[[], Any]) -> Callable[[], Any]:
    """Has `then` run after the statement that ends an object; returns what finds the object while it lives."""
    if _notice not in gc.callbacks:
        gc.callbacks.append(_notice)

    dying = interp.dying  # the run may itself be taken apart by then

    def ended(_: object) -> None:
        if not _collecting:
            dying.append(then)

    found = weakref.ref(value, ended)
    interp.watched.append(found)
    return found


def made(interp: Run, value: Instance) -> None:
    """Registers a new object, so that its `__del__`, if its class has one, runs when the object ends."""
    own = value.cls.get("__del__")
    if own is None:
        return
    cls, attrs, buffers, items = value.cls, value.attrs, value.buffers, value.items
    watch(interp, value, lambda: interp.call(Bound(Instance(cls, attrs, buffers, items), own), [], {}, None))


def collect(interp: Run, loc: ir.Loc | None) -> None:
    """Models `gc.collect()`: objects may end that hold themselves, if nothing else does."""
    for found in list(interp.watched):
        value = found()
        own = find_method(value, "__del__") if isinstance(value, Instance) else None
        if isinstance(value, Instance) and own is not None and _holds(value, value.attrs.values()):
            interp.may_call("gc.collect", [own], {}, loc)


def _holds(value: Instance, parts: Iterable[Value], depth: int = 0) -> bool:
    """Whether an object is among some values, or in what they hold."""
    for part in parts:
        below = part.attrs.values() if isinstance(part, Instance) else part if isinstance(part, (list, tuple)) else ()
        if part is value or depth < MAX_HELD and _holds(value, below, depth + 1):
            return True
    return False


def run_endings(interp: Run) -> None:
    """Runs `__del__`, finalizers and callbacks of objects that have ended; an exception in one is dropped."""
    while interp.dying:
        then = interp.dying.pop(0)
        try:
            then()
        except Raised:
            continue


def finalizer(
    interp: Run, owner: Value, call: tuple[Value, list[Value], dict[str, Value]], loc: ir.Loc | None
) -> LibObject:
    """Models `weakref.finalize`: a call at the end of an object of the submission. Other values, such as tensors, are
    taken to live on, or to end at once."""
    handle = Finalizer("weakref.finalize", {"call": call})
    if isinstance(owner, Instance):
        watch(interp, owner, lambda: finalize(interp, handle, loc))
    else:
        interp.may_call("weakref.finalize", [call[0], *call[1]], call[2], loc)
    return handle


def reference(interp: Run, owner: Value, then: Value, loc: ir.Loc | None) -> Any:
    """Models `weakref.ref`: a callable that returns the object while it lives; `then`, unless None, is called at its
    end."""
    if then is None and id(owner) in interp.memory.referred:
        return interp.memory.referred[id(owner)][1]
    if isinstance(owner, Instance):
        made: Any = None
        found = watch(interp, owner, lambda: then is not None and interp.call(then, [made], {}, loc))
        made = builtin(lambda *_: found())
        return made
    made = builtin(lambda *_: owner)
    if then is not None:
        interp.may_call("weakref.ref", [then], {}, loc)
    else:  # one reference an object; of an object of the program it must not hold that alive
        interp.memory.referred[id(owner)] = owner, made
    return made


def finalize(interp: Run, handle: Owner, loc: ir.Loc | None) -> Value:
    """Calls the function of a finalizer, once: when it is called or when its object ends."""
    given = handle.attrs.pop("call", None)
    return interp.call(given[0], list(given[1]), given[2], loc) if given is not None else None


class _Finalizers(Methods[Owner]):
    """`weakref.finalize(...)`."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns `finalizer.alive`: whether its function is still to be called."""
        return "call" in owner.attrs if name == "alive" else NotImplemented

    def called(self, site: Site, owner: Owner) -> Value:
        """Models `finalizer()`: calls its function now."""
        return finalize(site.run, owner, site.loc)

    @models("detach")
    def detach(self, site: Site, owner: LibObject) -> Value:
        """Models `finalizer.detach()`: returns what was to be called, and drops it."""
        given = owner.attrs.pop("call", None)
        return given and (None, *given)

    @models("peek")
    def peek(self, site: Site, owner: LibObject) -> Value:
        """Models `finalizer.peek()`: returns what is to be called."""
        given = owner.attrs.get("call")
        return given and (None, *given)


METHODS: Rows = {Finalizer: _Finalizers()}
