"""Classes of the standard library's enum: their members, and what is asked of a class of them.

A member of a plain Enum is an object with a name and a value. Members of IntEnum, StrEnum and flags are numbers and
texts that are computed with, and stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Sym, Value
from kbh_lint.host.datamodel import exceptions
from kbh_lint.host.values import equality, unknowns
from kbh_lint.host.values.library_objects import ClassMethod, Property, StaticMethod
from kbh_lint.host.values.named_objects import Auto
from kbh_lint.host.values.objects import Bound, ClassV, Compiled, Instance, LibObject, Memo
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_FLAGS = frozenset(("enum.Flag", "enum.IntFlag"))
_NOT_MEMBERS = (Func, Memo, Compiled, Bound, ClassV)


def is_enum(cls: ClassV) -> bool:
    """Whether a class derives from a class of Python's `enum` module."""
    return any(path.startswith("enum.") for path in cls.external_bases())


class Number(int):
    """An enumeration member that is a number, with its name and class."""

    name: str
    cls: ClassV


class Word(str):
    """An enumeration member that is a text, with its name and class."""

    name: str
    cls: ClassV


def make_members(interp: Run, cls: ClassV, loc: ir.Loc | None) -> None:
    """Replaces the values that the body of an enumeration assigned by members of the class, and gives each `auto()` its
    number."""
    bases = cls.external_bases()
    flag = not _FLAGS.isdisjoint(bases)
    plain = "enum.Enum" in bases and not any(hasattr(base, "__kbh_name__") for c in cls.mro() for base in c.bases)
    number = 0
    for name, value in cls.env.vars.items():
        if name.startswith("_") or isinstance(value, _NOT_MEMBERS):
            continue
        if isinstance(value, (Property, StaticMethod, ClassMethod)):
            continue
        if isinstance(value, Auto):
            value = name.lower() if "enum.StrEnum" in bases else 1 << number if flag else number + 1
        number = number + 1 if flag else value if isinstance(value, int) else number
        cls.env.vars[name] = _member(interp, cls, name, value, plain, loc)


def _member(interp: Run, cls: ClassV, name: str, value: Value, plain: bool, loc: ir.Loc | None) -> Value:
    if not plain:
        if not isinstance(value, (int, str)) or type(value) not in (int, str):
            return value
        made: Any = Number(value) if isinstance(value, int) else Word(value)
        made.name, made.cls = name, cls
        return made
    member = Instance(cls, {"name": name, "value": value, "_name_": name, "_value_": value})
    given = list(value) if isinstance(value, tuple) else [value]
    for place in ("__new__", "__init__"):
        own = cls.get(place)
        if own is None:
            continue
        found = interp.call(own, [cls if place == "__new__" else member, *given], {}, loc)
        if place == "__new__" and isinstance(found, Instance):
            member.attrs.update(found.attrs, value=found.attrs.get("_value_", value))
    return member


def member_attr(owner: Number | Word, name: str) -> Value:
    """Returns `owner.name` or `owner.value` of an enumeration member that is a number or a text."""
    if name in ("name", "_name_"):
        return owner.name
    return int(owner) if isinstance(owner, Number) else str.__str__(owner)


def made_of(
    interp: Run, path: str, name: str, names: str | list[Any] | tuple[Any, ...] | dict[Any, Any], loc: ir.Loc | None
) -> ClassV:
    """Models `Enum("Mode", "FAST SLOW")`: returns the class made from a list of names."""
    listed: Any = names.replace(",", " ").split() if isinstance(names, str) else names
    env = Env({})
    for item in listed.items() if isinstance(listed, dict) else listed:
        named = isinstance(item, (list, tuple)) and len(item) == 2
        env.vars[str(item[0] if named else item)] = item[1] if named else Auto("enum.auto")
    made = ClassV(name, (Sym(path),), env, None)
    make_members(interp, made, loc)
    return made


def members(cls: ClassV) -> dict[str, Value]:
    """Returns the members of an enumeration by name, in order of definition; two names of one value are one member."""
    found: dict[str, Any] = {}
    for name, value in cls.env.vars.items():
        member = isinstance(value, Instance) and value.cls is cls or isinstance(value, (int, str, float))
        if member and not name.startswith("_"):
            found[name] = value
    return found


def look_up(interp: Run, cls: ClassV, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """Models `Mode(value)`: returns the member that has the value."""
    if not args:
        return Unknown()
    wanted = args[0]
    if isinstance(wanted, Unknown):
        return unknowns.merged(interp, wanted)
    for member in members(cls).values():
        value = member.attrs["value"] if isinstance(member, Instance) else member
        if member is wanted or equality.same(interp, value, wanted) is True:
            return member
    if not members(cls):
        return wanted
    own = cls.get("_missing_")
    if isinstance(own, LibObject) and "func" in own.attrs:
        found = interp.call(own.attrs["func"], [cls, wanted], {}, loc)
        if found is not None:
            return found
    exceptions.raise_("ValueError", [wanted], loc)
