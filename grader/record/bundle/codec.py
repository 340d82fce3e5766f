"""Frozen dataclasses, above all cells and trials, as JSON and back, by the types that they declare.

Both ways are strict: a missing or unknown field, a value of another type or a number that is none is an error which
names its place, such as `trials[0].shapes[1].timing`. Only a field marked LATER may be missing: it came after bundles
were written that are still read, and has its default there. Infinity is the string "inf". Fields may be dataclasses,
text, numbers, truth values, literals of text, `tuple[X, ...]`, `Mapping[str, X]`, and any of these or None.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from grader.record.cell import FORMAT, Cell, TrialResult

__all__ = ["CodecError", "cell_from_json", "cell_to_json", "from_json", "to_json", "trial_from_json", "trial_to_json"]

T = TypeVar("T")
INFINITIES = {"inf": math.inf, "-inf": -math.inf}


class CodecError(Exception):
    """A value does not fit its type; the text is one sentence that says where."""


def to_json(value: object, hint: type[Any]) -> dict[str, Any]:
    """A dataclass as JSON values. Raises CodecError where a field holds what its type does not allow."""
    return cast(dict[str, Any], _encode(value, hint, ""))


def from_json(data: object, hint: type[T]) -> T:
    """The reverse of `to_json`. Raises CodecError, also for a value that contradicts itself (its ValueError)."""
    try:
        return cast(T, _quick(cast(Any, hint))(data))
    except (_Odd, ValueError, OverflowError):
        pass  # the way below says what is wrong, and where
    try:
        return cast(T, _decode(data, hint, ""))
    except ValueError as error:
        raise CodecError(str(error)) from None


def cell_to_json(cell: Cell) -> dict[str, Any]:
    """A cell as JSON values. Raises CodecError where a field holds what its type does not allow."""
    return to_json(cell, Cell)


def cell_from_json(data: object) -> Cell:
    """The reverse of `cell_to_json`. Raises CodecError, also for a score that the outcome does not allow."""
    if isinstance(data, Mapping) and data.get("format") != FORMAT:
        raise CodecError(f"this cell is not of format {FORMAT}, which is what this version reads")
    return from_json(data, Cell)


def trial_to_json(trial: TrialResult) -> dict[str, Any]:
    """A trial as JSON values. Raises CodecError where a field holds what its type does not allow."""
    return to_json(trial, TrialResult)


def trial_from_json(data: object) -> TrialResult:
    """The reverse of `trial_to_json`. Raises CodecError."""
    return from_json(data, TrialResult)


@cache
def _later(hint: object) -> frozenset[str]:
    """The fields that older bundles lack."""
    return frozenset(field.name for field in dataclasses.fields(cast(Any, hint)) if field.metadata.get("later"))


@cache  # types: hashable, and few
def _fields(hint: object) -> dict[str, Any]:
    hints = get_type_hints(hint)
    return {field.name: hints[field.name] for field in dataclasses.fields(cast(Any, hint))}


class _Odd(Exception):
    """Something does not fit, or is rare."""


@cache
def _quick(hint: object) -> Callable[[Any], object]:
    """What decodes values of a type as `_decode` does, without places; it raises for everything that is not usual."""
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _quick_fields(cast(Any, hint))
    if origin in (Union, UnionType):
        inner = _quick(_not_none(arguments))
        return lambda data: None if data is None else inner(data)
    if origin is tuple:
        return _quick_tuple(_quick(arguments[0]))
    if origin is Mapping:
        return _quick_mapping(_quick(arguments[1]))
    if origin is Literal:
        return _quick_text(frozenset(get_args(hint)))
    return _quick_number if hint is float else _quick_scalar(hint)


def _quick_fields(hint: type[Any]) -> Callable[[Any], object]:
    made = cast(Any, hint)
    fields = {name: _quick(below) for name, below in _fields(made).items()}
    names, least = fields.keys(), fields.keys() - _later(made)

    def decode(data: object) -> object:
        if type(data) is not dict or not least <= data.keys() <= names:
            raise _Odd
        return hint(**{name: fields[name](value) for name, value in data.items()})

    return decode


def _quick_tuple(inner: Callable[[Any], object]) -> Callable[[Any], object]:
    def decode(data: object) -> object:
        if type(data) is not list:
            raise _Odd
        return tuple([inner(item) for item in data])

    return decode


def _quick_mapping(inner: Callable[[Any], object]) -> Callable[[Any], object]:
    def decode(data: object) -> object:
        if type(data) is not dict or not all(type(key) is str for key in data):
            raise _Odd
        return {key: inner(item) for key, item in data.items()}

    return decode


def _quick_text(known: frozenset[str]) -> Callable[[Any], object]:
    def decode(data: object) -> object:
        if type(data) is not str or data not in known:
            raise _Odd
        return data

    return decode


def _quick_scalar(hint: object) -> Callable[[Any], object]:
    if hint not in (str, int, bool):
        raise _Odd

    def decode(data: object) -> object:
        if type(data) is not hint:
            raise _Odd
        return data

    return decode


def _quick_number(data: object) -> object:
    if type(data) is float and data == data:
        return data
    if type(data) is int:
        return float(data)
    raise _Odd


def _encode(value: object, hint: object, at: str) -> object:
    if dataclasses.is_dataclass(hint):
        if type(value) is not hint:
            raise _unfit(value, hint, at)
        return {
            name: _encode(getattr(value, name), below, _below(at, name))
            for name, below in _fields(cast(Any, hint)).items()
        }
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None else _encode(value, _not_none(arguments), at)
    if origin is tuple:
        if not isinstance(value, tuple):
            raise _unfit(value, hint, at)
        return [_encode(item, arguments[0], f"{at}[{i}]") for i, item in enumerate(value)]
    if origin is Mapping:
        return {key: _encode(item, arguments[1], _below(at, key)) for key, item in _items(value, hint, at)}
    number = _scalar(value, hint, at)
    if isinstance(number, float) and math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return number


def _decode(data: object, hint: object, at: str) -> object:
    if dataclasses.is_dataclass(hint):
        fields = _fields(cast(Any, hint))
        given = dict(_items(data, hint, at))
        odd = sorted((set(given) ^ set(fields)) - (_later(cast(Any, hint)) - set(given)))
        if odd:
            has = "lacks" if odd[0] in fields else "has an unknown"
            raise CodecError(f"{at or 'the value'} {has} field {odd[0][:60]!r}")
        there = {name: below for name, below in fields.items() if name in given}
        values = {name: _decode(given[name], below, _below(at, name)) for name, below in there.items()}
        return cast(type[Any], hint)(**values)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if data is None else _decode(data, _not_none(arguments), at)
    if origin is tuple:
        if not isinstance(data, list):
            raise _unfit(data, hint, at)
        return tuple(_decode(item, arguments[0], f"{at}[{i}]") for i, item in enumerate(data))
    if origin is Mapping:
        return {key: _decode(item, arguments[1], _below(at, key)) for key, item in _items(data, hint, at)}
    if hint is float and isinstance(data, str) and data in INFINITIES:
        return INFINITIES[data]
    return _scalar(data, hint, at)


def _scalar(value: object, hint: object, at: str) -> object:
    """A text, number, truth value or one of a few literals; a whole number will do where a float is wanted."""
    if get_origin(hint) is Literal:
        if type(value) is not str or value not in get_args(hint):
            raise _unfit(value, hint, at)
        return value
    if hint is float and type(value) in (int, float):
        try:
            number = float(cast(float, value))
        except OverflowError:
            raise _unfit(value, hint, at) from None
        if math.isnan(number):
            raise CodecError(f"{at} is not a number (NaN)")
        return number
    if hint not in (str, int, bool) or type(value) is not hint:
        raise _unfit(value, hint, at)
    return value


def _items(value: object, hint: object, at: str) -> list[tuple[str, object]]:
    if not isinstance(value, Mapping) or not all(type(key) is str for key in value):
        raise _unfit(value, hint, at)
    return list(value.items())


def _not_none(arguments: tuple[Any, ...]) -> Any:
    """The one type of `X | None`; grader.record.cell has no other unions."""
    (only,) = (argument for argument in arguments if argument is not NoneType)
    return only


def _below(at: str, name: str) -> str:
    return f"{at}.{name[:60]}" if at else name[:60]


def _unfit(value: object, hint: object, at: str) -> CodecError:
    wanted = " or ".join(map(repr, get_args(hint))) if get_origin(hint) is Literal else _name(hint)
    shown = repr(value[:40]) if isinstance(value, str) else f"a {type(value).__name__}"
    return CodecError(f"{at or 'the value'} is {shown}, not {wanted}")


def _name(hint: object) -> str:
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    if get_origin(hint) in (tuple, Mapping):
        return "a list" if get_origin(hint) is tuple else "a mapping"
    known = names.get(hint) if isinstance(hint, type) else None
    return known or str(getattr(hint, "__name__", hint))
