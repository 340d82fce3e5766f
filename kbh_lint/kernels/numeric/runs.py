"""Runs of kernels on numbers: of one launch, or of several that hand tensors to one another."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import UNKNOWN
from kbh_lint.kernels.core.walker import OutOfFuel
from kbh_lint.kernels.numeric import params
from kbh_lint.kernels.numeric.machine import Dims, Machine, Sites
from kbh_lint.kernels.numeric.numbers import EXP, Numbers, Zero
from kbh_lint.kernels.numeric.state import Chained, Frame

_SEEDS = (0, 1, 2, 3, 4)
_SINGLE = 3  # up to so many places are looked at one by one
TOO_LONG = "the evaluation of the kernel takes too many steps"
_LOOPS = 3  # so many loops are waited in, each by itself
_WAITING = 40_000  # steps for them
_NONE: frozenset[int] = frozenset()
UNKNOWN_DIMS: Dims = (UNKNOWN, UNKNOWN, UNKNOWN)
_SAME = 2.0**-10  # a residual that shrinks by more when products are exact is the error of a product
_MOVED = 2.0**-16  # relative change of a stored value that no rounding explains


@dataclass(slots=True)
class Run:
    numbers: Numbers
    machine: Machine
    failed: str | None


@dataclass(slots=True)
class Answer:
    """What some runs found: residuals, and the sites among them that move what is stored to which parameters."""

    runs: list[Run]
    found: dict[int, Zero]
    sites: list[int]
    stored: set[str]


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One kernel and what it is given.

    `starts` says at which byte of its storage each tensor begins, `filled` are the storages that the host filled with a
    constant since the launch before.
    """

    kernel: values.Func
    args: Mapping[str, values.KernelArg]
    block: Dims = UNKNOWN_DIMS
    grid: Dims = UNKNOWN_DIMS
    outer: Callable[[Any], Any] | None = None
    starts: Mapping[str, int | None] = field(default_factory=dict)
    filled: frozenset[int] = frozenset()


# Parts of a storage, as ranges of bytes; None for all of it.
Parts = tuple[range, ...] | None


@dataclass(slots=True, eq=False)
class Evaluation:
    """The runs of one launch, or of several in order.

    `handed` are the storages that one launch leaves to another, with the bytes at which views of them begin. Where
    `ends` is given, only stores to these storages count as stored.
    """

    launches: tuple[Launch, ...]
    fuel: int
    assume_exp_inputs: bool
    handed: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    ends: Mapping[int, Parts] | None = None
    sites: Sites = field(default_factory=Sites)
    bits: dict[int, int] = field(default_factory=dict)
    memos: dict[tuple[int, bool], dict[tuple[str, int], tuple[int, float, float]]] = field(default_factory=dict)
    waits: tuple[int, frozenset[int]] | None = None
    machines: list[Machine] = field(default_factory=list)

    def close(self) -> None:
        """Takes the machines apart, whose parts know them: nothing is left for the garbage collector to find."""
        for machine in self.machines:
            machine.types.classes.close()
            vars(machine).clear()

    def run(
        self,
        seed: int,
        many: bool,
        *,
        products: bool = True,
        amplify: frozenset[int] = _NONE,
        scale: frozenset[int] = _NONE,
        follows: Run | None = None,
    ) -> Run:
        """Runs the kernels once."""
        memo = self.memos.setdefault((seed, many), {})
        given = () if follows is None else follows.numbers.settled
        numbers = Numbers(seed, memo, self.bits, products=products, amplify=amplify, scale=scale, follows=given)
        machine = Machine(numbers, self.sites, many=many, fuel=self.fuel)
        self.machines.append(machine)
        machine.waits = self.waits
        machine.tensors = {ident: Chained.of(ident, starts) for ident, starts in self.handed.items()}
        failed = None
        for i, launch in enumerate(self.launches):
            for ident in launch.filled & machine.tensors.keys():
                machine.tensors[ident].fill()
            failed = failed or self._launch(machine, launch, -i)
        self.fuel = max(machine.fuel, 0)
        return Run(numbers, machine, failed)

    def _launch(self, machine: Machine, launch: Launch, ctx: int) -> str | None:
        """Runs one kernel; says why it could not be."""
        node = launch.kernel.node
        cpp = node.kind != "python"
        machine.numbers.implicit_wide = cpp
        machine.enter(launch.block, launch.grid, launch.kernel.language, launch.outer, launch.starts)
        frame = Frame([{}], launch.kernel.env, cpp, ctx)
        try:
            _bind(machine, launch, frame)
            machine.statements.activate(frame, node.body)
        except OutOfFuel:
            return TOO_LONG
        except RecursionError:
            return "the kernel nests too deep to be evaluated"
        except Exception as error:  # a hole in the evaluation must not hide what else is known of the file
            return f"the evaluation of the kernel failed ({type(error).__name__})"
        return None

    def locs(self, sites: list[int]) -> tuple[ir.Loc, ...]:
        return tuple(dict.fromkeys(self.sites.loc(s) for s in sites))

    def tainted(self, src: int, logits: int) -> bool:
        """Whether source bits speak of exponentials: of one in this kernel, or of data that no exponential takes."""
        if src & EXP:
            return True
        return self.assume_exp_inputs and bool(src & ~EXP & ~logits)

    def attempt(self, many: bool, seeds: tuple[int, ...] = _SEEDS) -> Answer:
        """Runs on one set of random inputs, and on more where the first may say too little."""
        runs: list[Run] = []
        found: dict[int, Zero] = {}
        for seed in seeds:
            run = self.run(seed, many)
            runs.append(run)
            if run.failed is not None:
                break
            found.update(self.residuals(run, many))
            if found:
                sites, stored = self.effective(run, sorted(found), many)
                if sites:
                    return Answer(runs, found, sites, stored)
            elif not run.machine.guessed and not self.asleep(run):
                break
        return Answer(runs, found, [], set())

    def waiting(self, run: Run) -> Answer | None:
        """Residuals that some loop has only after many rounds, as where blocks of terms are added up first."""
        rest = max(self.fuel - _WAITING, 0)
        self.fuel -= rest
        found: Answer | None = None
        for loop, tests in list(run.machine.stuck().items())[:_LOOPS]:
            self.waits = loop, tests
            found = self.attempt(False, _SEEDS[:1])
            if found.sites:
                break
        self.waits = None
        self.fuel += rest
        return found if found is not None and found.sites else None

    def asleep(self, run: Run) -> bool:
        """Whether something is always zero exactly of which no rounding error of a sum was seen.

        That may have been luck, here or in the run without rounded products that `residuals` compares with.
        """
        numbers = run.numbers
        return any(
            site not in numbers.nonzero and self.tainted(record.src, logits_of([run]))
            for site, record in numbers.zeros.items()
        )

    def residuals(self, run: Run, many: bool) -> dict[int, Zero]:
        """Rounding errors of sums of exponentials.

        They are always zero exactly, sometimes not zero when rounded, and still there when products and quotients
        are not rounded.
        """
        logits = logits_of([run])
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

    def effective(self, run: Run, sites: list[int], many: bool) -> tuple[list[int], set[str]]:
        """Those sites whose errors move a stored value, and the parameters that are stored to."""
        seed = run.numbers.seed
        stored = _moved(run, self.run(seed, many, amplify=frozenset(sites), follows=run), self.ends)
        if not stored:
            return [], stored
        places: dict[ir.Loc, list[int]] = {}
        for site in sites:
            places.setdefault(self.sites.loc(site), []).append(site)
        if not 1 < len(places) <= _SINGLE:
            return sites, stored
        moving = [
            at
            for at in places.values()
            if _moved(run, self.run(seed, many, amplify=frozenset(at), follows=run), self.ends)
        ]
        return [site for at in moving for site in at] or sites, stored

    def precise(self, runs: list[Run], many: bool) -> tuple[list[int], set[str]]:
        """Additions of exponentials in f64 that a stored value depends on."""
        sites = _wide(self, runs)
        if not sites:
            return [], set()
        seed = runs[0].numbers.seed
        return sites, _moved(runs[0], self.run(seed, many, scale=frozenset(sites)), self.ends)


def _bind(machine: Machine, launch: Launch, frame: Frame) -> None:
    scope = frame.scopes[0]
    node = launch.kernel.node
    for name in (t.name for t in node.template):
        if name in launch.args:
            scope[name] = params.parameter(machine, name, None, launch.args[name], frame)
    for param in node.params:
        ref = param.type if frame.cpp else None
        given: Any = UNKNOWN
        if param.name in launch.args:
            given = launch.args[param.name]
        elif param.name in launch.kernel.defaults:
            given = launch.kernel.defaults[param.name]
        elif param.default is not None:
            given = machine.expressions.evaluate(param.default, frame)
        scope[param.name] = params.parameter(machine, param.name, ref, given, frame)


def logits_of(runs: list[Run]) -> int:
    logits = 0
    for run in runs:
        logits |= run.numbers.logits
    return logits & ~EXP


def _wide(work: Evaluation, runs: list[Run]) -> list[int]:
    logits = logits_of(runs)
    sites: dict[int, None] = {}
    for run in runs:
        for table in (run.numbers.totals, run.numbers.reductions):
            for site, total in table.items():
                if total.wide and work.tainted(total.src, logits):
                    sites.setdefault(site)
    return list(sites)


def _counts(before: Run, i: int, ends: Mapping[int, Parts] | None) -> bool:
    """Whether what a store put somewhere is looked at by somebody else than the launches."""
    name = before.machine.stores[i][0]
    if ends is None or name == "?":
        return True
    ident = next((n for n, memory in before.machine.tensors.items() if memory.name == name and n in ends), None)
    if ident is None:
        return False
    parts, tensor = ends[ident], before.machine.tensors[ident]
    cells, _ = before.machine.cells.get(i, (range(0), False))
    if parts is None or not cells or not isinstance(tensor.unit, int):
        return True
    return any(tensor.byte(cell) in part for cell in cells for part in parts)


def _moved(before: Run, after: Run, ends: Mapping[int, Parts] | None) -> set[str]:
    """The parameters that got other values in the second run than in the first."""
    gone = _overwritten(before.machine)
    pairs = zip(before.machine.stores, after.machine.stores, strict=False)
    return {
        a[0]
        for i, (a, b) in enumerate(pairs)
        if i not in gone and a[0] == b[0] and _differs(a[1], b[1]) and _counts(before, i, ends)
    }


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


def _differs(a: object, b: object) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return any(_differs(x, y) for x, y in zip(a, b, strict=False))
    if isinstance(a, float) and isinstance(b, float):
        if not math.isfinite(a) or not math.isfinite(b):
            return repr(a) != repr(b)
        return abs(a - b) > _MOVED * max(abs(a), abs(b))
    return False
