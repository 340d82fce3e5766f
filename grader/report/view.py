"""A cell with what its bundle holds beside it, for those who print it. Needs no torch.

Everything that prints takes a View, and so a whole cell: there is no way to a score that leaves its verdict behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.record.bundle import Bundle, BundleError, CodecError, cell_from_json, trial_from_json
from grader.record.cell import Cell, TrialResult
from grader.silicon import silicon_from_json

if TYPE_CHECKING:
    from grader.silicon import Silicon

__all__ = ["LOG_CHARACTERS", "Unfinished", "View", "load_view"]

LOG_CHARACTERS = 4000
MOST_SOURCE = 4 << 20


class Unfinished(Exception):
    """The bundle holds no cell yet; the text is one sentence that says how far it came."""


@dataclass(frozen=True, slots=True)
class View:
    """`source` has the lines of the submission's main file, `head` the hash that pins the bundle, `logs` what the
    trials printed, by their hash, `silicon` what profilers saw, where they looked. `compared` is how a second grading
    compares with the first, in one sentence. `problem_files` has the hashes of the problem's files of that time."""

    cell: Cell
    source: Sequence[str] = ()
    head: str = ""
    folder: str = ""
    commitments: Sequence[str] = ()
    logs: Mapping[str, str] | None = None
    compared: str = ""
    silicon: Silicon | None = None
    problem_files: Mapping[str, str] | None = None

    def line(self, number: int) -> str:
        """A line of the submission, empty where it is not known."""
        return self.source[number - 1].rstrip() if 1 <= number <= len(self.source) else ""


def load_view(folder: Path) -> View:
    """Reads a bundle. Raises BundleError, CodecError or Unfinished."""
    bundle = Bundle.open(folder)
    entries = bundle.entries()
    cells = [entry for entry in entries if entry.kind == "cell"]
    if not cells:
        raise Unfinished(f"{folder} is not finished: {_progress([e.kind for e in entries])}")
    cell = cell_from_json(cells[-1].data)
    trials = [trial_from_json(entry.data) for entry in entries if entry.kind == "trial"]
    if list(cell.trials) != trials:
        raise CodecError(f"{folder} holds a cell whose trials are not those of its entries")
    compared = [str(entry.data.get("text", "")) for entry in entries if entry.kind == "regrade"]
    return View(
        cell,
        source_of(bundle),
        bundle.head,
        str(folder),
        tuple(str(entry.data.get("commitment", "")) for entry in entries if entry.kind == "commitment"),
        _logs(bundle, trials),
        compared[-1] if compared else "",
        _silicon([entry.data for entry in entries if entry.kind == "evidence"]),
        _problem_files(entries[0].data),
    )


def _problem_files(header: Mapping[str, Any]) -> dict[str, str]:
    problem = header.get("problem")
    files = problem.get("files") if isinstance(problem, Mapping) else None
    return {str(name): str(value) for name, value in files.items()} if isinstance(files, Mapping) else {}


def _silicon(evidence: Sequence[Mapping[str, Any]]) -> Silicon | None:
    known = [data["silicon"] for data in evidence if "silicon" in data]
    if not known:
        return None

    return silicon_from_json(known[-1])


def source_of(bundle: Bundle) -> tuple[str, ...]:
    """The lines of the submission's main file in a bundle; none where it is not there."""
    text = submission_files(bundle).get("solution.py", b"")[:MOST_SOURCE].decode("utf-8", "replace")
    return tuple(text.split("\n"))


def submission_files(bundle: Bundle) -> dict[str, bytes]:
    """The files of the submission in a bundle, by their names in its folder. Raises BundleError."""
    submission = bundle.entries()[0].data.get("submission")
    files = submission.get("files") if isinstance(submission, Mapping) else None
    if not isinstance(files, Mapping):
        raise BundleError(f"{bundle.folder} does not say which files were graded")
    return {str(name): bundle.get(str(sha256)) for name, sha256 in files.items()}


def _logs(bundle: Bundle, trials: Sequence[TrialResult]) -> dict[str, str]:
    """The end of what each trial printed."""
    found = {}
    for trial in trials:
        if trial.log:
            text = bundle.get(trial.log).decode("utf-8", "replace")
            found[trial.log] = text if len(text) <= LOG_CHARACTERS else "...\n" + text[-LOG_CHARACTERS:]
    return found


def _progress(kinds: Sequence[str]) -> str:
    trials = kinds.count("trial")
    return f"{trials} {'trial is' if trials == 1 else 'trials are'} done; the same `kbh grade` command goes on with it"
