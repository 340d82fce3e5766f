"""`compensated-sum`: a kernel on the way keeps the rounding errors of its sum."""

from __future__ import annotations

from kbh_lint.analyses import compensation
from kbh_lint.analyses.flow import last_call
from kbh_lint.analyses.promises.asked import Asked, Judgement, Places, not_worked_on
from kbh_lint.analyses.promises.holes import unread_reason
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.analyses.work import category
from kbh_lint.base.facts import Compensation


def compensated(asked: Asked) -> Judgement:
    """Some kernel on the way compensates its sum of exponentials."""
    run, found, work, facts = asked.run, asked.found, asked.work, asked.facts
    launches = [event for event in work.authored if event.kind == "launch"]
    together = compensation.of_launches(launches, found, last_call(run))
    if together is None:
        seen = [(compensation.of_launch(event, found), launched_from(event)) for event in launches]
    else:
        seen = [(together, [place for event in launches for place in launched_from(event)])]
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
    missing = not_worked_on(asked, ("over",))
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
