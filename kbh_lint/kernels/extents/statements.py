"""Statements of a kernel whose addresses are followed: what names stand for, and what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
from kbh_lint.frontends.walk import walk
from kbh_lint.kernels.core.walker import Exit, Walker
from kbh_lint.kernels.extents.intervals import Linear
from kbh_lint.kernels.extents.values import Frame, Place, Value

if TYPE_CHECKING:
    from kbh_lint.kernels.extents.control import OneRound
    from kbh_lint.kernels.extents.follow import Follow


class Statements(Walker[Value, Frame]):
    """Runs statements on addresses: assignments keep the addresses, sums and conditions (`Value`) that names stand for.

    Where a statement is none that it follows, the names that it assigns are unknown after it.
    """

    def __init__(self, run: Follow, control: OneRound) -> None:
        super().__init__(run)
        self.run = run
        self.control = control

    def step(self) -> None:
        self.run.step()

    def execute(self, node: ir.Stmt) -> Exit:
        run = self.run
        run.begins(node)
        handler = self.statements.get(type(node))
        if handler is None:
            run.assigned(node)
        run.step()  # from here as `Walker.execute`, of which a call a statement would be made
        why = None if handler is None else handler(self, node)
        run.ends(node)
        return why

    def evaluate(self, node: object) -> Value:
        return self.run.value(node)

    def assign(self, target: object, value: Value) -> None:
        if isinstance(target, ir.Name):
            frame = self.run.frame
            if not isinstance(frame.env.get(target.id), Place):  # else it is a store
                frame.env[target.id] = self._held(value, frame.declared.get(target.id))
        else:
            self.run.assigned(target)
            if isinstance(target, ir.Seq):
                self.run.forget({n.id for n in walk(target) if isinstance(n, ir.Name)})

    def s_assign(self, node: ir.Assign) -> None:
        self.run.computed(node.value)
        target = node.targets[0]
        if isinstance(target, ir.Name) and len(node.targets) == 1:  # as most are
            self.assign(target, self.run.value(node.value))
            return
        if isinstance(target, ir.Seq) and isinstance(node.value, ir.Call) and len(node.targets) == 1:
            made = self.run.inlined(node.value)
            if made is not None and len(made) == len(target.items):
                for item, value in zip(target.items, made, strict=True):
                    self.assign(item, value)
                return
        pairs = unpacked(node) or [(target, node.value) for target in node.targets]
        known = [self.evaluate(value) for _, value in pairs]
        for (target, _), value in zip(pairs, known, strict=True):
            self.assign(target, value)
            self._element(target, node.loc)

    def s_augassign(self, node: ir.AugAssign) -> None:
        if not isinstance(node.target, ir.Name):
            self.run.assigned(node)
            return
        self.run.computed(node.value)
        old, by = self.evaluate(node.target), self.evaluate(node.value)
        self.assign(node.target, self.run.expressions.binary(node.op, old, by))

    def s_decl(self, node: ir.Decl) -> None:
        scalar = node.init is not None and not isinstance(node.init, ir.Seq) and not (node.type and node.type.dims)
        self.run.computed(node.init)
        dtype = self.run.element(node.type) if self.run.cpp and node.type and not node.type.pointers else None
        refers = self.run.cpp and node.type is not None and node.type.reference
        if refers:
            self.run.frame.env[node.name] = self.run.referred(node.init)
        else:
            found = self._held(self.evaluate(node.init), dtype) if scalar else self.run.unknown()
            self.run.frame.env[node.name] = found
        if dtype is not None and not refers:
            self.run.frame.declared[node.name] = dtype
        else:
            self.run.frame.declared.pop(node.name, None)

    def _held(self, value: Value, dtype: str | None) -> Value:
        """What a variable that was declared of an element type holds of a value: a narrow type does not hold all."""
        if not isinstance(value, Linear) or dtype is None:
            return value
        if dtype in dtypes.INTS:
            return self.run.expressions.held(value, dtype)
        return self.run.unknown() if value.terms else value

    def s_expr(self, node: ir.ExprS) -> None:
        """Executes a statement that is an expression: a store, an assignment, or anything else."""
        run, value = self.run, node.value
        if isinstance(value, ir.AssignE) and isinstance(value.target, ir.Name):
            run.computed(value.value)
            new = self.evaluate(value.value)
            if value.op:
                new = run.expressions.binary(value.op, self.evaluate(value.target), new)
            self.assign(value.target, new)
            return
        if isinstance(value, ir.AssignE):
            self._element(value.target, value.loc)
        elif isinstance(value, ir.Call) and not run.cpp and value.args:
            if run.expressions.called(value.func) == "store":
                self._store(value)
        run.computed(value)

    def _store(self, node: ir.Call) -> None:
        """`tl.store(pointer, value, mask)`."""
        run = self.run
        mask = dict(node.keywords).get("mask", node.args[2] if len(node.args) > 2 else None)
        limits, doubt = run.limits, run.doubt
        if mask is not None:
            test = self.evaluate(mask)
            run.limits, run.doubt = run.under(test, limits), doubt or run.doubts(test)
        run.stored(self.evaluate(node.args[0]), node.loc)
        run.limits, run.doubt = limits, doubt

    def _element(self, target: object, loc: ir.Loc) -> None:
        """A store to `target` if it is an element of memory."""
        if isinstance(target, ir.Index):
            where = self.run.expressions.binary("+", self.evaluate(target.value), self.evaluate(target.index))
            self.run.stored(where, loc, target.loc)

    def s_block(self, node: ir.Block) -> Exit:
        inner = {n.name for n in node.body if isinstance(n, ir.Decl)}
        if len(inner) == len(node.body):  # one declaration of several names
            return self.block(node.body)
        before, declared = (dict(self.run.frame.env), dict(self.run.frame.declared)) if inner else ({}, {})
        why = self.block(node.body)
        self.run.forget(inner)
        if inner:
            self.run.frame.declared = declared
        self.run.passed({name: before[name] for name in inner & before.keys()})
        return why

    def s_cfor(self, node: ir.CFor) -> Exit:
        before = dict(self.run.frame.env)
        why = super().s_cfor(node)
        self.run.passed(before)
        return why

    def result(self, node: ir.Return) -> None:
        self.run.computed(node.value)

    def s_asm(self, node: ir.Asm) -> None:
        self.run.assigned(node)

    def s_class(self, node: ir.ClassDef) -> None:
        self.run.assigned(node)
        if self.run.types is not None:
            self.run.types.declare(node)

    def s_using(self, node: ir.Using) -> None:
        if self.run.types is not None:
            self.run.types.declare(node)

    def s_func(self, node: ir.FuncDef) -> None:
        self.run.assigned(node)

    def s_opaque(self, node: ir.Opaque) -> Exit:
        self.run.assigned(node)
        return None

    def s_try(self, node: ir.Try) -> Exit:
        self.run.assigned(node)
        return None


def unpacked(stmt: ir.Assign) -> list[tuple[ir.Expr, ir.Expr]]:
    """The pairs of name and value in `a, b = x, y`; none for any other assignment."""
    target = stmt.targets[0]
    if len(stmt.targets) != 1 or not isinstance(target, ir.Seq) or not isinstance(stmt.value, ir.Seq):
        return []
    plain = all(isinstance(item, ir.Name) for item in target.items)
    whole = not any(isinstance(item, ir.Star) for item in stmt.value.items)
    same = len(target.items) == len(stmt.value.items)
    return list(zip(target.items, stmt.value.items, strict=True)) if plain and whole and same else []


def own_expressions(stmt: object) -> Iterator[object]:
    """The expressions that a statement computes itself, once and before all else."""
    if isinstance(stmt, ir.Decl) and stmt.type is not None and stmt.type.reference:
        yield from () if stmt.init is None else _within(stmt.init)
    elif isinstance(stmt, ir.Decl):
        yield stmt.init
    elif isinstance(stmt, ir.Assign) and unpacked(stmt):
        yield from (value for _, value in unpacked(stmt))
    elif isinstance(stmt, ir.Assign):
        yield stmt.value
        for target in stmt.targets:
            if isinstance(target, ir.Index):
                yield target.index
            elif isinstance(target, ir.Unary) and target.op == "*":
                yield target.value
            elif not isinstance(target, (ir.Name, ir.Seq, ir.Attr)):
                yield target
    elif isinstance(stmt, ir.AugAssign):
        yield stmt
    elif isinstance(stmt, ir.If):
        yield stmt.test
    elif isinstance(stmt, ir.For):
        yield stmt.iterable
    elif isinstance(stmt, ir.ExprS):
        yield stmt.value


def _within(place: object) -> Iterator[object]:
    """What is computed to come to a place, which is not read."""
    while isinstance(place, ir.Attr):
        place = place.value
    if isinstance(place, ir.Index):
        yield place.index
    yield place.value if isinstance(place, (ir.Index, ir.Unary)) else place
