# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""Wrong submissions that the cases must tell from right ones: the mutation score of a problem.

A mutant is dead when, for each shape, at least one case kills it on each of SEEDS hidden seeds. It runs in this process
(it is our own code), through the same cases and the same comparison as a submission. A mutant first
meets the case that killed it the last time, and one that is dead on a seed sits out the rest of it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from grader.authoring.mutation_report import SEEDS, Attempt, Cell, Report, Row, Scale, table
from grader.deck import cases
from grader.deck.cases import Case, CaseSpec
from grader.deck.code import Code, DeckError, load_code
from grader.deck.correctness import Comparison, compare, contract_faults
from grader.deck.mutants import Mutant, generic
from grader.wire.outputs import outputs_of
from kbh_lint.problems import Problem, Shape

__all__ = ["Attempt", "Cell", "Mutant", "Report", "Row", "evidence", "generic", "run", "table"]

EQUIVALENT_CASES = 200
LEGAL_SHARE = 0.5
"""The legal model's error as a share of the tolerance, twice that error (grader.authoring.tolerance.MARGIN)."""


def run(
    problem: Problem,
    *,
    scale: Scale = "reduced",
    device: str = "cpu",
    seed: int | None = None,
    only: Sequence[str] = (),
    full_only: bool = False,
    progress: Callable[[str], None] | None = None,
    code: Code | None = None,
) -> Report:
    """Run a problem's mutants. `only`: these ids; `full_only`: those that need graded shapes. No seed: a fresh one.

    Raises DeckError when the problem has no mutants or no shapes, `only` names none of them, or a mutant crashes or
    breaks the contract, since it would then die without its numbers being judged.
    """
    started = time.monotonic()
    code = code or load_code(problem)
    seed = secrets.randbits(63) if seed is None else seed
    chosen = _chosen(problem, code, only, full_only)
    shapes = problem.shapes if scale == "full" else problem.reduced
    if not shapes:
        raise DeckError(f"{problem.id} has no {scale} shapes to run mutants on")
    graded = scale == "full" and torch.device(device).type == "cuda"
    active = [m for m in chosen if not m.equivalent and (graded or not m.full)]
    field_ = _Field(problem, code, device, seed)
    cells: dict[str, list[Cell]] = {m.id: [] for m in chosen}
    with _few_threads(device), torch.no_grad():
        for shape in shapes if active else ():
            if progress:
                progress(f"{problem.id}: {len(active)} mutants at {shape.label}")
            for name, cell in field_.shape(shape, active).items():
                cells[name].append(cell)
        rows = [_row(m, tuple(cells[m.id]), field_, shapes, graded) for m in chosen]
    seconds = time.monotonic() - started
    return Report(problem.id, scale, device, seed, tuple(rows), seconds, _sources(problem))


def _chosen(problem: Problem, code: Code, only: Sequence[str], full_only: bool) -> list[Mutant]:
    mutants = {mutant.id: mutant for mutant in code.mutants}
    if not mutants:
        raise DeckError(f"{problem.id} has no mutants")
    if len(mutants) != len(code.mutants):
        raise DeckError(f"two mutants of {problem.id} have the same id")
    unknown = [name for name in only if name not in mutants]
    if unknown:
        raise DeckError(f"{problem.id} has no mutant `{unknown[0]}`; it has {', '.join(mutants)}")
    return [m for m in code.mutants if (not only or m.id in only) and (m.full or not full_only)]


class _Field:
    """Runs mutants on the cases of one problem, and remembers which cases killed."""

    def __init__(self, problem: Problem, code: Code, device: str, seed: int) -> None:
        self.problem, self.code, self.device, self.seed = problem, code, device, seed
        self.kills: Counter[str] = Counter()
        self.killer: dict[str, str] = {}

    def master(self, *path: object) -> bytes:
        """The key that the hidden inputs of one round are drawn from; another `path` gives another."""
        return hashlib.sha256(json.dumps(["kbh mutation", self.seed, *path]).encode()).digest()

    def shape(self, shape: Shape, mutants: Sequence[Mutant]) -> dict[str, Cell]:
        """Runs every mutant on every seed at one shape; returns the cell of each."""
        by: dict[str, Counter[str]] = {m.id: Counter() for m in mutants}
        survived: dict[str, list[Attempt]] = {m.id: [] for m in mutants}
        for number in range(SEEDS):
            for name, (killer, attempts) in self.round(shape, mutants, number).items():
                if killer:
                    by[name][killer] += 1
                else:
                    survived[name] += attempts
        return {m.id: Cell(shape.label, by[m.id].total(), dict(by[m.id]), tuple(survived[m.id])) for m in mutants}

    def round(self, shape: Shape, mutants: Sequence[Mutant], number: int) -> dict[str, tuple[str, list[Attempt]]]:
        """The case that killed each mutant on the inputs of one seed ("" if none did), and the cases that it passed
        before.
        """
        master = self.master(number)
        specs = cases.plan_cases(self.problem, shape, master, code=self.code)
        specs.sort(key=lambda spec: -self.kills[short(spec)])
        results: dict[str, tuple[str, list[Attempt]]] = {m.id: ("", []) for m in mutants}
        modules: dict[tuple[str, str], nn.Module] = {}
        # First what killed a mutant the last time, then the rest: each mutant meets each case once at most.
        for likely, spec in [(likely, spec) for likely in (True, False) for spec in specs]:
            alive = [m for m in mutants if not results[m.id][0] and self.likely(m, spec) == likely]
            if not alive:
                continue
            case, want = self.case(shape, spec, master)
            for mutant in alive:
                outcome = self.judge(mutant, case, want, modules)
                attempts = results[mutant.id][1]
                if outcome.ok:
                    attempts.append(Attempt(number, spec.id, outcome.error, outcome.tolerance))
                else:
                    results[mutant.id] = (short(spec), attempts)
                    self.kills[short(spec)] += 1
                    self.killer[mutant.id] = short(spec)
        return results

    def likely(self, mutant: Mutant, spec: CaseSpec) -> bool:
        """Whether `spec` is the case that killed `mutant` last; True for every case while none has killed it."""
        return self.killer.get(mutant.id, short(spec)) == short(spec)

    def case(self, shape: Shape, spec: CaseSpec, master: bytes) -> tuple[Case, tuple[Tensor, ...]]:
        """Draws a case and computes its oracle."""
        case = cases.materialise(self.problem, shape, spec, master, device=self.device, code=self.code)
        return case, self.code.oracle(case.binding.init, case.inputs, case.state)

    def judge(
        self, mutant: Mutant, case: Case, want: tuple[Tensor, ...], modules: dict[tuple[str, str], nn.Module]
    ) -> Comparison:
        """Calls a mutant on a case and compares with `want`; `modules` keeps its module for as long as the state is the
        same.
        """
        who = f"mutant `{mutant.id}` of {self.problem.id}"
        key = (mutant.id, cases.state_group(case.spec))
        versions = [tensor._version for tensor in case.inputs.values()]
        try:
            if key not in modules:
                modules[key] = _module(mutant, case, self.device)
            outputs = modules[key](*case.inputs.values())
        except DeckError:
            raise
        except Exception as error:
            reason = (str(error) or "no message").splitlines()[0]
            raise DeckError(f"{who} fails on {case.spec.id} at {case.shape.label}: {reason}") from error
        faults = contract_faults(outputs, case)
        if versions != [tensor._version for tensor in case.inputs.values()]:
            faults.append("it changes its inputs")
        if faults:
            raise DeckError(f"{who} breaks the contract, so its numbers are not judged: {faults[0]}")
        return compare(outputs_of(outputs, len(want)), want, case)

    def equivalent(self, mutant: Mutant, shapes: Sequence[Shape]) -> tuple[int, Attempt | None]:
        """Runs a mutant that claims to be equivalent on drawn cases: how many it went through, and the first that it
        failed.
        """
        done = round_ = 0
        while done < EQUIVALENT_CASES:
            shape = shapes[round_ % len(shapes)]
            master = self.master("equivalent", mutant.id, round_)
            modules: dict[tuple[str, str], nn.Module] = {}
            for spec in cases.plan_cases(self.problem, shape, master, code=self.code)[: EQUIVALENT_CASES - done]:
                case, want = self.case(shape, spec, master)
                outcome = self.judge(mutant, case, want, modules)
                done += 1
                if outcome.error > LEGAL_SHARE * outcome.tolerance:
                    return done, Attempt(round_, f"{spec.id} at {shape.label}", outcome.error, outcome.tolerance)
            round_ += 1
        return done, None


def _module(mutant: Mutant, case: Case, device: str) -> nn.Module:
    """The mutant with the case's state; the tensors are taken over, not copied."""
    with torch.device(device):
        module = mutant.make(case.binding.init)
    module.load_state_dict(case.state, strict=True, assign=True)
    return module.eval().requires_grad_(False)


def _row(mutant: Mutant, cells: tuple[Cell, ...], field_: _Field, shapes: Sequence[Shape], graded: bool) -> Row:
    if mutant.full and not graded:
        found = evidence(field_.problem).get(mutant.id, "")
        note = f"needs the graded shapes on a GPU; {found or 'no evidence is stored'}"
        return Row(mutant, "left-out", note=note, proven=found.startswith("killed"))
    if not mutant.equivalent:
        return Row(mutant, "killed" if all(cell.dead for cell in cells) else "survived", cells)
    done, fault = field_.equivalent(mutant, shapes)
    if fault is None:
        return Row(mutant, "equivalent", note=f"{mutant.equivalent} Within the legal model's error on {done} cases.")
    note = f"it says it is equivalent, but errs by {fault.error:.3g} on {fault.case}; the legal model errs by at most "
    return Row(mutant, "not-equivalent", note=f"{note}{LEGAL_SHARE * fault.tolerance:.3g}")


def evidence(problem: Problem) -> dict[str, str]:
    """What stored evidence says of each mutant at graded shapes: `killed on h200`, or why that does not count."""
    found: dict[str, str] = {}
    for file in sorted((Path(problem.path).parent / "evidence").glob("*.json")):
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))["mutants"]
            fresh = stored["sources"] == _sources(problem)
            entries = {name: entry["state"] for name, entry in stored["mutants"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        for name, state in entries.items():
            if not found.get(name, "").startswith("killed"):
                found[name] = f"{state} on {file.stem}" if fresh else f"the evidence of {file.stem} is out of date"
    return found


def _sources(problem: Problem) -> dict[str, str]:
    """Hashes of the files that a mutant's fate depends on."""
    folder = Path(problem.path).parent
    names = ("problem.yaml", "reference.py", "cases.py", "mutants.py")
    files = [folder / name for name in names if (folder / name).is_file()]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def short(spec: CaseSpec) -> str:
    """The id of a case without its number: `nominal`, `large`, `ragged-lengths`."""
    return "nominal" if spec.kind == "nominal" else spec.id.split("/")[1]


@contextmanager
def _few_threads(device: str) -> Iterator[None]:
    """Reduced shapes are too small to share out: threads would only wait for one another."""
    before = torch.get_num_threads()
    if torch.device(device).type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
