"""Entry point: what one kernel does with its arguments.

One abstract interpreter runs the kernel's IR, Triton or CUDA: values carry their element type, the numeric type of
their bits, where they come from and which conversions lie on the way; branches on unknown values are both taken,
loops run until nothing changes, calls are inlined. Where memory of floats is read through an integer type (fp8
behind `uint8_t*`), facts name the float type: a byte view is no conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kbh_lint import registry
from kbh_lint.base import values
from kbh_lint.base.limits import Budget
from kbh_lint.kernels.core.facts import KernelFacts
from kbh_lint.kernels.core.ranges import Layout, Rising
from kbh_lint.kernels.core.run import Run
from kbh_lint.kernels.core.walker import Enough, OutOfFuel

DEFAULT_FUEL = 60_000
_MAX_RUNS = 3


def _run(kernel: values.Func, fuel: int, outer: Callable[[Any], Any] | None) -> Run:
    """A run of a kernel in its language, which is imported when it is met."""
    if kernel.node.kind != "python":
        from kbh_lint.kernels.languages.cuda.run import CudaRun  # start-up: kernels written in Python do without it

        return CudaRun(kernel.node.name, fuel)
    run: Run = registry.of_kernel(kernel.language).kernel_language.run(kernel.node.name, fuel, outer)
    return run


def analyze(
    kernel: values.Func,
    args: Mapping[str, values.KernelArg],
    *,
    budget: Budget | None = None,
    outer: Callable[[Any], Any] | None = None,
    ranges: Mapping[int, tuple[int, int]] | None = None,
    rising: Mapping[int, Rising] | None = None,
    layouts: Mapping[int, Layout] | None = None,
    until: Collection[int] = (),
    heights: bool = True,
) -> KernelFacts:
    """Analyses `kernel` at the arguments of one launch (and its template arguments, by name) and returns what it does.

    Never raises: what cannot be followed is listed in `unread` of the result. The number of steps is bounded, and taken
    from `budget`. `outer` converts host values that the kernel sees through its scope. `ranges` (least and largest
    integer), `rising` and `layouts` describe the integers in storages, by id: the facts then hold for such only.
    Without `heights`, nothing is said of how many rows the tiles of products have, and no argument has decided it.
    The analysis ends early once data of every storage in `until` has reached a result, an address, a bound or a branch.
    The `decided` arguments of the result assume that a Python loop which runs more than once here runs at least once at
    other arguments.
    """
    fuel = DEFAULT_FUEL if budget is None else budget.grant(DEFAULT_FUEL)
    run = _run(kernel, fuel, outer)
    run.ranges.given.update(ranges or {})
    run.ranges.rising.update(rising or {})
    run.ranges.layouts.update(layouts or {})
    run.until, run.heights = frozenset(until), heights
    try:
        for _ in range(_MAX_RUNS):
            run.memory.dirty = False
            run.flags.start(args)
            run.calls.run_kernel(kernel, args)
            if not run.memory.dirty:
                break
    except Enough:
        pass
    except OutOfFuel:
        run.facts.unread("the kernel is too large to analyse within its bound", kernel.node.loc)
    except RecursionError:
        run.facts.unread("the kernel nests too deeply", kernel.node.loc)
    except Exception as error:  # a hole in the analysis must not hide the other facts, nor stop the other files
        run.facts.unread(f"the analysis of the kernel failed ({type(error).__name__})", kernel.node.loc)
    if budget is not None:
        budget.take(fuel - max(run.fuel, 0))
    run.facts.tests.operators = lambda: _run(kernel, 0, outer).numbers
    found = run.facts.found()
    run.close()
    return found
