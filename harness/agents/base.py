"""What an agent is to the harness: a CLI of a pinned version that is started once, in a room, with a prompt.

An adapter is one small file: how its CLI is installed and started, and how what it prints is read. It decides nothing
about how a run ended; the proxy's record and the process do (harness.running.ending). What a CLI says of its own usage
is kept beside the proxy's count, and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, Protocol

from harness.record.exchange import Dialect
from harness.record.usage import Usage

__all__ = [
    "HOME", "NODE", "PORT", "PREFIX", "TEMPORARY", "WORKSPACE", "Adapter", "AgentText", "AgentTool", "AgentUsage",
    "Ends", "Finished", "Job", "Launch", "Package", "Said",
]  # fmt: skip

# Places inside a room. What an adapter writes beforehand it names relative to HOME or WORKSPACE.
WORKSPACE, HOME, TEMPORARY = (PurePosixPath(f"/agent/{name}") for name in ("workspace", "home", "tmp"))
PREFIX = PurePosixPath("/opt/agent")  # where the CLI's own installation is seen, read-only; its Node at /opt/node
NODE = PurePosixPath("/opt/node")
PORT = 4040  # of the proxy, on the room's own loopback


@dataclass(frozen=True, slots=True)
class Package:
    """What is installed from npm, by exact version. `node` is the least major version of Node; `command` the program
    relative to the installation. `sets_up` are programs of the package to run once, since npm runs none.
    """

    name: str
    version: str
    node: int
    command: str
    sets_up: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """What one start of a CLI is given. `base_url` is the proxy's (http://127.0.0.1:4040) and `key` stands for the
    real one, which never enters the room. `effort` is "" where the CLI's default is wanted. Paths are those it sees.
    """

    model: str
    prompt: str
    base_url: str
    key: str
    effort: str = ""
    workspace: PurePosixPath = WORKSPACE
    home: PurePosixPath = HOME
    prefix: PurePosixPath = PREFIX
    node: PurePosixPath = NODE
    arguments: tuple[str, ...] = ()  # of the `command` adapter: the program and its arguments


@dataclass(frozen=True, slots=True)
class Launch:
    """How it is started: argument list, all of its environment, files to write before (by path relative to home), and
    what it reads on standard input.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""


@dataclass(frozen=True, slots=True)
class AgentText:
    """The CLI printed text of the model."""

    text: str


@dataclass(frozen=True, slots=True)
class AgentTool:
    """The CLI printed that a tool was called."""

    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class AgentUsage:
    """The CLI printed usage. `so_far` says that it is a sum which replaces what was said before."""

    usage: Usage
    so_far: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """The CLI printed that it is done; `well` as it says itself. A claim."""

    well: bool
    text: str = ""


Ends = Literal["event", "exit"]
Said = AgentText | AgentTool | AgentUsage | Finished


class Adapter(Protocol):
    """One CLI."""

    name: str
    package: Package | None  # None for `command`
    dialects: Sequence[Dialect]  # that it can speak, the preferred one first
    efforts: Sequence[str]  # that it knows; empty where it has none
    ends: Ends  # what a good end looks like: a last event, or exit status 0 alone

    def launch(self, job: Job) -> Launch:
        """The command, environment and files that start the CLI. Raises ValueError, in one sentence, for a job that it
        cannot do.
        """

    def read(self, line: str) -> Iterable[Said]:
        """The events that one line of the CLI's standard output stands for; none for a line that is no event. Never
        raises.
        """

    def usage(self, said: Sequence[Said], files: Callable[[str], Iterable[tuple[str, bytes]]]) -> Usage | None:
        """The usage in all that the CLI states, or None. `files(pattern)` gives (path, bytes) of files in its home."""
