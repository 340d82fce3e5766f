"""What the text of a submission speaks of: its code, without what only people read.

A comment about the clock of an SM, or about the events of a benchmark, must not decide how a submission is built. A
word that is put together when the program runs is not found: who hides that it tunes has no device alone for that.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["code_of"]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@lru_cache(maxsize=64)
def code_of(name: str, text: str) -> str:
    """The names, imports and strings of a Python file, and what else a file has without comments of C. A string may be
    code of C++ itself. Python that does not parse is taken as it is.
    """
    if not name.endswith(".py"):
        return _COMMENT.sub(" ", text)
    try:
        tree = ast.parse(text)
        return "\n".join(_said(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


def _said(tree: ast.Module) -> Iterator[str]:
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in prose:
            said = node.value if isinstance(node.value, str) else node.value.decode("utf-8", "replace")
            yield _COMMENT.sub(" ", said)
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield f"{_last(node.value)}.{node.attr}"
        elif isinstance(node, ast.Import):
            yield from (f"import {alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"from {node.module or '.'} import {alias.name}" for alias in node.names)
        elif isinstance(node, ast.keyword | ast.arg):
            yield node.arg or ""
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
