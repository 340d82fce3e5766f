"""Keys of interpreted dicts: which key finds which, of those that hold unknowns or objects too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import Value
from kbh_lint.host.values import bounds, equality, opaque
from kbh_lint.host.values.objects import Instance, LibObject, compared_as, find_method
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source.embedded import Text, doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_ANY = 64  # values that are compared to find those that differ
MISSING = object()


def check_key(key: Value) -> Value:
    """Returns `key` if hashing it is bounded; raises TooLarge if not."""
    if type(key) is tuple and not bounds.is_small(key):
        raise bounds.TooLarge("a key past the bound")
    return key


def hashed(interp: Run, key: Value) -> None:
    """Asks an object of the submission for its hash, for what else its method does."""
    if type(key) is Instance and (own := find_method(key, "__hash__")) is not None:
        interp.call(own, [], {}, None)


def find_key(interp: Run, owner: dict[Any, Any], key: Value) -> Any:
    """Returns the value under `key`, or MISSING."""
    found = held_key(interp, owner, key)
    return MISSING if found is MISSING else owner[found]


def held_key(interp: Run, owner: dict[Any, Any] | set[Any], key: Value) -> Any:
    """Returns the key of `owner` that `key` finds, or MISSING. Keys that hold unknowns match when these are known to be
    equal, objects by their class's equality."""
    check_key(key)
    hashed(interp, key)
    try:
        if key in owner and not doubts(key):
            return key
    except TypeError:
        return MISSING
    doubted: Value = MISSING
    if _is_walked(interp, key):
        bounds.steps(interp, len(owner))
        for other in owner:
            verdict = equality.same(interp, other, key) if type(other) is type(key) else False
            if verdict is True:
                return other
            doubted = other if verdict is not False else doubted
    found = _nearest(interp, owner, key) if interp.memory.opaque and opaque.is_opaque(key) else MISSING
    asked = found is MISSING and doubted is not MISSING
    return doubted if asked and interp.decisions.found() else found


def _nearest(interp: Run, owner: dict[Any, Any] | set[Any], key: object) -> Value:
    """The key that one finds which is not known: what was got in the same way, for the same shape."""
    bounds.steps(interp, len(owner))
    for other in owner:
        _, model = interp.memory.opaque.get(id(other), (None, None))
        if model == interp.memory.model and opaque.alike(other, key):
            return other
    return MISSING


def distinct(interp: Run, items: Iterable[Value], into: set[Any] | None = None) -> set[Any]:
    """Returns the set of some items, added to `into` if given; of objects that their class says are equal, one is
    kept."""
    out = set() if into is None else into
    found: dict[Any, Any] | None = None  # the same as a dict, once an item is met that hashing alone does not find
    for item in items:
        if isinstance(item, (tuple, Instance, LibObject)):
            if found is None:
                bounds.steps(interp, len(out))
                found = dict.fromkeys(out)
            if held_key(interp, found, item) is not MISSING:
                continue
        out.add(check_key(item))
        if found is not None:
            found[item] = None
    return out


def _is_walked(interp: Run, key: Value) -> bool:
    """Whether hashing alone does not find a key: it holds unknowns, or objects that are equal by their fields."""
    if isinstance(key, tuple):
        nested = [part for part in key if isinstance(part, tuple)]
        if sum(map(len, nested)) > MAX_ANY:  # the values of whole tensors, say: too much to compare part by part
            return any(isinstance(part, Unknown) for part in key)
        return any(_is_walked(interp, part) for part in key)
    if isinstance(key, Instance) and find_method(key, "__eq__") is not None:
        return True
    unknown = isinstance(key, Unknown) or equality.is_nameless(key)
    return unknown or bool(doubts(key)) or compared_as(key) is not key


def store(interp: Run, owner: dict[Any, Any], key: Value, value: Value) -> None:
    """Evaluates `owner[key] = value` of a dict; an equal object that is a key already stays the key."""
    held = held_key(interp, owner, key) if isinstance(key, (tuple, Instance, LibObject, Text)) else MISSING
    if held is MISSING and doubts(key):
        owner.pop(key, None)  # a text that only looks the same
    if held is MISSING and opaque.is_opaque(key):
        held = _nearest(interp, owner, key)
        interp.memory.opaque.setdefault(id(key), (key, interp.memory.model))
    owner[check_key(key) if held is MISSING else held] = value
