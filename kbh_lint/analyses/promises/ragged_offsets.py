"""`ragged-offsets`, and `must_read` of other kinds: the named inputs reach the result."""

from __future__ import annotations

from collections.abc import Collection

from kbh_lint.analyses.flow import Slice, facts_of
from kbh_lint.analyses.promises.asked import Asked, Judgement
from kbh_lint.analyses.promises.holes import not_followed, unread_reason
from kbh_lint.analyses.reading.begins import begins_elsewhere
from kbh_lint.analyses.reading.used import few_rows_unseen, used_inputs
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.base import ir
from kbh_lint.base.facts import UnreadInput
from kbh_lint.host.values.tensors import Event


def reads(asked: Asked) -> Judgement:
    """The inputs named by `must_read` reach the result."""
    promise, run, found, work, facts = asked.promise, asked.run, asked.found, asked.work, asked.facts
    asserted = [name for name in promise.params.get("must_read", ()) if name in facts.equal]
    for name in asserted:
        fact = UnreadInput(name=name, of="inputs", how="allow unequal numbers in")
        facts.seeds.append(ShapeFact(fact, facts.equal[name]))
    if asserted:
        return (
            "broken",
            [(facts.equal[name], f"only equal numbers in {name} get past this") for name in asserted],
            "",
        )
    specs = run.binding.inputs if run.binding is not None else ()
    wanted = promise.params.get("must_read", ())
    used = used_inputs(found, {spec.name: spec.value for spec in specs if isinstance(spec.value, int)}, wanted)
    missing = [n for n in wanted if n not in used]
    if not missing:
        few = _few_rows_unseen(found, wanted)
        for name, event in few.items():
            fact = UnreadInput(name=name, of="inputs", how="tell a group of one row from an empty one by")
            related = (*launched_from(event)[1:], *((loc, f"{name} is loaded here") for loc in _loads(found, name)))
            facts.seeds.append(ShapeFact(fact, event.loc, related))
        if few:
            return "broken", [(e.loc, f"a group of one row in {name} is none here") for name, e in few.items()], ""
        elsewhere = begins_elsewhere(found, wanted) if not not_followed(run, found, work) else {}
        for name, event in elsewhere.items():
            fact = UnreadInput(name=name, of="inputs", how="take the first row of a group from")
            related = (*launched_from(event)[1:], *((loc, f"{name} is loaded here") for loc in _loads(found, name)))
            facts.seeds.append(ShapeFact(fact, event.loc, related))
        if elsewhere:
            return "broken", [(e.loc, f"{name} says only where a group ends") for name, e in elsewhere.items()], ""
        return "kept", [(e.loc, "reads it") for e in work.authored[:2]], ""
    loaded = {c.label.partition(":")[2] for c in found.outside}
    hole = unread_reason(run, found, work)
    if set(missing) <= loaded:  # a kernel loads them all for nothing: what fills other memory does not matter
        hole = not_followed(run, found, work) or run.stopped
    if hole:
        return "unproven", [], hole
    for name in missing:
        last = found.events[-1]
        related = (*launched_from(last)[1:], *((loc, f"{name} is loaded here") for loc in _loads(found, name)))
        facts.seeds.append(ShapeFact(UnreadInput(name=name, of="inputs", how="depend on"), last.loc, related))
    return "broken", [(e.loc, f"does not depend on {', '.join(missing)}") for e in found.events[-1:]], ""


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


def _loads(found: Slice, name: str) -> list[ir.Loc]:
    """Where kernels load an input."""
    places: dict[ir.Loc, None] = {}
    for event in found.events:
        held = event.attrs.get("contents", {})
        own = {at for at, content in held.items() if content.label == f"input:{name}"}
        places |= {load.loc: None for f in facts_of(event) for load in f.loads if load.storage in own}
    return list(places)[:4]
