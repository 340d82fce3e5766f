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
NEAR = 300  # characters around such words, in which the cache is spoken of
MAX_WORDS = 200  # places that are looked at


def stays_in_cache(shapes: Iterable[ShapeFacts], module: ir.Module) -> None:
    """Marks the persisting windows over inputs and weights as `said` to serve another call, where the file says so, and
    adds the place."""
    marked = [shape for shape in shapes if any(_open(seed.fact) for seed in shape.seeds)]
    place = _place(module) if marked else None
    if place is None:
        return
    for shape in marked:
        shape.seeds = [_marked(seed, place) for seed in shape.seeds]


def _open(fact: object) -> bool:
    """Whether a fact is of a persisting window over data that its call may read several times."""
    return (
        isinstance(fact, L2Policy)
        and fact.kind == "window"
        and fact.what in ("input", "state")
        and fact.reads in ("several", "unknown")
    )


def _marked(seed: ShapeFact, place: ir.Loc) -> ShapeFact:
    fact = seed.fact
    if not isinstance(fact, L2Policy) or not _open(fact):
        return seed
    told = L2Policy(kind=fact.kind, what=fact.what, names=fact.names, reads=fact.reads, said=True)
    return ShapeFact(told, seed.loc, (*seed.related, (place, "what it is for")))


def _place(module: ir.Module) -> ir.Loc | None:
    """The line of a file that says that data stays in the cache until another call."""
    text: str = module.unit.text
    for _, words in zip(range(MAX_WORDS), _STAYS.finditer(text), strict=False):
        if _CACHE.search(text[max(words.start() - NEAR, 0) : words.end() + NEAR]):
            line = text.count("\n", 0, words.start()) + 1
            begin = text.rfind("\n", 0, words.start()) + 1
            columns = (len(text[begin:at].encode()) for at in (words.start(), words.end()))
            first, last = columns
            return (module.unit, line, first, line, last)
    return None
