"""Dataclasses and named tuples: which parameters they take, and what an object of one holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.values.named_objects import RecordField
from kbh_lint.host.values.objects import ClassV, Instance, find_method
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def fields_of(body: tuple[ir.Stmt, ...]) -> tuple[list[str], list[str]]:
    """Returns the names that a class body annotates, and those of them that are passed to `__post_init__` alone."""
    fields: list[str] = []
    passed: list[str] = []
    for node in body:
        name = node.targets[0].id if isinstance(node, ir.Assign) and isinstance(node.targets[0], ir.Name) else ""
        said = getattr(node, "annotation", None)
        if isinstance(node, ir.Decl):
            name = node.name
        root = said.value if isinstance(said, ir.Index) else said
        kind = getattr(root, "name", getattr(root, "id", ""))
        if not name or said is None or kind in ("ClassVar", "KW_ONLY"):
            continue
        fields.append(name)
        passed += [name] if kind == "InitVar" else []
    return fields, passed


def is_record(cls: ClassV) -> bool:
    """Whether a class is a dataclass or a named tuple."""
    return any(base.dataclass for base in cls.mro()) or bool(cls.field_names())


def fill(
    interp: Run, instance: Instance, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None
) -> None:
    """Sets the fields of a new object, as the `__init__` of a dataclass or the `__new__` of a named tuple does."""
    cls, given, passed = instance.cls, list(args), []
    for name in cls.field_names(True):
        default, options = cls.get(name, Unknown()), {}
        if isinstance(default, RecordField):
            options = default.kwargs
            default = options.get("default", Unknown())
        taken = options.get("init") is not False
        if taken and given and options.get("kw_only") is not True and name not in kwargs:
            value = given.pop(0)
        elif taken and name in kwargs:
            value = kwargs[name]
        else:
            factory = options.get("default_factory")
            value = default if factory is None else interp.call(factory, [], {}, loc)
        if any(name in base.passed for base in cls.mro()):
            passed.append(value)
        elif taken or not isinstance(value, Unknown):
            instance.attrs[name] = value
    after = find_method(instance, "__post_init__")
    if after is not None and cls.dataclass:
        interp.call(after, passed, {}, loc)
