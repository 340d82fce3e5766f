"""Facts of one graded shape on one path, before shapes and paths are put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.fact_kind import FactKind, kind_name
from kbh_lint.base.records import dataclass
from kbh_lint.findings import Fact, Related, Shares, fact_of
from kbh_lint.host.values.tensors import Event
from kbh_lint.source.spans import Span

MAX_RELATED = 10


@dataclass(slots=True)
class ShapeFact:
    """A fact about one graded shape. `related` has further places, each with a sentence to show beside it."""

    fact: FactKind
    loc: ir.Loc | None
    related: tuple[tuple[ir.Loc | None, str], ...] = ()
    _key: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)

    def key(self) -> tuple[object, ...]:
        """The kind and the attributes of the fact: shape facts with equal keys are the same fact, on whichever path."""
        if not self._key:
            attrs = sorted((k, _hashable(v)) for k, v in self.fact.attrs().items())
            self._key = (kind_name(type(self.fact)), *attrs)
        return self._key

    def place(self) -> tuple[Any, ...]:
        """The key with the source span: shape facts with equal places are the same fact at the same line."""
        return (*self.key(), span_of(self.loc))


@dataclass(slots=True)
class ShapeFacts:
    """The facts of one graded shape, the state of each promise on it, and the places that show that state."""

    label: str
    seeds: list[ShapeFact] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    evidence: dict[str, list[tuple[ir.Loc | None, str]]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    empty: bool = False  # nothing was seen to make the result
    unknown: bool = False  # the result is a value that is not known
    shares: Shares = field(default_factory=dict)
    equal: dict[str, ir.Loc | None] = field(default_factory=dict)  # inputs whose numbers an assert wants to be equal
    doubtful: list[ShapeFact] = field(default_factory=list)  # what holds on some paths, and not on the others


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, (list, tuple)) else value


def span_of(loc: ir.Loc | None) -> Span | None:
    """The source span of `loc`; None for None."""
    if loc is None:
        return None
    span: Span = loc[0].span(loc)
    return span


def launched_from(event: Event) -> list[tuple[ir.Loc | None, str]]:
    """The places through which an event was started, innermost first, each with a sentence to show beside it."""
    out: list[tuple[ir.Loc | None, str]] = []
    if event.loc is not None:
        out.append((event.loc, "launched here" if event.kind in ("launch", "cutlass") else "called here"))
    for loc in reversed(event.stack[-4:]):
        out.append((loc, "reached from here"))
    return out


def merge(per_shape: Iterable[ShapeFacts]) -> tuple[Fact, ...]:
    """One `Fact` for equal facts at the same place, with the labels of all shapes it holds on, in the order of the
    source."""
    shapes = list(per_shape)
    found: dict[tuple[Any, ...], tuple[ShapeFact, list[str]]] = {}
    for shape in shapes:
        for seed in shape.seeds:
            entry = found.setdefault(seed.place(), (seed, []))
            if shape.label and shape.label not in entry[1]:
                entry[1].append(shape.label)
    facts = []
    for seed, labels in found.values():
        related: list[Related] = []
        own = span_of(seed.loc)
        for loc, message in seed.related:
            span = span_of(loc)
            if span is not None and span != own and all(r.span != span for r in related):
                related.append(Related(span, message))
            if len(related) == MAX_RELATED:
                break
        total = sum(1 for s in shapes if s.label)
        facts.append(fact_of(seed.fact, own, tuple(related), tuple(labels), total))
    return tuple(sorted(facts, key=lambda f: (f.span.line if f.span else 0, f.kind)))
