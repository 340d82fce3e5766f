"""Statements of a kernel, run for one lane: the values are numbers, pointers and structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir, values
from kbh_lint.base.values import UNKNOWN, Value
from kbh_lint.cpp import templates
from kbh_lint.kernels.core.walker import Exit, Walker
from kbh_lint.kernels.numeric import ctypes, places
from kbh_lint.kernels.numeric.asm import run_asm
from kbh_lint.kernels.numeric.control import OneLane
from kbh_lint.kernels.numeric.state import Closure, Frame, Reference

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbh_lint.kernels.numeric.machine import Machine


class Statements(Walker[Any, Frame]):
    """Executes the statements of a kernel for one lane, in the frame that the machine holds."""

    def __init__(self, m: Machine) -> None:
        super().__init__(m)
        self.m = m
        self.control = OneLane(m)

    def step(self) -> None:
        self.m.spend()

    def evaluate(self, node: ir.Expr) -> Any:
        return self.m.expressions.evaluate(node, self.m.frame)

    def assign(self, target: ir.Expr, value: object) -> None:
        self.m.places.assign(target, value, self.m.frame)

    def enter_scope(self) -> None:
        self.m.frame.scopes.append({})

    def leave_scope(self) -> None:
        self.m.frame.scopes.pop()

    def side(self, body: Iterable[Value] | None) -> Exit:
        """Executes statements, in a scope of their own if the language is C++; returns how control leaves."""
        return self.scoped(body) if self.m.frame.cpp else self.block(body)

    def s_augassign(self, node: ir.AugAssign) -> None:
        self.m.places.update(node.target, node.op, self.evaluate(node.value), node, self.m.frame)

    def s_decl(self, node: ir.Decl) -> None:
        frame = self.m.frame
        if frame.cpp and node.name:
            value = frame.scopes[-1][node.name] = self.m.ctypes.declared(node, frame)
            if value is UNKNOWN and node.type is not None:
                frame.scopes[-1][places.TYPE + node.name] = self.m.ctypes.resolve(node.type, frame)

    def result(self, node: ir.Return) -> None:
        frame = self.m.frame
        where = self.m.places.place(node.value, frame) if frame.by_place and node.value is not None else None
        if where is not None:
            frame.result = Reference(where)
        else:
            frame.result = None if node.value is None else self.evaluate(node.value)

    def s_asm(self, node: ir.Asm) -> None:
        run_asm(self.m, node, self.m.frame)

    def s_using(self, node: ir.Using) -> None:
        if node.type is not None:
            frame = self.m.frame
            held = templates.brought_in(node, frame.env.get(node.type.name))
            frame.scopes[-1][node.name] = held or values.TypeValue(node.type, ctypes.scope_env(frame))

    def s_func(self, node: ir.FuncDef) -> None:
        frame = self.m.frame
        frame.scopes[-1][node.name] = Closure(node, frame)

    def s_class(self, node: ir.ClassDef) -> None:
        frame = self.m.frame
        frame.scopes[-1][node.name] = values.CppType(node, ctypes.scope_env(frame))

    def s_opaque(self, node: ir.Opaque) -> Exit:
        self.m.note(f"not read: {node.reason}", node)
        return self.block(child for child in node.children if type(child) in self.statements)
