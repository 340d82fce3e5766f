"""What a submission says in its own words of the L2 cache: that data stays there for another call."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kbh_lint.analyses.seeds import ShapeFact, ShapeFacts
from kbh_lint.base import ir
from kbh_lint.base.facts import L2Policy
from kbh_lint.base.regexes import regex

_CALLS = r"(?:calls?|launch(?:es)?|steps?|tokens?|measurements?|iterations?|runs?|replays?|invocations?|forwards?)"
_CACHE = regex(r"\bL2\b|\bcaches?\b|\bpersist|\bresiden|\bset[- ]aside\b|\bcarve", re.I)
_STAYS = regex(
    rf"\b(?:next|following|later)\s+(?:\w+\s+)?{_CALLS}\b|\bbetween\s+(?:\w+\s+)?{_CALLS}\b"
    rf"|\b(?:across|from)\s+(?:\w+\s+)?{_CALLS}\b|\bcalls?\s+before\b|\b(?:survives?|outlives?)\b"
    r"|\b(?:past|beyond)\s+(?:\w+\s+)?call\b|\bnext\s+timed\b"
    r"|\bflush(?:es|ed)?\b(?![\s-]*(?:to|denorm))",
    re.I,
)
# What lies in the cache where the next call begins.
_FINDS = (
    rf"\b(?:next|following|later)\s+(?:\w+\s+)?{_CALLS}\s+(?:then\s+|still\s+)?(?:finds?|hits?|reads?)\b"
    r"(?![^.;]*\b(?:no|not|nothing|none|never|cold|empty|clean|fresh|anew|again|room|space|free|whole|all)\b)"
    r"[^.;]*\b(?:(?:in|from)\s+(?:the\s+)?(?:L2|cache)|warm|resident)\b"
)
_FOUND = regex(_FINDS, re.I)  # said of a window that has ended, whose lines stay
# Said of loads with `evict_last`, which kernels without any such intent use, too.
_KEPT = regex(
    _FINDS + r"|\b(?:survives?|outlives?|outlasts?|despite|in\s+spite\s+of)\s+(?:\w+\s+){0,2}(?:flush|sweep)\w*\b",
    re.I,
)
_L2 = regex(r"\bL2\b", re.I)
NEAR = 300  # characters around such words, in which the cache is spoken of
MAX_WORDS = 200  # places that are looked at


def stays_in_cache(shapes: Iterable[ShapeFacts], module: ir.Module) -> None:
    """Marks what keeps inputs and weights in the cache as `said` to serve another call, where the file says so, with
    the place."""
    marked = [shape for shape in shapes if any(_words(seed.fact) for seed in shape.seeds)]
    places: dict[re.Pattern[str], ir.Loc | None] = {}
    for shape in marked:
        shape.seeds = [_marked(seed, module, places) for seed in shape.seeds]


def _words(fact: object) -> re.Pattern[str] | None:
    """The words that would say what a window is for: an open one over data that its call may read several times, or one
    that has ended; or loads that keep what is read once. None of all else."""
    if not isinstance(fact, L2Policy) or fact.what not in ("input", "state"):
        return None
    if fact.kind == "ended window":
        return _FOUND
    if fact.kind == "evict_last":
        return _KEPT if fact.reads == "once" else None
    return _STAYS if fact.kind == "window" and fact.reads in ("several", "unknown") else None


def _marked(seed: ShapeFact, module: ir.Module, places: dict[re.Pattern[str], ir.Loc | None]) -> ShapeFact:
    fact, words = seed.fact, _words(seed.fact)
    if words is not None and words not in places:
        places[words] = _place(module, words)
    place = places[words] if words is not None else None
    if not isinstance(fact, L2Policy) or place is None:
        return seed
    told = L2Policy(kind=fact.kind, what=fact.what, names=fact.names, reads=fact.reads, said=True)
    return ShapeFact(told, seed.loc, (*seed.related, (place, "what it is for")))


def _place(module: ir.Module, stays: re.Pattern[str]) -> ir.Loc | None:
    """The line of a file that says that data stays in the cache until another call."""
    text: str = module.unit.text
    for _, words in zip(range(MAX_WORDS), stays.finditer(text), strict=False):
        if (_L2 if stays is _KEPT else _CACHE).search(text[max(words.start() - NEAR, 0) : words.end() + NEAR]):
            line = text.count("\n", 0, words.start()) + 1
            begin = text.rfind("\n", 0, words.start()) + 1
            columns = (len(text[begin:at].encode()) for at in (words.start(), words.end()))
            first, last = columns
            return (module.unit, line, first, line, last)
    return None
