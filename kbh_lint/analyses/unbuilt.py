"""CUDA kernels in texts that a file holds and that no run builds."""

from __future__ import annotations

from kbh_lint import ir
from kbh_lint.frontends import cuda
from kbh_lint.source.embedded import Literal, Piece, Text
from kbh_lint.values import Func, Overloads

MAX_TEXTS = 16
MAX_LENGTH = 200_000


def unbuilt(module: ir.Module, built: set[str]) -> list[tuple[Func, str]]:
    """The kernels of such texts, each with its language; `built` names those of the texts that some run builds."""
    nodes = cuda.walk(list(module.body))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ir.ExprS)}
    texts = [
        node
        for node in nodes
        if isinstance(node, ir.Const) and isinstance(node.value, str) and id(node) not in docstrings
    ]
    out: list[tuple[Func, str]] = []
    for node in [n for n in texts if "__global__" in n.value and len(n.value) <= MAX_LENGTH][:MAX_TEXTS]:
        out += [(func, "cuda") for func in _kernels(node) if func.node.name not in built]
    return out


def _kernels(node: ir.Const) -> list[Func]:
    text = Text(node.value, (Piece(0, len(node.value), Literal(node.loc[0], node.loc), 0),))

    def origin(offset: int) -> tuple[str, int, int]:
        return text.origin(offset) or ("<text>", 1, 1)

    values = cuda.module_env(cuda.lower(str(text), origin)).vars.values()
    found = [func for value in values if isinstance(value, Overloads) for func in value.funcs]
    return [func for func in found if func.node.kind == "global" and func.node.body is not None]
