"""What an entry says of itself, read from its files: one row of the index and of every table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any

from grader.record.bundle import BundleError, CodecError, cell_from_json, from_json
from grader.record.bundle.read import ENTRY_BYTES as BUNDLE_ENTRY_BYTES
from grader.record.bundle.read import Entry, parse_entry
from harness.archive.graded import cell_data, entries_below, graded_of
from harness.archive.layout import Manifest, StoreError
from harness.record.archive import MAX_RUN_BYTES, RECORD, RUN_FILE
from harness.record.run import RunRecord

__all__ = ["TEXT_CHARACTERS", "Facts", "Read", "facts_of"]

TEXT_CHARACTERS = 2000
MOST_INTEGER = 1 << 53
Read = Callable[[str], bytes]  # the bytes under a SHA-256


@dataclass(frozen=True, slots=True)
class Facts:
    """One entry. Times in seconds UTC, `cost_usd` None where it is unknown; of a bundle that no run made, agent and
    model are empty. `sweep_key` is the cell of a sweep that it answers. `head` is the hash that pins the (final)
    bundle, "" without one. `grade` is the grader's outcome, `outcome` the run's, or the grader's without a run. From
    `claimed_s` to `leaks` it is what `harness.archive.graded.Graded` says of the (final) grading.
    """

    id: str
    kind: str
    name: str
    sweep_key: str = ""
    agent: str = ""
    harness: str = ""
    model: str = ""
    problem: str = ""
    target: str = ""
    effort: str = ""
    trial: int = 0
    budget_s: float = 0.0
    strict: bool = False
    started: float = 0.0
    ended: float = 0.0
    outcome: str = ""
    ending: str = ""
    retryable: bool = False
    detail: str = ""
    grade: str = ""
    verdict: str = ""
    peak_fraction: float | None = None
    roofline_fraction: float | None = None
    cost_usd: float | None = None
    calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    solution: str = ""
    head: str = ""
    regrade: str = ""
    claimed_s: float | None = None
    sealed_s: float | None = None
    spread: float | None = None
    samples: int = 0
    clock: str = ""
    promises: str = ""
    leaks: str = ""
    files: int = 0
    bytes: int = 0


def facts_of(manifest: Manifest, read: Read) -> Facts:
    """Reads the facts of an entry from its files. Raises StoreError where they are no record of a run or a grading."""
    base = Facts(manifest.id, manifest.kind, manifest.name, files=len(manifest.files), bytes=manifest.bytes)
    found = _run(manifest, read, base) if manifest.kind == "run" else _bundle(manifest, read, base)
    return _plain(found)


def _run(manifest: Manifest, read: Read, base: Facts) -> Facts:
    stored = manifest.files.get(RUN_FILE)
    if stored is None or stored.bytes > MAX_RUN_BYTES:
        raise StoreError(f"{manifest.name} has no {RUN_FILE} of a run")
    try:
        record = from_json(json.loads(read(stored.sha256)), RunRecord)
    except (ValueError, CodecError, RecursionError) as error:
        raise StoreError(f"{manifest.name}: {RUN_FILE} is no record of a run ({str(error)[:200]})") from None
    if record.run_id != manifest.name:
        raise StoreError(f"{manifest.name}: {RUN_FILE} is of another run")
    if record.state != "done":
        raise StoreError(f"{manifest.name} is not over")
    below = f"{RECORD}/cells/{record.cell}/"
    entries = entries_below(manifest, below) if record.cell else []
    data = cell_data(manifest, below, read) if entries else None
    graded = _graded(manifest, data)
    _must_agree(record, data)
    return replace(
        base, **graded, sweep_key=record.sweep_key, agent=record.agent, harness=record.harness, model=record.model,
        problem=record.problem, target=record.target, effort=record.effort, trial=record.trial,
        budget_s=record.budget_s, strict=record.strict, started=record.started, ended=record.ended,
        outcome=record.outcome, ending=record.ending, retryable=record.retryable, detail=record.detail,
        grade=record.grade_outcome, verdict=record.verdict, peak_fraction=record.peak_fraction,
        roofline_fraction=record.roofline_fraction, cost_usd=record.usage.cost_usd, calls=record.calls,
        prompt_tokens=record.usage.prompt_tokens, output_tokens=record.usage.output_tokens,
        solution=record.solution, head=manifest.files[entries[-1]].sha256 if entries else "",
    )  # fmt: skip


def _bundle(manifest: Manifest, read: Read, base: Facts) -> Facts:
    entries: list[Entry] = []
    for seq, path in enumerate(entries_below(manifest), 1):
        if manifest.files[path].bytes > BUNDLE_ENTRY_BYTES:
            raise StoreError(f"{manifest.name}: {path} is larger than an entry may be")
        try:
            entries.append(parse_entry(read(manifest.files[path].sha256), seq, entries[-1].hash if entries else ""))
        except BundleError as error:
            raise StoreError(f"{manifest.name}: {error}") from None
    cells = [entry for entry in entries if entry.kind == "cell"]
    if not cells:
        raise StoreError(f"{manifest.name} is the bundle of a grading that was not finished")
    try:
        cell = cell_from_json(cells[-1].data)
    except CodecError as error:
        raise StoreError(f"{manifest.name} holds no cell: {error}") from None
    again = [str(entry.data.get("outcome", "")) for entry in entries if entry.kind == "regrade"]
    graded = _graded(manifest, cells[-1].data)
    return replace(
        base, **graded, problem=cell.problem, target=cell.target.id, strict=cell.strict, trial=len(cell.trials),
        started=_seconds(entries[0].time), ended=_seconds(cells[-1].time), outcome=cell.outcome, grade=cell.outcome,
        detail=cell.reason, verdict=cell.verdict.verdict, solution=cell.submission, head=entries[-1].hash,
        peak_fraction=cell.scores.peak_fraction if cell.scores else None,
        roofline_fraction=cell.scores.roofline_fraction if cell.scores else None,
        regrade=again[-1] if again else "",
    )  # fmt: skip


def _graded(manifest: Manifest, data: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields that a grading settles."""
    try:
        return {} if data is None else asdict(graded_of(data))
    except CodecError as error:
        raise StoreError(f"{manifest.name} holds no cell: {error}") from None


def _must_agree(record: RunRecord, data: Mapping[str, Any] | None) -> None:
    """Raises StoreError where a run says another result than its grading, or has a score without one: boards are made
    of what runs say.
    """
    if data is None and record.roofline_fraction is not None:
        raise StoreError(f"{record.run_id} says that the grader gave it a score, and holds no grading")
    if data is None:
        return
    scores = data.get("scores")
    score = scores.get("roofline_fraction") if isinstance(scores, dict) else None
    if (record.grade_outcome, record.verdict, record.roofline_fraction) != (
        data.get("outcome"), data["verdict"].get("verdict"), score,
    ):  # fmt: skip
        raise StoreError(f"{record.run_id} says another result than its grading {record.cell[:100]}")


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _plain(found: Facts) -> Facts:
    """The same in values that every table can hold: bounded text without halves of characters, finite numbers."""
    changed: dict[str, Any] = {}
    for one in fields(Facts):
        value = getattr(found, one.name)
        if isinstance(value, str):
            changed[one.name] = value.encode("utf-8", "replace").decode()[:TEXT_CHARACTERS]
        elif isinstance(value, float) and not math.isfinite(value):
            raise StoreError(f"{found.name}: {one.name} is no finite number")
        elif isinstance(value, int) and abs(value) > MOST_INTEGER:
            raise StoreError(f"{found.name}: {one.name} is larger than such a number can be")
    return replace(found, **changed)
