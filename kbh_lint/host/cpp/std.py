"""C++'s standard library in host code: what copies and what refers, containers, and functions that call or change
what they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Value
from kbh_lint.host.python import lanes
from kbh_lint.host.values import bounds, keys, unknowns
from kbh_lint.host.values.cpp_objects import CStruct, Future, Slot
from kbh_lint.host.values.named_objects import Thread
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.cpp import Cpp
    from kbh_lint.host.run import Run

EXCHANGES = frozenset(("std::swap", "std::exchange"))  # their arguments are references
MAX_SORTED = 16  # elements of a list that is put in order
MAX_NESTED = 4  # containers in containers that a copy goes down
# Algorithms that write through iterators or addresses, besides those below: what is there then is not known.
WRITERS = frozenset(
    "memcpy memmove memset strcpy strncpy sprintf snprintf copy copy_n copy_if transform generate sort stable_sort "
    "reverse rotate shuffle partial_sum inclusive_scan exclusive_scan replace unique remove remove_if swap_ranges "
    "nth_element partial_sort partition".split()
)


END = "end"  # what `end()` of a container is


class Keys(dict[Any, Any]):
    """std::set and std::unordered_set, as a dict of its keys."""


class SoMany(Unknown):
    """Stands in a list for the elements that a loop of unknown length added."""


class Back(list[Any]):
    """What std::back_inserter gives: whatever is written there comes behind all that `owner` has."""

    def __init__(self, owner: list[Any]) -> None:
        super().__init__()
        self.owner = owner


class Objects(list[Any]):
    """A std::vector of objects of a class or of pairs; `made` makes one of what `emplace_back` is given."""

    made: Callable[[list[Any]], Any]


def objects(items: list[Any], made: Callable[[list[Any]], Any]) -> Objects:
    """A vector of objects."""
    held = Objects(items)
    held.made = made
    return held


def put_through(to: list[Any], items: list[Any]) -> None:
    """Writes through an iterator: over what is there, or behind all of it."""
    if isinstance(to, Back):
        to.owner.extend(items)
    else:
        to[: len(items)] = items


class Entries(dict[Any, Any]):
    """std::map and std::unordered_map; `fresh` makes the value that `[]` puts under a key that is not there."""

    fresh: Callable[[], Any] | None = None


class _Pair(dict[str, Any]):
    """What an iterator of a map points at: `second` is the entry itself, and takes what is assigned to it."""

    def __init__(self, owner: dict[Any, Any], key: Value) -> None:
        super().__init__(first=key, second=owner[key])
        self._owner = owner

    def __getitem__(self, name: str) -> Any:
        return self._owner.get(self["first"]) if name == "second" else super().__getitem__(name)

    def __setitem__(self, name: str, value: Value) -> None:
        super().__setitem__(name, value)
        if name == "second":
            self._owner[self["first"]] = value


def _iterator(owner: dict[Any, Any], key: Value) -> LibObject:
    return LibObject("cpp.iterator", _Pair(owner, key))


def entry(run: Cpp, owner: dict[Any, Any], key: Value) -> Any:
    """The key that `owner[key]` finds; a map makes the entry where there is none. MISSING where that is not known."""
    key = hashed(key)
    found = keys.held_key(run.interp, owner, key)
    if found is keys.MISSING and isinstance(owner, Entries) and owner.fresh is not None:
        owner[key] = owner.fresh()
        return key
    return found


def keyed(kind: str, items: list[Any]) -> dict[Any, Any] | None:
    """A std::set or std::map, or their unordered kin, of what it is made with; None for other types."""
    rows = items[0] if len(items) == 1 and isinstance(items[0], list) else items
    if kind in ("set", "unordered_set"):
        return Keys((hashed(key), True) for key in rows)
    if kind in ("map", "unordered_map"):
        pairs = all(isinstance(row, (list, tuple)) and len(row) == 2 for row in rows)
        rows = rows if pairs else items  # one pair in braces is no list of pairs
        known = pairs or all(isinstance(row, (list, tuple)) and len(row) == 2 for row in rows)
        return Entries((hashed(row[0]), row[1]) for row in rows) if known else Entries()
    return None


def copied(interp: Run, value: Value, depth: int = 0) -> Any:
    """A vector, map or struct of its own, as C++ makes where a value is given to a variable of class type."""
    if isinstance(value, list) and depth < MAX_NESTED:
        items = [copied(interp, item, depth + 1) for item in bounds.visited(interp, value)]
        return objects(items, value.made) if isinstance(value, Objects) else items
    if isinstance(value, dict) and depth < MAX_NESTED:
        made = type(value)()
        if isinstance(value, Entries) and isinstance(made, Entries):
            made.fresh = value.fresh
        made.update((key, copied(interp, item, depth + 1)) for key, item in bounds.visited(interp, value).items())
        return made
    if isinstance(value, CStruct) and depth < MAX_NESTED:
        attrs = {name: copied(interp, item, depth + 1) for name, item in bounds.visited(interp, value.attrs).items()}
        return LibObject.by_path(value.path, attrs, value.args, value.kwargs)
    if isinstance(value, LibObject) and "kind" in value.attrs:  # a CUTLASS operator holds its arguments
        return LibObject.by_path(value.path, dict(value.attrs), value.args, value.kwargs)
    return value


def fresh(run: Cpp, node: object, value: Value, env: Env) -> Any:
    """The value of `node` for a variable of its own: a copy when the node names what another variable holds."""
    if not isinstance(value, (list, dict, LibObject)) or not isinstance(node, (ir.Name, ir.Attr, ir.Index)):
        return value
    try:
        held = env.lookup(node.id) if isinstance(node, ir.Name) else None
    except KeyError:
        held = None
    return value if isinstance(held, Slot) else copied(run.interp, value)  # a place may be a pointer


# What keeps a function that it is given, and does not call it.
HANDED_ON = frozenset("move forward make_pair make_tuple tie get as_const ref cref from_blob".split())


def call(run: Cpp, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """A function of the standard library; NotImplemented for all others."""
    short = name.removeprefix("std::")
    plain = [a.get() if isinstance(a, Slot) else a for a in args]
    called = next((i for i, value in enumerate(plain) if isinstance(value, Func)), None)
    if short in ("getenv", "secure_getenv"):  # a clean environment: what is asked for is not set
        return run.interp.process.environ.get(str(plain[0])) if plain else None
    if name in ("std::string", "std::string_view") and len(plain) == 1 and isinstance(plain[0], str):
        return plain[0]
    if name in EXCHANGES and len(args) > 1 and isinstance(args[0], Slot):
        old = args[0].get()
        args[0].set(plain[1])
        if short == "swap" and isinstance(args[1], Slot):
            args[1].set(old)
        return old if short == "exchange" else None
    if short in ("fill", "iota") and len(plain) > 2 and isinstance(plain[0], list):
        count = len(bounds.visited(run.interp, plain[0]))
        first = plain[2]
        counted = short == "iota" and isinstance(first, int)
        plain[0][:] = [first + i for i in range(count)] if counted else [first] * count
        return None
    if short in ("begin", "cbegin", "end", "cend") and len(plain) == 1 and isinstance(plain[0], list):
        return list_method(plain[0], short, [])
    if short == "back_inserter" and plain and isinstance(plain[0], list):
        return Back(plain[0])
    if short == "reverse" and plain and isinstance(plain[0], list):
        return plain[0].reverse()
    if short in ("sort", "stable_sort") and plain and isinstance(plain[0], list) and _sorted(run, plain, called, loc):
        return None
    if short in ("copy", "copy_n") and len(plain) == 3 and all(isinstance(plain[i], list) for i in (0, 2)):
        count = plain[1] if short == "copy_n" and type(plain[1]) is int else len(bounds.visited(run.interp, plain[0]))
        put_through(plain[2], plain[0][:count])
        return None
    if short in ("memcpy", "memmove", "memset") and _struct_bytes(run, short, args):
        return None
    if called is not None and name.rpartition("::")[2] not in HANDED_ON and not short.startswith(("cu", "nvrtc")):
        return _calling(run, short, plain, called, loc)
    if short in WRITERS:
        contents = run.interp.contents_of(plain)  # any may go to any
        for value, given in zip(plain, args, strict=True):
            if isinstance(value, list):
                value[:] = [Unknown(contents, name)] * len(value)
            elif isinstance(given, Slot) and not isinstance(value, LibObject):
                given.set(Unknown(contents, name))
        return Unknown((), name)
    return NotImplemented


def _struct_bytes(run: Cpp, name: str, args: list[Any]) -> bool:
    """memcpy and memset of whole objects of the text; false for other memory."""
    held = [a.get() if isinstance(a, Slot) else a for a in args]
    to = held[0] if len(held) == 3 and isinstance(args[0], Slot) else None
    if not isinstance(to, CStruct):
        return False
    source = held[1]
    if name == "memset" and source == 0:
        to.attrs.update((key, 0) for key, old in to.attrs.items() if old is None or isinstance(old, (int, float)))
        to.attrs.update((key, None) for key, old in to.attrs.items() if isinstance(old, Unknown))
    elif isinstance(source, LibObject) and source.path == to.path:
        to.attrs.update(copied(run.interp, source).attrs)
    else:
        contents = run.interp.contents_of(held[1:])
        to.attrs.update((key, Unknown(contents, name)) for key in to.attrs)
    return True


def _sorted(run: Cpp, args: list[Any], called: int | None, loc: ir.Loc | None) -> bool:
    """Sorts a list where each comparison is known; false where one is not."""
    items = args[0]
    if len(items) > MAX_SORTED:
        return False
    if called is None:
        known = all(type(item) in (int, float) for item in items)
        if known:
            items.sort()
        return known
    made: list[Any] = []
    for item in items:
        at, answer = len(made), None
        while at and (answer := run.call(args[called], [item, made[at - 1]], loc)) is True:
            at -= 1
        if at and answer is not False:
            return False
        made.insert(at, item)
    items[:] = made
    return True


def _searched(run: Cpp, wanted: bool, items: list[Any], func: Func, loc: ir.Loc | None) -> Any:
    """The first object of which a function says what is wanted; END where there is none, None where nobody knows."""
    for item in bounds.visited(run.interp, items):
        answer = run.call(func, [item], loc)
        if answer is wanted or not isinstance(answer, bool):
            return item if isinstance(answer, bool) and isinstance(item, LibObject) else None
    return END


def _calling(run: Cpp, name: str, args: list[Any], at: int, loc: ir.Loc | None) -> Any:
    """A function that calls the one it is given: with what is known of its arguments, otherwise with unknowns."""
    func: Func = args[at]
    count = len(func.node.params)
    if name == "for_each" and isinstance(args[0], list):
        for i in range(len(bounds.visited(run.interp, args[0]))):
            run.call(func, [Slot(args[0], i)], loc)
        return None
    if name == "transform" and at in (3, 4) and at == len(args) - 1 and isinstance(args[at - 1], list):
        given = [args[0], *args[2 : at - 1]]
        if all(isinstance(items, list) for items in given):
            rows = list(zip(*(bounds.visited(run.interp, items) for items in given), strict=False))
            put_through(args[at - 1], [run.call(func, list(row), loc) for row in rows])
            return None
    if name in ("find_if", "find_if_not") and isinstance(args[0], list):
        found = _searched(run, name == "find_if", args[0], func, loc)
        if found is not None:
            return found
    if name == "call_once" and isinstance(flag := args[0], LibObject):
        if flag.attrs.get("done"):
            return None
        flag.attrs["done"] = True
    if name in ("call_once", "invoke", "async"):
        given = args[at + 1 :]
    elif name.endswith("parallel_for") and at >= 2:
        given = args[:2]
    else:
        given = []
        if any(isinstance(value, list) for value in args):
            call(run, "transform", args[:at] + args[at + 1 :], loc)
    result = run.call(func, [*given, *[Unknown((), name)] * (count - len(given))], loc)
    if name == "async":
        return Future("cpp.future", {"result": result})
    return result if name == "invoke" else unknowns.merged(run.interp, result, why=name)


def thread(run: Cpp, items: list[Any], loc: ir.Loc | None) -> LibObject:
    """std::thread: it runs from where it is made, beside the caller."""
    made = Thread("threading.Thread", {})
    if items and isinstance(items[0], Func):
        made.attrs[lanes.GAVE] = lanes.run(run.interp, made, items[0], items[1:], {}, loc)
    return made


def list_method(owner: list[Any], name: str, args: list[Any]) -> Any:
    """A method of std::vector and its like."""
    if name in ("push_back", "emplace_back", "append"):
        several = name == "emplace_back" and len(args) > 1
        owner.extend([owner.made(args)] if several and isinstance(owner, Objects) else args[:1])
        return None
    count = args[0] if args else 0
    if name in ("size", "length"):
        return next((item for item in owner if isinstance(item, SoMany)), len(owner))
    if name == "empty":
        return not owner
    if name in ("data", "begin", "cbegin", "vec"):
        return owner
    if name == "clear":
        owner.clear()
        return None
    if name == "pop_back":
        return owner.pop() if owner else None
    if name == "swap" and isinstance(count, list):
        owner[:], count[:] = list(count), list(owner)
        return None
    if name == "assign" and len(args) == 2 and isinstance(count, list):  # all between two iterators
        owner[:] = list(count)
        return None
    if name == "insert" and len(args) > 1 and args[0] == END:
        owner.extend(args[1] if len(args) == 3 and isinstance(args[1], list) else args[1:2])
        return None
    if name in ("end", "cend"):
        return END
    if name in ("resize", "assign") and isinstance(count, int) and 0 <= count <= bounds.MAX_WIDTH:
        kept = owner[:count] if name == "resize" else []
        owner[:] = kept + [args[1] if len(args) > 1 else 0] * (count - len(kept))
        return None
    if name in ("erase", "insert", "resize", "assign", "swap"):  # what is in it is not known any more
        owner[:] = [Unknown((), name)] * max(len(owner), 1)
        return Unknown((), name)
    at = {"front": 0, "back": -1, "at": count}.get(name)
    return owner[at] if isinstance(at, int) and -1 <= at < len(owner) and owner else Unknown((), name)


def map_method(run: Cpp, owner: dict[Any, Any], name: str, args: list[Any]) -> Any:
    """A method of std::map, std::set and their unordered kin."""
    interp = run.interp
    if name in ("size", "empty"):
        return len(owner) if name == "size" else not owner
    if name == "end":
        return "end"
    if name in ("begin", "cbegin"):
        return _iterator(owner, next(iter(owner))) if owner else "end"
    if name == "clear":
        return owner.clear()
    if name in ("insert", "emplace", "try_emplace", "insert_or_assign") and args:
        # `try_emplace` takes the key and then what a value is made of: one argument is a key, also one in braces.
        single = len(args) == 1 and name != "try_emplace" and not isinstance(owner, Keys)
        pair = single and isinstance(args[0], (list, tuple)) and len(args[0]) == 2
        fresh = owner.fresh if isinstance(owner, Entries) and name == "try_emplace" and len(args) == 1 else None
        key, value = args[0] if pair else (args[0], args[-1])
        key = hashed(key)
        held = keys.held_key(interp, owner, key)
        added = held is keys.MISSING
        if added or name == "insert_or_assign":
            owner[key if added else held] = value if fresh is None else fresh()
        return (_iterator(owner, key if added else held), added)
    if name in ("find", "count", "contains", "at", "erase") and args:
        held = keys.held_key(interp, owner, hashed(args[0]))
        found = held is not keys.MISSING
        if name == "find":
            return _iterator(owner, held) if found else "end"
        if name == "erase" and found:
            owner.pop(held)
        if name == "at":
            return owner[held] if found else Unknown((), "a missing entry")
        return found if name == "contains" else int(found)
    return Unknown((), name)


def hashed(key: Value) -> Any:
    """A key of C++ as one of ours: pairs and vectors are tuples."""
    return tuple(map(hashed, key)) if isinstance(key, (list, tuple)) else key
