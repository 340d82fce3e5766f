"""Which functions a cubin's table of addresses holds: the symbols that the loader writes into constant bank 4.

Compilers call the device's runtime (`printf`, a failed `assert`, `malloc`) through that table. A cubin is an ELF file
of 64 bits, little-endian (the ELF-64 Object File Format, version 1.5); a section `.rela.nv.constant4` names the symbol
of each address. The file was written by a submission's own process: every number in it is bounded before it is used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["RUNTIME", "ElfError", "calls_runtime_alone", "cut_off"]

RUNTIME = frozenset({"__assertfail", "free", "malloc", "vprintf"})
"""Functions of the device's runtime that compute nothing."""

MOST_FILE = 64 << 20
MOST_RELOCATIONS = 1 << 16
MOST_NAME = 1 << 12
_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_REL, _RELA = struct.Struct("<QQ"), struct.Struct("<QQq")
_IS_RELA, _HAS_NO_BYTES, _IS_REL = 4, 8, 9
_IS_CODE = 0x4  # of a section: it can be executed
_DATA, _FUNCTION = 1, 2  # types of symbols
_RESERVED = 0xFF00  # numbers of sections from here on have other meanings
_TABLES = (".nv.constant4",)


class ElfError(Exception):
    """A file that is no such cubin; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class _Section:
    name: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int


def calls_runtime_alone(cubin: Path) -> bool:
    """Whether the functions whose addresses stand in constant bank 4 are all of the runtime.

    Raises ElfError and OSError.
    """
    with cubin.open("rb") as stream:
        data = stream.read(MOST_FILE + 1)
    if len(data) > MOST_FILE:
        raise ElfError(f"it is larger than {MOST_FILE} bytes")
    try:
        return all(_is_harmless(data, sections, symbol) for sections, symbol in _addresses(data))
    except (struct.error, IndexError, OverflowError) as error:
        raise ElfError(f"its ELF structure is broken ({error})") from None


def cut_off(data: bytes) -> int:
    """How many bytes of the tables of headers lie behind the end of a file; 0 where it is whole, or no ELF file."""
    if len(data) < _HEADER.size:
        return 0
    magic, *_, segments, sections, _flags, _size, one, many, each, count, _names = _HEADER.unpack_from(data)
    ends = (segments + one * many, sections + each * count)
    return max(*ends, len(data)) - len(data) if magic == b"\x7fELF" else 0


def _addresses(data: bytes) -> Iterator[tuple[list[_Section], tuple[bytes, int, int]]]:
    """Each address in the table: the file's sections, and the symbol's name, type and section."""
    magic, bits, order, *_, offset, _flags, _size, _psize, _pcount, size, count, names = _HEADER.unpack_from(data)
    if magic != b"\x7fELF" or bits != 2 or order != 1 or size != _SECTION.size:
        raise ElfError("it is no ELF file of 64 bits")
    sections = [_section(data, offset + number * size) for number in range(count)]
    for section in sections:
        if section.kind != _HAS_NO_BYTES and section.offset + section.size > len(data):
            raise ElfError("a section lies outside of the file")
        if section.kind not in (_IS_RELA, _IS_REL):
            continue
        target = _text(data, sections[names], sections[section.info].name).decode("latin-1")
        if target.startswith(_TABLES):
            form = _RELA if section.kind == _IS_RELA else _REL
            symbols = sections[section.link]
            if section.size > MOST_RELOCATIONS * form.size:
                raise ElfError("its table of addresses is longer than is read")
            for place in range(section.offset, section.offset + section.size, form.size):
                which = form.unpack_from(data, place)[1] >> 32
                if which >= symbols.size // _SYMBOL.size:
                    raise ElfError("an address in its table has no symbol")
                name, info, _, index, _, _ = _SYMBOL.unpack_from(data, symbols.offset + which * _SYMBOL.size)
                yield sections, (_text(data, sections[symbols.link], name), info & 0xF, index)


def _section(data: bytes, place: int) -> _Section:
    name, kind, flags, _, offset, size, link, info, _, _ = _SECTION.unpack_from(data, place)
    return _Section(name, kind, flags, offset, size, link, info)


def _text(data: bytes, strings: _Section, place: int) -> bytes:
    start = strings.offset + place
    return data[start : start + MOST_NAME].partition(b"\0")[0]


def _is_harmless(data: bytes, sections: list[_Section], symbol: tuple[bytes, int, int]) -> bool:
    """Whether what has this address is data, or a function of the runtime, which is in no file."""
    name, kind, index = symbol
    if index == 0:
        return kind == _DATA or name.decode("latin-1") in RUNTIME
    return kind != _FUNCTION and index < _RESERVED and not sections[index].flags & _IS_CODE
