"""The kinds of sandbox, a module each: how it starts a process and ends it.

A further kind is two things, and nobody else tests for one: its row in `grader.record.sandboxes`, which holds the order
and what others ask of a kind, and the module of its name here with a function of its name that makes it: where the
process restricts itself, a `supervised.Supervised` with a `launch.Restriction`, as `landlock` does; where a program is
started in front of it, `launch.start` with a prefix, as `bubblewrap` does. `tests/grader/test_sandbox.py` runs the same
attacks in each.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from grader.record.sandboxes import TRAITS, SandboxKind
from grader.sandbox.base import Sandbox

__all__ = ["MAKERS"]

# Each makes it as this machine has it, with notes for its record, or raises SandboxError.
MAKERS: dict[SandboxKind, Callable[[tuple[str, ...]], Sandbox]] = {
    kind: getattr(import_module(f"{__name__}.{kind}"), kind) for kind in TRAITS
}
