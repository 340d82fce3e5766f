"""What a submission asks the L2 cache to keep, and whether its own call reads that again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbh_lint import registry
from kbh_lint.analyses.flow import Slice, facts_of
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.base import ir
from kbh_lint.base.facts import L2Policy
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Content, Event, Storage
from kbh_lint.kernels.core.facts import KernelFacts
from kbh_lint.kernels.extents.apart import apart
from kbh_lint.kernels.extents.reuse import read_once


def l2_policies(run: ShapeRun, found: Slice) -> list[ShapeFact]:
    """Facts `l2-policy`: access-policy windows, set-aside limits and load hints that keep data in the L2 cache after
    the kernel."""
    if not run.calls:
        return []
    last = run.calls[-1].index
    launches = [e for e in found.events if e.call == last and e.kind == "launch"]
    resets = [at for at, (_, attrs, _) in enumerate(run.l2) if attrs["kind"] == "reset"]
    out: list[ShapeFact] = []
    set_up = run.l2[resets[-1] + 1 if resets else 0 :]  # what is set after the last reset outlives the call
    ends = max((at for at, (_, attrs, _) in enumerate(set_up) if attrs["kind"] == "end"), default=-1)
    windows = [(at, attrs, loc) for at, (_, attrs, loc) in enumerate(set_up) if attrs["kind"] == "window"]
    for at, attrs, loc in windows:
        for storage in attrs["storages"] or (None,):
            out.append(ShapeFact(_kept("window" if at > ends else "ended window", storage, launches, True), loc))
    for _, attrs, loc in set_up:
        if attrs["kind"] == "limit" and not windows:
            out.append(ShapeFact(_kept("limit", None, launches), loc))
    for event in launches:
        for hint in {h.loc: h for facts in facts_of(event) for h in facts.hints}.values():
            content = event.attrs["contents"].get(hint.storage)
            if content is not None:
                kept = _kept("evict_last", content.storage, launches)
                out.append(ShapeFact(kept, hint.loc, tuple(launched_from(event))))
    return [*out, *_left_behind(run.calls[-1].events, {id(e) for e in launches})]


def _left_behind(events: list[Event], reached: set[int]) -> Iterator[ShapeFact]:
    """Data that a kernel without any part in the result asks the cache to keep after the call has read it last."""
    for i, event in enumerate(events):
        if event.kind != "launch" or id(event) in reached:
            continue
        used = {c.storage for e in events[i + 1 :] if id(e) in reached for c, _ in e.reads}
        for hint in {h.loc: h for facts in facts_of(event) for h in facts.hints}.values():
            content = event.attrs["contents"].get(hint.storage)
            if content is not None and content.storage not in used:
                kept = _kept("left", content.storage, [event])
                fact = L2Policy(kind=kept.kind, what=kept.what, names=kept.names, reads="never")
                yield ShapeFact(fact, hint.loc, tuple(launched_from(event)))


def _kept(kind: str, storage: Storage | None, launches: list[Event], by_size: bool = False) -> L2Policy:
    """What a storage holds, and how often the call's kernels read it: at the sizes of their grids, or at any."""
    if storage is None:
        return L2Policy(kind=kind, what="unknown", names=(), reads="unknown")
    readers = [(e, c) for e in launches for c, _ in e.reads if c.storage is storage]
    held = readers[0][1] if readers else storage.content
    labels = _labels(held)
    groups = {label.partition(":")[0] for label in labels}
    what = "input" if "input" in groups else "state" if "state" in groups else "workspace"
    if what == "input" and not held.label:
        what = "workspace"  # made in this call
    names = tuple(sorted(label.partition(":")[2] for label in labels))
    return L2Policy(kind=kind, what=what, names=names, reads=_reads([e for e, _ in readers], storage, by_size))


def _labels(content: Content) -> list[str]:
    return list(outside([content]))


def _reads(readers: list[Event], storage: Storage, by_size: bool) -> str:
    """`once` when no element is read twice in a call, `several` when one may be, `unknown` when that cannot be told."""
    if len(readers) != 1:
        return "several" if readers else "unknown"
    event = readers[0]
    answers = []
    kernel = event.attrs["kernel"]
    single = frozenset(at for at, size in enumerate(_dims(event.attrs.get("grid"))) if by_size and size == 1)
    for facts in facts_of(event):
        places = {load.loc for load in facts.loads if load.storage == storage.ident}
        if not places:
            return "unknown"
        if len(places) > 1 and not _at_different_places(event, facts, places):
            return "several"
        seen = registry.by_pointers(kernel.language)
        answers += [read_once(kernel.node, place, kernel.env, single) if seen else None for place in places]
    if event.weight > 1 or any(answer is False for answer in answers):
        return "several"
    return "once" if answers and all(answers) else "unknown"


def _at_different_places(event: Event, facts: KernelFacts, places: set[ir.Loc]) -> bool:
    """Whether loads of one tensor read parts of it that do not meet."""
    pairs = zip(event.attrs["facts"], event.attrs["bindings"], strict=False)
    binding = next((binding for found, binding in pairs if found is facts), None)
    grid, block = (_dims(event.attrs.get(name)) for name in ("grid", "block"))
    return binding is not None and apart(event.attrs["kernel"], binding, grid, block, places)


def _dims(given: object) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)
