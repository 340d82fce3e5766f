"""What was not read on the way to a result, which leaves promises open."""

from __future__ import annotations

from collections.abc import Sequence

from kbh_lint.analyses.flow import Slice, facts_of, is_unknown, last_call
from kbh_lint.analyses.work import Work
from kbh_lint.host.explore.probes import result_contents
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Content, Event


def not_followed(run: ShapeRun, found: Slice, work: Work) -> str:
    """Says in words what was not analysed and may have made the result, or a part of it, so that no evidence is enough;
    empty when there is nothing of the kind."""
    for event in work.authored:
        if event.attrs.get("cut"):
            return str(event.attrs["cut"])
    on_the_way = (hole for event in (*work.unread, *work.library, *work.authored) if (hole := _hole_in(event)))
    return run.rewritten or next(on_the_way, "") or _unread_beside(run, found) or _unknown_later(run)


def unread_reason(run: ShapeRun, found: Slice, work: Work) -> str:
    """Says in words why evidence that was not found may still exist in code that was not analysed; empty when
    everything was analysed."""
    hole = not_followed(run, found, work)
    if hole:
        return hole
    if run.stopped:
        return run.stopped
    handed = next((c.notes["handed"] for c in result_contents(last_call(run)) if "handed" in c.notes), "")
    if handed and not found.events:
        return f"{handed} was given the memory of the result, and nothing is known of what it did with it"
    if not found.events:
        return "nothing that makes the result was found"
    if found.unfilled:
        return "the result holds memory that nothing was seen to fill"
    return ""


def _unknown_later(run: ShapeRun) -> str:
    """What calls after the second one return that nobody knows: a value, or a tensor that no input went into."""

    def of_inputs() -> bool:
        return _made_of_inputs(result_contents(last_call(run)))

    for call in run.probes:
        if call.kind in ("undecided", "doubted"):
            if call.contents and all(c.event is not None and c.event.call < call.index for c in call.contents):
                return "where a later call cannot be told to compute, it returns what an earlier one computed"
        elif is_unknown(call.result) or not _made_of_inputs(call.contents) and of_inputs():
            return "what later calls return is not known"
    return ""


def _made_of_inputs(contents: Sequence[Content]) -> bool:
    return any(label.startswith("input:") for label in outside(contents, until="input:"))


def _hole_in(event: Event) -> str:
    """What of an event could not be read: all of it, or something in its kernel."""
    if event.kind == "unread":
        return f"{event.name} could not be read"
    if event.attrs.get("foreign"):
        return f"what {event.attrs.get('symbol', event.name)} computes is not known"
    if event.attrs.get("lost"):
        return str(event.attrs["lost"])
    return next((f"{facts.name}: {facts.unread[0][0]}" for facts in facts_of(event) if facts.unread), "")


def _unread_beside(run: ShapeRun, found: Slice) -> str:
    """What was not read, was handed something that the result is made of later, and may have written it.

    Inputs and weights are only read: what they hold instead would still have to be multiplied.
    """
    last = {content.ident: len(run.calls[-1].events) for content in result_contents(last_call(run))}
    reached = {id(event) for event in found.events}
    for at in range(len(run.calls[-1].events) - 1, -1, -1):
        event = run.calls[-1].events[at]
        if id(event) in reached:
            for content, _ in event.reads:
                last.setdefault(content.ident, at)
            continue
        given = () if event.attrs.get("keeps") else event.reads
        made = (content for content, _ in given if not content.label.startswith(("input:", "state:")))
        if any(last.get(content.ident, -1) > at for content in made) and (hole := _hole_in(event)):
            return hole
    return ""
