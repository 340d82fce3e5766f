"""Processes that share the process table with the judge, each under a supervisor that ends what it leaves."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from grader.record.cell import SandboxRecord
from grader.sandbox.base import Jail
from grader.sandbox.jail import descendants
from grader.sandbox.launch import Restriction, let_go, release, start
from grader.sandbox.reap import MARK, collect, end_tree

__all__ = ["Supervised"]


@dataclass(frozen=True, slots=True)
class Supervised:
    """A sandbox whose processes the judge sees. `restrict` says what a process does to itself before the submission
    runs in it; `prefix` is the program, with its arguments, that is started in front of it, if any.

    `uid` is the user that processes get, None for that of the judge. As root they keep the right to read what belongs
    to others: Python or the way to the scratch folder may be private.
    """

    uid: int | None
    record: SandboxRecord
    restrict: Callable[[Jail], Restriction]
    prefix: Callable[[Jail], Sequence[str]] = lambda jail: ()
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
        report: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """See `grader.sandbox.base.Sandbox`."""
        mark = secrets.token_hex(8)
        restriction = replace(
            self.restrict(jail),
            uid=self.uid,
            read_all=self.uid is not None,
            own_processes=self.uid is not None,
            extra={MARK: mark},
        )
        process = start(
            self.prefix(jail), restriction, argv, env=env, cwd=cwd, fds=fds, jail=jail, output=output, report=report
        )
        self.marks[process.pid] = mark
        return process

    def alive(self, process: subprocess.Popen[bytes]) -> list[int]:
        """See `grader.sandbox.base.Sandbox`: those below the supervisor."""
        return [pid for pid, _ in descendants(process.pid)] if process.poll() is None else []

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Ends the supervisor and everything below it."""
        let_go(process)
        try:
            end_tree(process, self.marks.pop(process.pid, None))
        finally:
            release(process)
            if self.uid is not None:
                collect(self.uid)
