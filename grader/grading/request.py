"""What a grading was asked for, and the identity under which one that was cut is found again."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from grader.record import provenance
from grader.record.bundle.read import canonical
from grader.record.cell import BaselineName, FindingRecord
from grader.record.sandboxes import SANDBOXES, SandboxName
from grader.sandbox import cutlass
from grader.sandbox.snapshot import Snapshot, snapshot
from kbh_lint import __version__
from kbh_lint.base import paths
from kbh_lint.problems import Problem, load_deck

__all__ = [
    "BASELINES", "GradeError", "Protocol", "Request", "SandboxName", "copied", "graded_problem", "identity",
    "options_from_json", "options_of", "problem_files", "problem_of", "versions",
]  # fmt: skip

Protocol = Literal["2026-11", "2026-04"]
BASELINES: tuple[BaselineName, ...] = ("eager", "compile", "library")
MOST_TRIALS = 100
MOST_SAMPLES = 400
MOST_SECONDS = 86_400.0
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
# Where and whether, not what; and what is known of the submission, which is kept beside the options.
_APART = frozenset({"submission", "out", "problems_dir", "fresh", "provenance"})
# Options that older bundles do not name: what these were graded with.
_LACKING_IN_OLDER: Mapping[str, Any] = {
    "baselines": [],
    "build_timeout": 300.0,
    "all_cases": False,
}


class GradeError(Exception):
    """A grading could not be made; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Request:
    """One grading. `samples` are the timed calls of a shape (None: what the device asks for), `timeout` the seconds
    that the submission's calls may take in all in one process, `build_timeout` those of building it there. `baselines`
    are timed beside it. `fresh` starts another bundle where one could be gone on with. `provenance` are findings of the
    run that made the submission. `all_cases` are run also after a wrong result.
    """

    submission: Path
    problem: str
    target: str = "auto"
    strict: bool = False
    trials: int = 1
    samples: int | None = None
    evidence: bool = True
    all_evidence: bool = False
    sandbox: SandboxName = "auto"
    timeout: float = 600.0
    build_timeout: float = 300.0
    out: Path = Path("kbh-results")
    protocol: Protocol = "2026-11"
    problems_dir: Path | None = None
    fresh: bool = False
    baselines: tuple[BaselineName, ...] = ()
    provenance: tuple[FindingRecord, ...] = ()
    all_cases: bool = False

    def __post_init__(self) -> None:
        checks = (
            (_NAME.fullmatch(self.problem), f"{self.problem[:60]!r} is not the id of a problem"),
            (_NAME.fullmatch(self.target.replace(" ", "_")), f"{self.target[:60]!r} is not the name of a target"),
            (1 <= self.trials <= MOST_TRIALS, f"there can be 1 to {MOST_TRIALS} trials, not {self.trials}"),
            (
                self.samples is None or 3 <= self.samples <= MOST_SAMPLES,
                f"there can be 3 to {MOST_SAMPLES} samples, not {self.samples}",
            ),
            (
                set(self.baselines) <= set(BASELINES) and len(set(self.baselines)) == len(self.baselines),
                f"the baselines are {', '.join(BASELINES)}, each once; {', '.join(self.baselines)[:80]!r} are others",
            ),
            (0 < self.timeout <= MOST_SECONDS, f"the timeout must be over 0 and at most {MOST_SECONDS:g} s"),
            (
                0 < self.build_timeout <= MOST_SECONDS,
                f"the build timeout must be over 0 and at most {MOST_SECONDS:g} s",
            ),
        )
        for fine, sentence in checks:
            if not fine:
                raise GradeError(sentence)


def options_of(request: Request) -> dict[str, Any]:
    """Everything of a request that decides its result, as JSON values."""
    found = {
        field.name: getattr(request, field.name) for field in dataclasses.fields(Request) if field.name not in _APART
    }
    return found | {"baselines": list(request.baselines)}


def options_from_json(data: object) -> dict[str, Any]:
    """The reverse of `options_of`, for a bundle that a stranger may have written. Raises GradeError."""
    wanted = options_of(Request(Path(), "x"))
    given = {**_LACKING_IN_OLDER, **data} if isinstance(data, Mapping) else {}
    if set(given) != set(wanted):
        raise GradeError("the bundle does not hold the options of a grading that this version knows")
    choices = {"sandbox": SANDBOXES, "protocol": ("2026-11", "2026-04")}
    for name, default in wanted.items():
        value = given[name]
        kinds = (
            (int, type(None)) if name == "samples" else (int, float) if name.endswith("timeout") else (type(default),)
        )
        if type(value) not in kinds or (name in choices and value not in choices[name]):
            raise GradeError(f"the option {name} of the bundle is {str(value)[:40]!r}, which it cannot be")
    if not all(type(name) is str for name in given["baselines"]):
        raise GradeError("the option baselines of the bundle is no list of names")
    return given | {"baselines": tuple(given["baselines"])}


def problem_of(request: Request) -> Problem:
    """The problem that a request names. Raises GradeError."""
    return graded_problem(request.problem, request.problems_dir)


def graded_problem(name: str, problems_dir: Path | None) -> Problem:
    """The problem of a deck that has this id, and can be graded. Raises GradeError."""
    folder = paths.problems_dir(problems_dir)
    deck = load_deck(folder)
    if name not in deck:
        raise GradeError(f"there is no problem `{name}` in {folder}; `kbh problems list` lists them")
    problem = deck[name]
    if not problem.contracts:
        raise GradeError(f"{problem.id} is {problem.status}: {' '.join(problem.reason.split())}")
    return problem


def copied(request: Request, problem: Problem, scratch: Path) -> Snapshot:
    """The copy of a submission that is linted and run. Raises CheckError."""
    reference = Path(problem.path).resolve().parent / "reference.py"
    return snapshot(request.submission, scratch / "submission", reference=reference)


def problem_files(problem: Problem, hardware: Path) -> dict[str, str]:
    """SHA-256 of every file that decides what a right result and a score are, by name."""
    folder = Path(problem.path).resolve().parent
    found = sorted(path for kind in ("yaml", "py", "json") for path in folder.glob(f"*.{kind}"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (*found, hardware) if path.is_file()}


def versions(device: str) -> dict[str, str]:
    """The versions that a result may depend on (kbh, Python, kernel, torch, Triton, on a GPU its driver's), by name."""
    known = {"kbh": __version__, "python": platform.python_version(), "kernel": platform.release()}
    for name in ("torch", "triton"):
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            known[name] = "none"
    if device.startswith("cuda"):
        known |= _gpu_versions()
    return known


def _gpu_versions() -> dict[str, str]:
    import torch

    from grader.judge.resources import driver_version  # torch comes with it, which takes seconds

    known = {"cuda": torch.version.cuda or "none"}
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")[:2000]
    except OSError:  # containers may hide it
        text = ""
    found = re.search(r"Kernel Module[^\d\n]{0,80}(\d[\d.]{2,20})", text)
    driver = found[1] if found else driver_version()
    headers = cutlass.find()
    known |= {"cutlass": headers.version} if headers is not None else {}
    return known | ({"driver": driver} if driver else {})


def identity(request: Request, submission: str, files: Mapping[str, str], target: str, known: Mapping[str, str]) -> str:
    """SHA-256 of all that decides a result, this grader's code too: gradings with the same one may share trials."""
    parts: list[Any] = [options_of(request), submission, dict(files), target, dict(known), _code()]
    parts += [provenance.to_json(request.provenance)] if request.provenance else []
    return hashlib.sha256(canonical({"parts": parts})).hexdigest()


@functools.cache
def _code() -> str:
    """SHA-256 of the grader's sources: how often and how long it times is in them."""
    folder, digest = Path(__file__).resolve().parents[1], hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        text = file.read_bytes()
        digest.update(f"{file.relative_to(folder)} {len(text)}\n".encode() + text)
    return digest.hexdigest()
