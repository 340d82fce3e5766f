"""Launches that store, or multiply otherwise, where a clock of the GPU says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kbh_lint.analyses.flow import Slice, facts_of
from kbh_lint.analyses.reading.gates import MAX_DEPTH, decides, memory_at, stored_to
from kbh_lint.base import ir
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Event, Storage
from kbh_lint.kernels.core.facts import KernelFacts, Origins
from kbh_lint.kernels.core.origins import OF_CLOCK


def clocked(run: ShapeRun, found: Slice) -> Iterator[tuple[Event, ir.Loc]]:
    """The launches of the last call that store to what the result is made of, or multiply otherwise, where a clock of
    the GPU says so, each with the place that decides."""
    if not any(map(_asks_a_clock, _kernels(run))):
        return
    for event in found.events:
        if event.kind != "launch" or event.call != run.calls[-1].index:
            continue
        of_result = {written.storage.ident for written in event.writes if written.ident in found.contents}
        contents = event.attrs.get("contents", {})
        for facts in facts_of(event):
            tests = [(gate.origins, gate.loc) for gate in facts.gates if memory_at(contents, gate.storage) in of_result]
            tests += [(branch.origins, branch.loc) for branch in facts.branches]
            tests += [(amount.origins, amount.loc) for amount in facts.amounts]
            places = (loc for origins, loc in dict.fromkeys(tests) if _timed(event, origins))
            yield from ((event, loc) for loc in places)


def _kernels(run: ShapeRun) -> Iterable[KernelFacts]:
    """What the launches of all calls do, of equal ones once, whatever storages they are about."""
    launches = (event for call in run.calls for event in call.events if event.kind == "launch")
    plain = (facts.plain() for event in launches for facts in facts_of(event))
    return {id(facts): facts for facts in plain}.values()


def _asks_a_clock(facts: KernelFacts) -> bool:
    """Whether a clock of the GPU goes into what a kernel stores or decides."""
    made = [store.origins for store in facts.stores]
    made += [gate.origins for gate in facts.gates] + [branch.origins for branch in facts.branches]
    made += [amount.origins for amount in facts.amounts]
    return any(origin.storage == OF_CLOCK for origins in made for origin in origins)


def _timed(event: Event, origins: Origins) -> bool:
    """Whether data in a kernel was made of what a clock of the GPU showed, in a launch of this or an earlier call."""
    seen = set[tuple[int, Storage]]()
    stack: list[tuple[Event, Origins, int]] = [(event, origins, 0)]
    while stack:
        reader, given, depth = stack.pop()
        if any(origin.storage == OF_CLOCK and decides(origin) for origin in given):
            return True
        contents = reader.attrs.get("contents", {})
        for held in [contents[o.storage] for o in given if o.storage in contents and decides(o)]:
            maker = held.event
            if maker is not None and depth < MAX_DEPTH and (id(maker), held.storage) not in seen:
                seen.add((id(maker), held.storage))
                stack.append((maker, stored_to(maker, held.storage), depth + 1))
    return False
