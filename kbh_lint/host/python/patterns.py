"""What `match` asks of its subject: sequences, mappings, and the parts of objects that a class pattern names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.frontends import patterns
from kbh_lint.host.datamodel import iteration
from kbh_lint.host.python import builtin_attributes
from kbh_lint.host.values import keys, unknowns
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.objects import ClassV, Instance, is_named_tuple
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

# Classes of which a pattern with one part takes the whole object for it.
_WHOLE = frozenset(
    f"builtins.{name}" for name in "bool bytearray bytes dict float frozenset int list set str tuple".split()
)


@builtin
def _sequence(interp: Run, args: list[Any], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    subject, least, exactly = args
    if isinstance(subject, Unknown):
        return unknowns.merged(interp, subject, why="a type test")
    if isinstance(subject, Instance) and is_named_tuple(subject):
        subject = subject.cls.field_names()
    if not isinstance(subject, (list, tuple, range)) or isinstance(subject, Once):
        return False
    return len(subject) == least if exactly else len(subject) >= least


@builtin
def _listed(interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    return args[0] if isinstance(args[0], Unknown) else list(iteration.materialise(interp, args[0], loc))


def _items(subject: Value) -> Value:
    return subject.items if isinstance(subject, Instance) else subject


@builtin
def _mapping(interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    subject = _items(args[0])
    if isinstance(subject, Unknown):
        return unknowns.merged(interp, subject, why="a type test")
    return isinstance(subject, dict) and all(keys.find_key(interp, subject, k) is not keys.MISSING for k in args[1:])


@builtin
def _rest(interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    subject = _items(args[0])
    if not isinstance(subject, dict):
        return unknowns.merged(interp, subject)
    return {key: value for key, value in subject.items() if key not in args[1:]}


def _name(cls: Value, place: int | str) -> str | None:
    """The attribute that a part of a class pattern stands for; None of the whole object."""
    if isinstance(place, str):
        return place
    if getattr(cls, "__kbh_name__", "") in _WHOLE:
        return None
    names: Any = cls.field_names() if isinstance(cls, ClassV) else ()
    for base in cls.mro() if isinstance(cls, ClassV) else ():
        if "__match_args__" in base.env.vars:
            names = base.env.vars["__match_args__"]
            break
    return str(names[place]) if isinstance(names, (list, tuple)) and place < len(names) else ""


@builtin
def _has(interp: Run, args: list[Any], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    subject, cls, place = args
    name = _name(cls, place)
    if name == "" or isinstance(subject, Unknown):
        return unknowns.merged(interp, subject, why="a part of an object")
    return name is None or builtin_attributes.has_attr(interp, subject, name)


@builtin
def _part(interp: Run, args: list[Any], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Any:
    subject, cls, place = args
    name = _name(cls, place)
    return subject if name is None else interp.get_attr(subject, name, loc)


_INSTANCE = builtin_attributes.Attributes.functions_by_name()["isinstance"]
BUILTINS: dict[str, Any] = {
    patterns.SEQUENCE: _sequence, patterns.LISTED: _listed, patterns.MAPPING: _mapping, patterns.REST: _rest,
    patterns.INSTANCE: _INSTANCE, patterns.HAS: _has, patterns.PART: _part,
}  # fmt: skip
