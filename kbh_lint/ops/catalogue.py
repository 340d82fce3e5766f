"""All operations that are known of kernels, in every language.

The row of an operation stands in the module of its kind (`MODULES`): `numbers` for functions of numbers and operators,
`memory` for reads, writes, copies, views and memory that is made, `lanes` for what runs over several threads or over
the elements of a tile (reductions, shuffles, matrix products), `control` for what computes nothing of data (where in
the grid, sizes, casts, barriers). `python -m kbh_lint.ops.catalogue WORD` prints the row of a spelling and its file.
CUDA's conversions that say in their names what they convert have no rows: `conversions` reads the names.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from kbh_lint import registry
from kbh_lint.ops import conversions
from kbh_lint.ops.control import CONTROL
from kbh_lint.ops.lanes import LANES
from kbh_lint.ops.memory import MEMORY
from kbh_lint.ops.numbers import NUMBERS
from kbh_lint.ops.operation import Kind, Operation

OPERATIONS: tuple[Operation, ...] = (*NUMBERS, *MEMORY, *LANES, *CONTROL)
MODULES: Mapping[str, frozenset[Kind]] = {  # the kinds of which each holds the rows; a test holds it
    "numbers": frozenset(("function", "whole", "test", "arithmetic", "extreme", "bits")),
    "memory": frozenset(("memory", "atomic", "allocation", "view", "move")),
    "lanes": frozenset(("lanes", "product", "job")),
    "control": frozenset(("size", "cast", "control")),
}
BY_POINTERS = tuple(row.name for row in registry.rows() if row.by_pointers)  # languages written in Python
_BY_NAME = {row.name: row for row in OPERATIONS}


def spellings(*names: str, languages: tuple[str, ...]) -> frozenset[str]:
    """The spellings that `languages` have for the operations of these names."""
    return frozenset(
        word for name in names for language in languages for word in _BY_NAME[name].spellings.get(language, ())
    )


def shown(word: str) -> list[str]:
    """The catalogue's rows for a word, its name or a spelling, as lines that name the file; for whoever adds a
    spelling."""
    found = []
    for row in OPERATIONS:
        told = ", ".join(f"{language}: {' '.join(words)}" for language, words in row.spellings.items())
        if word == row.name or any(word in words for words in row.spellings.values()):
            module = next(name for name, kinds in MODULES.items() if row.kind in kinds)
            found.append(f"kbh_lint/ops/{module}.py  {row.name} ({row.kind})  {told}")
    said = conversions.named(word)
    if said is not None:
        how = "reads the bits of" if said.bits else "converts"
        found.append(
            f"kbh_lint/ops/conversions.py  no row is needed: {word} {how} {said.source} to {said.target} by its name"
        )
    return found


if __name__ == "__main__":
    print("\n".join(line for word in sys.argv[1:] for line in shown(word) or (f"no operation is spelled {word}",)))
