"""Kernels that store nothing where memory kept since an earlier call holds what was made of the same inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kbh_lint.analyses.flow import Slice, facts_of, reach
from kbh_lint.base import ir
from kbh_lint.base.dtypes import FLOATS
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.path_runs import Call, ShapeRun
from kbh_lint.host.values.tensors import Content, Event, Storage
from kbh_lint.kernels.core.facts import Gate, Origin, Origins

MAX_DEPTH = 6  # launches that hand on what decides
MAX_PARTS = 16  # writes to one memory within a call
Found = tuple[dict[str, Content], set[Storage]]  # inputs by their names, and memory that earlier calls left


def kept_behind(run: ShapeRun, found: Slice) -> Iterator[tuple[Event, ir.Loc, tuple[str, ...]]]:
    """The launches of the last call that may leave the result as the call before left it, each with the place that
    decides and the names of the inputs: what these come to is held against what was kept of those before. So may those
    of a further call, for which no weight has changed."""
    if len(run.calls) < 2:
        return
    yield from _kept_from(run.calls[-2], run.calls[-1], found)
    same = next((call for call in run.probes if call.kind == "same"), None)
    if same is not None:
        yield from _kept_from(run.calls[-1], same, reach(list(same.contents)))


def _kept_from(former: Call, call: Call, found: Slice) -> Iterator[tuple[Event, ir.Loc, tuple[str, ...]]]:
    """As `kept_behind`, for a call whose result depends on `found`."""
    for event in found.events:
        if event.kind != "launch" or event.call != call.index or not _left(event, call, former):
            continue
        for facts in facts_of(event):
            found_here = None if facts.unread else _all_behind(event, facts.gates, call)
            if found_here is not None:
                yield event, *found_here


def told_by_numbers(run: ShapeRun, found: Slice) -> Iterator[tuple[Event, ir.Loc]]:
    """The launches of the last call that may leave the result as the call before left it, each with the place that
    decides: a number that is another one only where inputs changed is held against what was kept."""
    same = next((call for call in run.probes if call.kind == "same"), None)
    if same is None or len(run.calls) < 2:
        return
    call, former = run.calls[-1], run.calls[-2]
    for event in found.events:
        if event.kind != "launch" or event.call != call.index or not _left(event, call, former):
            continue
        again, before = _twin(event, call, same), _twin(event, call, former)
        if again is None or before is None or not _of_inputs(event):
            continue
        own, unchanged, earlier = (one.given_numbers() for one in (event, again, before))
        versions = {n for n, value in own.items() if value == unchanged.get(n) and value != earlier.get(n, value)}
        for facts in facts_of(event) if versions else ():
            place = None if facts.unread else _all_by_number(event, facts.gates, versions, call)
            if place is not None:
                yield event, place


def _all_by_number(event: Event, gates: Sequence[Gate], versions: set[str], call: Call) -> ir.Loc | None:
    """The place that decides where each store of a launch, but to memory that is kept to be asked, stands behind a test
    of such numbers and of what is there since an earlier call."""
    contents = event.attrs.get("contents", {})
    told: dict[int, ir.Loc] = {}
    asked: set[int] = set()
    for gate in gates:
        held = [contents[o.storage] for o in gate.origins if o.storage in contents and decides(o)]
        kept = [c for c in held if c.event is not None and 0 < c.event.call < call.index]
        if gate.numbers & versions and kept:
            told.setdefault(gate.number, gate.loc)
            asked |= {content.storage.ident for content in kept}
    results = [gate.number for gate in gates if memory_at(contents, gate.storage) not in asked]
    return told[results[0]] if results and told.keys() >= set(results) else None


def _of_inputs(event: Event) -> bool:
    """Whether a launch reads what inputs of the call hold or what was made of them: a layout of weights may be kept."""
    return any(label.startswith("input:") for label in outside([content for content, _ in event.reads], until="input:"))


def _twin(event: Event, call: Call, other: Call) -> Event | None:
    """The launch of another call that stands where a launch stands in its own."""
    alike = [one for one in call.events if (one.kind, one.name, one.loc) == (event.kind, event.name, event.loc)]
    others = [one for one in other.events if (one.kind, one.name, one.loc) == (event.kind, event.name, event.loc)]
    at = next((at for at, one in enumerate(alike) if one is event), None)
    return others[at] if at is not None and len(others) == len(alike) else None


def memory_at(contents: Mapping[int, Content], storage: int) -> int:
    """The memory behind a storage of a launch."""
    held = contents.get(storage)
    return storage if held is None else held.storage.ident


def decides(origin: Origin) -> bool:
    """Whether the value of what was loaded goes into something, and not the place alone."""
    return "index" not in origin.flags or "test" in origin.flags


def _all_behind(event: Event, gates: Sequence[Gate], call: Call) -> tuple[ir.Loc, tuple[str, ...]] | None:
    """The place that decides and the names of the inputs, where each store of a launch, but to memory that is kept to
    be asked, stands behind a test of what inputs come to and of what was kept of them."""
    told: dict[int, tuple[ir.Loc, tuple[str, ...]]] = {}
    asked: set[int] = set()  # memory
    for gate in gates:
        inputs, kept = _behind(event, gate.origins, call)
        known = {name for storage in kept for name in _left_for_the_next(storage, call)}
        if inputs and known >= inputs.keys():
            told.setdefault(gate.number, (gate.loc, tuple(sorted(inputs))))
            asked |= {storage.ident for storage in kept}
    contents = event.attrs.get("contents", {})
    at = {gate.number: memory_at(contents, gate.storage) for gate in gates}
    results = [number for number, storage in at.items() if storage not in asked]
    return told[results[0]] if results and told.keys() >= set(results) else None


def _left(event: Event, call: Call, former: Call) -> bool:
    """Whether all that a launch writes lies where the call before wrote, and its own call did not yet."""
    before = {written.storage for one in former.events for written in one.writes}
    at = next((at for at, one in enumerate(call.events) if one is event), None)
    if at is None:  # of another run of forward than the one that is looked at
        return False
    own = {written.storage for one in call.events[:at] for written in one.writes}
    own |= {content.storage for content in event.attrs.get("contents", {}).values() if content.call == call.index}
    targets = {written.storage for written in event.writes}
    return bool(targets) and targets <= before and not targets & own


def _behind(event: Event, origins: Origins, call: Call) -> Found:
    """The floating-point inputs of a call that data in one of its kernels was made of, and the memory of earlier calls
    that it was made of, through what its launches handed on."""
    inputs: dict[str, Content] = {}
    kept: set[Storage] = set()
    stack: list[tuple[Event, Origins, int]] = [(event, origins, 0)]
    while stack:
        reader, given, depth = stack.pop()
        contents = reader.attrs.get("contents", {})
        read = [contents.get(origin.storage) for origin in given if decides(origin)]
        for content in {content.ident: content for content in read if content is not None}.values():
            maker = content.event
            if content.label.startswith("input:") and content.dtype in FLOATS:
                inputs[content.label.partition(":")[2]] = content
            elif maker is not None and 0 < maker.call < call.index:
                kept.add(content.storage)
            elif maker is not None and maker.call == call.index and depth < MAX_DEPTH:
                stack.append((maker, stored_to(maker, content.storage), depth + 1))
                if not any(written.storage is content.storage for written in event.writes) and _keeps_a_part(content):
                    kept.add(content.storage)
    return inputs, kept


def _keeps_a_part(content: Content) -> bool:
    """Whether memory that a call writes to still holds, beside it, what an earlier call left there."""
    call, seen = content.call, 0
    held: Content | None = content
    while held is not None and held.call == call and seen < MAX_PARTS:
        under = held.previous
        if under is None and held.event is not None:  # which is read where it is not written
            under = next((read for read, _ in held.event.reads if read.storage is held.storage), None)
        held, seen = under, seen + 1
    return held is not None and 0 < held.call < call


def stored_to(maker: Event, storage: Storage) -> Origins:
    """What a launch stores to some memory was made of."""
    contents = maker.attrs.get("contents", {})
    stores = [store for facts in facts_of(maker) for store in facts.stores] if maker.kind == "launch" else []
    there = [
        s for s in stores if s.storage == storage.ident or getattr(contents.get(s.storage), "storage", None) is storage
    ]
    return frozenset(origin for store in there for origin in store.origins)


def _left_for_the_next(storage: Storage, call: Call) -> Iterator[str]:
    """The names of the inputs of which a call itself leaves something in memory that is kept."""
    for event in call.events:
        if event.kind == "launch" and any(written.storage is storage for written in event.writes):
            yield from _behind(event, stored_to(event, storage), call)[0]
