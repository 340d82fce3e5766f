"""A row of the catalogue, and the tables that are made of its rows.

An interpreter of kernels gives what it does to each operation, by the operation's name or for all of a kind; the
spellings come from the catalogue. A row that an interpreter does nothing for is in none of its tables: it says then
that it cannot follow the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeVar

from kbh_lint import registry
from kbh_lint.base.records import dataclass

LANGUAGES = frozenset(("cuda", "gluon", "ptx", "python", *(row.name for row in registry.rows())))
Kind = Literal[
    "function",  # of numbers, one result for each element
    "whole",  # to a whole number
    "test",  # of a number
    "arithmetic",  # an operator by its name
    "extreme",  # the larger or the smaller of two
    "bits",  # of the representation
    "move",  # of elements, or of bytes of one
    "lanes",  # between threads, or elements of a tile
    "product",  # of matrices
    "memory",  # reads, writes, copies
    "atomic",  # reads and writes at once
    "allocation",  # of memory, or of registers
    "view",  # of the same memory, or of the same values in another shape
    "size",  # of a layout, a type, a grid, or where in it a thread is
    "control",  # loops, barriers, checks: nothing of numbers
    "cast",  # between types
    "job",  # a whole algorithm
]
Flag = Literal["", "exp", "max", "reduce"]
Result = Literal["operand", "i32"]
Effect = Literal["", "reads", "writes", "updates"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `flag` is how data is marked that went through it, `result` the element type that comes out,
    `effect` what it does to the memory that it is given, `symbol` the operator that an arithmetic one stands for.
    `spellings` are by language, one of `LANGUAGES`: `python` ones are of functions of numbers, which kernels written in
    Python have in common (libdevice's and Python's `math`, too), `gluon` ones of Triton's other package."""

    name: str
    kind: Kind
    spellings: Mapping[str, tuple[str, ...]]
    flag: Flag = ""
    result: Result = "operand"
    effect: Effect = ""
    symbol: str = ""


def op(
    name: str,
    kind: Kind,
    *,
    flag: Flag = "",
    result: Result = "operand",
    effect: Effect = "",
    symbol: str = "",
    **spellings: str,
) -> Operation:
    """Makes a row of the catalogue; the spellings in a language are one text, words apart. Raises ValueError for an
    unknown language."""
    for language in spellings:
        if language not in LANGUAGES:
            raise ValueError(f"the operation {name} has spellings in {language}, which is no language")
    given = {language: tuple(words.split()) for language, words in spellings.items()}
    return Operation(name, kind, given, flag, result, effect, symbol)


def spelled(
    rows: Iterable[Operation],
    language: str,
    named: Mapping[str, T],
    kinds: Mapping[Kind, Callable[[Operation], T]] | None = None,
) -> dict[str, T]:
    """The table of a language: each spelling of a row with what an interpreter does to it, from `named` by the
    operation's name, else from `kinds` by its kind. Rows without either are left out."""
    made: dict[str, T] = {}
    for row in rows:
        words = row.spellings.get(language, ())
        if not words:
            continue
        if row.name in named:
            handler = named[row.name]
        elif kinds is not None and row.kind in kinds:
            handler = kinds[row.kind](row)
        else:
            continue
        made.update(dict.fromkeys(words, handler))
    return made
