"""Objects of C++ classes of a submission: bases, constructors, destructors, methods."""

from __future__ import annotations

from typing import Any

from kbh_lint import ir
from kbh_lint.host import cpp_overloads, cpp_types
from kbh_lint.host.values.objects import LibObject
from kbh_lint.values import CppType, Env, Func, Overloads, TypeValue

MAX_BASES = 24


def struct(run: Any, kind: CppType, ref: ir.TypeRef, items: list[Any], env: Env) -> LibObject:
    """An object of a struct of the submission: aggregate or constructor initialised."""
    node = kind.node
    assert isinstance(node, ir.ClassDef)
    made = LibObject(f"struct:{node.name}", {})
    made.kwargs = {"kind": kind, "type": TypeValue(ref, env) if node.template else named(run, kind, node)}
    for base in lineage(kind)[:0:-1]:  # the furthest first
        assert isinstance(base.node, ir.ClassDef)
        _fields(run, made, base.node, [], base.env)
        _construct(run, made, base.node, [], base.env)
    inner = Env(cpp_types.bound_parameters(run, node.template, ref.args, env), kind.env)
    _fields(run, made, node, items, inner)
    _construct(run, made, node, items, inner)
    return made


def named(run: Any, kind: CppType, node: ir.ClassDef) -> TypeValue:
    """The type that a class which is no template defines."""
    types: dict[CppType, TypeValue] = run.named
    return types.setdefault(kind, TypeValue(ir.TypeRef(node.name, (), node.loc), kind.env))


def _fields(run: Any, made: LibObject, node: ir.ClassDef, items: list[Any], env: Env) -> None:
    fields = [s for s in node.body if isinstance(s, ir.Decl) and not (s.storage & {"static"})]
    run.interp.burn(8 + 4 * len(fields))  # structs in structs are many more than their declarations
    for i, field in enumerate(fields):
        made.attrs[field.name] = items[i] if i < len(items) else cpp_types.initial(run, field, env)


def _construct(run: Any, made: LibObject, node: ir.ClassDef, items: list[Any], env: Env) -> None:
    """Run the constructor of a class that takes so many arguments, where there is one."""
    for found in node.body:
        if isinstance(found, ir.FuncDef) and found.name == node.name and found.body is not None:
            if cpp_overloads.takes(found, len(items)):
                run.call(Func(found, env), items, node.loc, this=made)
                return


def lineage(kind: CppType, depth: int = 0) -> list[CppType]:
    """A class and those of the submission that it is derived from, in the order in which a name is looked up."""
    out = [kind]
    for base in kind.node.bases if isinstance(kind.node, ir.ClassDef) and depth < MAX_BASES else ():
        found = kind.env.vars.get(base.name) if isinstance(base, ir.TypeRef) else None
        if isinstance(found, CppType) and isinstance(found.node, ir.ClassDef) and len(out) < MAX_BASES:
            out += lineage(found, depth + len(out))
    return out[:MAX_BASES]


def static_method(run: Any, ref: ir.TypeRef, env: Env) -> Overloads | None:
    """What `Class<arguments>::name` calls."""
    try:
        found = env.lookup(ref.name)
    except KeyError:
        return None
    if not isinstance(found, CppType) or not isinstance(found.node, ir.ClassDef) or len(ref.member) != 1:
        return None
    kind, args = cpp_types.specialised(run, found, ref.args, env)
    assert isinstance(kind.node, ir.ClassDef)
    inner = Env(cpp_types.bound_parameters(run, kind.node.template, args, env), kind.env)
    funcs = [Func(s, inner) for s in kind.node.body if isinstance(s, ir.FuncDef) and s.name == ref.member[0]]
    return Overloads(funcs) if funcs else None


def method(owner: LibObject, name: str) -> Overloads | None:
    """A method of a struct object."""
    kind = owner.kwargs.get("kind")
    for base in lineage(kind) if kind is not None else ():
        assert isinstance(base.node, ir.ClassDef)
        found = [Func(s, base.env) for s in base.node.body if isinstance(s, ir.FuncDef) and s.name == name]
        if found:
            return Overloads(found)
    return None


def ends_with_scope(value: Any, env: Env) -> None:
    """Notes the destructor of an object that a variable of this scope holds, to be called at its end."""
    if isinstance(value, LibObject) and isinstance(kind := value.kwargs.get("kind"), CppType):
        ending = method(value, f"~{kind.node.name}")
        if ending is not None and ending.funcs[0].node.body:
            env.vars.setdefault("~", []).append((value, ending.funcs[0]))
