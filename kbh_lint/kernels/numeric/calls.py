"""Calls: to functions of the submission in place, to library functions by table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir, values
from kbh_lint.base.values import UNKNOWN, DType, Env, Sym, Value
from kbh_lint.frontends.walk import walk
from kbh_lint.kernels.core.parameters import matched
from kbh_lint.kernels.numeric import ctypes, ops
from kbh_lint.kernels.numeric.builtins import LIMITS, Args, Builtin, unknown_call
from kbh_lint.kernels.numeric.control import CAPS
from kbh_lint.kernels.numeric.cuda import METHODS as CUDA
from kbh_lint.kernels.numeric.cuda import cuda_builtin
from kbh_lint.kernels.numeric.numbers import Num, literal
from kbh_lint.kernels.numeric.state import OTHER, Closure, CType, Frame, Method, Obj, Ptr, Reference

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

MAX_CALLS = 24


class Calls:
    """Finds out what a call means, and calls it."""

    def __init__(self, m: Machine) -> None:
        self.m = m

    def call(self, node: ir.Call, frame: Frame) -> Any:
        """The result of a call expression."""
        func = node.func
        if frame.cpp and isinstance(func, ir.Name) and func.id == "..." and node.args:
            return self._folded(node, frame)
        targs: tuple[Any, ...] = ()
        callee: Any
        if isinstance(func, ir.TypeRef):
            callee, targs = self._template_callee(func, frame)
        elif isinstance(func, ir.Attr) and frame.cpp:
            callee = self._method(func, frame)
            targs = func.args or ()
        else:
            callee = self.m.expressions.evaluate(func, frame)
        if isinstance(callee, Num):
            return callee
        if frame.this is not None and isinstance(callee, Sym):
            callee = self._own_method(frame.this, callee)
        args, keywords = self._arguments(node, frame, callee)
        return self.invoke(callee, args, keywords, node, frame, targs)

    def _folded(self, node: ir.Call, frame: Frame) -> Value:
        """`(f(args), ...)`, `(a + ... + args)`: the operator between what the pattern is for each item of its packs."""
        op = node.args[0].value if isinstance(node.args[0], ir.Const) else ""
        made: Any = None
        for item in node.args[1:]:
            names = {part.id for part in walk(item) if isinstance(part, ir.Name)}
            held = {name: scope[name] for name in sorted(names) if (scope := frame.find(name)) is not None}
            packs = {name: value for name, value in held.items() if isinstance(value, tuple)}
            rounds = list(zip(*packs.values(), strict=False)) if packs else [()]
            for values_ in rounds:
                frame.scopes.append(dict(zip(packs, values_, strict=True)))
                try:
                    value = self.m.expressions.evaluate(item, frame)
                finally:
                    frame.scopes.pop()
                plain = made is None or op == ","
                made = value if plain else self.m.expressions.binary(str(op), made, value, node, frame)
        return UNKNOWN if made is None else made

    def _arguments(self, node: ir.Call, frame: Frame, callee: object) -> tuple[list[Any], dict[str, Any]]:
        by_place = self._reference_positions(callee) if frame.cpp else frozenset()
        args: list[Any] = []
        for i, arg in enumerate(node.args):
            if isinstance(arg, ir.Star):
                value = self.m.expressions.evaluate(arg.value, frame)
                args.extend(value if isinstance(value, tuple) else [UNKNOWN])
                continue
            where = self.m.places.place(arg, frame) if i in by_place else None
            start = self.m.dialect.argument(self.m, arg, callee, frame)
            if start is not None:
                args.append(start)
                continue
            args.append(Reference(where) if where is not None else self.m.expressions.evaluate(arg, frame))
        keywords = {
            name: self.m.expressions.evaluate(value, frame) for name, value in node.keywords if name is not None
        }
        return args, keywords

    def _functions(self, callee: object) -> list[ir.FuncDef]:
        if isinstance(callee, values.Overloads):
            return [f.node for f in callee.funcs]
        if isinstance(callee, values.Func | Closure):
            return [callee.node]
        if isinstance(callee, Method) and isinstance(callee.value, Obj):
            return [func.node for func in self.m.structs.methods(callee.value.type, callee.name)]
        if isinstance(callee, Obj):
            return [func.node for func in self.m.structs.methods(callee.type, "operator()")]
        return []

    def _reference_positions(self, callee: object) -> frozenset[int]:
        """Which arguments some function of this name takes by reference."""
        if not isinstance(callee, values.Overloads):
            return self._by_reference(callee)
        known = self.m.reference_positions.get(id(callee))
        if known is None:
            known = self.m.reference_positions[id(callee)] = self._by_reference(callee)
        return known

    def _by_reference(self, callee: object) -> frozenset[int]:
        return frozenset(
            i
            for node in self._functions(callee)
            for i, p in enumerate(node.params)
            if isinstance(p.type, ir.TypeRef) and p.type.reference and not p.type.const
        )

    def _template_callee(self, func: ir.TypeRef, frame: Frame) -> tuple[Any, tuple[Any, ...]]:
        """`f<64>(x)`, `T(x)`, `std::numeric_limits<T>::max()`."""
        if func.member:
            last = func.member[-1]
            if func.name.endswith("numeric_limits"):
                return literal(LIMITS.get(last, 0.0)), ()
            owner = self.m.ctypes.resolve(ir.TypeRef(func.name, func.args, func.loc, func.member[:-1]), frame)
            if owner.kind == "struct" and self.m.structs.methods(owner, last):
                return Method(self.m.ctypes.zero(owner), last), ()
            kind = self.m.ctypes.resolve(func, frame)
            return (kind, ()) if kind is not OTHER else (Sym(f"{func.name}::{last}"), ())
        try:
            value = frame.env.lookup(func.name) if frame.find(func.name) is None else UNKNOWN
        except KeyError:
            value = self.m.ctypes.scoped(func.name, frame) if frame.cpp and "::" in func.name else UNKNOWN
        if isinstance(value, values.Overloads | values.Func | Method):
            return value, func.args
        kind = self.m.ctypes.resolve(func, frame)
        return (kind if kind is not OTHER else Sym(func.name)), func.args

    def _method(self, func: ir.Attr, frame: Frame) -> Any:
        """The callee of `x.f(...)` and `p->f(...)`, with `x` in place."""
        value = self.m.expressions.evaluate(func.value, frame)
        if isinstance(value, Reference):
            value = self.m.places.load(value.place, func, frame)
        if isinstance(value, Obj) and value.type.parts:
            there = self.m.places.place(func.value, frame)
            value = there if isinstance(there, Ptr) else value
        if isinstance(value, Ptr):
            found = self.m.memory.target(value, self.m.site(frame, func))
            value = found if isinstance(found, Obj) else value
        if isinstance(value, Obj) and func.name in value.fields:
            return value.fields[func.name]
        where = self.m.places.place(func.value, frame) if isinstance(func.value, ir.Name | ir.Attr) else None
        return Method(value, func.name, where)

    def _own_method(self, this: Obj, callee: Sym) -> Value:
        return Method(this, callee.path) if self.m.structs.methods(this.type, callee.path) else callee

    def invoke(
        self,
        callee: object,
        args: list[Any],
        keywords: dict[str, Any],
        node: ir.Expr | ir.Stmt,
        frame: Frame,
        targs: tuple[Any, ...] = (),
    ) -> Any:
        """The result of calling `callee`: a function, class, method or symbol."""
        if isinstance(callee, values.JitFunction):
            callee = callee.func
        if isinstance(callee, values.Func) and callee.node.kind == "python":
            return self.inline(callee.node, callee.env, args, keywords, node, frame, defaults=callee.defaults)
        if isinstance(callee, values.Overloads | values.Func):
            funcs = callee.funcs if isinstance(callee, values.Overloads) else [callee]
            name = funcs[0].node.name if funcs else ""
            plain = frame.cpp and name and "::" not in name and cuda_builtin(name)
            if plain and not self.m.structs.takes(funcs, args, targs, frame):  # CUDA's, overloaded for other types
                loaded = [self._loaded(a, node, frame) for a in args]
                return self._call_symbol(name, Args(loaded, keywords, self.m.site(frame, node), node, frame))
            chosen = self.m.structs.chosen_of(funcs, args, targs, frame)
            if chosen is not None:
                return self.inline(chosen.func.node, chosen.func.env, args, keywords, node, frame, bound=chosen.bound)
        if isinstance(callee, Closure):
            outer = callee.frame
            scopes = [*outer.scopes, callee.held] if callee.held else outer.scopes
            return self.inline(callee.node, outer.env, args, keywords, node, frame, outer=scopes, this=outer.this)
        if isinstance(callee, values.CppType | values.TypeValue | CType):
            return self._construct(callee, args, node, frame)
        if isinstance(callee, DType) and args:
            return self.m.ctypes.convert(args[0], ctypes.scalar(callee.name), self.m.site(frame, node))
        if isinstance(callee, Obj):
            called = self.m.structs.operator("operator()", [callee, *args], node, frame)
            return UNKNOWN if called is None else called
        packed = Args([self._loaded(a, node, frame) for a in args], keywords, self.m.site(frame, node), node, frame)
        if isinstance(callee, Method):
            return self._call_method(callee, args, packed, targs)
        if isinstance(callee, Sym):
            return self._call_symbol(callee.path, packed)
        return unknown_call(self.m, "a call", packed)

    def _construct(self, kind: object, args: list[Any], node: ir.Expr | ir.Stmt, frame: Frame) -> Any:
        """`T(...)`, `T{...}`."""
        made = self.m.ctypes.of_value(kind)
        items = [self._loaded(a, node, frame) for a in args]
        if isinstance(node, ir.Call):
            items = self.m.structs.by_place(made, items, node.args, frame)
        return self.m.structs.construct(made, items, node, frame, braces=getattr(node, "braces", False))

    def _loaded(self, value: object, node: ir.Expr | ir.Stmt, frame: Frame) -> Any:
        if isinstance(value, Reference) and not value.address:
            return self.m.places.load(value.place, node, frame)
        return value

    def _call_method(self, callee: Method, args: list[Any], packed: Args, targs: tuple[Any, ...] = ()) -> Value:

        value = callee.value
        if isinstance(value, Obj):
            funcs = self.m.structs.methods(value.type, callee.name)
            if funcs:
                chosen = self.m.structs.chosen_of(funcs, args, targs, packed.frame)
                func = funcs[0] if chosen is None else chosen.func
                bound = {} if chosen is None else chosen.bound
                return self.inline(func.node, func.env, args, {}, packed.node, packed.frame, this=value, bound=bound)
        if packed.frame.cpp:
            handler = CUDA.get(callee.name)
            made = handler(self.m, packed) if handler is not None else NotImplemented
        else:
            made = self.m.dialect.method(self.m, callee, packed)
        return unknown_call(self.m, f"method {callee.name}", packed) if made is NotImplemented else made

    def _call_symbol(self, path: str, packed: Args) -> Any:
        handler: Builtin | None
        if packed.frame.cpp:
            handler = cuda_builtin(path.rsplit("::", 1)[-1])
        else:
            handler = self.m.dialect.builtin(path)
        if handler is None:
            return unknown_call(self.m, path, packed)
        return handler(self.m, packed)

    def inline(
        self,
        node: ir.FuncDef,
        env: Env,
        args: list[Any],
        keywords: dict[str, Any],
        at: ir.Expr | ir.Stmt,
        frame: Frame,
        *,
        outer: list[dict[str, Any]] | None = None,
        this: Obj | None = None,
        bound: dict[str, Any] | None = None,
        defaults: dict[str, Any] | None = None,
    ) -> Value:
        """The result of calling a function of the submission, whose body is executed here. `args` may hold `Reference`s
        for reference parameters."""
        if self.m.statements.depth > MAX_CALLS or node.body is None:
            self.m.note(f"{node.name or 'a function'} is not followed", at)
            return UNKNOWN
        scope: dict[str, Any] = dict(bound or {})
        inner = Frame([*(outer or []), scope], env, frame.cpp, self.m.sites.number(frame.ctx, at) // 8 + 1, this)
        returns = node.returns
        inner.by_place = frame.cpp and isinstance(returns, ir.TypeRef) and returns.reference and not returns.const
        self._bind(node, inner, scope, args, keywords, defaults or {})
        loops = self.m.depth
        self.m.depth = min(loops, len(CAPS) - 1)
        try:
            self.m.statements.activate(inner, node.body)
        finally:
            self.m.depth = loops
        result = inner.result
        if inner.cpp and isinstance(node.returns, ir.TypeRef) and isinstance(result, Num | int | tuple):
            result = self.m.ctypes.passed(node.returns, result, inner)
        return result.copy() if isinstance(result, Obj) else result

    def _bind(
        self,
        node: ir.FuncDef,
        inner: Frame,
        scope: dict[str, Any],
        args: list[Any],
        keywords: dict[str, Any],
        defaults: dict[str, Any],
    ) -> None:
        given, collected, missing = matched(node.params, args, keywords)
        scope.update(collected)
        for param in node.params:
            if param.name in given:
                scope[param.name] = self._passed(param, given[param.name], inner)
        for param in missing:
            value = UNKNOWN
            if param.name in defaults:
                value = ops.wrapped(defaults[param.name])
            elif param.default is not None:
                value = self.m.expressions.evaluate(param.default, inner)
            elif inner.cpp and isinstance(param.type, ir.TypeRef) and not param.type.pointers:  # `E e = {}`
                kind = self.m.ctypes.resolve(param.type, inner)
                value = self.m.ctypes.zero(kind) if kind.kind == "struct" else UNKNOWN
            scope[param.name] = self._passed(param, value, inner)

    def _passed(self, param: ir.Param, value: object, inner: Frame) -> Any:
        """What a parameter holds of its argument."""
        if not inner.cpp or not isinstance(param.type, ir.TypeRef):
            return value
        return self.m.ctypes.passed(param.type, value, inner)
