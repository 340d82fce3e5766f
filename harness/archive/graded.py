"""What a grading says of one submission, as far as tables and statistics want it, and the whole cell where more is."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from grader.record.bundle import CodecError, cell_from_json, from_json
from grader.record.bundle.read import ENTRY_BYTES
from grader.record.cell import Cell, ShapeScore, VerdictRecord
from harness.archive.layout import Manifest, StoreError
from kbh_lint.verdict import FLAGGED

if TYPE_CHECKING:
    from harness.archive.facts import Facts, Read

__all__ = ["Graded", "cell_data", "cell_of", "entries_below", "graded_of"]

AFTER = 20  # entries that may follow a cell: what came of gradings that were made again


@dataclass(frozen=True, slots=True)
class Graded:
    """`claimed_s` and `sealed_s` are geometric means over the shapes of what the two clocks say, `spread` the standard
    error of the score as a share of it; None where a shape has none. `clock`: whether all shapes are "proved", or one
    is "weak". `promises` is `ID=STATE ...` in the order of their ids, `leaks` the classes of findings that are leaks.
    """

    claimed_s: float | None = None
    sealed_s: float | None = None
    spread: float | None = None
    samples: int = 0
    clock: str = ""
    promises: str = ""
    leaks: str = ""


def entries_below(manifest: Manifest, below: str = "") -> list[str]:
    """The paths of the entries of a bundle that lies in an entry of the archive below a folder, in order."""
    start = f"{below}entries/"
    return sorted(path for path in manifest.files if path.startswith(start))


def graded_of(data: Mapping[str, Any]) -> Graded:
    """Reads from a cell, as JSON, what the index says of a grading. Raises CodecError."""
    if not isinstance(data.get("shapes"), list):
        raise CodecError("a cell has a list of shapes")
    shapes = [from_json(shape, ShapeScore) for shape in data["shapes"]]
    verdict = from_json(data.get("verdict"), VerdictRecord)
    leaks = {finding.leak_class for finding in verdict.findings if finding.verdict in FLAGGED}
    return Graded(
        claimed_s=_mean([shape.t_event for shape in shapes]),
        sealed_s=_mean([shape.t_sealed for shape in shapes]),
        spread=_spread([shape.spread for shape in shapes]),
        samples=sum(shape.samples for shape in shapes),
        clock="" if not shapes else "proved" if all(shape.clock == "proved" for shape in shapes) else "weak",
        promises=" ".join(sorted(f"{one.id}={one.state}" for one in verdict.promises)),
        leaks=" ".join(sorted(leaks)),
    )


def cell_of(manifest: Manifest, facts: Facts, read: Read) -> Cell | None:
    """The cell of an entry, with its samples, promises and findings; None where there is none. Raises StoreError."""
    head = [path for path, file in manifest.files.items() if file.sha256 == facts.head and "entries/" in path]
    if not facts.head or not head:
        return None
    data = cell_data(manifest, head[0].rpartition("entries/")[0], read)
    try:
        return None if data is None else cell_from_json(data)
    except CodecError as error:
        raise StoreError(f"{manifest.name} holds no cell: {error}") from None


def cell_data(manifest: Manifest, below: str, read: Read) -> Mapping[str, Any] | None:
    """The cell of a bundle in an entry, as JSON; None where there is none. Raises StoreError."""
    for path in reversed(entries_below(manifest, below)[-AFTER:]):
        if manifest.files[path].bytes > ENTRY_BYTES:
            raise StoreError(f"{manifest.name}: {path} is larger than an entry may be")
        try:
            entry = json.loads(read(manifest.files[path].sha256))
        except (ValueError, RecursionError):
            raise StoreError(f"{manifest.name}: {path} is no JSON") from None
        if isinstance(entry, dict) and entry.get("kind") == "cell" and isinstance(entry.get("data"), dict):
            return dict(entry["data"])
    return None


def _mean(times: list[float | None]) -> float | None:
    """The geometric mean of times that are all known."""
    known = [time for time in times if time is not None and 0 < time < math.inf]
    return math.exp(fmean(map(math.log, known))) if known and len(known) == len(times) else None


def _spread(each: list[float]) -> float | None:
    """Of a geometric mean of independent shapes; a shape's spread that is 0 is not known."""
    if not each or not all(0 < one < math.inf for one in each):
        return None
    return math.hypot(*each) / len(each)
