"""CUDA kernels in texts that a file holds and that no run builds."""

from __future__ import annotations

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Overloads
from kbh_lint.frontends.walk import walk
from kbh_lint.source.embedded import Literal, Piece, Text

MAX_TEXTS = 16
MAX_LENGTH = 200_000


def unbuilt(module: ir.Module, env: Env, built: set[str]) -> list[tuple[Func, str]]:
    """The CUDA kernels in texts of the file that no run builds, each with its language.

    Texts are string constants of the file, and the values of its variables (`env`), which may be joined from several or
    read from a file beside it. `built` are the names of the kernels that some run builds.
    """
    nodes = walk(list(module.body))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ir.ExprS)}
    texts = [
        node
        for node in nodes
        if isinstance(node, ir.Const) and isinstance(node.value, str) and id(node) not in docstrings
    ]
    whole = [Text(n.value, (Piece(0, len(n.value), Literal(n.loc[0], n.loc), 0),)) for n in texts if _fits(n.value)]
    held = [value for value in env.vars.values() if isinstance(value, str) and _fits(value)]
    found: dict[str, Func] = {}
    for text in [*whole, *(value for value in held if value not in whole)][:MAX_TEXTS]:
        for func in _kernels(text):
            if func.node.name not in built:
                found.setdefault(func.node.name, func)
    return [(func, "cuda") for func in found.values()]


def _fits(text: str) -> bool:
    return "__global__" in text and len(text) <= MAX_LENGTH


def _kernels(text: str) -> list[Func]:
    from kbh_lint.frontends import cuda  # start-up: what has no C++ does without it

    def origin(offset: int) -> tuple[str, int, int]:
        """The file, line and column of a character of the text."""
        return (text.origin(offset) if isinstance(text, Text) else None) or ("<text>", 1, 1)

    values = cuda.module_env(cuda.lower(str(text), origin)).vars.values()
    found = [func for value in values if isinstance(value, Overloads) for func in value.funcs]
    return [func for func in found if func.node.kind == "global" and func.node.body is not None]
