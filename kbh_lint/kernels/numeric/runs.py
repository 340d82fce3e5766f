"""Runs of kernels on numbers: of one launch, or of several that hand tensors to one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import UNKNOWN
from kbh_lint.kernels.core.walker import OutOfFuel
from kbh_lint.kernels.numeric import params
from kbh_lint.kernels.numeric.machine import Dims, Machine, Sites
from kbh_lint.kernels.numeric.numbers import Numbers
from kbh_lint.kernels.numeric.state import Chained, Frame

TOO_LONG = "the evaluation of the kernel takes too many steps"
_NONE: frozenset[int] = frozenset()
UNKNOWN_DIMS: Dims = (UNKNOWN, UNKNOWN, UNKNOWN)


@dataclass(slots=True)
class Run:
    """One run: the numbers, and the machine that it left. `failed` says why it could not go on."""

    numbers: Numbers
    machine: Machine
    failed: str | None


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
        """Breaks the references between the machines and their parts, so that they are freed without the garbage
        collector."""
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
        nudge: int | None = None,
        mute: frozenset[int] | None = None,
        follows: Run | None = None,
    ) -> Run:
        """Runs all kernels once, on the random inputs of `seed`, and returns the run.

        `many` makes every loop run often, `products` says whether products are rounded, `amplify` and `scale` are the
        sites whose rounding errors or sums are enlarged, `nudge` a site of which one sum is wrong, `mute` those without
        rounding errors, beside lanes that are alike, and the outcomes of tests are those of the run `follows`.
        """
        memo = self.memos.setdefault((seed, many), {})
        given = () if follows is None else follows.numbers.settled
        numbers = Numbers(
            seed, memo, self.bits, products=products, amplify=amplify, scale=scale, nudge=nudge, mute=mute,
            follows=given,
        )  # fmt: skip
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
        """The source locations of `sites`, each once."""
        return tuple(dict.fromkeys(self.sites.loc(s) for s in sites))


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
