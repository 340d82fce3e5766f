"""Names in kernels on tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir, values
from kbh_lint.dsl.tensors import kinds
from kbh_lint.dsl.tensors.rows import array_of
from kbh_lint.kernels.core.value import HANDLE, UNKNOWN_V, Struct, V, constant
from kbh_lint.kernels.languages.python.names import PythonNames

if TYPE_CHECKING:
    from kbh_lint.dsl.tensors.run import TensorRun


_PLAIN = (int, float, str, bytes, values.DType, values.Sym, values.Func, values.Made, values.JitFunction)


class TensorNames(PythonNames):
    """Converts host values that a kernel sees, and stores through items and attributes."""

    run: TensorRun

    def outer_value(self, value: object) -> V:
        if value is None or isinstance(value, (*_PLAIN, tuple, list)) or value is values.UNKNOWN:
            return super().outer_value(value)
        seen = self.run.convert_outer(value) if self.run.convert_outer is not None else values.UNKNOWN
        return V(x=HANDLE) if seen is values.UNKNOWN else constant(seen)

    def assign_other(self, target: ir.Expr, value: V) -> None:
        if isinstance(target, ir.Attr):
            base = self.run.expressions.eval(target.value)
            if isinstance(base.const, kinds.Object):
                self.run.objects.set_attribute(base.const, target.name, value)
            elif isinstance(base.x, Struct):
                self.assign(target.value, base.with_(x=Struct({**base.x.fields, target.name: value}, base.x.type)))
            return
        base = array_of(self.run.expressions.eval(target.value)) if isinstance(target, ir.Index) else UNKNOWN_V
        if not base.cells or not isinstance(target, ir.Index):
            if base.x is HANDLE or isinstance(base.const, values.Made):
                self.run.facts.unread("a store to memory that is not known", target.loc)
            else:
                super().assign_other(target, value)
            return
        index, _ = self.run.expressions.coordinate(target.index)
        if value.cells and not all(cell.kind == "param" and value.dtype == "i64" for cell in value.cells):
            value = self.run.memory.load(value, "?", target.loc)
        place = self.run.expressions.placed(base, index)
        self.run.memory.target = target
        self.run.memory.store(place, value, target.loc)
        self.run.memory.target = None
