"""What a release says beside its archive: all of it follows from the archive, so that a reader can make it again."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast, get_args

from grader.record.bundle.read import Entry, canonical
from harness.archive.facts import Facts
from harness.archive.layout import StoreError
from harness.archive.select import counted
from harness.board.data import board_json, boards_of, trial_json
from harness.board.trials import trials_of
from harness.statistics.board import MARGIN
from harness.statistics.intervals import Over
from harness.statistics.rows import StatisticsError
from kbh_lint import __version__
from kbh_lint.base import paths

__all__ = ["Gathered", "MADE_WITH", "code_hash", "documents", "made_with", "usual_options"]

MADE_WITH = "made_with"  # the part of environment.json that no reader can make again
TRIAL = (
    "board_model", "problem", "target", "board_trial", "mark", "leak", "seconds", "value", "spread", "cost_usd",
)  # fmt: skip
SOURCES = ("kbh_lint", "grader", "harness")
INSTALLED = "_data"  # where a wheel keeps rules and problems, which are hashed under names of their own


class Gathered:
    """Keys and environments of the gradings, entry by entry."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = []
        self._versions: Counter[str] = Counter()
        self._targets: Counter[str] = Counter()
        self._problems: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, facts: Facts, grading: str, entries: Sequence[Entry]) -> None:
        """Adds the entries of one bundle; `grading` is its place in the archive's entry, "" for a bundle itself."""
        for entry in entries:
            if entry.kind == "trial":
                self.keys.append({
                    "entry": facts.id, "grading": grading, "trial": entry.data.get("index"),
                    "commitment": entry.data.get("commitment"), "key": entry.data.get("master"),
                })  # fmt: skip
        header = entries[0].data
        self._versions[_text(header.get("versions"))] += 1
        cells = [entry.data for entry in entries if entry.kind == "cell"]
        for cell in cells:
            self._targets[_text(cell.get("target"))] += 1
        problem = header.get("problem")
        if isinstance(problem, Mapping):
            self._problems[str(problem.get("id"))][_text(problem.get("files"))] += 1

    def environment(self) -> dict[str, Any]:
        """What gradings were made with: versions, targets and editions of the problems, each with the number of
        gradings.
        """
        return {
            "graded_with": _counted(self._versions, "versions"),
            "targets": _counted(self._targets, "target"),
            "problems": {id_: _counted(files, "files") for id_, files in sorted(self._problems.items())},
        }


def _text(value: object) -> str:
    return canonical(value if isinstance(value, dict) else {}).decode()


def _counted(found: Mapping[str, int], name: str) -> list[dict[str, Any]]:
    return [{name: json.loads(text), "gradings": number} for text, number in sorted(found.items())]


def usual_options() -> dict[str, Any]:
    """The options of a release's statistics where none are given."""
    return {"over": "problems", "margin": MARGIN, "level": 0.95}


def documents(facts: Sequence[Facts], gathered: Gathered, options: Mapping[str, Any]) -> dict[str, Any]:
    """The derived files, as values; those that end in `.jsonl` as lists of lines. Raises StoreError."""
    counting = {one.id for one in counted(facts)}
    ordered = sorted(facts, key=lambda one: one.id)
    keys = sorted(gathered.keys, key=lambda key: (key["entry"], key["grading"], str(key["trial"])))
    return {
        "environment.json": gathered.environment(),
        "index.jsonl": [{**asdict(one), "counted": one.id in counting} for one in ordered],
        "keys.jsonl": keys,
        "statistics.json": _statistics(facts, options),
    }


def _statistics(facts: Sequence[Facts], options: Mapping[str, Any]) -> dict[str, Any]:
    over, margin, level = options.get("over"), options.get("margin"), options.get("level")
    if over not in get_args(Over) or not isinstance(margin, float) or not isinstance(level, float):
        raise StoreError("the options of the statistics are over, margin and level, and these are others")
    trials = trials_of(facts)
    try:
        boards = boards_of(trials, over=cast(Over, over), margin=margin, level=level) if trials.trials else []
    except StatisticsError as error:
        raise StoreError(f"there are no statistics of these runs: {error}") from None
    return {
        "options": {"over": over, "margin": margin, "level": level},
        "boards": {board.target: board_json(board) for board in boards},
        "trials": {trial.facts.id: _trial(trial_json(trial)) for trial in trials.trials},
        "left_out": dict(trials.left_out), "superseded": trials.superseded, "gradings": trials.gradings,
    }  # fmt: skip


def _trial(flat: dict[str, Any]) -> dict[str, Any]:
    names = (
        "board_model",
        "problem",
        "target",
        "board_trial",
        "mark",
        "leak",
        "seconds",
        "value",
        "spread",
        "cost_usd",
    )
    return {name: flat[name] for name in names}


# --- the code ------------------------------------------------------------------------------------------------


def made_with() -> dict[str, Any]:
    """The versions of what made a release, and a hash of kbh's own code, rules and problems."""
    known = {
        "kbh": __version__,
        "code": code_hash(),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    for name in ("numpy", "scipy", "tree-sitter", "tree-sitter-cpp"):
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            known[name] = "none"
    return known


def code_hash() -> str:
    """SHA-256 over the paths and contents of the code, the rules and the problems that are installed here."""
    root = Path(__file__).resolve().parents[2]
    places = [(root / name, name, "*.py") for name in SOURCES]
    places += [(paths.rules_dir(), "rules", "*.yaml"), (paths.problems_dir(), "problems", "*.yaml")]
    digest = hashlib.sha256()
    for name, path in sorted(_files(places)):
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _files(places: Iterable[tuple[Path, str, str]]) -> Iterator[tuple[str, Path]]:
    for folder, name, pattern in places:
        for path in folder.rglob(pattern):
            below = path.relative_to(folder)
            if below.parts[0] != INSTALLED:
                yield f"{name}/{below.as_posix()}", path
