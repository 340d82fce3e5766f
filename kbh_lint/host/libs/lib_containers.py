"""dataclasses, heapq and bisect: functions of the standard library on what the submission's containers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import operators
from kbh_lint.host.values import bounds, unknowns
from kbh_lint.host.values.objects import ClassV, Instance, LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_PLAIN = (int, float, str, bytes, type(None))
MAX_DEPTH = 8
_TAKING = ("heappop", "heapreplace", "heappushpop")
_GIVING = ("heappush", "heapreplace", "heappushpop", "insort", "insort_left", "insort_right")


def dataclasses_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """replace, asdict, astuple, fields and is_dataclass; of anything else, an object of the library."""
    name = path.rsplit(".", 1)[-1]
    owner = args[0] if args else None
    cls = owner.cls if isinstance(owner, Instance) else owner
    if not isinstance(cls, ClassV) or name == "dataclass":
        return LibObject.by_path(path, {}, tuple(args), kwargs)
    if name == "is_dataclass":
        return any(base.dataclass for base in cls.mro())
    names = cls.field_names()
    if name == "fields":
        return tuple(LibObject("dataclasses.Field", {"name": field, "type": Unknown((), path)}) for field in names)
    if isinstance(owner, Instance) and name == "replace":
        return interp.call(cls, [], {**{field: owner.attrs.get(field) for field in names}, **kwargs}, loc)
    if isinstance(owner, Instance) and name in ("asdict", "astuple") and not kwargs and len(args) == 1:
        return _apart(owner, name == "asdict", 0)
    return LibObject.by_path(path, {}, tuple(args), kwargs)


def _apart(value: Value, named: bool, depth: int) -> Any:
    """What asdict or astuple makes of a value: objects of dataclasses are taken apart, also inside of containers."""
    if depth > MAX_DEPTH:
        return Unknown((), "dataclasses.asdict")
    if isinstance(value, Instance) and value.cls.dataclass:
        parts = {name: _apart(value.attrs.get(name), named, depth + 1) for name in value.cls.field_names()}
        return parts if named else tuple(parts.values())
    if type(value) is list or type(value) is tuple:
        parts_of = [_apart(item, named, depth + 1) for item in value]
        return parts_of if type(value) is list else tuple(parts_of)
    return {key: _apart(item, named, depth + 1) for key, item in value.items()} if type(value) is dict else value


def ordered_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Runs functions of heapq and bisect on lists of numbers and texts, which they change in place."""
    module, _, name = path.rpartition(".")
    items = [arg for arg in args if isinstance(arg, list)]
    if not kwargs and items and all(_is_plain(arg) for arg in args):
        import bisect
        import heapq

        real = getattr({"heapq": heapq, "bisect": bisect}.get(module), name, None)
        interp.burn(sum(len(part) for part in items) // 8)
        if name != "merge" and callable(real):
            try:
                return real(*args)
            except Exception as error:
                operators.failed(interp, error, loc)
    if len(items) == 1 and isinstance(args[0], list) and not kwargs:
        return _kept_unordered(name, *args)
    return unknowns.merged(interp, *args, why=path)


def _kept_unordered(name: str, items: list[Any], *more: object) -> Any:
    """heapq and bisect on items that the linter cannot compare: they keep what they are given, in no known order."""
    taken = items[0] if name in _TAKING and items else Unknown((), "heapq.heappop")
    if name in ("heappop", "heapreplace"):
        del items[:1]
    items.extend(more[:1] if name in _GIVING else ())
    if name == "heappushpop":
        del items[:1]
    return taken if name in _TAKING else None if name in _GIVING else Unknown((), name)


def _is_plain(value: Value, depth: int = 0) -> bool:
    if isinstance(value, (list, tuple)):
        return depth < 4 and len(value) <= bounds.MAX_NODES and all(_is_plain(item, depth + 1) for item in value)
    return isinstance(value, _PLAIN)
