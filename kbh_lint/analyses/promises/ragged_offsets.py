"""`ragged-offsets`, and `must_read` of other kinds: the named inputs reach the result."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from kbh_lint.analyses.flow import Slice, facts_of
from kbh_lint.analyses.promises.asked import Asked, Judgement
from kbh_lint.analyses.promises.holes import not_followed, unread_reason
from kbh_lint.analyses.reading.begins import begins_elsewhere
from kbh_lint.analyses.reading.by_tile import chosen_for_tiles
from kbh_lint.analyses.reading.few_asked import few_asked
from kbh_lint.analyses.reading.used import few_rows_unseen, near_unseen, used_inputs
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.base import ir
from kbh_lint.base.facts import UnreadInput
from kbh_lint.host.torch.whole_numbers import neighbours
from kbh_lint.host.values.tensors import Content, Event


def reads(asked: Asked) -> Judgement:
    """Judges whether the result depends on all inputs named by `must_read`, and on all of what these say."""
    run, found, facts = asked.run, asked.found, asked.facts
    wanted = asked.promise.params.get("must_read", ())
    asserted = {name: facts.equal[name] for name in wanted if name in facts.equal}
    for name, loc in asserted.items():
        fact = UnreadInput(name=name, of="inputs", how="allow unequal numbers in")
        facts.seeds.append(ShapeFact(fact, loc))
    if asserted:
        return "broken", [(loc, f"only equal numbers in {n} get past this") for n, loc in asserted.items()], ""
    specs = run.binding.inputs if run.binding is not None else ()
    used = used_inputs(found, {spec.name: spec.value for spec in specs if isinstance(spec.value, int)}, wanted)
    missing = [n for n in wanted if n not in used]
    if not missing:
        return _all_reach(asked)
    loaded = {c.label.partition(":")[2] for c in found.outside}
    hole = unread_reason(run, found, asked.work)
    if set(missing) <= loaded:  # a kernel loads them all for nothing: what fills other memory does not matter
        hole = not_followed(run, found, asked.work) or run.stopped
    if hole:
        return "unproven", [], hole
    for name in missing:
        _add_unread(asked, name, "depend on", found.events[-1])
    return "broken", [(e.loc, f"does not depend on {', '.join(missing)}") for e in found.events[-1:]], ""


def _all_reach(asked: Asked) -> Judgement:
    """All of them reach the result: kept, but where one is read for less than it says."""
    for how, told in _read_for_less(asked):
        for name, event in told.items():
            _add_unread(asked, name, how.verb, event)
        if told:
            return "broken", [(e.loc, how.evidence.format(name=name)) for name, e in told.items()], ""
    return "kept", [(e.loc, "reads it") for e in asked.work.authored[:2]], ""


def _add_unread(asked: Asked, name: str, how: str, event: Event) -> None:
    loaded = ((loc, f"{name} is loaded here") for loc in _loads(asked.found, name))
    fact = UnreadInput(name=name, of="inputs", how=how)
    asked.facts.seeds.append(ShapeFact(fact, event.loc, (*launched_from(event)[1:], *loaded)))


class _Less(NamedTuple):
    """What inputs that are read are not read for: as findings and as evidence say it."""

    verb: str
    evidence: str


ONE_ROW = _Less("tell a group of one row from an empty one by", "a group of one row in {name} is none here")
BEGINNING = _Less("take the first row of a group from", "{name} says only where a group ends")
TILE = _Less("tell the rows of a tile apart by", "{name} says of which group a tile is, and not each of its rows")
NEIGHBOUR = _Less("tell a length from one less by", "lengths in {name} that differ by one are the same here")


FEW = _Less("depend on all of", "a few elements of {name} say that the others are not read")


def _read_for_less(asked: Asked) -> Iterator[tuple[_Less, dict[str, Event]]]:
    """Inputs that are read for less than they say, each with a launch that does, one kind after the other."""
    found, wanted = asked.found, asked.promise.params.get("must_read", ())
    yield ONE_ROW, _few_rows_unseen(found, wanted)
    followed = not not_followed(asked.run, found, asked.work)
    yield NEIGHBOUR, _lengths_unseen(found, wanted) if followed else {}
    yield BEGINNING, begins_elsewhere(found, wanted) if followed else {}
    yield TILE, chosen_for_tiles(found, wanted) if followed else {}
    yield FEW, few_asked(found, wanted) if followed else {}


def _few_rows_unseen(found: Slice, wanted: Collection[str]) -> dict[str, Event]:
    """Offsets whose every reader takes a group of one row for an empty one, with one of these launches."""
    known: dict[str, Event] = {}
    for content in found.outside:
        name = content.label.partition(":")[2]
        readers = [event for event in found.events if any(read is content for read, _ in event.reads)]
        steered = any(content in event.attrs.get("steer", ()) for event in found.events)
        if name not in wanted or not content.notes.get("rising") or steered:
            continue
        if readers and all(e.kind == "launch" and content.ident in few_rows_unseen(e) for e in readers):
            known[name] = readers[0]
    return known


def _lengths_unseen(found: Slice, wanted: Collection[str]) -> dict[str, Event]:
    """Lengths of which no reader tells one from the next, with one of the launches that read them, or what operations
    of torch made of them."""
    known: dict[str, Event] = {}
    for content in found.outside:
        name = content.label.partition(":")[2]
        event = _unseen_by_all(content, found) if name in wanted and "drawn" in content.notes else None
        if event is not None:
            known[name] = event
    return known


def _unseen_by_all(content: Content, found: Slice) -> Event | None:
    """A launch that reads lengths or what was made of them, where all that do are the same for the next."""
    stack, seen, first = [content], {content.ident}, None
    while stack:
        one = stack.pop()
        for event in found.events:
            if any(steering is one for steering in event.attrs.get("steer", ())):
                return None
            if not any(read is one for read, _ in event.reads):
                continue
            made = [write for write in event.writes if write.ident not in seen]
            if event.kind == "launch":
                if one.ident not in near_unseen(event):
                    return None
                first = first or event
            elif any(neighbours(write) is None for write in event.writes):
                return None
            else:
                stack += made
                seen |= {write.ident for write in made}
    return first


def _loads(found: Slice, name: str) -> list[ir.Loc]:
    """Where kernels load an input."""
    places: dict[ir.Loc, None] = {}
    for event in found.events:
        held = event.attrs.get("contents", {})
        own = {at for at, content in held.items() if content.label == f"input:{name}"}
        places |= {load.loc: None for f in facts_of(event) for load in f.loads if load.storage in own}
    return list(places)[:4]
