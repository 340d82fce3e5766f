"""Statements that C++ has: declarations, classes, typed returns, assembly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir, values
from kbh_lint.cpp import templates
from kbh_lint.kernels.core.fixpoint import FixPoint
from kbh_lint.kernels.core.joins import join
from kbh_lint.kernels.core.rounds import same_place
from kbh_lint.kernels.core.statements import Statements
from kbh_lint.kernels.core.value import NOTHING, TWIDDLED, CType, Mul, Struct, V
from kbh_lint.kernels.core.walker import Exit
from kbh_lint.kernels.languages.cuda.numbers import is_struct
from kbh_lint.kernels.languages.cuda.places import PLACES
from kbh_lint.kernels.languages.cuda.types import is_pointer
from kbh_lint.kernels.languages.ptx.ptx import run_asm

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun


class CudaStatements(Statements):
    """Executes statements of C++."""

    run: CudaRun

    def __init__(self, run: CudaRun, control: FixPoint | None = None) -> None:
        super().__init__(run, control)
        self.local_classes: dict[object, values.CppType] = {}

    def execute(self, node: ir.Stmt) -> Exit:
        self.run.place = node.loc
        return super().execute(node)

    def s_decl(self, node: ir.Decl) -> None:
        frame = self.run.frame
        name = node.name
        if frame.shadowed and name not in frame.shadowed[-1]:
            frame.shadowed[-1][name] = frame.env.get(name)
        ref = node.type
        ct = self.run.types.resolve_type(ref) if ref is not None else CType()
        if node.storage & {"__shared__"}:
            frame.env[name] = self.run.objects.shared(node, ct)
            return
        init = node.init
        if ct.dims:
            frame.env[name] = (
                self.run.objects.array(node, ct)
                if init is None or isinstance(init, ir.Seq)
                else self.run.objects.rows(node, init, ct)
            )
            return
        if init is None:
            frame.env[name] = self.run.objects.default_value(ct, id(node))
            return
        if ref is not None and ref.reference and not isinstance(init, ir.Seq):
            frame.env[name] = self.run.objects.reference(init, ct)
            return
        value = self.run.objects.initialized(name, ct, init, node)
        frame.env[name] = self.run.fields.given_struct(value)

    def s_using(self, node: ir.Using) -> None:
        if node.type is not None and node.name:
            held = templates.brought_in(node, self.run.frame.outer.get(node.type.name))
            meant = self.run.types.resolve_type(node.type) if held is None else CType(name=node.name, decl=held)
            self.run.frame.env[node.name] = V(const=meant)
        elif node.namespace:
            self.run.types.directives = (*self.run.types.directives, node.namespace)

    def s_class(self, node: ir.ClassDef) -> None:
        """Defines a class inside a function, which can use the types and constants of the function."""
        frame, cpp = self.run.frame, self.run.types.cpp
        seen = {name: value for name, value in frame.env.items() if value.const is not NOTHING}
        key = (id(node), id(frame.outer), tuple([(name, cpp.same(value)) for name, value in seen.items()]))
        made = self.local_classes.get(key)
        if made is None:
            made = self.local_classes[key] = values.CppType(node, values.Env(seen, frame.outer))
            made.env.vars[node.name] = made
        frame.env[node.name] = V(const=CType(name=node.name, decl=made))

    def result(self, node: ir.Return) -> None:
        if node.value is None:
            return
        func = self.run.frame.func
        returns = func.node.returns if isinstance(func, values.Func) else None
        if isinstance(returns, ir.TypeRef) and returns.reference and isinstance(node.value, PLACES):
            value = self._referred(node.value)
        else:
            value = self.run.expressions.eval(node.value)
        if isinstance(returns, ir.TypeRef) and returns.name not in ("auto", "void", "decltype"):
            ct = self.run.types.resolve_type(returns)
            if isinstance(value.x, tuple):
                value = self.run.objects.construct(ct, list(value.x), node.loc, id(node), "", [None] * len(value.x))
            elif is_pointer(ct) or (ct.dtype not in ("?", "") and not isinstance(value.x, Struct)):
                mark = value.x if isinstance(value.x, Mul) or value.x is TWIDDLED else None
                value = self.run.objects.cast_to(value, ct, node.loc)
                if mark is not None and value.x is None and value.dtype == ct.dtype and isinstance(mark, Mul):
                    value = value.with_(x=mark)
            else:
                value = self.run.objects.converted(value, ct, node.loc)
        self.returned(value)

    def _referred(self, node: ir.Expr) -> V:
        """What lies where a returned reference refers to: whoever asks for the place alone loads nothing from there."""
        frame, facts = self.run.frame, self.run.facts
        place, made = self.run.memory.address_of(node), len(facts.made)
        value = self.run.expressions.eval(node)
        if place.cells and is_pointer(place.ct):
            frame.place = place if frame.place is None else join(frame.place, place)
            frame.looked.extend((key, facts.loads[key]) for key in facts.made[made:] if key in facts.loads)
        return value

    def s_asm(self, node: ir.Asm) -> None:
        run_asm(self.run, node)

    def s_augassign(self, node: ir.AugAssign) -> None:
        old, own = self.evaluate(node.target), f"operator{node.op}="
        if is_struct(old) and old.ct is not None and self.run.names.methods(old.ct, own):
            self.run.calls.call_method(old, own, [self.evaluate(node.value)], (), node.target, node.loc)
        else:
            self.assign(node.target, self.run.numbers.augmented(node.op, old, self.evaluate(node.value), node.loc))

    def self_addition(self, target: object, value: object) -> V | None:
        if isinstance(target, ir.Name):
            known = self.run.frame.env.get(target.id)
            if known is not None and is_struct(known):
                return None
        made = super().self_addition(target, value)
        if made is not None or not isinstance(target, ir.Index) or not isinstance(value, ir.Binary):
            return made
        if value.op == "+" and isinstance(value.left, ir.Index) and same_place(value.left, target):
            return self.run.numbers.augmented(
                "+", self.run.expressions.eval(value.left), self.run.expressions.eval(value.right), value.loc
            )
        return None
