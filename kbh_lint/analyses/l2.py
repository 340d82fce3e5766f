"""What a submission asks the L2 cache to keep, and whether its own call reads that again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbh_lint.analyses.flow import Reach, facts_of
from kbh_lint.analyses.seeds import Seed, launched_from
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.remembered import outside
from kbh_lint.host.values.tensors import Content, Event, Storage
from kbh_lint.kernels.extents.reuse import read_once


def l2_policies(run: ShapeRun, found: Reach) -> list[Seed]:
    """Facts `l2-policy`: windows, limits and loads that keep data in the cache beyond the kernel."""
    if not run.calls:
        return []
    last = run.calls[-1].index
    launches = [e for e in found.events if e.call == last and e.kind == "launch"]
    reset = any(a["kind"] == "reset" and a["call"] == last for _, a, _ in run.l2)
    out: list[Seed] = []
    set_up = [] if reset else run.l2
    windows = [(attrs, loc) for _, attrs, loc in set_up if attrs["kind"] == "window"]
    for attrs, loc in windows:
        for storage in attrs["storages"] or (None,):
            out.append(Seed("l2-policy", {"kind": "window", **_kept(storage, launches)}, loc))
    for _, attrs, loc in set_up:
        if attrs["kind"] == "limit" and not windows:
            out.append(Seed("l2-policy", {"kind": "limit", "what": "unknown", "names": (), "reads": "unknown"}, loc))
    for event in launches:
        for hint in {h.loc: h for facts in facts_of(event) for h in facts.hints}.values():
            content = event.attrs["contents"].get(hint.storage)
            if content is not None:
                kept = _kept(content.storage, launches)
                out.append(Seed("l2-policy", {"kind": "evict_last", **kept}, hint.loc, tuple(launched_from(event))))
    return [*out, *_left_behind(run.calls[-1].events, {id(e) for e in launches})]


def _left_behind(events: list[Event], reached: set[int]) -> Iterator[Seed]:
    """Data that a kernel without any part in the result asks the cache to keep after the call has read it last."""
    for i, event in enumerate(events):
        if event.kind != "launch" or id(event) in reached:
            continue
        used = {c.storage for e in events[i + 1 :] if id(e) in reached for c, _ in e.reads}
        for hint in {h.loc: h for facts in facts_of(event) for h in facts.hints}.values():
            content = event.attrs["contents"].get(hint.storage)
            if content is not None and content.storage not in used:
                kept = _kept(content.storage, [event])
                attrs = {**kept, "kind": "left", "reads": "never"}
                yield Seed("l2-policy", attrs, hint.loc, tuple(launched_from(event)))


def _kept(storage: Storage | None, launches: list[Event]) -> dict[str, Any]:
    """What a storage holds, and how often the call's kernels read it."""
    if storage is None:
        return {"what": "unknown", "names": (), "reads": "unknown"}
    readers = [(e, c) for e in launches for c, _ in e.reads if c.storage is storage]
    held = readers[0][1] if readers else storage.content
    labels = _labels(held)
    groups = {label.partition(":")[0] for label in labels}
    what = "input" if "input" in groups else "state" if "state" in groups else "workspace"
    if what == "input" and not held.label:
        what = "workspace"  # made in this call
    names = tuple(sorted(label.partition(":")[2] for label in labels))
    return {"what": what, "names": names, "reads": _reads([e for e, _ in readers], storage)}


def _labels(content: Content) -> list[str]:
    return list(outside([content]))


def _reads(readers: list[Event], storage: Storage) -> str:
    """`once` when no element is read twice in a call, `several` when one may be, `unknown` when that cannot be told."""
    if len(readers) != 1:
        return "several" if readers else "unknown"
    event = readers[0]
    answers = []
    for facts in facts_of(event):
        places = {load.loc for load in facts.loads if load.storage == storage.ident}
        if len(places) != 1:
            return "several" if places else "unknown"
        kernel = event.attrs["kernel"]
        answers.append(read_once(kernel.node, next(iter(places)), kernel.env))
    if event.weight > 1 or any(answer is False for answer in answers):
        return "several"
    return "once" if answers and all(answers) else "unknown"
