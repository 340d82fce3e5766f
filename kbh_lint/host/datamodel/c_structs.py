"""Structs and unions of C that Python makes by ctypes: their fields, where these lie, and what lies at an offset."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from kbh_lint.base.values import Sym, Value
from kbh_lint.host.values.cpp_objects import Slot
from kbh_lint.host.values.named_objects import CArray, CCell
from kbh_lint.host.values.objects import ClassV, Instance

MAX_DEPTH = 6  # structs in one another
MAX_FIELDS = 64
_UNIONS = ("ctypes.Union", "ctypes.BigEndianUnion", "ctypes.LittleEndianUnion")
_STRUCTS = ("ctypes.Structure", "ctypes.BigEndianStructure", "ctypes.LittleEndianStructure", *_UNIONS)
_SIZES = {
    1: "bool byte char int8 ubyte uint8",
    2: "int16 short uint16 ushort",
    4: "float int int32 uint uint32 wchar",
    8: "char_p double int64 long longlong size_t ssize_t uint64 ulong ulonglong void_p wchar_p",
}
_BYTES = {f"ctypes.c_{name}": size for size, names in _SIZES.items() for name in names.split()}
_PACKED = {4: "<i", 8: "<Q"}


def is_struct(cls: ClassV) -> bool:
    """Whether objects of a class are structs or unions of C."""
    return any(base in _STRUCTS for base in cls.external_bases())


def fields(cls: ClassV) -> list[tuple[str, Value]]:
    """The names and types of the fields of a struct, those of its bases first."""
    out: list[tuple[str, Value]] = []
    for one in reversed(cls.mro()):
        rows = one.env.vars.get("_fields_")
        for row in rows[:MAX_FIELDS] if isinstance(rows, (list, tuple)) else ():
            if isinstance(row, tuple) and len(row) > 1 and isinstance(row[0], str):
                out.append((row[0], row[1]))
    return out


def begin(made: Instance, args: Sequence[Value], kwargs: dict[str, Value]) -> None:
    """Gives the fields of a new struct what it is made of, by place or by name, unless its class has an `__init__`.
    Others are zero, and structs and arrays of structs in it hold fields of their own. Does nothing for other
    objects."""
    if not made.cls.bases or not is_struct(made.cls):
        return
    names = [name for name, _ in fields(made.cls)]
    for name, kind in fields(made.cls):
        made.attrs[name] = zero(kind)
    if made.cls.has("__init__"):
        return
    made.attrs.update(zip(names, args, strict=False))
    made.attrs.update({name: value for name, value in kwargs.items() if name in names})


def zero(kind: Value, depth: int = 0) -> Value:
    """The value of a variable of a type of C before anything was stored there."""
    if isinstance(kind, ClassV) and depth < MAX_DEPTH:
        made = Instance(kind)
        made.attrs.update((name, zero(inner, depth + 1)) for name, inner in fields(kind))
        return made
    return zeros(kind.attrs, depth) if isinstance(kind, CArray) else 0


def zeros(array: Mapping[str, Value], depth: int = 0) -> list[Value]:
    """The items of an array, of so many of a type, before anything was stored there."""
    count = array["count"]
    return [zero(array.get("item"), depth + 1) for _ in range(min(count, MAX_FIELDS) if isinstance(count, int) else 0)]


def size(kind: Value, aligned: bool = False, depth: int = 0) -> int | None:
    """The bytes that a type of C takes, or the multiple at which it lies; None where that is not known."""
    if isinstance(kind, Sym):
        return _BYTES.get(kind.path)
    if isinstance(kind, CArray):
        one = size(kind.attrs.get("item"), aligned, depth + 1)
        return one if aligned or one is None else one * int(kind.attrs["count"])
    if not isinstance(kind, ClassV) or depth > MAX_DEPTH or not is_struct(kind):
        return None
    inner = [size(field, True, depth + 1) for _, field in fields(kind)]
    if None in inner:
        return None
    multiple = _packed(kind, max([1, *(one for one in inner if one is not None)]))
    if aligned:
        return multiple
    ends = [at + length for _, _, at, length in _places(kind, depth)]
    return None if len(ends) < len(inner) else -(-max([0, *ends]) // multiple) * multiple


def _packed(cls: ClassV, multiple: int) -> int:
    most = cls.get("_pack_")
    return min(multiple, most) if isinstance(most, int) and most > 0 else multiple


def _places(cls: ClassV, depth: int = 0) -> list[tuple[str, Value, int, int]]:
    """The fields of a struct, each with its type, its offset and its size, up to the first of unknown size."""
    out: list[tuple[str, Value, int, int]] = []
    union = any(base in _UNIONS for base in cls.external_bases())
    end = 0
    for name, kind in fields(cls):
        whole, multiple = size(kind, depth=depth + 1), size(kind, True, depth + 1)
        if whole is None or not multiple:
            return out
        multiple = _packed(cls, multiple)
        at = 0 if union else -(-end // multiple) * multiple
        out.append((name, kind, at, whole))
        end = at + whole
    return out


def at(value: Value, offset: int, width: int, depth: int = 0) -> Value:
    """The number of `width` bytes that lies so far behind the beginning of a value: of a struct, of an array, or of a
    buffer of bytes. Of what lies there in a union it is what is not zero. None where nothing is known."""
    value = value.get() if isinstance(value, Slot) else value
    value = value.attrs["value"] if isinstance(value, CCell) else value
    if isinstance(value, (bytes, bytearray)):
        part = bytes(value[offset : offset + width])
        return struct.unpack(_PACKED[width], part)[0] if len(part) == width else None
    if depth > MAX_DEPTH or not isinstance(value, Instance) or not is_struct(value.cls):
        return value if offset == 0 and not isinstance(value, (list, tuple, Instance)) else None
    found: Value = None
    for name, kind, start, length in _places(value.cls):
        if start <= offset < start + length:
            held = _in_field(value.attrs.get(name), kind, offset - start, width, depth)
            found = held if found is None or held not in (None, 0) else found
    return found


def _in_field(held: Value, kind: Value, offset: int, width: int, depth: int) -> Value:
    one = size(kind.attrs.get("item")) if isinstance(kind, CArray) else None
    if one and isinstance(held, (list, tuple)):
        index, offset = divmod(offset, one)
        held = held[index] if index < len(held) else 0
    return at(held, offset, width, depth + 1)
