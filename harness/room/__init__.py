"""Rooms: where an agent works. `open_room` gives a sealed one, or, where that is asked for, one in name only.

A sealed room is bubblewrap (`grader.sandbox`): an empty root with the system, Python and what is mounted, read-only;
/agent, /tmp and /dev/shm in memory and bounded; no network but its own loopback; no process but its own; one GPU or
none. The way out is a listener on its loopback that the harness holds. docs/agents.md says what a room keeps apart.
"""

from __future__ import annotations

from functools import cache

from harness.room.base import Room, RoomSpec
from harness.room.plain import open_plain
from harness.room.sealed import open_sealed

__all__ = ["need_sealed", "open_room"]


def open_room(spec: RoomSpec, *, sealed: bool = True) -> Room:
    """A room with nothing running in it; leaving it as a context manager closes it. Takes a tenth of a second.

    Raises RoomError, also where a sealed room cannot be had here: there is no other one in its place.
    """
    return open_sealed(spec) if sealed else open_plain(spec)


@cache
def need_sealed() -> None:
    """Checks, once in this process, that a sealed room can be opened here, so that a machine without bubblewrap or
    without namespaces is found out before an agent is started. Raises RoomError.
    """
    with open_sealed(RoomSpec()):
        pass
