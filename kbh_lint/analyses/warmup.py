"""Arithmetic that depends on how often `forward` was called: what is checked first is not what is timed later."""

from __future__ import annotations

from collections.abc import Sequence

from kbh_lint.analyses import compensation
from kbh_lint.analyses.flow import Slice, facts_of, reach
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.analyses.work import Work, category, sort_out
from kbh_lint.base import ir
from kbh_lint.base.facts import WarmUp
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Content, Event


def warm_ups(run: ShapeRun, found: Slice, work: Work, total: int | None, compensates: bool = False) -> list[ShapeFact]:
    """Facts `warm-up`: the first call, or one much later, multiplies other element types or leaves more to libraries
    than the usual call; with `compensates` also: a kernel of a much later one sums plainly, and none of the usual
    does."""
    if len(run.calls) < 2 or not found.events:
        return []
    usual = arithmetic(work)
    same = _steps(run.calls[0].events) == _steps(run.calls[1].events)
    first = None if same else _work_of(run.calls[0].contents, total)
    if first is not None and usual and arithmetic(first) and arithmetic(first) != usual:
        return [_seed("first-call", first, work)]
    later = next((call for call in run.probes if call.kind == "later"), None)
    late = _work_of(later.contents, total) if later is not None else None
    if late is not None and usual and arithmetic(late) and arithmetic(late) != usual:
        return [_seed("counter", work, late)]
    if compensates and later is not None and _alike(later.events) != _alike(run.calls[-1].events):
        return _less_careful(found, reach(list(later.contents)))
    return []


def _less_careful(usual: Slice, late: Slice) -> list[ShapeFact]:
    """The fact that a late call sums exponentials plainly where the usual one compensates each sum."""
    careful, plain = _by_care(usual), _by_care(late)
    if plain and plain[0] and careful and not careful[0] and careful[1]:
        also = {(e.name, e.loc) for e in plain[1]}
        fact = WarmUp(decided_by="counter", before=("compensated sums",), after=("plain sums",))
        places = [("what the first calls sum", e.loc) for e in careful[1] if (e.name, e.loc) not in also]
        places += [("what later calls sum", e.loc) for e in plain[0]]
        related: list[tuple[ir.Loc | None, str]] = [(loc, text) for text, loc in places]
        return [ShapeFact(fact, plain[0][0].loc, (*related, *launched_from(plain[0][0])[1:]))]
    return []


def _by_care(found: Slice) -> tuple[list[Event], list[Event]] | None:
    """The launches that sum exponentials plainly, and those that compensate; None where that is not known."""
    plain: list[Event] = []
    careful: list[Event] = []
    for event in (e for e in found.events if e.kind == "launch" and any(f.sums for f in facts_of(e))):
        answer = compensation.of_launch(event, found)
        if answer.state == "unknown":
            return None
        if answer.state in ("effective", "precise"):
            careful.append(event)
        elif answer.sums:
            plain.append(event)
    return plain, careful


def _steps(events: Sequence[Event]) -> list[tuple[object, ...]]:
    """What ran, in order, as far as arithmetic goes: calls with equal steps need no closer look."""
    return [
        (e.kind, e.name, e.loc, *((p.a, p.b) for facts in facts_of(e) for p in facts.plain().products), *_types(e))
        for e in events
    ]


def _alike(events: Sequence[Event]) -> list[object]:
    """As `_steps`, with the numbers that launches are given: one may choose how a kernel sums."""
    return [(step, event.given_numbers()) for step, event in zip(_steps(events), events, strict=True)]


def _types(event: Event) -> list[str]:
    return [tensor.dtype for _, tensor in event.reads]


def arithmetic(work: Work) -> frozenset[tuple[str, ...]]:
    """The operand types of the products, by who multiplies (authored or library), and the categories of other heavy
    work that libraries do."""
    kinds = {("library" if use.where == "library" else "authored", *use.operands) for use in work.products}
    return frozenset(kinds | {("library", category(event)) for event in _others(work) if category(event) != "product"})


def _work_of(contents: Sequence[Content], total: int | None) -> Work | None:
    found = reach(list(contents))
    if found.opaque or not found.events or any(f.unread for e in found.events for f in facts_of(e)):
        return None
    return sort_out(found, total)


def _seed(decided_by: str, before: Work, after: Work) -> ShapeFact:
    fact = WarmUp(decided_by=decided_by, before=_said(before), after=_said(after))
    places = [("what the first calls run", e) for e in _events(before)]
    places += [("what later calls run", e) for e in _events(after)]
    related: list[tuple[ir.Loc | None, str]] = [(event.loc, text) for text, event in places]
    lead = _events(after)[0]
    return ShapeFact(fact, lead.loc, (*related, *launched_from(lead)[1:]))


def _events(work: Work) -> list[Event]:
    return [use.event for use in work.products] + _others(work)


def _others(work: Work) -> list[Event]:
    """The heavy work that is not authored."""
    match work:
        case Work(library=events):
            return events


def _said(work: Work) -> tuple[str, ...]:
    return tuple(sorted(" ".join((kind[0], " x ".join(kind[1:]))) for kind in arithmetic(work)))
