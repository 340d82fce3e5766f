"""Expressions of Python: attributes, items, calls, and what does not depend on an operand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir, values
from kbh_lint.frontends.walk import by_node
from kbh_lint.kernels.core.expressions import Expressions
from kbh_lint.kernels.core.identities import Identities, nothing_left
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, Struct, Unbound, V, constant
from kbh_lint.kernels.languages.python import rising
from kbh_lint.kernels.languages.python.call import Call

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.python.run import PythonRun


_identities = by_node(Identities)


class PythonExpressions(Expressions):
    """Evaluates expressions of Python; a language says what its own names are."""

    run: PythonRun

    def identities(self) -> Identities:
        """The identities that hold in the running function."""
        func = self.run.frame.func
        assert func is not None, "a function runs"
        return _identities(func.node)

    def e_cond(self, node: ir.Cond) -> V:
        self.run.statements.control.doubtful += 1
        made = super().e_cond(node)
        self.run.statements.control.doubtful -= 1
        kept = self.identities().kept(node.test, node.yes, node.no) if made.origins and self.run.frame.func else None
        return made if kept is None else self.eval(kept)

    def e_binary(self, node: ir.Binary) -> V:
        made = super().e_binary(node)
        if self.run.ranges.rising and made.origins and self.run.frame.func is not None:
            made = rising.subtracted(self.run, self.identities(), node, made)
        gone = made.origins and made.dtype in dtypes.INTS and not made.cells and nothing_left(node)
        return V(made.dtype, made.dtype, shape=made.shape) if gone else made

    def e_compare(self, node: ir.Compare) -> V:
        made = super().e_compare(node)
        if self.run.ranges.rising and made.origins and self.run.frame.func is not None:
            answer = rising.compared(self.run, self.identities(), node)
            return made if answer is None else V("bool", "bool", const=answer, shape=made.shape)
        return made

    def e_attr(self, node: ir.Attr) -> V:
        base = self.eval(node.value)
        const = base.const
        if isinstance(const, values.Sym):
            return self.run.language.attribute(const.path, node.name, base.deps)
        if isinstance(const, values.DType):
            return self.type_attribute(const, node.name, base.deps)
        beside = values.module_names(const)
        if beside is not None:
            return self.run.names.outer_value(beside.get(node.name, values.UNKNOWN))
        return self.value_attribute(base, node)

    def type_attribute(self, dtype: values.DType, name: str, deps: frozenset[str]) -> V:
        """The value of the attribute `name` of an element type."""
        return dtype_attribute(dtype.name, name, deps)

    def value_attribute(self, base: V, node: ir.Attr) -> V:
        """The value of `x.dtype`, `x.T`, `x.shape`, or of a field of a struct."""
        name = node.name
        if name in ("dtype", "type", "element_ty", "elem_type"):
            known = base.dtype not in ("?", "")
            deps = frozenset(cell.name for cell in base.cells) | base.deps
            return constant(values.DType(base.dtype), deps) if known else UNKNOWN_V
        if name == "T":
            return base if base.shape is None else base.with_(shape=base.shape[::-1])
        if name == "shape" and isinstance(base.x, tuple):  # of `block_type`
            return base
        if name == "shape":
            return V(x=tuple(V("i32", const=NOTHING if n is None else n) for n in base.shape or ()), deps=base.deps)
        if name == "value":
            return base
        if name in ("block_shape", "block_type"):
            return V(x=tuple(constant(n) for n in base.shape or ()))
        if isinstance(base.x, Struct):
            return base.x.fields.get(name, UNKNOWN_V)
        if isinstance(base.x, Unbound):
            return V(x=Unbound(f"{base.x.path}.{name}"))
        return base.with_(const=NOTHING, x=None, shape=None)

    def e_index(self, node: ir.Index) -> V:
        base = self.eval(node.value)
        if isinstance(base.x, tuple):
            if isinstance(node.index, ir.SliceE):
                return self._tuple_slice(base, node.index)
            index = UNKNOWN_V if isinstance(node.index, ir.Seq) else self.eval(node.index)
            if isinstance(index.const, int) and -len(base.x) <= index.const < len(base.x):
                self.run.facts.decide(index)
                item: V = base.x[index.const]
                return item
            return mix(list(base.x))
        return self.run.tiles.sliced(base, list(node.index.items) if isinstance(node.index, ir.Seq) else [node.index])

    def _tuple_slice(self, base: V, node: ir.SliceE) -> V:
        bounds = [None if part is None else self.eval(part).const for part in (node.lower, node.upper, node.step)]
        if all(b is None or isinstance(b, int) for b in bounds) and bounds[2] != 0:
            return V(x=base.x[bounds[0] : bounds[1] : bounds[2]])
        return base

    def e_call(self, node: ir.Call) -> V:
        args = self.items(node.args)
        kwargs = {name: self.eval(value) for name, value in node.keywords if name is not None}
        func = node.func
        if isinstance(func, ir.Attr):
            base = self.eval(func.value)
            outside = isinstance(base.const, (values.Sym, values.DType)) or values.module_names(base.const) is not None
            if not outside:
                return self.run.calls.method(base, func.name, Call(self.run, args, kwargs, node, func.name))
        callee = self.eval(func)
        return self.run.calls.call_value(callee, Call(self.run, args, kwargs, node))


def dtype_attribute(dtype: str, name: str, deps: frozenset[str]) -> V:
    """The value of an attribute of an element type, such as `dtype.element_ty`. For `dtype.is_fp8` it is a symbol, as
    the call is handled elsewhere."""
    if name in ("element_ty", "scalar", "dtype"):
        return constant(values.DType(dtype), deps)
    if name in ("primitive_bitwidth", "itemsize"):
        bits = dtypes.BITS.get(dtype)
        if bits is None:
            return UNKNOWN_V
        return constant(bits if name == "primitive_bitwidth" else bits // 8, deps)
    return constant(values.Sym(f"dtype.{dtype}.{name}"), deps)


_KINDS = {
    "is_fp8": dtypes.FP8, "is_floating": dtypes.FLOATS, "is_int": dtypes.INTS - {"bool"}, "is_fp16": {"f16"},
    "is_bf16": {"bf16"}, "is_fp32": {"f32"}, "is_fp64": {"f64"}, "is_int1": {"bool"}, "is_bool": {"bool"},
    "is_int_signed": {"i8", "i16", "i32", "i64"}, "is_int_unsigned": {"bool", "u8", "u16", "u32", "u64"},
    "is_standard_floating": {"f16", "bf16", "f32", "f64"}, "is_fp8e4nv": {"e4m3"}, "is_fp8e5": {"e5m2"},
    "is_ptr": set(), "is_block": set(), "is_void": set(),
    **{f"is_int{bits}": {f"i{bits}"} for bits in (8, 16, 32, 64)},
    **{f"is_uint{bits}": {f"u{bits}"} for bits in (8, 16, 32, 64)},
}  # fmt: skip


def asked_of_type(dtype: str, name: str = "") -> bool | None:
    """The result of `dtype.is_fp8()` and the like; None for other methods and unknown types."""
    kinds = _KINDS.get(name)
    return None if kinds is None or dtype not in dtypes.BITS else dtype in kinds
