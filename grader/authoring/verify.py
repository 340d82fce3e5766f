"""Shows that the deck holds: on a GPU it runs every solution and stores evidence; without one it reads that back.

`python -m grader.authoring.verify --device cuda --write` checks every honest solution and decoy at full shapes on all
cases with a fresh key, several at a time, and then times the honest ones against the eager reference, one at a time.
`python -m grader.authoring.verify` needs no GPU: hashes must match the files, honest solutions must pass, reach the
goal and lint clean with every promise kept, and decoys must pass and be flagged by the rule that solutions.yaml names.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import torch

from grader.authoring import evidence, mutation
from grader.authoring.device_memory import Budget, footprint
from grader.authoring.evidence import folder_of, geometric_mean
from grader.authoring.readback import read_back
from grader.deck.cases import materialise, plan_cases
from grader.deck.code import DeckError, load_code, problems_dir
from grader.deck.keys import new_master
from grader.grading.check import CheckError, CheckReport, check_submission
from grader.judge.session import Session
from grader.sandbox import choose
from grader.sandbox.snapshot import snapshot
from grader.sandbox.supervise import ChildGone
from grader.score.timing import device_times
from grader.wire.frames import Kind
from kbh_lint.authors.floors import floor
from kbh_lint.authors.solutions import read_solutions
from kbh_lint.base import paths
from kbh_lint.base.paths import hardware_file
from kbh_lint.marked import DataError
from kbh_lint.problems import Problem, Target, find_target, load_deck, load_problem, load_targets

__all__ = ["run_verify"]

TIMEOUT_S = 420.0
TRIALS = 30
WARMUPS = 10
Say = Callable[[str], None]
Found = Callable[[Problem, dict[str, Any]], None]


def run_verify(
    ids: Sequence[str] = (), *, device: str | None = None, write: bool = False, out: Path | None = None,
    mutants: bool = False, jobs: int = 0, timeout: float = TIMEOUT_S, say: Say = print, folder: Path | None = None,
) -> int:  # fmt: skip
    """0 when the deck (or the problems `ids`) holds, 1 when something does not. Raises CheckError for a wrong request.

    `device` None reads the stored evidence. `out` is a folder that evidence is written to instead of the deck's own.
    """
    folder = folder or problems_dir()
    graded = [problem for problem in _named(ids, folder) if problem.status == "graded"]
    if device is None:
        return read_back(graded, folder, say)
    if torch.device(device).type != "cuda" or not torch.cuda.is_available():
        raise CheckError("evidence is made on a CUDA GPU, and there is none here")
    name = torch.cuda.get_device_name(device)
    hardware = hardware_file(folder)
    target = find_target(load_targets(hardware), name)
    if target is None:
        raise CheckError(f"this GPU, {name}, is not in {hardware}")
    _few_threads()
    good: dict[str, bool] = {}

    def found(problem: Problem, data: dict[str, Any]) -> None:
        good[problem.id] = all(e["outcome"] == "passed" for e in (data["reference"], *data["solutions"].values()))
        if write:
            own = evidence.path_of(folder_of(problem), target.id)
            path = evidence.path_of(out / problem.id, target.id) if out else own
            evidence.write(path, {**_kept_mutants(own, data), **data, "device": name})

    run = _Run(graded, target, device, jobs or min(12, os.cpu_count() or 1), timeout, say)
    run.everything(mutants, found)
    return 0 if all(good.values()) else 1


def _named(ids: Sequence[str], folder: Path) -> list[Problem]:
    """The problems of these ids, which may be paths of their folders; all where none is named. Raises CheckError."""
    deck, found = load_deck(folder), []
    for name in ids or deck.ids:
        file = Path(name) / "problem.yaml"
        if os.sep in name and file.is_file():
            found.append(load_problem(file))
        elif name in deck:
            found.append(deck[name])
        else:
            raise CheckError(f"there is no problem `{name}` in {folder}; there are {', '.join(deck.ids) or 'none'}")
    return found


def _kept_mutants(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """What stored evidence says of mutants, where it rests on the same files."""
    before, _ = evidence.read(path)
    same = before.get("files") == data["files"]
    return {"mutants": before["mutants"]} if same and "mutants" in before else {}


def _few_threads() -> None:
    """Many submissions compile side by side, so each gets a few threads only; what the caller has set stays."""
    for name, count in (("OMP_NUM_THREADS", "4"), ("MAX_JOBS", "4"), ("TORCHINDUCTOR_COMPILE_THREADS", "2")):
        os.environ.setdefault(name, count)


class _Run:
    """One run on one GPU."""

    def __init__(
        self, problems: Sequence[Problem], target: Target, device: str, jobs: int, timeout: float, say: Say
    ) -> None:
        self.problems, self.target, self.device = problems, target, device
        self.jobs, self.timeout = jobs, timeout
        self._lock = threading.Lock()
        self._say = say
        self.master = new_master()
        self.launch = 0.0
        self.reports: dict[tuple[str, str], CheckReport | str] = {}
        self.times: dict[tuple[str, str], dict[str, float] | str] = {}
        self.memory = Budget(int(torch.cuda.mem_get_info(device)[0] * 0.85))

    def everything(self, mutants: bool, found: Found) -> None:
        """Calls `found` with a problem's evidence each time that it grows, so a run that is cut short leaves some."""
        with tempfile.TemporaryDirectory(prefix="kbh-verify-") as scratch:
            self._check_all(Path(scratch))
            launches = device_times(lambda: torch.cuda._sleep(0), trials=TRIALS, device=self.device)  # type: ignore[no-untyped-call]
            self.launch = median(launches)
            for problem in self.problems:
                found(problem, self._evidence(problem))
            for problem in self._time_all(Path(scratch)):
                found(problem, self._evidence(problem))
        for problem in sorted(self.problems, key=footprint) if mutants else ():
            try:
                report = mutation.run(problem, device=self.device, scale="full")
            except DeckError as error:
                self.say(f"{problem.id}: {error}")
                continue
            found(problem, {**self._evidence(problem), "mutants": report.to_json()})
            self.say(mutation.table(report))

    def _check_all(self, work: Path) -> None:
        """A report, or why there is none, of each solution and reference; the dearest problems are begun first."""
        jobs = [(problem, "reference.py", "reference") for problem in self.problems]
        for problem in self.problems:
            listed = evidence.listed(read_solutions(folder_of(problem)))
            jobs += [(problem, file, kind) for file, kind, _ in listed]
        jobs.sort(key=lambda job: (-footprint(job[0]), job[2] != "honest"))
        with ThreadPoolExecutor(self.jobs) as pool:
            waiting = {(p.id, file): pool.submit(self._check, p, file, work) for p, file, _ in jobs}
            for key, future in waiting.items():
                self.reports[key] = future.result()
        torch.cuda.empty_cache()

    def _check(self, problem: Problem, file: str, work: Path) -> CheckReport | str:
        with self.memory.taken(footprint(problem)):
            try:
                report: CheckReport | str = check_submission(
                    problem, folder_of(problem) / file, device=self.device, scale="full", master=self.master,
                    timeout=self.timeout, workspace=_workspace(work, problem, file),
                )  # fmt: skip
            except (CheckError, DeckError) as error:
                report = str(error)
        self.say(_told(problem, file, report))
        return report

    def _time_all(self, work: Path) -> Iterator[Problem]:
        """Times each reference and each honest solution that passed; gives each problem when it is done.

        The processes are started together, because importing keeps the GPU free; then they are timed one by one.
        """
        with ExitStack() as stack, ThreadPoolExecutor(min(self.jobs, 4)) as pool:
            waiting = []
            for problem in self.problems:
                honest = [entry.file for entry in read_solutions(folder_of(problem)).honest]
                files = ["reference.py", *(file for file in honest if _passed(self.reports[problem.id, file]))]
                sessions = [(file, *self._started(stack, pool, problem, file, work)) for file in files]
                waiting.append((problem, sessions))
            for problem, sessions in waiting:
                for file, session, ready in sessions:
                    times = self.times[problem.id, file] = self._time(problem, session, ready)
                    session.close()
                    torch.cuda.empty_cache()
                    self.say(f"{problem.id} {file}: {_times_told(times)}")
                yield problem

    def _started(
        self, stack: ExitStack, pool: ThreadPoolExecutor, problem: Problem, file: str, work: Path
    ) -> tuple[Session, Future[str]]:
        workspace = _workspace(work, problem, file)
        session = Session(
            snapshot(folder_of(problem) / file, workspace / "submission"), device=self.device,
            sandbox=choose(device=self.device, wanted="plain"), scratch=workspace, timeout=self.timeout,
            call_timeout=self.timeout, build_timeout=self.timeout, timing=True,
        )  # fmt: skip
        stack.enter_context(session)

        def start() -> str:
            for answer in (session.start(), session.submission()):
                if answer.kind != Kind.READY:
                    return answer.text.partition("\n")[0]
            return ""

        return session, pool.submit(start)

    def _time(self, problem: Problem, session: Session, ready: Future[str]) -> dict[str, float] | str:
        code = load_code(problem)
        seconds = {}
        try:
            if ready.result():
                return ready.result()
            for shape in problem.shapes:
                spec = plan_cases(problem, shape, self.master, nominal=1, structures=0, code=code)[0]
                case = materialise(problem, shape, spec, self.master, device=self.device, code=code)
                answers = [session.load(case.binding, [case.state], rounds=1)]
                for _ in range(WARMUPS + TRIALS):
                    answers.append(session.call(0, case.inputs, f"be timed at {shape.label}").answer)
                bad = [answer for answer in answers if answer.kind not in (Kind.READY, Kind.DONE)]
                if bad:
                    return bad[0].text.partition("\n")[0]
                seconds[shape.label] = median(answer.numbers[0] for answer in answers[1 + WARMUPS :])
        except (ChildGone, CheckError, DeckError, RuntimeError) as error:
            return " ".join(str(error).split())[:500]
        return seconds

    def _evidence(self, problem: Problem) -> dict[str, Any]:
        """What is known of a problem by now."""
        reports, times = self.reports, self.times
        timed = times.get((problem.id, "reference.py"))
        eager = timed if isinstance(timed, dict) else {}
        reference = _entry("reference", reports[problem.id, "reference.py"], folder_of(problem) / "reference.py")
        reference["seconds"] = eager
        solutions = {}
        for file, kind, _ in evidence.listed(read_solutions(folder_of(problem))):
            entry = _entry(kind, reports[problem.id, file], folder_of(problem) / file)
            measured = times.get((problem.id, file))
            if isinstance(measured, dict):
                _add_times(entry, problem, self.target, measured, eager)
            elif measured is not None:
                entry.update(outcome="failed", message=f"it could not be timed: {measured}")
            solutions[file] = entry
        return {
            "format": evidence.FORMAT, "problem": problem.id, "target": self.target.id, "versions": _versions(),
            "key": self.master.hex(), "files": evidence.file_hashes(problem), "launch_s": self.launch,
            "reference": reference, "solutions": solutions,
        }  # fmt: skip

    def say(self, text: str) -> None:
        """A line at once, from any thread."""
        with self._lock:
            self._say(text)


def _workspace(work: Path, problem: Problem, file: str) -> Path:
    return work / problem.id / file.replace("/", "-")


def _passed(report: CheckReport | str) -> bool:
    return isinstance(report, CheckReport) and report.outcome == "passed"


def _told(problem: Problem, file: str, report: CheckReport | str) -> str:
    if isinstance(report, str):
        return f"{problem.id} {file}: {report}"
    worst = max((_share(c.error, c.tolerance) for c in report.cases), default=0.0)
    told = f"{problem.id} {file}: {report.outcome}, worst error {worst:.2f} of its bound, {report.seconds:.0f} s"
    return told if report.outcome == "passed" else f"{told}: {report.message}\n{report.detail}".rstrip()


def _times_told(times: dict[str, float] | str) -> str:
    if isinstance(times, str):
        return f"not timed: {times}"
    return ", ".join(f"{shape} {seconds * 1e6:.1f} us" for shape, seconds in times.items())


def _entry(kind: str, report: CheckReport | str, file: Path) -> dict[str, Any]:
    """A solution's part of the evidence, without times."""
    if isinstance(report, str):
        sha256 = evidence.submission_hash(file)
        return {"kind": kind, "sha256": sha256, "outcome": "failed", "message": report, "cases": 0, "shapes": {}}
    shapes: dict[str, dict[str, Any]] = {}
    for case in report.cases:
        entry = shapes.setdefault(case.shape, {"cases": 0, "worst": -1.0, "worst_case": ""})
        share = _share(case.error, case.tolerance)
        entry["cases"] += 1
        if share > entry["worst"]:
            entry.update(worst=share, worst_case=case.case)
    return {
        "kind": kind, "sha256": report.sha256, "outcome": report.outcome, "message": report.message,
        "cases": len(report.cases), "shapes": shapes,
    }  # fmt: skip


def _share(error: float | None, tolerance: float | None) -> float:
    """The error as a share of the bound; infinite where nothing could be measured."""
    if error is None or tolerance is None:
        return float("inf")
    return error / tolerance if tolerance else (0.0 if error == 0 else float("inf"))


def _add_times(
    entry: dict[str, Any], problem: Problem, target: Target, measured: Mapping[str, float], eager: Mapping[str, float]
) -> None:
    for shape in problem.shapes:
        least = floor(problem, shape, target)
        part = entry["shapes"].setdefault(shape.label, {})
        part["seconds"] = measured[shape.label]
        part["roofline_fraction"] = 0.0 if least is None else least.t_floor / measured[shape.label]
        if shape.label in eager:
            part["speedup"] = eager[shape.label] / measured[shape.label]
    for name in ("roofline_fraction", "speedup"):
        entry[name] = geometric_mean(part.get(name, 0.0) for part in entry["shapes"].values())


def _versions() -> dict[str, str]:
    import triton

    return {
        "cuda": str(torch.version.cuda),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `kbh problems verify`."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="problems; all of the deck when none is named")
    parser.add_argument("--device", help="cuda: run everything there; without it the stored evidence is read back")
    parser.add_argument("--write", action="store_true", help="store what was found as evidence")
    parser.add_argument("--out", type=Path, help="a folder to store it in, instead of the deck")
    parser.add_argument("--mutants", action="store_true", help="also run the mutants at full shapes")
    parser.add_argument("--jobs", type=int, default=0, help="submissions checked at once (default: by the machine)")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds a submission may take in all")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; 2 for a request that makes no sense."""
    try:
        return run_verify(
            arguments.ids, device=arguments.device, write=arguments.write, out=arguments.out,
            mutants=arguments.mutants, jobs=arguments.jobs, timeout=arguments.timeout,
            say=lambda text: print(text, flush=True), folder=paths.problems_dir(arguments.problems_dir),
        )  # fmt: skip
    except (CheckError, DeckError, DataError) as error:
        print(f"kbh: error: {error}", file=sys.stderr)
        return 2


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m grader.authoring.verify`."""
    parser = argparse.ArgumentParser(
        prog="python -m grader.authoring.verify", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--problems-dir", metavar="DIR", help="use these problems instead of the project's")
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
