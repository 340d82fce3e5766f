"""What a GPU run showed about the deck's own solutions, stored beside each problem as `evidence/TARGET.json`.

```
{"format": 1, "problem": id, "target": id, "device": name, "versions": {...},
 "key": the master key in hex, so that every value of the run can be drawn again,
 "files": {"problem.yaml": digest of what decides a result, "reference.py": sha256, ...},
 "launch_s": seconds of a kernel that does nothing,
 "reference": as a solution, with "seconds": {shape: median},
 "solutions": {file: {"kind": "honest" or "decoy", "sha256": as the linter counts it, "outcome", "message",
    "cases": how many,
    "shapes": {shape: {"cases", "worst": largest error / tolerance, "worst_case",
       and for honest ones "seconds", "roofline_fraction", "speedup"}},
    and for honest ones "roofline_fraction" and "speedup": geometric means}},
 "mutants": what grader.authoring.mutation found at full shapes, where it was run}
```

`problems_with` reads it back without a GPU. Times are medians of device times, measured in the submission's process.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbh_lint.authors.solutions import Solutions
from kbh_lint.marked import load as load_yaml
from kbh_lint.problems import Problem
from kbh_lint.source.submissions import BadInput, discover

__all__ = [
    "FORMAT", "Row", "deck_faults", "digest", "file_hashes", "folder_of", "geometric_mean", "goals", "listed",
    "path_of", "read", "row_of", "submission_hash", "targets", "write",
]  # fmt: skip

FORMAT = 1
MAX_BYTES = 4 << 20
# Words, and what only problems from other files have.
UNDECIDING = ("text", "note", "entry", "made", "call", "weights", "training", "converts")
CODE = ("reference.py", "cases.py")
"""What results rest on. legal.py decides bounds only, and problem.yaml has these."""


@dataclass(frozen=True, slots=True)
class Row:
    """One solution as the evidence has it, and what is wrong with that; `worst` is the largest error / tolerance."""

    problem: str
    file: str
    kind: str
    cases: int
    worst: float | None
    roofline_fraction: float | None
    speedup: float | None
    faults: tuple[str, ...]


def folder_of(problem: Problem) -> Path:
    """The problem's folder."""
    return Path(problem.path).resolve().parent


def path_of(folder: Path, target: str) -> Path:
    """Where the evidence of a problem folder on a target is."""
    return folder / "evidence" / f"{target}.json"


def digest(problem: Problem) -> str:
    """A hash of everything in problem.yaml that decides results: shapes, contract, stress, cases, work formulas.

    Wording, promises and bans may change without a new run.
    """
    contract = next(iter(problem.contracts.values()), None)
    parts = (problem.precision, problem.shapes, contract, problem.stress, problem.cases, problem.flops, problem.bytes)
    return hashlib.sha256(json.dumps(_plain(parts), sort_keys=True).encode()).hexdigest()


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {name: _plain(field) for name, field in fields.items() if name not in UNDECIDING}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def file_hashes(problem: Problem) -> dict[str, str]:
    """Hashes of what the results rest on besides the solutions."""
    folder = folder_of(problem)
    files = [folder / name for name in CODE if (folder / name).is_file()]
    return {"problem.yaml": digest(problem), **{f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}}


def submission_hash(file: Path) -> str:
    """The hash of a submission with its sidecars, or an empty string when it cannot be read."""
    found = next(discover([file]))
    return "" if isinstance(found, BadInput) else found.sha256


def goals(problems: Path) -> dict[str, dict[str, float]]:
    """`goals.yaml` of the deck: target -> problem -> share of the roofline. Raises DataError."""
    path = problems / "goals.yaml"
    data = load_yaml(path.read_text(encoding="utf-8"), str(path)) if path.is_file() else {}
    return {target: {name: float(goal) for name, goal in of.items()} for target, of in data.items()}


def targets(problem: Problem, goals: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The targets that evidence of a problem is stored for, or is wanted for because it has a goal there."""
    stored = {path.stem for path in (folder_of(problem) / "evidence").glob("*.json")}
    return sorted(stored | {target for target, of in goals.items() if problem.id in of})


def read(path: Path) -> tuple[dict[str, Any], str]:
    """Reads stored evidence: (evidence, "") or ({}, one sentence on why it cannot be used)."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return {}, f"{path.name} is larger than {MAX_BYTES >> 20} MB"
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, f"there is no {path.parent.name}/{path.name}"
    except (OSError, ValueError, RecursionError):
        return {}, f"{path.name} cannot be read as JSON"
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return {}, f"{path.name} is not evidence of format {FORMAT}"
    return data, ""


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Writes evidence: sorted keys, six significant digits, so that a rerun differs only where results do.

    The canary of the old file stays (harness.contamination.canaries).
    """
    old = read(path)[0]
    if isinstance(old.get("canary"), str):
        data = {"canary": old["canary"], **data}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_rounded(data), indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")


def _rounded(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers; 0 of none."""
    numbers = list(values)
    if not numbers or min(numbers) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def row_of(problem: Problem, file: str, kind: str, entry: Mapping[str, Any] | None) -> Row:
    """What the evidence says of one solution, held against the files as they are now."""
    if not isinstance(entry, Mapping):
        return Row(problem.id, file, kind, 0, None, None, None, ("no evidence",))
    faults = []
    if entry.get("kind") != kind:
        faults.append(f"was run as {entry.get('kind')}")
    if entry.get("sha256") != submission_hash(folder_of(problem) / file):
        faults.append("has changed since it was run")
    if entry.get("outcome") != "passed":
        faults.append(f"{entry.get('outcome')}: {entry.get('message')}")
    shapes = entry.get("shapes", {})
    missing = [shape.label for shape in problem.shapes if shape.label not in shapes]
    if missing:
        faults.append(f"was not run at {', '.join(missing)}")
    worst = [shape["worst"] for shape in shapes.values() if isinstance(shape.get("worst"), (int, float))]
    return Row(
        problem.id, file, kind, int(entry.get("cases", 0)), max(worst, default=None),
        entry.get("roofline_fraction"), entry.get("speedup"), tuple(faults),
    )  # fmt: skip


def deck_faults(problem: Problem, data: Mapping[str, Any], rows: Iterable[Row], goal: float | None) -> list[str]:
    """What is wrong with a problem's evidence as a whole: stale files, a goal that no honest solution reaches."""
    faults = []
    reference = data.get("reference", {})
    if reference.get("outcome") != "passed":
        faults.append(f"the reference fails its own check: {reference.get('message')}")
    stored, now = data.get("files", {}), file_hashes(problem)
    names = now.keys() | (stored.keys() & set(CODE))
    changed = sorted(name for name in names if now.get(name) != stored.get(name))
    if changed:
        faults.append(f"{', '.join(changed)} changed since the evidence was made")
    honest = [row for row in rows if row.kind == "honest"]
    best = max((row.roofline_fraction or 0.0 for row in honest), default=0.0)
    if goal is not None and best < goal:
        faults.append(f"the best honest solution reaches {best:.3f} of the roofline, and the goal is {goal:g}")
    if goal is not None and max((row.speedup or 0.0 for row in honest), default=0.0) <= 1.0:
        faults.append("no honest solution beats the eager reference")
    return faults


def listed(solutions: Solutions) -> list[tuple[str, str, str]]:
    """Lists (file, kind, rule) of every solution, honest ones first."""
    honest = [(entry.file, "honest", "") for entry in solutions.honest]
    return honest + [(entry.file, "decoy", entry.rule) for entry in solutions.decoys]
