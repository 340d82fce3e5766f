"""Names of CUDA C++: members, globals and built-in variables; and assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp import integers, overloads
from kbh_lint.cpp.members import Member
from kbh_lint.kernels.core.joins import join
from kbh_lint.kernels.core.names import Names
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, CType, Struct, Unbound, V, constant
from kbh_lint.kernels.languages.cuda.numbers import is_struct
from kbh_lint.kernels.languages.cuda.places import IN_MEMORY, Ref
from kbh_lint.kernels.languages.cuda.types import element, is_pointer, pointer_to

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun


_INDICES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim", "clusterIdx"})
_NUMBERS = {
    "INFINITY": float("inf"), "HUGE_VALF": float("inf"), "FLT_MAX": 3.4028235e38, "CUDART_INF_F": float("inf"),
    "NAN": float("nan"), "CUDART_NAN_F": float("nan"), "FLT_MIN": 1.1754944e-38, "FLT_EPSILON": 1.1920929e-07,
    "M_LOG2E": 1.4426950408889634, "M_LN2": 0.6931471805599453, "M_PI": 3.141592653589793,
}  # fmt: skip
_LIMITS = {**integers.LIMITS, "warpSize": 32}


class CudaNames(Names):
    """Looks up and assigns the names of C++: locals, members, globals and built-in variables."""

    run: CudaRun

    def __init__(self, run: CudaRun) -> None:
        super().__init__(run)
        self.constants: dict[Member, V] = {}
        self.with_own: dict[Any, bool] = {}  # texts, and whether a class of theirs has an `operator=`

    def unscoped(self, name: str, loc: ir.Loc) -> V:
        """The value of a name that is no local variable: a member of this struct, a global, or a built-in."""
        if name == "this":
            return self.run.frame.this if isinstance(self.run.frame.this, V) else UNKNOWN_V
        this = self.run.types.this_type()
        held = self.run.frame.outer.get(name)
        if isinstance(held, Member):  # a constant of the class whose function it is
            return self.constant(held)
        if this is not None:
            found = self.member(self.run.frame.this, this, name, loc)
            if found is not None:
                return found
        if "::" in name:
            scoped = self.scoped_value(name, loc)
            if scoped is not None:
                return scoped
        return self.outer(name, loc)

    def member(self, this: V | None, ct: CType, name: str, loc: ir.Loc) -> V | None:
        """The value of the field or static constant `name` of a struct; None for other names."""
        member = self.run.fields.member(ct, name)
        if member is None:
            return None
        if member.constant and not member.field:
            return self.constant(member)
        if this is None or not member.field:
            return None
        return self.run.fields.field_of(self.run.memory.read_through(this, loc), name, loc)

    def constant(self, member: Member) -> V:
        """The value of a class's static constant or of an enumerator."""
        known = self.constants.get(member)
        if known is None:
            cpp, node = self.run.types.cpp, member.node
            assert isinstance(node, ir.Decl)
            with self.run.types.inside(cpp.scope(member.owner.env, {})):
                init = node.init
                one = init.items[0] if isinstance(init, ir.Seq) and len(init.items) == 1 else init
                known = UNKNOWN_V if one is None else self.run.expressions.eval(one)
            declared = cpp.classes.declared(member)
            dt = "" if declared is None or is_pointer(declared.const) else declared.const.dtype
            if type(known.const) is int and dt in dtypes.INTS and dt not in ("i32", "bool"):
                known = known.with_(dtype=dt, const=int(integers.held(known.const, dt)))
            self.constants[member] = known
        return known

    def scoped_value(self, name: str, loc: ir.Loc) -> V | None:
        """The value that a qualified name such as `Config::kStages`, `T::value` or `T::f` stands for; None for unknown
        names."""
        cpp = self.run.types.cpp
        member = cpp.classes.scoped(name, loc, cpp.here())
        if member is None:
            return None
        if member.constant:
            return self.constant(member)
        owner = cpp.made(member.owner.kind, member.owner.args).const
        return V(const=values.Overloads(member.funcs), ct=owner) if member.funcs else None

    def method_value(self, ct: CType, name: str) -> V | None:
        """The methods called `name` of a class, as a value; None where there are none."""
        funcs = self.methods(ct, name)
        return V(const=values.Overloads(funcs), ct=ct) if funcs else None

    def outer_value(self, value: object) -> V:
        if isinstance(value, V):  # a template argument of the class whose function it is
            return value
        if isinstance(value, Member):
            return self.constant(value)
        if isinstance(value, (values.DType, values.TypeValue)):
            return self.run.types.cpp.seen(value)
        if isinstance(value, (bool, int)):
            return V("bool" if isinstance(value, bool) else "i32", "", const=value)
        if isinstance(value, float):
            return V("f32", "", const=value)
        if isinstance(value, ir.Decl):
            return self.global_(value)
        if isinstance(value, values.CppType):
            cpp, ref = self.run.types.cpp, ir.TypeRef(value.node.name, (), value.node.loc)
            made: V | None = cpp.classes.meant(value, ref, cpp.here())
            return V(const=CType(name=ref.name)) if made is None else made
        return constant(value) if value is not values.UNKNOWN else UNKNOWN_V

    def global_(self, node: ir.Decl) -> V:
        """The value of a `__device__` or `__constant__` variable, or of a constant that was not folded."""
        ct = self.run.types.resolve_type(node.type) if node.type is not None else CType()
        if "__shared__" in node.storage:
            return self.run.objects.shared(node, ct)
        if node.init is not None and not ct.dims and node.storage & {"constexpr", "const"}:
            init = node.init
            value = self.run.expressions.eval(
                init.items[0] if isinstance(init, ir.Seq) and len(init.items) == 1 else init
            )
            return self.run.objects.to_type(value, ct, node.loc)
        cell = self.run.memory.param_cell(node.name, -1, ct.dtype, ct.dtype)
        if ct.dims:
            return V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=ct)
        pointed = pointer_to(ct)
        return V(ct.dtype, ct.dtype, x=Ref(V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=pointed)))

    def outer(self, name: str, loc: ir.Loc) -> V:
        value = super().outer(name, loc)
        kind = self.run.frame.outer.type_of(name) if type(value.const) is int and value.dtype == "i32" else ""
        if kind:
            return value.with_(dtype=kind)
        return self.run.memory.read_through(value.x.pointer, loc) if isinstance(value.x, Ref) else value

    def missing(self, name: str, loc: ir.Loc) -> V:
        last = name.rsplit("::", 1)[-1]
        if last in _INDICES:
            return V("u32", "u32", ct=CType("u32", 3))
        if last in _NUMBERS:
            return V("f32", "", const=_NUMBERS[last])
        if last in _LIMITS:
            return V("i32", "", const=_LIMITS[last])
        if dtypes.from_cpp(name) or dtypes.vector_from_cpp(name):
            return V(const=self.run.types.resolve_type(ir.TypeRef(name, (), loc)))
        return constant(values.Sym(self.run.types.outside(name)))

    def methods(self, ct: CType, name: str) -> list[values.Func]:
        """The methods of a class called `name`, of its own or of its bases."""
        return self.run.types.cpp.classes.methods(V(const=ct), name) if ct.decl is not None else []

    def overloads(self, name: str) -> list[values.Func]:
        """The functions of the file called `name`."""
        try:
            found = self.run.frame.outer.lookup(name)
        except KeyError:
            return []
        if isinstance(found, values.Overloads):
            return found.funcs
        return [found] if isinstance(found, values.Func) else []

    def bind(self, name: str, value: V) -> None:
        old = self.run.frame.env.get(name)
        if old is None:
            place = self.place_outside(name)
            if place is None:
                self.run.frame.env[name] = value
            else:
                self.run.memory.write_through(place, value, self.run.place)
        elif isinstance(old.x, Ref):
            self.run.memory.write_through(old.x.pointer, value, self.run.place)
        elif old.ct is None or not old.ct.dims or is_pointer(value.ct):
            self.run.frame.env[name] = self._converted(value, old, name)

    def _converted(self, value: V, old: V, name: str) -> V:
        """A value as the type of the variable `name` makes it."""
        if is_pointer(old.ct):
            return value.with_(ct=old.ct) if value.ct is None or value.ct.pointers != 1 else value
        if isinstance(value.x, tuple) and (old.ct is not None or old.dtype in dtypes.BITS):
            ct, items = old.ct or CType(old.dtype), list(value.x)
            return self.run.objects.construct(ct, items, self.run.place, name, "", [None] * len(items))
        if old.dtype in dtypes.BITS and value.dtype != old.dtype and not isinstance(value.x, Struct):
            value = self.run.objects.to_type(value, old.ct or CType(old.dtype), self.run.place)
            if old.ct is not None and value.ct is None and old.ct.lanes > 1:
                value = value.with_(ct=old.ct)
        return value

    def place_outside(self, name: str) -> V | None:
        """Where a name that no variable here has lies: a field of the object, or what it means around the function."""
        this = self.run.types.this_type()
        if (
            this is not None
            and self.run.fields.field_decl(this, name) is not None
            and isinstance(self.run.frame.this, V)
        ):
            return self.run.fields.sub_pointer(self.run.frame.this.with_(ct=this), name)
        found = self.outer_cache.get((id(self.run.frame.outer), name))
        if found is None:
            self.outer(name, self.run.place)
            found = self.outer_cache.get((id(self.run.frame.outer), name))
        return found.x.pointer if found is not None and isinstance(found.x, Ref) else None

    def assign(self, target: ir.Expr, value: V) -> None:
        value = self.run.fields.given_struct(value)
        if self._assigned_by_class(target, value):
            return
        if not value.totals:
            super().assign(target, value)
            return
        self.run.memory.target = target
        super().assign(target, value)
        self.run.memory.target = None

    def assign_other(self, target: ir.Expr, value: V) -> None:
        loc = self.run.place
        if isinstance(target, ir.Index):
            base, index = self.run.expressions.eval(target.value), self.run.expressions.eval(target.index)
            if base.ct is not None and base.ct.decl is not None and not is_pointer(base.ct):
                self._assign_by("operator[]", base, [index], target, value)
                return
            if not is_pointer(base.ct) and not base.cells:
                self.assign(target.value, join(base, value.with_(const=NOTHING)))
                return
            self.run.memory.write_through(base, value, loc, index=index)
        elif isinstance(target, ir.Unary) and target.op == "*":
            pointer = self.run.expressions.eval(target.value)
            if pointer.ct is not None and not is_pointer(pointer.ct) and self.methods(pointer.ct, "operator*"):
                self._assign_by("operator*", pointer, [], target, value)
                return
            self.run.memory.write_through(pointer, value, loc)
        elif isinstance(target, ir.Attr):
            self._assign_field(target, value, loc)
        elif isinstance(target, ir.Cast):
            pointer = self.run.memory.address_of(target.value)
            ct = self.run.types.resolve_type(target.type)
            self.run.memory.write_through(self.run.objects.pointer_cast(pointer, pointer_to(ct)), value, loc)
        elif isinstance(target, ir.Cond):
            self.assign(target.yes, value)
            self.assign(target.no, value)
        elif isinstance(target, ir.AssignE):
            self.assign(target.target, value)
        elif isinstance(target, ir.Call):
            self.run.calls.place = None
            made = self.run.expressions.eval(target)
            if self.run.calls.place is not None or is_struct(made):
                self._assign_result(made, target, value, loc)
                return
            named = target.func.id if isinstance(target.func, ir.Name) else ""
            if any(isinstance(f.node.returns, ir.TypeRef) and f.node.returns.reference for f in self.overloads(named)):
                self.run.facts.unread(f"an assignment to the result of {named}", loc)
                return
            base = self.run.expressions.eval(target.func.value if isinstance(target.func, ir.Attr) else target.func)
            if base.cells:
                self.run.memory.store(base, value, loc, raw=True)

    def _assigned_by_class(self, target: ir.Expr, value: V) -> bool:
        """Whether the class of what `target` names has an `operator=` of its own for the value, which is called then. A
        value of that class is copied, unless an `operator=` takes it."""
        types = self.run.types.cpp
        kind = types.type_of(value)
        if kind is None or isinstance(value.x, tuple) or not self._may_have_own(target):
            return False
        place = self.run.memory.address_of(target)
        owner = element(place.ct)
        if owner.decl is None or owner.pointers or owner.dims or not is_pointer(place.ct):
            return False
        funcs = [func for func in self.methods(owner, "operator=") if func.node.body is not None]
        below = overloads.PROMOTION if types.key(kind) == types.key(V(const=owner)) else overloads.NEVER
        if not overloads.takes(types, funcs, [kind], (), types.here(), below):
            return False
        self.run.calls.call_overloads(funcs, [value], (), [None], self.run.place, this=place, target=target)
        return True

    def _may_have_own(self, target: ir.Expr) -> bool:
        """Whether `target` can be an object of a class with an `operator=`; cheap to ask."""
        if isinstance(target, ir.Name):
            old = self.run.frame.env.get(target.id)
            if old is None or not isinstance(old.x, Ref) and (old.ct is None or old.ct.decl is None):
                return False
        elif not isinstance(target, (ir.Index, ir.Attr, ir.Unary)):
            return False
        unit = target.loc[0]
        if unit not in self.with_own:
            self.with_own[unit] = "operator=" in unit.text.replace("operator==", "")
        return self.with_own[unit]

    def _assign_by(self, operator: str, base: V, args: list[V], target: ir.Index | ir.Unary, value: V) -> None:
        """Assigns to what an operator of an object gives."""
        self.run.calls.place = None
        made = self.run.calls.call_method(base, operator, args, (), target.value, target.loc)
        self._assign_result(made, target, value, self.run.place)

    def _assign_result(self, made: V, target: ir.Expr, value: V, loc: ir.Loc) -> None:
        """Assigns to what a call gave: to the place it refers to, or by the `operator=` of the object that it is."""
        place = self.run.calls.place
        if made.ct is not None and is_struct(made) and self.methods(made.ct, "operator="):
            self.run.calls.call_method(made, "operator=", [value], (), None, loc)
        elif place is not None:
            self.run.memory.write_through(self.run.calls.taken(place, target.loc), value, loc)
        else:
            self.run.facts.unread("an assignment to what a call gives", loc)

    def _assign_field(self, target: ir.Attr, value: V, loc: ir.Loc) -> None:
        facts = self.run.facts
        loaded = len(facts.made)
        base = self.run.expressions.eval(target.value)
        through = base.ct is not None and base.ct.pointers == 1 and not base.ct.dims
        if through or base.x is IN_MEMORY:
            inner = base.with_(ct=element(base.ct)) if through else base
            if inner.ct is not None and inner.ct.decl is None and inner.ct.lanes > 1:  # p->x of a vector
                self.run.memory.write_through(base, value, loc)
                return
            self.run.memory.write_through(self.run.fields.sub_pointer(inner, target.name), value, loc)
            return
        if isinstance(base.x, Unbound):
            return
        if base.ct is not None and base.ct.decl is None and base.ct.lanes > 1 and not isinstance(target.value, ir.Name):
            facts.not_loaded(facts.loaded_at(target.value.loc, loaded))  # of a vector in memory that lane alone
            place = self.run.memory.address_of(target)
            if place.cells and is_pointer(place.ct):
                self.run.memory.write_through(place, value, loc)
                return
        self.assign(target.value, self.run.fields.with_field(base, (target.name,), value, loc))
