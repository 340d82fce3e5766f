"""The state of each promise on one shape: kept by positive evidence, broken by contrary evidence, else unproven."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kbh_lint.analyses import compensation, coverage
from kbh_lint.analyses.flow import Slice, facts_of, is_unknown, last_call, reach, used_inputs
from kbh_lint.analyses.left_out import left_out
from kbh_lint.analyses.packing import Packing
from kbh_lint.analyses.seeds import ShapeFact, ShapeFacts, launched_from
from kbh_lint.analyses.work import Work, category, computes, does_arithmetic
from kbh_lint.base import dtypes, ir
from kbh_lint.base.facts import Compensation, Selection, UnreadInput
from kbh_lint.host.explore.probes import result_contents
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Content, Event
from kbh_lint.problems import Contract, Problem, Promise
from kbh_lint.problems.promise_kinds import PromiseKind

Places = list[tuple[ir.Loc | None, str]]
Judgement = tuple[str, Places, str]  # state, evidence, reason when unproven


def judge(
    problem: Problem, contract: Contract, run: ShapeRun, found: Slice, work: Work, packed: Packing, facts: ShapeFacts,
    usual: bool = True,
) -> None:  # fmt: skip
    """Fills in the promise states of `facts`, and adds the shape facts that judging finds.

    `usual`: no branch that the code alone does not decide was taken the other way, so that sizes are as they are.
    """
    for promise in problem.promises_for(contract.id):
        places: Places = []
        if not run.calls:
            state, reason = "unproven", run.stopped or "forward was not followed to its end"
        else:
            state, places, reason = _JUDGES[promise.kind](promise, run, found, work, packed, facts)
        if usual and state not in ("broken", "unproven"):
            state, places = _whole(promise, run, found, state, places, facts)
        hole = "" if state in ("broken", "unproven") else not_followed(run, found, work)
        if hole:
            state, places, reason = "unproven", [], hole
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
            late = reach(call.result)
            short |= {name: (event.loc, _where_loaded(name, event)) for name, event in left_out(promise, late).items()}
            more = coverage.stepped(promise, run, late).items()
            over |= {name: (at, launched_from(event)) for name, (event, at) in more}
    missing = {**over, **short}
    known = {seed.fact.name for seed in facts.seeds if isinstance(seed.fact, UnreadInput)}
    for name, (loc, related) in missing.items():
        if name not in known:
            fact = UnreadInput(name=name, of="inputs", how="depend on all of")
            facts.seeds.append(ShapeFact(fact, loc, tuple(related)))
    if not missing:
        return state, places
    return "broken", [(loc, f"a part of {name} is not read") for name, (loc, _) in missing.items()]


def _where_loaded(name: str, event: Event) -> list[tuple[ir.Loc | None, str]]:
    """The places in a kernel where an input is loaded, and where the launch was reached from."""
    held = event.attrs["contents"]
    named = {at for at, content in held.items() if content.label.partition(":")[2] == name}
    places = dict.fromkeys(load.loc for facts in facts_of(event) for load in facts.loads if load.storage in named)
    return [*((loc, "this is all that is loaded of it") for loc in list(places)[:4]), *launched_from(event)[1:]]


def not_followed(run: ShapeRun, found: Slice, work: Work) -> str:
    """What was not looked at and may have made the result, or a part of it: beside that no evidence is enough."""
    for event in work.authored:
        if event.attrs.get("cut"):
            return str(event.attrs["cut"])
    on_the_way = (hole for event in (*work.unread, *work.library, *work.authored) if (hole := _hole_in(event)))
    return run.rewritten or next(on_the_way, "") or _unread_beside(run, found) or _unknown_later(run)


def _unknown_later(run: ShapeRun) -> str:
    """What calls after the second one return that nobody knows: a value, or a tensor that no input went into."""
    of_inputs = _made_of_inputs(result_contents(last_call(run)))
    for call in run.probes:
        if call.kind == "undecided":
            if call.contents and all(c.event is not None and c.event.call < call.index for c in call.contents):
                return "where a later call cannot be told to compute, it returns what an earlier one computed"
        elif is_unknown(call.result) or of_inputs and not _made_of_inputs(call.contents):
            return "what later calls return is not known"
    return ""


def _made_of_inputs(contents: Sequence[Content]) -> bool:
    return any(label.startswith("input:") for label in outside(contents))


def _hole_in(event: Event) -> str:
    """What of an event could not be read: all of it, or something in its kernel."""
    if event.kind == "unread":
        return f"{event.name} could not be read"
    if event.attrs.get("foreign"):
        return f"what {event.attrs.get('symbol', event.name)} computes is not known"
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


def unread_reason(run: ShapeRun, found: Slice, work: Work) -> str:
    """Why a missing piece of evidence may only be unread: a sentence, or nothing."""
    hole = not_followed(run, found, work)
    if hole:
        return hole
    if run.stopped:
        return run.stopped
    if not found.events:
        return "nothing that makes the result was found"
    if found.unfilled:
        return "the result holds memory that nothing was seen to fill"
    return ""


def narrow_products(
    promise: Promise, run: ShapeRun, found: Slice, work: Work, packed: Packing, facts: ShapeFacts
) -> Judgement:
    """Every product fed by the narrow inputs runs on operands of the promised group of types (fp8)."""
    narrow = set(promise.params.get("narrow", ()))
    wanted = [u for u in work.products if set(u.inputs) & narrow]
    broken = [u for u in wanted if u.upcast]
    if broken:
        places: Places = [(s.loc, f"{s.source} becomes {s.target}") for u in broken for s in u.steps]
        return "broken", [*places, *((u.loc, f"the product runs on {u.operands[0]}") for u in broken)], ""
    group = dtypes.group(promise.kind.group)
    named = group & set(promise.params.get("product", group))
    good = [u for u in wanted if set(u.operands) <= named]
    if good and len(good) == len(wanted):
        return "kept", [(u.loc, f"{u.engine} on {u.operands[0]} x {u.operands[1]}") for u in good], ""
    return "unproven", [], unread_reason(run, found, work) or "no product of the inputs was found"


def _behind(event: Event) -> set[str]:
    """The inputs and state that all that an event reads was made of."""
    return {label.partition(":")[2] for label in outside([content for content, _ in event.reads])}


def _not_worked_on(keys: Iterable[str], promise: Promise, work: Work) -> list[str]:
    """The inputs that a promise names and that nothing which authored kernels read was made of."""
    names = [name for key in keys for name in promise.params.get(key, ())]
    read = outside([content for event in work.authored for content, _ in event.reads]) if names else {}
    known = {label.partition(":")[2] for label in read}
    return [name for name in dict.fromkeys(names) if name not in known]


def authored(
    promise: Promise, run: ShapeRun, found: Slice, work: Work, packed: Packing, facts: ShapeFacts
) -> Judgement:
    """The work is done in authored kernels, and the result depends on what they must read."""
    state, places, reason = _authored(promise, run, found, work)
    if state != "kept" or not promise.params.get("must_read"):
        return state, places, reason
    more, other, why = reads(promise, run, found, work, packed, facts)
    return (state, places, reason) if more == "kept" else (more, other, why)


def _authored(promise: Promise, run: ShapeRun, found: Slice, work: Work) -> Judgement:
    if work.blobs:
        return "broken", [(work.blobs[0].loc, "machine code without source makes the result")], ""
    heavy = [e for e in work.library if category(e) != "other" or e.attrs.get("foreign")]
    if promise.params.get("work") == "some" and any(computes(e) for e in work.authored) and not work.trifling:
        heavy = []
    if heavy:
        return "broken", [(e.loc, f"{e.attrs.get('symbol', e.name)} does this work") for e in heavy[:4]], ""
    hole = unread_reason(run, found, work)
    if not work.authored:
        if hole:
            return "unproven", [], hole
        return "broken", [(e.loc, f"{e.name} runs in torch") for e in found.events[:4]], ""
    doing = [e for e in work.authored if (computes if promise.params.get("work") == "some" else does_arithmetic)(e)]
    if promise.params.get("work") == "product":
        inputs = set(promise.params.get("inputs", ()))
        uses = [u for u in work.products if u.where != "library" and (not inputs or inputs & set(u.inputs))]
        if uses:
            return "kept", [(u.loc, f"an authored {u.engine} product") for u in uses[:4]], ""
        return "unproven", [], hole or "no product of the inputs was found in the authored kernels"
    missing = _not_worked_on(("inputs", "select_from"), promise, work)
    if missing and not hole:
        return "unproven", [], f"no authored kernel was seen to work on {', '.join(missing)}"
    if doing or not work.torch:
        return "kept", [(e.loc, f"{e.name} is launched here") for e in (doing or work.authored)[:4]], ""
    if hole:
        return "unproven", [], hole
    return "unproven", [], "the authored kernels were not seen to compute"


def selection(
    promise: Promise, run: ShapeRun, found: Slice, work: Work, packed: Packing, facts: ShapeFacts
) -> Judgement:
    """No library or built-in selection on the way."""
    found_ones = [(s.loc, s.fact) for s in facts.seeds if isinstance(s.fact, Selection)]
    bad = [(loc, f"{fact.symbol} selects") for loc, fact in found_ones if fact.scope == "device"]
    if bad:
        return "broken", bad[:4], ""
    state, places, reason = authored(promise, run, found, work, packed, facts)
    names = frozenset(promise.params.get("select_from", ()))
    if state == "kept" and names and not any(_orders(event, names) for event in work.authored):
        return "unproven", [], f"no authored kernel was seen to compare elements of {', '.join(sorted(names))}"
    return state, places, reason


_ORDERED = frozenset(("max", "index", "reduce", "exp", "product"))  # what tells elements apart, or counts them


def _orders(event: Event, names: frozenset[str]) -> bool:
    """Whether data of inputs decides anything in a kernel: a branch, an address, a choice, an extreme, a count."""
    if event.kind != "launch" or event.attrs["kernel"].language:
        return True  # not looked into
    behind = {at: {label.partition(":")[2] for label in outside([c])} for at, c in event.attrs["contents"].items()}
    own = {at for at, found in behind.items() if found & names}
    for f in facts_of(event):
        if f.unread or f.uses:
            return True
        groups = (f.choices, f.branches, f.bounds, f.waits, f.sums)
        stored = (o for store in f.stores for o in store.origins if o.flags & _ORDERED)
        decided = (o for group in groups for fact in group for o in fact.origins)
        if f.products or any(o.storage in own for o in (*stored, *decided)):
            return True
    return False


def reads(promise: Promise, run: ShapeRun, found: Slice, work: Work, packed: Packing, facts: ShapeFacts) -> Judgement:
    """The inputs named by `must_read` reach the result."""
    asserted = [name for name in promise.params.get("must_read", ()) if name in facts.equal]
    for name in asserted:
        fact = UnreadInput(name=name, of="inputs", how="allow unequal numbers in")
        facts.seeds.append(ShapeFact(fact, facts.equal[name]))
    if asserted:
        return "broken", [(facts.equal[name], f"only equal numbers in {name} get past this") for name in asserted], ""
    specs = run.binding.inputs if run.binding is not None else ()
    asked = promise.params.get("must_read", ())
    used = used_inputs(found, {spec.name: spec.value for spec in specs if isinstance(spec.value, int)}, asked)
    missing = [n for n in asked if n not in used]
    if not missing:
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


def _loads(found: Slice, name: str) -> list[ir.Loc]:
    """Where kernels load an input."""
    places: dict[ir.Loc, None] = {}
    for event in found.events:
        held = event.attrs.get("contents", {})
        own = {at for at, content in held.items() if content.label == f"input:{name}"}
        places |= {load.loc: None for f in facts_of(event) for load in f.loads if load.storage in own}
    return list(places)[:4]


def int4(promise: Promise, run: ShapeRun, found: Slice, work: Work, packed: Packing, facts: ShapeFacts) -> Judgement:
    """The packed weight is unpacked inside the kernel that multiplies it."""
    if packed.expanded:
        return (
            "broken",
            [place for s in packed.seeds for place in ((s.loc, "a full-width copy of the weight"), *s.related)][:6],
            "",
        )
    names, partners = (set(promise.params.get(key, ())) for key in ("packed", "with"))
    met = not partners or any(names & set(use.inputs) and partners & _behind(use.event) for use in work.products)
    read = {c.label.partition(":")[2] for c in found.outside}
    unscaled = [name for name in promise.params.get("scales", ()) if name not in read]
    if packed.inside and (unscaled or not met):
        left = f"the result was not seen to depend on {', '.join(unscaled)}"
        return (
            "unproven",
            [],
            left if unscaled else f"no product of the weight and {', '.join(sorted(partners))} was found",
        )
    if packed.inside:
        return "kept", list(dict.fromkeys(packed.inside))[:4], ""
    return (
        "unproven",
        [],
        unread_reason(run, found, work) or "no unpacking of the weight was found in the kernels that multiply",
    )


def compensated(
    promise: Promise, run: ShapeRun, found: Slice, work: Work, packed: Packing, facts: ShapeFacts
) -> Judgement:
    """Some kernel on the way compensates its sum of exponentials."""
    launches = [event for event in work.authored if event.kind == "launch"]
    seen = [(compensation.of_launch(event, found), launched_from(event)) for event in launches]
    together = compensation.of_launches(launches, found, last_call(run))
    if together is not None:
        seen = [(together, [place for _, at in seen for place in at])]
    states = {a.state for a, _ in seen}
    wide = [e for e in found.events if e.name == "sum" and e.kind == "op" and e.writes[0].dtype == "f64"]
    if wide and not states & {"effective", "precise", "unknown"}:
        shares = [(compensation.share_of_exponentials(e), e) for e in wide]
        doubled = [e for share, e in shares if share >= compensation.MIN_SHARE]
        if doubled:
            facts.seeds.append(ShapeFact(Compensation(state="precise"), doubled[0].loc))
            return "kept-by-precision", [(doubled[0].loc, "torch accumulates in f64")], ""
        if any(share for share, _ in shares):
            states.add("unknown")
    missing = _not_worked_on(("over",), promise, work)
    for state, verdict in (("effective", "kept"), ("precise", "kept-by-precision")):
        if state in states and missing:
            return "unproven", [], f"the sum was not seen to be over {', '.join(missing)}"
        if state in states:
            places: Places = [
                (loc, "compensates" if state == "effective" else "accumulates in f64")
                for a, _ in seen
                if a.state == state
                for loc in a.sites
            ]
            facts.seeds.append(ShapeFact(Compensation(state=state), places[0][0] if places else None))
            return verdict, places[:4], ""
    softmax = [e for e in work.library if category(e) == "softmax"]
    unknown = ShapeFact(Compensation(state="unknown"), None)  # so that no rule calls the sum uncompensated
    if not seen and not softmax and not work.torch:
        facts.seeds.append(unknown)
        return "unproven", [], unread_reason(run, found, work) or "no kernel was found"
    if "unknown" in states or work.unread:
        facts.seeds.append(unknown)
        reason = next((u[0] for a, _ in seen for u in a.unread), "a kernel could not be evaluated")
        return "unproven", [], reason
    vacuous = [(a, at) for a, at in seen if a.state == "vacuous"]
    state = "vacuous" if vacuous else "absent"
    chosen = vacuous or seen
    lead: Places = [(loc, "the residual is computed here") for a, _ in chosen for loc in a.sites]
    lead += [(loc, "summed here without compensation") for a, _ in seen for loc in a.sums]
    lead += [place for _, at in seen for place in at]
    lead += [(e.loc, f"{e.name} in torch") for e in (*softmax, *work.torch)[:3]]
    if lead:
        facts.seeds.append(ShapeFact(Compensation(state=state), lead[0][0], tuple(lead[1:])))
    return "broken", lead[:6], ""


_JUDGES: dict[PromiseKind, Callable[[Promise, ShapeRun, Slice, Work, Packing, ShapeFacts], Judgement]] = {
    **{kind: narrow_products for kind in PromiseKind if kind.group},
    PromiseKind.AUTHORED_COMPUTE: authored,
    PromiseKind.COMPENSATED_SUM: compensated,
    PromiseKind.INT4_PACKED: int4,
    PromiseKind.AUTHORED_SELECTION: selection,
    PromiseKind.PAGED_ONLINE_SOFTMAX: authored,
    PromiseKind.RAGGED_OFFSETS: reads,
}
if _JUDGES.keys() != set(PromiseKind):
    raise RuntimeError("each kind of promise needs an analysis: a promise that nobody looks at would be kept")
