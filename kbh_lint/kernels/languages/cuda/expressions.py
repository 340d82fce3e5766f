"""Expressions of CUDA C++: names, members, indices, operators, casts, lambdas and calls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp import overloads, traits
from kbh_lint.kernels.core.calls import HELD
from kbh_lint.kernels.core.expressions import Expressions
from kbh_lint.kernels.core.frames import THIS
from kbh_lint.kernels.core.value import LITERAL, NOTHING, UNKNOWN_V, CType, V, constant
from kbh_lint.kernels.languages.cuda.builtins import builtin
from kbh_lint.kernels.languages.cuda.numbers import is_struct
from kbh_lint.kernels.languages.cuda.places import CppCall, Ref
from kbh_lint.kernels.languages.cuda.types import element, is_pointer, pointer_to

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun


class CudaExpressions(Expressions):
    """Evaluates expressions of C++."""

    run: CudaRun

    def e_const(self, node: ir.Const) -> V:
        return V(node.dt, LITERAL, const=node.value, shape=()) if node.dt else super().e_const(node)

    def chosen(self, node: ir.Expr) -> V:
        return self.run.fields.given_struct(self.eval(node))

    def elements(self, value: V) -> list[V]:
        ct = value.ct
        if ct is not None and ct.dims and value.cells and element(ct).decl is not None and not is_pointer(element(ct)):
            return [self.run.memory.read_through(value, self.run.place)]  # a loop over an array of structs
        return super().elements(value)

    def e_name(self, node: ir.Name) -> V:
        name = node.id
        value = self.run.frame.env.get(name)
        if value is None:
            return self.run.names.unscoped(name, node.loc)
        if isinstance(value.x, Ref):
            return self.run.memory.read_through(value.x.pointer, node.loc)
        return value

    def e_type(self, node: ir.TypeRef) -> V:
        if not node.pointers and not node.dims:
            if node.args or node.member:
                funcs = self.run.names.overloads(node.name)
                if funcs and not node.member:
                    return V(const=values.Overloads(funcs))
                scoped = self._type_member(node)
                if scoped is None and "::" in node.name and not node.member:
                    scoped = self.run.names.scoped_value(node.name, node.loc)
                if scoped is not None:
                    return scoped
            else:
                value = self.run.frame.env.get(node.name)
                if value is not None and not isinstance(value.const, CType):
                    return self.e_name(ir.Name(node.name, node.loc))
                if self.run.types.declaration(node.name) is None:
                    if not dtypes.from_cpp(node.name) and not dtypes.vector_from_cpp(node.name):
                        return self.run.names.unscoped(node.name, node.loc)
        return V(const=self.run.types.resolve_type(node))

    def _type_member(self, node: ir.TypeRef) -> V | None:
        """`Config<64>::kSize`, `std::is_same<A, B>::value`, `is_same_v<A, B>`."""
        if traits.asked(node):
            known = traits.value(self.run.types.cpp, node, self.run.types.cpp.here())
            return UNKNOWN_V if known is None else constant(known)
        if not node.member:
            variable = self.run.types.cpp.classes.variable(node, self.run.types.cpp.here())
            return None if variable is None else self.run.names.constant(variable)
        base = self.run.types.resolve_type(ir.TypeRef(node.name, node.args, node.loc))
        member = None
        if base.decl is not None:
            cpp = self.run.types.cpp
            member = cpp.classes.member(V(const=base), node.member, cpp.here())
        if member is None or member.field:
            return V(ct=None, const=values.Sym("::".join((node.name, *node.member))))
        if member.constant:
            return self.run.names.constant(member)
        owner = self.run.types.cpp.made(member.owner.kind, member.owner.args).const
        return V(const=values.Overloads(member.funcs), ct=owner) if member.funcs else None

    def e_attr(self, node: ir.Attr) -> V:
        base = self.eval(node.value)
        if isinstance(base.const, CType):
            found = self.run.names.member(None, base.const, node.name, node.loc) or self.run.names.method_value(
                base.const, node.name
            )
            return found if found is not None else UNKNOWN_V
        if base.ct is not None and base.ct.pointers == 1 and not base.ct.dims:
            if base.ct.decl is not None or not base.ct.lanes > 1:
                pointed = self.run.memory.read_through(base, node.loc)
                return self.run.fields.field_of(pointed, node.name, node.loc)
        if base.ct is not None and base.ct.decl is not None and not is_pointer(base.ct):
            member = self.run.fields.member(base.ct, node.name)
            if member is not None and member.constant and not member.field:
                return self.run.names.constant(member)
        return self.run.fields.field_of(base, node.name, node.loc)

    def e_index(self, node: ir.Index) -> V:
        base, index = self.eval(node.value), self.eval(node.index)
        if is_pointer(index.ct) and not is_pointer(base.ct) and not base.cells:  # `3[p]`
            base, index = index, base
        if base.ct is not None and base.ct.decl is not None and not is_pointer(base.ct):
            return self.run.calls.call_method(base, "operator[]", [index], (), node.value, node.loc)
        return self.run.memory.read_through(base, node.loc, index=index)

    def e_unary(self, node: ir.Unary) -> V:
        if node.op == "&":
            return self.run.memory.address_of(node.value)
        value = self.eval(node.value)
        if is_struct(value) and value.ct is not None:
            own = self._own_unary("!" if node.op == "not" else node.op, value, node)
            if own is not None:
                return own
        if node.op == "*":
            return self.run.memory.read_through(value, node.loc)
        return self.run.numbers.unary(node.op, value, node.loc)

    def _own_unary(self, op: str, value: V, node: ir.Unary) -> V | None:
        """An operator that the class of an object has, as a method or as a friend, or that stands beside it."""
        name = f"operator{op}"
        own = [] if value.ct is None else self.run.names.methods(value.ct, name)
        funcs = [func for func in (*own, *self.run.names.overloads(name)) if len(func.node.params) == 1]
        if any(not func.node.params for func in own):
            return self.run.calls.call_method(value, name, [], (), node.value, node.loc)
        return self.run.calls.call_overloads(funcs, [value], (), [node.value], node.loc) if funcs else None

    def e_binary(self, node: ir.Binary) -> V:
        if node.op == ",":
            self.eval(node.left)
            return self.eval(node.right)
        left, right = self.eval(node.left), self.eval(node.right)
        if is_struct(left) or is_struct(right) or self._has_own(node.op, left, right):
            found = self.operator(node.op, left, right, node.loc)
            if found is not None:
                return found
        made = self.run.numbers.binary(node.op, left, right, node.loc)
        if made.cells:
            pointer = left if is_pointer(left.ct) else right if is_pointer(right.ct) else None
            if pointer is not None and pointer.ct is not None and pointer.ct.dims and node.op in "+-":
                inner = element(pointer.ct)
                return made.with_(ct=inner if inner.dims else pointer_to(inner))
        elif left.ct is not None and left.ct.lanes > 1 and made.ct is None:
            return made.with_(ct=left.ct)
        return made

    def e_compare(self, node: ir.Compare) -> V:
        left, right = self.eval(node.left), self.eval(node.rights[0])
        if is_struct(left) or is_struct(right):
            found = self.operator(node.ops[0], left, right, node.loc)
            if found is not None:
                return found
        return self.run.numbers.compare(node.ops[0], left, right)

    def operator(self, op: str, left: V, right: V, loc: ir.Loc) -> V | None:
        """The result of an operator that the file overloads for these operands; None where it overloads none."""
        funcs = self.run.names.overloads(f"operator{op}")
        if funcs:
            return self.run.calls.call_overloads(funcs, [left, right], (), [None, None], loc)
        if left.ct is not None and self.run.names.methods(left.ct, f"operator{op}"):
            return self.run.calls.call_method(left, f"operator{op}", [right], (), None, loc)
        return None

    def _has_own(self, op: str, left: V, right: V) -> bool:
        """Whether the file has an operator for vectors such as `float2`, on which there is none."""
        if not any(side.ct is not None and side.ct.lanes > 1 and not is_pointer(side.ct) for side in (left, right)):
            return False
        funcs, types = self.run.names.overloads(f"operator{op}"), self.run.types.cpp
        kinds = [types.type_of(left), types.type_of(right)]
        return bool(funcs) and overloads.takes(types, funcs, kinds, (), types.here())

    def e_seq(self, node: ir.Seq) -> V:
        return V(x=tuple(self.items(node.items)))

    def e_assign(self, node: ir.AssignE) -> V:
        old = self.eval(node.target) if node.op or node.post else UNKNOWN_V
        own = f"operator{node.op}="
        if node.op and not node.post and is_struct(old) and old.ct is not None and self.run.names.methods(old.ct, own):
            return self.run.calls.call_method(old, own, [self.eval(node.value)], (), node.target, node.loc)
        value = None if node.op else self.run.statements.self_addition(node.target, node.value)
        if value is None:
            value = self.eval(node.value)
            if node.op:
                value = self.run.numbers.augmented(node.op, old, value, node.loc)
        self.run.names.assign(node.target, value)
        return old if node.post else value

    def e_lambda(self, node: ir.Lambda) -> V:
        made = self.run.names.closure(node.func)
        held: dict[str, V] = {}
        for capture in node.func.captures:
            if capture.init is not None:
                known = capture.reference
                held[capture.name] = (
                    self.run.objects.reference(capture.init, CType()) if known else self.eval(capture.init)
                )
            elif not capture.reference and capture.name in self.run.frame.env:
                held[capture.name] = self.eval(ir.Name(capture.name, capture.loc))
        if held:
            made.const.env.vars[HELD] = held
        return made

    def e_cast(self, node: ir.Cast) -> V:
        ct = self.run.types.resolve_type(node.type)
        if node.type.reference and node.kind in ("reinterpret", "c"):
            pointer = self.run.memory.address_of(node.value)
            target = pointer_to(ct)
            return self.run.memory.read_through(self.run.objects.pointer_cast(pointer, target), node.loc)
        return self.run.objects.cast_to(self.eval(node.value), ct, node.loc, bits=node.kind == "reinterpret")

    def e_call(self, node: ir.Call) -> V:
        self.run.step()
        func = node.func
        if isinstance(func, ir.Attr):
            return self._member_call(func, node)
        args = self.items(node.args)
        nodes = list(node.args) if len(args) == len(node.args) else [None] * len(args)
        explicit = func.args if isinstance(func, ir.TypeRef) else ()
        name = func.id if isinstance(func, ir.Name) else func.name if isinstance(func, ir.TypeRef) else ""
        call = CppCall(self.run, name, args, explicit, nodes, node.loc)
        local = self.run.frame.env.get(name)
        made = None if local is None else self._call_of_local(local, call, node)
        if made is None and name and not (isinstance(func, ir.TypeRef) and func.member):
            made = self._call_of_function(call)
        return self._call_of_value(self.eval(func), call, node) if made is None else made

    def _call_of_local(self, local: V, call: CppCall, node: ir.Call) -> V | None:
        """`name(...)` where a variable has the name: a lambda, an object or a tensor; None for what is not called."""
        if isinstance(local.const, values.Func):
            return self.run.calls.call_overloads([local.const], call.args, call.explicit, call.nodes, node.loc)
        if self.run.calls.is_functor(local):
            return self.run.calls.call_method(local, "operator()", call.args, call.explicit, node.func, node.loc)
        if local.ct is None or local.ct.name not in ("Tensor", "cute::Tensor"):
            return None
        if any(isinstance(part, ir.Name) and part.id.rpartition("::")[2] == "_" for part in node.args):
            return local  # a slice
        return self.run.memory.read_through(local, node.loc) if local.cells else UNKNOWN_V

    def _call_of_function(self, call: CppCall) -> V | None:
        """`name(...)` of a method of the class here, or of a function of the file; None where it has none."""
        run, name = self.run, call.path
        funcs = run.names.overloads(name)
        this = run.types.this_type()
        own = run.names.methods(this, name) if this is not None else []
        if own:
            here = ir.Name(THIS, call.loc)
            return run.calls.call_overloads(
                own, call.args, call.explicit, call.nodes, call.loc, this=run.frame.this, target=here
            )
        if not funcs:
            return None
        if run.calls.means_cuda(name, funcs, call.args, call.explicit):
            return builtin(call)
        return run.calls.call_overloads(funcs, call.args, call.explicit, call.nodes, call.loc)

    def _call_of_value(self, callee: V, call: CppCall, node: ir.Call) -> V:
        """A call of what an expression comes to: functions, a type, an object, or something outside the file."""
        calls, args, nodes = self.run.calls, call.args, call.nodes
        of_class = bool(getattr(node.func, "member", ()))
        given = () if of_class else call.explicit  # in `S<T>::f(x)` they are those of the class
        const = callee.const
        if const is NOTHING or isinstance(const, (values.Sym, CType)):
            const = self._alias(call.path, call, const, of_class)
        if isinstance(const, values.Overloads):
            static = V(ct=replace(callee.ct, pointers=1)) if callee.ct is not None else None
            return calls.call_overloads(const.funcs, args, given, nodes, node.loc, this=static)
        if isinstance(const, values.Func):
            return calls.call_overloads([const], args, given, nodes, node.loc)
        if isinstance(const, CType):
            if const.decl is not None or const.dtype != "?" or is_pointer(const):
                return self.run.objects.construct(const, args, node.loc, id(node), "", nodes)
            if node.braces and not args:  # `T{}` of a library's class holds no data
                return V(ct=const)
        if calls.is_functor(callee):
            return calls.call_method(callee, "operator()", args, call.explicit, node.func, node.loc)
        if isinstance(const, (values.Sym, CType)):
            call.path = const.path if isinstance(const, values.Sym) else const.name
        return builtin(call)

    def _alias(self, name: str, call: CppCall, const: object, of_class: bool) -> object:
        """What is called where `T::Sort(...)` names an alias in a class: that type, and else what it was."""
        if "::" not in name or call.explicit:
            return const
        meant = self.run.types.resolve_type(ir.TypeRef(name, (), call.loc))
        known = meant.decl is not None or meant.dtype != "?" or meant.name != name
        return meant if known and not of_class else const

    def _member_call(self, func: ir.Attr, node: ir.Call) -> V:
        self.run.calls.place = None
        base = self.eval(func.value)
        place = self.run.calls.place if isinstance(func.value, ir.Call) else None
        args = self.items(node.args)
        if isinstance(base.const, CType):
            funcs = self.run.names.methods(base.const, func.name)
            if funcs:
                return self.run.calls.call_overloads(
                    funcs, args, func.args or (), list(node.args), node.loc, this=V(ct=replace(base.const, pointers=1)),
                )  # fmt: skip
        return self.run.calls.call_method(
            base, func.name, args, func.args or (), func.value, node.loc, list(node.args), place=place
        )
