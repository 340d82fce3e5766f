"""Whether the sum of exponentials in a kernel carries an error-compensation term that reaches what it stores.

The kernel is run for one lane in two number systems at once, exactly and as the machine rounds. What is always zero
exactly, but not when rounded, is the rounding error of something: a residual. It compensates when it is the error
of a sum (not of a product or quotient), is made of exponentials, and moves what the kernel stores. `residuals` finds
them and says what counts; here is in which order it is asked, and what that comes to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from kbh_lint.base import ir, values
from kbh_lint.base.limits import Budget
from kbh_lint.base.records import dataclass
from kbh_lint.kernels.numeric.machine import Dims
from kbh_lint.kernels.numeric.residuals import Answer, Search, logits_of
from kbh_lint.kernels.numeric.runs import TOO_LONG, UNKNOWN_DIMS, Parts, Run
from kbh_lint.kernels.numeric.runs import Launch as Launch

State = Literal["effective", "vacuous", "absent", "precise", "unknown"]
FUEL = 150_000


@dataclass(frozen=True, slots=True)
class CompensationFacts:
    """What one kernel, at one set of arguments, does about rounding errors of its sum of exponentials.

    `effective`: a residual reaches a store. `vacuous`: there is one when loops run often, but with the real trip
    counts it is always zero (`reason` trips), or nothing stored depends on the error that it stands for (unused).
    `precise`: the sum runs in f64. `absent`: neither. `sites` are the places of the residuals (of the sums where
    `precise`), `sums` the sums of exponentials that no residual belongs to, `stored_params` the parameters whose stored
    values depend on either.
    """

    state: State
    reason: Literal["", "trips", "unused"] = ""
    sites: tuple[ir.Loc, ...] = ()
    sums: tuple[ir.Loc, ...] = ()
    stored_params: tuple[str, ...] = ()
    unread: tuple[tuple[str, ir.Loc], ...] = ()


def evaluate(
    kernel: values.Func,
    args: Mapping[str, values.KernelArg],
    *,
    trips: Literal["real", "many"] = "real",
    fuel: int = FUEL,
    block: Dims = UNKNOWN_DIMS,
    grid: Dims = UNKNOWN_DIMS,
    assume_exp_inputs: bool = True,
    budget: Budget | None = None,
    outer: Callable[[Any], Any] | None = None,
) -> CompensationFacts:
    """Runs a kernel on numbers, for one launch, and says whether it compensates the rounding errors of its sum of
    exponentials.

    `trips="many"` makes every loop run often. `fuel` bounds the steps of all runs together, which are taken from
    `budget`. `block` and `grid` are the launch's dimensions where known. `assume_exp_inputs` takes floating-point
    inputs that the kernel passes to no exponential for exponentials that an earlier kernel computed. `outer` converts
    host values that the kernel sees.
    """
    given = fuel if budget is None else budget.grant(fuel)
    work = Search((Launch(kernel, args, block, grid, outer),), given, assume_exp_inputs)
    made = _evaluated(work, trips == "many")
    if budget is not None:
        budget.take(given - work.fuel)
    return made


def evaluate_chain(
    launches: tuple[Launch, ...],
    handed: Mapping[int, tuple[int, ...]],
    ends: Mapping[int, Parts],
    budget: Budget,
    fuel: int = FUEL,
) -> CompensationFacts:
    """Runs several launches on numbers, in order, each on the memory that those before left, and says whether together
    they compensate their sum of exponentials.

    `handed` maps the storages that launches share to the bytes at which their views begin; `ends` says which parts of
    which storages the result depends on. The state is `unknown` when a launch may read one of several stored values.
    """
    given = budget.grant(fuel)
    work = Search(launches, given, True, handed, ends)
    made = _evaluated(work, False)
    budget.take(given - work.fuel)
    return made


def _evaluated(work: Search, many: bool) -> CompensationFacts:
    try:
        return _found(work, many)
    finally:
        work.close()


def _found(work: Search, many: bool) -> CompensationFacts:
    at = work.launches[0].kernel.node.loc
    real = work.attempt(many)
    unread = _unread(real.runs, at)
    if real.runs[0].failed is not None:
        return CompensationFacts("unknown", unread=unread)
    sums = _sums(work, real)
    if any(run.machine.blind or run.machine.doubtful for run in real.runs):
        return CompensationFacts("unknown", "", work.locs(real.sites), sums, (), unread)
    if real.sites:
        return CompensationFacts("effective", "", work.locs(real.sites), sums, tuple(sorted(real.stored)), unread)
    wide, stored = work.precise(real.runs, many)
    if stored:
        return CompensationFacts("precise", "", work.locs(wide), sums, tuple(sorted(stored)), unread)
    later = None if many or unread else work.waiting(real)
    if later is not None:
        return CompensationFacts("effective", "", work.locs(later.sites), sums, tuple(sorted(later.stored)), unread)
    found = real.found
    settled = found and not unread  # vacuous whatever longer loops show, which need not be paid for
    if not many and not settled and any(r.machine.short for r in real.runs):
        often = work.attempt(True)
        found = often.found or found
        if often.sites:
            return CompensationFacts("vacuous", "trips", work.locs(often.sites), sums, (), unread)
    if _too_long(work, real, wide):
        unread = (*unread, (TOO_LONG, at))
    if unread:
        return CompensationFacts("unknown", "", work.locs(sorted(found)), sums, (), unread)
    if found:
        return CompensationFacts("vacuous", "unused", work.locs(sorted(found)), sums)
    return CompensationFacts("absent", sums=sums)


def _too_long(work: Search, real: Answer, wide: list[int]) -> bool:
    """Whether the steps ended before the question was answered."""
    return work.fuel <= 0 and (bool(wide) or not real.taken_off)


def _sums(work: Search, answer: Answer) -> tuple[ir.Loc, ...]:
    """Where exponentials are added up in less than f64 and no residual that counts belongs to the addition."""
    logits = logits_of(answer.runs)
    near = 0
    for record in answer.found.values() if answer.sites else ():
        near |= record.near
    sites: set[int] = set()
    for run in answer.runs:
        for site, total in run.numbers.totals.items():
            if not total.wide and work.of_exponentials(total.src, logits) and not run.numbers.bit(-site - 1) & near:
                sites.add(site)
        for site, total in run.numbers.reductions.items():
            if not total.wide and work.of_exponentials(total.src, logits):
                sites.add(site)
    return work.locs(sorted(sites))


def _unread(runs: list[Run], at: ir.Loc) -> tuple[tuple[str, ir.Loc], ...]:
    found: dict[tuple[str, int], tuple[str, ir.Loc]] = {}
    for run in runs:
        if run.failed is not None:
            found.setdefault((run.failed, 0), (run.failed, at))
        for (reason, key), loc in run.machine.unread.items():
            found.setdefault((reason, key), (reason, loc))
    return tuple(found.values())[:32]
