"""Classes as they come to be: of a class statement, of `type(...)` with three arguments, through a metaclass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Sym, Value
from kbh_lint.host.datamodel import enums, exceptions, typetests
from kbh_lint.host.values import records
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.objects import Bound, ClassV, Compiled, Instance, Memo, find_method, function_of
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_BODY = "<class body>"  # in the namespace that a metaclass is given: what the class statement knows


def of_statement(interp: Run, node: ir.ClassDef, bases: tuple[Any, ...], env: Env, keywords: dict[str, Any]) -> Value:
    """Returns the value that a class statement binds to the class's name."""
    meta = keywords.pop("metaclass", None)
    if getattr(meta, "path", "") == "abc.ABCMeta":
        bases = (*bases, Sym("abc.ABC"))
    if not isinstance(meta, ClassV):
        meta = next((base.meta for base in bases if isinstance(base, ClassV) and base.meta is not None), None)
    fields, passed = records.fields_of(node.body)
    body = ClassV(node.name, bases, env, node, fields=fields, passed=passed, meta=meta)
    maker = function_of(meta.get("__new__")) if meta is not None else None
    if maker is None:
        made: Any = finished(interp, body, keywords, node.loc)
    else:
        env.vars[_BODY] = body
        made = interp.call(maker, [meta, node.name, bases, env.vars], keywords, node.loc)
        env.vars.pop(_BODY, None)
    after = function_of(meta.get("__init__")) if meta is not None else None
    if after is not None and isinstance(made, ClassV):
        interp.call(after, [made, node.name, bases, env.vars], keywords, node.loc)
    return made


def finished(interp: Run, cls: ClassV, keywords: dict[str, Any], loc: ir.Loc | None) -> ClassV:
    """Finishes a class whose body has run: makes enum members, sets `__class__` of its methods, registers it with its
    bases and calls their `__init_subclass__`. Returns the class."""
    if enums.is_enum(cls):
        enums.make_members(interp, cls, loc)
    for value in cls.env.vars.values():
        inner = function_of(value.func if isinstance(value, (Memo, Compiled, Bound)) else value)
        if isinstance(inner, Func) and inner.cls is None:
            inner.cls = cls
    for direct in cls.bases:
        if isinstance(direct, ClassV):
            direct.derived.append(cls)
    lineage = cls.mro()
    interp.burn(len(lineage))  # a class at the end of a chain has all the others before it
    for base in lineage[1:]:
        hook = base.env.vars.get("__init_subclass__")
        if hook is not None:
            interp.call(function_of(hook), [cls], keywords, loc)
            break
    for name, value in list(cls.env.vars.items()):
        named = find_method(value, "__set_name__") if isinstance(value, Instance) else None
        if named is not None:
            interp.call(named, [cls, name], {}, loc)
    return cls


def of_call(
    interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None, meta: ClassV | None = None
) -> Value:
    """Models `type(name, bases, namespace)`, also as `super().__new__` of a metaclass."""
    name, bases, names = args[:3]
    if not isinstance(name, str) or not isinstance(bases, tuple) or not isinstance(names, dict):
        return Unknown((), "a class that is made of what is not known")
    body = names.get(_BODY)
    if isinstance(body, ClassV):
        env = body.env if names is body.env.vars else Env(dict(names), body.env.parent)
        env.vars.pop(_BODY, None)
        made = ClassV(str(name), bases, env, body.node, fields=body.fields, passed=body.passed, meta=meta)
    else:
        said = names.get("__annotations__")
        env = Env(dict(names), interp.scopes.main)
        made = ClassV(str(name), bases, env, None, fields=list(said) if isinstance(said, dict) else [], meta=meta)
    return finished(interp, made, kwargs, loc)


def inherited(interp: Run, cls: ClassV, name: str, loc: ir.Loc | None) -> Value:
    """Returns `super().name` in a method of a metaclass, whose `self` is the class `cls`."""
    if name == "__call__":
        return builtin(lambda i, a, k, where: i.instantiate(cls, a, k, where, True))
    if name == "__instancecheck__":
        return builtin(lambda i, a, k, where: typetests.is_instance(i, a[0], cls, True))
    if name == "__getattribute__":
        return builtin(lambda i, a, k, where: i.get_attr(cls, str(a[0]), where))
    if name == "__setattr__":
        return builtin(lambda i, a, k, where: i.set_plain(cls, str(a[0]), a[1], where))
    if name == "__init__":
        return builtin(lambda i, a, k, where: None)
    if name == "__getattr__":
        return builtin(lambda i, a, k, where: exceptions.raise_("AttributeError", a, where))
    return Unknown((), f"super().{name}")
