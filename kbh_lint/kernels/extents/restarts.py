"""Loops that carry a state, and begin it at zero in each of the pieces that the programs of a launch go through.

A state that products read again in the next step is what a recurrence carries along a sequence. Where each program
takes a piece of it, the state has to come from the piece before: zeros forget all that was there. It may be carried
beside, since the state is linear in what it begins with: nothing is said of a loop where products read what was loaded
before it. A loop in front may bring the state up to where a piece begins: that has to go back to the first step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from kbh_lint.base import ir, values
from kbh_lint.frontends.walk import all_nodes, by_node, walk
from kbh_lint.kernels.extents.follow import NOT_FOLLOWED, can_be_followed
from kbh_lint.kernels.extents.gaps import Rounds
from kbh_lint.kernels.extents.values import Dims


class Restart(NamedTuple):
    """A loop that restarts its state in each piece of an axis: per iteration, the stores move by `stride` elements, and
    the longest piece has `longest` iterations."""

    loc: ir.Loc
    stride: int
    longest: int


def restarts(kernel: values.Func, args: Mapping[str, object], grid: Dims, storage: int) -> Restart | None:
    """The loop with which a Triton kernel computes the contents of `storage` in pieces, starting its state at zero in
    each; None if there is none."""
    body = kernel.node.body or ()
    if kernel.node.kind != "python" or not can_be_followed(kernel):
        return None
    loops = _beginning_anew(body)
    if not loops:
        return None
    with Rounds(kernel, args, grid, {}) as follow:
        try:
            follow.run()
            return next(_in_pieces(follow, loops, storage), None)
        except NOT_FOLLOWED:
            return None


def _in_pieces(follow: Rounds, loops: Mapping[ir.Loc, tuple[ir.Loc, ...]], storage: int) -> Iterator[Restart]:
    for where in follow.stores.values():
        if where is None or where.storage != storage:
            continue
        over = [(atom, factor) for atom, factor in where.offset.terms if atom in follow.iterations]
        if len(over) != 1:
            continue
        atom, factor = over[0]
        turn = follow.iterations[atom]
        counted = follow.turns(turn) if turn.loc in loops else None
        pieces = [one for one in counted or () if one]
        before = _before(follow, loops.get(turn.loc, ()))
        if len({one.start for one in pieces}) > 1 and factor > 0 and before is not None:
            yield Restart(turn.loc, factor, max(one[-1] - one[0] + one.step for one in pieces) + before)


def _before(follow: Rounds, loops: Collection[ir.Loc]) -> int | None:
    """The most steps that loops before a piece go through; None where each goes back to the first one of all, or that
    is not known."""
    longest = 0
    for loc in loops:
        turns = [turn for turn in follow.iterations.values() if turn.loc == loc]
        counted = follow.turns(turns[0]) if len(turns) == 1 else None
        rounds = [one for one in counted or () if one]
        if not any(one.start > 0 for one in rounds):
            return None
        longest += max(one[-1] - one[0] + one.step for one in rounds)
    return longest


@by_node
def _beginning_anew(body: tuple[ir.Stmt, ...]) -> dict[ir.Loc, tuple[ir.Loc, ...]]:
    """The loops of a kernel that begin a state anew, each with the loops that bring it up to where that one begins:
    asked once, whatever it is launched with."""
    nodes = all_nodes(body)
    loops = [node for node in nodes if isinstance(node, ir.For)]
    given = [(node, target, value) for node in nodes if loops for target, value in _assigned(node)]
    known = ((loop, _begun_in(loop, loops, given)) for loop in loops)
    return {loop.loc: tuple(one.loc for one in before) for loop, before in known if before is not None}


def _begun_in(loop: ir.For, loops: list[ir.For], given: list[tuple[object, str, object]]) -> list[ir.For] | None:
    """The loops in which a name that is zero before them comes to what it is before `loop`, where it is, in all of
    them, a side of a product and made of one; None where there is no such name, or a side of a product is loaded before
    them. `given` has what the kernel assigns: where, the name, and the value.
    """
    inside = {id(node) for node in all_nodes(loop.body)}
    outside: dict[str, list[tuple[object, object]]] = {}
    within: set[str] = set()
    for node, name, value in given:
        if id(node) in inside:
            within.add(name)
        else:
            outside.setdefault(name, []).append((node, value))
    for name in sorted(within & outside.keys()):
        others = [node for node, value in outside[name] if not _zeros(value)]
        before = [one for one in loops if others and _all_in(others, one) and one.loc[1:] < loop.loc[1:]]
        before = [one for one in before if not _all_in([loop], one)]
        begun = len(outside[name]) > len(others) and len(before) == bool(others)
        if not begun or not all(_in_product(name, one.body) for one in (loop, *before)):
            continue
        if not any(_loaded_before(other, outside[other], [loop, *before]) for other in outside):
            return before
    return None


def _all_in(nodes: list[object], loop: ir.For) -> bool:
    """Whether all of some statements stand in a loop."""
    inside = {id(node) for node in all_nodes(loop.body)}
    return all(id(node) in inside for node in nodes)


def _loaded_before(name: str, given: list[tuple[object, object]], loops: list[ir.For]) -> bool:
    """Whether a name is loaded before all of these loops, and a side of a product in one of them."""
    loaded = [node for node, value in given if _loads(value)]
    early = [node for node in loaded if not any(_all_in([node], loop) for loop in loops[1:])]
    return bool(early) and any(_in_product(name, loop.body) for loop in loops)


def _assigned(node: object) -> Iterator[tuple[str, object]]:
    """The names that a statement assigns to, and what; None where that is no plain value."""
    if isinstance(node, ir.Assign):
        for target in node.targets:
            if isinstance(target, ir.Name):
                yield target.id, node.value
            elif isinstance(target, ir.Seq):
                yield from ((part.id, None) for part in target.items if isinstance(part, ir.Name))
    elif isinstance(node, ir.AugAssign) and isinstance(node.target, ir.Name):
        yield node.target.id, None


def _loads(value: object) -> bool:
    """Whether something is loaded in a value."""
    called = (node.func for node in walk(value) if isinstance(node, ir.Call)) if value is not None else ()
    return any(isinstance(func, ir.Attr) and func.name == "load" for func in called)


def _zeros(value: object) -> bool:
    """`tl.zeros(...)`, `tl.full(shape, 0.0, ...)`."""
    if not isinstance(value, ir.Call) or not isinstance(value.func, ir.Attr):
        return False
    if value.func.name == "full":
        given = dict(value.keywords).get("value", value.args[1] if len(value.args) > 1 else None)
        return isinstance(given, ir.Const) and given.value == 0
    return value.func.name == "zeros"


def _in_product(name: str, body: tuple[ir.Stmt, ...]) -> bool:
    """Whether one of the sides of a product is made of what a name held when an iteration began."""
    made = {name}
    for node in all_nodes(body):
        if isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name == "dot":
            if any(isinstance(part, ir.Name) and part.id in made for part in walk(tuple(node.args[:2]))):
                return True
        for target, value in _assigned(node):
            if _plainly(value, made):
                made.add(target)
    return False


def _plainly(value: object, names: set[str]) -> bool:
    """Whether a value is one of some names, in another type or shape."""
    while isinstance(value, ir.Call) and isinstance(value.func, ir.Attr) and value.func.name in ("to", "trans", "cast"):
        value = value.args[0] if value.func.name != "to" and value.args else value.func.value
    return isinstance(value, ir.Name) and value.id in names
