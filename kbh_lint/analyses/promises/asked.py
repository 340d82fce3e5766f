"""What a promise is judged by on one shape, and what a judgement is."""

from __future__ import annotations

from collections.abc import Iterable

from kbh_lint.analyses.flow import MAX_CONTENTS, Slice
from kbh_lint.analyses.packing import Packing
from kbh_lint.analyses.seeds import ShapeFacts
from kbh_lint.analyses.work import Work
from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Event
from kbh_lint.problems import Promise

Places = list[tuple[ir.Loc | None, str]]
Judgement = tuple[str, Places, str]  # state, evidence, reason when unproven


@dataclass(frozen=True, slots=True)
class Asked:
    """A promise on one shape of one path: the run, what is on the way to its result, and who does the work there.

    Facts that judging finds are added to `facts.seeds`.
    """

    promise: Promise
    run: ShapeRun
    found: Slice
    work: Work
    packed: Packing
    facts: ShapeFacts


def behind(event: Event) -> set[str]:
    """The names of the inputs and weights from which everything that an event reads was computed."""
    return {label.partition(":")[2] for label in outside([content for content, _ in event.reads])}


def not_worked_on(asked: Asked, keys: Iterable[str]) -> list[str]:
    """The inputs named by `promise.params` under `keys` from which nothing was computed that an authored kernel
    reads."""
    names = [name for key in keys for name in asked.promise.params.get(key, ())]
    if not names:
        return []
    read = outside([content for event in asked.work.authored for content, _ in event.reads], MAX_CONTENTS)
    known = {label.partition(":")[2] for label in read}
    return [name for name in dict.fromkeys(names) if name not in known]
