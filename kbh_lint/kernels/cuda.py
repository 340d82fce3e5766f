"""CUDA C++ kernels: names, declarations, casts, assignments and calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kbh_lint import dtypes, ir, values
from kbh_lint.kernels.cuda_builtins import CppCall, builtin, library_method
from kbh_lint.kernels.cuda_memory import IN_MEMORY, TENSOR_MAP, CudaMemory, Ref
from kbh_lint.kernels.cuda_types import element, is_pointer, pointer_to
from kbh_lint.kernels.machine import Env
from kbh_lint.kernels.ptx import run_asm
from kbh_lint.kernels.value import (
    NOTHING,
    TWIDDLED,
    UNKNOWN_V,
    CType,
    Mul,
    Offset,
    Struct,
    Unbound,
    V,
    constant,
    join,
    mix,
)

_NAMES = (CType, values.Sym)
_INDICES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim", "clusterIdx"})
_NUMBERS = {
    "INFINITY": float("inf"), "HUGE_VALF": float("inf"), "FLT_MAX": 3.4028235e38, "CUDART_INF_F": float("inf"),
    "NAN": float("nan"), "CUDART_NAN_F": float("nan"), "FLT_MIN": 1.1754944e-38, "FLT_EPSILON": 1.1920929e-07,
    "M_LOG2E": 1.4426950408889634, "M_LN2": 0.6931471805599453, "M_PI": 3.141592653589793,
}  # fmt: skip
_LIMITS = {"INT_MAX": 2**31 - 1, "INT_MIN": -(2**31), "UINT_MAX": 2**32 - 1, "UINT32_MAX": 2**32 - 1, "warpSize": 32}


class CudaMachine(CudaMemory):
    """Runs the body of a `__global__` function."""

    # --- arguments ---

    def run_kernel(self, func: values.Func, args: Mapping[str, Any]) -> None:
        """Executes the kernel once; `args` holds parameters and template parameters by name."""
        node = func.node
        self.frame.outer = func.env
        env: Env = {}
        self.frame.env = env
        for param in node.template:
            if param.name in args:
                env[param.name] = self.argument_value(args[param.name], param.name)
            elif param.default is not None:
                env[param.name] = self.template_value(param.default, param.kind)
        bound = dict(env)
        for parameter in node.params:
            given = args.get(parameter.name, values.UNKNOWN)
            ct = self.resolve_type(parameter.type) if isinstance(parameter.type, ir.TypeRef) else CType()
            bound[parameter.name] = self.bind_argument(parameter.name, given, ct)
        self.frame.env = dict(bound)
        self.inline(func, bound, node.loc)

    def bind_argument(self, name: str, value: Any, ct: CType) -> V:
        """A kernel argument as an abstract value of the declared type."""
        if isinstance(value, (values.Buffer, values.Descriptor)):
            seen = ct.dtype if ct.dtype not in ("?", "") else value.dtype
            cell = self.param_cell(name, value.storage, value.dtype, value.content)
            if ct.name.endswith("CUtensorMap"):
                return V(seen, value.content, cells=frozenset((cell,)), ct=TENSOR_MAP)
            declared = ct if is_pointer(ct) else replace(ct, pointers=1) if ct.dtype != "?" else CType(seen, pointers=1)
            if declared.dtype == "?" and declared.decl is None:
                declared = replace(declared, dtype=seen)
            return V(seen, value.content, cells=frozenset((cell,)), ct=declared)
        if isinstance(value, (tuple, list)):
            return V(x=Unbound(name), ct=ct)
        if isinstance(value, values.Scalar):
            known = NOTHING if value.value is values.UNKNOWN else value.value
            dtype = ct.dtype if ct.dtype != "?" else value.dtype
            return V(dtype, dtype, const=known, deps=frozenset((name,)) if known is not NOTHING else frozenset())
        if isinstance(value, (bool, int, float)):
            return V(ct.dtype, ct.dtype, const=value, deps=frozenset((name,)))
        if is_pointer(ct):
            cell = self.param_cell(name, -1, ct.dtype, ct.dtype)
            return V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=ct)
        if ct.dtype != "?":
            return V(ct.dtype, ct.dtype, ct=ct if ct.lanes > 1 else None)
        if ct.name.endswith("CUtensorMap"):
            return V(cells=frozenset((self.param_cell(name),)), ct=TENSOR_MAP)
        return V(x=Unbound(name), ct=ct)

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
        return constant(values.Sym(name))

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
        last = node.name.rsplit("::", 1)[-1]
        if last in ("is_same_v", "is_same") and len(node.args) == 2:
            a, b = (self.resolve_argument(x) for x in node.args)
            if a.name or b.name or a.dtype != "?":
                deps = frozenset().union(*(self._type_deps(x) for x in node.args))
                same = (a.dtype, a.lanes, a.pointers) == (b.dtype, b.lanes, b.pointers) and (
                    a.dtype != "?" or a.name == b.name
                )
                return constant(same, deps)
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
        return super().compare(op, a, b)

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

    # --- casts ---

    def e_cast(self, node: ir.Cast) -> V:
        ct = self.resolve_type(node.type)
        if node.type.reference and node.kind in ("reinterpret", "c"):
            pointer = self.address_of(node.value)
            target = pointer_to(ct)
            return self.read_through(self.pointer_cast(pointer, target), node.loc)
        return self.cast_to(self.eval(node.value), ct, node.loc, bits=node.kind == "reinterpret")

    def cast_to(self, value: V, ct: CType, loc: ir.Loc, *, bits: bool = False) -> V:
        """`(T)value`."""
        if is_pointer(ct):
            return self.pointer_cast(value, ct)
        if is_pointer(value.ct) or (value.cells and ct.dtype in dtypes.INTS):  # an address as a number
            return value.with_(ct=None, dtype=ct.dtype if ct.dtype != "?" else value.dtype)
        if ct.dtype in ("?", ""):
            if ct.decl is not None and not isinstance(value.x, (Struct, Unbound)):
                return V(x=Struct({}, ct), ct=ct) if not value.origins else value.with_(ct=ct)
            return value
        made = self.bitcast(value, ct.dtype, loc) if bits else self.to_type(value, ct, loc)
        if made.const is not NOTHING and made.dtype != ct.dtype:
            made = self.convert(made, ct.dtype, loc)
        if ct.lanes > 1 or (made.ct is not None and made.ct.lanes > 1):
            made = made.with_(ct=ct if ct.lanes > 1 else None)
        return made

    def pointer_cast(self, value: V, ct: CType) -> V:
        """An address seen as a pointer to another type; the bytes behind it stay what they are."""
        dtype = ct.dtype
        if dtype in ("?", "") and ct.decl is None:
            dtype = value.dtype
        if isinstance(value.x, Unbound) and not value.cells:
            cell = self.param_cell(value.x.path, -1, ct.dtype, ct.dtype)
            return V(dtype, dtype, value.origins, cells=frozenset((cell,)), ct=ct)
        return value.with_(ct=ct, dtype=dtype, x=None if value.x is IN_MEMORY else value.x)

    # --- declarations, assignments ---

    def s_decl(self, node: ir.Decl) -> bool:
        frame = self.frame
        name = node.name
        if frame.shadowed and name not in frame.shadowed[-1]:
            frame.shadowed[-1][name] = frame.env.get(name)
        ref = node.type
        ct = self.resolve_type(ref) if ref is not None else CType()
        if node.storage & {"__shared__"}:
            frame.env[name] = self._shared(node, ct)
            return True
        if ct.dims:
            frame.env[name] = self._array(node, ct)
            return True
        init = node.init
        if init is None:
            frame.env[name] = self.default_value(ct, id(node))
            return True
        if ref is not None and ref.reference and not isinstance(init, ir.Seq):
            frame.env[name] = self.reference(init, ct)
            return True
        frame.env[name] = self._initialized(name, ct, init, node)
        return True

    def reference(self, init: Any, ct: CType) -> V:
        """A variable that refers to another place."""
        if isinstance(init, (ir.Name, ir.Index, ir.Attr, ir.Unary, ir.Cast)):
            pointer = self.address_of(init)
            if pointer.cells and (ct.dims or (pointer.ct is not None and pointer.ct.dims)):
                return pointer
            if pointer.cells and is_pointer(pointer.ct):
                return V(x=Ref(pointer))
        return self.eval(init)

    def _shared(self, node: ir.Decl, ct: CType) -> V:
        key = "extern" if "extern" in node.storage else (self.frame.key, id(node))
        cell = self.cell(key, "shared", node.name, ct.dtype)
        pointed = ct if ct.dims else pointer_to(ct)
        pointer = V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=pointed, x=Offset(0))
        return pointer if ct.dims else V(ct.dtype, ct.dtype, x=Ref(pointer))

    def _array(self, node: ir.Decl, ct: CType) -> V:
        cell = self.cell((self.frame.key, id(node)), "local", node.name, ct.dtype)
        pointer = V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=ct)
        if node.init is not None:
            inner = ct
            while inner.dims:
                inner = element(inner)
            flat = CType(inner.dtype, inner.lanes, 1 + inner.pointers, 0, inner.name, inner.decl, inner.args)
            stack = [node.init]
            while stack:
                item = stack.pop()
                if isinstance(item, ir.Seq):
                    stack.extend(item.items[:64])
                else:
                    self.write_through(pointer.with_(ct=flat), self.eval(item), node.loc)
        return pointer

    def _initialized(self, name: str, ct: CType, init: Any, node: ir.Decl) -> V:
        if isinstance(init, ir.Seq) and init.kind in ("init", "ctor"):
            return self.construct(ct, self.items(init.items), node.loc, id(node), name, list(init.items))
        value = self.eval(init)
        if ct.name == "auto" and ct.dtype == "?":
            if is_pointer(ct) and value.ct is None:
                return value.with_(ct=CType(value.dtype, pointers=1))
            return value
        if isinstance(value.x, tuple):
            return self.construct(ct, list(value.x), node.loc, id(node), name, [None] * len(value.x))
        if is_pointer(ct):
            return self.pointer_cast(value, ct)
        return self.cast_to(value, ct, node.loc) if not isinstance(value.x, Struct) else value

    def construct(self, ct: CType, items: list[V], loc: ir.Loc, key: Any, name: str, nodes: list[Any]) -> V:
        """`T x(a, b)`, `T x{a, b}`, `T(a)`."""
        if is_pointer(ct) or ct.dtype not in ("?", ""):
            if not items:
                made = self.default_value(ct, key)
                return made if ct.lanes > 1 or ct.role else made.with_(const=0, ct=None)
            if len(items) == 1:
                return self.cast_to(items[0], ct, loc)
            return mix([self.to_type(item, ct, loc) for item in items]).with_(ct=ct, dtype=ct.dtype)
        if ct.decl is None or not isinstance(ct.decl.node, ir.ClassDef):
            return V(ct=ct) if not items else mix(items).with_(ct=ct)
        if len(items) == 1 and items[0].ct is not None and items[0].ct.decl is ct.decl:
            return items[0]
        fresh = self.default_value(ct, key)
        makers = self.methods(ct, ct.decl.node.name)
        usable = [f for f in makers if f.node.body is not None and len(f.node.params) >= len(items)]
        if usable and (items or not usable[0].node.params):
            slot = name or f"$made{id(key)}"
            self.frame.env[slot] = fresh
            this = V(cells=frozenset((self.variable_cell(self.frame, slot),)), ct=replace(ct, pointers=1))
            self.call_overloads(usable, items, (), nodes, loc, this=this, extra=dict(ct.args))
            return self.frame.env[slot]
        names = [n.name for n in ct.decl.node.body if isinstance(n, ir.Decl) and not n.storage & {"static"}]
        for field, item in zip(names, items, strict=False):
            fresh = self.with_field(fresh, (field,), item, loc)
        return fresh

    def bind(self, name: str, value: V) -> None:
        old = self.frame.env.get(name)
        if old is not None:
            if isinstance(old.x, Ref):
                self.write_through(old.x.pointer, value, self.place)
                return
            if old.ct is not None and old.ct.dims and not is_pointer(value.ct):
                return
            if is_pointer(old.ct):
                value = value.with_(ct=old.ct) if value.ct is None or value.ct.pointers != 1 else value
            elif isinstance(value.x, tuple) and (old.ct is not None or old.dtype in dtypes.BITS):
                ct = old.ct or CType(old.dtype)
                value = self.construct(ct, list(value.x), self.place, name, "", [None] * len(value.x))
            elif old.dtype in dtypes.BITS and value.dtype != old.dtype and not isinstance(value.x, Struct):
                value = self.to_type(value, old.ct or CType(old.dtype), self.place)
                if old.ct is not None and value.ct is None and old.ct.lanes > 1:
                    value = value.with_(ct=old.ct)
            self.frame.env[name] = value
            return
        this = self.this_type()
        if this is not None and self.field_decl(this, name) is not None and isinstance(self.frame.this, V):
            pointer = self.sub_pointer(self.frame.this.with_(ct=this), name)
            self.write_through(pointer, value, self.place)
            return
        found = self.outer_cache.get((id(self.frame.outer), name))
        if found is None:
            self.outer(name, self.place)
            found = self.outer_cache.get((id(self.frame.outer), name))
        if found is not None and isinstance(found.x, Ref):
            self.write_through(found.x.pointer, value, self.place)
            return
        self.frame.env[name] = value

    @property
    def place(self) -> ir.Loc:
        """The statement that runs now."""
        return self.current

    current: ir.Loc = ()

    def execute(self, node: Any) -> bool:
        self.current = node.loc
        return super().execute(node)

    def assign_other(self, target: ir.Expr, value: V) -> None:
        loc = self.place
        if isinstance(target, ir.Index):
            base, index = self.eval(target.value), self.eval(target.index)
            if base.ct is not None and base.ct.decl is not None and not is_pointer(base.ct):
                return
            if not is_pointer(base.ct) and not base.cells:
                self.assign(target.value, join(base, value.with_(const=NOTHING)))
                return
            self.write_through(base, value, loc, index=index)
        elif isinstance(target, ir.Unary) and target.op == "*":
            self.write_through(self.eval(target.value), value, loc)
        elif isinstance(target, ir.Attr):
            self._assign_field(target, value, loc)
        elif isinstance(target, ir.Cast):
            pointer = self.address_of(target.value)
            ct = self.resolve_type(target.type)
            self.write_through(self.pointer_cast(pointer, pointer_to(ct)), value, loc)
        elif isinstance(target, ir.Cond):
            self.assign(target.yes, value)
            self.assign(target.no, value)
        elif isinstance(target, ir.AssignE):
            self.assign(target.target, value)
        elif isinstance(target, ir.Call):
            base = self.eval(target.func.value if isinstance(target.func, ir.Attr) else target.func)
            if base.cells:
                self.store(base, value, loc, raw=True)

    def _assign_field(self, target: ir.Attr, value: V, loc: ir.Loc) -> None:
        base = self.eval(target.value)
        through = base.ct is not None and base.ct.pointers == 1 and not base.ct.dims
        if through or base.x is IN_MEMORY:
            inner = base.with_(ct=element(base.ct)) if through else base
            if inner.ct is not None and inner.ct.decl is None and inner.ct.lanes > 1:  # p->x of a vector
                self.write_through(base, value, loc)
                return
            self.write_through(self.sub_pointer(inner, target.name), value, loc)
            return
        if isinstance(base.x, Unbound):
            return
        self.assign(target.value, self.with_field(base, (target.name,), value, loc))

    def s_using(self, node: ir.Using) -> bool:
        if node.type is not None and node.name:
            self.frame.env[node.name] = V(const=self.resolve_type(node.type))
        return True

    def s_class(self, node: ir.ClassDef) -> bool:
        self.frame.env[node.name] = V(const=CType(name=node.name, decl=values.CppType(node, self.frame.outer)))
        return True

    def s_asm(self, node: ir.Asm) -> bool:
        run_asm(self, node)
        return True

    def s_return(self, node: ir.Return) -> bool:
        if node.value is None:
            return False
        value = self.eval(node.value)
        func = self.frame.func
        returns = func.node.returns if isinstance(func, values.Func) else None
        if isinstance(returns, ir.TypeRef) and returns.name not in ("auto", "void", "decltype"):
            ct = self.resolve_type(returns)
            if isinstance(value.x, tuple):
                value = self.construct(ct, list(value.x), node.loc, id(node), "", [None] * len(value.x))
            elif is_pointer(ct) or (ct.dtype not in ("?", "") and not isinstance(value.x, Struct)):
                mark = value.x if isinstance(value.x, Mul) or value.x is TWIDDLED else None
                value = self.cast_to(value, ct, node.loc)
                if mark is not None and value.x is None and value.dtype == ct.dtype and isinstance(mark, Mul):
                    value = value.with_(x=mark)
        returned = self.frame.returned
        self.frame.returned = value if returned is None else join(returned, value)
        return False

    # --- calls ---

    def e_call(self, node: ir.Call) -> V:
        self.step()
        func = node.func
        if isinstance(func, ir.Attr):
            return self._member_call(func, node)
        args = self.items(node.args)
        nodes = list(node.args) if len(args) == len(node.args) else [None] * len(args)
        explicit = func.args if isinstance(func, ir.TypeRef) else ()
        name = func.id if isinstance(func, ir.Name) else func.name if isinstance(func, ir.TypeRef) else ""
        local = self.frame.env.get(name)
        if local is not None and isinstance(local.const, values.Func):
            return self.call_overloads([local.const], args, explicit, nodes, node.loc)
        if local is not None and isinstance(local.x, Struct):
            return self.call_method(local, "operator()", args, explicit, func, node.loc)
        if name and not (isinstance(func, ir.TypeRef) and func.member):
            funcs = self.overloads(name)
            this = self.this_type()
            if this is not None:
                own = self.methods(this, name)
                if own:
                    return self.call_overloads(
                        own, args, explicit, nodes, node.loc, this=self.frame.this, extra=dict(this.args)
                    )
            if funcs:
                return self.call_overloads(funcs, args, explicit, nodes, node.loc)
        callee = self.eval(func)
        const = callee.const
        if isinstance(const, values.Overloads):
            extra = dict(callee.ct.args) if callee.ct is not None else {}
            static = V(ct=replace(callee.ct, pointers=1)) if callee.ct is not None else None
            return self.call_overloads(const.funcs, args, explicit, nodes, node.loc, this=static, extra=extra)
        if isinstance(const, values.Func):
            return self.call_overloads([const], args, explicit, nodes, node.loc)
        if isinstance(const, CType) and (const.decl is not None or const.dtype != "?" or is_pointer(const)):
            return self.construct(const, args, node.loc, id(node), "", nodes)
        if isinstance(callee.x, Struct):
            return self.call_method(callee, "operator()", args, explicit, func, node.loc)
        path = const.path if isinstance(const, values.Sym) else const.name if isinstance(const, CType) else name
        return builtin(CppCall(self, path, args, explicit, nodes, node.loc))

    def _member_call(self, func: ir.Attr, node: ir.Call) -> V:
        base = self.eval(func.value)
        args = self.items(node.args)
        if isinstance(base.const, CType):
            funcs = self.methods(base.const, func.name)
            if funcs:
                return self.call_overloads(
                    funcs, args, func.args or (), list(node.args), node.loc, extra=dict(base.const.args),
                    this=V(ct=replace(base.const, pointers=1)),
                )  # fmt: skip
        return self.call_method(base, func.name, args, func.args or (), func.value, node.loc, list(node.args))

    def call_method(
        self, base: V, name: str, args: list[V], explicit: tuple[Any, ...], target: Any, loc: ir.Loc,
        nodes: list[Any] | None = None,
    ) -> V:  # fmt: skip
        """`base.name(args)`."""
        ct = base.ct
        owner = element(ct) if ct is not None and ct.pointers == 1 else ct
        funcs = self.methods(owner, name) if owner is not None else []
        if funcs and owner is not None:
            if ct is not None and ct.pointers == 1:
                this = base
            elif base.x is IN_MEMORY:
                this = base.with_(ct=replace(owner, pointers=1), x=None)
            else:
                this = self.address_of(target) if target is not None else V(ct=replace(owner, pointers=1))
            if this.ct is None or this.ct.decl is None:
                this = this.with_(ct=replace(owner, pointers=1))
            return self.call_overloads(
                funcs, args, explicit, nodes or [None] * len(args), loc, this=this, extra=dict(owner.args)
            )
        field = base.x.fields.get(name) if isinstance(base.x, Struct) else None
        if field is not None and isinstance(field.const, values.Func):
            return self.call_overloads([field.const], args, explicit, nodes or [None] * len(args), loc)
        return library_method(CppCall(self, name, args, explicit, nodes or [], loc), base, target)

    def methods(self, ct: CType, name: str) -> list[values.Func]:
        """The methods of a class with this name, also in its bases."""
        if ct.decl is None or not isinstance(ct.decl.node, ir.ClassDef):
            return []
        found = [values.Func(n, ct.decl.env) for n in ct.decl.node.body if isinstance(n, ir.FuncDef) and n.name == name]
        if not found:
            for base in ct.decl.node.bases:
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

    def call_overloads(
        self, funcs: list[values.Func], args: list[V], explicit: tuple[Any, ...], nodes: list[Any], loc: ir.Loc,
        *, this: V | None = None, extra: dict[str, V] | None = None,
    ) -> V:  # fmt: skip
        """Chooses an overload, binds its parameters and runs it."""
        func = self.choose(funcs, args, explicit)
        env = dict(extra) if extra else {}
        node = func.node
        if node.template:
            env.update(self.template_arguments(node.template, explicit))
            self.deduce(func, args, env)
        saved, outer = self.frame.env, self.frame.outer
        types: list[CType] = []
        self.frame.env, self.frame.outer = {**saved, **env} if env else saved, func.env
        try:
            for param in node.params:
                types.append(self.resolve_type(param.type) if isinstance(param.type, ir.TypeRef) else CType())
        finally:
            self.frame.env, self.frame.outer = saved, outer
        for position, param in enumerate(node.params):
            if param.kind == "star":
                env[param.name] = V(x=tuple(args[position:]))
                break
            ct = types[position]
            if position >= len(args):
                env[param.name] = self.eval(param.default) if param.default is not None else V(ct.dtype, ct.dtype)
                continue
            source = nodes[position] if position < len(nodes) else None
            env[param.name] = self._parameter(param, ct, args[position], source, loc)
        return self.invoke(func, env, loc, this)

    def _parameter(self, param: ir.Param, ct: CType, value: V, source: Any, loc: ir.Loc) -> V:
        ref = param.type
        if isinstance(ref, ir.TypeRef) and ref.reference and source is not None:
            if isinstance(source, (ir.Name, ir.Index, ir.Attr, ir.Unary)) and not (ref.const and not ct.decl):
                pointer = self.address_of(source)
                if pointer.ct is not None and pointer.ct.dims:
                    return pointer
                if pointer.cells and is_pointer(pointer.ct):
                    return V(x=Ref(pointer))
        if isinstance(value.x, tuple) and (ct.decl is not None or ct.dtype != "?"):
            return self.construct(ct, list(value.x), loc, id(param), "", [None] * len(value.x))
        if is_pointer(ct):
            if isinstance(ref, ir.TypeRef) and ct.dtype == "?" and ct.decl is None and value.ct is not None:
                return value
            return self.pointer_cast(value, ct)
        if ct.dtype not in ("?", "") and not isinstance(value.x, Struct):
            return self.cast_to(value, ct, loc)
        return value

    def deduce(self, func: values.Func, args: list[V], env: dict[str, V]) -> None:
        """Binds type parameters from the arguments' types."""
        names = {p.name for p in func.node.template if p.kind == "type" and p.name not in env}
        for param, value in zip(func.node.params, args, strict=False):
            ref = param.type
            if isinstance(ref, ir.TypeRef) and ref.name in names and not ref.args and ref.name not in env:
                ct = value.ct or CType(value.dtype)
                for _ in range(ref.pointers + len(ref.dims)):
                    ct = element(ct)
                env[ref.name] = V(const=ct)

    def choose(self, funcs: list[values.Func], args: list[V], explicit: tuple[Any, ...]) -> values.Func:
        """The overload whose parameters fit best; definitions before declarations."""
        if len(funcs) == 1:
            return funcs[0]
        best, best_score = funcs[0], -1000
        given = [repr(getattr(self.template_value(e, "value"), "const", None)) for e in explicit]
        for func in funcs:
            node = func.node
            needed = sum(1 for p in node.params if p.default is None and p.kind != "star")
            score = 0 if needed <= len(args) <= len(node.params) else -20
            score += 0 if node.body is not None else -50
            if node.specialization:
                special = [repr(self.template_value(e, "value").const) for e in node.specialization]
                score += 10 if special == given else -30
            for param, value in zip(node.params, args, strict=False):
                if isinstance(param.type, ir.TypeRef):
                    score += self._fit(param.type, value, func)
            if score > best_score:
                best, best_score = func, score
        return best

    def _fit(self, ref: ir.TypeRef, value: V, func: values.Func) -> int:
        if any(p.name == ref.name for p in func.node.template):
            return 1
        ct = self.resolve_type(ref)
        if is_pointer(ct) != is_pointer(value.ct):
            return -3
        if ct.decl is not None:
            return 3 if value.ct is not None and value.ct.decl is ct.decl else -3
        lanes = value.ct.lanes if value.ct is not None else 1
        return (2 if ct.dtype == value.dtype else 0) + (1 if ct.lanes == lanes else -1)


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
