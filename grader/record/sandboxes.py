"""The kinds of sandbox: a row each, which is all that other parts know of one.

A cell keeps the name of the kind that held a submission. What starts processes in it is the module of its name in
`grader.sandbox.kinds`. `make docs` writes the rows into docs/operators.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["REMEDIES", "SANDBOXES", "TRAITS", "SandboxKind", "SandboxName", "Traits", "docs_table"]

SandboxKind = Literal["bubblewrap", "landlock", "plain"]
SandboxName = Literal["auto", SandboxKind]  # what may be asked for


@dataclass(frozen=True, slots=True)
class Traits:
    """What a kind does, as far as others ask.

    `has` says what a process in it has, for people. `closed`: files, other processes and the network are out of a
    submission's reach; a GPU gets no other kind unless it is asked for. `own_processes`: a process table of its own, so
    that several may run at once and each be ended whole. `own_paths`: what a process is given lies under the same path
    in every grading. `no_counters`: why Nsight Compute cannot count in it; empty where it can. `remedy`: what to do on
    a machine that does not have it.
    """

    has: str
    closed: bool
    own_processes: bool = False
    own_paths: bool = False
    no_counters: str = ""
    remedy: str = ""


# The best first: the first that works on a machine is taken.
TRAITS: Mapping[SandboxKind, Traits] = {
    "bubblewrap": Traits(
        has="a file system, a process table and a network of its own",
        closed=True,
        own_processes=True,
        own_paths=True,
        remedy="install bubblewrap",
    ),
    "landlock": Traits(
        has="the paths that it needs and no others, no sockets, no signals to others (Landlock and seccomp)",
        closed=True,
        no_counters="Nsight Compute needs a network of its own, which Landlock does not give",
        remedy="use a kernel with Landlock",
    ),
    "plain": Traits(has="limits alone: files and network are open to it", closed=False),
}
SANDBOXES: tuple[SandboxName, ...] = ("auto", *TRAITS)
REMEDIES = ", or ".join(row.remedy for row in TRAITS.values() if row.remedy)  # for a machine that has none


def docs_table() -> str:
    """The kinds as a table, for docs/operators.md."""
    rows = [
        "| Kind | A process in it has | On a GPU | Counters of a GPU | Where it is missing |",
        "|---|---|---|---|---|",
    ]
    for kind, row in TRAITS.items():
        taken = "yes" if row.closed else "where it is asked for"
        rows.append(f"| `{kind}` | {row.has} | {taken} | {row.no_counters or 'yes'} | {row.remedy or 'never'} |")
    return "\n".join(rows) + "\n"
