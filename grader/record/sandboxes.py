"""The kinds of sandbox: a row each, which is all that other parts know of one.

A cell keeps the name of the kind that held a submission. What starts processes in it is in `grader.sandbox.kinds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["REMEDIES", "SANDBOXES", "TRAITS", "SandboxKind", "SandboxName", "Traits"]

SandboxKind = Literal["bubblewrap", "landlock", "plain"]
SandboxName = Literal["auto", SandboxKind]  # what may be asked for


@dataclass(frozen=True, slots=True)
class Traits:
    """What a kind does, as far as others ask.

    `closed`: files, other processes and the network are out of a submission's reach; a GPU gets no other kind unless it
    is asked for. `own_processes`: a process table of its own, so that several may run at once and each be ended whole.
    `own_paths`: what a process is given lies under the same path in every grading. `no_counters`: why Nsight Compute
    cannot count in it; empty where it can. `remedy`: what to do on a machine that does not have it.
    """

    closed: bool
    own_processes: bool = False
    own_paths: bool = False
    no_counters: str = ""
    remedy: str = ""


# The best first: the first that works on a machine is taken.
TRAITS: Mapping[SandboxKind, Traits] = {
    "bubblewrap": Traits(closed=True, own_processes=True, own_paths=True, remedy="install bubblewrap"),
    "landlock": Traits(
        closed=True,
        no_counters="Nsight Compute needs a network of its own, which Landlock does not give",
        remedy="use a kernel with Landlock",
    ),
    "plain": Traits(closed=False),
}
SANDBOXES: tuple[SandboxName, ...] = ("auto", *TRAITS)
REMEDIES = ", or ".join(row.remedy for row in TRAITS.values() if row.remedy)  # for a machine that has none
