"""re on known texts: patterns whose search is sure to end soon, with the places of what a substitution leaves."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint import ir
from kbh_lint.host.values import bounds, unknowns
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source.embedded import concat, cut, doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_PATTERN = 400
MAX_STEPS = 40_000_000  # ways to match, from all places of a text together
STEPS_BURNT = 2048  # of them for one step of the interpreter
FLAGS = frozenset("IGNORECASE I MULTILINE M DOTALL S ASCII A".split())
PATTERN, MATCH = "re.Pattern", "re.Match"
_FUNCTIONS = frozenset("match fullmatch search sub subn findall finditer split".split())


# One character of a pattern, an escape or a class, and how often it is repeated.
_ITEM = r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\])(\?|[*+]|\{\d*,?\d*\})?"


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A pattern, the ways through its choices, what is repeated in it, and how many groups are."""

    pattern: re.Pattern[str]
    ways: int
    repeated: tuple[re.Pattern[str], ...]
    groups: int

    def steps(self, text: str, places: int) -> int:
        """How many ways to match there are at most from so many places of a text.

        One character that is repeated matches as much as its longest run, a group as often as the text has characters.
        """
        found = places * self.ways
        for item in self.repeated:
            if found > MAX_STEPS:
                break
            found *= 1 + max((match.end() - match.start() for match in item.finditer(text)), default=0)
        return int(found * (len(text) + 1) ** self.groups)


@lru_cache(maxsize=64)
def _compiled(pattern: str, flags: int) -> _Pattern | None:
    """A pattern; None where a repeat may stand in another, or it is none."""
    plain = re.sub(r"\(\?(?:[:=!]|<[=!]|P<\w+>)", "(", pattern)
    items = [match.groups() for match in re.finditer(_ITEM, plain, re.DOTALL)]
    bare = "".join((item if item in "()|" else "x") + (repeat or "") for item, repeat in items)
    if re.search(r"\)(?:[*+?]|\{)", bare) and re.search(r"[*+?{|]", bare[: bare.rfind(")")]) or "(?" in bare:
        return None
    repeats = [item for item, repeat in items if repeat]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = re.compile(pattern, flags)
            singles = tuple(re.compile(f"(?:{item})+", flags) for item in repeats if item not in "()|^$")
    except (re.error, RecursionError, OverflowError, ValueError):
        return None
    return _Pattern(made, _ways(bare), singles, repeats.count(")"))


def _ways(bare: str) -> int:
    """The ways through a pattern: of each choice one alternative."""
    ways, open_choices = 1, [1]
    for character in bare + ")":
        if character == "(":
            open_choices.append(1)
        elif character == "|":
            open_choices[-1] += 1
        elif character == ")" and open_choices:
            ways *= open_choices.pop()
    return ways


def _flags(value: Any) -> int | None:
    """The flags that a program gives by name or number."""
    if isinstance(value, int):
        return None if value & re.VERBOSE else value
    name = getattr(value, "path", "").removeprefix("re.")
    return int(getattr(re, name)) if name in FLAGS else None


def call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A function of re."""
    name = path.rpartition(".")[2]
    if name == "escape" and args and isinstance(args[0], str) and not doubts(args[0]):
        return re.escape(str(args[0]))
    flags = _flags(kwargs.pop("flags", 0)) if "flags" in kwargs else 0
    places = {"compile": 1, "sub": 4, "subn": 4, "split": 3}
    if len(args) > places.get(name, 2):
        flags = _flags(args[places.get(name, 2)])
        args = args[: places.get(name, 2)]
    pattern = args[0] if args else kwargs.pop("pattern", None)
    if isinstance(pattern, LibObject) and pattern.path == PATTERN:
        return method(interp, pattern, name, args[1:], kwargs, loc)
    known = isinstance(pattern, str) and not doubts(pattern) and len(pattern) <= MAX_PATTERN and flags is not None
    found = _compiled(str(pattern), flags or 0) if known else None
    if found is None:
        return unknowns.merged(interp, *args, *kwargs.values(), why=path)
    made = LibObject(PATTERN, {"compiled": found, "pattern": pattern})
    return made if name == "compile" else method(interp, made, name, args[1:], kwargs, loc)


def method(
    interp: Run, owner: LibObject, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method of a compiled pattern."""
    made: _Pattern = owner.attrs["compiled"]
    pattern = made.pattern
    names = ("repl", "string", "count") if name in ("sub", "subn") else ("string", "maxsplit")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    text, limit = given.get("string"), given.get("count", given.get("maxsplit", 0))
    if not isinstance(text, str) or doubts(text) or not isinstance(limit, int) or name not in _FUNCTIONS:
        return unknowns.merged(interp, *args, *kwargs.values(), why=f"re.{name}")
    plain = str(text)
    bounds.text(interp, plain)
    steps = made.steps(plain, 1 if name in ("match", "fullmatch") else len(plain) + 1)
    if steps > MAX_STEPS:
        return unknowns.merged(interp, *args, *kwargs.values(), why=f"re.{name}")
    interp.burn(len(plain) // 64 + steps // STEPS_BURNT)
    if name in ("match", "fullmatch", "search"):
        return _matched(text, getattr(pattern, name)(plain))
    if name == "split":
        return pattern.split(plain, limit)
    if name == "findall":
        return pattern.findall(plain)
    matches = list(pattern.finditer(plain))
    if name == "finditer":
        return [_matched(text, match) for match in matches]
    parts: list[str] = []
    at = 0
    for match in matches[: limit or None]:
        new = _replaced(interp, given.get("repl"), text, match, loc)
        if new is None:
            return unknowns.merged(interp, *args, why=f"re.{name}")
        parts += [cut(text, at, match.start()), new]
        at = match.end()
    whole = concat([*parts, cut(text, at, len(plain))])
    return whole if name == "sub" else (whole, len(matches[: limit or None]))


def _replaced(interp: Run, new: Any, text: str, match: re.Match[str], loc: ir.Loc | None) -> str | None:
    """What stands in the place of a match; None where that is not known."""
    if isinstance(new, str):
        if "\\" not in new:
            return new
        try:
            return match.expand(str(new)) if not doubts(new) else None
        except (re.error, IndexError):
            return None
    made = interp.call(new, [_matched(text, match)], {}, loc)
    return made if isinstance(made, str) else None


def _matched(text: str, match: re.Match[str] | None) -> LibObject | None:
    return None if match is None else LibObject(MATCH, {"match": match, "string": text})


def match_method(interp: Run, owner: LibObject, name: str, args: list[Any]) -> Any:
    """A method of a match."""
    match: re.Match[str] = owner.attrs["match"]
    plain = all(isinstance(arg, (int, str)) for arg in args)
    if name == "__getitem__":
        name = "group"
    if not plain or name not in ("group", "groups", "groupdict", "start", "end", "span"):
        return Unknown((), f"re.Match.{name}")
    try:
        if name == "group" and len(args) < 2:
            start, end = match.span(*[str(arg) if isinstance(arg, str) else arg for arg in args])
            return None if start < 0 else cut(owner.attrs["string"], start, end)
        return getattr(match, name)(*args)
    except (IndexError, re.error):
        return Unknown((), f"re.Match.{name}")
