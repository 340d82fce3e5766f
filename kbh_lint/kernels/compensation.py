"""Whether the sum of exponentials in a kernel carries an error-compensation term that reaches what it stores.

The kernel is run for one lane in two number systems at once, exactly and as the machine rounds. What is always zero
exactly, but not when rounded, is the rounding error of something: a residual. It compensates when it is the error
of a sum (not of a product or quotient), is made of exponentials, and moves what the kernel stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kbh_lint import ir, values
from kbh_lint.kernels import compensation_ctypes as ctypes
from kbh_lint.kernels.compensation_machine import Dims, Machine, OutOfFuel, Sites
from kbh_lint.kernels.compensation_numbers import EXP, Numbers, Zero
from kbh_lint.kernels.compensation_state import Frame
from kbh_lint.values import UNKNOWN

State = Literal["effective", "vacuous", "absent", "precise", "unknown"]
_SEEDS = (0, 1)
_UNKNOWN_DIMS: Dims = (UNKNOWN, UNKNOWN, UNKNOWN)
_SAME = 2.0**-10  # a residual that shrinks by more when products are exact is the error of a product
_MOVED = 2.0**-16  # relative change of a stored value that no rounding explains


@dataclass(frozen=True, slots=True)
class CompensationFacts:
    """What one kernel, at one set of arguments, does about rounding errors of its sum of exponentials.

    `effective`: a residual reaches a store. `vacuous`: there is one when loops run often, but with the real trip
    counts it is always zero, or nothing stored depends on it. `precise`: the sum runs in f64. `absent`: neither.
    `sites` are the places of the residuals, `sums` the sums of exponentials that no residual belongs to,
    `stored_params` the parameters whose stored values depend on a residual.
    """

    state: State
    sites: tuple[ir.Loc, ...] = ()
    sums: tuple[ir.Loc, ...] = ()
    stored_params: tuple[str, ...] = ()
    unread: tuple[tuple[str, ir.Loc], ...] = ()


@dataclass(slots=True)
class _Run:
    numbers: Numbers
    machine: Machine
    failed: str | None


@dataclass(slots=True)
class _Evaluation:
    """The runs of one kernel at one set of arguments."""

    kernel: values.Func
    args: Mapping[str, values.KernelArg]
    fuel: int
    block: Dims
    grid: Dims
    assume_exp_inputs: bool
    sites: Sites = field(default_factory=Sites)
    bits: dict[int, int] = field(default_factory=dict)
    memos: dict[tuple[int, bool], dict[tuple[str, int], tuple[int, float, float]]] = field(default_factory=dict)

    def run(
        self, seed: int, many: bool, *, products: bool = True, amplify: int | None = None, scale: int | None = None
    ) -> _Run:
        """Runs the kernel once."""
        memo = self.memos.setdefault((seed, many), {})
        numbers = Numbers(seed, memo, self.bits, products=products, amplify=amplify, scale=scale)
        machine = Machine(numbers, self.sites, many=many, fuel=self.fuel, block=self.block, grid=self.grid)
        node = self.kernel.node
        cpp = node.kind != "python"
        numbers.implicit_wide = cpp
        frame = Frame([{}], self.kernel.env, cpp, 0)
        failed = None
        try:
            self._bind(machine, frame)
            machine.run(node.body, frame)
        except OutOfFuel:
            failed = "the evaluation of the kernel takes too many steps"
        except RecursionError:
            failed = "the kernel nests too deep to be evaluated"
        return _Run(numbers, machine, failed)

    def _bind(self, machine: Machine, frame: Frame) -> None:
        scope = frame.scopes[0]
        node = self.kernel.node
        for name in (t.name for t in node.template):
            if name in self.args:
                scope[name] = ctypes.parameter(machine, name, None, self.args[name], frame)
        for param in node.params:
            ref = param.type if frame.cpp else None
            if param.name in self.args:
                given: Any = self.args[param.name]
            else:
                given = self.kernel.defaults.get(param.name, UNKNOWN)
            scope[param.name] = ctypes.parameter(machine, param.name, ref, given, frame)

    def tainted(self, src: int, logits: int) -> bool:
        """Whether source bits speak of exponentials: of one in this kernel, or of data that no exponential takes."""
        if src & EXP:
            return True
        return self.assume_exp_inputs and bool(src & ~EXP & ~logits)

    def residuals(self, runs: list[_Run]) -> dict[int, Zero]:
        """Additions that are always zero exactly, sometimes not zero when rounded, and made of exponentials."""
        logits = _logits(runs)
        nonzero = set().union(*(r.numbers.nonzero for r in runs))
        found: dict[int, Zero] = {}
        for run in runs:
            for site, record in run.numbers.zeros.items():
                if site not in nonzero and any(record.values) and self.tainted(record.src, logits):
                    found.setdefault(site, record)
        return found

    def of_sums(self, found: dict[int, Zero], runs: list[_Run], many: bool) -> dict[int, Zero]:
        """Those residuals that are still there when products and quotients are exact."""
        if not found:
            return found
        kept: dict[int, Zero] = {}
        for run in runs:
            wanted = {s for s in found if s not in kept and any(_values(run, s))}
            if not wanted:
                continue
            again = self.run(run.numbers.seed, many, products=False)
            for site in wanted:
                pairs = zip(_values(run, site), _values(again, site), strict=False)
                if any(a and abs(b) >= abs(a) * _SAME for a, b in pairs):
                    kept[site] = found[site]
        return kept

    def reached(self, runs: list[_Run], site: int, *, wide: bool = False) -> set[str]:
        """The parameters whose stored values move with what is computed at a site."""
        for run in runs:
            seed = run.numbers.seed
            again = self.run(seed, False, scale=site) if wide else self.run(seed, False, amplify=site)
            moved = _moved(run.machine.stores, again.machine.stores)
            if moved:
                return moved
        return set()


def evaluate(
    kernel: values.Func,
    args: Mapping[str, values.KernelArg],
    *,
    trips: Literal["real", "many"] = "real",
    fuel: int = 20_000,
    block: Dims = _UNKNOWN_DIMS,
    grid: Dims = _UNKNOWN_DIMS,
    assume_exp_inputs: bool = True,
) -> CompensationFacts:
    """Evaluates a kernel at one set of arguments.

    `trips="many"` pretends that every loop runs often. `fuel` bounds the statements of one run. `block` and `grid`
    are a CUDA launch's dimensions where known. `assume_exp_inputs` takes floating-point data that no exponential of
    this kernel reads for sums of exponentials made by an earlier kernel.
    """
    work = _Evaluation(kernel, args, fuel, block, grid, assume_exp_inputs)
    runs = [work.run(seed, trips == "many") for seed in _SEEDS]
    found = work.of_sums(work.residuals(runs), runs, trips == "many")
    unread = _unread(runs, kernel)
    logits = _logits(runs)
    stored: set[str] = set()
    effective: list[int] = []
    for site in found:
        moved = work.reached(runs, site)
        if moved:
            effective.append(site)
            stored |= moved
    if effective:
        sums = _sums(work, runs, [found[s] for s in effective], logits)
        return CompensationFacts("effective", _locs(work, effective), sums, tuple(sorted(stored)), unread)
    sums = _sums(work, runs, [], logits)
    wide = _wide(work, runs, logits)
    for site in wide:
        moved = work.reached(runs, site, wide=True)
        if moved:
            return CompensationFacts("precise", (work.sites.loc(site),), sums, tuple(sorted(moved)), unread)
    if not found and trips == "real" and any(r.machine.short for r in runs):
        often = [work.run(seed, True) for seed in _SEEDS]
        found = work.of_sums(work.residuals(often), often, True)
    if found:
        return CompensationFacts("vacuous", _locs(work, list(found)), sums, (), unread)
    return CompensationFacts("unknown" if unread else "absent", (), sums, (), unread)


def _values(run: _Run, site: int) -> list[float]:
    record = run.numbers.zeros.get(site)
    return record.values if record is not None else []


def _logits(runs: list[_Run]) -> int:
    logits = 0
    for run in runs:
        logits |= run.numbers.logits
    return logits & ~EXP


def _locs(work: _Evaluation, sites: list[int]) -> tuple[ir.Loc, ...]:
    return tuple(dict.fromkeys(work.sites.loc(s) for s in sorted(sites)))


def _sums(work: _Evaluation, runs: list[_Run], residuals: list[Zero], logits: int) -> tuple[ir.Loc, ...]:
    """Where exponentials are added up in less than f64 and no residual belongs to the addition."""
    near = 0
    for record in residuals:
        near |= record.near
    sites: set[int] = set()
    for run in runs:
        for site, total in run.numbers.totals.items():
            if not total.wide and work.tainted(total.src, logits) and not run.numbers.bit(-site - 1) & near:
                sites.add(site)
        for site, total in run.numbers.reductions.items():
            if not total.wide and work.tainted(total.src, logits):
                sites.add(site)
    return _locs(work, list(sites))


def _wide(work: _Evaluation, runs: list[_Run], logits: int) -> list[int]:
    sites: dict[int, None] = {}
    for run in runs:
        for table in (run.numbers.totals, run.numbers.reductions):
            for site, total in table.items():
                if total.wide and work.tainted(total.src, logits):
                    sites.setdefault(site)
    return list(sites)[:8]


def _moved(before: list[tuple[str, Any]], after: list[tuple[str, Any]]) -> set[str]:
    """The parameters that got other values in the second run than in the first."""
    return {a[0] for a, b in zip(before, after, strict=False) if a[0] == b[0] and _differs(a[1], b[1])}


def _differs(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return any(_differs(x, y) for x, y in zip(a, b, strict=False))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) > _MOVED * max(abs(a), abs(b)) or (a != a) != (b != b)
    return False


def _unread(runs: list[_Run], kernel: values.Func) -> tuple[tuple[str, ir.Loc], ...]:
    found: dict[tuple[str, int], tuple[str, ir.Loc]] = {}
    for run in runs:
        if run.failed is not None:
            found.setdefault((run.failed, 0), (run.failed, kernel.node.loc))
        for (reason, key), loc in run.machine.unread.items():
            found.setdefault((reason, key), (reason, loc))
    return tuple(found.values())[:32]
