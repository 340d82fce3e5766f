"""Statements of kernels on tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir, values
from kbh_lint.dsl.tensors import kinds
from kbh_lint.kernels.core.fixpoint import FixPoint
from kbh_lint.kernels.core.statements import Statements
from kbh_lint.kernels.core.value import UNKNOWN_V, V, constant
from kbh_lint.kernels.core.walker import Exit

if TYPE_CHECKING:
    from kbh_lint.dsl.tensors.run import TensorRun


class TensorControl(FixPoint):
    """Control flow in which each iteration of an unrolled loop allocates memory of its own."""

    run: TensorRun

    def unrolled(self, node: ir.For, items: tuple[V, ...]) -> Exit:
        if node.orelse or len(items) < 2:
            return super().unrolled(node, items)
        for at, item in enumerate(items):
            self.run.unrolled.append(at)
            super().unrolled(node, (item,))
            self.run.unrolled.pop()
        return None


class TensorStatements(Statements):
    """Executes statements in which a class definition may describe memory."""

    run: TensorRun

    def __init__(self, run: TensorRun) -> None:
        super().__init__(run, TensorControl(run))

    def s_class(self, node: ir.ClassDef) -> None:
        """Defines a `@cute.struct` inside a kernel, whose fields are memory."""
        fields = tuple((s.name, self.element_type(s.annotation)) for s in node.body if isinstance(s, ir.Decl))
        self.run.frame.env[node.name] = constant(kinds.StructType(fields=fields))

    def element_type(self, node: ir.Expr | None) -> Any:
        """The element type of a field annotated as `cute.struct.Align[cute.struct.MemRange[T, n], 128]` or as `T`."""
        while isinstance(node, ir.Index):
            inner = node.index.items[0] if isinstance(node.index, ir.Seq) else node.index
            outer = node.value
            if not isinstance(outer, ir.Attr) or outer.name not in ("MemRange", "Align"):
                break
            node = inner
        value = self.run.expressions.eval(node) if node is not None else UNKNOWN_V
        return value.const if isinstance(value.const, values.DType) else values.DType("?")
