"""The kinds of sandbox, a module each: how it starts a process and ends it. Rows: `grader.record.sandboxes`."""

from __future__ import annotations

from collections.abc import Callable

from grader.record.sandboxes import SandboxKind
from grader.sandbox.base import Sandbox
from grader.sandbox.kinds import bubblewrap, landlock, plain

__all__ = ["MAKERS"]

# Each makes it as this machine has it, with notes for its record, or raises SandboxError.
MAKERS: dict[SandboxKind, Callable[[tuple[str, ...]], Sandbox]] = {
    "bubblewrap": bubblewrap.bubblewrap,
    "landlock": landlock.landlock,
    "plain": plain.plain,
}
