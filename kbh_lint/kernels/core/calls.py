"""Calls inside a kernel: functions of the submission are run in place, and one whose call is alike is not run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir, values
from kbh_lint.frontends.walk import walk
from kbh_lint.kernels.core.facts import Made, ProductTypes
from kbh_lint.kernels.core.frames import Env, Frame
from kbh_lint.kernels.core.joins import join
from kbh_lint.kernels.core.value import CType, Offset, V, constant
from kbh_lint.ops.catalogue import BY_POINTERS, spellings

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


MAX_CALL_DEPTH = 24
MAX_NESTED = 1  # types in one another, by which calls of one function are told apart
MAX_LOOKED = 3  # functions in functions that are looked at for sums
_REDUCTIONS = spellings("sum", "reduce", languages=BY_POINTERS)
HELD = "="  # in the scope of a lambda, beside its frame: what it captured by value


class Calls:
    """Runs a kernel, and functions that it calls."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.calls: dict[Any, tuple[Any, ...]] = {}
        self.sources: dict[str, ir.Expr] = {}  # of the call that begins: see `Frame`
        self.place: V | None = None  # what the reference that the last call returned refers to

    def run_kernel(self, func: values.Func, args: Mapping[str, object]) -> None:
        """Executes the body of the kernel `func` once; `args` are its arguments by name."""
        raise NotImplementedError

    def invoke(self, func: values.Func, env: Env, loc: ir.Loc, this: V | None = None) -> V:
        """The result of calling `func` with its parameters bound in `env`, and `this` for methods. A call that equals
        an earlier one in arguments and memory is not executed again."""
        if isinstance(func.env.vars.get(""), Frame):
            return self.inline(func, env, loc, this)
        variables: dict[tuple[int, str], tuple[Frame, str]] = {}
        for value in env.values():
            self.run.memory.variables_of(value, variables)
        if this is not None:
            self.run.memory.variables_of(this, variables)
        held = [frame.env.get(name) for frame, name in variables.values()]
        before = tuple((key, value_key(value)) for key, value in zip(variables, held, strict=True))
        key = (
            id(func.node), id(func.env), self.run.frame.loops > 0,
            tuple((name, value_key(value)) for name, value in env.items()), value_key(this), before,
            self.run.products.loops.ages((*env.values(), *held, this)),
        )  # fmt: skip
        here = *self.run.frame.key, id(func.node), loc
        known = self.calls.get(key)
        if known is not None and known[0] == self.run.memory.memory_version:
            loops, was = self.run.products.loops, known[8]
            for frame, name, value in known[2]:
                frame.env[name] = loops.as_now(value, was, here)
            self.run.memory.written_again([(*at, loops.as_now(value, was, here)) for *at, value in known[9]])
            self.run.sides.add(*known[4])
            self.run.sides.store_again(known[6])
            self.place = known[5]
            self.sources = {}
            if self.place is not None:
                self.run.facts.loaded(known[7])
                self.run.facts.looked[loc] = known[7]
            return loops.as_now(known[1], was, here)
        kept = (dict(env), held, this)  # alive as long as the ids in the key
        made: set[ProductTypes] = set()
        start, marked = len(self.run.sides.stored), len(self.run.memory.marked)
        was = (here, self.run.products.loops.now())
        with self.run.sides.watching(made):
            result = self.inline(func, env, loc, this)
        after = [(frame, name, frame.env[name]) for frame, name in variables.values() if name in frame.env]
        stores = self.run.sides.stored_since(start)
        looked: Made = [] if self.place is None else self.run.facts.looked[loc]
        totals = self.run.memory.marked_since(marked)
        self.calls[key] = (
            self.run.memory.memory_version, result, after, kept, made, self.place, stores, looked, was, totals
        )  # fmt: skip
        return result

    def taken(self, place: V, loc: ir.Loc) -> V:
        """The `place` that the call at `loc` returned, of a reference: what lies there is not loaded."""
        self.run.facts.not_loaded(self.run.facts.looked.pop(loc, []))
        return place

    def inline(self, func: values.Func, env: Env, loc: ir.Loc, this: object = None) -> V:
        """Executes the body of `func` with its parameters bound in `env`, and returns its result."""
        node = func.node
        around = self.run.frame
        again = around.key.count(id(node)) > 2
        if self.run.statements.depth >= MAX_CALL_DEPTH or again and _endless(around, node, env):
            self.run.facts.unread(f"recursion through {node.name}", loc)
            return self.run.memory.havoc(list(env.values()), "?", loc)
        if node.body is None:
            self.run.facts.unread(f"{node.name} has no body here", loc)
            return self.run.memory.havoc(list(env.values()), "?", loc)
        definer = func.env.vars.get("")
        own, given = frozenset(env), {**env}
        if isinstance(definer, Frame):
            held = func.env.vars.get(HELD, {})  # copies that a lambda of C++ made
            env, own = {**definer.env, **held, **env}, own | frozenset(held)
        frame = Frame(env, func.env, func, (*around.key, id(node), loc))
        frame.given, frame.around = given, around
        frame.this = this
        frame.loops = around.loops
        frame.sources, self.sources = self.sources, {}
        if isinstance(definer, Frame):
            frame.this = frame.this or definer.this
        with self.run.sides.in_frame():
            self.run.statements.activate(frame, node.body, scoped=isinstance(definer, Frame) and node.kind == "lambda")
        if isinstance(definer, Frame) and node.kind == "lambda":
            for name, value in frame.env.items():
                if name not in own and definer.env.get(name, value) is not value:
                    definer.env[name] = join(definer.env[name], value)
            for name in func.env.vars.get(HELD, ()):
                func.env.vars[HELD][name] = frame.env[name]
        self.place = frame.place
        if frame.place is not None:
            self.run.facts.looked[loc] = frame.looked
        return frame.returned if frame.returned is not None else constant(None)


def _endless(around: Frame, node: ir.FuncDef, env: Env) -> bool:
    """Whether calls of a function that are under way were given the same numbers and types, so that nothing says where
    they end."""
    given = [_constants(value) for value in env.values()]
    alike, at = 0, around
    while at.around is not None:
        if at.func is not None and at.func.node is node and [_constants(value) for value in at.given.values()] == given:
            alike += 1
        at = at.around
    return alike > 2


def _constants(value: object, depth: int = 0) -> object:
    """What decides in which of its calls a function calls itself no more: the numbers and types that it is given, and
    how many there are. In other values one call is like the next."""
    if isinstance(value, CType):
        inner = tuple([_constants(arg, depth + 1) for _, arg in value.args]) if depth < MAX_NESTED else len(value.args)
        decl = getattr(value.decl, "node", value.decl)
        return value.dtype, value.name, id(decl), value.lanes, value.pointers, inner
    if not isinstance(value, V):
        return type(value)
    count = len(value.x) if isinstance(value.x, tuple) else None
    number = None if isinstance(value.const, CType) else (type(value.const), value.const)
    return number, count, _constants(value.const if number is None else value.ct, depth)


def value_key(value: V | None) -> object:
    """A key for one argument of a call: arguments with equal keys make calls that need not be executed twice."""
    if value is None:
        return None
    x = value.x
    pointer = getattr(x, "pointer", None)  # of a C++ reference
    extra = None if x is None else x if isinstance(x, Offset) else value_key(pointer) if pointer is not None else id(x)
    return (
        value.dtype, value.content, value.origins, value.casts, type(value.const), value.const, value.deps, value.cells,
        value.shape, extra, value.ct, value.totals and frozenset((t.place, t.kind, t.still) for t in value.totals),
    )  # fmt: skip


def own_function(node: object, env: values.Env | None) -> ir.FuncDef | None:
    """The function of the file that is called here, when its name stands for one."""
    if not isinstance(node, ir.Call) or env is None:
        return None
    name = node.func.id if isinstance(node.func, ir.Name) else getattr(node.func, "name", "")
    try:
        found = env.lookup(name) if isinstance(node.func, (ir.Name, ir.TypeRef)) else None
    except KeyError:
        return None
    if isinstance(found, values.JitFunction):
        return found.func.node
    defined = [f.node for f in found.funcs if f.node.body is not None] if isinstance(found, values.Overloads) else []
    return defined[0] if len(defined) == 1 else None


def sums_up(body: tuple[object, ...], env: values.Env, depth: int = 0) -> bool:
    """Whether there is a loop or a reduction in statements, or in a function of the file that they call."""
    for node in walk(body):
        func = node.func if isinstance(node, ir.Call) else None
        if isinstance(node, (ir.For, ir.While, ir.CFor)) or isinstance(func, ir.Attr) and func.name in _REDUCTIONS:
            return True
        called = own_function(node, env) if depth < MAX_LOOKED else None
        if called is not None and sums_up(called.body or (), env, depth + 1):
            return True
    return False
