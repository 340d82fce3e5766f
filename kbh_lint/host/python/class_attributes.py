"""Attributes of classes of the submission, and of members of enumerations that are numbers or texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Func, Sym, Value
from kbh_lint.host.datamodel import enums, iteration
from kbh_lint.host.python import classes
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.library_objects import ClassMethod, Property, StaticMethod
from kbh_lint.host.values.named_objects import FunctionContext
from kbh_lint.host.values.objects import Bound, ClassV, Instance, Memo, Method, Partial, find_method, meta_method

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def attribute(interp: Run, owner: ClassV, name: str, loc: ir.Loc | None) -> Any:
    """Returns `owner.name` of a class of the submission."""
    try:
        found = owner.find(name)
    except KeyError:
        known = _of_class(interp, owner, name, loc)
        if known is not NotImplemented:
            return known
        forward = owner.env.vars.get("forward")
        if name == "apply" and isinstance(forward, (StaticMethod, Func)):
            # torch.autograd.Function: forward gets the context first, unless setup_context takes it. `apply` calls what
            # the class holds, so a forward that is no static method gets the same.
            context = FunctionContext("torch.autograd.function.FunctionCtx")
            function = forward.func if isinstance(forward, StaticMethod) else forward
            return Partial(function, () if "setup_context" in owner.env.vars else (context,), {})
        return Method(owner, name)
    if isinstance(found, StaticMethod):
        return found.func
    if isinstance(found, ClassMethod):
        return Bound(owner, found.func)
    if isinstance(found, Instance) and (own := find_method(found, "__get__")) is not None:
        return interp.call(own, [None, owner], {}, loc)
    return found


def _of_class(interp: Run, owner: ClassV, name: str, loc: ir.Loc | None) -> Value:
    """What every class has, or its metaclass gives it; NotImplemented where there is nothing of the kind."""
    if name in ("__name__", "__qualname__"):
        return owner.name
    if name == "__dict__":
        return owner.env.vars
    if name in ("__mro__", "__bases__"):
        others = [base for cls in owner.mro() for base in cls.bases if not isinstance(base, ClassV)]
        return (*owner.mro(), *others, Sym("builtins.object")) if name == "__mro__" else owner.bases
    if name == "__subclasses__":
        return builtin(lambda i, a, k, where: list(owner.derived))
    if name == "__members__" and enums.is_enum(owner):
        return enums.members(owner)
    if name == "register" and "abc.ABC" in owner.external_bases():
        return builtin(lambda i, a, k, where: _registered(owner, a[0]))
    if owner.field_names() and name in ("_fields", "__match_args__", "_make"):
        fields = tuple(owner.field_names())
        return fields if name != "_make" else builtin(lambda i, a, k, where: _made_of(i, owner, a[0], where))
    meta = meta_method(owner, name)
    if meta is not None:
        return classes.bind(interp, owner, meta.func, loc)
    own = meta_method(owner, "__getattr__")
    return interp.call(own, [name], {}, loc) if own is not None else NotImplemented


def _registered(owner: ClassV, cls: Value) -> Value:
    """ABC.register, which is a decorator too."""
    owner.registered.append(cls)
    return cls


def _made_of(interp: Run, cls: ClassV, items: Value, loc: ir.Loc | None) -> Any:
    return interp.call(cls, list(iteration.materialise(interp, items, loc)), {}, loc)


def put(interp: Run, owner: ClassV, name: str, value: Value, loc: ir.Loc | None) -> None:
    """Evaluates `owner.name = value` of a class; a function becomes one of its methods."""
    if isinstance(value, Func) and value.cls is None:
        value.cls = owner
    owner.env.vars[name] = value


PARTS = ("real", "imag", "numerator", "denominator")  # of a number


def of_member(interp: Run, owner: enums.Number | enums.Word, name: str, loc: ir.Loc | None) -> Value:
    """Returns `owner.name` of an enumeration member that is a number or a text: its name, its value, or what its class
    defines. NotImplemented for other names."""
    if name in ("name", "value", "_name_", "_value_"):
        return enums.member_attr(owner, name)
    if not owner.cls.has(name) or name in PARTS and isinstance(owner, enums.Number):
        return NotImplemented
    found = owner.cls.find(name)
    if isinstance(found, Property):
        return interp.call(Bound(owner, found.getter), [], {}, loc)
    if isinstance(found, (StaticMethod, ClassMethod)):
        return found.func if isinstance(found, StaticMethod) else Bound(owner.cls, found.func)
    return Bound(owner, found) if isinstance(found, (Func, Memo)) else found
