"""Threads that go on after forward returned: what they do between calls is outside of every timed call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.host.effects import outside
from kbh_lint.host.python import lanes

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_WORK = ("launch", "library", "op")


def tick(interp: Run) -> None:
    """Lets threads that loop for ever run once more between two calls of `forward`."""
    for lane in list(interp.lanes.endless):
        target, args, kwargs = lane.attrs["again"]
        before = len(interp.trace.events)
        lanes.run(interp, lane, target, args, kwargs, lane.attrs.get("loc"))
        made = interp.trace.events[before:]
        reads = {content.label.partition(":")[0] for event in made for content, _ in event.reads}
        works = any(event.kind in _WORK for event in made)
        if "input" in reads or works and "state" in reads:
            what = "the inputs" if "input" in reads else "the weights"
            outside.note(interp, "thread", "threading.Thread", f"{what} between two calls", lane.attrs.get("loc"))
