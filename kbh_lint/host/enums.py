"""Classes of the standard library's enum: their members, and what is asked of a class of them.

A member of a plain Enum is an object with a name and a value. Members of IntEnum, StrEnum and flags are numbers and
texts that are computed with, and stay what they are.
"""

from __future__ import annotations

from typing import Any

from kbh_lint import ir
from kbh_lint.host import equality, exceptions, unknowns
from kbh_lint.host.objects import Bound, ClassV, Compiled, Instance, LibObject, Memo
from kbh_lint.host.tensors import Unknown
from kbh_lint.values import Func

AUTO = "enum.auto"
_FLAGS = frozenset(("enum.Flag", "enum.IntFlag"))
_NOT_MEMBERS = (Func, Memo, Compiled, Bound, ClassV)


def is_enum(cls: ClassV) -> bool:
    """Whether a class derives from one of enum's."""
    return any(path.startswith("enum.") for path in cls.external_bases())


def make_members(cls: ClassV) -> None:
    """Gives the names that the body of an enumeration assigned their members, and `auto()` its numbers."""
    bases = cls.external_bases()
    flag = not _FLAGS.isdisjoint(bases)
    number = 0
    for name, value in cls.env.vars.items():
        if name.startswith("_") or isinstance(value, _NOT_MEMBERS):
            continue
        if isinstance(value, LibObject) and value.path in ("property", "staticmethod", "classmethod"):
            continue
        if isinstance(value, LibObject) and value.path == AUTO:
            value = name.lower() if "enum.StrEnum" in bases else 1 << number if flag else number + 1
        number = number + 1 if flag else value if isinstance(value, int) else number
        plain = "enum.Enum" in bases and not any(hasattr(base, "__kbh_name__") for base in cls.bases)
        cls.env.vars[name] = Instance(cls, {"name": name, "value": value}) if plain else value


def members(cls: ClassV) -> dict[str, Any]:
    """The members by name, in their order; two names of one value are one member."""
    found: dict[str, Any] = {}
    for name, value in cls.env.vars.items():
        member = isinstance(value, Instance) and value.cls is cls or isinstance(value, (int, str, float))
        if member and not name.startswith("_"):
            found[name] = value
    return found


def look_up(interp: Any, cls: ClassV, args: list[Any], loc: ir.Loc | None) -> Any:
    """`Mode(value)`: the member of that value."""
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
    exceptions.raise_("ValueError", [wanted], loc)
