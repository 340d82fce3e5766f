"""The syntax tree of a Python text, parsed once for all that read it."""

from __future__ import annotations

import ast
from functools import lru_cache


@lru_cache(maxsize=2)
def tree_of(text: str) -> ast.Module:
    """The tree, which nobody may change; those of the last texts are kept.

    Raises SyntaxError, or ValueError for NUL bytes; RecursionError or MemoryError where it nests past reason.
    """
    return ast.parse(text)
