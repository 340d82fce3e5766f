"""The scope that the C++ text of a submission makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp.templates import brought_in
from kbh_lint.frontends.cuda import standard
from kbh_lint.frontends.cuda.constants import constant
from kbh_lint.frontends.cuda.unit import CudaUnit
from kbh_lint.frontends.walk import changed


def module_env(module: ir.Module) -> values.Env:
    """The scope of a C++ module: its names, qualified and not, bound to Overloads, CppType, numbers of constants, or
    Decl nodes.

    Names in a namespace are defined in a scope of their own inside that of the file. In the file's scope they are also
    known unqualified, unless the file has other names like them: those of the namespaces in use, or of all namespaces.
    """
    env = values.Env()
    scopes = {"": env}
    if isinstance(module.unit, CudaUnit) and standard.mentioned(module.unit.text):
        standard.add(env, _standard())
    _add(env, module.body, module.unit, scopes)
    for name in module.unit.outermost if isinstance(module.unit, CudaUnit) else ():
        found = env.vars.get(name)
        if isinstance(found, (bool, int, float, values.Overloads)):
            env.vars[f"::{name}"] = found  # a variable that may change is not known by a second name
    for where, spaces in _uses(env, module.unit).items():
        for space in spaces if where else ():
            _used_inside(env, scopes, where, space)
    used = [node for node in module.body if isinstance(node, ir.Using)]
    for node in used:
        if node.type is not None and node.name and not node.template:
            _rename(env, scopes, node, _prefix(module.unit, node))
    _unqualified(env, scopes, [node.namespace for node in used if node.namespace])
    return env


@lru_cache(maxsize=1)
def _standard() -> values.Env:
    """The scope of what the standard library defines."""
    env = values.Env()
    definitions = standard.definitions()
    _add(env, definitions.body, definitions.unit, {"": env})
    return env


def _prefix(unit: object, node: ir.Stmt) -> str:
    return unit.namespace_at(node.loc[1]) if isinstance(unit, CudaUnit) else ""


def _scope(scopes: dict[str, values.Env], prefix: str) -> values.Env:
    """The scope of a namespace."""
    found = scopes.get(prefix)
    if found is None:
        around = _scope(scopes, prefix.rpartition("::")[0])
        found = scopes[prefix] = values.Env(parent=around, namespace=prefix)
    return found


def _add(
    env: values.Env,
    body: tuple[ir.Stmt, ...],
    unit: object,
    scopes: dict[str, values.Env],
) -> None:
    for node in body:
        space = _prefix(unit, node)
        scope = _scope(scopes, space)
        if isinstance(node, ir.FuncDef):
            _add_function(scopes, scope, node, space)
        elif isinstance(node, ir.ClassDef):
            _add_class(env, scopes, node, space)
        elif isinstance(node, ir.Using):
            if node.namespace is not None:
                use(env, node.namespace, space)
            elif node.name:
                _bind(scopes, node.name, space, values.CppType(node, scope))
        elif isinstance(node, ir.Decl):
            if node.name and not _declares_function(scope, node):
                _add_variable(env, scopes, node, space)
        elif isinstance(node, (ir.Opaque, ir.Block)):
            below = node.children if isinstance(node, ir.Opaque) else node.body
            kept = tuple(item for item in below if isinstance(item, (ir.FuncDef, ir.ClassDef, ir.Decl, ir.Using)))
            _add(env, kept, unit, scopes)


def _add_function(scopes: dict[str, values.Env], scope: values.Env, node: ir.FuncDef, space: str) -> None:
    if node.body is None and isinstance(scope.vars.get(node.name), values.CppType):
        return  # a deduction guide: it has the name of its class
    if "::" not in node.name or node.explicit or not _define_method(scope, node):
        _bind_function(scopes, scope, node, space)


def _add_class(env: values.Env, scopes: dict[str, values.Env], node: ir.ClassDef, space: str) -> None:
    scope = _scope(scopes, space)
    kind = values.CppType(node, scope)
    if node.specialization or node.explicit:
        primary = _known(scope, node.name)
        if isinstance(primary, values.CppType):
            primary.special.append(kind)
        return
    known = scope.vars.get(node.name) if node.template else None
    if isinstance(known, values.CppType):
        if not (node.body or node.bases):
            return  # declared once more
        kind.special = known.special  # it was only declared before
    _bind(scopes, node.name, space, kind)
    if node.name and not node.template:
        _numbers(env, node, f"{space}::{node.name}" if space else node.name)


def _add_variable(env: values.Env, scopes: dict[str, values.Env], node: ir.Decl, space: str) -> None:
    scope, value = _scope(scopes, space), constant(node, env, space)
    _bind(scopes, node.name, space, value)
    dt = _integer(node, value)
    if dt:
        env.types = {**(env.types or {}), node.name: dt, **({f"{space}::{node.name}": dt} if space else {})}
        scope.types = env.types if scope is env else {**(scope.types or {}), node.name: dt}


def _numbers(env: values.Env, kind: ir.ClassDef, owner: str) -> None:
    """Constants of a class that are plain numbers, for those of the file that count with them; all else that it has is
    looked up in the class (`cpp.classes`)."""
    for node in kind.body:
        if isinstance(node, ir.ClassDef) and node.name and not (node.template or node.specialization or node.explicit):
            _numbers(env, node, f"{owner}::{node.name}")
        elif isinstance(node, ir.Decl) and node.name and node.storage & {"static", "enum"}:
            value, name = constant(node, env, owner), f"{owner}::{node.name}"
            if not isinstance(value, ir.Decl):
                env.vars[name] = value
                dt = _integer(node, value)
                env.types = {**(env.types or {}), name: dt} if dt else env.types


def _integer(node: ir.Decl, value: object) -> str:
    """The type of a folded whole number that is not an `int`; empty for others."""
    dt = dtypes.from_cpp(node.type.name) if type(value) is int and node.type is not None else None
    return dt if dt is not None and dt in dtypes.INTS and dt != "i32" else ""


def _declares_function(scope: values.Env, node: ir.Decl) -> bool:
    """Whether the type is a function's, so that this declares one: `using F = void(int); F f;`."""
    ref = node.type
    for _ in range(8):
        if ref is None or node.init is not None or ref.pointers or ref.reference or ref.dims or ref.member:
            return False
        if ref.name == "function":
            return True
        alias = _known(scope, ref.name)
        ref = alias.node.type if isinstance(alias, values.CppType) and isinstance(alias.node, ir.Using) else None
    return False


def use(env: values.Env, namespace: str, where: str = "") -> None:
    """Records a `using namespace` directive for `namespace` in the namespace `where`."""
    env.uses = {**(env.uses or {}), where: (*(env.uses or {}).get(where, ()), namespace)}


def _uses(env: values.Env, unit: object) -> dict[str, tuple[str, ...]]:
    """By namespaces, those that they use: by a directive, and inline ones."""
    found = dict(env.uses or {})
    for name in unit.inline_namespaces() if isinstance(unit, CudaUnit) else ():
        around, _, last = name.rpartition("::")
        found[around] = (*found.get(around, ()), last)
    return found


def _used_inside(env: values.Env, scopes: dict[str, values.Env], where: str, space: str) -> None:
    """`using namespace` in a namespace: whoever asks that one for a name finds those of the other, too."""
    whole = next((name for name in _spellings(where, space) if name in scopes), None)
    for name, value in list(scopes[whole].vars.items()) if whole is not None else ():
        scopes[where].vars.setdefault(name, value)
        env.vars.setdefault(f"{where}::{name}", value)


def bring_in(env: values.Env, namespace: str) -> None:
    """Executes `using namespace` in a block: the namespace's names then hide other names of the file, but no local
    ones."""
    around: list[values.Env] = []
    scope = env
    while not scope.outermost and scope.parent is not None:
        around.append(scope)
        scope = scope.parent
    spaces = [scope.namespace] if scope.namespace else []
    while scope.parent is not None:
        scope = scope.parent
    wholes = [f"{namespace}::", *[f"{space}::{namespace}::" for space in spaces]]
    for name, value in list(scope.vars.items()):
        begin = next((whole for whole in wholes if name.startswith(whole)), "")
        last = name[len(begin) :]
        if begin and not any(last in inner.vars for inner in around):
            env.vars[last] = value


def _known(env: values.Env, name: str) -> Any:
    try:
        return env.lookup(name)
    except KeyError:
        return None


def _places(scopes: dict[str, values.Env], prefix: str, name: str) -> Iterator[tuple[values.Env, str]]:
    """The scopes in which what a namespace defines is found, each with the name by which it is found there: its own,
    those of the namespaces around it, and that of the file."""
    parts = prefix.split("::") if prefix else []
    for count in range(len(parts), -1, -1):
        yield _scope(scopes, "::".join(parts[:count])), "::".join((*parts[count:], name))


def _bind(scopes: dict[str, values.Env], name: str, prefix: str, value: object) -> None:
    for place, known in _places(scopes, prefix, name):
        place.vars[known] = value


def _bind_function(scopes: dict[str, values.Env], scope: values.Env, node: ir.FuncDef, prefix: str) -> None:
    func = values.Func(node, scope)
    for place, name in _places(scopes, prefix, node.name):
        known = place.vars.get(name)
        if isinstance(known, values.Overloads):
            _take_defaults(known, node)
            known.funcs.append(func)
        else:
            place.vars[name] = values.Overloads([func])


def _take_defaults(known: values.Overloads, node: ir.FuncDef) -> None:
    """Gives a definition the default arguments of its declaration."""
    for other in known.funcs:
        alike = len(other.node.params) == len(node.params) and other.node.body is None and node.body is not None
        if alike and all(_same_type(a.type, b.type) for a, b in zip(other.node.params, node.params, strict=True)):
            pairs = zip(node.params, other.node.params, strict=True)
            node.params = tuple(replace(own, default=own.default or said.default) for own, said in pairs)
            changed(node)


def _same_type(one: object, other: object) -> bool:
    """Whether two parameters are written with the same type."""
    if not isinstance(one, ir.TypeRef) or not isinstance(other, ir.TypeRef):
        return one is other
    return (one.name, one.pointers, one.reference, len(one.args)) == (
        other.name, other.pointers, other.reference, len(other.args),
    )  # fmt: skip


def _define_method(scope: values.Env, node: ir.FuncDef) -> bool:
    """`int S::f() {...}`: the body of a method that the class declares; false where no class does."""
    owner, _, name = node.name.rpartition("::")
    kind = _class(scope, owner)
    if node.body is None or not isinstance(kind, ir.ClassDef):
        return False
    params = len(kind.template)
    for at, member in enumerate(kind.body):
        declares = isinstance(member, ir.FuncDef) and member.body is None and member.name == name
        if not declares or not isinstance(member, ir.FuncDef) or len(member.params) != len(node.params):
            continue
        renamed = [param.name for param in node.template[:params]] != [param.name for param in kind.template]
        pairs = list(zip(node.params, member.params, strict=True))
        if renamed or not all(_same_type(own.type, said.type) for own, said in pairs):
            continue
        defined = tuple(replace(own, default=own.default or said.default) for own, said in pairs)
        template = node.template[params:]
        made = replace(node, name=name, kind="method", params=defined, template=template, attributes=member.attributes)
        kind.body = (*kind.body[:at], made, *kind.body[at + 1 :])
        return True
    return False


def _class(scope: values.Env, name: str) -> ir.ClassDef | None:
    """The class that `A::B` names, also one that is a member of another."""
    found = _known(scope, name)
    if isinstance(found, values.CppType):
        return found.node if isinstance(found.node, ir.ClassDef) else None
    owner, _, last = name.rpartition("::")
    outer = _class(scope, owner) if owner else None
    inner = [] if outer is None else [one for one in outer.body if isinstance(one, ir.ClassDef) and one.name == last]
    return inner[0] if inner else None


def _rename(env: values.Env, scopes: dict[str, values.Env], node: ir.Using, prefix: str) -> None:
    """`using b::f;` of what is no type or a class template, and `namespace c = a::b;`."""
    assert node.type is not None
    scope, target = _scope(scopes, prefix), node.type.name
    if node.type.args or node.type.member or target == node.name:
        return
    spelled = next((name for name in _spellings(prefix, target) if name in env.vars), target)
    found = env.vars[spelled] if spelled in env.vars else _known(scope, target)
    inner = spelled != target  # `using d::T;` in a namespace that has `d`: of a type, too
    if found is not None and (inner or brought_in(node, found) or not isinstance(found, values.CppType)):
        _bind(scopes, node.name, prefix, found)
        return
    whole = next((name for name in _spellings(prefix, target) if name in scopes), None)
    if whole is not None:
        for name, value in list(env.vars.items()):
            if name.startswith(f"{whole}::"):
                for place, known in _places(scopes, prefix, node.name + name[len(whole) :]):
                    place.vars.setdefault(known, value)


def _spellings(prefix: str, name: str) -> list[str]:
    """What a name may be in full that is written in a namespace: of the innermost one first."""
    if name.startswith("::"):
        return [name.removeprefix("::")]
    parts = prefix.split("::") if prefix else []
    return ["::".join((*parts[:count], name)) for count in range(len(parts), -1, -1)]


def _unqualified(env: values.Env, scopes: dict[str, values.Env], used: list[str]) -> None:
    """Names of namespaces, in the scope of the file."""
    for wanted in (used, [name for name in scopes if name]):
        found: dict[str, list[Any]] = {}
        for space in wanted:
            for name, value in scopes[space].vars.items() if space in scopes else ():
                found.setdefault(name, []).append(value)
        for name, options in found.items():
            functions = [option for option in options if isinstance(option, values.Overloads)]
            if name in env.vars:
                continue
            if functions == options and len(options) > 1:
                merged = {id(func.node): func for option in functions for func in option.funcs}
                env.vars[name] = values.Overloads(sorted(merged.values(), key=lambda func: int(func.node.loc[1])))
            else:
                env.vars[name] = options[0]
