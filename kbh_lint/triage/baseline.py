"""A baseline: the findings that somebody has seen and put aside, as counts by file and rule.

Counts survive that lines move. A rule that says more of a file than its count is listed with all it says: nobody can
tell which of its findings is the new one. Verdicts and --strict do not change; only what is listed, and the exit code.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

from kbh_lint.base.records import dataclass
from kbh_lint.findings import FileReport, Report
from kbh_lint.verdict import FLAGGED

VERSION = 1
MAX_BYTES = 16 * 1024**2


class BaselineError(Exception):
    """A baseline that cannot be used; the text is one sentence that names the file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What was known of one file: its verdict, and how many findings of each rule."""

    verdict: str
    rules: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Baseline:
    """Entries by path relative to `folder`, with `/`."""

    path: Path
    entries: Mapping[str, Entry] = field(default_factory=dict)

    def key(self, file: str) -> str:
        """The path under which the baseline has a linted file."""
        return Path(os.path.relpath(os.path.realpath(file), os.path.realpath(self.path.parent))).as_posix()

    def knows_verdict(self, file: FileReport) -> bool:
        """Whether the file's verdict is the one that was recorded."""
        entry = self.entries.get(self.key(file.path))
        return entry is not None and entry.verdict == file.verdict

    def hide(self, report: Report) -> Report:
        """The report without the findings that the baseline counts; each file says how many were hidden."""
        return replace(report, files=tuple(map(self._hide, report.files)))

    def _hide(self, file: FileReport) -> FileReport:
        entry = self.entries.get(self.key(file.path))
        if entry is None:
            return file
        counts = Counter(finding.rule for finding in file.findings)
        known = {rule for rule, count in counts.items() if count <= entry.rules.get(rule, 0)}
        kept = tuple(finding for finding in file.findings if finding.rule not in known)
        hidden = len(file.findings) - len(kept)
        if not hidden:
            return file
        note = f"{hidden} finding{'s are' if hidden > 1 else ' is'} in the baseline {self.path} and not listed"
        return replace(file, findings=kept, notes=(*file.notes, note))

    def outdated(self, report: Report) -> int:
        """How many entries of the linted files count more findings than there are."""
        count = 0
        for file in report.files:
            entry = self.entries.get(self.key(file.path))
            found = Counter(finding.rule for finding in file.findings)
            count += sum(found[rule] < number for rule, number in entry.rules.items()) if entry is not None else 0
        return count

    def with_report(self, report: Report) -> Baseline:
        """A baseline of the findings in `report`. Files that were not linted keep their entries while they exist."""
        entries = {key: entry for key, entry in self.entries.items() if (self.path.parent / key).exists()}
        for file in report.files:
            key = self.key(file.path)
            entries.pop(key, None)
            rules = Counter(finding.rule for finding in file.findings)
            if rules or file.verdict in FLAGGED:
                entries[key] = Entry(file.verdict, dict(sorted(rules.items())))
        return replace(self, entries=dict(sorted(entries.items())))

    def write(self) -> None:
        """Writes the file. Raises BaselineError."""
        files = {key: {"verdict": entry.verdict, "rules": dict(entry.rules)} for key, entry in self.entries.items()}
        text = json.dumps({"version": VERSION, "files": files}, indent=1, ensure_ascii=False) + "\n"
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        try:
            beside.write_text(text, encoding="utf-8")
            os.replace(beside, self.path)
        except OSError as error:
            raise BaselineError(f"{self.path}: the baseline cannot be written ({_reason(error)})") from None


def read(path: Path, *, must_exist: bool = True) -> Baseline:
    """The baseline in a file; an empty one where there is none and `must_exist` is false. Raises BaselineError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BaselineError(f"{path}: a baseline may have at most {MAX_BYTES // 1024**2} MB")
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if must_exist:
            raise BaselineError(f"{path}: there is no such baseline; --write-baseline makes it") from None
        return Baseline(path)
    except OSError as error:
        raise BaselineError(f"{path}: the baseline cannot be read ({_reason(error)})") from None
    except (ValueError, RecursionError):
        raise BaselineError(f"{path}: the baseline is not JSON") from None
    if not isinstance(data, dict) or data.get("version") != VERSION or not isinstance(data.get("files"), dict):
        raise BaselineError(f"{path}: this is not a baseline of version {VERSION}")
    return Baseline(path, {key: _entry(path, key, entry) for key, entry in data["files"].items()})


def _entry(path: Path, key: str, entry: object) -> Entry:
    rules, verdict = (entry.get("rules"), entry.get("verdict")) if isinstance(entry, dict) else (None, None)
    if isinstance(rules, dict) and all(type(number) is int and number > 0 for number in rules.values()):
        if isinstance(verdict, str):
            return Entry(verdict, rules)
    raise BaselineError(f"{path}: the entry of {key} needs a verdict and counts by rule")


def _reason(error: OSError) -> str:
    return (error.strerror or "unknown error").lower()
