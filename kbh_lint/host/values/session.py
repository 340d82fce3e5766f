"""What the runs of one submission share: its texts, budgets, the GPU, analysed kernels and lowered C++ texts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

from kbh_lint.base import ir
from kbh_lint.base.limits import Budgets
from kbh_lint.base.values import Env, Func, TypeValue
from kbh_lint.host.values import device
from kbh_lint.host.values.objects import ClassV
from kbh_lint.host.values.tensors import Answered, Event
from kbh_lint.kernels.core.facts import KernelFacts
from kbh_lint.problems import Target


class Known(NamedTuple):
    """The facts that an analysis found of a kernel, at the arguments of one launch."""

    kernel: Func  # which keeps its node: nodes are keys by identity
    binding: dict[str, Any]
    facts: KernelFacts


class Shared:
    """What the sessions of one file share, one for each GPU that it may find. `heights`: it will be asked how many
    rows the tiles of products have, so that launches that differ in that are analysed apart. `several`: more than one
    session is likely, so that what one finds of a kernel is kept under a key for others; without, each keeps its own.
    """

    def __init__(self, heights: bool = True, several: bool = True) -> None:
        self.heights, self.several = heights, several
        self.idents = count(1)  # of storages and contents: one each in a whole file
        self.kernels: dict[Any, list[Known]] = {}  # by what a kernel is and sees
        self.answers: dict[Any, Any] = {}  # of analyses about launches
        self.lowered: dict[Any, dict[Hashable, ir.Module]] = {}  # by C++ text, and what conditions leave of it


class Session:
    """What runs of one submission share: analysed kernels and lowered C++ texts."""

    def __init__(
        self,
        module: ir.Module,
        sidecars: Mapping[str, str],
        capability: tuple[int, int] | None,
        budgets: Budgets | None = None,
        gpu: Callable[[], Target | None] = lambda: None,
        raise_errors: bool = False,
        binaries: Iterable[str] = (),
        shared: Shared | None = None,
    ) -> None:
        self.module = module
        self.shared = Shared() if shared is None else shared
        self.idents: Iterator[int] = self.shared.idents
        self.raise_errors = raise_errors
        self._gpu = gpu  # the target that a run finds; few ask for it, and its file takes long to read
        self._device: device.Device | None = None
        self.budgets = Budgets() if budgets is None else budgets
        self.sidecars = dict(sidecars)
        self.binaries = frozenset(binaries)
        self.capability = capability
        self.outer: Callable[[Any], Any] | None = None  # how kernels of some languages see values of the host
        self.kernels: dict[Any, list[Known]] = {}  # by what a kernel is
        self.scopes: dict[int, Any] = {}  # what a kernel saw around it when it was met first, by its node
        self.met: dict[Any, KernelFacts] = {}  # by kernel and whole binding
        self.lowered: dict[Any, ir.Module] = {}
        self.extensions: dict[Any, tuple[Env, list[ir.Module]]] = {}  # scopes over the texts of each, by these
        self.waiting = False  # whether a kernel that was analysed waits for another launch
        self.answered = Answered({}, self.shared.answers, self.budgets)
        self.functors: dict[Any, TypeValue] = {}  # the classes of lambdas that kernels are given
        self.bindings: dict[Any, Any] = {}  # what texts bind for Python, by their modules
        self.refused: dict[Any, str] = {}  # why texts do not compile, by their modules
        self.bound: frozenset[str] | None = None  # the names that the submission binds anywhere, once asked for
        self.given: frozenset[str] | None = None  # the names of attributes that it sets on others, once asked for
        self.flags: dict[int, dict[str, ir.Decl]] = {}  # the numbers in device memory that a kernel names
        self.runs: list[Any] = []  # and all that they made, to be taken apart
        self.events: list[Event] = []

    def close(self) -> None:
        """Takes apart the objects of all runs, which refer to each other in cycles, once nobody needs them. Without
        this the garbage collector has to find them, which takes a tenth of the time of a lint."""
        for event in self.events:
            event.reads, event.writes, event.flows = [], [], None
            event.attrs = {}
        for run in self.runs:
            for tensor in run.memory.views.values():
                tensor.storage.content = None  # as before its allocator gave it one
            for env in (run.scopes.main, *run.scopes.sidecars.values()):
                for value in env.vars.values():
                    if isinstance(value, ClassV):  # which its methods know, and its own order of bases
                        value.env.vars.clear()
                        value.order = None
                env.vars.clear()
            if run.cpp_side is not None:
                run.cpp_side.types.classes.close()
                vars(run.cpp_side).clear()
            vars(run).clear()
        for env, _ in self.extensions.values():
            env.vars.clear()
        self.runs, self.events = [], []
        self.extensions.clear()

    def asks_for_shared(self) -> bool:
        """Whether a C++ source may opt in to more dynamic shared memory than the default of a block."""
        return any("FuncSetAttribute" in module.unit.prepared for module in self.lowered.values())

    @property
    def device(self) -> device.Device:
        """The GPU that the submission finds."""
        if self._device is None:
            self._device = device.of(self.capability, self._gpu())
        return self._device
