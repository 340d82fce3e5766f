"""Names, members, indices and operators of CUDA C++."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp import traits
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, CType, Offset, Struct, V, constant
from kbh_lint.kernels.languages.cuda.memory import CudaMemory
from kbh_lint.kernels.languages.cuda.places import Ref
from kbh_lint.kernels.languages.cuda.types import element, is_pointer, pointer_to

_NAMES = (CType, values.Sym)
_INDICES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim", "clusterIdx"})
_NUMBERS = {
    "INFINITY": float("inf"), "HUGE_VALF": float("inf"), "FLT_MAX": 3.4028235e38, "CUDART_INF_F": float("inf"),
    "NAN": float("nan"), "CUDART_NAN_F": float("nan"), "FLT_MIN": 1.1754944e-38, "FLT_EPSILON": 1.1920929e-07,
    "M_LOG2E": 1.4426950408889634, "M_LN2": 0.6931471805599453, "M_PI": 3.141592653589793,
}  # fmt: skip
_LIMITS = {"INT_MAX": 2**31 - 1, "INT_MIN": -(2**31), "UINT_MAX": 2**32 - 1, "UINT32_MAX": 2**32 - 1, "warpSize": 32}


class CudaNames(CudaMemory):
    """What names, members, indices and operators mean."""

    def call_overloads(
        self, funcs: list[values.Func], args: list[V], explicit: tuple[Any, ...], nodes: list[Any], loc: ir.Loc,
        *, this: V | None = None, extra: dict[str, V] | None = None,
    ) -> V:  # fmt: skip
        """Chooses an overload, binds its parameters and runs it."""
        raise NotImplementedError

    def call_method(
        self, base: V, name: str, args: list[V], explicit: tuple[Any, ...], target: Any, loc: ir.Loc,
        nodes: list[Any] | None = None,
    ) -> V:  # fmt: skip
        """`base.name(args)`."""
        raise NotImplementedError

    # --- names ---

    def e_name(self, node: ir.Name) -> V:
        name = node.id
        value = self.frame.env.get(name)
        if value is None:
            return self.unscoped(name, node.loc)
        if isinstance(value.x, Ref):
            return self.read_through(value.x.pointer, node.loc)
        return value

    def unscoped(self, name: str, loc: ir.Loc) -> V:
        """A name that is no local: a member of this struct, something global, a built-in."""
        if name == "this":
            return self.frame.this if isinstance(self.frame.this, V) else UNKNOWN_V
        this = self.this_type()
        if this is not None:
            found = self.member(self.frame.this, this, name, loc)
            if found is not None:
                return found
        if "::" in name:
            scoped = self._scoped_value(name, loc)
            if scoped is not None:
                return scoped
        return self.outer(name, loc)

    def member(self, this: V | None, ct: CType, name: str, loc: ir.Loc) -> V | None:
        """A field, a static constant or a template argument of a struct."""
        for key, value in ct.args:
            if key == name and isinstance(value, V):
                return value
        node = self.field_decl(ct, name)
        if node is None:
            return None
        if node.storage & {"static", "constexpr"} and node.init is not None:
            return self._static(ct, node)
        if this is None:
            return None
        return self.field_of(self.read_through(this, loc), name, loc)

    def _static(self, ct: CType, node: ir.Decl) -> V:
        saved, outer = self.frame.env, self.frame.outer
        self.frame.env, self.frame.outer = dict(ct.args), ct.decl.env
        this, self.frame.this = self.frame.this, V(ct=replace(ct, pointers=1))
        try:
            init = node.init
            value = self.eval(init.items[0] if isinstance(init, ir.Seq) and len(init.items) == 1 else init)
        finally:
            self.frame.env, self.frame.outer, self.frame.this = saved, outer, this
        return value

    def _scoped_value(self, name: str, loc: ir.Loc) -> V | None:
        """`Config::kStages`, `T::value`."""
        owner, _, last = name.rpartition("::")
        base = self.bound_type(owner)
        if base is None:
            found = self.lookup_type(owner)
            base = self._declared(found, ir.TypeRef(owner, (), loc), 0) if found is not None else None
        if base is None or base.decl is None:
            return None
        value = self.member(None, base, last, loc)
        return value if value is not None else self._method_value(base, last)

    def _method_value(self, ct: CType, name: str) -> V | None:
        funcs = self.methods(ct, name)
        return V(const=values.Overloads(funcs), ct=ct) if funcs else None

    def outer_value(self, value: Any) -> V:
        if isinstance(value, (bool, int)):
            return V("bool" if isinstance(value, bool) else "i32", "", const=value)
        if isinstance(value, float):
            return V("f32", "", const=value)
        if isinstance(value, ir.Decl):
            return self._global(value)
        if isinstance(value, values.CppType):
            return V(const=self._declared(value, ir.TypeRef(value.node.name, (), value.node.loc), 0))
        return constant(value) if value is not values.UNKNOWN else UNKNOWN_V

    def _global(self, node: ir.Decl) -> V:
        """A `__device__` or `__constant__` variable, or a constant that was not folded."""
        ct = self.resolve_type(node.type) if node.type is not None else CType()
        if "__shared__" in node.storage:
            return self._shared(node, ct)
        if node.init is not None and not ct.dims and node.storage & {"constexpr", "const"}:
            init = node.init
            value = self.eval(init.items[0] if isinstance(init, ir.Seq) and len(init.items) == 1 else init)
            return self.to_type(value, ct, node.loc)
        cell = self.param_cell(node.name, -1, ct.dtype, ct.dtype)
        if ct.dims:
            return V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=ct)
        pointed = pointer_to(ct)
        return V(ct.dtype, ct.dtype, x=Ref(V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=pointed)))

    def global_place(self, name: str) -> V | None:
        try:
            found = self.frame.outer.lookup(name)
        except KeyError:
            return None
        value = self._global(found) if isinstance(found, ir.Decl) else None
        return value.x.pointer if value is not None and isinstance(value.x, Ref) else None

    def outer(self, name: str, loc: ir.Loc) -> V:
        value = super().outer(name, loc)
        return self.read_through(value.x.pointer, loc) if isinstance(value.x, Ref) else value

    def missing(self, name: str, loc: ir.Loc) -> V:
        last = name.rsplit("::", 1)[-1]
        if last in _INDICES:
            return V("u32", "u32", ct=CType("u32", 3))
        if last in _NUMBERS:
            return V("f32", "", const=_NUMBERS[last])
        if last in _LIMITS:
            return V("i32", "", const=_LIMITS[last])
        if dtypes.from_cpp(name) or dtypes.vector_from_cpp(name):
            return V(const=self.resolve_type(ir.TypeRef(name, (), loc)))
        return constant(values.Sym(self.outside(name)))

    def e_type(self, node: ir.TypeRef) -> V:
        if not node.pointers and not node.dims:
            if node.args or node.member:
                funcs = self.overloads(node.name)
                if funcs and not node.member:
                    return V(const=values.Overloads(funcs))
                scoped = self._type_member(node)
                if scoped is not None:
                    return scoped
            else:
                value = self.frame.env.get(node.name)
                if value is not None and not isinstance(value.const, CType):
                    return self.e_name(ir.Name(node.name, node.loc))
                if self.bound_type(node.name) is None and self.lookup_type(node.name) is None:
                    if not dtypes.from_cpp(node.name) and not dtypes.vector_from_cpp(node.name):
                        return self.unscoped(node.name, node.loc)
        return V(const=self.resolve_type(node))

    def _type_member(self, node: ir.TypeRef) -> V | None:
        """`Config<64>::kSize`, `std::is_same<A, B>::value`, `is_same_v<A, B>`."""
        if traits.asked(node):
            known = traits.value(self.cpp, node, self.cpp.here())
            return UNKNOWN_V if known is None else constant(known)
        if not node.member:
            return None
        base = self.resolve_type(ir.TypeRef(node.name, node.args, node.loc))
        for name in node.member[:-1]:
            base = self.member_type(base, name) or CType()
        last = node.member[-1]
        found = self.member(None, base, last, node.loc) or self._method_value(base, last)
        if found is None and self.member_type(base, last) is None:
            return V(ct=None, const=values.Sym("::".join((node.name, *node.member))))
        return found

    def resolve_argument(self, node: Any) -> CType:
        """A template argument as a type."""
        return self.type_argument(node)

    # --- attributes, indexing, operators ---

    def e_attr(self, node: ir.Attr) -> V:
        base = self.eval(node.value)
        if isinstance(base.const, CType):
            found = self.member(None, base.const, node.name, node.loc) or self._method_value(base.const, node.name)
            return found if found is not None else UNKNOWN_V
        if base.ct is not None and base.ct.pointers == 1 and not base.ct.dims:
            if base.ct.decl is not None or not base.ct.lanes > 1:
                pointed = self.read_through(base, node.loc)
                return self.field_of(pointed, node.name, node.loc)
        if base.ct is not None and base.ct.decl is not None and not is_pointer(base.ct):
            for key, value in base.ct.args:
                if key == node.name and isinstance(value, V):
                    return value
            decl = self.field_decl(base.ct, node.name)
            if decl is not None and decl.storage & {"static"} and decl.init is not None:
                return self._static(base.ct, decl)
        return self.field_of(base, node.name, node.loc)

    def e_index(self, node: ir.Index) -> V:
        base, index = self.eval(node.value), self.eval(node.index)
        if base.ct is not None and base.ct.decl is not None and not is_pointer(base.ct):
            return self.call_method(base, "operator[]", [index], (), node.value, node.loc)
        return self.read_through(base, node.loc, index=index)

    def e_unary(self, node: ir.Unary) -> V:
        if node.op == "*":
            return self.read_through(self.eval(node.value), node.loc)
        if node.op == "&":
            return self.address_of(node.value)
        return self.unary(node.op, self.eval(node.value), node.loc)

    def e_binary(self, node: ir.Binary) -> V:
        if node.op == ",":
            self.eval(node.left)
            return self.eval(node.right)
        left, right = self.eval(node.left), self.eval(node.right)
        if is_struct(left) or is_struct(right):
            found = self._operator(node.op, left, right, node.loc)
            if found is not None:
                return found
        made = self.binary(node.op, left, right, node.loc)
        if made.cells:
            pointer = left if is_pointer(left.ct) else right if is_pointer(right.ct) else None
            if pointer is not None and pointer.ct is not None and pointer.ct.dims and node.op in "+-":
                inner = element(pointer.ct)
                return made.with_(ct=inner if inner.dims else pointer_to(inner))
        elif left.ct is not None and left.ct.lanes > 1 and made.ct is None:
            return made.with_(ct=left.ct)
        return made

    def _operator(self, op: str, left: V, right: V, loc: ir.Loc) -> V | None:
        """An overloaded operator of the file."""
        funcs = self.overloads(f"operator{op}")
        if funcs:
            return self.call_overloads(funcs, [left, right], (), [None, None], loc)
        if left.ct is not None and self.methods(left.ct, f"operator{op}"):
            return self.call_method(left, f"operator{op}", [right], (), None, loc)
        return None

    def e_seq(self, node: ir.Seq) -> V:
        return V(x=tuple(self.items(node.items)))

    def e_assign(self, node: ir.AssignE) -> V:
        old = self.eval(node.target) if node.op or node.post else UNKNOWN_V
        own = f"operator{node.op}="
        if node.op and not node.post and is_struct(old) and old.ct is not None and self.methods(old.ct, own):
            return self.call_method(old, own, [self.eval(node.value)], (), node.target, node.loc)
        value = None if node.op else self.self_addition(node.target, node.value)
        if value is None:
            value = self.eval(node.value)
            if node.op:
                value = self.augmented(node.op, old, value, node.loc)
        self.assign(node.target, value)
        return old if node.post else value

    def augmented(self, op: str, old: V, value: V, loc: ir.Loc) -> V:
        if is_struct(old):
            made = self._operator(op, old, value, loc)
            return made if made is not None else mix([old, value])
        return super().augmented(op, old, value, loc)

    def compare(self, op: str, a: V, b: V) -> V:
        if isinstance(a.const, _NAMES) != isinstance(b.const, _NAMES):  # a name that was not resolved is no value
            a, b = a.with_(const=NOTHING), b.with_(const=NOTHING)
        if a.const is None and type(b.const) is int:  # a null pointer
            a = a.with_(const=0)
        elif b.const is None and type(a.const) is int:
            b = b.with_(const=0)
        for one, other in ((a, b), (b, a)):
            if op in ("==", "!=") and other.const in (None, 0) and one.const is NOTHING and is_pointer(one.ct):
                deps = one.deps.union(cell.name for cell in one.cells)
                return constant(op == "!=", deps) if _leads_somewhere(one) else V("bool", "bool", deps=deps)
        return super().compare(op, a, b)

    def truth(self, value: V) -> bool | None:
        if not _leads_somewhere(value):
            return super().truth(value)
        self.decide(value.with_(deps=value.deps.union(cell.name for cell in value.cells)))
        return True

    def unary(self, op: str, value: V, loc: ir.Loc) -> V:
        if op == "not" and (value.const is None or _leads_somewhere(value)):
            return constant(value.const is None, value.deps.union(cell.name for cell in value.cells))
        return super().unary(op, value, loc)

    def self_addition(self, target: Any, value: Any) -> V | None:
        if isinstance(target, ir.Name):
            known = self.frame.env.get(target.id)
            if known is not None and is_struct(known):
                return None
        made = super().self_addition(target, value)
        if made is not None or not isinstance(target, ir.Index) or not isinstance(value, ir.Binary):
            return made
        if value.op == "+" and isinstance(value.left, ir.Index) and _same_place(value.left, target):
            return self.augmented("+", self.eval(value.left), self.eval(value.right), value.loc)
        return None

    def methods(self, ct: CType, name: str) -> list[values.Func]:
        """The methods of a class with this name, also in its bases."""
        if ct.decl is None or not isinstance(ct.decl.node, ir.ClassDef):
            return []
        found = [values.Func(n, ct.decl.env) for n in ct.decl.node.body if isinstance(n, ir.FuncDef) and n.name == name]
        if not found:
            for base in ct.decl.node.bases:
                self.step()  # a base may be reached along many ways
                if isinstance(base, ir.TypeRef):
                    found += self.methods(self.resolve_type(base), name)
        return found

    def overloads(self, name: str) -> list[values.Func]:
        """The functions of the file with this name."""
        try:
            found = self.frame.outer.lookup(name)
        except KeyError:
            return []
        if isinstance(found, values.Overloads):
            return found.funcs
        return [found] if isinstance(found, values.Func) else []

    def _shared(self, node: ir.Decl, ct: CType) -> V:
        key = "extern" if "extern" in node.storage else (self.frame.key, id(node))
        cell = self.cell(key, "shared", node.name, ct.dtype)
        pointed = ct if ct.dims else pointer_to(ct)
        pointer = V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=pointed, x=Offset(0))
        return pointer if ct.dims else V(ct.dtype, ct.dtype, x=Ref(pointer))


def _leads_somewhere(value: V) -> bool:
    """Whether a value is an address of memory that is known, which is not null."""
    if value.const is not NOTHING or not value.cells or not is_pointer(value.ct):
        return False
    return all(cell.kind != "param" or cell.storage >= 0 for cell in value.cells)


def is_struct(value: V) -> bool:
    """Whether a value is a struct of the file, held by value."""
    return isinstance(value.x, Struct) or (
        value.ct is not None and value.ct.decl is not None and not is_pointer(value.ct) and value.const is NOTHING
    )


def _same_place(a: Any, b: Any) -> bool:
    """Whether two index expressions are written the same way."""
    if type(a) is not type(b):
        return False
    if isinstance(a, ir.Name):
        return bool(a.id == b.id)
    if isinstance(a, ir.Const):
        return bool(a.value == b.value)
    if isinstance(a, ir.Index):
        return _same_place(a.value, b.value) and _same_place(a.index, b.index)
    if isinstance(a, ir.Binary):
        return bool(a.op == b.op) and _same_place(a.left, b.left) and _same_place(a.right, b.right)
    return False
