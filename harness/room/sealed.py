"""A sealed room: bubblewrap, with nothing of this machine that an agent could learn from or reach others by."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath

from grader.sandbox.base import Jail, Layout, SandboxError
from grader.sandbox.control import groups_work
from grader.sandbox.kinds.bubblewrap import Bubblewrap, bubblewrap
from harness.agents.base import HOME, PORT, TEMPORARY, WORKSPACE
from harness.record.run import RoomRecord
from harness.room import users
from harness.room.base import RoomError, RoomSpec
from harness.room.disk import BYTES_FOR_FILE, bound_files
from harness.room.files import FolderFiles, make_folder
from harness.room.gpu import nodes_of
from harness.room.held import USER, First, HeldRoom, Inside, start_first

__all__ = ["open_sealed"]

AGENT = WORKSPACE.parent
HOST = "127.0.0.1"
TEMPORARY_FOLDERS = ("/tmp", "/dev/shm")
HOSTS = b"127.0.0.1 localhost\n::1 localhost\n"


def open_sealed(spec: RoomSpec) -> HeldRoom:
    """Opens a sealed room. Raises RoomError, also where this machine can make no such room."""
    _check(spec)
    nodes = nodes_of(spec.gpu) if spec.gpu else ()
    with ExitStack() as stack:
        try:
            lease = users.take()
            stack.callback(users.give_back, lease)
            sandbox = _sandbox(lease.uid)
            jail = _jail(spec, nodes, sandbox.record.uid)
            first = start_first(sandbox, jail, [str(AGENT), *TEMPORARY_FOLDERS], (HOST, PORT))
        except SandboxError as error:
            raise RoomError(
                f"no sealed room can be had here: {error}; install bubblewrap and let it make namespaces, or go on "
                "without (--no-sandbox, in a matrix `room: {sandbox: false}`), which the result says for ever"
            ) from None
        try:
            return _held(spec, sandbox, first, stack)
        except BaseException:
            first.end()
            first.close()
            raise


def _held(spec: RoomSpec, sandbox: Bubblewrap, first: First, stack: ExitStack) -> HeldRoom:
    """The room around its first program. Raises RoomError."""
    agent, *temporary, listening = first.descriptors
    listener = socket.socket(fileno=listening)
    stack.callback(listener.close)
    files = FolderFiles(agent, sandbox.record.uid, own_disk=True)
    stack.callback(files.close)
    for folder in temporary:
        stack.callback(os.close, folder)
    _must_be_apart(first.told["namespaces"])
    sizes = (spec.disk_bytes, spec.tmp_bytes, spec.tmp_bytes)
    bounded = [bound_files(one, size // BYTES_FOR_FILE) for one, size in zip((agent, *temporary), sizes, strict=True)]
    uid = sandbox.record.uid
    try:
        for place in (WORKSPACE, HOME, TEMPORARY):
            make_folder(agent, place.name, uid)
    except OSError as error:
        raise RoomError(f"the room could not be furnished: {error.strerror}") from None
    unbounded = () if all(bounded) else ("the kernel's default alone bounds the number of files",)
    record = RoomRecord("bubblewrap", True, uid, spec.gpu, (*_limits_of_memory(), *unbounded))
    inside = Inside(f"http://{HOST}:{PORT}", WORKSPACE, HOME, TEMPORARY, lambda path: path)
    return HeldRoom(record, files, listener, inside, first, stack.pop_all())


def _check(spec: RoomSpec) -> None:
    for mount in spec.mounts:
        if not mount.source.exists():
            raise RoomError(f"{mount.source} cannot be shown in a room: it is missing")
        if not mount.target.is_absolute() or ".." in mount.target.parts or mount.target == PurePosixPath("/"):
            raise RoomError(f"{mount.target} is no place in a room for {mount.source}")


def _sandbox(uid: int | None) -> Bubblewrap:
    """Bubblewrap for one room's user. Raises SandboxError."""
    sandbox = bubblewrap()
    uid_seen = os.getuid() if uid is None else uid
    return replace(sandbox, uid=uid, record=replace(sandbox.record, uid=uid_seen), first={})


def _jail(spec: RoomSpec, nodes: tuple[Path, ...], uid: int) -> Jail:
    layout = Layout(
        mounts=tuple((mount.source, mount.target) for mount in spec.mounts),
        files=tuple((PurePosixPath("/etc") / name, data) for name, data in _names(uid).items()),
        folders=((AGENT, spec.disk_bytes),),
        nodes=nodes,
        libraries=spec.python,
    )
    return Jail(
        (), (), gpu=bool(spec.gpu), data_bytes=spec.memory_bytes, processes=spec.processes,
        file_bytes=spec.file_bytes, tmp_bytes=spec.tmp_bytes, layout=layout,
    )  # fmt: skip


def _names(uid: int) -> dict[str, bytes]:
    """Files of /etc that name users and hosts: those of this machine are nobody's business."""
    user = f"{USER}:x:{uid}:{uid}::{HOME}:/bin/bash\n" if uid else ""
    group = f"{USER}:x:{uid}:\n" if uid else ""
    return {
        "passwd": f"root:x:0:0::/:/bin/sh\n{user}".encode(),
        "group": f"root:x:0:\n{group}".encode(),
        "hosts": HOSTS,
    }


def _must_be_apart(namespaces: dict[str, str]) -> None:
    """Raises RoomError where the room shares a namespace with this process."""
    shared = [name for name, there in namespaces.items() if os.readlink(f"/proc/self/ns/{name}") == there]
    if shared or not namespaces:
        raise RoomError(f"the room is not sealed: it shares the namespace {', '.join(shared)} with the harness")


@cache
def _limits_of_memory() -> tuple[str, ...]:
    return () if groups_work() else ("memory is limited for each process alone",)
