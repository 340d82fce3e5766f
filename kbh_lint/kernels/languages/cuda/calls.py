"""Calls of CUDA C++: the arguments of a kernel, methods, and overloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir, values
from kbh_lint.cpp import overloads
from kbh_lint.kernels.core.calls import Calls
from kbh_lint.kernels.core.frames import THIS, Env
from kbh_lint.kernels.core.guards import argument
from kbh_lint.kernels.core.value import NOTHING, CType, Struct, Unbound, V
from kbh_lint.kernels.languages.cuda.builtins import is_builtin
from kbh_lint.kernels.languages.cuda.libraries import library_method
from kbh_lint.kernels.languages.cuda.places import IN_MEMORY, PLACES, TENSOR_MAP, CppCall, Ref
from kbh_lint.kernels.languages.cuda.types import element, is_pointer

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun


class CudaCalls(Calls):
    """Runs the body of a `__global__` function, and what it calls."""

    run: CudaRun

    def run_kernel(self, func: values.Func, args: Mapping[str, object]) -> None:
        """Executes the kernel `func` once; `args` has its arguments and template arguments by name."""
        node = func.node
        self.run.frame.outer = func.env
        env: Env = {}
        self.run.frame.env = env
        for param in node.template:
            if param.name in args:
                given = args[param.name]
                env[param.name] = argument(self.run.types.argument_value(given, param.name), param.name, given)
            elif param.default is not None:
                env[param.name] = self.run.types.template_value(param.default, param.kind)
        bound = dict(env)
        for parameter in node.params:
            given = args.get(parameter.name, values.UNKNOWN)
            ct = self.run.types.resolve_type(parameter.type) if isinstance(parameter.type, ir.TypeRef) else CType()
            bound[parameter.name] = argument(self.bind_argument(parameter.name, given, ct), parameter.name, given)
        self.run.frame.env = dict(bound)
        self.inline(func, bound, node.loc)

    def bind_argument(self, name: str, value: object, ct: CType) -> V:
        """The abstract value, of the declared type `ct`, that the parameter `name` has at the start."""
        if isinstance(value, (values.Buffer, values.Descriptor)):
            return self._bind_memory(name, value, ct)
        if isinstance(value, values.StructArg):
            self.run.fields.given.update((f"{name}.{field}", item) for field, item in value.fields)
            return V(x=Unbound(name), ct=ct)
        if isinstance(value, (tuple, list)):
            return self._bind_array(name, value, ct)
        if isinstance(value, values.Scalar):
            known = NOTHING if value.value is values.UNKNOWN else value.value
            dtype = ct.dtype if ct.dtype != "?" else value.dtype
            return V(dtype, dtype, const=known, deps=frozenset((name,)))
        if isinstance(value, (bool, int, float)):
            return V(ct.dtype, ct.dtype, const=value, deps=frozenset((name,)))
        if value is None and is_pointer(ct):
            return V(ct.dtype, ct.dtype, const=None, deps=frozenset((name,)), ct=ct)
        if is_pointer(ct):
            cell = self.run.memory.param_cell(name, -1, ct.dtype, ct.dtype)
            return V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=ct)
        if ct.dtype != "?":
            return V(ct.dtype, ct.dtype, ct=ct if ct.lanes > 1 else None)
        if ct.name.endswith("CUtensorMap"):
            return V(cells=frozenset((self.run.memory.param_cell(name),)), ct=TENSOR_MAP)
        return V(x=Unbound(name), ct=ct)

    def _bind_memory(self, name: str, value: values.Buffer | values.Descriptor, ct: CType) -> V:
        seen = ct.dtype if ct.dtype not in ("?", "") else value.dtype
        cell = self.run.memory.argument_cell(name, value)
        declared = ct if is_pointer(ct) else replace(ct, pointers=1) if ct.dtype != "?" else CType(seen, pointers=1)
        if ct.name.endswith("CUtensorMap"):
            declared = TENSOR_MAP
        elif ct.name.rpartition("::")[2] == "Tensor" and not ct.pointers:  # CuTe's, over the memory
            declared = CType(seen, name="cute::Tensor")
        elif declared.dtype == "?" and declared.decl is None:
            declared = replace(declared, dtype=seen)
        at = self.run.ranges.start(value.storage)
        return V(seen, value.content, cells=frozenset((cell,)), ct=declared, x=at)

    def _bind_array(self, name: str, items: Sequence[object], ct: CType) -> V:
        one = replace(ct, dims=0)
        held = {i: self.bind_argument(f"{name}[{i}]", item, one) for i, item in enumerate(items)}
        if any(isinstance(item, values.StructArg) for item in items) and one.decl is not None:
            return self.run.fields.given_structs(name, items, one, ct)
        if not any(part.cells for part in held.values()):
            return V(x=Unbound(name), ct=ct)
        cell = self.run.memory.cell(("given", name), "local", name, ct.dtype)
        for i, part in held.items():
            cell.entries.setdefault((part.dtype, part.content, i), part)
        return V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=ct)

    def means_cuda(self, name: str, funcs: list[values.Func], args: list[V], explicit: tuple[ir.Expr, ...]) -> bool:
        """Whether a call of `name`, which the text overloads, means CUDA's own function, as no overload fits the
        arguments."""
        if "::" in name or not is_builtin(name):
            return False
        types = self.run.types.cpp
        return not overloads.takes(types, funcs, [types.type_of(arg) for arg in args], explicit, types.here())

    def is_functor(self, callee: V) -> bool:
        """Whether the called value is an object with `operator()`, made in the kernel or passed to it."""
        return (
            isinstance(callee.x, Struct)
            or callee.ct is not None
            and bool(self.run.names.methods(callee.ct, "operator()"))
        )

    def call_method(
        self, base: V, name: str, args: list[V], explicit: tuple[Any, ...], target: ir.Expr | None, loc: ir.Loc,
        nodes: list[Any] | None = None, place: V | None = None,
    ) -> V:  # fmt: skip
        """The result of `base.name(args)`. `target` is the expression for the object; `place` is the memory of the
        object that the call of `operator*` or the like in front of it refers to."""
        ct = base.ct
        owner = element(ct) if ct is not None and ct.pointers == 1 else ct
        funcs = self.run.names.methods(owner, name) if owner is not None else []
        if funcs and owner is not None:
            if ct is not None and ct.pointers == 1:
                this = base
            elif base.x is IN_MEMORY:
                this = base.with_(ct=replace(owner, pointers=1), x=None)
            elif place is not None:
                this = place
            elif isinstance(target, ir.Call):  # what it did is done
                this = self.run.memory.temporary(base, id(target))
            elif target is not None:
                this = self.run.memory.address_of(target)
            else:  # an operand of an operator
                slot = f"$operand{loc[1]}"
                self.run.frame.env[slot] = base
                this = V(
                    cells=frozenset((self.run.memory.variable_cell(self.run.frame, slot),)),
                    ct=replace(owner, pointers=1),
                )
            if this.ct is None or this.ct.decl is None:
                this = this.with_(ct=replace(owner, pointers=1))
            given = nodes or [None] * len(args)
            return self.call_overloads(funcs, args, explicit, given, loc, this=this, target=target)
        field = base.x.fields.get(name) if isinstance(base.x, Struct) else None
        if field is not None and isinstance(field.const, values.Func):
            return self.call_overloads([field.const], args, explicit, nodes or [None] * len(args), loc)
        return library_method(CppCall(self.run, name, args, explicit, nodes or [], loc), base, target)

    def call_overloads(
        self, funcs: list[values.Func], args: list[V], explicit: tuple[Any, ...], nodes: Sequence[Any], loc: ir.Loc,
        *, this: V | None = None, target: ir.Expr | None = None,
    ) -> V:  # fmt: skip
        """The result of calling the overload among `funcs` that fits the arguments best, of the object `this`, which
        the caller names `target`."""
        types = self.run.types.cpp
        given = [types.type_of(arg) for arg in args]
        choice = overloads.choose(types, funcs, given, explicit, types.here(), {})
        func = funcs[0] if choice is None else choice.func
        env = {} if choice is None else dict(choice.bound)
        node = func.node
        scope = types.scope(func.env, env)
        with self.run.types.inside(scope):
            written = [param.type for param in node.params]
            kinds = [self.run.types.resolve_type(ref) if isinstance(ref, ir.TypeRef) else CType() for ref in written]
        refers = isinstance(node.returns, ir.TypeRef) and node.returns.reference and not node.returns.const
        for position, param in enumerate(node.params):
            if param.kind == "star":
                env[param.name] = V(x=tuple(args[position:]))
                break
            ct = kinds[position]
            if position >= len(args):
                with self.run.types.inside(scope):
                    known = None if param.default is None else self.run.expressions.eval(param.default)
                if known is not None and isinstance(known.x, tuple) and (ct.decl is not None or ct.dtype != "?"):
                    known = self.run.objects.construct(ct, list(known.x), loc, id(param), "", [])
                fresh = self.run.objects.default_value(ct, id(param)) if ct.decl is not None else V(ct.dtype, ct.dtype)
                env[param.name] = fresh if known is None else known
                continue
            source = nodes[position] if position < len(nodes) else None
            env[param.name] = self._parameter(param, ct, args[position], source, loc, by_place=refers)
        given_by = zip(node.params, nodes, strict=False)
        self.sources = {param.name: source for param, source in given_by if source is not None}
        self.sources |= {} if target is None else {THIS: target}
        return self.invoke(func, env, loc, this)

    def _parameter(
        self, param: ir.Param, ct: CType, value: V, source: object, loc: ir.Loc, *, by_place: bool = False
    ) -> V:
        """What a parameter is bound to: the place of its argument for references to what may change there, which with
        `by_place` all references are, since the function returns one that can be written to."""
        ref = param.type
        made = self.run.objects.converted(value, ct, loc) if ct.decl is not None else value
        if made is not value:
            return made
        if isinstance(ref, ir.TypeRef) and ref.reference and source is not None:
            refers = not isinstance(source, ir.Call) or source.loc in self.run.facts.looked
            if isinstance(source, PLACES) and refers and (by_place or not ref.const or ct.decl):
                facts, place = self.run.facts, source.value if isinstance(source, ir.Attr) else source
                seen = facts.loaded_at(source.loc)
                seen += [] if place is source else facts.loaded_at(place.loc)
                facts.not_loaded(seen)  # to choose the function its value was asked for
                pointer = self.run.memory.address_of(source)
                if pointer.ct is not None and pointer.ct.dims:
                    return pointer
                if pointer.cells and is_pointer(pointer.ct):
                    return V(x=Ref(pointer))
                facts.loaded(seen)
        if isinstance(value.x, tuple) and (ct.decl is not None or ct.dtype != "?"):
            return self.run.objects.construct(ct, list(value.x), loc, id(param), "", [None] * len(value.x))
        if is_pointer(ct):
            if isinstance(ref, ir.TypeRef) and ct.dtype == "?" and ct.decl is None and value.ct is not None:
                return value
            return self.run.objects.pointer_cast(value, ct)
        if ct.dtype not in ("?", "") and not isinstance(value.x, Struct):
            return self.run.objects.cast_to(value, ct, loc)
        return self.run.objects.converted(value, ct, loc)
