"""Which entries are meant, and which of them count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.archive.facts import Facts
from harness.archive.layout import StoreError

__all__ = ["Wanted", "counted", "find"]

SHORTEST = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a table is to show; empty: everything. `model` and `agent` may be parts of the names; `outcome` is a run's
    (PASS, FAIL, ERR) or a grading's.
    """

    model: str = ""
    agent: str = ""
    problem: str = ""
    outcome: str = ""
    ids: tuple[str, ...] = ()

    def fits(self, facts: Facts) -> bool:
        """Whether the entry with these facts is selected."""
        return (
            self.model.lower() in facts.model.lower()
            and self.agent.lower() in facts.agent.lower()
            and self.problem in ("", facts.problem)
            and self.outcome.lower() in ("", facts.outcome.lower(), facts.grade.lower())
            and (not self.ids or any(_named(facts, one) for one in self.ids))
        )


def find(facts: Iterable[Facts], name: str) -> Facts:
    """The entry that the beginning of an id, or a whole name, stands for. Raises StoreError for none, or several."""
    found = [one for one in facts if _named(one, name)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise StoreError(f"no entry is called {name[:80]!r}; an id needs at least its first {SHORTEST} digits")
    listed = ", ".join(one.id[:12] for one in found[:5])
    raise StoreError(f"{name[:80]!r} stands for {len(found)} entries: {listed}{', ...' if len(found) > 5 else ''}")


def _named(facts: Facts, name: str) -> bool:
    return name == facts.name or (len(name) >= SHORTEST and facts.id.startswith(name.lower()))


def counted(facts: Sequence[Facts]) -> list[Facts]:
    """The entries that stand for their cells, in the order given. What does not count is left out.

    Of a sweep's cell that was run on several hosts, or that was an ERR and was made again, one run counts: the first to
    begin of those that passed or failed, else the first. A run that is there twice, with other files, counts once. A
    grading that was made again does not count beside the first.
    """
    first: dict[str, Facts] = {}
    for one in facts:
        if one.regrade:
            continue
        key = one.sweep_key or (f"run {one.name}" if one.kind == "run" else f"bundle {one.head}")
        other = first.get(key)
        if other is None or _order(one) < _order(other):
            first[key] = one
    kept = {one.id for one in first.values()}
    return [one for one in facts if one.id in kept]


def _order(one: Facts) -> tuple[bool, float, str]:
    return one.outcome == "ERR", one.started, one.id
