"""From an archive to what the pages are made of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from harness.archive.facts import Facts
from harness.archive.index import Found
from harness.archive.select import counted
from harness.archive.store import Archive
from harness.board.data import boards_of
from harness.board.trials import Trials, mark_of, trials_of
from harness.site.evidence import ArchiveSource
from harness.site.model import Honest, Site, SiteError, Trial
from harness.statistics.board import MARGIN
from harness.statistics.intervals import Over
from harness.statistics.rows import StatisticsError
from kbh_lint.base import paths
from kbh_lint.problems import Deck, Problem, ProblemError, load_deck, load_targets

__all__ = ["MOST_AUDIT", "gather", "honest_of", "read_audit", "trials_in"]

MOST_AUDIT = 64 << 20
MOST_EVIDENCE = 8 << 20


def gather(
    archive: Archive, found: Found, *, title: str = "", problems_dir: Path | None = None, over: Over = "problems",
    margin: float = MARGIN, level: float = 0.95, audit: Mapping[str, object] | None = None,
) -> Site:  # fmt: skip
    """Gathers what the pages show of an archive. Raises SiteError for one without entries, and where no board can be
    made.
    """
    every = trials_of(found.facts)
    trials = trials_in(found.facts, every)
    if not trials:
        raise SiteError(f"{archive.folder} has no run and no grading")
    try:
        boards = {one.target: one for one in boards_of(every, over=over, margin=margin, level=level)}
    except StatisticsError as error:
        raise SiteError(str(error)) from None
    sizes = Counter(trial.row.target for trial in every.trials)
    folder = paths.problems_dir(problems_dir)
    problems, faults = _problems(load_deck(folder), {trial.facts.problem for trial in trials})
    try:
        targets = load_targets(paths.hardware_file(folder))
    except (ProblemError, OSError) as error:
        targets, faults = {}, [*faults, str(error)]
    return Site(
        title=title or "kbh board", trials=trials,
        boards={target: boards[target] for target, _ in sorted(sizes.items(), key=lambda item: (-item[1], item[0]))},
        problems=problems, targets=targets, honest=honest_of(problems), source=ArchiveSource(archive, problems_dir),
        audit=audit, faults=(*found.faults, *(f"{id_[:12]}: {why}" for id_, why in every.left_out), *faults),
        superseded=every.superseded,
    )  # fmt: skip


def trials_in(facts: tuple[Facts, ...] | list[Facts], every: Trials) -> tuple[Trial, ...]:
    """The trials of a board, and the gradings that no run made, as the pages show them."""
    runs = [
        Trial(one.facts, one.mark, one.row.model, one.row.trial, one.row.value if one.row.counted else None,
              one.facts.roofline_fraction, one.row.seconds)
        for one in every.trials
    ]  # fmt: skip
    alone = sorted((one for one in counted(facts) if one.kind == "bundle"), key=lambda one: (one.problem, one.name))
    graded = [Trial(one, mark_of(one), measured=one.roofline_fraction) for one in alone]
    return (*runs, *graded)


def _problems(deck: Deck, wanted: set[str]) -> tuple[dict[str, Problem], list[str]]:
    problems, faults = {}, []
    for name in sorted(wanted):
        try:
            if name in deck:
                problems[name] = deck[name]
        except ProblemError as error:
            faults.append(str(error))
    return problems, faults


def honest_of(problems: Mapping[str, Problem]) -> dict[tuple[str, str], tuple[Honest, ...]]:
    """The honest kernels that the stored evidence of problems has, by problem and target, the best first."""
    found: dict[tuple[str, str], tuple[Honest, ...]] = {}
    for problem in problems.values():
        for path in sorted(Path(problem.path).resolve().parent.glob("evidence/*.json")):
            try:
                data = json.loads(path.read_bytes()[:MOST_EVIDENCE])
                listed = [
                    Honest(file, float(one["roofline_fraction"]), one.get("speedup"),
                           {label: float(shape["seconds"]) for label, shape in one["shapes"].items()})
                    for file, one in data["solutions"].items()
                    if one["kind"] == "honest" and one["outcome"] == "passed" and one.get("roofline_fraction")
                ]  # fmt: skip
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OSError):
                continue  # evidence of an older form, or of a problem that is being written
            found[problem.id, path.stem] = tuple(sorted(listed, key=lambda one: (-one.fraction, one.file)))
    return found


def read_audit(path: Path) -> Mapping[str, object]:
    """The audit.json of `kbh audit`. Raises SiteError for what is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_AUDIT + 1)
        found = json.loads(data) if len(data) <= MOST_AUDIT else None
    except (OSError, ValueError, RecursionError) as error:
        raise SiteError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not isinstance(found, dict) or found.get("schema") != "kbh-audit/1" or not isinstance(found.get("cells"), list):
        raise SiteError(f"{path} is no audit.json of `kbh audit`")
    return found
