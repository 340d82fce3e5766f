"""A room in name only, for --no-sandbox: folders of its own, a user of its own where this is root, limits, and an end.

The agent sees the file system and the network as that user does. The record says so for ever.
"""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path, PurePosixPath

from grader.sandbox import harden_judge
from grader.sandbox.base import Jail, Layout, SandboxError
from grader.sandbox.kinds.plain import plain
from harness.agents.base import HOME, TEMPORARY, WORKSPACE
from harness.record.run import RoomRecord
from harness.room import users
from harness.room.base import Mount, RoomError, RoomSpec
from harness.room.files import FOLDER, FolderFiles, make_folder
from harness.room.held import First, HeldRoom, Inside, start_first
from harness.room.inside import BACKLOG

__all__ = ["open_plain"]

HOST = "127.0.0.1"
NOTES = ("what the agent writes is bounded file by file only", "every process of this machine reaches its proxy")


def open_plain(spec: RoomSpec) -> HeldRoom:
    """Starts a room without a sandbox: the file system and the network are those of the machine. Raises RoomError."""
    from grader.grading.scratch import scratch_folder  # torch comes with it, which takes seconds

    with ExitStack() as stack:
        try:
            harden_judge()
            lease = users.take()
            stack.callback(users.give_back, lease)
            sandbox = plain(NOTES)
            uid = os.getuid() if lease.uid is None else lease.uid
            sandbox = replace(sandbox, uid=lease.uid, record=replace(sandbox.record, uid=uid), marks={})
            folder = stack.enter_context(scratch_folder())
            held = os.open(folder, FOLDER)
            files = FolderFiles(held, uid, own_disk=False)
            stack.callback(files.close)
            for place in (WORKSPACE, HOME, TEMPORARY):
                make_folder(held, place.name, uid)
            listener = socket.create_server((HOST, 0), backlog=BACKLOG)
            stack.callback(listener.close)
            first = start_first(sandbox, _jail(spec), [], None)
        except (SandboxError, OSError) as error:
            raise RoomError(f"no room can be had: {error}") from None
        try:
            record = RoomRecord("none", False, uid, spec.gpu, sandbox.record.notes)
            return HeldRoom(record, files, listener, _inside(folder, listener, spec.mounts), first, stack.pop_all())
        except BaseException:
            _give_up(first)
            raise


def _give_up(first: First) -> None:
    first.end()
    first.close()


def _jail(spec: RoomSpec) -> Jail:
    return Jail(
        (), (), gpu=bool(spec.gpu), data_bytes=spec.memory_bytes, processes=spec.processes,
        file_bytes=spec.file_bytes, layout=Layout(),
    )  # fmt: skip


def _inside(folder: Path, listener: socket.socket, mounts: tuple[Mount, ...]) -> Inside:
    agent = PurePosixPath(folder)

    def seen(path: PurePosixPath) -> PurePosixPath:
        for place in (WORKSPACE, HOME, TEMPORARY):
            if path.is_relative_to(place):
                return agent / path.relative_to(WORKSPACE.parent)
        for mount in sorted(mounts, key=lambda mount: len(mount.target.parts), reverse=True):
            if path.is_relative_to(mount.target):
                return PurePosixPath(mount.source.absolute()) / path.relative_to(mount.target)
        return path

    url = f"http://{HOST}:{listener.getsockname()[1]}"
    return Inside(url, seen(WORKSPACE), seen(HOME), seen(TEMPORARY), seen)
