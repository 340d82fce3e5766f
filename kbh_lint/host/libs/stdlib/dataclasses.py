"""dataclasses, as far as it is called. Its decorator is in `libs.decorators`."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.objects import ClassV, Instance, LibObject
from kbh_lint.host.values.tensors import Unknown

MAX_DEPTH = 8


class Dataclasses(Library):
    """The module `dataclasses`."""

    @models("is_dataclass")
    def is_dataclass(self, site: Site, obj: Value) -> Value:
        """Models `dataclasses.is_dataclass(obj)`."""
        cls = _class_of(obj)
        return NotImplemented if cls is None else any(base.dataclass for base in cls.mro())

    @models("fields")
    def fields(self, site: Site, class_or_instance: Value) -> Value:
        """Models `dataclasses.fields(class_or_instance)`."""
        cls = _class_of(class_or_instance)
        if cls is None:
            return NotImplemented
        kind = Unknown((), site.path)
        return tuple(LibObject("dataclasses.Field", {"name": name, "type": kind}) for name in cls.field_names())

    @models("replace")
    def replace(self, site: Site, obj: Value, /, **changes: Value) -> Value:
        """Models `dataclasses.replace(obj, **changes)`."""
        if not isinstance(obj, Instance):
            return NotImplemented
        held = {name: obj.attrs.get(name) for name in obj.cls.field_names()}
        return site.run.call(obj.cls, [], {**held, **changes}, site.loc)

    @models("asdict", "astuple")
    def apart(self, site: Site, obj: Value) -> Value:
        """Models `dataclasses.asdict(obj)` and `astuple(obj)`, also of nested dataclasses."""
        return _apart(obj, site.name == "asdict", 0) if isinstance(obj, Instance) else NotImplemented


def _class_of(value: Value) -> ClassV | None:
    found = value.cls if isinstance(value, Instance) else value
    return found if isinstance(found, ClassV) else None


def _apart(value: Value, named: bool, depth: int) -> Value:
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
