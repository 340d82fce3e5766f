"""Inputs and weights that a result does not depend on, although the reference's does."""

from __future__ import annotations

from kbh_lint.analyses.flow import MAX_CONTENTS, Reach, facts_of, reads_of
from kbh_lint.analyses.promises import unread_reason
from kbh_lint.analyses.reference import Traits
from kbh_lint.analyses.seeds import Seed, ShapeFacts, launched_from
from kbh_lint.analyses.work import Work
from kbh_lint.host.values.path_runs import PathRun, ShapeRun


def unread_inputs(
    path: PathRun, run: ShapeRun, found: Reach, work: Work, reference: Traits, facts: ShapeFacts
) -> list[Seed]:
    """Facts `unread-input`, beside those that a promise made; none where a library does the work, which says it all."""
    by_library = any(s.kind == "library-work" for s in facts.seeds)
    if by_library or not work.authored or not run.calls or not reference.reads or not found.outside:
        return []
    read = {c.label.partition(":")[2] for c in found.outside}
    known = {s.attrs["name"] for s in facts.seeds if s.kind == "unread-input"}
    missing = sorted((reference.reads & (run.inputs.keys() | run.state.keys())) - read - known)
    if missing:
        if any(e.kind != "launch" or e.attrs["kernel"].node.kind != "python" for e in work.authored):
            return []  # C++ passes memory on in more ways than are followed
        missing = sorted(set(missing) - _loaded(work) - _by_address(path, run))
    if not missing or unread_reason(run, found, work):
        return []
    last = found.events[-1]
    return [
        Seed("unread-input", {"name": name, "of": "inputs" if name in run.inputs else "state"}, last.loc,
             tuple(launched_from(last)[1:]))
        for name in missing
    ]  # fmt: skip


def _by_address(path: PathRun, run: ShapeRun) -> set[str]:
    """The inputs and state whose address somebody asked for: what is found through it is not followed."""
    asked = {attrs["storage"] for kind, attrs, _ in path.notes if kind == "pointer-read"}
    return {name for group in (run.inputs, run.state) for name, t in group.items() if t.storage.ident in asked}


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
