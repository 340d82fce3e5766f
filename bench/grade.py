"""What grading costs beside a grader that trusts the submission: `python bench/grade.py [PROBLEM FILE ...]`.

Runs `kbh grade --no-evidence` and `bench/naive.py` on the same submission in turns, with as many warm-ups and timed
calls, and compares the wall-clock time of the whole commands. On a GPU both run once before, so that both find their
compiled code. Grading may cost 1.0 times the naive run and 15 s more; both run in the order naive, grade, grade, naive,
so that a machine that slows down slows both.

Without arguments: the honest Triton solutions of 05_topk_bitonic and 01_fp8_gemm. With `--repeat N` it grades N times
instead, by default the honest Triton solution of every problem, all of them in one command each time, and prints how
far the scored times vary and, with `--evidence` on a GPU, how they agree with a tracer's; with `--jobs` several are
graded at a time, which must move no time. `--from BUNDLE...` prints both tables from bundles that there are. `--check`
makes a missed goal exit 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = ("05_topk_bitonic", "01_fp8_gemm")
MOST_FACTOR = 1.0
MOST_EXTRA_S = 15.0
TIMEOUT_S = 1800.0
GRADE = "import sys; from kbh_lint.cli import kbh_main; sys.exit(kbh_main(['grade', *sys.argv[1:]]))"
GRADED = ("accepted", "flagged")


class BenchError(Exception):
    """A run that is compared did not grade; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Wall-clock seconds of one pair of runs."""

    naive: float
    grade: float

    @property
    def extra(self) -> float:
        """Seconds of grading beyond the naive run's."""
        return self.grade - MOST_FACTOR * self.naive


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: the submission, where, and how many calls a shape."""

    problem: str
    file: Path
    device: str
    warmups: int
    samples: int
    folder: Path
    asked: int | None = None  # samples of `kbh grade`, where it is not to take as many as it does by itself

    def naive(self) -> float:
        """Seconds of the naive grader. Raises BenchError."""
        command = [
            sys.executable, str(ROOT / "bench" / "naive.py"), self.problem, str(self.file), "--device", self.device,
            "--warmups", str(self.warmups), "--samples", str(self.samples), "--caches", str(self.folder / "naive"),
            "--json",
        ]  # fmt: skip
        seconds, done = _run(command)
        if done.returncode:
            raise BenchError(f"naive.py did not grade {self.problem}: {_message(done)}")
        return seconds

    def grade(self, *, evidence: bool = False) -> float:
        """Seconds of `kbh grade`, with evidence or without. Raises BenchError when it ends without a score."""
        out = self.folder / "results"
        return graded([(self.problem, self.file)], self.device, out, samples=self.asked, evidence=evidence)[0]


def graded(
    files: Sequence[tuple[str, Path]],
    device: str,
    out: Path,
    *,
    samples: int | None = None,
    evidence: bool = False,
    jobs: int = 1,
) -> tuple[float, list[Path]]:
    """Wall-clock seconds of one `kbh grade` of all files, and their bundles. Raises BenchError when one has no score.

    Files of several problems must lie where their problem is known, as those in problems/ID/ do.
    """
    named = ["--problem", files[0][0]] if len({name for name, _ in files}) == 1 else []
    command = [
        sys.executable, "-c", GRADE, *(str(file) for _, file in files), *named, "--fresh", "--out", str(out),
        "--format", "json", "--target", "cpu" if device == "cpu" else "auto",
        *([] if evidence else ["--no-evidence"]), *([] if samples is None else ["--samples", str(samples)]),
        *([] if jobs == 1 else ["--jobs", str(jobs)]),
    ]  # fmt: skip
    seconds, done = _run(command)
    names = ", ".join(name for name, _ in files)
    try:
        found = _outcomes(done.stdout)
    except ValueError:
        raise BenchError(f"kbh grade did not grade {names}: {_last(done)}") from None
    if [name for _, name, _ in found] != [name for name, _ in files]:
        raise BenchError(f"kbh grade did not grade all of {names}: {_last(done)}")
    for outcome, name, _ in found:
        if outcome not in GRADED:
            raise BenchError(f"kbh grade says that {name} is {outcome}: its cost is not that of a grading")
    return seconds, [folder for _, _, folder in found]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    asked = _parser().parse_args(argv)
    words: list[str] = asked.submissions
    if len(words) % 2:
        print("bench/grade.py: name a problem and a file, in turns", file=sys.stderr)
        return 2
    files = [(name, ROOT / "problems" / name / "honest" / "triton.py") for name in DEFAULT]
    if words:
        files = [(name, Path(file)) for name, file in zip(words[::2], words[1::2], strict=True)]
    sys.path[:0] = [str(ROOT), str(ROOT / "bench")]
    try:
        if asked.bundles:
            return _known(asked)
        if asked.repeat:
            honest = sorted((ROOT / "problems").glob("*/honest/triton.py"))
            return _repeat(asked, files if words else [(file.parents[1].name, file) for file in honest])
        return _costs(asked, files)
    except BenchError as error:
        print(f"bench/grade.py: {error}", file=sys.stderr)
        return 2


def _costs(asked: argparse.Namespace, files: Sequence[tuple[str, Path]]) -> int:
    from grader.judge.plan import default_options

    options = default_options(asked.device)
    samples = asked.samples or options.samples + options.later
    met = True
    with tempfile.TemporaryDirectory(prefix="kbh-bench-") as folder:
        for name, file in files:
            plan = Plan(name, file, asked.device, options.warmups, samples, Path(folder) / name, asked.samples)
            costs = _pairs(plan, asked.pairs)
            met = _report(plan, costs) and met
            if asked.evidence:
                more = plan.grade(evidence=True) - statistics.median(cost.grade for cost in costs)
                print(f"  evidence beside that: {more:+.2f} s", flush=True)
    return 1 if asked.check and not met else 0


def _repeat(asked: argparse.Namespace, files: Sequence[tuple[str, Path]]) -> int:
    import repeat

    with tempfile.TemporaryDirectory(prefix="kbh-bench-") as folder:
        out = asked.out or Path(folder)

        def grade(submissions: Sequence[tuple[str, Path]], evidence: bool) -> list[Path]:
            options = {"samples": asked.samples, "evidence": evidence, "jobs": asked.jobs}
            seconds, bundles = graded(submissions, asked.device, out, **options)
            print(f"  {len(bundles)} graded in {seconds:.0f} s, {asked.jobs} at a time", flush=True)
            return bundles

        met = repeat.repeatability(files, asked.repeat, grade)
        if asked.evidence and asked.device != "cpu":
            met = repeat.agreement(files, grade) and met
    return 1 if asked.check and not met else 0


def _known(asked: argparse.Namespace) -> int:
    import repeat

    from grader.record.bundle import BundleError
    from grader.report.view import Unfinished

    try:
        met = repeat.known(asked.bundles)
    except (BundleError, Unfinished) as error:
        raise BenchError(str(error)) from None
    return 1 if asked.check and not met else 0


def _parser() -> argparse.ArgumentParser:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("submissions", nargs="*", metavar="PROBLEM FILE", help="what is graded")
    ask.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    ask.add_argument("--pairs", metavar="N", type=int, choices=range(1, 21), default=1, help="pairs of runs, up to 20")
    ask.add_argument("--evidence", action="store_true", help="say also what evidence costs, or shows")
    ask.add_argument("--repeat", metavar="N", type=int, choices=range(2, 51), help="grade so often; up to 50 times")
    ask.add_argument(
        "--from", dest="bundles", metavar="BUNDLE", type=Path, nargs="+", help="grade nothing: what these bundles tell"
    )
    ask.add_argument(
        "--jobs", metavar="N", type=int, choices=range(1, 65), default=1, help="with --repeat: so many at a time"
    )
    ask.add_argument("--out", metavar="DIR", type=Path, help="with --repeat: keep the bundles there")
    ask.add_argument("--samples", metavar="N", type=int, help="timed calls a shape (default: as kbh grade)")
    ask.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    return ask


def _pairs(plan: Plan, count: int) -> list[Cost]:
    """The costs of `count` pairs of runs."""
    if plan.device != "cpu":
        plan.naive()
        plan.grade()
    costs = []
    for index in range(count):
        if index % 2 == 0:
            naive = plan.naive()
            costs.append(Cost(naive, plan.grade()))
        else:
            grade = plan.grade()
            costs.append(Cost(plan.naive(), grade))
    return costs


def _report(plan: Plan, costs: Sequence[Cost]) -> bool:
    """Prints one submission's costs; whether the goal is met by the median pair."""
    print(f"{plan.problem}  {plan.file.parent.name}/{plan.file.name} on {plan.device}, {plan.samples} samples a shape")
    for cost in costs:
        ratio = cost.grade / cost.naive
        print(f"  naive {cost.naive:8.2f} s   kbh grade {cost.grade:8.2f} s   {ratio:5.2f} times, {cost.extra:+7.2f} s")
    extra = statistics.median(cost.extra for cost in costs)
    met = extra <= MOST_EXTRA_S
    goal = f"at most {MOST_FACTOR:g} times naive and {MOST_EXTRA_S:g} s"
    print(f"  over {MOST_FACTOR:g} times naive: {extra:+.2f} s ({goal}: {'ok' if met else 'MISSED'})", flush=True)
    return met


def _run(command: list[str]) -> tuple[float, subprocess.CompletedProcess[str]]:
    began = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{command[1]} took more than {TIMEOUT_S:g} s") from None
    return time.perf_counter() - began, done


def _outcomes(text: str) -> list[tuple[str, str, Path]]:
    """(outcome, problem, bundle) of each cell in the JSON of `kbh grade`. Raises ValueError when it is none."""
    data = json.loads(text)
    try:
        return [(str(c["cell"]["outcome"]), str(c["cell"]["problem"]), Path(c["bundle"])) for c in data["cells"]]
    except (KeyError, TypeError):
        raise ValueError("no outcome") from None


def _message(done: subprocess.CompletedProcess[str]) -> str:
    """What naive.py said of a submission that it did not find right."""
    try:
        return str(json.loads(done.stdout)["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return _last(done)


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1][:300] if lines else f"it ended with {done.returncode} and said nothing"


if __name__ == "__main__":
    sys.exit(main())
