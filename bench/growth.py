"""What an archive costs as it grows: index, statistics, check, release, check of the release, and the site.

    python bench/growth.py                      100, 1,000 and 10,000 runs, about 25 minutes and 2 GB of disk
    python bench/growth.py --cells 100 1000     fewer
    python bench/growth.py --dir /scratch       where they are made (default: a temporary folder)
    python bench/growth.py --only index stats   some of the steps
    python bench/growth.py --keep DIR           leaves the sites there
    python bench/growth.py --json figures.json  the figures for programs

Runs are synthetic and whole: of 15 in 20 the grading is one of the H200's with a few of its samples, slower by a factor
of its own, and everything that follows from them is worked out anew, so that every run has its own files and all checks
pass. Others leak, have no solution, or are lost. Sources are the same ones: what the linter costs is its own matter
(bench/lint.py). The exponent is the slope of log seconds over log runs between the last two sizes: 1 is linear. Seconds
are of the processor, since others may work on the machine.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import math
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grader.record.bundle import Bundle, cell_from_json, cell_to_json, to_json, trial_to_json
from grader.record.bundle.packed import unpacked
from grader.record.bundle.read import Entry, entry_bytes, entry_name, object_parts
from grader.record.cell import Cell, ShapeTiming, TrialResult
from grader.score import scoring
from grader.score.standard import recorded
from harness.archive import Archive, all_facts, rebuild
from harness.archive.layout import Stored, manifest_bytes, manifest_parts
from harness.archive.store import INDEX
from harness.archive.verify import verify
from harness.board.data import boards_of
from harness.board.trials import trials_of
from harness.record.archive import RECORD, RUN_FILE
from harness.record.run import Ending, Outcome, RoomRecord, RunRecord
from harness.record.usage import Usage
from harness.release import verify_release, write_release
from harness.release.contents import usual_options
from kbh_lint.base import paths
from kbh_lint.problems import Problem, load_deck

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "h200.tar.xz"
SIZES = (100, 1_000, 10_000)
HONEST = (
    "01_fp8_gemm", "05_topk_bitonic", "06_sonic_moe_swiglu", "07_w4a16_gemm", "09_fmha_preattn_mrope",
    "10_patch_embed_conv3d_gemm",
)  # fmt: skip
LEAKING = "01_fp8_gemm-library_product"
SAMPLES = 30
TRIALS = 5
STARTED = 1_793_000_000.0


@dataclass(frozen=True, slots=True)
class Template:
    """A grading of the H200: its entries, the objects that they name, its cell, and its problem."""

    entries: tuple[Entry, ...]
    objects: Mapping[str, bytes]
    cell: Cell
    problem: Problem


def template(name: str) -> Template:
    """The bundle of a submission, with a few of its samples."""
    with unpacked(RESULTS) as place:
        return _template(next(iter(sorted(place.glob(f"{name}-*")))))


def _template(folder: Path) -> Template:
    bundle = Bundle.open(folder)
    cell = cell_from_json(next(entry.data for entry in bundle.entries() if entry.kind == "cell"))
    trials = tuple(
        replace(trial, shapes=tuple(
            replace(shape, cases=shape.cases[:3], timing=None if shape.timing is None else _few(shape.timing))
            for shape in trial.shapes
        ))
        for trial in cell.trials
    )  # fmt: skip
    objects = {key: bundle.get(key) for entry in bundle.entries() for key in entry.objects}
    problem = load_deck(paths.problems_dir())[cell.problem]
    return Template(bundle.entries(), objects, replace(cell, trials=trials), problem)


def _few(timing: ShapeTiming) -> ShapeTiming:
    return replace(timing, claimed=timing.claimed[:SAMPLES], walls=timing.walls[:SAMPLES], health=timing.health[:2])


def slower(known: Template, factor: float, draw: random.Random) -> Cell:
    """The cell of a submission that takes so many times as long, with keys of its own."""
    trials = tuple(_slower(trial, factor, draw) for trial in known.cell.trials)
    if not trials:
        return known.cell
    chosen = recorded(known.problem, known.cell.target)
    shapes = scoring.shape_scores(known.problem, chosen, trials)
    return replace(
        known.cell, trials=trials, shapes=shapes, scores=scoring.total(known.problem, chosen, shapes),
        unstable=scoring.unstable(known.problem, chosen, shapes),
    )  # fmt: skip


def _slower(trial: TrialResult, factor: float, draw: random.Random) -> TrialResult:
    master = draw.randbytes(32)
    shapes = []
    for shape in trial.shapes:
        timing = shape.timing
        if timing is not None:
            noise = [factor * math.exp(draw.gauss(0, 0.002)) for _ in timing.claimed]
            timing = replace(
                timing, claimed=tuple(one * by for one, by in zip(timing.claimed, noise, strict=True)),
                walls=tuple(one * factor for one in timing.walls),
                ungated=tuple(one * factor for one in timing.ungated),
                sealed=tuple(replace(one, seconds=one.seconds * factor) for one in timing.sealed),
                alone=tuple(replace(one, seconds=one.seconds * factor) for one in timing.alone),
            )  # fmt: skip
        shapes.append(replace(shape, timing=timing))
    return replace(
        trial, shapes=tuple(shapes), master=master.hex(), commitment=hashlib.sha256(master).hexdigest()
    )  # fmt: skip


def bundle_files(known: Template, cell: Cell) -> Iterator[tuple[str, bytes]]:
    """The files of a bundle in which a template's entries tell of another cell."""
    for key, kept in known.objects.items():
        yield "/".join(object_parts(key)), kept
    prev, trials = "", iter(cell.trials)
    committed = iter(cell.trials)
    for entry in known.entries:
        data = dict(entry.data)
        if entry.kind == "commitment":
            data["commitment"] = next(committed).commitment
        elif entry.kind == "trial":
            data = trial_to_json(next(trials))
        elif entry.kind == "cell":
            data = cell_to_json(cell)
        written = entry_bytes(entry.seq, prev, entry.kind, entry.time, data, entry.objects)
        prev = hashlib.sha256(written).hexdigest()
        yield f"entries/{entry_name(entry.seq)}", written


class Maker:
    """Writes runs straight into an archive: nothing is synced, and nothing is held against itself first."""

    def __init__(self, archive: Archive, models: int) -> None:
        self._archive = archive
        self._models = models
        self._honest = [template(f"{name}-triton") for name in HONEST]
        self._leaking = template(LEAKING)

    def run(self, number: int) -> None:
        """One run. The same number gives the same run."""
        draw = random.Random(number)
        model = number % self._models
        place = number // self._models
        known = self._honest[place % len(self._honest)]
        kind = draw.choices(("honest", "leak", "nothing", "lost"), (15, 2, 2, 1))[0]
        cell: Cell | None = None
        if kind == "honest":
            cell = slower(known, math.exp(0.02 * model + 0.1 * draw.random()), draw)
        elif kind == "leak":
            known, cell = self._leaking, self._leaking.cell
        record = self._record(number, model, known.problem.id, place // len(self._honest), kind, cell)
        files = {
            RUN_FILE: json.dumps(to_json(record, RunRecord), indent=1).encode() + b"\n",
            "prompt.md": f"Write a kernel.\n{'It is to be fast. ' * 100}\n".encode(),
            f"{RECORD}/trajectory.jsonl": b"",
        }
        if cell is not None:
            files["solution.py"] = known.objects[cell.submission]
            for name, data in bundle_files(known, cell):
                files[f"{RECORD}/cells/final/{name}"] = data
        listed = {name: Stored(self._put(data), len(data)) for name, data in files.items()}
        written = manifest_bytes("run", record.run_id, listed)
        self._write(manifest_parts(hashlib.sha256(written).hexdigest()), written)

    def _record(self, number: int, model: int, problem: str, trial: int, kind: str, cell: Cell | None) -> RunRecord:
        scores = cell.scores if cell is not None else None
        outcome: Outcome = "PASS" if scores is not None else "ERR" if kind == "lost" else "FAIL"
        ending: Ending = "infrastructure" if kind == "lost" else "agent-stop"
        return RunRecord(
            run_id=f"20261101T000000Z_mini_model-{model:02}_{problem}_{number:08x}", agent="mini", harness="mini 1",
            model=f"model-{model:02}", problem=problem, target="h200", effort="high", budget_s=2700.0, trial=trial + 1,
            state="done", started=STARTED + number, ended=STARTED + number + 1500, outcome=outcome, ending=ending,
            detail="", room=RoomRecord("bubblewrap", True, 1000), usage=Usage(), calls=0,
            solution=cell.submission if cell else "", grade_outcome=cell.outcome if cell else "",
            verdict=cell.verdict.verdict if cell else "", cell="final" if cell else "",
            peak_fraction=scores.peak_fraction if scores else None, strict=True,
            roofline_fraction=scores.roofline_fraction if scores else None, sweep_key=f"synthetic-{number}",
        )  # fmt: skip

    def _put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self._write(object_parts(sha256), data)
        return sha256

    def _write(self, parts: tuple[str, ...], data: bytes) -> None:
        path = self._archive.folder.joinpath(*parts)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)


def archive_of(folder: Path, cells: int) -> Archive:
    """An archive of so many runs, with its index gone."""
    archive = Archive.create(folder)
    maker = Maker(archive, max(2, min(50, round(cells / (len(HONEST) * TRIALS)))))
    for number in range(cells):
        maker.run(number)
    return archive


def bytes_of(path: Path) -> int:
    """What lies in a folder, or a file's size."""
    if path.is_file():
        return path.stat().st_size
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())


def steps(archive: Archive, place: Path) -> dict[str, Callable[[], int]]:
    """What is measured, in this order; each gives the bytes that it made. Raises RuntimeError for a wrong result."""
    cells = len(archive.ids())

    def index() -> int:
        if len(rebuild(archive).facts) != cells:
            raise RuntimeError("the index lacks entries")
        return bytes_of(archive.folder / INDEX)

    def listed() -> int:
        return 0 * len(all_facts(archive, keep=False).facts)

    def stats() -> int:
        trials = trials_of(all_facts(archive, keep=False).facts)
        boards = boards_of(trials)
        if len(trials.trials) != cells:
            raise RuntimeError("trials are missing")
        return 0 * len(boards)

    def check() -> int:
        _right(verify(archive).faults)
        return 0

    def release() -> int:
        _right(write_release(archive, place / "r.tar", usual_options(), lint=False).faults)
        return bytes_of(place / "r.tar")

    def checked() -> int:
        _right(verify_release(place / "r.tar", lint=False).faults)
        return 0

    def site() -> int:
        from kbh_lint.cli import COMMANDS

        if COMMANDS["site"][0]([str(archive.folder), "-o", str(place / "site")]):
            raise RuntimeError("there is no site")
        return bytes_of(place / "site")

    found = {"index": index, "read": listed, "stats": stats, "verify": check, "release": release, "check": checked}
    return {**found, "site": site} if importlib.util.find_spec("harness.site") is not None else found


def _right(faults: list[str]) -> None:
    if faults:
        raise RuntimeError(f"{len(faults)} faults, the first: {faults[0]}")


def paints(folder: Path) -> str:
    """Seconds to the first paint of a site's heaviest pages, as bench/board.py has Chromium tell them; or ""."""
    spec = importlib.util.spec_from_file_location("bench_board", Path(__file__).with_name("board.py"))
    if spec is None or spec.loader is None or not folder.is_dir():
        return ""
    board = sys.modules["bench_board"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(board)
    return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in board.first_paints(folder).items())


def measured(work: Callable[[], int]) -> dict[str, float]:
    """Seconds of the processor (with those of processes that ended meanwhile) and of the clock, and bytes."""
    begun, before = time.perf_counter(), _processor()
    made = work()
    return {"cpu": _processor() - before, "wall": time.perf_counter() - begun, "bytes": made}


def _processor() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def exponent(sizes: list[int], values: list[float]) -> float | None:
    """The slope between the last two sizes, on logarithms; None where there is none."""
    if len(sizes) < 2 or min(values[-2:]) <= 0:
        return None
    return math.log(values[-1] / values[-2]) / math.log(sizes[-1] / sizes[-2])


def report(sizes: list[int], figures: Mapping[str, list[Mapping[str, float]]]) -> str:
    """The figures as a table of Markdown."""
    heads = [f"{size:,} runs" for size in sizes]
    lines = [f"| | {' | '.join(heads)} | exponent |", f"|---|{'---|' * (len(sizes) + 1)}"]
    for name, found in figures.items():
        slope = exponent(sizes, [one["cpu"] for one in found])
        lines.append(f"| {name}, s | {' | '.join(_number(one['cpu']) for one in found)} | {_slope(slope)} |")
        if found[-1]["bytes"]:
            slope = exponent(sizes, [one["bytes"] for one in found])
            cells = " | ".join(_number(one["bytes"] / 1e6) for one in found)
            lines.append(f"| {name}, MB | {cells} | {_slope(slope)} |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def _slope(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> int:
    """Entry point."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--cells", type=int, nargs="+", default=list(SIZES))
    ask.add_argument("--dir", type=Path)
    ask.add_argument("--only", nargs="+", default=[])
    ask.add_argument("--keep", type=Path)
    ask.add_argument("--json", type=Path)
    args = ask.parse_args()
    figures: dict[str, list[Mapping[str, float]]] = {}
    painted: list[str] = []
    for cells in args.cells:
        with tempfile.TemporaryDirectory(prefix="kbh-growth-", dir=args.dir) as name:
            place = Path(name)
            begun = time.perf_counter()
            archive = archive_of(place / "a", cells)
            size = bytes_of(archive.folder)
            print(
                f"{cells:,} runs, {size / 1e6:,.0f} MB, made in {time.perf_counter() - begun:,.0f} s", file=sys.stderr
            )
            figures.setdefault("archive", []).append({"cpu": 0.0, "wall": 0.0, "bytes": float(size)})
            for step, work in steps(archive, place).items():
                if args.only and step not in args.only:
                    continue
                found = measured(work)
                figures.setdefault(step, []).append(found)
                print(f"  {step}: {found['cpu']:.2f} s of the processor, {found['wall']:.2f} s", file=sys.stderr)
            if shown := paints(place / "site"):
                painted.append(f"first paint in Chromium, site of {cells:,} runs: {shown}")
                print(f"  {painted[-1]}", file=sys.stderr)
            if args.keep is not None and (place / "site").is_dir():
                shutil.copytree(place / "site", args.keep / str(cells))
            shutil.rmtree(place / "a", ignore_errors=True)
    print(report(args.cells, figures))
    print(*painted, sep="\n")
    print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:,.0f} MB")
    if args.json is not None:
        data: dict[str, Any] = {"cells": args.cells, "figures": figures}
        args.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
