"""Correctness of one submission: every case of the problem, each with inputs of its own, run in a process of its own.

The plan of the cases is drawn before the submission is started. The judge holds keys, oracle and bounds. It writes
inputs into shared memory, has the candidate called, takes a copy of what lies in the outputs' place, and only then
works out what should be there.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from grader.cases import Case, CaseSpec, materialise, plan_cases, state_group
from grader.channel import Frame, Kind, Memory, Slot, clean_text, layout, size_of, slots_to_json
from grader.correctness import compare, output_name
from grader.deck import TORCH_DTYPES, Code, DeckError, load_code
from grader.keys import derive
from grader.supervise import CheckError, Child, ChildGone, Snapshot, remove, snapshot
from kbh_lint.problems import Binding, Problem, Shape

__all__ = ["CaseResult", "CheckError", "CheckReport", "Session", "check_submission", "graded_shapes"]

Outcome = Literal["passed", "failed", "not-checkable"]
Progress = Callable[[int, int, str], None]  # (cases done, cases planned, what comes next)
MESSAGE_CHARACTERS = 1000
DETAIL_CHARACTERS = 3000
NATIVE = ("cupy", "cutlass", "numba", "pycuda", "tilelang", "torch.utils.cpp_extension")
_DRAWING = threading.Lock()  # hypothesis and imports of the deck's code are not for several threads at once


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case of one shape. `error` is the smallest tolerance that would have passed; null where none was measured."""

    shape: str
    case: str
    ok: bool
    error: float | None
    tolerance: float | None
    wrong: int
    total: int
    message: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The outcome for a submission. `message` is one sentence; `detail` what the submission said of its own failure.

    `commitment` is the SHA-256 of the key that every value was drawn from. `planned` counts cases; fewer results than
    that mean that the check was ended early.
    """

    problem: str
    solution: str
    sha256: str
    device: str
    scale: str
    outcome: Outcome
    message: str
    detail: str
    cases: tuple[CaseResult, ...]
    planned: int
    commitment: str
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """JSON-able; an infinite error is the string "inf"."""
        data = asdict(self)
        for case in data["cases"]:
            for name in ("error", "tolerance"):
                if case[name] is not None and not math.isfinite(case[name]):
                    case[name] = "inf"
        return data


def graded_shapes(problem: Problem, scale: str) -> tuple[Shape, ...]:
    """The shapes of a scale: `full` ones are scored, `reduced` ones are what a CPU can run. Raises CheckError."""
    shapes = problem.shapes if scale == "full" else problem.reduced
    if not shapes:
        raise CheckError(f"{problem.id} has no {scale} shapes")
    return shapes


def check_submission(
    problem: Problem,
    solution: Path,
    *,
    device: str = "cpu",
    scale: Literal["full", "reduced"] = "reduced",
    master: bytes,
    timeout: float = 600.0,
    progress: Progress | None = None,
    workspace: Path | None = None,
) -> CheckReport:
    """Runs every case of every shape. `timeout` bounds the seconds that the submission takes, all in all.

    `workspace` is a folder that keeps the compiler caches for a later process of the same submission; without it they
    are deleted. Raises CheckError when the check cannot be made, and DeckError for a fault of the problem's own code.
    """
    began = time.monotonic()
    with _DRAWING:
        code = load_code(problem)
        plans = [(s, plan_cases(problem, s, master, code=code)) for s in graded_shapes(problem, scale)]
    check = _Check(problem, code, master, device, sum(len(specs) for _, specs in plans), progress)
    shown = f"{solution.parent.name}/{solution.name}"
    with Session(problem, solution, device=device, timeout=timeout, workspace=workspace) as session:
        reason = _cannot_run(session.snapshot.text, device)
        if reason:
            check.refused = reason
        else:
            check.run(session, plans)
        sha256 = session.snapshot.sha256
    outcome, message = check.outcome()
    commitment = hashlib.sha256(master).hexdigest()
    seconds = round(time.monotonic() - began, 3)
    return CheckReport(
        problem.id, shown, sha256, device, scale, outcome, message, check.detail, tuple(check.results), check.planned,
        commitment, seconds,
    )  # fmt: skip


class Session:
    """A submission in its process, with the memory that judge and candidate share; a context manager."""

    def __init__(
        self, problem: Problem, solution: Path, *, device: str, timeout: float, workspace: Path | None = None
    ) -> None:
        self.problem = problem
        self.device = torch.device(device)
        self.timeout = timeout
        self.binding: Binding | None = None
        self._own = workspace is None
        self.scratch = Path(tempfile.mkdtemp(prefix="kbh-check-")) if workspace is None else workspace
        self.scratch.mkdir(parents=True, exist_ok=True)
        self._child: Child | None = None
        self._memory: dict[str, Memory] = {}
        self._slots: dict[str, tuple[Slot, ...]] = {}
        try:
            self.snapshot: Snapshot = snapshot(solution, self.scratch / "submission")
        except CheckError:
            self.close()
            raise

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, bindings: Sequence[Binding]) -> Frame:
        """Starts the process with memory for the largest of the shapes, and has it import the submission."""
        if not hasattr(os, "memfd_create"):
            raise CheckError("submissions can be checked on Linux only: the processes share sealed memory files")
        parts = {"state": _state_of, "inputs": _inputs_of, "outputs": _outputs_of}
        for name, part in parts.items():
            size = max(size_of(layout(part(binding), TORCH_DTYPES)) for binding in bindings)
            self._memory[name] = Memory(f"kbh-{name}", size)
        described = [str(number) for m in self._memory.values() for number in (m.fd, m.size)]
        arguments = [str(self.snapshot.file), "--device", str(self.device), "--memory", *described]
        if self.device.type == "cpu" and "triton" in self.snapshot.text:
            arguments.append("--interpret")
        fds = [memory.fd for memory in self._memory.values()]
        folder = self.snapshot.file.parent
        self._child = Child(arguments, fds=fds, scratch=self.scratch, cwd=folder, budget=self.timeout)
        return self._child.wait("import the submission")

    def load(self, case: Case) -> Frame:
        """Has the submission make a fresh model at the case's shape, with the case's state."""
        self.binding = case.binding
        self._slots = {
            "state": layout(_state_of(case.binding), TORCH_DTYPES),
            "inputs": layout(_inputs_of(case.binding), TORCH_DTYPES),
            "outputs": layout(_outputs_of(case.binding), TORCH_DTYPES),
        }
        self._write("state", case.state)
        plan: dict[str, Any] = {name: slots_to_json(slots) for name, slots in self._slots.items()}
        plan["init"] = list(case.binding.init.values())
        return self._ask(Kind.LOAD, f"make its model at {case.shape.label}", text=json.dumps(plan))

    def call(self, case: Case) -> Frame:
        """Has the model called on the case's inputs, once."""
        self._write("inputs", case.inputs)
        self._memory["outputs"].poison(size_of(self._slots["outputs"]))
        return self._ask(Kind.CALL, f"run {case.spec.id} at {case.shape.label}")

    def outputs(self) -> tuple[Tensor, ...]:
        """The judge's own copy of what lies in the outputs' place, on the judge's device."""
        memory = self._memory["outputs"]
        return tuple(memory.tensor(slot).clone().to(self.device) for slot in self._slots["outputs"])

    def time(self, trials: int) -> tuple[float, ...]:
        """Seconds of `trials` calls on the inputs written last. Raises ChildGone, and CheckError where it fails."""
        assert self.binding is not None
        answer = self._ask(Kind.TIME, f"be timed at {self.binding.shape.label}", numbers=(float(trials),))
        if answer.kind != Kind.TIMES or len(answer.numbers) != trials:
            raise CheckError(f"the submission could not be timed: {clean_text(answer.text, MESSAGE_CHARACTERS)}")
        return answer.numbers

    def close(self) -> None:
        """Ends the process and deletes the scratch folder, unless it was the caller's."""
        self._stop()
        if self._own:
            remove(self.scratch)

    def _stop(self) -> None:
        if self._child is not None:
            self._child.close()
        for memory in self._memory.values():
            memory.close()
        self._child, self._memory = None, {}

    def _write(self, name: str, tensors: dict[str, Tensor]) -> None:
        for slot in self._slots[name]:
            tensor = tensors[slot.name]
            if tensor.dtype != slot.dtype or tuple(tensor.shape) != slot.shape:
                raise CheckError(f"{self.problem.id} draws {slot.name} as {tensor.dtype} {list(tensor.shape)}")
            self._memory[name].tensor(slot).copy_(tensor)

    def _ask(self, kind: Kind, doing: str, *, text: str = "", numbers: tuple[float, ...] = ()) -> Frame:
        assert self._child is not None
        return self._child.ask(kind, doing, text=text, numbers=numbers)


@dataclass
class _Check:
    """One check in progress."""

    problem: Problem
    code: Code
    master: bytes
    device: str
    planned: int
    progress: Progress | None
    results: list[CaseResult] = field(default_factory=list)
    failure: str = ""
    refused: str = ""
    detail: str = ""

    def run(self, session: Session, plans: Sequence[tuple[Shape, list[CaseSpec]]]) -> None:
        """Every case; ends early when the process is gone or cannot run the submission."""
        contract = next(iter(self.problem.contracts.values()))
        self._say("starting the submission")
        try:
            if self._answered(session.start([contract.bind(shape) for shape, _ in plans]), "when it was imported"):
                for shape, specs in plans:
                    if not self._shape(session, shape, specs):
                        return
        except ChildGone as gone:
            self._fail(str(gone), gone.detail)

    def outcome(self) -> tuple[Outcome, str]:
        """The outcome and its one sentence."""
        bad = [result for result in self.results if not result.ok]
        if self.failure or bad:
            first = self.failure or bad[0].message
            more = f" ({len(bad)} cases failed)" if len(bad) > 1 else ""
            return "failed", first + more
        if self.refused:
            return "not-checkable", self.refused
        if len(self.results) < self.planned:
            return "failed", "not every case was run"
        return "passed", f"all {len(self.results)} cases are right"

    def _shape(self, session: Session, shape: Shape, specs: Sequence[CaseSpec]) -> bool:
        """Every case of a shape, one model a state group; False when nothing further can be run."""
        for group in _groups(specs, random.Random(derive(self.master, "order", shape.label))):
            loaded = False
            for spec in group:
                with _ours(f"the inputs of {spec.id} of {self.problem.id}"):
                    case = materialise(self.problem, shape, spec, self.master, device=self.device, code=self.code)
                self._say(f"{spec.id} at {shape.label}")
                if not loaded:
                    when = f"when its model was made at {shape.label}"
                    if not self._answered(session.load(case), when):
                        return not self.refused
                    loaded = True
                if not self._case(session, case):
                    return not self.refused
        return True

    def _case(self, session: Session, case: Case) -> bool:
        """One call; False when the submission raised or was refused, after which its model is not used again."""
        began = time.monotonic()
        answer = session.call(case)
        if answer.kind == Kind.DONE:
            outputs = session.outputs()
            with _ours(f"the oracle of {self.problem.id} on {case.spec.id} at {case.shape.label}"):
                result = compare(outputs, self.code.oracle(case.binding.init, case.inputs, case.state), case)
            self._record(case, result.ok, result.message, began, result.error, result.tolerance, result.wrong)
            return True
        if answer.kind == Kind.FAULT:
            said = clean_text(answer.text, MESSAGE_CHARACTERS)
            self._record(case, False, f"{case.spec.id} at {case.shape.label}: {said}", began)
            return True
        return self._answered(answer, f"in {case.spec.id} at {case.shape.label}")

    def _answered(self, answer: Frame, when: str) -> bool:
        """Whether an answer lets the check go on; what it says is noted otherwise."""
        if answer.kind in (Kind.READY, Kind.DONE):
            return True
        text = clean_text(answer.text, DETAIL_CHARACTERS)
        first = clean_text(answer.text.partition("\n")[0], MESSAGE_CHARACTERS)
        if answer.kind == Kind.REFUSED:
            self.refused = f"it cannot be checked on this machine: {first}"
        elif answer.kind == Kind.ERROR:
            self._fail(f"the submission raised {first} {when}", text.partition("\n")[2])
        elif answer.kind == Kind.FAULT:
            self._fail(f"{first} {when}", "")
        else:
            self._fail(f"the submission answered with {answer.kind.name} {when}", "")
        return False

    def _fail(self, message: str, detail: str) -> None:
        if not self.failure:
            self.failure, self.detail = message, detail

    def _record(
        self, case: Case, ok: bool, message: str, began: float,
        error: float | None = None, tolerance: float | None = None, wrong: int = 0,
    ) -> None:  # fmt: skip
        total = sum(math.prod(spec.shape) for spec in case.binding.outputs)
        seconds = round(time.monotonic() - began, 4)
        self.results.append(
            CaseResult(case.shape.label, case.spec.id, ok, error, tolerance, wrong, total, message, seconds)
        )

    def _say(self, doing: str) -> None:
        if self.progress is not None:
            self.progress(len(self.results), self.planned, doing)


@contextmanager
def _ours(what: str) -> Iterator[None]:
    """Turns what our own code raises into a DeckError, so that it is not laid at the submission's door."""
    try:
        yield
    except DeckError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise DeckError(f"{what} cannot be made: {type(error).__name__}: {reason}") from error


def _groups(specs: Sequence[CaseSpec], order: random.Random) -> list[list[CaseSpec]]:
    """The cases by state group, groups and cases shuffled: no call tells what it is for."""
    groups: dict[str, list[CaseSpec]] = {}
    for spec in specs:
        groups.setdefault(state_group(spec), []).append(spec)
    shuffled = list(groups.values())
    order.shuffle(shuffled)
    for group in shuffled:
        order.shuffle(group)
    return shuffled


def _state_of(binding: Binding) -> Iterable[Any]:
    return binding.state.values()


def _inputs_of(binding: Binding) -> Iterable[Any]:
    return binding.inputs


def _outputs_of(binding: Binding) -> Iterable[Any]:
    return [replace(output, name=output_name(binding, i)) for i, output in enumerate(binding.outputs)]


def _cannot_run(text: str, device: str) -> str:
    """Why a CPU cannot run the submission, by what it imports; empty when nothing says so."""
    if torch.device(device).type != "cpu":
        return ""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if any(name == native or name.startswith(native + ".") for native in NATIVE):
                return f"it cannot be checked on a CPU: it uses {name}, which compiles for a GPU"
    return ""
