"""Graphs of TorchScript that are written as text: `graph(%x : Tensor): %y : Tensor = aten::relu(%x) return (%y)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_TEXT = 100_000
# One part of a text each, none of which begins with what the one before may end with: hostile text costs its length.
_HEAD = re.compile(r"\s*graph\((?P<given>[^{}=]*?)\)\s*:")
_RESULTS = re.compile(r"\s*(?P<results>%[^={}]*)=")
_NODE = re.compile(r"\s*(?P<kind>\w+::\w+)(?:\[(?P<attributes>[^\]]*)\])?\((?P<operands>[^()]*)\)")
_END = re.compile(r"\s*return\s*\((?P<results>[^()]*)\)")
_NAME = re.compile(r"%([\w.]+)")
_VALUE = re.compile(r"value\s*=\s*(?P<value>.+)", re.S)
_COMMENT = re.compile(r"#[^\n]*")


class Node(NamedTuple):
    """A node of a graph: the values that it makes, what it does, its attributes as text, and its operands."""

    results: tuple[str, ...]
    kind: str
    attributes: str
    operands: tuple[str, ...]


class ScriptGraph(NamedTuple):
    """A graph without blocks."""

    given: tuple[str, ...]
    nodes: tuple[Node, ...]
    results: tuple[str, ...]


def parse(text: str) -> ScriptGraph | None:
    """The graph that a text describes; None where it is none, or has blocks."""
    if len(text) > MAX_TEXT:
        return None
    text = _COMMENT.sub("", text)
    head = _HEAD.match(text)
    if head is None:
        return None
    nodes, at = [], head.end()
    while True:
        made = _RESULTS.match(text, at)
        found = _NODE.match(text, at if made is None else made.end())
        if found is None:
            break
        results = () if made is None else tuple(_NAME.findall(made["results"]))
        operands = tuple(_NAME.findall(found["operands"]))
        nodes.append(Node(results, found["kind"], found["attributes"] or "", operands))
        at = found.end()
    end = _END.match(text, at)
    if end is None or text[end.end() :].strip():
        return None
    return ScriptGraph(tuple(_NAME.findall(head["given"])), tuple(nodes), tuple(_NAME.findall(end["results"])))


def function(graph: ScriptGraph) -> Callable[..., Value]:
    """What runs a graph on tensors: its nodes one after another, each as the operator of torch that it names."""

    @builtin
    def run(interp: Run, args: list[Value], kwargs: dict[str, Value], loc: ir.Loc | None) -> Value:
        held: dict[str, Any] = dict(zip(graph.given, args, strict=False))
        for node in graph.nodes:
            operands = [held.get(name, Unknown()) for name in node.operands]
            held.update(_made(node, _value(interp, node, operands, loc)))
        results = [held.get(name, Unknown()) for name in graph.results]
        return results[0] if len(results) == 1 else tuple(results)

    return run


def _made(node: Node, value: Value) -> Iterator[tuple[str, Value]]:
    """The values of a node by their names."""
    if len(node.results) == 1:
        yield node.results[0], value
    elif isinstance(value, (list, tuple)):
        yield from zip(node.results, value, strict=False)


def _value(interp: Run, node: Node, operands: list[Value], loc: ir.Loc | None) -> Value:
    space, _, name = node.kind.partition("::")
    if space == "aten":
        return interp.call(Sym(f"torch.ops.aten.{name}"), operands, {}, loc)
    if name == "Constant":
        return _constant(node.attributes)
    if name in ("ListConstruct", "TupleConstruct"):
        return operands if name[0] == "L" else tuple(operands)
    if name in ("ListUnpack", "TupleUnpack") and len(operands) == 1:
        return operands[0]
    interp.miss(f"{node.kind}, a node of a graph of TorchScript, is not followed", loc)
    return Unknown()


def _constant(attributes: str) -> Value:
    """The number, text or list of `prim::Constant[value=2]()`; without a value it is None."""
    found = _VALUE.search(attributes)
    if found is None:
        return None
    try:
        value: Value = ast.literal_eval(found["value"].strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return Unknown()
    return value
