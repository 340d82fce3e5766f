"""Which problem a submission answers and which GPU it was written for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbh_lint.base import paths
from kbh_lint.base.errors import UsageError
from kbh_lint.base.records import dataclass
from kbh_lint.problems import Target, find_target, load_deck, load_targets

if TYPE_CHECKING:
    from kbh_lint.source.answers import ProblemFiles

MAX_RUN_FILE = 4_000_000
RUN_FILES = ("run.json", "result.json")
_PROBLEM_KEYS = ("problem", "problem_id")
_TARGET_KEYS = ("target", "hardware", "hardware_id", "gpu", "device")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*kbh:[ \t]*(problem|target)[ \t]*=[ \t]*([^\s#]+)", re.M)
_SUPPRESSION = re.compile(r"#[ \t]*kbh:[ \t]*ignore\b[ \t]*(?:\[([^\]\n]{0,80})\])?")
_TEMPLATE_FOLDERS = 3


@dataclass(frozen=True, slots=True)
class Resolved:
    """What was decided about one submission; None where nothing says. `file` is that of a problem beside the deck."""

    problem: str | None
    problem_source: str | None
    target: str | None
    notes: tuple[str, ...]
    file: str | None = None


class Resolver:
    """Resolves problems against a deck, or against `files` of problems. Raises UsageError for an unknown `problem` or
    `target` of the command line."""

    def __init__(
        self,
        problems_dir: Path | None,
        problem: str | None = None,
        target: str | None = None,
        files: ProblemFiles | None = None,
    ) -> None:
        folder = paths.problems_dir() if problems_dir is None else problems_dir
        if problem is not None and not folder.is_dir():
            raise UsageError(f"there is no folder of problems at {folder}")
        self.ids = load_deck(folder).ids
        self._hardware = paths.hardware_file(folder)
        self._names = _pattern(self.ids)
        self.files = files
        self.problem = None if problem is None else self._given_problem(problem)
        self.target = None if target is None else self._given_target(target)

    def resolve(self, path: Path, text: str, run: Path | None) -> Resolved:
        """The problem and target of a file; `run` is the folder of its run archive, where it has one."""
        notes: list[str] = []
        record, record_name = _run_record(run, notes) if run is not None else ({}, "")
        directives = dict(_DIRECTIVE.findall(text)) if "kbh:" in text else {}
        target = self._target(record, record_name, directives, notes)
        if self.files is not None:
            file, where = self.files.file_for(path)
            if file is None:
                return Resolved(None, None, target, (*notes, where))
            return Resolved(file.stem, where, target, tuple(notes), str(file))
        problem, source = self._problem(path, record, record_name, directives, notes)
        return Resolved(problem, source, target, tuple(notes))

    def in_name(self, name: str) -> str | None:
        """The longest deck id that stands in a name with no letter or digit right before or after it."""
        found = self._names.findall(name)
        return max(found, key=len) if found else None

    def _problem(
        self, path: Path, record: dict[str, Any], record_name: str, directives: dict[str, str], notes: list[str]
    ) -> tuple[str | None, str | None]:
        if self.problem is not None:
            return self.problem, "--problem"
        said = next((record[key] for key in _PROBLEM_KEYS if isinstance(record.get(key), str)), None)
        if said is not None:
            name = said.rstrip("/").rsplit("/", 1)[-1]
            if name in self.ids:
                return name, record_name
            notes.append(f"{record_name} names the problem `{_short(said)}`, which is not in the deck")
            return None, None
        for place, name in _names_of(path):
            problem = self.in_name(name)
            if problem is not None:
                return problem, place
        if "problem" in directives:
            if directives["problem"] in self.ids:
                return directives["problem"], "comment"
            notes.append(f"a comment names the problem `{_short(directives['problem'])}`, which is not in the deck")
            return None, None
        notes.append("the problem could not be decided, so only rules that need no problem were used; see --problem")
        return None, None

    def _target(
        self, record: Mapping[str, object], record_name: str, directives: dict[str, str], notes: list[str]
    ) -> str | None:
        if self.target is not None:
            return self.target
        said = next((found for key in _TARGET_KEYS if (found := _target_name(record.get(key)))), None)
        place = record_name
        if said is None and "target" in directives:
            said, place = directives["target"], "a comment"
        if said is None:
            return None
        target = find_target(self._targets(), said)
        if target is None:
            notes.append(f"{place} names the GPU `{_short(said)}`, which is not known; all of the deck's were assumed")
            return None
        return target.id

    def _targets(self) -> dict[str, Target]:
        return _targets_once(self._hardware) if self._hardware.is_file() else {}

    def _given_problem(self, name: str) -> str:
        if name in self.ids:
            return name
        raise _usage_error("problem", name, self.ids, "--list-problems prints them")

    def _given_target(self, name: str) -> str:
        targets = self._targets()
        target = find_target(targets, name)
        if target is not None:
            return target.id
        raise _usage_error("target", name, tuple(targets), f"known are {', '.join(targets) or 'none'}")


def suppression_notes(text: str) -> tuple[str, ...]:
    """A note for each `# kbh: ignore` in a submission, which is never honoured (at most ten)."""
    if "kbh:" not in text:
        return ()
    notes = []
    for match in list(_SUPPRESSION.finditer(text))[:10]:
        line = text.count("\n", 0, match.start()) + 1
        what = f" of {match[1].strip()}" if match[1] and match[1].strip() else ""
        notes.append(f"line {line} asks for suppression{what}; in a submission this is not honoured")
    return tuple(notes)


@lru_cache(maxsize=4)
def _targets_once(path: Path) -> dict[str, Target]:
    return load_targets(path)


def _pattern(ids: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(ids, key=lambda name: (-len(name), name))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest_first)) or '(?!)'})(?![A-Za-z0-9])")


def _names_of(path: Path) -> list[tuple[str, str]]:
    absolute = path if path.is_absolute() else Path.cwd() / path
    folders = [("folder name", parent.name) for parent in list(absolute.parents)[:_TEMPLATE_FOLDERS]]
    return [("file name", path.stem), *folders]


def _run_record(folder: Path, notes: list[str]) -> tuple[dict[str, Any], str]:
    """The first run file of the folder that holds an object, and its name."""
    for name in RUN_FILES:
        file = folder / name
        try:
            if not file.is_file():
                continue
            if file.stat().st_size > MAX_RUN_FILE:
                raise ValueError("too large")
            record = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            notes.append(f"{name} could not be read as JSON and was not used")
            continue
        if isinstance(record, dict):
            return record, name
        notes.append(f"{name} does not hold an object and was not used")
    return {}, ""


def _target_name(value: object) -> str | None:
    if isinstance(value, dict):
        value = next((value[key] for key in ("id", "name", "key") if isinstance(value.get(key), str)), None)
    return value if isinstance(value, str) and value.strip() else None


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _usage_error(what: str, name: str, known: tuple[str, ...], otherwise: str) -> Exception:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else otherwise
    return UsageError(f"there is no {what} `{_short(name)}`; {hint}")
