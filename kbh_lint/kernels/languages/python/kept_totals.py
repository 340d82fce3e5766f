"""Where kernels in Python store totals: at the same place in each round of a loop, and where they loaded what they add
to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from kbh_lint.base import dtypes, ir
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.kernels.core.frames import Frame
from kbh_lint.kernels.core.totals import NOWHERE
from kbh_lint.kernels.core.value import V
from kbh_lint.kernels.languages.python.call import Call
from kbh_lint.ops.catalogue import spellings

MAX_NAMES = 8  # names that stand for places, one in another
_SHAPED = frozenset(("to", "cast", "where", "trans", "permute", "reshape", "view", "broadcast_to", "expand_dims"))
_ACCUMULATOR = 2  # the argument of a product that it adds to
_ADDING = spellings("dot", "dot_scaled", "fma", languages=("triton",))
_SELF = ir.Const("+=", ())  # among what a name is assigned: it goes on from what it was
_Key = object  # an expression as plain tuples, without its places
_Given = dict[str, list[ir.Expr | None]]  # what each name is assigned; None where it is not known


def added_to(call: Call, pointer: V, value: V) -> None:
    """Marks a store to narrow memory whose value is something added to what was loaded there: a total of several
    launches."""
    node, func = call.node, call.m.frame.func
    kinds = [kind for kind in (pointer.dtype, value.dtype) if kind in dtypes.FLOATS]
    if not kinds or func is None or not isinstance(node, ir.Call):
        return
    names = {cell.name for cell in pointer.cells}
    old = any(o.param in names and not o.flags & {"product", "index"} for o in value.origins)
    if not old or min(dtypes.BITS[kind] for kind in kinds) >= dtypes.BITS["f32"]:
        return
    given = _given(func.node)
    key, _ = _place(node, given)
    if any(_added(each, key, given, {}) is True for each in _values(node)):
        call.m.facts.add_to_stored(call.loc)


def still(frame: Frame, store: ir.Call) -> frozenset[int]:
    """The loops around the running statement in which a store is to the same place in each round."""
    if frame.func is None:
        return NOWHERE
    given, names = _given(frame.func.node), set[str]()
    if _values(store):
        _, moved = _place(store, given)
    else:  # `memory.store(value)`
        _key(getattr(store.func, "value", None), given, names)
        moved = frozenset(names)
    return frozenset(id(loop) for loop in frame.inside if not moved & _moving(loop))


def _added(node: object, key: _Key, given: _Given, seen: Mapping[str, bool | None]) -> bool | None:
    """Whether an expression adds something to what is loaded at a place, through the names that `given` says of what
    they are made, and `seen` whether these add: False where it is that alone, in another type or scaled; None where it
    is not in there."""
    if isinstance(node, ir.Name):
        if node.id in seen:
            return seen[node.id]
        made = _any(given.get(node.id, ()), key, given, {**seen, node.id: None})
        if made is False:  # it may go on from what it is itself
            made = _SELF in given[node.id] or _any(given[node.id], key, given, {**seen, node.id: False})
        return made
    parts: Sequence[object] = ()
    adds = False
    if isinstance(node, ir.Binary):
        parts, adds = (node.left, node.right), node.op in ("+", "-")
    elif isinstance(node, ir.Cond):
        parts = (node.yes, node.no)
    elif _is(node, "load") and _place(node, given)[0] == key:
        return False
    elif isinstance(node, ir.Call):
        name = getattr(node.func, "name", "")
        total = [*node.args[_ACCUMULATOR:], *(value for word, value in node.keywords if word == "acc")]
        adds = name in _ADDING
        parts = total if adds else (getattr(node.func, "value", None), *node.args) if name in _SHAPED else ()
    made = _any(parts, key, given, seen)
    return made if made is None else adds or made


def _any(parts: Sequence[object], key: _Key, given: _Given, seen: Mapping[str, bool | None]) -> bool | None:
    found = [made for each in parts if (made := _added(each, key, given, seen)) is not None]
    return any(found) if found else None


def _is(node: object, name: str) -> TypeGuard[ir.Call]:
    """Whether a node is a call of a function or a method of this name."""
    return isinstance(node, ir.Call) and bool(node.args) and getattr(node.func, "name", "") == name


def _values(store: ir.Call) -> list[ir.Expr]:
    return [*store.args[1:2], *(value for name, value in store.keywords if name == "value")]


def _place(node: ir.Call, given: _Given) -> tuple[_Key, frozenset[str]]:
    """Where a call loads or stores, at an address or at offsets of a descriptor, and the names that it hangs on."""
    owner = getattr(node.func, "value", None)
    parts = (owner, node.args[0]) if isinstance(owner, ir.Name) and owner.id in given else (node.args[0],)
    names: set[str] = set()
    return tuple(_key(part, given, names) for part in parts), frozenset(names)


def _key(node: object, given: _Given, names: set[str], depth: int = 0) -> _Key:
    """An expression with the names in it replaced by what they are assigned, where that is one thing; adds the others
    to `names`."""
    if isinstance(node, ir.Name):
        names.add(node.id)
        found = given.get(node.id, ())
        known = found[0] if len(found) == 1 and depth < MAX_NAMES else None
        return node.id if known is None else _key(known, given, names, depth + 1)
    if isinstance(node, (tuple, list)):
        return tuple(_key(each, given, names, depth) for each in node)
    slots: tuple[str, ...] = getattr(node, "__slots__", ())
    if "loc" not in slots:
        return node
    held = [getattr(node, name) for name in slots if name != "loc"]
    return (type(node).__name__, *(_key(each, given, names, depth) for each in held))


@by_node
def _given(around: object) -> _Given:
    """What the names in a function or a loop are assigned there."""
    found: _Given = {param.name: [None] for param in getattr(around, "params", ())}
    for node in walk((around,)):
        if isinstance(node, ir.Assign):
            for target in node.targets:
                plain = isinstance(target, ir.Name)
                for name in _named(target):
                    found.setdefault(name, []).append(node.value if plain else None)
        elif isinstance(node, ir.AugAssign):
            for name in _named(node.target):
                found.setdefault(name, []).extend((_SELF if node.op in ("+", "-") else None, node.value))
        elif isinstance(node, ir.For):
            for name in _named(node.target):
                found.setdefault(name, []).append(None)
    return found


@by_node
def _moving(loop: object) -> frozenset[str]:
    """The names that may mean something else in the next round of a loop."""
    given = _given(loop)
    moved = {name for name, values in given.items() if len(values) > 1 or None in values or name in _named(values)}
    grown = True
    while grown:
        more = {name for name, values in given.items() if name not in moved and moved & _named(values)}
        grown, moved = bool(more), moved | more
    return frozenset(moved)


def _named(node: object) -> set[str]:
    return {each.id for each in walk((node,)) if isinstance(each, ir.Name)}
