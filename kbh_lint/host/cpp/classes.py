"""Objects of C++ classes of a submission: bases, constructors, destructors, methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import CppType, Env, Func, Overloads, TypeValue, Value
from kbh_lint.cpp import overloads
from kbh_lint.host.cpp import templates as cpp_templates
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.cpp.cpp import Cpp

MAX_BASES = 24


def struct(run: Cpp, kind: CppType, ref: ir.TypeRef, items: list[Any], env: Env) -> LibObject:
    """An object of a struct of the submission: aggregate or constructor initialised."""
    template = kind.node.template
    kind, bound = cpp_types.instance(run, kind, ref.args, env)
    node = kind.node
    assert isinstance(node, ir.ClassDef)
    made = LibObject(f"struct:{node.name}", {})
    made.kwargs = {"kind": kind, "type": TypeValue(ref, env) if template else named(run, kind, node), "bound": bound}
    for base in lineage(kind)[:0:-1]:  # the furthest first
        assert isinstance(base.node, ir.ClassDef)
        _fields(run, made, base.node, [], base.env)
        _construct(run, made, base.node, [], base.env)
    inner = Env(bound, kind.env) if bound else kind.env
    _fields(run, made, node, items, inner)
    _construct(run, made, node, items, inner)
    return made


def named(run: Cpp, kind: CppType, node: ir.ClassDef) -> TypeValue:
    """The type that a class which is no template defines."""
    types: dict[CppType, TypeValue] = run.named
    return types.setdefault(kind, TypeValue(ir.TypeRef(node.name, (), node.loc), kind.env))


def _fields(run: Cpp, made: LibObject, node: ir.ClassDef, items: list[Any], env: Env) -> None:
    fields = [s for s in node.body if isinstance(s, ir.Decl) and not (s.storage & {"static"})]
    run.interp.burn(8 + 4 * len(fields))  # structs in structs are many more than their declarations
    for i, field in enumerate(fields):
        if i >= len(items):
            made.attrs[field.name] = run.initial(field, env)
        elif field.type is None:
            made.attrs[field.name] = items[i]
        else:
            made.attrs[field.name] = run.converted(field.type, items[i], env)


def _construct(run: Cpp, made: LibObject, node: ir.ClassDef, items: list[Any], env: Env) -> None:
    """Run the constructor of a class that takes so many arguments, where there is one."""
    makers = [
        Func(s, env) for s in node.body if isinstance(s, ir.FuncDef) and s.name == node.name and s.body is not None
    ]
    makers = [func for func in makers if overloads.arity(func.node, len(items))]
    if makers:
        chosen = cpp_templates.choose(run, makers, items)
        run.call(chosen.func, items, node.loc, chosen.bound, this=made)


def lineage(kind: CppType, depth: int = 0) -> list[CppType]:
    """A class and those of the submission that it is derived from, in the order in which a name is looked up."""
    out = [kind]
    for base in kind.node.bases if isinstance(kind.node, ir.ClassDef) and depth < MAX_BASES else ():
        found = kind.env.vars.get(base.name) if isinstance(base, ir.TypeRef) else None
        if isinstance(found, CppType) and isinstance(found.node, ir.ClassDef) and len(out) < MAX_BASES:
            out += lineage(found, depth + len(out))
    return out[:MAX_BASES]


def static_method(run: Cpp, ref: ir.TypeRef, env: Env) -> Overloads | None:
    """What `Class<arguments>::name` calls, also where an alias or a choice of types stands for the class."""
    target, scope = cpp_types.resolve(run, ref.inside(ref.member[:-1]), env)
    try:
        found = scope.lookup(target.name)
    except KeyError:
        return None
    if not isinstance(found, CppType) or not isinstance(found.node, ir.ClassDef) or target.member or not ref.member:
        return None
    kind, bound = cpp_types.instance(run, found, target.args, scope)
    assert isinstance(kind.node, ir.ClassDef)
    inner = Env(dict(bound), kind.env)
    for stmt in kind.node.body:
        if isinstance(stmt, ir.Using) and stmt.name and stmt.type is not None:
            inner.vars.setdefault(stmt.name, CppType(stmt, inner))
    funcs = [Func(s, inner) for s in kind.node.body if isinstance(s, ir.FuncDef) and s.name == ref.member[-1]]
    return Overloads(funcs) if funcs else None


def method(owner: LibObject, name: str) -> Overloads | None:
    """A method of a struct object."""
    kind, bound = owner.kwargs.get("kind"), owner.kwargs.get("bound")
    for base in lineage(kind) if kind is not None else ():
        assert isinstance(base.node, ir.ClassDef)
        env = Env(dict(bound), base.env) if base is kind and bound else base.env
        found = [Func(s, env) for s in base.node.body if isinstance(s, ir.FuncDef) and s.name == name]
        if found:
            return Overloads(found)
    return None


def ends_with_scope(value: Value, env: Env) -> None:
    """Notes the destructor of an object that a variable of this scope holds, to be called at its end."""
    if isinstance(value, LibObject) and isinstance(kind := value.kwargs.get("kind"), CppType):
        ending = method(value, f"~{kind.node.name}")
        if ending is not None and ending.funcs[0].node.body:
            env.vars.setdefault("~", []).append((value, ending.funcs[0]))


def operator(run: Cpp, op: str, left: LibObject, right: Value, loc: ir.Loc | None) -> Any:
    """A submission's own operator on a struct; NotImplemented without one."""
    name = f"operator{op}"
    own = method(left, name)
    if own is not None:
        choice = run.choose(own, [right])
        return run.call(choice.func, [right], loc, choice.bound, this=left)
    kind = left.kwargs.get("kind")
    try:
        free = kind.env.lookup(name) if isinstance(kind, CppType) else None
    except KeyError:
        free = None
    if not isinstance(free, Overloads):
        return NotImplemented
    choice = run.choose(free, [left, right])
    return run.call(choice.func, [left, right], loc, choice.bound)


def conversion(run: Cpp, value: LibObject, dtype: str) -> Any:
    """What a conversion operator of a struct makes of it for a type of numbers; NotImplemented without one."""
    kind = value.kwargs.get("kind")
    found: dict[str, Func] = {}
    for base in lineage(kind) if isinstance(kind, CppType) else ():
        for member in base.node.body if isinstance(base.node, ir.ClassDef) else ():
            if isinstance(member, ir.FuncDef) and member.name.startswith("operator ") and member.body is not None:
                made = dtypes.from_cpp(member.name.removeprefix("operator "))
                if made is not None:
                    found.setdefault(made, Func(member, base.env))
    chosen = found.get(dtype) or next(iter(found.values()), None)
    return NotImplemented if chosen is None else run.call(chosen, [], chosen.node.loc, this=value)
