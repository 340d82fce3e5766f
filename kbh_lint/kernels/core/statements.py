"""Statements of kernel code as abstract values see them: assignments, results of functions, functions inside others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.kernels.core.fixpoint import FixPoint
from kbh_lint.kernels.core.frames import Frame
from kbh_lint.kernels.core.joins import join
from kbh_lint.kernels.core.value import V
from kbh_lint.kernels.core.walker import Enough, Exit, OutOfFuel, Walker

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


OFTEN = 8  # steps from one look at what was reached to the next


class Statements(Walker[V, Frame]):
    """Executes the statements of a kernel on abstract values; languages derive from it for statements and control flow
    of their own."""

    control: FixPoint

    def __init__(self, run: Run, control: FixPoint | None = None) -> None:
        super().__init__(run)
        self.run = run
        self.control = control or FixPoint(run)

    def step(self) -> None:
        run = self.run
        run.fuel -= 1
        if run.fuel < 0:
            raise OutOfFuel
        if run.until and not run.fuel % OFTEN and run.until <= run.facts.reached():
            raise Enough

    def evaluate(self, node: ir.Expr) -> V:
        return self.run.expressions.eval(node)

    def assign(self, target: ir.Expr, value: V) -> None:
        self.run.names.assign(target, value)

    def enter_scope(self) -> None:
        self.run.names.enter_scope()

    def leave_scope(self) -> None:
        self.run.names.leave_scope()

    def s_assign(self, node: ir.Assign) -> None:
        value = self.self_addition(node.targets[0], node.value)
        if value is None:
            value = self.evaluate(node.value)
        for target in node.targets:
            self.assign(target, value)

    def self_addition(self, target: object, value: object) -> V | None:
        """The value of `x` after `x = x + e` or `x = e + x`, evaluated as `x += e`; None for any other assignment."""
        if not isinstance(value, ir.Binary) or value.op not in ("+", "-") or not isinstance(target, ir.Name):
            return None
        for own, other in ((value.left, value.right), (value.right, value.left)):
            if isinstance(own, ir.Name) and own.id == target.id:
                return self.run.numbers.augmented(value.op, self.evaluate(own), self.evaluate(other), value.loc)
        return None

    def s_augassign(self, node: ir.AugAssign) -> None:
        old = self.evaluate(node.target)
        self.assign(node.target, self.run.numbers.augmented(node.op, old, self.evaluate(node.value), node.loc))

    def result(self, node: ir.Return) -> None:
        if node.value is not None:
            self.returned(self.evaluate(node.value))

    def returned(self, value: V) -> None:
        """Adds `value` to the values that the running function may return."""
        frame = self.run.frame
        frame.returned = value if frame.returned is None else join(frame.returned, value)

    def s_func(self, node: ir.FuncDef) -> None:
        self.run.frame.env[node.name] = self.run.names.closure(node)

    def s_opaque(self, node: ir.Opaque) -> Exit:
        self.run.expressions.e_opaque(node)
        return None
