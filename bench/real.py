"""What `kbh grade` says of submissions that other people published as correct, and what it costs beside a plain grader.

    python bench/real.py published MIRROR LABELS -o published.json       what their board says: fractions and times
    python bench/real.py run SOLUTIONS LABELS -o real.json               grades them on this machine's GPU, one by one
    python bench/real.py jobs SOLUTIONS LABELS -o real.json --jobs 4     the same in one command, several at a time
    python bench/real.py archive ARCHIVE LABELS -o real.json     what a sweep of such files on a GPU made of them
    python bench/real.py page real.json... -o docs/results-real.md       the tables, one a device; needs no GPU

SOLUTIONS is a folder with one RUN_ID.py a submission, LABELS the list that says of each what it is: a JSON list of
`{"run_id", "problem", "board", "label", "correct"}`. Those of `--board` that are labelled clean and were published as
correct are graded, each once by bench/naive.py and once by `kbh grade --strict`, with empty compiler caches both
times. What is measured is kept after every submission, and a second command goes on; `--seconds` bounds one.

Nothing of a submission is kept but its name and its numbers. MIRROR is a clone of the published repository.

Exit codes: 0 done, 1 a goal is missed (--goals) or the page differs (--check), 2 the work could not be done.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_rows import NOT_RUN, Kept, RealError, Row, costs, fill, missed, read, tables, write

ROOT = Path(__file__).resolve().parent.parent
GRADE = "import sys; from kbh_lint.cli import kbh_main; sys.exit(kbh_main(['grade', *sys.argv[1:]]))"
TIMEOUT_S = 900.0
DETAIL = ("public/data/rundetail/{board}/{run}.json", "public/data/rundetail/{run}.json")
MOST_BYTES = 4 << 20
SPENT = "seconds"  # the file of a sweep that says how long it has taken


@dataclass(frozen=True, slots=True)
class Label:
    """One submission as it was published and labelled."""

    run: str
    problem: str
    board: str


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    asked = _parser().parse_args(argv)
    sys.path.insert(0, str(ROOT))
    try:
        return int(asked.do(asked))
    except RealError as error:
        print(f"bench/real.py: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    ask = argparse.ArgumentParser(
        prog="real", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sub = ask.add_subparsers(required=True, metavar="COMMAND")
    published = sub.add_parser("published", help="reads fractions and times out of a clone of the published repository")
    published.add_argument("mirror", type=Path)
    published.add_argument("labels", type=Path)
    published.add_argument("-o", "--output", type=Path, required=True)
    published.set_defaults(do=_published)
    for name, do, text in (("run", _run, "one by one"), ("jobs", _jobs, "several at a time, in one command")):
        one = sub.add_parser(name, help=f"grades submissions {text}")
        one.add_argument("solutions", type=Path)
        one.add_argument("labels", type=Path)
        one.add_argument("-o", "--output", type=Path, required=True, help="where measurements are kept")
        one.add_argument("--board", action="append", default=[], help="of these boards (default: h100)")
        one.add_argument("--only", action="append", default=[], metavar="TEXT", help="runs whose name contains it")
        one.add_argument("--most", type=int, default=1000, metavar="N", help="no more than so many")
        one.add_argument("--target", default="auto", help="as kbh grade")
        one.add_argument("--published", type=Path, help="the file that `published` wrote; kept beside the rows")
        one.add_argument("--seconds", type=float, default=float("inf"), help="no longer than about so many seconds")
        one.add_argument("--samples", type=int, help="timed calls a shape, of both graders")
        one.add_argument("--jobs", type=int, default=4, metavar="N")
        one.add_argument("--log", type=Path, help="add what kbh grade says of its stages to this file")
        one.set_defaults(do=do, folder=None)
        if do is _jobs:
            one.add_argument("--folder", type=Path, help="keep a sweep there; a second command goes on with it")
    archive = sub.add_parser("archive", help="reads the gradings of a sweep whose models are files of these names")
    archive.add_argument("archive", type=Path)
    archive.add_argument("labels", type=Path)
    archive.add_argument("-o", "--output", type=Path, required=True, help="where measurements are kept")
    archive.add_argument("--published", type=Path, help="the file that `published` wrote; kept beside the rows")
    archive.set_defaults(do=_archive)
    page = sub.add_parser("page", help="prints the tables of a file of measurements")
    page.add_argument("measured", type=Path, nargs="+", help="files of measurements, one a device")
    page.add_argument("-o", "--output", type=Path, help="write the page there")
    page.add_argument("--check", action="store_true", help="exit 1 where the page differs")
    page.add_argument(
        "--goals", action="store_true", help="tell the median and the worst cell; exit 1 where a goal is missed"
    )
    page.set_defaults(do=_page)
    return ask


# --- what was published ---


def _published(asked: argparse.Namespace) -> int:
    found = {}
    for label in _labels(asked.labels):
        for place in DETAIL:
            path = place.format(board=label.board, run=label.run)
            shown = subprocess.run(
                ["git", "-C", str(asked.mirror), "show", f"HEAD:{path}"], capture_output=True, timeout=60
            )
            if shown.returncode == 0 and len(shown.stdout) <= MOST_BYTES:
                found[label.run] = _detail(json.loads(shown.stdout))
                break
    if not found:
        raise RealError(f"{asked.mirror} has no details of any of these runs")
    asked.output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(found)} runs in {asked.output}")
    return 0


def _detail(data: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a published run: its fraction of the peak, the peaks, and milliseconds a call by shape."""
    shapes = [one for one in data.get("shapes") or [] if isinstance(one, dict)]
    return {
        "fraction": data.get("peak_fraction"),
        "peak_tflops": data.get("peak_tflops"),
        "peak_gbps": data.get("peak_bw_gb_s"),
        "milliseconds": [one.get("ms") for one in shapes],
        "fractions": [one.get("frac") for one in shapes],
    }


# --- grading ---


def _labels(file: Path) -> list[Label]:
    """Every submission that is labelled clean and was published as correct."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return [
            Label(str(one["run_id"]), str(one["problem"]), str(one["board"]))
            for one in data
            if one["label"] == "clean" and one["correct"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RealError(f"{file} is no list of labels: {error}") from None


def _wanted(asked: argparse.Namespace) -> list[tuple[Label, Path]]:
    boards = asked.board or ["h100"]
    labels = [one for board in boards for one in _labels(asked.labels) if one.board == board]
    labels = [one for one in labels if not asked.only or any(text in one.run for text in asked.only)]
    found = [(one, asked.solutions / f"{one.run}.py") for one in labels]
    found = [(one, file) for one, file in found if file.is_file()][: asked.most]
    if not found:
        raise RealError(f"{asked.solutions} has none of the submissions of {', '.join(boards)} that are wanted")
    return found


def _run(asked: argparse.Namespace) -> int:
    began = time.monotonic()
    kept = _begun(asked)
    wanted = _wanted(asked)
    for number, (label, file) in enumerate(wanted, 1):
        if label.run in kept.rows:
            continue
        if time.monotonic() - began > asked.seconds:
            print(f"the time is over: {len(wanted) - number + 1} are left for another command", file=sys.stderr)
            break
        print(f"{number} of {len(wanted)}: {label.run}", file=sys.stderr, flush=True)
        row = _measured(label, file, asked)
        print(
            f"  {row.outcome}, {row.seconds:.1f} s; plain {row.naive_outcome}, {row.naive_seconds:.1f} s",
            file=sys.stderr,
        )
        kept.rows[label.run] = row
        write(asked.output, kept)
    print(tables(kept))
    return 0


def _measured(label: Label, file: Path, asked: argparse.Namespace) -> Row:
    """Grades a submission both ways, each with caches of its own that are empty at first."""
    with tempfile.TemporaryDirectory(prefix="kbh-real-") as folder:
        place = Path(folder)
        naive = _naive(label, file, place / "naive", asked)
        [(seconds, cell)] = _graded([(label, file)], place / "graded", asked, jobs=1)
    return _row(label, cell, seconds, naive)


def _row(label: Label, cell: Mapping[str, Any], seconds: float, naive: Mapping[str, Any]) -> Row:
    shapes = {one["shape"]: one for one in cell.get("shapes", ())}
    scores = cell.get("scores") or {}
    spent: dict[str, float] = {}
    for trial in cell.get("trials", ()):
        for stage, one in (trial.get("spent") or {}).items():
            spent[stage] = round(spent.get(stage, 0.0) + one, 3)
    return Row(
        label.run, label.problem, label.board, cell["outcome"], " ".join(str(cell["reason"]).split())[:300],
        scores.get("peak_fraction"), {name: one["t_scored"] for name, one in shapes.items()},
        {name: one["peak_fraction"] for name, one in shapes.items()}, round(seconds, 2), spent,
        str(naive["outcome"]), round(float(naive["seconds"]), 2), " ".join(str(naive["message"]).split())[:300],
        {name: one["t_alone"] for name, one in shapes.items() if one.get("t_alone") is not None},
    )  # fmt: skip


def _naive(label: Label, file: Path, caches: Path, asked: argparse.Namespace) -> dict[str, Any]:
    command = [
        sys.executable, str(ROOT / "bench" / "naive.py"), label.problem, str(file), "--device", _device(asked.target),
        "--caches", str(caches), "--json", *([] if asked.samples is None else ["--samples", str(asked.samples)]),
    ]  # fmt: skip
    began = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=_environment(caches))
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"outcome": "late", "seconds": TIMEOUT_S, "message": f"it took more than {TIMEOUT_S:.0f} s"}
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return {"outcome": "failed", "seconds": time.perf_counter() - began, "message": last}
    report["seconds"] = time.perf_counter() - began
    return dict(report)


def _graded(
    files: Sequence[tuple[Label, Path]],
    place: Path,
    asked: argparse.Namespace,
    *,
    jobs: int,
    limit: float = float("inf"),
) -> Iterator[tuple[float, dict[str, Any]]]:
    """(wall-clock seconds of the command, cell) of each submission, in one command with caches of its own."""
    named = []
    for label, file in files:  # a folder's name says which problem it is
        folder = place / "in" / label.problem
        folder.mkdir(parents=True, exist_ok=True)
        named.append(Path(shutil.copyfile(file, folder / file.name)))
    problem = ["--problem", files[0][0].problem] if len({label.problem for label, _ in files}) == 1 else []
    command = [
        sys.executable, "-c", GRADE, *map(str, named), *problem, "--strict", "--format", "json",
        *([] if asked.folder else ["--fresh"]),
        "--out", str(place / "out"), "--target", asked.target, *(["--jobs", str(jobs)] if jobs > 1 else []), "-v",
        *([] if asked.samples is None else ["--samples", str(asked.samples)]),
    ]  # fmt: skip
    began = time.perf_counter()
    most = min(TIMEOUT_S * len(files), limit)
    heard, errors = os.pipe()
    with os.fdopen(heard, encoding="utf-8", errors="replace") as lines:
        done = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=_environment(place / "cache")
        )
        os.close(errors)
        said: list[str] = []
        listener = threading.Thread(target=lambda: said.extend(_dated(lines, began)))
        listener.start()
        try:
            printed, _ = done.communicate(timeout=most)
        except subprocess.TimeoutExpired:
            done.send_signal(signal.SIGINT)
            printed, _ = done.communicate()
        seconds = time.perf_counter() - began
        listener.join()
    if asked.log is not None:
        with asked.log.open("a", encoding="utf-8") as log:
            log.writelines(said)
    try:
        cells = [dict(one["cell"]) for one in json.loads(printed)["cells"]]
    except (ValueError, KeyError, TypeError):
        cells = []
    if len(cells) != len(files) and seconds >= most:
        cells = _ended(files, place / "out", f"it had not ended after {most:.0f} s")
    if len(cells) != len(files):
        last = ([line.strip() for line in said if line.strip()] or ["it said nothing"])[-1]
        if len(files) > 1:
            raise RealError(f"kbh grade gave {len(cells)} cells of {len(files)}: {last}")
        cells = [{"outcome": "none", "reason": last}]
    yield from ((seconds, cell) for cell in cells)


def _dated(lines: Iterable[str], began: float) -> Iterator[str]:
    """Each line with the seconds after which it came."""
    for line in lines:
        yield f"{time.perf_counter() - began:6.1f} s  {line.replace(f'{tempfile.gettempdir()}/', '')}"


def _ended(files: Sequence[tuple[Label, Path]], out: Path, why: str) -> list[dict[str, Any]]:
    """The cells of a command that was cut, by what its bundles hold; `why` stands for those that have none."""
    cells = _cells(out)
    return [cells.get(file.name, {"outcome": "none", "reason": why}) for _, file in files]


def _cells(out: Path) -> dict[str, dict[str, Any]]:
    """The cells that bundles hold, by the name of the submission's file."""
    from grader.record.bundle import Bundle, BundleError

    cells: dict[str, dict[str, Any]] = {}
    for folder in out.iterdir() if out.is_dir() else ():
        with contextlib.suppress(BundleError):
            for entry in Bundle.open(folder).entries():
                if entry.kind == "cell":
                    cells[Path(str(entry.data["file"])).name] = dict(entry.data)
    return cells


def _environment(cache: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(
        [str(ROOT), *([before] if (before := os.environ.get("PYTHONPATH")) else [])]
    ), "XDG_CACHE_HOME": str(cache)}  # fmt: skip


def _device(target: str) -> str:
    return "cpu" if target == "cpu" else "cuda"


def _jobs(asked: argparse.Namespace) -> int:
    kept = _begun(asked)
    wanted = _wanted(asked)
    with contextlib.ExitStack() as stack:
        folder = asked.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbh-real-")))
        had = _cells(folder / "out")
        left = [(label, file) for label, file in wanted if file.name not in had]
        graded = list(_graded(left, folder, asked, jobs=asked.jobs, limit=asked.seconds)) if left else []
        seconds = (graded[0][0] if graded else 0.0) + _before(folder)
        had |= {file.name: cell for (_, file), (_, cell) in zip(left, graded, strict=True)}
        found = [had[file.name] for _, file in wanted]
        (folder / SPENT).write_text(f"{seconds}\n", encoding="utf-8")
    kept.jobs.append({
        "jobs": asked.jobs, "seconds": round(seconds, 1),
        "cells": {label.run: cell["outcome"] for (label, _), cell in zip(wanted, found, strict=True)},
        "times": {
            label.run: {one["shape"]: one["t_scored"] for one in cell.get("shapes", ())}
            for (label, _), cell in zip(wanted, found, strict=True)
        },
        "clocks": {
            label.run: sorted({one["clock"] for one in cell.get("shapes", ())})
            for (label, _), cell in zip(wanted, found, strict=True)
        },
        "reasons": {
            label.run: " ".join(str(cell["reason"]).split())[:300]
            for (label, _), cell in zip(wanted, found, strict=True)
        },
    })  # fmt: skip
    write(asked.output, kept)
    print(tables(kept))
    return 0


def _before(folder: Path) -> float:
    """Seconds that earlier commands worked on a sweep."""
    try:
        return float((folder / SPENT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0.0


def _archive(asked: argparse.Namespace) -> int:
    """Rows of an archive: outcomes and times of calls. What a cell of a sweep takes beside others is no cost of its."""
    from grader.record.bundle import cell_to_json
    from harness.archive.graded import cell_of
    from harness.archive.index import all_facts
    from harness.archive.layout import StoreError
    from harness.archive.store import Archive

    labels = {label.run: label for label in _labels(asked.labels)}
    kept = read(asked.output) if asked.output.is_file() else Kept()
    if asked.published:
        kept.published |= json.loads(asked.published.read_text(encoding="utf-8"))
    before = len(kept.rows)
    try:
        archive = Archive.open(asked.archive)
        for facts in all_facts(archive, keep=False).facts:
            name = facts.model.rpartition("/")[2]  # of the file, with or without the problem
            label = labels.get(name) or labels.get(f"{name}_{facts.problem}")
            cell = cell_of(archive.manifest(facts.id), facts, archive.read) if label is not None else None
            if label is None or cell is None:
                continue
            device = cell.target.product
            if kept.device not in ("", device):
                raise RealError(f"{asked.output} has measurements of {kept.device}, and {facts.name} is of {device}")
            kept.device, kept.versions = device, dict(cell.versions)
            kept.rows[label.run] = _row(label, cell_to_json(cell), 0.0, NOT_RUN)
    except StoreError as error:
        raise RealError(str(error)) from None
    write(asked.output, kept)
    print(f"{len(kept.rows)} submissions in {asked.output}, {len(kept.rows) - before} of them new", file=sys.stderr)
    return 0


# --- what is kept ---


def _begun(asked: argparse.Namespace) -> Kept:
    """What is kept already, with this machine's name. Raises RealError for measurements of another device."""
    kept = read(asked.output) if asked.output.is_file() else Kept()
    device = _name(asked.target)
    if kept.device not in ("", device):
        raise RealError(f"{asked.output} has measurements of {kept.device}, and this machine has {device}")
    kept.device = device
    from grader.grading.request import versions

    kept.versions = versions("cpu" if asked.target == "cpu" else "cuda")
    if asked.published:
        kept.published = json.loads(asked.published.read_text(encoding="utf-8"))
    return kept


def _name(target: str) -> str:
    """What a cell of this machine calls it, so that measurements of both kinds can be kept in one file."""
    from grader.score.targets import running_target
    from kbh_lint.base.paths import problems_dir
    from kbh_lint.problems import load_targets

    return "CPU" if target == "cpu" else running_target(load_targets(problems_dir(None) / "hardware.yaml")).product


def _page(asked: argparse.Namespace) -> int:
    every = [read(file) for file in asked.measured]
    text = tables(every[0]) if len(every) == 1 else "\n\n".join(f"## {one.device}\n\n{tables(one)}" for one in every)
    faults = [fault for one in every for fault in missed(one)] if asked.goals else []
    for line in [line for one in every for line in costs(one)] if asked.goals else []:
        print(line, file=sys.stderr)
    if asked.output is None:
        print(text)
    elif asked.check:
        if not asked.output.is_file() or text not in asked.output.read_text(encoding="utf-8"):
            faults.append(f"{asked.output} is not what {' and '.join(map(str, asked.measured))} gives")
    else:
        fill(asked.output, text)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
