"""`compensated-sum`: a kernel on the way keeps the rounding errors of its sum."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kbh_lint.analyses import compensation
from kbh_lint.analyses.flow import last_call
from kbh_lint.analyses.promises.asked import Asked, Judgement, Places, not_worked_on
from kbh_lint.analyses.promises.holes import unread_reason
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.analyses.work import category
from kbh_lint.base.facts import Compensation
from kbh_lint.host.values.tensors import Event

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.compensation import CompensationFacts

    Seen = list[tuple[CompensationFacts, Places]]  # what an evaluation came to, and where that is launched


def compensated(asked: Asked) -> Judgement:
    """Judges whether a kernel on the way to the result compensates the rounding errors of its sum of exponentials."""
    seen = _evaluated(asked)
    states = {a.state for a, _ in seen}
    if not states & {"effective", "precise", "unknown"}:
        sums = _sums_in_f64(asked)
        doubled = next((event for share, event in sums if share >= compensation.MIN_SHARE), None)
        if doubled is not None:
            asked.facts.seeds.append(ShapeFact(Compensation(state="precise"), doubled.loc))
            return "kept-by-precision", [(doubled.loc, "torch accumulates in f64")], ""
        if any(share for share, _ in sums):
            states.add("unknown")
    return _kept(asked, seen, states) or _left_open(asked, seen, states) or _broken(asked, seen)


def _evaluated(asked: Asked) -> Seen:
    """What the authored launches come to on numbers: together where that can be told, else each by itself."""
    launches = [event for event in asked.work.authored if event.kind == "launch"]
    together = compensation.of_launches(launches, asked.found, last_call(asked.run))
    if together is None:
        return [(compensation.of_launch(event, asked.found), launched_from(event)) for event in launches]
    return [(together, [place for event in launches for place in launched_from(event)])]


def _sums_in_f64(asked: Asked) -> list[tuple[float, Event]]:
    """The sums of torch's in f64, each with the share of what it sums that are exponentials."""
    wide = [e for e in asked.found.events if e.name == "sum" and e.kind == "op" and e.writes[0].dtype == "f64"]
    return [(compensation.share_of_exponentials(event), event) for event in wide]


def _kept(asked: Asked, seen: Seen, states: Collection[str]) -> Judgement | None:
    """The best state that an evaluation came to, when the sum is over what the promise names."""
    state = next((one for one in _KEPT if one in states), None)
    if state is None:
        return None
    missing = not_worked_on(asked, ("over",))
    if missing:
        return "unproven", [], f"the sum was not seen to be over {', '.join(missing)}"
    verdict, how = _KEPT[state]
    places: Places = [(loc, how) for a, _ in seen if a.state == state for loc in a.sites]
    asked.facts.seeds.append(ShapeFact(Compensation(state=state), places[0][0] if places else None))
    return verdict, places[:4], ""


_KEPT = {  # by state, the best first: the verdict, and what is said of where
    "effective": ("kept", "compensates"),
    "precise": ("kept-by-precision", "accumulates in f64"),
}


def _left_open(asked: Asked, seen: Seen, states: Collection[str]) -> Judgement | None:
    """Where nothing was found, or some of it could not be evaluated."""
    work = asked.work
    if not seen and not _softmax(asked) and not work.torch:
        reason = unread_reason(asked.run, asked.found, work) or "no kernel was found"
    elif "unknown" in states or work.unread:
        reason = next((u[0] for a, _ in seen for u in a.unread), "a kernel could not be evaluated")
    else:
        return None
    asked.facts.seeds.append(ShapeFact(Compensation(state="unknown"), None))  # so that no rule calls it uncompensated
    return "unproven", [], reason


def _broken(asked: Asked, seen: Seen) -> Judgement:
    vacuous = [(a, at) for a, at in seen if a.state == "vacuous"]
    state = "vacuous" if vacuous else "absent"
    lead: Places = [(loc, "the residual is computed here") for a, _ in vacuous or seen for loc in a.sites]
    lead += [(loc, "summed here without compensation") for a, _ in seen for loc in a.sums]
    lead += [place for _, at in seen for place in at]
    lead += [(e.loc, f"{e.name} in torch") for e in (*_softmax(asked), *asked.work.torch)[:3]]
    if lead:
        asked.facts.seeds.append(ShapeFact(Compensation(state=state), lead[0][0], tuple(lead[1:])))
    return "broken", lead[:6], ""


def _softmax(asked: Asked) -> list[Event]:
    return [e for e in asked.work.library if category(e) == "softmax"]
