"""Texts of the submission's own objects: what str(), repr(), format() and f-strings make of them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import enums, shown
from kbh_lint.host.values import bounds
from kbh_lint.host.values.objects import Instance, find_method
from kbh_lint.source.embedded import concat

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_WAYS = {"str": ("__str__", "__repr__"), "repr": ("__repr__",), "format": ("__format__", "__str__", "__repr__")}
_PLAIN = (str, int, float, bool, bytes, type(None))
MAX_DEPTH = 4
MAX_LOOKED_AT = 32  # items of a container, of which one may be an object


def of(interp: Run, value: Value, loc: ir.Loc | None, way: str = "str", spec: Value = "", depth: int = 0) -> str:
    """Returns the text of any value. `way` is str, repr or format; `spec` is the format specification after the
    colon."""
    if isinstance(value, Instance):
        return _of_object(interp, value, loc, way, spec, depth)
    if way == "repr" and type(value) is str:
        return repr(value)
    if depth < MAX_DEPTH and isinstance(value, (list, tuple, dict)) and has_objects(value) and bounds.is_small(value):
        return _of_container(interp, value, loc, depth)
    if isinstance(value, range):
        return str(value)
    return shown.show(value)


def _of_container(
    interp: Run, value: dict[Any, Any] | list[Any] | tuple[Any, ...] | set[Any], loc: ir.Loc | None, depth: int
) -> str:
    opening, closing = "{}" if isinstance(value, dict) else "[]" if isinstance(value, list) else "()"
    parts: list[str] = []
    for item in value:
        parts.append(", " if parts else opening)
        if isinstance(value, dict):
            parts += [of(interp, item, loc, "repr"), ": "]
            item = value[item]
        parts.append(of(interp, item, loc, "repr", "", depth + 1))
    return concat([*parts, "," if isinstance(value, tuple) and len(value) == 1 else "", closing])


def has_objects(value: Value) -> bool:
    """Whether a container holds objects of the submission's classes, among the first MAX_LOOKED_AT items."""
    stack, seen = [value], 0
    while stack and seen < MAX_LOOKED_AT:
        at = stack.pop()
        seen += 1
        if isinstance(at, Instance):
            return True
        if isinstance(at, (list, tuple, dict)):
            stack.extend(islice(at.values() if isinstance(at, dict) else at, MAX_LOOKED_AT))
    return False


def _of_object(interp: Run, value: Instance, loc: ir.Loc | None, way: str, spec: Value, depth: int) -> str:
    for name in _WAYS[way]:
        found = find_method(value, name)
        if found is not None:
            made = interp.call(found, [spec] if name == "__format__" else [], {}, loc)
            return made if isinstance(made, str) else shown.show(made)
    if way != "repr" and "__cause__" in value.attrs and isinstance(value.attrs.get("args"), tuple):  # an exception
        given = value.attrs["args"]
        return of(interp, given[0] if len(given) == 1 else given, loc) if given else ""
    if enums.is_enum(value.cls) and "name" in value.attrs:
        member = f"{value.cls.name}.{value.attrs['name']}"
        return member if way != "repr" else f"<{member}: {of(interp, value.attrs.get('value'), loc, 'repr')}>"
    fields = {name: value.attrs.get(name) for name in value.cls.field_names()} if value.cls.dataclass else {}
    known = all(isinstance(part, (*_PLAIN, Instance, list, tuple)) for part in fields.values())
    if not fields or not known or depth >= MAX_DEPTH:
        return shown.show(value)
    parts: list[str] = []
    for name, part in fields.items():
        parts += [", " if parts else f"{value.cls.name}(", f"{name}=", of(interp, part, loc, "repr", "", depth + 1)]
    return concat([*parts, ")"])
