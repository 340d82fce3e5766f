"""The first program in a room. It hands the room's folders and listener out, waits, and becomes the agent.

It runs under all that holds the agent, so it can do no more than that. What it says comes before anything of the
agent's runs and is trusted. It uses the standard library alone; the harness sends it in, since no path in a room leads
to it.
"""

from __future__ import annotations

import array
import marshal
import os
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

FAILED = 125
NAMESPACES = ("ipc", "mnt", "net", "pid")
BACKLOG = 128
MARKS = ("KBH_SANDBOX",)  # by which the processes of a room are known where they share the process table


def main(settings: dict[str, Any]) -> NoReturn:
    """Speaks over the descriptor `link`: what is in the room goes out, then the agent's beginning comes in."""
    link = socket.socket(fileno=settings["link"])
    link.set_inheritable(False)
    try:
        _hand_out(link, settings["folders"], settings["address"])
        _become(link)
    except OSError as error:
        link.send(marshal.dumps({"error": f"{error.filename or 'room'}: {error.strerror}"}))
    os._exit(FAILED)


def _hand_out(link: socket.socket, folders: list[str], address: tuple[str, int] | None) -> None:
    """Sends the descriptors of the folders and, for an address, of a listener; and in which namespaces this is."""
    held = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for folder in folders]
    if address is not None:
        held.append(socket.create_server(address, backlog=BACKLOG).detach())
    where = {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES}
    sent = array.array("i", held)
    link.sendmsg([marshal.dumps({"namespaces": where})], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)] if held else [])
    for fd in held:
        os.close(fd)


def _become(link: socket.socket) -> NoReturn:
    """Takes the agent's settings and its standard streams, and becomes it. Raises OSError where it cannot be run."""
    _, descriptors, _, _ = socket.recv_fds(link, 1, 4)
    if len(descriptors) != 4:  # the harness has let go of the room
        os._exit(FAILED)
    with open(descriptors[0], "rb") as file:
        given = marshal.load(file)
    for stream, descriptor in enumerate(descriptors[1:]):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    os.chdir(given["cwd"])
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and what it starts would go on doing so
    sys.stdout.flush()
    marked = {name: os.environ[name] for name in MARKS if name in os.environ}
    os.execvpe(given["argv"][0], given["argv"], {**given["env"], **marked})
