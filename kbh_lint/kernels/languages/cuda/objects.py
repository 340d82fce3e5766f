"""Casts, declarations and assignments of CUDA C++."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.kernels.core import cache_policy
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.machine import HELD
from kbh_lint.kernels.core.value import NOTHING, TWIDDLED, CType, Mul, Struct, Unbound, V
from kbh_lint.kernels.languages.cuda.names import CudaNames
from kbh_lint.kernels.languages.cuda.places import IN_MEMORY, Ref
from kbh_lint.kernels.languages.cuda.types import element, is_pointer, pointer_to


class CudaObjects(CudaNames):
    """Makes, converts and assigns objects."""

    # --- lambdas ---

    def e_lambda(self, node: ir.Lambda) -> V:
        made = self.closure(node.func)
        held: dict[str, V] = {}
        for capture in node.func.captures:
            if capture.init is not None:
                known = capture.reference
                held[capture.name] = self.reference(capture.init, CType()) if known else self.eval(capture.init)
            elif not capture.reference and capture.name in self.frame.env:
                held[capture.name] = self.eval(ir.Name(capture.name, capture.loc))
        if held:
            made.const.env.vars[HELD] = held
        return made

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
        init = node.init
        if ct.dims:
            frame.env[name] = (
                self._array(node, ct) if init is None or isinstance(init, ir.Seq) else self._rows(node, ct)
            )
            return True
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

    def _rows(self, node: ir.Decl, ct: CType) -> V:
        """`T (*p)[N] = a` and `T (&r)[N] = a`: another name for memory that is there; else an array of its own."""
        there = self.eval(node.init)
        rows = replace(ct, dims=ct.dims + ct.pointers, pointers=0)
        return self.pointer_cast(there, rows) if there.cells and is_pointer(there.ct) else self._array(node, ct)

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
        if isinstance(value.x, Struct) or value.x is IN_MEMORY and ct.decl is not None:
            return value
        return self.cast_to(value, ct, node.loc)

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
            cache_policy.constructed(self, ct, items, loc)
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
            named = target.func.id if isinstance(target.func, ir.Name) else ""
            if any(isinstance(f.node.returns, ir.TypeRef) and f.node.returns.reference for f in self.overloads(named)):
                self.unread(f"an assignment to the result of {named}", loc)
                return
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
        elif node.namespace:
            self.directives = (*self.directives, node.namespace)
        return True

    def s_class(self, node: ir.ClassDef) -> bool:
        self.frame.env[node.name] = V(const=CType(name=node.name, decl=values.CppType(node, self.frame.outer)))
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
