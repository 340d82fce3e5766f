"""Texts of C++ (`std::string`, `std::string_view`) as texts, and streams that they are written to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Value
from kbh_lint.host.cpp.std.containers import END, End, stepped
from kbh_lint.host.values.cpp_objects import Slot
from kbh_lint.host.values.objects import LibObject, of_paths
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source.embedded import MAX_TEXT

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

KINDS = frozenset("string string_view".split())
STREAMS = frozenset("istringstream ostringstream stringstream".split())
NEW = {"at": 0, "ended": False, "failed": False}  # of a stream that nothing was read from
_WORD = re.compile(r"\s*(\S+)")
MAX_LENGTH = 4096  # of a text of one character
JOINED = (LibObject, str)  # what `joined` may know as the left side


@of_paths("cpp.text_stream")
class Stream(LibObject):
    """`std::stringstream` and its kin: the `text` that was written to it, None where that is not known; how far it was
    read (`at`), whether its end was seen (`ended`), and whether a part that was asked for was not there (`failed`)."""


def made_of(items: Sequence[Value], braces: bool) -> Value:
    """Returns the text that a constructor of std::string makes of its arguments; NotImplemented where that is not
    known."""
    first, *rest = items or ("",)
    if isinstance(first, list) and (not rest or rest == [END]):
        return of_letters(first)
    if isinstance(first, int):
        if braces or len(items) == 1:
            return of_letters(items)
        code = rest[0]  # a text of zeros is room for something else
        return letter(code) * first if isinstance(code, int) and code and 0 <= first < MAX_LENGTH else NotImplemented
    if not isinstance(first, str):
        return NotImplemented
    return first if not rest or rest == [END] else part(first, rest if len(rest) > 1 else [0, *rest])


def of_letters(items: Sequence[Value]) -> Value:
    """Returns the text of characters up to a zero; NotImplemented where one is not known."""
    known = [item for item in items if isinstance(item, int)]
    return "".join(map(letter, known)).partition("\0")[0] if len(known) == len(items) else NotImplemented


def letter(code: int) -> str:
    """Returns the character of a code, of which a char holds the last eight bits."""
    return chr(code & 0xFF)


def part(text: str, given: Sequence[Value]) -> Value:
    """Returns `substr(at, count)` of a text; NotImplemented where the numbers are not known."""
    at, count = (*given, None, None)[:2]
    at = 0 if at is None else at
    if not isinstance(at, int) or at < 0 or count is not None and (not isinstance(count, int) or count < 0):
        return NotImplemented
    return text[at:] if count is None else text[at : at + count]


def _append(text: str, given: list[Value]) -> Value:
    if len(given) == 2 and isinstance(given[0], str) and given[1] != END:
        return NotImplemented  # of its first characters, or from a place on
    return _longer(text, made_of(given, False))


def _longer(text: str, more: Value) -> Value:
    """Returns a text with another behind it; NotImplemented where that is not known, or longer than any source is."""
    known = isinstance(more, str) and len(text) + len(more) <= MAX_TEXT
    return text + more if known and isinstance(more, str) else NotImplemented


def _push(text: str, given: list[Value]) -> Value:
    return text + letter(given[0]) if len(given) == 1 and isinstance(given[0], int) else NotImplemented


_CHANGES: dict[str, Callable[[str, list[Value]], Value]] = {
    "append": _append,
    "push_back": _push,
    "pop_back": lambda text, given: text[:-1],
    "clear": lambda text, given: "",
    "assign": lambda text, given: made_of(given, False),
    **dict.fromkeys(("insert", "erase", "replace", "resize", "swap"), lambda text, given: NotImplemented),
}
_ASKED: dict[str, Callable[[str, list[Value]], Value]] = {
    **dict.fromkeys(("c_str", "data", "str", "begin", "cbegin"), lambda text, given: text),
    **dict.fromkeys(("rbegin", "crbegin"), lambda text, given: text[::-1]),
    **dict.fromkeys(("end", "cend", "rend", "crend"), lambda text, given: END),
    **dict.fromkeys(("size", "length"), lambda text, given: len(text)),
    "empty": lambda text, given: not text,
    "substr": part,
}


def method(run: Cpp, owner: str, node: ir.Call, args: list[Value], env: Env) -> Value:
    """Models a method of std::string, also one that changes it; NotImplemented for others."""
    func = node.func
    if isinstance(owner, End) or not isinstance(func, ir.Attr):
        return NotImplemented
    change = _CHANGES.get(func.name)
    if change is None:
        asked = _ASKED.get(func.name)
        return NotImplemented if asked is None else asked(owner, args)
    made = change(owner, args)
    made = Unknown((), "a text") if made is NotImplemented else made
    place = run.place(_changed(func.value), env)
    if place is not None:
        place.set(made)
    return made


def _changed(node: ir.Expr) -> ir.Expr:
    """What `s.append(a).append(b)` changes: the text itself."""
    while isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name in _CHANGES:
        node = node.func.value
    return node


def laid(nodes: Sequence[ir.Expr], args: list[Value]) -> dict[int, list[Value]]:
    """Returns the characters of texts whose iterators a call is given, by the positions of the arguments."""
    found: dict[int, list[Value]] = {}
    for at, (node, value) in enumerate(zip(nodes, args, strict=False)):
        begins = isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name in ("begin", "rbegin")
        if begins and isinstance(value, str) and not isinstance(value, End):
            found[at] = [ord(one) for one in value]
    return found


def put_back(run: Cpp, nodes: Sequence[ir.Expr], laid_out: dict[int, list[Value]], args: list[Value], env: Env) -> None:
    """Gives texts the characters that a call left in what was `laid` out for it."""
    for at, letters in laid_out.items():
        node = nodes[at]
        if not isinstance(node, ir.Call) or not isinstance(node.func, ir.Attr):
            continue
        step = -1 if node.func.name == "rbegin" else 1
        made, place = of_letters(letters[::step]), run.place(node.func.value, env)
        if place is not None and letters != [ord(one) for one in str(args[at])]:
            place.set(Unknown((), "a text") if made is NotImplemented else made)


def put(run: Cpp, owner: str, target: ir.Index, key: Value, value: Value, env: Env) -> None:
    """Evaluates `text[key] = value`."""
    place = run.place(target.value, env)
    known = isinstance(key, int) and isinstance(value, int) and 0 <= key < len(owner)
    if place is not None and known and isinstance(key, int) and isinstance(value, int):
        place.set(owner[:key] + letter(value) + owner[key + 1 :])
    elif place is not None:
        place.set(Unknown((), "a text"))


def at_front(text: str) -> Value:
    """Returns what `*text` is: a text that is pointed to is one from there on, and a zero ends it."""
    return Unknown((), "the end of a text") if isinstance(text, End) else ord(text[0]) if text else 0


def changed(run: Cpp, node: ir.AssignE | ir.AugAssign, old: Value, by: Value) -> Value:
    """What `target op= by` makes of an old value: `++p` of a text that is pointed to steps on, as `p += 1` does."""
    if node.op != "+" or not isinstance(old, str) or not isinstance(node.value, ir.Const) or by != 1:
        return run.binary(node.op, old, by, node.loc)
    return old[1:] if old and not isinstance(old, End) else Unknown((), "a place in a text")


def taken(stream: Stream, place: Slot | None) -> Value:
    """Evaluates `stream >> place`: the next word, or the number that it is; returns the stream, or an unknown where
    that is not known."""
    text, held = stream.attrs["text"], None if place is None else place.get()
    if place is None or not isinstance(text, str) or isinstance(held, bool) or not isinstance(held, (str, int, float)):
        return _not_told(stream, place)
    word = _WORD.match(text, stream.attrs["at"])
    found: Value = None if word is None else word[1]
    if word is not None and not isinstance(held, str):
        try:
            found = float(word[1]) if isinstance(held, float) else int(word[1])
        except ValueError:
            return _not_told(stream, place)
    after = len(text) if word is None else word.end()
    return _given(stream, place, found, after, after == len(text))


def line(stream: Value, place: Value, end: Value = 10) -> Value:
    """Models `std::getline(stream, text, end)`: the part up to a character."""
    if not isinstance(stream, Stream):
        return NotImplemented
    text, at = stream.attrs["text"], stream.attrs["at"]
    if not isinstance(place, Slot) or not isinstance(text, str) or not isinstance(end, int):
        return _not_told(stream, place if isinstance(place, Slot) else None)
    found, mark, _ = text[at:].partition(letter(end))
    return _given(stream, place, found if at < len(text) else None, at + len(found) + len(mark), not mark)


def _given(stream: Stream, place: Slot, found: Value, at: int, ended: bool) -> Value:
    """A stream after it was asked for a part, which is None where none was left."""
    stream.attrs.update(at=at, ended=ended, failed=found is None)
    if found is not None:
        place.set(found)
    return stream


def _not_told(stream: Stream, place: Slot | None) -> Value:
    stream.attrs["text"] = None
    if place is not None:
        place.set(Unknown((), "what a stream is read for"))
    return Unknown((), "whether a stream holds more")


def joined(op: str, left: Value, right: Value) -> Value:
    """Returns a text and a character, what is written to a stream, or a step of an iterator; NotImplemented for
    others."""
    if op == "<<" and isinstance(left, LibObject):
        if isinstance(left, Stream):
            held = left.attrs["text"]
            made = _longer(held, right) if isinstance(held, str) else NotImplemented
            left.attrs["text"] = None if made is NotImplemented else made
        return left
    if op == "+" and isinstance(left, str) and not isinstance(left, End) and isinstance(right, (int, list)):
        return _longer(left, of_letters(right) if isinstance(right, list) else letter(right))
    return stepped(op, left, right)
