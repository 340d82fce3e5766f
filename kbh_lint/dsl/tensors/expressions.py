"""Expressions of kernels on tensors: an index is an element, or makes a view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir, values
from kbh_lint.dsl.tensors import kinds
from kbh_lint.dsl.tensors.rows import array_of
from kbh_lint.kernels.core.joins import tuple_of
from kbh_lint.kernels.core.origins import flagged, union
from kbh_lint.kernels.core.value import HANDLE, NOTHING, UNKNOWN_V, Struct, Unbound, V, constant, leaves
from kbh_lint.kernels.languages.python.call import Call
from kbh_lint.kernels.languages.python.expressions import PythonExpressions

if TYPE_CHECKING:
    from kbh_lint.dsl.tensors.run import TensorRun


_TYPE_NAMES = frozenset(("element_type", "dtype", "value_type"))
_PARTS = {"atom": 0, "tma_tensor": 1}  # of what makes a TMA atom
_SELF_NAMES = frozenset(("iterator", "ptr", "data", "value", "ir_value", "T", "llvm_ptr"))
_SIZE_NAMES = frozenset(
    ("shape", "stride", "strides", "layout", "leading_dim", "alignment", "memspace", "type", "size", "ndim", "nbytes")
)


class TensorExpressions(PythonExpressions):
    """Evaluates attributes, items and calls of tensors."""

    run: TensorRun

    def type_attribute(self, dtype: values.DType, name: str, deps: frozenset[str]) -> V:
        return _type_attribute(dtype, name)

    def value_attribute(self, base: V, node: ir.Attr) -> V:
        const = base.const
        if isinstance(const, values.Made):
            return self.run.objects.made_attribute(base, const, node)
        if isinstance(base.x, Struct):
            return base.x.fields.get(node.name, UNKNOWN_V)
        if node.name in _TYPE_NAMES:
            return constant(values.DType(base.dtype)) if base.dtype not in ("?", "") else UNKNOWN_V
        if isinstance(base.x, tuple) and node.name in _PARTS and len(base.x) > _PARTS[node.name]:
            item: V = base.x[_PARTS[node.name]]
            return item
        if node.name in _SIZE_NAMES:
            return V("i32", "i32")
        if node.name in _SELF_NAMES:
            return base
        return V(x=HANDLE)

    def coordinate(self, node: ir.Expr) -> tuple[V, bool]:
        """The value of an index, and whether it leaves a mode open, so that indexing with it makes a view."""
        if isinstance(node, ir.SliceE):
            return UNKNOWN_V, True
        if isinstance(node, ir.Seq):
            parts = [self.coordinate(item) for item in node.items]
            return tuple_of([value for value, _ in parts]), any(open_ for _, open_ in parts)
        value = self.eval(node)
        return value, any(leaf.const is None for leaf in leaves(value))

    def placed(self, base: V, index: V) -> V:
        """The tensor `base` at the coordinate `index`: loads through it also depend on the data of the coordinate."""
        origins = base.origins
        for leaf in leaves(index):
            origins = union(origins, leaf.origins)
        return base.with_(origins=origins, shape=None)

    def e_index(self, node: ir.Index) -> V:
        base = array_of(self.eval(node.value))
        if isinstance(base.x, tuple) or isinstance(base.const, (values.Sym, values.DType)):
            return base if base.known else super().e_index(node)
        index, is_view = self.coordinate(node.index)
        if isinstance(base.const, kinds.Table):
            found = index.known and any(key == index.const for key, _ in base.const.fields)
            return self.run.calls.bind_argument(str(index.const), base.const.get(index.const)) if found else V(x=HANDLE)
        if base.cells:
            at = self.placed(base, index)
            if is_view:
                return at
            made = self.run.memory.load(at, "?", node.loc).with_(const=NOTHING)
            return self.run.rows.read(made, at) if self.run.language.rows else made
        if isinstance(base.const, kinds.Constants):
            dtype = base.const.get("dtype")
            memory = self.run.memory.tensor("local", dtype, node.loc, f"constants of {dtype}", one=True)
            return base if is_view else self.run.memory.load(self.placed(memory, index), "?", node.loc)
        if isinstance(base.x, Unbound):
            self.run.facts.unread(f"what the argument {base.x.path} holds", node.loc)
        if base.x is HANDLE and self.run.language.rows:
            self.run.facts.unread("what a value of the host holds", node.loc)
        if isinstance(base.const, values.Made):
            coordinates = isinstance(base.const, kinds.Coordinates) and not is_view
            return V("i32", "i32", shape=()) if coordinates else base
        return base.with_(const=NOTHING, origins=union(base.origins, flagged(index.origins, "index")))

    def region(self, node: ir.Expr) -> V:
        """The value of an argument of a tile operation: `A[m, k]` stands for the tile that begins there."""
        if isinstance(node, ir.Index):
            base = self.eval(node.value)
            if base.cells:
                return self.placed(base, self.coordinate(node.index)[0])
        return self.eval(node)

    def e_call(self, node: ir.Call) -> V:
        func, language = node.func, self.run.language
        if isinstance(func, ir.Attr) and func.name in language.regions:
            base = self.eval(func.value).const
            if isinstance(base, values.Sym) and language.owns(base.path):
                named = {name: self.region(value) for name, value in node.keywords if name is not None}
                args = [self.region(arg) for arg in node.args]
                return self.run.calls.symbol(f"{base.path}.{func.name}", Call(self.run, args, named, node, func.name))
        return super().e_call(node)


def _type_attribute(dtype: values.DType, name: str) -> V:
    """`Float32.width`, `Float32.inf`."""
    bits = dtypes.BITS.get(dtype.name)
    if name == "width" and bits is not None:
        return constant(bits if dtype.name != "bool" else 1)
    if name in ("is_float", "is_integer"):
        return constant((dtype.name in dtypes.FLOATS) == (name == "is_float"))
    if name in ("inf", "nan", "zero"):
        return V(dtype.name, dtype.name, const=float(name.replace("zero", "0")), shape=())
    return constant(dtype) if name in ("mlir_type", "dtype") else UNKNOWN_V
