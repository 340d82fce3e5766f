"""What a straightforward grader costs: `python bench/naive.py PROBLEM FILE`. The base that `kbh grade` is held against.

One process imports the submission, checks it on the cases that `kbh grade` checks, and times it at every shape: 10
warm-ups, then calls with a flushed cache, the median counts. What it compiles is kept in a folder, so a second run
compiles nothing.

It trusts the submission. That runs beside the oracle, the key and the clock and can change each of them, and it sees
which calls are timed. So what this prints is a cost, not a result. Run it only on files that you would run anyway.

Exit codes: 0 right, 1 wrong or raised, 2 the work could not be done.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

BEGAN = time.perf_counter()  # before torch is imported, which is a stage too
WARMUPS = {"cuda": 10, "cpu": 2}
SAMPLES = {"cuda": 30, "cpu": 10}
CPU_FLUSH_BYTES = 64 << 20  # more than the last cache level of a desktop CPU
CACHES = {
    "TRITON_CACHE_DIR": "triton", "TORCH_EXTENSIONS_DIR": "extensions", "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "CUDA_CACHE_PATH": "cuda",
}  # fmt: skip

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from grader.deck.cases import Case, CaseSpec
    from grader.deck.code import Code
    from kbh_lint.problems import Problem, Shape


class NaiveError(Exception):
    """The work could not be done; the text is one sentence."""


class Wrong(Exception):
    """The submission raised or is wrong; the text is one sentence."""


@dataclass
class Costs:
    """Seconds by stage, in the order in which the stages first ran."""

    device: str
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts what runs inside, with the device's work, to a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            if self.device.startswith("cuda"):
                import torch

                torch.cuda.synchronize()
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Work:
    """What is graded, and how: `warmups` and `samples` are calls a shape."""

    problem: Problem
    code: Code
    master: bytes
    device: torch.device
    warmups: int
    samples: int
    costs: Costs


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    asked = _parser().parse_args(argv)
    try:
        report = grade(asked)
    except NaiveError as error:
        print(f"naive: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=2) if asked.json else _table(report))
    return 0 if report["outcome"] == "right" else 1


def grade(asked: argparse.Namespace) -> dict[str, Any]:
    """The whole run as plain data: outcome, seconds by stage, and the median time of every shape in seconds."""
    file: Path = asked.file
    if not file.is_file():
        raise NaiveError(f"{file} is not a file")
    try:
        text = file.read_bytes()
    except OSError as error:
        raise NaiveError(f"{file} cannot be read: {error.strerror}") from None
    _keep_caches(asked.caches, hashlib.sha256(text).hexdigest())
    costs = Costs(asked.device)
    with costs.stage("start torch"):
        import torch

        from grader.deck.code import DeckError, load_code
        from grader.deck.keys import new_master

        _show_cutlass()
    problem = _problem(asked.problem)
    device = torch.device(asked.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise NaiveError("there is no GPU that torch can use; say --device cpu")
    scale = asked.scale or ("full" if device.type == "cuda" else "reduced")
    shapes = problem.shapes if scale == "full" else problem.reduced
    if not shapes:
        raise NaiveError(f"{problem.id} has no {scale} shapes")
    warmups = WARMUPS[device.type] if asked.warmups is None else asked.warmups
    samples = SAMPLES[device.type] if asked.samples is None else asked.samples
    with costs.stage("import"):
        try:
            code = load_code(problem)
        except DeckError as error:
            raise NaiveError(str(error)) from None
    work = Work(problem, code, new_master(), device, warmups, samples, costs)
    outcome, message, times, cases = "right", "", {}, 0
    try:
        with costs.stage("import"):
            if device.type == "cuda":
                _load_driver()
            make = _import(file, interpret=device.type == "cpu" and b"triton" in text)
        for shape in shapes:
            cases += _check(work, make, shape)
            times[shape.label] = _time(work, make, shape)
    except Wrong as wrong:
        outcome, message = "wrong", str(wrong)
    return {
        "problem": problem.id, "file": f"{file.parent.name}/{file.name}", "device": str(device), "scale": scale,
        "warmups": warmups, "samples": samples, "outcome": outcome, "message": message, "cases": cases,
        "shapes": times, "stages": costs.seconds, "seconds": time.perf_counter() - BEGAN,
    }  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    ask = argparse.ArgumentParser(
        prog="naive", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("problem", metavar="PROBLEM", help="a problem's id: 05_topk_bitonic")
    ask.add_argument("file", metavar="FILE", type=Path, help="a Python file that defines Model")
    ask.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where it runs (default: cpu)")
    ask.add_argument(
        "--scale", choices=("full", "reduced"), help="which shapes (default: full on a GPU, reduced on a CPU)"
    )
    ask.add_argument("--samples", metavar="N", type=_count, help="timed calls a shape (default: 30, on a CPU 10)")
    ask.add_argument("--warmups", metavar="N", type=_count, help="calls before them (default: 10, on a CPU 2)")
    ask.add_argument("--caches", metavar="DIR", type=Path, default=_caches(), help="where compiled code is kept")
    ask.add_argument("--json", action="store_true", help="print JSON")
    return ask


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text} is not a count from 1 to 10000")
    return int(text)


def _caches() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kbh" / "naive"


def _keep_caches(folder: Path, sha256: str) -> None:
    """Points the compilers at folders of this submission's own. Must run before torch is imported."""
    for name, part in CACHES.items():
        place = folder.resolve() / sha256[:16] / part
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NaiveError(f"{folder} cannot hold the compilers' caches: {error.strerror}") from None
        os.environ[name] = str(place)


def _show_cutlass() -> None:
    """Puts CUTLASS on the include path as `kbh grade` does: who falls back to something else is no base for a ratio."""
    from grader.sandbox.cutlass import CutlassError, find

    try:
        headers = find()
    except CutlassError as error:
        raise NaiveError(str(error)) from None
    if headers is not None:
        os.environ |= headers.variables(os.environ)


def _problem(name: str) -> Problem:
    from kbh_lint.base import paths
    from kbh_lint.problems import ProblemError, load_deck

    deck = load_deck(paths.problems_dir())
    if name not in deck:
        raise NaiveError(f"there is no problem `{name}`; `kbh problems list` names them")
    try:
        problem = deck[name]
    except ProblemError as error:
        raise NaiveError(str(error)) from None
    if not problem.contracts:
        raise NaiveError(f"{name} is {problem.status}: it has no contract to check")
    return problem


@contextmanager
def _theirs(doing: str) -> Iterator[None]:
    """Turns what the submission raises into Wrong."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ == "GpuError":  # the clock's own, which runs among the submission's calls
            raise NaiveError(str(error)) from None
        raise Wrong(f"it raised {type(error).__name__} {doing}: {' '.join(str(error).split())[:300]}") from error


def _load_driver() -> None:
    """Loads what the clock needs, before the submission's folder is on the path: a cuda.py there would hide it."""
    from grader.wire.driver import GpuError, bound

    try:
        bound("cuInit")
    except GpuError as error:
        raise NaiveError(str(error)) from None


def _import(file: Path, *, interpret: bool) -> type[nn.Module]:
    """The submission's class Model. `interpret` runs Triton kernels in the project's interpreter."""
    if interpret:
        from grader.candidate.interpreter import install

        install()
    sys.path.append(str(file.resolve().parent))
    spec = importlib.util.spec_from_file_location("solution", file)
    if spec is None or spec.loader is None:
        raise NaiveError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["solution"] = module
    with _theirs("when it was imported"):
        spec.loader.exec_module(module)
        made: type[nn.Module] = module.Model
    return made


def _check(work: Work, make: type[nn.Module], shape: Shape) -> int:
    """Every case of a shape, one model a state; how many there were. Raises Wrong at the first that is not right."""
    from grader.deck.cases import materialise, plan_cases, state_group
    from grader.deck.correctness import compare, contract_faults
    from grader.wire.outputs import outputs_of

    specs = plan_cases(work.problem, shape, work.master, code=work.code)
    model, group = None, None
    for spec in sorted(specs, key=state_group):
        with work.costs.stage("draw"):
            case = materialise(work.problem, shape, spec, work.master, device=work.device, code=work.code)
        if model is None or group != state_group(spec):
            model, group = _load(work, make, case), state_group(spec)
        outputs = _call(work, model, case)
        faults = contract_faults(outputs, case)
        if faults:
            raise Wrong(f"{spec.id} at {shape.label}: {'; '.join(faults)}")
        with work.costs.stage("oracle and compare"):
            oracle = work.code.oracle(case.binding.init, case.inputs, case.state)
            result = compare(outputs_of(outputs, len(oracle)), oracle, case)
        if not result.ok:
            raise Wrong(result.message)
    return len(specs)


def _load(work: Work, make: type[nn.Module], case: Case) -> nn.Module:
    with work.costs.stage("load"), _theirs(f"when its model was made at {case.shape.label}"):
        model = make(*case.binding.init.values()).to(work.device)
        model.load_state_dict(case.state, strict=True)
        return model.eval()


def _call(work: Work, model: nn.Module, case: Case) -> Any:
    import torch

    with work.costs.stage("calls"), torch.no_grad(), _theirs(f"in {case.spec.id} at {case.shape.label}"):
        outputs = model(*case.inputs.values())
        if work.device.type == "cuda":
            torch.cuda.synchronize()
        return outputs


def _time(work: Work, make: type[nn.Module], shape: Shape) -> float:
    """The median of the timed calls on one draw of the inputs, in seconds."""
    import torch

    from grader.deck.cases import materialise, plan_cases
    from grader.score.timing import device_times

    spec: CaseSpec = plan_cases(work.problem, shape, work.master, code=work.code)[0]
    with work.costs.stage("draw"):
        case = materialise(work.problem, shape, spec, work.master, device=work.device, code=work.code)
    model, inputs = _load(work, make, case), tuple(case.inputs.values())
    with work.costs.stage("timing"), torch.no_grad(), _theirs(f"when it was timed at {shape.label}"):
        if work.device.type == "cuda":
            for _ in range(work.warmups):
                model(*inputs)
            return statistics.median(
                device_times(lambda: model(*inputs), trials=work.samples, device=work.device, warmups=1)
            )
        return _cpu_time(lambda: model(*inputs), work.warmups, work.samples)


def _cpu_time(call: Callable[[], Tensor], warmups: int, samples: int) -> float:
    import torch

    flush = torch.empty(CPU_FLUSH_BYTES // 4)
    for _ in range(warmups):
        call()
    seconds = []
    for _ in range(samples):
        flush.zero_()
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _table(report: dict[str, Any]) -> str:
    lines = [
        f"{report['problem']}  {report['file']}  {report['device']}, {report['scale']} shapes: {report['outcome']}"
    ]
    if report["message"]:
        lines.append(report["message"])
    lines += [f"{name:<20}{seconds:>9.2f} s" for name, seconds in report["stages"].items()]
    lines.append(f"{'in all':<20}{report['seconds']:>9.2f} s")
    lines.append(f"{report['cases']} cases; median of {report['samples']} calls a shape, in microseconds:")
    lines += [f"  {label:<28}{seconds * 1e6:>12.2f}" for label, seconds in report["shapes"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    sys.exit(main())
