"""A user of its own for every room, so that limits count one room only and no room owns another one's files."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from grader.sandbox.users import leased_uid

__all__ = ["Lease", "give_back", "take"]

FIRST_PLACE = 16  # those before are the grader's
_LOCK = threading.Lock()
_TAKEN: set[int] = set()


@dataclass(frozen=True, slots=True)
class Lease:
    """A user's number, None where this process cannot change it, until `give_back`."""

    place: int
    uid: int | None


def take() -> Lease:
    """A user that no other room has. Raises SandboxError."""
    with _LOCK:
        place = next(place for place in range(FIRST_PLACE, FIRST_PLACE + len(_TAKEN) + 1) if place not in _TAKEN)
        lease = Lease(place, leased_uid(place))  # kept by this process for the next room of the place
        _TAKEN.add(place)
        return lease


def give_back(lease: Lease) -> None:
    """Gives a user back for the next room; the room is closed, and none of its processes is left."""
    with _LOCK:
        _TAKEN.discard(lease.place)
