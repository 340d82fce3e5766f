"""Launches that run at once: one that waits in a loop for a flag reads what the launch that sets it has written.

The order in which the host launches them says nothing when they are on different streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base.values import Scalar
from kbh_lint.host.values.tensors import Content, Event
from kbh_lint.kernels.core.facts import KernelFacts, Wait

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_BACK = 64  # events of one call that are looked at


def after_launch(interp: Run, setter: Event) -> None:
    """Adds what `setter` wrote to the reads of launches that may run at the same time and wait for a flag that it
    sets."""
    if not interp.session.waiting:
        return
    written = {content.storage.ident for content in setter.writes}
    events = interp.trace.events
    if not written or len(events) < 2:
        return
    first = interp.lanes.seen - len(events)
    for back in range(len(events) - 2, max(len(events) - 2 - MAX_BACK, -1), -1):
        waiting = events[back]
        if waiting.call != setter.call:
            break
        waits = _waits(waiting)
        if not any(o.storage in written for wait in waits for o in wait.origins):
            continue
        if interp.lanes.apart(waiting, first + back) and all(_steady(interp, waiting, wait) for wait in waits):
            lanes = interp.lanes
            others = [e for e in events[back + 1 :] if e is setter or lanes.before_now(e)]
            _reads_what(waiting, others, {o.storage for wait in waits for o in wait.origins})


def _waits(event: Event) -> list[Wait]:
    distinct: list[KernelFacts] = event.attrs.get("distinct", [])
    return [wait for facts in distinct for wait in facts.waits]


def _steady(interp: Run, waiting: Event, wait: Wait) -> bool:
    """Whether a flag that an earlier call left set cannot end the wait: it is made anew in each call, the launch that
    waits puts it back, or another number is waited for in each call."""
    held: dict[int, Content] = waiting.attrs["contents"]
    for content in [held[o.storage] for o in wait.origins if o.storage in held]:
        left_by = content.event
        if content.call in (0, waiting.call) or left_by is not None and _waits(left_by):
            continue
        earlier = next((e for e in reversed(interp.trace.events) if _same_before(e, waiting)), None)
        if earlier is not None and not any(_number(earlier, name) != _number(waiting, name) for name in wait.params):
            return False
    return True


def _same_before(event: Event, waiting: Event) -> bool:
    return event.call < waiting.call and event.attrs.get("kernel") is waiting.attrs["kernel"]


def _number(event: Event, name: str) -> object:
    given = event.attrs["bindings"][0].get(name)
    return given.value if isinstance(given, Scalar) else None


def _reads_what(waiting: Event, others: list[Event], flags: set[int]) -> None:
    """`waiting` reads what `others` wrote, where they read nothing that it writes itself but the flags; what it leaves
    in those it does after they have set them."""
    own = {content.storage.ident: content for content in waiting.writes}
    if any(content.storage.ident in own.keys() - flags for event in others for content, _ in event.reads):
        return
    held: dict[int, Content] = waiting.attrs["contents"]
    before = {content.ident: held.get(at, content) for at, content in own.items()}
    for event in others:
        event.reads = [(before.get(content.ident, content), tensor) for content, tensor in event.reads]
    now = {w.storage.ident: w for event in others for w in event.writes if w.storage.ident not in own}
    waiting.reads = [(now.get(content.storage.ident, content), tensor) for content, tensor in waiting.reads]
    held.update((ident, content) for ident, content in now.items() if ident in held)
    flows = waiting.flows or {}
    for ident, sources in flows.items():
        flows[ident] = [now.get(content.storage.ident, content) for content in sources]
    for at in flags & own.keys():
        own[at].storage.content = own[at]
