"""Names of a kernel that is written in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir, values
from kbh_lint.kernels.core.joins import join, tuple_of
from kbh_lint.kernels.core.names import Names
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, V, constant
from kbh_lint.kernels.languages.python.functions import PYTHON

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.python.run import PythonRun


class PythonNames(Names):
    """Python's scopes, and assignments to items."""

    run: PythonRun

    def outer_value(self, value: object) -> V:
        if value is values.UNKNOWN:
            return UNKNOWN_V
        if isinstance(value, (tuple, list)):
            return tuple_of([self.outer_value(item) for item in value[:512]])
        return constant(value)

    def missing(self, name: str, loc: ir.Loc) -> V:
        return constant(values.Sym("builtins." + name)) if name in PYTHON else UNKNOWN_V

    def assign_other(self, target: ir.Expr, value: V) -> None:
        """Executes `xs[i] = value`, on a list, a list of lists or a tile."""
        if not isinstance(target, ir.Index):
            return
        base = self.run.expressions.eval(target.value)
        if not isinstance(base.x, tuple):
            self.assign(target.value, join(base, value.with_(const=NOTHING, shape=base.shape, x=None)))
            return
        index = NOTHING if isinstance(target.index, ir.SliceE) else self.run.expressions.eval(target.index).const
        if isinstance(index, int) and -len(base.x) <= index < len(base.x):
            index %= len(base.x)
            changed = [value if i == index else item for i, item in enumerate(base.x)]
        else:
            changed = [join(item, value) for item in base.x]
        self.assign(target.value, tuple_of(changed, base.deps))
