"""re on known texts: patterns whose search is sure to end soon, with the places of what a substitution leaves."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.host.values import bounds, taint, unknowns
from kbh_lint.host.values.modelled import Library, Modelled, Site, Value, models
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source.embedded import concat, cut, doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_PATTERN = 400
MAX_STEPS = 40_000_000  # ways to match, from all places of a text together
STEPS_BURNT = 2048  # of them for one step of the interpreter
FLAGS = frozenset("IGNORECASE I MULTILINE M DOTALL S ASCII A".split())


# One character of a pattern, an escape or a class, and how often it is repeated.
_ITEM = r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\])(\?|[*+]|\{\d*,?\d*\})?"


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A compiled pattern, with the number of ways through its alternatives, what is repeated in it, and the number of
    groups."""

    pattern: re.Pattern[str]
    ways: int
    repeated: tuple[re.Pattern[str], ...]
    groups: int

    def steps(self, text: str, places: int) -> int:
        """Returns an upper bound of the matching steps from `places` start positions in a text. A repeated character
        matches at most its longest run, a repeated group at most as often as the text has characters."""
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


def _flags(value: Value) -> int | None:
    """The flags that a program gives by name or number."""
    if isinstance(value, int):
        return None if value & re.VERBOSE else value
    name = getattr(value, "path", "").removeprefix("re.")
    return int(getattr(re, name)) if name in FLAGS else None


class Match(Modelled):
    """A match in a known text."""

    def __init__(self, match: re.Match[str], text: str) -> None:
        super().__init__("re.Match", {"match": match, "string": text})
        self.match, self.text = match, text

    @models("group", "__getitem__")
    def group(self, site: Site, *groups: Value) -> Value:
        """Models `match.group(...)` and `match[...]`: a text that remembers where it was written."""
        if not _plain(groups):
            return self.other(site)
        if len(groups) > 1:
            return self._asked(site, "group", groups)
        try:
            start, end = self.match.span(
                *[str(g) if isinstance(g, str) else g for g in groups if isinstance(g, (str, int))]
            )
        except (IndexError, re.error):
            return self.other(site)
        return None if start < 0 else cut(self.text, start, end)

    @models("groups", "groupdict", "start", "end", "span")
    def about(self, site: Site, *given: Value) -> Value:
        """Models `match.groups()`, `match.span()` and the like."""
        return self._asked(site, site.name, given) if _plain(given) else self.other(site)

    def _asked(self, site: Site, name: str, given: tuple[Value, ...]) -> Value:
        try:
            return getattr(self.match, name)(*given)
        except (IndexError, re.error):
            return self.other(site)

    def item(self, interp: Run, key: Value, loc: ir.Loc | None) -> Value:
        """Evaluates `match[key]`."""
        return self.method(Site(interp, f"{self.path}.group", loc, [key]))

    def other(self, site: Site) -> Value:
        """Answers a call of a method without a model (`Modelled.other`): an unknown value."""
        return Unknown((), f"re.Match.{site.name}")


class _Searched(NamedTuple):
    """A text to be searched: as the program has it, as a plain str, and the limit of substitutions or splits."""

    written: str
    plain: str
    limit: int


class Pattern(Modelled):
    """A compiled pattern."""

    def __init__(self, compiled: _Pattern, text: str) -> None:
        super().__init__("re.Pattern", {"compiled": compiled, "pattern": text})
        self.compiled = compiled

    @models("match", "fullmatch", "search")
    def first(self, site: Site, string: Value) -> Value:
        """Models `pattern.match(string)`, `fullmatch` and `search`: the first match, or None."""
        text = self._text(site, string)
        if text is None:
            return self.other(site)
        return _matched(text.written, getattr(self.compiled.pattern, site.name)(text.plain))

    @models("split")
    def split(self, site: Site, string: Value, maxsplit: Value = 0) -> Value:
        """Models `pattern.split(string, maxsplit)`."""
        text = self._text(site, string, maxsplit)
        return self.other(site) if text is None else self.compiled.pattern.split(text.plain, text.limit)

    @models("findall")
    def texts(self, site: Site, string: Value) -> Value:
        """Models `pattern.findall(string)`."""
        text = self._text(site, string)
        return self.other(site) if text is None else self.compiled.pattern.findall(text.plain)

    @models("finditer")
    def every(self, site: Site, string: Value) -> Value:
        """Models `pattern.finditer(string)`."""
        text = self._text(site, string)
        if text is None:
            return self.other(site)
        return [_matched(text.written, match) for match in self.compiled.pattern.finditer(text.plain)]

    @models("sub", "subn")
    def replaced(self, site: Site, repl: Value, string: Value, count: Value = 0) -> Value:
        """Models `pattern.sub(repl, string, count)`; the parts kept remember where they were written."""
        text = self._text(site, string, count)
        if text is None:
            return self.other(site)
        matches = list(self.compiled.pattern.finditer(text.plain))[: text.limit or None]
        parts: list[str] = []
        at = 0
        for match in matches:
            new = _replaced(site.run, repl, text.written, match, site.loc)
            if new is None:
                return unknowns.merged(site.run, *site.args, why=f"re.{site.name}")
            parts += [cut(text.written, at, match.start()), new]
            at = match.end()
        whole = concat([*parts, cut(text.written, at, len(text.plain))])
        return whole if site.name == "sub" else (whole, len(matches))

    def _text(self, site: Site, string: Value, limit: Value = 0) -> _Searched | None:
        """A text as it is searched; None where that is not known, or would take too long."""
        string = taint.mapped(string, self.attrs["pattern"]) or string
        if not isinstance(string, str) or doubts(string) or not isinstance(limit, int):
            return None
        plain = str(string)
        bounds.text(site.run, plain)
        steps = self.compiled.steps(plain, 1 if site.name in ("match", "fullmatch") else len(plain) + 1)
        if steps > MAX_STEPS:
            return None
        site.run.burn(len(plain) // 64 + steps // STEPS_BURNT)
        return _Searched(string, plain, limit)

    def other(self, site: Site) -> Value:
        """Answers a call of a method without a model (`Modelled.other`): an unknown value computed from its
        arguments."""
        return unknowns.merged(site.run, *site.args, *site.kwargs.values(), why=f"re.{site.name}")


def _plain(given: tuple[Value, ...]) -> bool:
    return all(isinstance(each, (int, str)) for each in given)


class Re(Library):
    """The module `re`."""

    @models("escape")
    def escape(self, site: Site, pattern: Value) -> Value:
        """Models `re.escape(pattern)`."""
        return re.escape(str(pattern)) if isinstance(pattern, str) and not doubts(pattern) else NotImplemented

    @models("compile")
    def compile(self, site: Site, pattern: Value, flags: Value = 0) -> Value:
        """Models `re.compile(pattern, flags)`."""
        return _pattern_of(pattern, flags) or NotImplemented

    @models("match", "fullmatch", "search", "findall", "finditer")
    def search(self, site: Site, pattern: Value, string: Value, flags: Value = 0) -> Value:
        """Models `re.search(pattern, string)` and the other functions that look for matches."""
        return self._by(site, pattern, flags, [string])

    @models("split")
    def split(self, site: Site, pattern: Value, string: Value, maxsplit: Value = 0, flags: Value = 0) -> Value:
        """Models `re.split(pattern, string)`."""
        return self._by(site, pattern, flags, [string, maxsplit])

    @models("sub", "subn")
    def replaced(
        self, site: Site, pattern: Value, repl: Value, string: Value, count: Value = 0, flags: Value = 0
    ) -> Value:
        """Models `re.sub(pattern, repl, string)`."""
        return self._by(site, pattern, flags, [repl, string, count])

    def _by(self, site: Site, pattern: Value, flags: Value, args: list[Value]) -> Value:
        made = _pattern_of(pattern, flags)
        return NotImplemented if made is None else made.method(Site(site.run, site.path, site.loc, args))

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): an unknown value computed from its arguments."""
        return unknowns.merged(site.run, *site.args, *site.kwargs.values(), why=site.path)


def _pattern_of(pattern: Value, flags: Value) -> Pattern | None:
    """The pattern of a text, or one that is there; None where it is not known."""
    if isinstance(pattern, Pattern):
        return pattern
    known = _flags(flags)
    if known is None or not isinstance(pattern, str) or doubts(pattern) or len(pattern) > MAX_PATTERN:
        return None
    found = _compiled(str(pattern), known)
    return None if found is None else Pattern(found, pattern)


def _replaced(interp: Run, new: Value, text: str, match: re.Match[str], loc: ir.Loc | None) -> str | None:
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


def _matched(text: str, match: re.Match[str] | None) -> Match | None:
    return None if match is None else Match(match, text)
