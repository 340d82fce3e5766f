"""The committed fingerprints of libraries, and how much of each of their functions a text holds.

A function is a set of hashes, one for every run of GRAM tokens. Of a library's function the SKETCH smallest are kept
(minhash): the share of them that a text has estimates how much of the function it holds, to about a tenth.
"""

from __future__ import annotations

import json
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from kbh_lint.base.records import dataclass
from kbh_lint.fingerprints.functions import TOKEN_BYTES, Function

GRAM = 20
SKETCH = 20
MIN_TOKENS = 120  # shorter functions are not fingerprinted
LARGE_TOKENS = 300  # one function of this size is enough when half of it is there
LARGE_SHARE = 0.5
SHARE = 0.4  # of a smaller one; it takes two of a library, and so many tokens of them in all
ENOUGH_TOKENS = 200
DATA = Path(__file__).with_name("libraries.bin")
MAGIC = b"kbhfp1\n"


@dataclass(frozen=True, slots=True)
class Library:
    """A library: its version, the names it is imported by, and its licence (SPDX)."""

    name: str
    version: str
    imports: tuple[str, ...]
    licence: str


class Known(NamedTuple):
    """A function of a library: `tokens` long, of which `kept` hashes are stored. Thousands are read at every start,
    which as a dataclass takes four times as long."""

    origin: int
    name: str
    tokens: int
    kept: int


@dataclass(frozen=True, slots=True)
class Store:
    """Hashes in ascending order and, for each, the index of the function that has it."""

    libraries: tuple[Library, ...]
    functions: tuple[Known, ...]
    hashes: array[int]
    owners: array[int]
    known: frozenset[int]


@dataclass(frozen=True, slots=True)
class Match:
    """A library's function of which a text holds `share`; `where` is the function of the text that has most of it."""

    origin: Library
    function: str
    tokens: int
    share: float
    where: int


def grams(function: Function) -> set[int]:
    """The hashes of all runs of GRAM tokens."""
    code, width = function.code, GRAM * TOKEN_BYTES
    return {zlib.crc32(code[at : at + width]) for at in range(0, len(code) - width + 1, TOKEN_BYTES)}


def sketch(hashes: Iterable[int]) -> list[int]:
    """The smallest SKETCH hashes, after a mixing step: neighbouring runs must not be chosen together."""
    return sorted(hashes, key=lambda value: value * 0x9E3779B1 & 0xFFFFFFFF)[:SKETCH]


def matches(found: Sequence[Function], store: Store) -> list[Match]:
    """The functions of libraries that `found` holds, the largest parts first.

    A large function is enough. Of smaller ones it takes two of one library, in functions of two names.
    """
    held: dict[int, dict[int, int]] = {}
    looked_at: set[bytes] = set()  # a text, and what was built of it, have the same functions
    for index, function in enumerate(found):
        if function.code in looked_at:
            continue
        looked_at.add(function.code)
        for value in grams(function) & store.known:
            at = bisect_left(store.hashes, value)
            while at < len(store.hashes) and store.hashes[at] == value:
                held.setdefault(store.owners[at], {}).setdefault(value, index)
                at += 1
    by_library: dict[int, list[Match]] = {}
    for owner, values in held.items():
        known = store.functions[owner]
        share = len(values) / known.kept
        if share < SHARE:
            continue
        places = list(values.values())
        where = max(set(places), key=lambda place: (places.count(place), -place))
        match = Match(store.libraries[known.origin], known.name, known.tokens, share, where)
        by_library.setdefault(known.origin, []).append(match)
    out = [match for some in by_library.values() if _enough(some, found) for match in some]
    return sorted(out, key=lambda match: (-match.share * match.tokens, match.origin.name, match.function))


def _enough(some: Sequence[Match], found: Sequence[Function]) -> bool:
    """Whether matches with one library are more than what two authors write alike."""
    if any(match.tokens >= LARGE_TOKENS and match.share >= LARGE_SHARE for match in some):
        return True
    best: dict[str, Match] = {}  # by the name of the function that holds it: alike overloads are one
    for match in some:
        name = found[match.where].name
        if name not in best or best[name].share * best[name].tokens < match.share * match.tokens:
            best[name] = match
    different = {match.function for match in best.values()}
    return len(different) > 1 and sum(m.share * m.tokens for m in best.values()) >= ENOUGH_TOKENS


# --- the file ----------------------------------------------------------------------------------------------


def pack(libraries: Sequence[Library], functions: Sequence[Known], owned: Mapping[int, Sequence[int]]) -> bytes:
    """The store as bytes: a line of JSON, then hashes and owners as little-endian arrays."""
    rows = sorted((value, owner) for owner, values in owned.items() for value in values)
    head = {
        "gram": GRAM,
        "libraries": [[item.name, item.version, list(item.imports), item.licence] for item in libraries],
        "functions": [[item.origin, item.name, item.tokens, item.kept] for item in functions],
        "rows": len(rows),
    }
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=True).encode()
    hashes = b"".join(value.to_bytes(4, "little") for value, _ in rows)
    owners = b"".join(owner.to_bytes(2, "little") for _, owner in rows)
    return MAGIC + zlib.compress(text, 9) + hashes + owners


def unpack(data: bytes) -> Store:
    """The store that `pack` made. Raises ValueError when it is none of this version."""
    opened = zlib.decompressobj()
    try:
        head = json.loads(opened.decompress(data.removeprefix(MAGIC)) if data.startswith(MAGIC) else "{}")
    except zlib.error:
        head = {}
    rows, rest = head.get("rows", 0), opened.unused_data
    if head.get("gram") != GRAM or len(rest) != 6 * rows:
        raise ValueError("these are no fingerprints of this version")
    hashes, owners = array("I"), array("H")
    hashes.frombytes(rest[: 4 * rows])
    owners.frombytes(rest[4 * rows :])
    return Store(
        tuple(Library(name, version, tuple(imports), licence) for name, version, imports, licence in head["libraries"]),
        tuple(map(Known._make, head["functions"])),
        hashes,
        owners,
        frozenset(hashes),
    )


@lru_cache(maxsize=1)
def load() -> Store:
    """The committed store, read once."""
    return unpack(DATA.read_bytes())
