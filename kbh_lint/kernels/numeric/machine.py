"""Statements, loops and calls of a kernel, run for one lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kbh_lint import registry
from kbh_lint.base import ir, values
from kbh_lint.base.values import UNKNOWN, Env
from kbh_lint.frontends.walk import walk
from kbh_lint.kernels.numeric import branches, ctypes, loops, ops, places
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric.asm import run_asm
from kbh_lint.kernels.numeric.calls import Calls
from kbh_lint.kernels.numeric.ctypes import CTypes
from kbh_lint.kernels.numeric.dialect import Dialect
from kbh_lint.kernels.numeric.expr import Expressions
from kbh_lint.kernels.numeric.memory import Access
from kbh_lint.kernels.numeric.numbers import Num, Numbers
from kbh_lint.kernels.numeric.places import Places
from kbh_lint.kernels.numeric.state import Bits, Chained, Closure, Frame, Obj, OutOfFuel, Ptr, Reference
from kbh_lint.kernels.numeric.structs import Structs
from kbh_lint.kernels.numeric.templates import Types

MAX_CALLS = 24

Dims = tuple[Any, Any, Any]


class Sites:
    """Numbers for places in the code, by chain of calls and node; the same in every run of one kernel."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, int], int] = {}
        self.locs: list[ir.Loc] = []
        self.nodes: list[Any] = []  # keeps the nodes alive, so that their ids stay theirs
        self.symbols: dict[int, Any] = {}  # what an attribute of an outside module means, by node

    def number(self, ctx: int, node: Any) -> int:
        """A multiple of 8: the numbers in between are for the parts of a vector."""
        key = (ctx, id(node))
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.locs) * 8
            self.locs.append(node.loc)
            self.nodes.append(node)
        return found

    def loc(self, site: int) -> ir.Loc:
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
        self.sites = sites
        self.many = many
        self.fuel = fuel
        self.tensors: Mapping[int, Chained] = {}  # those that launches hand to one another, by storage
        self.stores: list[tuple[str, Any]] = []
        self.cells: dict[int, tuple[range, bool]] = {}  # by index in `stores`
        self.unsure = 0
        self.short = False
        self.unread: dict[tuple[str, int], ir.Loc] = {}
        self.depth = 0
        self.nested = 0
        self.globals: dict[int, Any] = {}
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
        """Begins a launch. `outer` turns values of the host that a kernel sees through its scope into those it knows,
        `starts` are the bytes at which its tensors begin."""
        self.block, self.grid = block, grid
        self.dialect: Dialect = registry.of_kernel(language).dialect or Dialect()
        self.outer, self.starts = outer, starts
        self.unsure = self.depth = self.nested = 0
        for tensor in self.tensors.values():
            tensor.once = set() if self.dialect.elements else None

    @property
    def doubtful(self) -> bool:
        """Whether something was read of which another store may have been the last."""
        return any(tensor.doubtful for tensor in self.tensors.values())

    def site(self, frame: Frame, node: object) -> int:
        return self.sites.number(frame.ctx, node)

    def spend(self) -> None:
        """Takes one step."""
        self.fuel -= 1
        if self.fuel < 0:
            raise OutOfFuel

    def test(self, node: object, test: ir.Expr, frame: Frame) -> Any:
        """The truth of a test; which way it went is noted where it is inside a loop and on whole numbers."""
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
        """A test went one way."""
        if self.inside and truth is not UNKNOWN:
            self.tests.setdefault((self.inside[-1], id(node)), [0, 0])[bool(truth)] += 1

    def stuck(self) -> dict[int, frozenset[int]]:
        """The tests, by loop, that went one way too rarely: later rounds may see them go there."""
        found: dict[int, set[int]] = {}
        for (loop, test), counts in self.tests.items():
            if min(counts) < loops.TURNS:
                found.setdefault(loop, set()).add(test)
        return {loop: frozenset(tests) for loop, tests in found.items()}

    def note(self, reason: str, node: Any) -> None:
        """Something that may hide a compensation was not followed."""
        if len(self.unread) < 64:
            self.unread.setdefault((reason, id(node)), node.loc)

    # --- statements ------------------------------------------------------------------------------------------

    def run(self, body: tuple[ir.Stmt, ...] | None, frame: Frame) -> str | None:
        """Runs statements; says why it stopped early: break, continue, return or None."""
        for stmt in body or ():
            self.spend()
            handler = _STATEMENTS.get(type(stmt))
            if handler is None:
                continue
            why = handler(self, stmt, frame)
            if why is not None:
                return why
        return None

    def scoped(self, body: tuple[ir.Stmt, ...], frame: Frame) -> str | None:
        """Runs statements in a scope of their own where the language has one."""
        if not frame.cpp:
            return self.run(body, frame)
        frame.scopes.append({})
        try:
            return self.run(body, frame)
        finally:
            frame.scopes.pop()

    def _assign(self, stmt: ir.Assign, frame: Frame) -> None:
        value = self.expressions.evaluate(stmt.value, frame)
        for target in stmt.targets:
            self.places.assign(target, value, frame)

    def _aug_assign(self, stmt: ir.AugAssign, frame: Frame) -> None:
        self.places.update(stmt.target, stmt.op, self.expressions.evaluate(stmt.value, frame), stmt, frame)

    def _decl(self, stmt: ir.Decl, frame: Frame) -> None:
        if frame.cpp and stmt.name:
            value = frame.scopes[-1][stmt.name] = self.ctypes.declared(stmt, frame)
            if value is UNKNOWN and stmt.type is not None:
                frame.scopes[-1][places.TYPE + stmt.name] = self.ctypes.resolve(stmt.type, frame)

    def _expr(self, stmt: ir.ExprS, frame: Frame) -> None:
        self.expressions.evaluate(stmt.value, frame)

    def guess(self, test: ir.Expr, frame: Frame) -> None:
        """A truth is not known. Where only the host's values decide it, what is taken for it says nothing."""
        names = [node.id for node in walk(test) if isinstance(node, ir.Name)] if self.dialect.elements else []
        if names and all(frame.find(name) is None for name in names):
            self.blind = True
            self.note("a branch on a value of the host that is not known", test)

    def _return(self, stmt: ir.Return, frame: Frame) -> str:
        where = self.places.place(stmt.value, frame) if frame.by_place and stmt.value is not None else None
        if where is not None:
            frame.result = Reference(where)
        else:
            frame.result = None if stmt.value is None else self.expressions.evaluate(stmt.value, frame)
        return "return"

    def _jump(self, stmt: ir.Jump, frame: Frame) -> str | None:
        if stmt.kind == "goto":
            self.note("a goto is not followed", stmt)
        return stmt.kind if stmt.kind in ("break", "continue") else None

    def _block(self, stmt: ir.Block, frame: Frame) -> str | None:
        return self.scoped(stmt.body, frame)

    def _with(self, stmt: ir.With, frame: Frame) -> str | None:
        for value, target in stmt.items:
            held = self.expressions.evaluate(value, frame)
            if target is not None:
                self.places.assign(target, held, frame)
        return self.run(stmt.body, frame)

    def _asm(self, stmt: ir.Asm, frame: Frame) -> None:
        run_asm(self, stmt, frame)

    def _using(self, stmt: ir.Using, frame: Frame) -> None:
        if stmt.type is not None:
            frame.scopes[-1][stmt.name] = values.TypeValue(stmt.type, ctypes.scope_env(frame))

    def _func(self, stmt: ir.FuncDef, frame: Frame) -> None:
        frame.scopes[-1][stmt.name] = Closure(stmt, frame)

    def _class(self, stmt: ir.ClassDef, frame: Frame) -> None:
        frame.scopes[-1][stmt.name] = values.CppType(stmt, ctypes.scope_env(frame))

    def _opaque(self, stmt: ir.Opaque, frame: Frame) -> str | None:
        self.note(f"not read: {stmt.reason}", stmt)
        statements = tuple(c for c in stmt.children if type(c) in _STATEMENTS)
        return self.run(statements, frame)

    # --- calls -----------------------------------------------------------------------------------------------

    def call(
        self,
        node: ir.FuncDef,
        env: Env,
        args: list[Any],
        keywords: dict[str, Any],
        at: object,
        frame: Frame,
        *,
        outer: list[dict[str, Any]] | None = None,
        this: Obj | None = None,
        bound: dict[str, Any] | None = None,
        defaults: dict[str, Any] | None = None,
    ) -> Any:
        """Runs a function of the submission in place. `args` may hold `Reference`s for reference parameters."""
        if self.nested >= MAX_CALLS or node.body is None:
            self.note(f"{node.name or 'a function'} is not followed", at)
            return UNKNOWN
        scope: dict[str, Any] = dict(bound or {})
        inner = Frame([*(outer or []), scope], env, frame.cpp, self.sites.number(frame.ctx, at) // 8 + 1, this)
        returns = node.returns
        inner.by_place = frame.cpp and isinstance(returns, ir.TypeRef) and returns.reference and not returns.const
        self._bind(node, inner, scope, args, keywords, defaults or {})
        self.nested += 1
        depth, self.depth = self.depth, min(self.depth, len(loops.CAPS) - 1)
        try:
            self.run(node.body, inner)
        finally:
            self.nested -= 1
            self.depth = depth
        result = inner.result
        if inner.cpp and isinstance(node.returns, ir.TypeRef) and isinstance(result, Num | int | tuple):
            result = self.ctypes.passed(node.returns, result, inner)
        return result.copy() if isinstance(result, Obj) else result

    def _bind(
        self,
        node: ir.FuncDef,
        inner: Frame,
        scope: dict[str, Any],
        args: list[Any],
        keywords: dict[str, Any],
        defaults: dict[str, Any],
    ) -> None:
        at = 0
        for param in node.params:
            if param.kind == "star":
                scope[param.name] = tuple(args[at:])
                at = len(args)
                continue
            if param.name in keywords:
                value = keywords[param.name]
            elif at < len(args) and param.kind != "keyword":
                value = args[at]
                at += 1
            elif param.name in defaults:
                value = ops.wrapped(defaults[param.name])
            elif param.default is not None:
                value = self.expressions.evaluate(param.default, inner)
            else:
                value = UNKNOWN
            if inner.cpp and isinstance(param.type, ir.TypeRef):
                value = self.ctypes.passed(param.type, value, inner)
            scope[param.name] = value

    # --- memory ----------------------------------------------------------------------------------------------

    def read(self, ptr: Ptr, site: int) -> Any:
        """The value behind a pointer: ours where this lane wrote it, another lane's where others did."""
        return self.memory.read(ptr, site)

    def write(self, ptr: Ptr, value: object) -> None:
        """Stores a value. Stores to parameters are what the outside sees."""
        if ptr.mem.kind == "param":
            if isinstance(ptr.off, int):
                filled = range(ptr.off, ptr.off + ptr.type.lanes)
                self.cells[len(self.stores)] = filled, not self.unsure
            self.stores.append((ptr.mem.name, _seen(value)))
        self.memory.write(ptr, value)


def _seen(value: object) -> Any:
    if isinstance(value, Num):
        return value.f
    if isinstance(value, Obj):
        return tuple(_seen(v) for v in value.fields.values())
    if isinstance(value, Bits):
        return tuple(_seen(part) for part in value.parts().values())
    if isinstance(value, Reference | Ptr):
        return None
    return value if isinstance(value, int) else None


_STATEMENTS: dict[type, Callable[[Machine, Any, Frame], str | None]] = {
    ir.Assign: Machine._assign,
    ir.AugAssign: Machine._aug_assign,
    ir.Decl: Machine._decl,
    ir.ExprS: Machine._expr,
    ir.If: branches.if_,
    ir.While: loops.while_,
    ir.For: loops.for_each,
    ir.CFor: loops.c_for,
    ir.Switch: branches.switch,
    ir.Return: Machine._return,
    ir.Jump: Machine._jump,
    ir.With: Machine._with,
    ir.Block: Machine._block,
    ir.Asm: Machine._asm,
    ir.Using: Machine._using,
    ir.FuncDef: Machine._func,
    ir.ClassDef: Machine._class,
    ir.Opaque: Machine._opaque,
}
