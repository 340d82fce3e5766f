"""One run of a kernel, or of several in order, for one lane: what its parts share, and the parts, one an idea."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.values import UNKNOWN, Env, Value
from kbh_lint.frontends.walk import walk
from kbh_lint.kernels.core.walker import OutOfFuel
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric import ops
from kbh_lint.kernels.numeric.calls import Calls
from kbh_lint.kernels.numeric.control import TURNS
from kbh_lint.kernels.numeric.ctypes import CTypes
from kbh_lint.kernels.numeric.dialect import Dialect
from kbh_lint.kernels.numeric.expr import Expressions
from kbh_lint.kernels.numeric.memory import Access
from kbh_lint.kernels.numeric.numbers import Num, Numbers
from kbh_lint.kernels.numeric.places import Places
from kbh_lint.kernels.numeric.state import Bits, Chained, CType, Frame, Obj, Ptr, Reference
from kbh_lint.kernels.numeric.statements import Statements
from kbh_lint.kernels.numeric.structs import Structs
from kbh_lint.kernels.numeric.templates import Types

Dims = tuple[Any, Any, Any]


class Sites:
    """Numbers for places in the code, by chain of calls and node; the same in every run of one kernel."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, int], int] = {}
        self.locs: list[ir.Loc] = []
        self.nodes: list[Any] = []  # keeps the nodes alive, so that their ids stay theirs
        self.symbols: dict[int, Any] = {}  # what an attribute of an outside module means, by node

    def number(self, ctx: int, node: ir.Expr | ir.Stmt) -> int:
        """The number of a place in the code, `node` in the chain of calls `ctx`; a multiple of 8, so that the parts of
        a vector can have the numbers in between."""
        key = (ctx, id(node))
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.locs) * 8
            self.locs.append(node.loc)
            self.nodes.append(node)
        return found

    def loc(self, site: int) -> ir.Loc:
        """The source location of the place with number `site`."""
        return self.locs[site // 8]


class Machine:
    """One run of a kernel.

    `many` makes every loop run `CAPS` times. After a run, `stores` lists (parameter, rounded value) in order and
    `cells` what each of them filled (none where unknown) and whether it ran for certain, `short` says whether some
    loop ended by itself before `CAPS`, `guessed` whether an unknown condition chose between two branches, `unread`
    what could not be followed.
    """

    def __init__(
        self,
        numbers: Numbers,
        sites: Sites,
        *,
        many: bool,
        fuel: int,
    ) -> None:
        self.numbers = numbers
        self.types = Types(self)
        self.ctypes = CTypes(self)
        self.structs = Structs(self)
        self.memory = Access(self)
        self.places = Places(self)
        self.expressions = Expressions(self)
        self.calls = Calls(self)
        self.statements = Statements(self)
        self.sites = sites
        self.frame = Frame([{}], Env(), False, 0)  # of the function whose statements run
        self.many = many
        self.fuel = fuel
        self.tensors: Mapping[int, Chained] = {}  # those that launches hand to one another, by storage
        self.stores: list[tuple[str, Any]] = []
        self.cells: dict[int, tuple[range, bool]] = {}  # by index in `stores`
        self.unsure = 0
        self.phase = 0  # barriers so far
        self.short = False
        self.unread: dict[tuple[str, int], ir.Loc] = {}
        self.depth = 0  # loops that are running, one in another, in the function that runs
        self.globals: dict[int, Any] = {}
        self.layouts: dict[Hashable, CType] = {}
        self.guessed = False
        self.blind = False  # a branch on such a value went a way that may not be the right one
        self.beside: whole.Elsewhere | None = None  # the last test failed in our lane and held in another
        self.lane = 0  # the thread that runs
        self.splits = False  # whether it matters that a test fails in another lane, and in which it did
        self.fails: whole.Elsewhere | None = None
        self.inside: list[int] = []  # the loops that are running, by their statements
        self.tests: dict[tuple[int, int], list[int]] = {}  # how often a test in a loop was false and true
        self.waits: tuple[int, frozenset[int]] | None = None  # a loop to run for long, and the tests it waits for
        self.reference_positions: dict[int, frozenset[int]] = {}

    def enter(
        self,
        block: Dims,
        grid: Dims,
        language: str,
        outer: Callable[[Any], Any] | None = None,
        starts: Mapping[str, int | None] = MappingProxyType({}),
    ) -> None:
        """Prepares the machine for a launch. `outer` converts host values that the kernel sees, and `starts` has the
        byte of its storage at which each tensor begins."""
        self.block, self.grid = block, grid
        self.dialect: Dialect = registry.of_kernel(language).dialect or Dialect()
        self.numbers.plain = self.dialect.constants
        self.outer, self.starts = outer, starts
        self.unsure = self.depth = 0
        for tensor in self.tensors.values():
            tensor.once = set() if self.dialect.elements else None

    @property
    def doubtful(self) -> bool:
        """Whether a value was read from memory although another store may have overwritten it."""
        return any(tensor.doubtful for tensor in self.tensors.values())

    def site(self, frame: Frame, node: ir.Expr | ir.Stmt) -> int:
        """The number of the place `node` in the current chain of calls."""
        known = self.sites.numbers.get((frame.ctx, id(node)))
        return self.sites.number(frame.ctx, node) if known is None else known

    def spend(self) -> None:
        """Spends one step; raises OutOfFuel when none are left."""
        self.fuel -= 1
        if self.fuel < 0:
            raise OutOfFuel

    def test(self, node: object, test: ir.Expr, frame: Frame) -> Any:
        """The truth of a condition. Inside a loop, which way it went is counted if it only depends on integers."""
        before = len(self.numbers.settled)
        value = self.expressions.evaluate(test, frame)
        truth = ops.truth(value)
        if truth is False and isinstance(value, whole.Lane):
            value = whole.elsewhere(lambda x, _: x != 0, value)
        self.beside = value if isinstance(value, whole.Elsewhere) else None
        if len(self.numbers.settled) == before:
            self.decided(node, truth)
        return truth

    def decided(self, node: object, truth: object) -> None:
        """Counts which way a test inside a loop went."""
        if self.inside and truth is not UNKNOWN:
            self.tests.setdefault((self.inside[-1], id(node)), [0, 0])[bool(truth)] += 1

    def stuck(self) -> dict[int, frozenset[int]]:
        """The tests, by loop, that went one of the two ways fewer than TURNS times: later iterations may go that
        way."""
        found: dict[int, set[int]] = {}
        for (loop, test), counts in self.tests.items():
            if min(counts) < TURNS:
                found.setdefault(loop, set()).add(test)
        return {loop: frozenset(tests) for loop, tests in found.items()}

    def note(self, reason: str, node: ir.Expr | ir.Stmt) -> None:
        """Records that something was not followed that may hide a compensation."""
        if len(self.unread) < 64:
            self.unread.setdefault((reason, id(node)), node.loc)

    def guess(self, test: ir.Expr, frame: Frame) -> None:
        """Called where the truth of a condition is unknown. If only unknown host values decide it, the run is marked as
        meaningless."""
        names = [node.id for node in walk(test) if isinstance(node, ir.Name)] if self.dialect.elements else []
        if names and all(frame.find(name) is None for name in names):
            self.blind = True
            self.note("a branch on a value of the host that is not known", test)

    # --- memory ----------------------------------------------------------------------------------------------

    def read(self, ptr: Ptr, site: int) -> Any:
        """The value behind a pointer: what this lane stored there, else what another lane may have."""
        return self.memory.read(ptr, site)

    def write(self, ptr: Ptr, value: object) -> None:
        """Stores a value. Stores to parameters are also listed, as the output of the launch."""
        if ptr.mem.kind == "param":
            if isinstance(ptr.off, int):
                filled = range(ptr.off, ptr.off + ptr.type.lanes)
                self.cells[len(self.stores)] = filled, not self.unsure
            self.stores.append((ptr.mem.name, _seen(value)))
        self.memory.write(ptr, value)


def _seen(value: object) -> Value:
    if isinstance(value, Num):
        return value.f
    if isinstance(value, Obj):
        return tuple(_seen(v) for v in value.fields.values())
    if isinstance(value, Bits):
        return tuple(_seen(part) for part in value.parts().values())
    if isinstance(value, Reference | Ptr):
        return None
    return value if isinstance(value, int) else None
