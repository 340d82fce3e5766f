"""The state of each promise on one shape: kept by positive evidence, broken by contrary evidence, else unproven.

Each kind has its analysis in a module here that is named after it; `JUDGES` has the row of each.
"""

from __future__ import annotations

from collections.abc import Callable

from kbh_lint.analyses import coverage
from kbh_lint.analyses.flow import Slice, facts_of, reach
from kbh_lint.analyses.left_out import left_out
from kbh_lint.analyses.packing import Packing
from kbh_lint.analyses.promises.asked import Asked, Judgement, Places
from kbh_lint.analyses.promises.authored_compute import authored
from kbh_lint.analyses.promises.authored_selection import selection
from kbh_lint.analyses.promises.compensated_sum import compensated
from kbh_lint.analyses.promises.holes import not_followed
from kbh_lint.analyses.promises.int4_packed import int4
from kbh_lint.analyses.promises.narrow_products import narrow_products
from kbh_lint.analyses.promises.ragged_offsets import reads
from kbh_lint.analyses.reading.one_for_all import one_for_all
from kbh_lint.analyses.seeds import ShapeFact, ShapeFacts, launched_from
from kbh_lint.analyses.work import Work
from kbh_lint.base import ir
from kbh_lint.base.facts import UnreadInput
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Event
from kbh_lint.problems import Contract, Problem, Promise
from kbh_lint.problems.promise_kinds import ON_A_GROUP, PromiseKind

JUDGES: dict[PromiseKind, Callable[[Asked], Judgement]] = {
    **dict.fromkeys(ON_A_GROUP, narrow_products),
    PromiseKind.AUTHORED_COMPUTE: authored,
    PromiseKind.COMPENSATED_SUM: compensated,
    PromiseKind.INT4_PACKED: int4,
    PromiseKind.AUTHORED_SELECTION: selection,
    PromiseKind.PAGED_ONLINE_SOFTMAX: authored,
    PromiseKind.RAGGED_OFFSETS: reads,
}
if JUDGES.keys() != set(PromiseKind):
    raise RuntimeError("each kind of promise needs an analysis: a promise that nobody looks at would be kept")


def judge(
    problem: Problem, contract: Contract, run: ShapeRun, found: Slice, work: Work, packed: Packing, facts: ShapeFacts,
    usual: bool = True,
) -> None:  # fmt: skip
    """Fills in the promise states of `facts`, and adds the shape facts that are found in judging.

    `usual` is False on a path that goes the other way at a branch that the code alone does not decide: sizes may then
    differ from the graded ones.
    """
    unread: str | None = None  # once it is asked for
    for promise in problem.promises_for(contract.id):
        places: Places = []
        if not run.calls:
            state, reason = "unproven", run.stopped or "forward was not followed to its end"
        else:
            state, places, reason = JUDGES[promise.kind](Asked(promise, run, found, work, packed, facts))
        if usual and state not in ("broken", "unproven"):
            state, places = _whole(promise, run, found, state, places, facts)
        if state not in ("broken", "unproven"):
            unread = not_followed(run, found, work) if unread is None else unread
            if unread:
                state, places, reason = "unproven", [], unread
        facts.states[promise.id] = state
        facts.evidence[promise.id] = places
        if reason:
            facts.reasons[promise.id] = reason


def _whole(
    promise: Promise, run: ShapeRun, found: Slice, state: str, places: Places, facts: ShapeFacts
) -> tuple[str, Places]:
    """The state of a promise that is kept but for what its kernels leave out of the inputs that it names."""
    short = {name: (event.loc, _where_loaded(name, event)) for name, event in left_out(promise, found).items()}
    over = {name: (at, launched_from(event)) for name, (event, at) in coverage.stepped(promise, run, found).items()}
    for call in run.probes:
        if call.kind == "later":  # what is checked first is not what is timed long after
            late = reach(list(call.contents))
            short |= {name: (event.loc, _where_loaded(name, event)) for name, event in left_out(promise, late).items()}
            more = coverage.stepped(promise, run, late).items()
            over |= {name: (at, launched_from(event)) for name, (event, at) in more}
    once = one_for_all(found, promise.params.get("must_read", ()))
    for name, event in once.items():
        facts.seeds.append(_asked_of_one(name, event))
    if once:
        return "broken", [(e.loc, f"one element says whether others of {name} are read") for name, e in once.items()]
    missing = {**over, **short}
    known = {seed.fact.name for seed in facts.seeds if isinstance(seed.fact, UnreadInput)}
    for name, (loc, related) in missing.items():
        if name not in known:
            fact = UnreadInput(name=name, of="inputs", how="depend on all of")
            facts.seeds.append(ShapeFact(fact, loc, tuple(related)))
    anew = coverage.restarted(run, found) if promise.params.get("work") == "product" else None
    if anew is not None and not missing:
        fact = UnreadInput(name="earlier steps of the sequence", of="inputs", how="depend on all")
        facts.seeds.append(ShapeFact(fact, anew[1], tuple(launched_from(anew[0]))))
        return "broken", [(anew[1], "the state begins at zero in each piece of the sequence")]
    if not missing:
        return state, places
    return "broken", [(loc, f"a part of {name} is not read") for name, (loc, _) in missing.items()]


def _asked_of_one(name: str, event: Event) -> ShapeFact:
    fact = UnreadInput(name=name, of="inputs", how="depend on all of")
    return ShapeFact(fact, event.loc, tuple(_where_loaded(name, event)))


def _where_loaded(name: str, event: Event) -> list[tuple[ir.Loc | None, str]]:
    """The places in a kernel where an input is loaded, and where the launch was reached from."""
    held = event.attrs.get("contents", {})
    named = {at for at, content in held.items() if content.label.partition(":")[2] == name}
    places = dict.fromkeys(load.loc for facts in facts_of(event) for load in facts.loads if load.storage in named)
    return [*((loc, "this is all that is loaded of it") for loc in list(places)[:4]), *launched_from(event)[1:]]
