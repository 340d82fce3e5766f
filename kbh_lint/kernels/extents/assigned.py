"""What a piece of a kernel may change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kbh_lint.base import dtypes, ir
from kbh_lint.frontends.walk import all_nodes, by_node, children, walk

AROUND = (ir.If, ir.While, ir.CFor, ir.Block)  # statements that assign only what those in them do
_BY_PARTS = (*AROUND, ir.ExprS, ir.Return, ir.Decl, ir.Assign, ir.AssignE)  # whose expressions are asked about, too
_Handed = tuple[str, int, str]  # what is called, the position of an argument, the name that is given there


Keeps = Callable[[str, int], bool]  # whether a function that is called by a name leaves an argument as it is


def assigned_names(nodes: object, cpp: bool, keeps: Keeps | None = None) -> frozenset[str]:
    """The names that are assigned in or below `nodes`, or passed to a function that may assign them; `keeps` says which
    arguments a function takes by value."""
    if not cpp:
        return _in_python(nodes)
    named, handed = _in_cpp(nodes)
    if not handed:
        return named
    return named | {name for func, position, name in handed if keeps is None or not keeps(func, position)}


@by_node
def binds(body: object) -> bool:
    """Whether an expression in a body may assign a variable, or take its address."""
    return any(
        isinstance(node, (ir.AssignE, ir.Asm, ir.Decl)) or isinstance(node, ir.Unary) and node.op == "&"
        for node in all_nodes(body)
    )


@by_node
def _in_cpp(nodes: object) -> tuple[frozenset[str], frozenset[_Handed]]:
    if isinstance(nodes, _BY_PARTS):
        parts = [_in_cpp(child) for child in children(nodes)]
        named, handed = frozenset(_assigned((nodes,))), frozenset[_Handed]()
        return named.union(*[names for names, _ in parts]), handed.union(*[more for _, more in parts])
    below = walk(nodes)
    return frozenset(_assigned(below)), frozenset(_handed(below))


@by_node
def _in_python(nodes: object) -> frozenset[str]:
    if isinstance(nodes, AROUND):
        return frozenset().union(*map(_in_python, children(nodes)))
    if isinstance(nodes, ir.For):
        return frozenset(_targets(nodes.target)).union(*map(_in_python, children(nodes)))
    return frozenset(_each_in_python(nodes))


def assigned_each_time(nodes: object, cpp: bool, keeps: Keeps | None = None) -> tuple[str, ...]:
    """The names of `assigned_names`, each as often as it is assigned."""
    if not cpp:
        return _each_in_python(nodes)
    named, handed = _each_in_cpp(nodes)
    return named + tuple(name for func, position, name in handed if keeps is None or not keeps(func, position))


@by_node
def _each_in_cpp(nodes: object) -> tuple[tuple[str, ...], tuple[_Handed, ...]]:
    below = walk(nodes)
    return tuple(_assigned(below)), tuple(_handed(below))


@by_node
def _each_in_python(nodes: object) -> tuple[str, ...]:
    return tuple(_assigned(walk(nodes)))


def _assigned(nodes: Iterable[Any]) -> Iterator[str]:
    """The names that nodes assign, without what is below these."""
    for node in nodes:
        below: tuple[Any, ...] = ()
        if isinstance(node, (ir.AssignE, ir.AugAssign, ir.For)):
            below = (node.target,)
        elif isinstance(node, ir.Assign):
            below = node.targets
        elif isinstance(node, ir.Asm):
            below = tuple(value for _, value in node.outputs)
        elif isinstance(node, ir.Unary) and node.op == "&":
            below = (node.value,)
        elif isinstance(node, ir.Decl):
            yield node.name
        for part in below:
            yield from _targets(part)


def _handed(nodes: Iterable[Any]) -> Iterator[_Handed]:
    """The names that are arguments of functions of C++, which may take them by reference."""
    for node in nodes:
        if isinstance(node, ir.Call) and not _pure(node.func):
            func = node.func.id if isinstance(node.func, ir.Name) else ""
            for position, arg in enumerate(node.args):
                yield from ((func, position, name) for name in _targets(arg))


def _targets(target: object) -> Iterator[str]:
    """The names among what is assigned to."""
    parts = target.items if isinstance(target, ir.Seq) else (target,)
    yield from (part.id for part in parts if isinstance(part, ir.Name))
    yield from (part.name for part in parts if isinstance(part, ir.Decl))


def _pure(func: object) -> bool:
    """Whether a function changes none of its arguments: an intrinsic, or a conversion as `size_t(i)`."""
    if isinstance(func, ir.TypeRef):
        return not func.pointers and dtypes.from_cpp(func.name) is not None
    name = func.id.rsplit("::", 1)[-1] if isinstance(func, ir.Name) else ""
    return name.startswith("__") or name in ("min", "max") or dtypes.from_cpp(name) is not None
