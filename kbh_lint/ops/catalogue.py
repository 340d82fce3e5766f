"""All operations that are known of kernels, in every language."""

from __future__ import annotations

from kbh_lint.ops.control import CONTROL
from kbh_lint.ops.lanes import LANES
from kbh_lint.ops.memory import MEMORY
from kbh_lint.ops.numbers import NUMBERS
from kbh_lint.ops.operation import Operation

OPERATIONS: tuple[Operation, ...] = (*NUMBERS, *MEMORY, *LANES, *CONTROL)
_BY_NAME = {row.name: row for row in OPERATIONS}


def spellings(*names: str, languages: tuple[str, ...]) -> frozenset[str]:
    """How some languages spell the operations of these names."""
    return frozenset(
        word for name in names for language in languages for word in _BY_NAME[name].spellings.get(language, ())
    )
