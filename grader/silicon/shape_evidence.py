"""What the counted launches of one shape come to, when they are gathered and when a stored report is read again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from grader.silicon import counters
from grader.silicon.kernels import SHOWN_NAME, rows
from grader.silicon.ncu import Launch, parse
from grader.silicon.record import ShapeEvidence, Silicon
from grader.wire.marks import UNSEEN_CALLS
from kbh_lint.problems import Problem, Shape

__all__ = ["evidence_of", "recounted"]


def evidence_of(
    problem: Problem, shape: Shape, launches: Sequence[Launch], capability: str, busy: float, scored: float,
    own: frozenset[str] | None = None,
) -> ShapeEvidence:  # fmt: skip
    """Sums up the launches of one call at `shape`. `own`: names of kernels that the submission compiled."""
    counts, kernels = counters.counted(launches, capability), rows(launches, own)
    needed = counters.compulsory(problem, next(iter(problem.contracts.values())), shape)
    library = math.fsum(row.seconds for row in kernels if row.library) / max(counts.seconds, 1e-12)
    return ShapeEvidence(
        shape.label, kernels, counts.tensor, problem.work(shape)[0], counts.read, counts.written, needed,
        counts.seconds, busy, scored, library, launches[0].model if launches else 0,
    )  # fmt: skip


def recounted(problem: Problem, silicon: Silicon, text: str) -> list[str]:
    """Where the raw report of the counters contradicts the record, a sentence each. Raises ProfilerError for one that
    is none.
    """
    launches = parse(text, counters.metrics_of(silicon.capability))
    shapes = {shape.label: shape for shape in problem.shapes}
    found = []
    for place, recorded in enumerate(silicon.shapes, 1):
        number = (recorded.model or place, UNSEEN_CALLS + 1)
        first = [one for one in launches if (one.model, one.call) == number]
        own = {row.name for row in recorded.kernels if not row.library}
        known = frozenset(one.kernel for one in first if one.kernel[:SHOWN_NAME] in own)
        shape = shapes.get(recorded.shape)
        again = None if shape is None else replace(
            evidence_of(problem, shape, first, silicon.capability, recorded.busy, recorded.scored, known),
            model=recorded.model,
        )  # fmt: skip
        if recorded != again:
            found.append(f"the record of {recorded.shape} is not what its raw report says")
    return found
