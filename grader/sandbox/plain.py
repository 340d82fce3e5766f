"""No sandbox: limits, a user of its own where the judge is root, and an end to all that was started.

The process sees the file system and the network as its user does. It is meant for the CPU target alone.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from grader.cell import SandboxRecord
from grader.sandbox.base import Jail
from grader.sandbox.launch import Restriction, close_group, start
from grader.sandbox.reap import MARK, end_tree
from grader.sandbox.users import give, leased_uid

__all__ = ["Plain", "plain"]


@dataclass(frozen=True, slots=True)
class Plain:
    """Processes with limits and a supervisor. `uid` is the user that they get, None for that of the judge."""

    uid: int | None
    record: SandboxRecord
    marks: dict[int, str] = field(default_factory=dict)  # process -> what all that it starts carries

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        fds: Sequence[int],
        jail: Jail,
        output: BinaryIO,
    ) -> subprocess.Popen[bytes]:
        """See `grader.sandbox.Sandbox`."""
        if self.uid is not None:
            for folder in jail.write:
                give(folder, self.uid)
        mark = secrets.token_hex(8)
        restriction = Restriction(
            uid=self.uid,
            read_all=self.uid is not None,
            supervise=True,
            own_processes=self.uid is not None,
            extra={MARK: mark},
        )
        process = start([], restriction, argv, env=env, cwd=cwd, fds=fds, jail=jail, output=output)
        self.marks[process.pid] = mark
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Ends the supervisor and everything below it."""
        try:
            end_tree(process, self.marks.pop(process.pid, None))
        finally:
            close_group(process)


def plain(notes: tuple[str, ...] = ()) -> Plain:
    """What every machine has; `notes` go into its record. Raises SandboxError when root can find no user for it."""
    uid = leased_uid()
    notes += ("the file system and the network are open to the submission",)
    notes += ("it runs as the judge's user" if uid is None else "it may read what belongs to other users",)
    return Plain(uid, SandboxRecord("plain", os.getuid() if uid is None else uid, network=True, notes=notes))
