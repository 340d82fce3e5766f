"""The pages that are mostly text: how numbers come about, and what an audit of others found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.audit.compare import TITLES
from harness.board.trials import MARKS
from harness.site.common import render
from harness.site.model import SIGNS, Site, Trial
from harness.view.text import short

__all__ = ["audit_page", "method_page"]

MOST_LEAKS = 1_000
MOST_CELLS = 2_000
MOST_PLACES = 6
KINDS = ("we-flag", "they-flag", "cannot-tell", "agree", "beside", "not-annotated")


@dataclass(frozen=True, slots=True)
class _Published:
    """A run of the archive of others: their word, ours, and by which lines."""

    kind: str
    run: str
    problem: str
    theirs: str
    ours: str
    why: str
    places: tuple[str, ...]


def method_page(site: Site) -> str:
    """How scores, verdicts, marks and intervals come about, with the figures of this board."""
    return render(
        "method.html.j2", top="", title=f"{site.title}: method", here="method.html", site=site, words=MARKS,
        signs=SIGNS, boards=list(site.boards.values()),
        level=next((board.level for board in site.boards.values()), 0.95),
    )  # fmt: skip


def audit_page(site: Site) -> str:
    """The page on what was flagged here and, where `kbh audit` was run, how published verdicts compare with the
    linter's.
    """
    leaks = [trial for trial in site.trials if trial.mark == "leak"]
    kinds = Counter(name for trial in leaks for name in _classes(trial))
    audit = site.audit
    return render(
        "audit.html.j2", top="", title=f"{site.title}: audit", here="audit.html", site=site, leaks=leaks[:MOST_LEAKS],
        more=len(leaks) - MOST_LEAKS, classes={trial.id: _classes(trial) for trial in leaks[:MOST_LEAKS]},
        kinds=sorted(kinds.items(), key=lambda item: (-item[1], item[0])),
        published=None if audit is None else _published(audit), of=_of(audit), counts=_counts(audit),
        kind_names=TITLES,
    )  # fmt: skip


def _classes(trial: Trial) -> list[str]:
    """The classes of a leak's findings; without one, the promises that are broken."""
    broken = [one.removesuffix("=broken") for one in trial.facts.promises.split() if one.endswith("=broken")]
    return trial.facts.leaks.split() or [f"{one} broken" for one in broken] or [trial.facts.verdict or "leak"]


def _published(audit: Mapping[str, object]) -> tuple[list[_Published], int]:
    """The runs of an audit, disagreements first, and how many are left out. Whatever has another form is left blank."""
    cells = audit.get("cells")
    listed = [_one(cell) for cell in cells if isinstance(cell, Mapping)] if isinstance(cells, Sequence) else []
    listed.sort(key=lambda one: (KINDS.index(one.kind) if one.kind in KINDS else len(KINDS), one.problem, one.run))
    return listed[:MOST_CELLS], max(len(listed) - MOST_CELLS, 0)


def _one(cell: Mapping[str, object]) -> _Published:
    theirs, ours = _mapping(cell.get("theirs")), _mapping(cell.get("ours"))
    classes = ours.get("classes")
    named = ", ".join(_text(one, 60) for one in classes[:6]) if isinstance(classes, list) else ""
    evidence = cell.get("evidence")
    places = tuple(_place(one) for one in evidence[:MOST_PLACES]) if isinstance(evidence, list) else ()
    verdict = _text(ours.get("verdict"), 40)
    return _Published(
        _text(cell.get("kind"), 40), _text(cell.get("run"), 160), _text(cell.get("problem"), 80),
        _text(theirs.get("verdict"), 40), f"{verdict}: {named}" if named else verdict, _text(cell.get("why"), 300),
        tuple(place for place in places if place),
    )  # fmt: skip


def _place(one: object) -> str:
    found = _mapping(one)
    line = found.get("line")
    where = f"line {line}: " if type(line) is int and line > 0 else ""
    return f"{where}{_text(found.get('by'), 80)} {_text(found.get('message'), 300)}".strip()


def _of(audit: Mapping[str, object] | None) -> str:
    archive = _mapping(audit.get("archive")) if audit is not None else {}
    revision = _text(archive.get("revision"), 12)
    return _text(archive.get("name"), 160) + (f" at {revision}" if revision else "")


def _counts(audit: Mapping[str, object] | None) -> list[tuple[str, int]]:
    counts = _mapping(audit.get("counts")) if audit is not None else {}
    return [(name, value) for name in KINDS if type(value := counts.get(name)) is int]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object, most: int) -> str:
    return short(value, most) if isinstance(value, str) else ""
