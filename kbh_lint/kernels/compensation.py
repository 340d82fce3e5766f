"""Whether the sum of exponentials in a kernel carries an error-compensation term that reaches what it stores.

The kernel is run for one lane in two number systems at once, exactly and as the machine rounds. What is always zero
exactly, but not when rounded, is the rounding error of something: a residual. It compensates when it is the error
of a sum (not of a product or quotient), is made of exponentials, and moves what the kernel stores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kbh_lint import ir, values
from kbh_lint.kernels import compensation_ctypes as ctypes
from kbh_lint.kernels import compensation_expr as expr
from kbh_lint.kernels.compensation_machine import Dims, Machine, Sites
from kbh_lint.kernels.compensation_numbers import EXP, Numbers, Zero
from kbh_lint.kernels.compensation_state import Frame, OutOfFuel
from kbh_lint.limits import Budget
from kbh_lint.values import UNKNOWN

State = Literal["effective", "vacuous", "absent", "precise", "unknown"]
_SEEDS = (0, 1, 2, 3, 4)
_SINGLE = 3  # up to so many places are looked at one by one
_TOO_LONG = "the evaluation of the kernel takes too many steps"
_NONE: frozenset[int] = frozenset()
_UNKNOWN_DIMS: Dims = (UNKNOWN, UNKNOWN, UNKNOWN)
_SAME = 2.0**-10  # a residual that shrinks by more when products are exact is the error of a product
_MOVED = 2.0**-16  # relative change of a stored value that no rounding explains


@dataclass(frozen=True, slots=True)
class CompensationFacts:
    """What one kernel, at one set of arguments, does about rounding errors of its sum of exponentials.

    `effective`: a residual reaches a store. `vacuous`: there is one when loops run often, but with the real trip
    counts it is always zero (`reason` trips), or nothing stored depends on it (unused). `precise`: the sum runs in
    f64. `absent`: neither. `sites` are the places of the residuals (of the sums where `precise`), `sums` the sums of
    exponentials that no residual belongs to, `stored_params` the parameters whose stored values depend on either.
    """

    state: State
    reason: Literal["", "trips", "unused"] = ""
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
class _Answer:
    """What some runs found: residuals, and the sites among them that move what is stored to which parameters."""

    runs: list[_Run]
    found: dict[int, Zero]
    sites: list[int]
    stored: set[str]


@dataclass(slots=True)
class _Evaluation:
    """The runs of one kernel at one set of arguments."""

    kernel: values.Func
    args: Mapping[str, values.KernelArg]
    fuel: int
    block: Dims
    grid: Dims
    assume_exp_inputs: bool
    outer: Callable[[Any], Any] | None = None
    sites: Sites = field(default_factory=Sites)
    bits: dict[int, int] = field(default_factory=dict)
    memos: dict[tuple[int, bool], dict[tuple[str, int], tuple[int, float, float]]] = field(default_factory=dict)

    def run(
        self,
        seed: int,
        many: bool,
        *,
        products: bool = True,
        amplify: frozenset[int] = _NONE,
        scale: frozenset[int] = _NONE,
    ) -> _Run:
        """Runs the kernel once."""
        memo = self.memos.setdefault((seed, many), {})
        numbers = Numbers(seed, memo, self.bits, products=products, amplify=amplify, scale=scale)
        machine = Machine(
            numbers, self.sites, many=many, fuel=self.fuel, block=self.block, grid=self.grid,
            language=self.kernel.language, outer=self.outer,
        )  # fmt: skip
        node = self.kernel.node
        cpp = node.kind != "python"
        numbers.implicit_wide = cpp
        frame = Frame([{}], self.kernel.env, cpp, 0)
        failed = None
        try:
            self._bind(machine, frame)
            machine.run(node.body, frame)
        except OutOfFuel:
            failed = _TOO_LONG
        except RecursionError:
            failed = "the kernel nests too deep to be evaluated"
        except Exception as error:  # a hole in the evaluation must not hide what else is known of the file
            failed = f"the evaluation of the kernel failed ({type(error).__name__})"
        self.fuel = max(machine.fuel, 0)
        return _Run(numbers, machine, failed)

    def _bind(self, machine: Machine, frame: Frame) -> None:
        scope = frame.scopes[0]
        node = self.kernel.node
        for name in (t.name for t in node.template):
            if name in self.args:
                scope[name] = ctypes.parameter(machine, name, None, self.args[name], frame)
        for param in node.params:
            ref = param.type if frame.cpp else None
            given: Any = UNKNOWN
            if param.name in self.args:
                given = self.args[param.name]
            elif param.name in self.kernel.defaults:
                given = self.kernel.defaults[param.name]
            elif param.default is not None:
                given = expr.evaluate(machine, param.default, frame)
            scope[param.name] = ctypes.parameter(machine, param.name, ref, given, frame)

    def locs(self, sites: list[int]) -> tuple[ir.Loc, ...]:
        return tuple(dict.fromkeys(self.sites.loc(s) for s in sites))

    def tainted(self, src: int, logits: int) -> bool:
        """Whether source bits speak of exponentials: of one in this kernel, or of data that no exponential takes."""
        if src & EXP:
            return True
        return self.assume_exp_inputs and bool(src & ~EXP & ~logits)

    def attempt(self, many: bool) -> _Answer:
        """Runs on one set of random inputs, and on more where the first may say too little."""
        runs: list[_Run] = []
        found: dict[int, Zero] = {}
        for seed in _SEEDS:
            run = self.run(seed, many)
            runs.append(run)
            if run.failed is not None:
                break
            found.update(self.residuals(run, many))
            if found:
                sites, stored = self.effective(run, sorted(found), many)
                if sites:
                    return _Answer(runs, found, sites, stored)
            elif not run.machine.guessed and not self.asleep(run):
                break
        return _Answer(runs, found, [], set())

    def asleep(self, run: _Run) -> bool:
        """Whether something is always zero exactly of which no rounding error of a sum was seen.

        That may have been luck, here or in the run without rounded products that `residuals` compares with.
        """
        numbers = run.numbers
        return any(
            site not in numbers.nonzero and self.tainted(record.src, _logits([run]))
            for site, record in numbers.zeros.items()
        )

    def residuals(self, run: _Run, many: bool) -> dict[int, Zero]:
        """Rounding errors of sums of exponentials.

        They are always zero exactly, sometimes not zero when rounded, and still there when products and quotients
        are not rounded.
        """
        logits = _logits([run])
        wanted = {
            site: record
            for site, record in run.numbers.zeros.items()
            if site not in run.numbers.nonzero and any(record.values) and self.tainted(record.src, logits)
        }
        if not wanted:
            return wanted
        again = self.run(run.numbers.seed, many, products=False).numbers.zeros
        kept: dict[int, Zero] = {}
        for site, record in wanted.items():
            pairs = zip(record.values, again[site].values if site in again else [], strict=False)
            if any(a and abs(b) >= abs(a) * _SAME for a, b in pairs):
                kept[site] = record
        return kept

    def effective(self, run: _Run, sites: list[int], many: bool) -> tuple[list[int], set[str]]:
        """Those sites whose errors move a stored value, and the parameters that are stored to."""
        seed = run.numbers.seed
        stored = _moved(run, self.run(seed, many, amplify=frozenset(sites)))
        if not stored:
            return [], stored
        places: dict[ir.Loc, list[int]] = {}
        for site in sites:
            places.setdefault(self.sites.loc(site), []).append(site)
        if not 1 < len(places) <= _SINGLE:
            return sites, stored
        moving = [at for at in places.values() if _moved(run, self.run(seed, many, amplify=frozenset(at)))]
        return [site for at in moving for site in at] or sites, stored

    def precise(self, runs: list[_Run], many: bool) -> tuple[list[int], set[str]]:
        """Additions of exponentials in f64 that a stored value depends on."""
        sites = _wide(self, runs)
        if not sites:
            return [], set()
        seed = runs[0].numbers.seed
        return sites, _moved(runs[0], self.run(seed, many, scale=frozenset(sites)))


def evaluate(
    kernel: values.Func,
    args: Mapping[str, values.KernelArg],
    *,
    trips: Literal["real", "many"] = "real",
    fuel: int = 150_000,
    block: Dims = _UNKNOWN_DIMS,
    grid: Dims = _UNKNOWN_DIMS,
    assume_exp_inputs: bool = True,
    budget: Budget | None = None,
    outer: Callable[[Any], Any] | None = None,
) -> CompensationFacts:
    """Evaluates a kernel at one set of arguments.

    `trips="many"` pretends that every loop runs often. `fuel` bounds the steps of all runs together, which are
    taken from `budget`. `block` and
    `grid` are a launch's dimensions where known. `assume_exp_inputs` takes floating-point data that no exponential
    of this kernel reads for sums of exponentials made by an earlier kernel. `outer` is as in `analyze.analyze`.
    """
    given = fuel if budget is None else budget.grant(fuel)
    work = _Evaluation(kernel, args, given, block, grid, assume_exp_inputs, outer)
    made = _evaluated(work, trips == "many")
    if budget is not None:
        budget.take(given - work.fuel)
    return made


def _evaluated(work: _Evaluation, many: bool) -> CompensationFacts:
    kernel = work.kernel
    real = work.attempt(many)
    unread = _unread(real.runs, kernel)
    if real.runs[0].failed is not None:
        return CompensationFacts("unknown", unread=unread)
    sums = _sums(work, real)
    if any(run.machine.blind for run in real.runs):
        return CompensationFacts("unknown", "", work.locs(real.sites), sums, (), unread)
    if real.sites:
        return CompensationFacts("effective", "", work.locs(real.sites), sums, tuple(sorted(real.stored)), unread)
    wide, stored = work.precise(real.runs, many)
    if stored:
        return CompensationFacts("precise", "", work.locs(wide), sums, tuple(sorted(stored)), unread)
    found = real.found
    if not many and any(r.machine.short for r in real.runs):
        often = work.attempt(True)
        found = often.found or found
        if often.sites:
            return CompensationFacts("vacuous", "trips", work.locs(often.sites), sums, (), unread)
    if work.fuel <= 0:
        unread = (*unread, (_TOO_LONG, kernel.node.loc))
    if unread:
        return CompensationFacts("unknown", "", work.locs(sorted(found)), sums, (), unread)
    if found:
        return CompensationFacts("vacuous", "unused", work.locs(sorted(found)), sums)
    return CompensationFacts("absent", sums=sums)


def _logits(runs: list[_Run]) -> int:
    logits = 0
    for run in runs:
        logits |= run.numbers.logits
    return logits & ~EXP


def _sums(work: _Evaluation, answer: _Answer) -> tuple[ir.Loc, ...]:
    """Where exponentials are added up in less than f64 and no residual that counts belongs to the addition."""
    logits = _logits(answer.runs)
    near = 0
    for record in answer.found.values() if answer.sites else ():
        near |= record.near
    sites: set[int] = set()
    for run in answer.runs:
        for site, total in run.numbers.totals.items():
            if not total.wide and work.tainted(total.src, logits) and not run.numbers.bit(-site - 1) & near:
                sites.add(site)
        for site, total in run.numbers.reductions.items():
            if not total.wide and work.tainted(total.src, logits):
                sites.add(site)
    return work.locs(sorted(sites))


def _wide(work: _Evaluation, runs: list[_Run]) -> list[int]:
    logits = _logits(runs)
    sites: dict[int, None] = {}
    for run in runs:
        for table in (run.numbers.totals, run.numbers.reductions):
            for site, total in table.items():
                if total.wide and work.tainted(total.src, logits):
                    sites.setdefault(site)
    return list(sites)


def _moved(before: _Run, after: _Run) -> set[str]:
    """The parameters that got other values in the second run than in the first."""
    gone = _overwritten(before.machine)
    pairs = zip(before.machine.stores, after.machine.stores, strict=False)
    return {a[0] for i, (a, b) in enumerate(pairs) if i not in gone and a[0] == b[0] and _differs(a[1], b[1])}


def _overwritten(machine: Machine) -> set[int]:
    """The stores (by index) whose memory later ones fill again. What was read in between went on from there."""
    gone: set[int] = set()
    filled: set[tuple[str, int]] = set()
    for i in sorted(machine.cells, reverse=True):
        places, sure = machine.cells[i]
        cells = {(machine.stores[i][0], at) for at in places}
        if cells <= filled:
            gone.add(i)
        elif sure:
            filled |= cells
    return gone


def _differs(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return any(_differs(x, y) for x, y in zip(a, b, strict=False))
    if isinstance(a, float) and isinstance(b, float):
        if not math.isfinite(a) or not math.isfinite(b):
            return repr(a) != repr(b)
        return abs(a - b) > _MOVED * max(abs(a), abs(b))
    return False


def _unread(runs: list[_Run], kernel: values.Func) -> tuple[tuple[str, ir.Loc], ...]:
    found: dict[tuple[str, int], tuple[str, ir.Loc]] = {}
    for run in runs:
        if run.failed is not None:
            found.setdefault((run.failed, 0), (run.failed, kernel.node.loc))
        for (reason, key), loc in run.machine.unread.items():
            found.setdefault((reason, key), (reason, loc))
    return tuple(found.values())[:32]
