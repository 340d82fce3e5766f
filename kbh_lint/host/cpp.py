"""The C++ host side of an extension: from the call in Python to launches and library calls.

The same bounded walk as for Python, over the same IR: sizes, template arguments and aliases are real, tensors abstract.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbh_lint import dtypes, ir
from kbh_lint.frontends import cuda
from kbh_lint.host import (
    cpp_classes,
    cpp_expressions,
    cpp_libraries,
    cpp_numbers,
    cpp_overloads,
    cpp_statements,
    cpp_std,
    cpp_types,
    device_flags,
    iteration,
    keys,
    lanes,
    launches,
    operators,
    tensor_flags,
    tensor_views,
)
from kbh_lint.host.cpp_types import MAX_COUNTED, MAX_LOOP
from kbh_lint.host.frames import BREAK, FULL_ITERATIONS, Returned
from kbh_lint.host.interp import MAX_FRAMES, _names
from kbh_lint.host.objects import Extension, ExtFunction, HostDescriptor, LibObject, Pointer, Slot
from kbh_lint.host.tensors import Tensor, Unknown
from kbh_lint.source.embedded import Text
from kbh_lint.values import UNKNOWN, CppType, DType, Env, Func, Overloads, StructArg, Sym


def build_env(interp: Any, sources: list[str], flags: list[str], arch: int | None) -> tuple[Env, list[ir.Module]]:
    """One scope over all texts of an extension, with `-D` flags applied; lowering is shared between runs."""
    defines = {"HANDLE_TH_ERRORS": "", "END_HANDLE_TH_ERRORS": ""}
    for flag in flags:
        if flag.startswith("-D"):
            name, _, value = flag[2:].partition("=")
            defines[name] = value or "1"
    env = Env()
    lowered: list[ir.Module] = []
    for text in sources:
        key = (text, tuple(sorted(defines.items())), arch, getattr(text, "pieces", ())[:1])
        cache = interp.lowered
        if key not in cache:
            origin = _origin(text)
            cache[key] = cuda.lower(str(text), origin, defines=defines, cuda_arch=arch)
        lowered.append(cache[key])
        for name, value in cuda.module_env(cache[key]).vars.items():
            known = env.vars.get(name)
            if isinstance(known, Overloads) and isinstance(value, Overloads):
                known.funcs.extend(f for f in value.funcs if f.node.body is not None or not known.funcs)
            else:
                env.vars[name] = value
    for value in env.vars.values():
        for func in value.funcs if isinstance(value, Overloads) else ():
            func.env = env
        if isinstance(value, CppType):
            value.env = env
    return env, lowered


def _origin(text: str) -> Callable[[int], tuple[str, int, int]]:
    if isinstance(text, Text):
        return lambda offset: text.origin(offset) or ("<text>", 1, 1)
    return cuda.lines_origin("<text>", text)


def _first_type(overloads: Overloads) -> str:
    """The type of the first parameter: `PyObject` marks a function written against Python's own C interface."""
    params = overloads.funcs[-1].node.params
    return params[0].type.name if params and isinstance(params[0].type, ir.TypeRef) else ""


def exports(modules: list[ir.Module]) -> dict[str, str]:
    """Names given by `m.def("name", &function)` and TORCH_LIBRARY, and by rows of PyMethodDef."""
    out: dict[str, str] = {}
    for module in modules:
        rows: list[ir.Seq] = []
        for node in cuda.walk(module):
            if isinstance(node, ir.Seq):
                rows.append(node)
            elif isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name in ("def", "impl"):
                label, target = node.args[:2] if len(node.args) > 1 else (None, None)
                if isinstance(target, ir.Unary):
                    target = target.value
                if isinstance(label, ir.Const) and isinstance(label.value, str) and isinstance(target, ir.Name):
                    out[label.value.partition("(")[0]] = target.id
        for row in rows:
            if len(row.items) > 2 and isinstance(row.items[0], ir.Const):
                entry = row.items[1]
                while isinstance(entry, (ir.Cast, ir.Unary)):
                    entry = entry.value
                if isinstance(row.items[0].value, str) and isinstance(entry, ir.Name):
                    out.setdefault(row.items[0].value, entry.id)
    return out


class Cpp:
    """Runs C++ host functions for one interpreter run."""

    def __init__(self, interp: Any) -> None:
        self.interp = interp
        self.statics: dict[int, dict[str, Any]] = {}
        self.globals: dict[tuple[int, str], dict[str, Any]] = {}
        self.depth = 0
        self.cuda_types: list[str] = []
        self.programs: list[Env] = []  # texts compiled at run time
        self.capture: Any = None
        self.widths: dict[tuple[int, Any], tuple[Any, str]] = {}  # integer types of variables, by scope and name

    # --- calls

    def call_export(self, func: ExtFunction, args: list[Any], loc: ir.Loc | None) -> Any:
        """A call from Python."""
        target = func.func
        if isinstance(target, Overloads) and "PyObject" in _first_type(target):
            fast = len(target.funcs[-1].node.params) == 3
            args = [None, list(args), len(args)] if fast else [None, list(args)]
        if isinstance(target, CppType) or not isinstance(target, Overloads):
            self.interp.miss(f"{func.name} of an extension is not a function that could be read", loc)
            return Unknown((), "extension")
        chosen = self.choose(target, args)
        if chosen.node.body is None:
            self.interp.miss(f"the source of {func.name} is not part of what the extension is built from", loc)
        result, made = self.call(chosen, args, loc), chosen.node.returns
        kind = made.name.rpartition("::")[2] if isinstance(made, ir.TypeRef) else ""
        # `return {values, indices};` makes what the function is declared to return
        return tuple(result) if isinstance(result, list) and kind in ("tuple", "pair") else result

    def choose(
        self, overloads: Overloads, args: list[Any], given: tuple[ir.Expr, ...] = (), env: Env | None = None
    ) -> Func:
        """The function that a call means, for template arguments that are `given` in a scope."""
        return cpp_overloads.choose(self, overloads, args, given, env)

    def call(
        self, func: Func, args: list[Any], loc: ir.Loc | None, template: dict[str, Any] | None = None, this: Any = None
    ) -> Any:
        interp = self.interp
        if func.node.body is None:
            return cpp_libraries.library(self, func.node.name, [], args, loc)
        if self.depth > MAX_FRAMES:
            interp.miss("C++ calls nest too deep", loc)
            return Unknown()
        interp.burn(4)
        env = Env(dict(template or {}), func.env)
        if this is not None:
            env.vars["this"] = this
        for i, param in enumerate(func.node.params):
            if param.kind == "star":
                env.vars[param.name] = tuple(args[i:])
            elif i < len(args):
                env.vars[param.name] = self.parameter(param.type, args[i], env)
            elif param.default is not None:
                env.vars[param.name] = self.eval(param.default, env)
        self.deduce(func, args, env)
        self.depth += 1
        interp.frames.append(_Place(loc))
        try:
            signal = self.block(func.node.body, env)
        finally:
            self.depth -= 1
            interp.frames.pop()
        return signal.value if isinstance(signal, Returned) else None

    def parameter(self, kind: Any, value: Any, env: Env) -> Any:
        """An argument as a parameter of its type takes it."""
        if not isinstance(kind, ir.TypeRef) or kind.pointers or kind.reference:
            return value
        if type(value) in (int, float):
            return cpp_types.cast(self, kind, value, env) if dtypes.from_cpp(kind.name) else value
        return cpp_std.copied(self.interp, value)

    def by_reference(self, func: Func, nodes: tuple[ir.Expr, ...], args: list[Any], env: Env) -> list[Any]:
        """The arguments of a call, with places for the parameters that a function may change."""
        if func.node.body is None or any(isinstance(node, ir.Star) for node in nodes):
            return args
        out = list(args)
        for i, (param, node) in enumerate(zip(func.node.params, nodes, strict=False)):
            kind = param.type
            changed = isinstance(kind, ir.TypeRef) and kind.reference and not kind.const
            if changed and i < len(out) and isinstance(node, (ir.Name, ir.Attr, ir.Index)):
                out[i] = self.place(node, env) or out[i]
        return out

    def deduce(self, func: Func, args: list[Any], env: Env) -> None:
        """Template parameters that were not given: from pointer arguments of that type, else their defaults."""
        for param in func.node.template:
            if param.name in env.vars:
                continue
            for formal, actual in zip(func.node.params, args, strict=False):
                if (
                    isinstance(formal.type, ir.TypeRef)
                    and formal.type.name == param.name
                    and isinstance(actual, Pointer)
                ):
                    env.vars[param.name] = DType(actual.dtype)
                elif isinstance(formal.type, ir.TypeRef) and formal.type.name == param.name:
                    env.vars[param.name] = actual if not isinstance(actual, (int, float)) else DType("i32")
            if param.name not in env.vars and param.default is not None:
                env.vars[param.name] = cpp_types.argument(self, param.default, env)

    def template_of(self, func: Func, given: tuple[ir.Expr, ...], env: Env) -> dict[str, Any]:
        """Explicit template arguments by parameter name."""
        out: dict[str, Any] = {}
        for param, arg in zip(func.node.template, given, strict=False):
            out[param.name] = cpp_types.argument(self, arg, env)
        return out

    # --- launches

    def launch(self, node: ir.Launch, env: Env) -> Any:
        target = self.eval(node.func, env)
        args = [a.get() if isinstance(a, Slot) else a for a in self.arguments(node.args, env)]
        shape = [self.eval(n, env) if n is not None else None for n in (node.grid, node.block)]
        stream = self.eval(node.stream, env) if node.stream is not None else None
        with lanes.on(self.interp, stream.get() if isinstance(stream, Slot) else stream):
            return self.launch_value(target, args, shape, node.loc)

    def launch_value(self, target: Any, args: list[Any], grid: Any, loc: ir.Loc | None) -> Any:
        """Launch whatever a kernel expression gave; `grid` is [grid, block] where known."""
        if isinstance(target, LibObject) and target.path == "cpp.template":
            func = self.choose(target.attrs["overloads"], args, target.attrs["args"], target.attrs["env"])
            return self.launch_kernel(
                func, args, self.template_of(func, target.attrs["args"], target.attrs["env"]), grid, loc
            )
        if isinstance(target, Overloads):
            return self.launch_kernel(self.choose(target, args), args, {}, grid, loc)
        if isinstance(target, Func):
            return self.launch_kernel(target, args, {}, grid, loc)
        self.interp.miss("a kernel that is not in the text was launched", loc)
        return cpp_libraries.opaque(self, "unread kernel", args, loc)

    def launch_kernel(
        self, func: Func, args: list[Any], template: dict[str, Any], grid: Any, loc: ir.Loc | None
    ) -> Any:
        """Record the launch of a CUDA kernel."""
        interp = self.interp
        bound = dict(zip((p.name for p in func.node.params), args, strict=False))
        env = Env(dict(template), func.env)
        self.deduce(func, args, env)
        tensors = launches.pointer_arguments(interp, {"all": _pointers(list(bound.values()))})
        binding: dict[str, Any] = {p.name: _template_arg(env.vars.get(p.name)) for p in func.node.template}
        for param in func.node.params:
            value = bound.get(param.name)
            binding[param.name] = self.kernel_arg(value, param, env)
        held = {**device_flags.values(interp, func), **tensor_flags.values(interp, bound)}
        (facts,) = interp.analyse_kernel(func, [{**binding, **held}])
        dims = (
            [cpp_libraries.dim(g) for g in grid]
            if isinstance(grid, list) and len(grid) == 2
            else [cpp_libraries.dim(grid), None]
        )
        steer = interp.contents_of([*(v for v in bound.values() if isinstance(v, Unknown)), *dims])
        event = launches.record(interp, func, tensors, [binding], [facts], dims[0], loc, steer, dims[1])
        event.attrs["numbers"] = launches.numbers(interp, bound)
        device_flags.settle(interp, func, facts)
        tensor_flags.settle(interp, bound, [facts])
        return None

    def kernel_arg(self, value: Any, param: ir.Param, env: Env) -> Any:
        seen = param.type if isinstance(param.type, ir.TypeRef) else None
        if isinstance(value, Slot):
            value = value.get()
        if seen is not None and seen.pointers and isinstance(value, (Pointer, Tensor, int)):
            tensor = (
                value.tensor
                if isinstance(value, Pointer)
                else self.interp.tensor_at(value)
                if isinstance(value, int)
                else value
            )
            if isinstance(tensor, Tensor):
                dtype = cpp_types.element(self, seen, env) or (
                    value.dtype if isinstance(value, Pointer) else tensor.dtype
                )
                return launches.kernel_arg(self.interp, Pointer(tensor, dtype), False)
        if isinstance(value, LibObject) and value.path.startswith("struct:"):
            return self.struct_arg(value, 0)
        return launches.kernel_arg(self.interp, value, False)

    def struct_arg(self, value: LibObject, depth: int) -> StructArg:
        """A struct passed by value: the pointers and descriptors in it, also in structs and arrays in it."""
        fields: list[tuple[str, Any]] = []
        for name, item in value.attrs.items():
            if isinstance(item, Slot):
                item = item.get()
            if isinstance(item, LibObject) and item.path.startswith("struct:") and depth < 4:
                fields.append((name, self.struct_arg(item, depth + 1)))
            elif isinstance(item, (Pointer, Tensor, HostDescriptor)):
                fields.append((name, launches.kernel_arg(self.interp, item, False)))
            elif isinstance(item, (list, tuple)):
                held = [v for v in item[:64] if isinstance(v, (Pointer, Tensor, HostDescriptor))]
                if held:
                    fields.append((name, tuple(launches.kernel_arg(self.interp, v, False) for v in held)))
        return StructArg(tuple(fields))

    # --- statements

    def block(self, body: tuple[ir.Stmt, ...], env: Env) -> Any:
        signal = None
        for node in body:
            signal = self.statement(node, env)
            if signal is not None:
                break
        if "~" in env.vars:  # destructors, but of what is returned
            kept = signal.value if isinstance(signal, Returned) else None
            for held, ending in reversed(env.vars.pop("~")):
                if held is not kept:
                    self.call(ending, [], ending.node.loc, this=held)
        return signal

    def statement(self, node: Any, env: Env) -> Any:
        self.interp.burn()
        handler = cpp_statements.STATEMENTS.get(type(node))
        if handler is None:
            return None
        try:
            return handler(self, node, env)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
            self.interp.miss(f"could not follow this C++ ({type(error).__name__}: {str(error)[:60]})", node.loc)
            target: Any = getattr(node, "target", None)
            for name in _names(target) if target is not None else ():
                env.vars[name] = Unknown((), "not followed")
            if isinstance(node, ir.Decl):
                env.vars[node.name] = Unknown((), "not followed")
            return None

    def rounds(self, node: Any, step: ir.Expr | None, test: ir.Expr | None, env: Env, once: bool) -> Any:
        start = before = len(self.interp.events)
        done, numbers = 0, _numbers(env)
        while True:
            if done >= MAX_LOOP and (done >= MAX_COUNTED or len(self.interp.events) > start):
                self.interp.miss(f"a loop of more than {done} rounds", node.loc)
                for table, name, value in numbers:
                    if table.get(name) != value:  # a counter: where it ends is not known
                        table[name] = Unknown((), "counted in a loop that was not followed to its end")
                break
            numbers = _numbers(env) if done == MAX_LOOP - 1 or done == MAX_COUNTED - 1 else numbers
            if test is not None and not (once and done == 0):
                value = self.eval(test, env)
                if isinstance(value, (Unknown, Tensor)):
                    if done:
                        break
                elif not self.interp.truth(value, test.loc):
                    break
            before = len(self.interp.events)
            signal = self.block(node.body, Env({}, env))
            if signal is BREAK:
                break
            if isinstance(signal, Returned):
                return signal
            if step is not None:
                self.eval(step, env)
            self.interp.burn(2)
            done += 1
        if done > FULL_ITERATIONS:  # what only the last round leaves behind stands for what all of them did
            for event in self.interp.events[before:]:
                event.weight *= done
        return None

    # --- places

    def place(self, node: ir.Expr, env: Env) -> Slot | None:
        """Where an lvalue lives."""
        if isinstance(node, ir.Name):
            found: Env | None = env
            while found is not None:
                if node.id in found.vars:
                    value = found.vars[node.id]
                    if isinstance(value, Slot):
                        return value
                    if isinstance(value, ir.Decl):
                        return self.global_slot(value, found)
                    return Slot(found.vars, node.id)
                found = found.parent
            this = env_this(env)
            return Slot(this.attrs, node.id) if this is not None else Slot(env.vars, node.id)
        if isinstance(node, ir.Attr):
            owner = self.field_owner(node.value, env)
            return Slot(owner.attrs, node.name) if isinstance(owner, LibObject) else None
        if isinstance(node, ir.Index):
            owner, key = self.eval(node.value, env), self.eval(node.index, env)
            if isinstance(node.value, ir.Attr) and isinstance(owner, Unknown) and isinstance(key, int):
                field = self.place(node.value, env)  # an array in a struct comes to be when an element is assigned
                if field is not None:
                    owner = []
                    field.set(owner)
            if isinstance(owner, list) and isinstance(key, int):
                while len(owner) <= key < 256:
                    owner.append(Unknown())
                return Slot(owner, key) if 0 <= key < len(owner) else None
            if isinstance(owner, dict):
                key = cpp_std.hashed(key)
                found = keys.held_key(self.interp, owner, key)
                return Slot(owner, key if found is keys.MISSING else found)
            return None
        if isinstance(node, ir.Unary) and node.op == "*":
            if isinstance(node.value, ir.Name):  # a pointer to a variable is that variable's place
                try:
                    held = env.lookup(node.value.id)
                except KeyError:
                    held = None
                if isinstance(held, Slot):
                    return held
            value = self.eval(node.value, env)
            return value if isinstance(value, Slot) else None
        return None

    def field_owner(self, node: ir.Expr, env: Env) -> Any:
        """The object whose field is assigned; fields of library structs come to be when they are named."""
        if isinstance(node, ir.Attr):
            parent = self.field_owner(node.value, env)
            if isinstance(parent, LibObject) and parent.path.startswith("cpp:"):
                return parent.attrs.setdefault(node.name, LibObject("cpp:field", {}))
        owner = self.eval(node, env)
        return owner.get() if isinstance(owner, Slot) else owner

    def global_slot(self, decl: ir.Decl, env: Env) -> Slot:
        """A global variable of the extension, living as long as the run."""
        table = self.globals.setdefault((id(decl), decl.name), {})
        if decl.name not in table:
            table[decl.name] = cpp_types.initial(self, decl, env)
        return Slot(table, decl.name)

    def assign(self, target: ir.Expr, value: Any, env: Env) -> None:
        if isinstance(target, (ir.Seq, ir.Call)):  # auto [a, b] = ..., std::tie(a, b) = ...
            items = iteration.iterate(self.interp, value, target.loc, 8)
            parts = target.items if isinstance(target, ir.Seq) else target.args
            for part, item in zip(parts, items, strict=False):
                if isinstance(target, ir.Seq) and isinstance(part, ir.Name):
                    env.vars[part.id] = item
                else:
                    self.assign(part, item, env)
            return
        if isinstance(target, ir.Index):
            owner = self.eval(target.value, env)
            if isinstance(owner, Pointer):
                owner = owner.tensor
            if isinstance(owner, Tensor):
                tensor_views.assign_index(self.interp, owner, self.eval(target.index, env), value, target.loc)
                return
        names = _bound_together(target)
        if names is not None:
            for name, part in zip(names, self.parts(value, len(names)), strict=True):
                self.assign(name, part, env)
            return
        place = self.place(target, env)
        if place is not None:
            holder, dtype = self.widths.get((id(place.env), place.name), (None, None))
            value = cpp_numbers.wrapped(value, dtype) if holder is place.env else value
            old = place.get() if not isinstance(place.env, dict) or place.name in place.env else None
            if isinstance(old, Slot) and not isinstance(value, Slot):
                old.set(value)
            else:
                place.set(value)

    def parts(self, value: Any, count: int) -> list[Any]:
        """The first `count` members of a tuple, pair, array or struct."""
        if isinstance(value, LibObject):
            value = value.attrs.get("items", list(value.attrs.values()))
        if isinstance(value, (tuple, list)) and len(value) >= count:
            return list(value[:count])
        return [Unknown(tuple(self.interp.contents_of(value)), "a part of a value that is not known")] * count

    # --- expressions

    def eval(self, node: Any, env: Env) -> Any:
        self.interp.fuel -= 1
        handler = cpp_expressions.EXPRESSIONS.get(type(node))
        value = handler(self, node, env) if handler is not None else Unknown((), type(node).__name__)
        return value.get() if isinstance(value, Slot) and not isinstance(node, ir.Unary) else value

    def eval_place(self, node: Any, env: Env) -> Any:
        """An argument: a variable of class type or an address goes as a place, so that the callee can change it."""
        if isinstance(node, ir.Unary) and node.op == "&":
            return cpp_expressions.e_unary(self, node, env)
        if isinstance(node, ir.Name):  # a parameter that holds the address of a handle: `encode(CUtensorMap* map)`
            try:
                held = env.lookup(node.id)
            except KeyError:
                held = None
            if isinstance(held, Slot) and isinstance(held.get(), (Unknown, LibObject, type(None))):
                return held
        return self.eval(node, env)

    def arguments(self, nodes: Any, env: Env) -> list[Any]:
        """The arguments of a call, with parameter packs laid out."""
        out: list[Any] = []
        for node in nodes:
            if not isinstance(node, ir.Star):
                out.append(self.eval_place(node, env))
                continue
            value = self.eval_place(node.value, env)
            value = value.get() if isinstance(value, Slot) else value
            out.extend(value if isinstance(value, (tuple, list)) else [value])
        return out

    def lookup(self, name: str, env: Env) -> Any:
        """A name: local, of this object, of the file, or a symbol outside."""
        try:
            value = env.lookup(name)
        except KeyError:
            value = None
        else:
            if isinstance(value, ir.Decl):
                return self.global_slot(value, env).get()
            return value
        this = env_this(env)
        if this is not None and name in this.attrs:
            return this.attrs[name]
        own = cpp_classes.method(this, name) if this is not None else None
        if own is not None:
            return LibObject("cpp.method", {"this": this, "overloads": own, "args": (), "env": env})
        found = dtypes.from_aten(name)
        if found is not None:
            return DType(found)
        if name.startswith("CUDA_R_"):
            self.cuda_types.append(name)
        short = name.rpartition("::")[2]
        if "::" in name and short in _file_scope(env).vars:
            return self.lookup(short, _file_scope(env))
        if short == "nullopt":
            return None
        return {"true": True, "false": False, "NULL": None, "nullptr": None}.get(name, Sym(name))

    def binary(self, op: str, left: Any, right: Any, loc: ir.Loc | None) -> Any:
        """C++ arithmetic: integer division truncates, pointers carry their tensor."""
        if isinstance(left, Pointer) and op in "+-":
            return Pointer(left.tensor, left.dtype, Unknown())
        if isinstance(right, Pointer) and op == "+":
            return right
        if op in "/%" and isinstance(left, int) and isinstance(right, int):
            return cpp_numbers.divided(op, left, right)
        if op == "<<" and isinstance(left, LibObject):
            return left
        return operators.binary(self.interp, op, left, right, loc)


def _numbers(env: Env) -> list[tuple[dict[str, Any], str, int]]:
    """The whole numbers among the variables of a function, with where they are."""
    found: list[tuple[dict[str, Any], str, int]] = []
    inner: Env | None = env
    while inner is not None and inner.parent is not None:  # the outermost scope is the file
        found += [(inner.vars, name, value) for name, value in inner.vars.items() if type(value) is int]
        inner = inner.parent
    return found


def _bound_together(target: ir.Expr) -> tuple[ir.Expr, ...] | None:
    """The targets of a structured binding or of `std::tie(...) =`; None for an ordinary one."""
    if isinstance(target, ir.Seq):
        return target.items
    if isinstance(target, ir.Call) and isinstance(target.func, ir.Name) and target.func.id in ("std::tie", "tie"):
        return tuple(target.args)
    return None


class _Place:
    """A frame that only says where a call stands."""

    def __init__(self, loc: ir.Loc | None) -> None:
        self.loc = loc


def env_this(env: Env) -> LibObject | None:
    """The object a method runs on."""
    try:
        this = env.lookup("this")
    except KeyError:
        return None
    return this if isinstance(this, LibObject) else None


def _file_scope(env: Env) -> Env:
    while env.parent is not None:
        env = env.parent
    return env


def _template_arg(value: Any) -> Any:
    return UNKNOWN if value is None or isinstance(value, Unknown) else value


def _pointers(values: list[Any]) -> list[Any]:
    out: list[Any] = []
    for value in values:
        if isinstance(value, Slot):
            value = value.get()
        if isinstance(value, LibObject) and value.path.startswith("struct:"):
            out.extend(v for v in value.attrs.values() if isinstance(v, (Pointer, Tensor)))
        else:
            out.append(value)
    return out


__all__ = ["Cpp", "Extension", "build_env", "exports"]
