"""What the tests of rooms share: a program run in a room, and what it printed."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from harness.room import open_room
from harness.room.base import Room, RoomError, RoomSpec

SECONDS = 60
SMALL = RoomSpec(disk_bytes=64 << 20, tmp_bytes=16 << 20)


@dataclass(frozen=True)
class Ran:
    """How a program ended and what it printed."""

    status: int | None
    out: str
    err: str

    @property
    def said(self) -> Any:
        """The last line of what it printed, as JSON."""
        assert self.status == 0, (self.status, self.out, self.err)
        return json.loads(self.out.splitlines()[-1])


def opened(spec: RoomSpec = SMALL, *, sealed: bool = True) -> Room:
    """A room, where this machine can make one."""
    try:
        return open_room(spec, sealed=sealed)
    except RoomError as error:
        if "no sealed room" in str(error):
            pytest.skip(str(error))
        raise


def ran(
    room: Room,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    seconds: float = SECONDS,
) -> Ran:
    """Runs a program until it ends, or for a time: then its status is None, and it goes on."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        room.start(argv, env=env or {}, stdin=stdin, stdout=out, stderr=err)
        status = room.wait(seconds)
        for file in (out, err):
            file.seek(0)
        return Ran(status, out.read().decode("utf-8", "replace"), err.read().decode("utf-8", "replace"))


def python(code: str, *arguments: str) -> list[str]:
    """How a program is started with the room's Python."""
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


def begun(room: Room, argv: Sequence[str]) -> None:
    """Starts a program and waits until it has said "ready"."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as lines, os.fdopen(writer, "wb") as out:
        room.start(argv, env={}, stdin=b"", stdout=out, stderr=out)
        out.close()
        said = b""
        while b"ready" not in said:
            said = lines.readline()
            assert said, "it ended before it was ready"


def until(reached: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Waits for something that must happen."""
    limit = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.01)
