"""The kinds of sandbox, a module each: how it starts a process and ends it.

A further kind is three things, and nobody else tests for one: its module here with a function that makes it (where the
process restricts itself, a `supervised.Supervised` with a `launch.Restriction`, as `landlock` does; where a program is
started in front of it, `launch.start` with a prefix, as `bubblewrap` does), its line in `MAKERS`, and its row in
`grader.record.sandboxes`, which holds the order and what others ask of a kind. `tests/grader/test_sandbox.py` runs the
same attacks in each.
"""

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
