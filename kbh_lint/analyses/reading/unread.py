"""Inputs and weights that a result does not depend on, although the reference's does."""

from __future__ import annotations

from kbh_lint.analyses.flow import MAX_CONTENTS, Slice, facts_of, reads_of, roots
from kbh_lint.analyses.promises.holes import unread_reason
from kbh_lint.analyses.reference import Traits, weights_read
from kbh_lint.analyses.seeds import ShapeFact, ShapeFacts, launched_from
from kbh_lint.analyses.work import Work
from kbh_lint.base import ir
from kbh_lint.base.facts import LibraryWork, UnreadInput
from kbh_lint.host.values.path_runs import PathRun, ShapeRun


def unread_inputs(
    path: PathRun, run: ShapeRun, found: Slice, work: Work, reference: Traits, facts: ShapeFacts
) -> list[ShapeFact]:
    """Facts `unread-input`: inputs and weights that the reference reads and the result does not depend on.

    Those that a promise has reported already are left out. Empty when a library does the work, which is reported
    itself.
    """
    by_library = any(isinstance(s.fact, LibraryWork) for s in facts.seeds)
    if by_library or not work.authored or not run.calls or not reference.reads or not found.outside:
        return []
    read = {c.label.partition(":")[2] for c in found.outside}
    lacking = _weights(run, found, reference)
    known = {s.fact.name for s in facts.seeds if isinstance(s.fact, UnreadInput)}
    missing = sorted((reference.reads & (run.inputs.keys() | run.state.keys()) | lacking) - read - known)
    if missing:
        if any(e.kind != "launch" or e.attrs["kernel"].node.kind != "python" for e in work.authored):
            return []  # C++ passes memory on in more ways than are followed
        missing = sorted(set(missing) - _loaded(work) - _by_address(path, run))
    if not missing or unread_reason(run, found, work):
        return []
    last = found.events[-1]
    lacking_facts = [UnreadInput(name=n, of="inputs" if n in run.inputs else "state", how="depend on") for n in missing]
    return [ShapeFact(fact, last.loc, tuple(launched_from(last)[1:])) for fact in lacking_facts]


def _weights(run: ShapeRun, found: Slice, reference: Traits) -> set[str]:
    """The reference's weights that a result cannot come from: there under their name and not read, or under no name and
    larger than all that is read under other names. Weights in one larger tensor, or laid out anew, are read."""
    read = weights_read(run, found)
    spare = sum(run.weights[name].numel() or 0 for name in read - reference.weights.keys())
    lacking = {name for name in reference.weights if name in run.weights and name not in read}
    for name in sorted(reference.weights.keys() - run.weights.keys(), key=lambda name: reference.weights[name]):
        spare -= reference.weights[name]
        if spare < 0:
            lacking.add(name)
    return lacking


def _by_address(path: PathRun, run: ShapeRun) -> set[str]:
    """The inputs and state whose address somebody asked for: what is found through it is not followed."""
    notes = path.notes if "pointer-read" in path.kinds else ()
    asked = {attrs["storage"] for kind, attrs, _ in notes if kind == "pointer-read"}
    return {
        name for group in (run.inputs, run.state, run.weights) for name, t in group.items() if t.storage.ident in asked
    }


def _loaded(work: Work) -> set[str]:
    """The inputs and state behind whatever a kernel loads, also where what it does with them was not followed."""
    stack = [
        event.attrs["contents"][load.storage]
        for event in work.authored
        for facts in facts_of(event)
        for load in facts.loads
        if load.storage in event.attrs["contents"]
    ]
    names: set[str] = set()
    seen: set[int] = set()
    while stack and len(seen) < MAX_CONTENTS:
        content = stack.pop()
        if content.ident in seen:
            continue
        seen.add(content.ident)
        if content.label.startswith(("input:", "state:")):
            names.add(content.label.partition(":")[2])
        stack.extend(reads_of(content))
    return names


def asserted_equal(path: PathRun) -> dict[str, ir.Loc | None]:
    """The inputs of which an assertion requires that all elements, or all differences between them, equal one number,
    by name, with the place of the assertion."""
    found: dict[str, ir.Loc | None] = {}
    for key in path.asserted:
        value = path.settled.get(key)
        for content in value.contents if value is not None else ():
            made = content.event
            test = made.reads[0][0].event if made is not None and made.name == "all" and made.reads else None
            if test is None or test.name != "eq" or len(test.reads) != 1:
                continue
            compared, tensor = test.reads[0]
            labels = {root.content.label for root in roots(compared)}
            if (tensor.numel() or 0) > 1 and len(labels) == 1 and (label := labels.pop()).startswith("input:"):
                found[label.partition(":")[2]] = path.places.get(key, test.loc)
    return found
