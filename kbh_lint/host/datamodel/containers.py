"""Methods of strings, lists, dicts and sets."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.host.datamodel import exceptions, generators, iteration, ordering, subscripts
from kbh_lint.host.values import bounds, equality, keys, unknowns
from kbh_lint.host.values.containers import Keys, Once, Ring
from kbh_lint.host.values.frames import OutOfFuel, Raised
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_RANGE = bounds.MAX_ITEMS


def list_method(
    interp: Run, owner: list[Any], name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method of list."""
    interp.burn()
    if name not in ("append", "pop") and not isinstance(owner, Once):
        bounds.visited(interp, owner)
    if name == "append":
        owner.append(args[0])
        _kept(owner, 0)
    elif name in ("appendleft", "extendleft"):
        more = [args[0]] if name == "appendleft" else iteration.iterate(interp, args[0], loc)
        bounds.items(interp, len(owner) + len(more))
        owner[:0] = list(more)[::-1]
        _kept(owner, -1)
    elif name == "popleft":
        if not owner:
            interp.may_fail("IndexError", loc)
        return owner.pop(0) if owner else Unknown()
    elif name == "rotate":
        count = args[0] if args and isinstance(args[0], int) else 1
        at = -count % len(owner) if owner else 0
        owner[:] = owner[at:] + owner[:at]
    elif name == "extend":
        more = iteration.iterate(interp, args[0], loc)
        bounds.items(interp, len(owner) + len(more))
        owner.extend(more)
        _kept(owner, 0)
    elif name == "insert":
        owner.insert(args[0] if isinstance(args[0], int) else 0, args[1])
    elif name == "pop":
        if not owner:
            interp.may_fail("IndexError", loc)
        return owner.pop(*[a for a in args if isinstance(a, int)]) if owner else Unknown()
    elif name == "clear":
        owner.clear()
    elif name == "copy":
        return list(owner)
    elif name == "reverse":
        owner.reverse()
    elif name == "remove":
        if bounds.is_small(args[0]) and args[0] in owner:
            owner.remove(args[0])
        else:
            interp.may_fail("ValueError", loc)
    elif name == "sort":
        sort_items(interp, owner, kwargs)
    elif name == "index":
        if bounds.is_small(args[0]) and args[0] in owner:
            return owner.index(args[0])
        interp.may_fail("ValueError", loc)
        return Unknown()
    elif name == "count":
        return sum(1 for x in owner if equality.same(interp, x, args[0]) is True)
    elif isinstance(owner, Once) and name in ("__next__", "send", "__iter__", "close", "throw"):
        return _iterator_method(interp, owner, name, args, loc)
    else:
        return Unknown((), f"list.{name}")
    return None


def _iterator_method(interp: Run, owner: Once, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    if name == "__iter__":
        return owner
    if name == "close":
        return generators.close(owner)
    if name == "throw":
        generators.throw(owner, exceptions.raised(interp, args[0], loc))
    if name == "send":
        owner.sent = args[0]
    if not len(owner) and not owner.more():
        iteration.ended(interp, owner, loc)
        return Unknown()
    return owner.pop(0)


def _kept(owner: list[Any], end: int) -> None:
    """Drops what a full deque loses at one end."""
    longest = owner.longest if isinstance(owner, Ring) else None
    while longest is not None and len(owner) > longest:
        owner.pop(end)


def sort_items(interp: Run, items: list[Any], kwargs: dict[str, Any]) -> None:
    key = kwargs.get("key")
    if not all(map(bounds.is_small, items)):
        return
    try:
        items.sort(
            key=lambda x: ordering.key_of(interp, x if key is None else interp.call(key, [x], {}, None), None),
            reverse=bool(kwargs.get("reverse", False)),
        )
    except (Raised, OutOfFuel, MemoryError):
        raise
    except Exception:  # keys without an order: unknowns, mixed types; the run goes on with the order it has
        return


def dict_method(
    interp: Run, owner: dict[Any, Any], name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method of dict."""
    if name == "__getitem__":
        return subscripts.get_item(interp, owner, args[0], loc)
    if name == "__setitem__":
        return subscripts.set_item(interp, owner, args[0], args[1], loc)
    if name == "__contains__":
        return subscripts.contains(interp, owner, args[0])
    if name == "__delitem__":
        if owner.pop(keys.held_key(interp, owner, args[0]), keys.MISSING) is keys.MISSING:
            interp.may_fail("KeyError", loc)
        return None
    if name == "get":
        found = keys.find_key(interp, owner, args[0])
        return (args[1] if len(args) > 1 else kwargs.get("default")) if found is keys.MISSING else found
    if name == "setdefault":
        found = keys.find_key(interp, owner, args[0])
        if found is keys.MISSING:
            keys.store(interp, owner, args[0], args[1] if len(args) > 1 else None)
            return args[1] if len(args) > 1 else None
        return found
    if name not in ("pop", "popitem"):
        bounds.visited(interp, owner)
    if name == "items":
        return list(owner.items())
    if name == "keys":
        return Keys(owner)
    if name == "values":
        return list(owner.values())
    if name == "update":
        for arg in args:
            if isinstance(arg, dict):
                owner.update(arg)
            elif isinstance(arg, (list, tuple)):
                owner.update({keys.check_key(p[0]): p[1] for p in arg if isinstance(p, (tuple, list)) and len(p) == 2})
        owner.update(kwargs)
        return None
    if name == "pop":
        held = keys.held_key(interp, owner, args[0])
        if held is keys.MISSING and len(args) < 2:
            interp.may_fail("KeyError", loc)
        return owner.pop(held, args[1] if len(args) > 1 else Unknown())
    if name == "popitem":
        if not owner:
            interp.may_fail("KeyError", loc)
            return Unknown()
        key = next(iter(owner)) if (args[0] if args else kwargs.get("last")) is False else next(reversed(owner))
        return key, owner.pop(key)
    if name == "clear":
        owner.clear()
        return None
    if name == "copy":
        return copy(owner)
    if name == "move_to_end":
        key = keys.held_key(interp, owner, args[0])
        if key is not keys.MISSING:
            held = {key: owner.pop(key)}
            rest = dict(owner) if (args[1] if len(args) > 1 else kwargs.get("last")) is False else {}
            if rest:
                owner.clear()
            owner.update(held)
            owner.update(rest)
        return None
    return Unknown((), f"dict.{name}")


def set_method(interp: Run, owner: set[Any], name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """A method of set."""
    if name == "add":
        keys.distinct(interp, args[:1], owner)
        return None
    if name in ("clear", "intersection_update", "difference_update"):
        found = [set(map(keys.check_key, iteration.materialise(interp, arg, loc))) for arg in args]
        getattr(owner, name)(*found)
        return None
    if name in ("discard", "remove"):
        held = keys.held_key(interp, owner, args[0])
        if name == "remove" and held is keys.MISSING:
            interp.may_fail("KeyError", loc)
        owner.discard(held)
        return None
    if name == "update":
        for arg in args:
            owner.update(map(keys.check_key, iteration.materialise(interp, arg, loc)))
        return None
    if name == "pop":
        if not owner:
            interp.may_fail("KeyError", loc)
            return Unknown()
        taken = min(owner, key=repr)  # which one, nobody knows; the same each time
        owner.discard(taken)
        return taken
    if name in (
        "union",
        "intersection",
        "difference",
        "symmetric_difference",
        "issubset",
        "issuperset",
        "isdisjoint",
        "copy",
    ):
        others = [set(map(keys.check_key, iteration.materialise(interp, arg, loc))) for arg in args]
        if name not in ("union", "copy") and any(
            isinstance(item, Unknown) for held in (owner, *others) for item in held
        ):
            return unknowns.merged(interp, list(owner), *map(list, others), why="a set of what nobody knows")
        return getattr(owner, name)(*others)
    return Unknown((), f"set.{name}")
