"""What the texts of an extension bind for Python: functions, lambdas and classes of pybind11, operators of
TORCH_LIBRARY, rows of PyMethodDef."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import CppType, Env, Func, Overloads, Value
from kbh_lint.frontends import cuda
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import construction as cpp_construction
from kbh_lint.host.values.cpp_objects import OwnMethod, Slot
from kbh_lint.host.values.objects import Extension, ExtFunction, LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

_INITS = ("py::init", "pybind11::init", "torch::init", "init")
_FIELDS = ("def_readwrite", "def_readonly", "def_property", "def_property_readonly", "def_readwrite_static")
_METHODS = ("def", "impl", "def_static")
_BESIDE = ("Meta", "CPU", "MPS", "XPU", "HIP", "FuncTorch", "Autocast", "Python")  # dispatch keys, or how they begin


@dataclass(slots=True, eq=False)
class Binding:
    """A C++ function or lambda that is bound for Python, as an expression, with the names and defaults that `py::arg`
    gives its parameters."""

    target: ir.Expr
    names: tuple[str, ...] = ()
    defaults: dict[str, ir.Expr] = field(default_factory=dict)
    static: bool = False


@dataclass(slots=True, eq=False)
class BoundClass:
    """A class that `py::class_` binds: its constructors, methods and fields, by their names in Python."""

    kind: ir.TypeRef
    makers: list[Binding] = field(default_factory=list)
    methods: dict[str, Binding] = field(default_factory=dict)
    fields: dict[str, Binding] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Bindings:
    """All functions and classes that an extension binds for Python."""

    functions: dict[str, Binding] = field(default_factory=dict)
    classes: dict[str, BoundClass] = field(default_factory=dict)
    operators: list[tuple[str, ir.Loc]] = field(default_factory=list)  # `aten.mm`, that are given a way to run on a GPU


def read(modules: list[ir.Module]) -> Bindings:
    """Collects what the lowered source texts of an extension bind for Python."""
    found = Bindings()
    for module in modules:
        rows: list[ir.Seq] = []
        nodes = cuda.walk(module)
        beside = _for_other_tensors(nodes)
        found.operators += _implemented(nodes, beside)
        named: dict[str, BoundClass] = {}  # variables that hold a class: `auto plan = py::class_<Plan>(m, "Plan");`
        for node in nodes:
            if isinstance(node, ir.Seq):
                rows.append(node)
            elif isinstance(node, ir.Decl):
                made = _class(node.init, found) or _declared(node, found)
                if made is not None:
                    named[node.name] = made
            elif isinstance(node, ir.Call) and isinstance(node.func, ir.Attr):
                _call(node, node.func, found, named, id(node) in beside)
        for row in rows:
            _row(row, found)
    return found


def _for_other_tensors(nodes: Iterable[object]) -> set[int]:
    """The calls in `TORCH_LIBRARY_IMPL(ns, KEY, m)` of keys that tensors on a GPU do not have, by identity."""
    found: set[int] = set()
    for node in nodes:
        if isinstance(node, ir.FuncDef) and node.name == "TORCH_LIBRARY_IMPL" and len(node.params) > 1:
            key = node.params[1].type
            if isinstance(key, ir.TypeRef) and key.name.startswith(_BESIDE):
                found.update(id(inner) for inner in cuda.walk(node.body) if isinstance(inner, ir.Call))
    return found


def _implemented(nodes: Iterable[object], beside: set[int]) -> Iterator[tuple[str, ir.Loc]]:
    """The operators that `TORCH_LIBRARY_IMPL(ns, CUDA, m)` implements, whoever defined them, without the calls
    `beside`."""
    for node in nodes:
        if not isinstance(node, ir.FuncDef) or node.name != "TORCH_LIBRARY_IMPL" or not node.params:
            continue
        kind = node.params[0].type
        for call in cuda.walk(node.body) if isinstance(kind, ir.TypeRef) else ():
            named = isinstance(call, ir.Call) and isinstance(call.func, ir.Attr) and call.func.name == "impl"
            if isinstance(kind, ir.TypeRef) and isinstance(call, ir.Call) and named and id(call) not in beside:
                label = call.args[0].value if call.args and isinstance(call.args[0], ir.Const) else None
                yield f"{kind.name}.{label.rpartition('::')[2] if isinstance(label, str) else '?'}", call.loc


def _call(node: ir.Call, func: ir.Attr, found: Bindings, named: dict[str, BoundClass], beside: bool) -> None:
    """`m.def(...)`, `.def(...)` of a class, `.def_readwrite(...)`."""
    if func.name not in _METHODS and func.name not in _FIELDS:
        return
    owner = _owner(func.value, found, named)
    if owner is not None and node.args and isinstance(node.args[0], ir.Call) and _callee(node.args[0]) in _INITS:
        maker = node.args[0]
        owner.makers.append(_binding(maker.args[0] if maker.args else maker, node.args[1:]))
        return
    label = node.args[0] if len(node.args) > 1 else None
    if not isinstance(label, ir.Const) or not isinstance(label.value, str):
        return
    # what an operator is implemented by stands behind the key of a device: `m.impl("op", torch::kCUDA, &f)`
    last = func.name == "impl" and len(node.args) > 2
    made = _binding(node.args[2] if last else node.args[1], node.args[2:])
    made.static = func.name == "def_static"
    if owner is None:
        name = label.value.partition("(")[0]
        if func.name in _METHODS and not isinstance(made.target, ir.Const) and not (beside and name in found.functions):
            found.functions[name] = made
    elif func.name in _FIELDS:
        owner.fields[label.value] = made
    else:
        owner.methods[label.value] = made


def _binding(target: ir.Expr, extra: tuple[ir.Expr, ...]) -> Binding:
    """What stands for a function, without the address-of and the casts around it."""
    while True:
        if isinstance(target, ir.Unary) and target.op == "&" or isinstance(target, ir.Cast):
            target = target.value
        elif isinstance(target, ir.Call) and target.args and _callee(target) not in _INITS:
            target = target.args[0]  # py::overload_cast<...>(&f), torch::wrap_pybind_function(f), TORCH_FN(f)
        else:
            break
    made = Binding(target)
    for item in extra:
        named = item.target if isinstance(item, ir.AssignE) else item
        if isinstance(named, ir.Call) and _callee(named).rpartition("::")[2] == "arg" and named.args:
            label = named.args[0]
            if isinstance(label, ir.Const) and isinstance(label.value, str):
                made.names += (label.value,)
                if isinstance(item, ir.AssignE):
                    made.defaults[label.value] = item.value
    return made


def _callee(node: ir.Call) -> str:
    func = node.func
    return func.name if isinstance(func, (ir.TypeRef, ir.Attr)) else func.id if isinstance(func, ir.Name) else ""


def _owner(node: ir.Expr, found: Bindings, named: dict[str, BoundClass]) -> BoundClass | None:
    """The class that a chain of `.def(...)` starts at; None for a module."""
    while isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name.startswith("def"):
        node = node.func.value
    if isinstance(node, ir.Name):
        return named.get(node.id)
    return _class(node, found)


def _class(node: ir.Expr | None, found: Bindings) -> BoundClass | None:
    """`py::class_<Plan>(m, "Plan")` and `m.class_<Plan>("Plan")`, also at the start of a chain."""
    while isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name.startswith("def"):
        node = node.func.value
    if not isinstance(node, ir.Call) or _callee(node).rpartition("::")[2] != "class_":
        return None
    return _named(tuple(node.func.args or ()) if isinstance(node.func, (ir.TypeRef, ir.Attr)) else (), node.args, found)


def _declared(node: ir.Decl, found: Bindings) -> BoundClass | None:
    """`py::class_<Plan> plan(m, "Plan");`."""
    if node.type is None or node.type.name.rpartition("::")[2] != "class_" or not isinstance(node.init, ir.Seq):
        return None
    return _named(node.type.args, node.init.items, found)


def _named(kinds: tuple[ir.Expr, ...], args: tuple[ir.Expr, ...], found: Bindings) -> BoundClass | None:
    label = next((a.value for a in args if isinstance(a, ir.Const) and isinstance(a.value, str)), None)
    kind = kinds[0] if kinds else None
    if isinstance(kind, ir.Name):
        kind = ir.TypeRef(kind.id, (), kind.loc)
    if label is None or not isinstance(kind, ir.TypeRef):
        return None
    return found.classes.setdefault(label, BoundClass(kind))


def _row(row: ir.Seq, found: Bindings) -> None:
    """A row of PyMethodDef: `{"run", (PyCFunction)run, METH_VARARGS, nullptr}`."""
    if len(row.items) > 2 and isinstance(row.items[0], ir.Const) and isinstance(row.items[0].value, str):
        entry = _binding(row.items[1], ())
        if isinstance(entry.target, ir.Name):
            found.functions.setdefault(row.items[0].value, entry)


def exported(run: Cpp, extension: Extension, name: str) -> ExtFunction | None:
    """Returns what Python finds as `extension.name`; None where the source texts bind nothing that could be read."""
    bound = extension.attrs.get("__bindings__")
    if not isinstance(bound, Bindings):
        return None
    if name in bound.classes:
        return ExtFunction(extension, name, bound.classes[name])
    made = bound.functions.get(name)
    found = _value(run, made, extension.env) if made is not None else None
    if found is None:
        found = extension.env.vars.get(name)
    return None if found is None else ExtFunction(extension, name, found, made)


def _value(run: Cpp, made: Binding, env: Env) -> Any:
    """The function that a binding means."""
    found = run.eval(made.target, env)
    known = isinstance(found, (Func, Overloads)) or isinstance(found, LibObject) and "overloads" in found.attrs
    return found if known else None


def made(run: Cpp, func: ExtFunction, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Makes an object of a class that is bound for Python, by its bound constructor or factory."""
    bound: BoundClass = func.func
    env = func.extension.env
    maker = next((m for m in bound.makers if isinstance(m.target, ir.Lambda)), None)
    factory = maker or next((m for m in bound.makers if isinstance(m.target, (ir.Name, ir.TypeRef))), None)
    if factory is not None:
        target = _value(run, factory, env)
        held = Unknown((), func.name) if target is None else run.call_export(
            ExtFunction(func.extension, func.name, target, factory), args, kwargs, loc
        )  # fmt: skip
    else:
        names = next((m.names for m in bound.makers if len(m.names) >= len(args) + len(kwargs)), ())
        given = [*args, *(kwargs[name] for name in names[len(args) :] if name in kwargs)] if kwargs else args
        held = cpp_construction.construct(run, bound.kind, given, env, loc)
    held = held.get() if isinstance(held, Slot) else held
    if isinstance(held, LibObject):
        held.kwargs["extension"] = func.extension
    else:
        run.interp.miss(f"{func.name} of an extension is not a class that could be read", loc)
    return held


def of_object(run: Cpp, owner: LibObject, name: str, loc: ir.Loc | None) -> Any:
    """Returns `owner.name`, as Python sees an object of a bound class; NotImplemented where nothing is bound under the
    name."""
    extension = owner.kwargs.get("extension")
    kind = owner.kwargs.get("kind")
    if not isinstance(kind, CppType):
        return NotImplemented
    whole = cpp_classes.of(owner)
    lineage = {kind.node.name} if whole is None else {one.node.name for one in whole.lineage}
    every = [extension] if extension is not None else [e for e in run.interp.authored if isinstance(e, Extension)]
    for held in every:
        bound = held.attrs.get("__bindings__")
        for one in bound.classes.values() if isinstance(bound, Bindings) else ():
            if one.kind.name.rpartition("::")[2] not in lineage:
                continue
            if name in one.fields:
                return _field(run, held, owner, one.fields[name], loc)
            if name in one.methods:
                return _method(run, held, owner, name, one.methods[name])
    return NotImplemented


def _field(run: Cpp, extension: Extension, owner: LibObject, made: Binding, loc: ir.Loc | None) -> Value:
    target = made.target
    name = target.id if isinstance(target, ir.Name) else ""
    short = name.rpartition("::")[2]
    if short in owner.attrs:
        return owner.attrs[short]
    getter = _method(run, extension, owner, short, made)
    return Unknown((), "a property of C++") if getter is NotImplemented else run.call_export(getter, [], {}, loc)


def _method(run: Cpp, extension: Extension, owner: LibObject, name: str, made: Binding) -> Any:
    target = made.target
    if isinstance(target, ir.Lambda) or made.static:
        found = _value(run, made, extension.env)
        return NotImplemented if found is None else ExtFunction(extension, name, found, made, owner)
    written = target.id if isinstance(target, ir.Name) else target.name if isinstance(target, ir.TypeRef) else name
    if isinstance(target, ir.TypeRef) and target.member:
        written = str(target.member[-1])
    own = cpp_classes.method(owner, written.rpartition("::")[2])
    if own is not None:
        held = {"this": owner, "overloads": own, "args": (), "env": extension.env}
        return ExtFunction(extension, name, OwnMethod("cpp.method", held), made)
    found = _value(run, made, extension.env)
    return NotImplemented if found is None else ExtFunction(extension, name, found, made, owner)


def arguments(run: Cpp, func: ExtFunction, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Returns the positional and keyword arguments that the bound C++ function gets of a call from Python: keywords in
    the order that the binding names, and the binding's defaults for arguments left out."""
    bound = func.binding
    if func.this is not None and not (isinstance(bound, Binding) and bound.static):
        args = [func.this, *args]
    if not isinstance(bound, Binding) or not bound.names:
        return args, kwargs
    out, rest = list(args), dict(kwargs)
    for name in bound.names[len(args) - (func.this is not None) :]:
        if name in rest:
            out.append(rest.pop(name))
        elif name in bound.defaults:
            out.append(run.eval(bound.defaults[name], func.extension.env))
        else:
            break
    return out, rest
