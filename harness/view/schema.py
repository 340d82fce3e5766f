"""The form of trajectory.jsonl, made from the types that write it: as a JSON Schema, and as the tables of its page."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from harness.record.events import Event, kinds

__all__ = ["tables", "trajectory_schema"]

_SCALARS: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"}, int: {"type": "integer"}, bool: {"type": "boolean"},
}  # fmt: skip
_NAMES: Mapping[Any, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def trajectory_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of one line of trajectory.jsonl."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of a run's trajectory.jsonl",
        "oneOf": [_line(kind, data) for kind, data in kinds().items()],
    }


def tables() -> str:
    """Every kind of event with its fields, as docs/trajectory.md has them."""
    return "\n".join(line for kind, data in kinds().items() for line in _table(kind, data))


def _table(kind: str, data: type[Any]) -> Iterator[str]:
    hints = get_type_hints(data)
    yield from (f"### {kind}", "", inspect.getdoc(data) or "", "", "| field | type |", "|---|---|")
    for field in dataclasses.fields(data):
        later = ", may be missing" if field.metadata.get("later") else ""
        yield f"| `{field.name}` | {_words(hints[field.name])}{later} |"
    yield ""


def _line(kind: str, data: type[Any]) -> dict[str, Any]:
    envelope = get_type_hints(Event)
    names = ("seq", "time", "elapsed", "step", "seen")
    properties: dict[str, Any] = {name: _schema(envelope[name]) for name in names}
    properties["seq"]["minimum"] = 1
    properties["step"]["minimum"] = 0
    return {
        "title": kind,
        "description": " ".join((inspect.getdoc(data) or "").split()),
        "type": "object",
        "properties": {**properties, "kind": {"const": kind}, "data": _schema(data)},
        "required": [*names, "kind", "data"],
        "additionalProperties": False,
    }


def _schema(hint: object) -> dict[str, Any]:
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        fields = dataclasses.fields(hint)
        return {
            "type": "object",
            "properties": {field.name: _schema(hints[field.name]) for field in fields},
            "required": [field.name for field in fields if not field.metadata.get("later")],
            "additionalProperties": False,
        }
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return {"anyOf": [_schema(one) for one in arguments if one is not NoneType] + [{"type": "null"}]}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is Literal:
        return {"enum": list(arguments)}
    if hint is float:  # infinity is a text, for JSON has no number for it
        return {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf"]}]}
    return dict(_SCALARS[hint])


def _words(hint: object) -> str:
    if dataclasses.is_dataclass(hint):
        return f"object ({', '.join(field.name for field in dataclasses.fields(hint))})"
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join([*(_words(one) for one in arguments if one is not NoneType), "null"])
    if origin is tuple:
        return f"list of {_words(arguments[0])}"
    if origin is Literal:
        return "one of " + ", ".join(f"`{word}`" for word in arguments)
    return _NAMES[hint]
