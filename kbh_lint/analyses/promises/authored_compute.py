"""`authored-compute`, `paged-online-softmax`: the work is done in kernels of the submission."""

from __future__ import annotations

from kbh_lint.analyses.promises.asked import Asked, Judgement, not_worked_on
from kbh_lint.analyses.promises.holes import unread_reason
from kbh_lint.analyses.promises.ragged_offsets import reads
from kbh_lint.analyses.work import category, computes, does_arithmetic, exchanges
from kbh_lint.host.values.tensors import Event


def authored(asked: Asked) -> Judgement:
    """Judges whether authored kernels do the work, and whether the result depends on the inputs of `must_read`."""
    promise = asked.promise
    state, places, reason = _authored(asked)
    if state != "kept" or not promise.params.get("must_read"):
        return state, places, reason
    more, other, why = reads(asked)
    return (state, places, reason) if more == "kept" else (more, other, why)


def _authored(asked: Asked) -> Judgement:
    found, work = asked.found, asked.work
    if work.blobs:
        return "broken", [(work.blobs[0].loc, "machine code without source makes the result")], ""
    heavy = _done_by_others(asked)
    if heavy:
        return "broken", [(e.loc, f"{e.attrs.get('symbol', e.name)} does this work") for e in heavy[:4]], ""
    hole = unread_reason(asked.run, found, work)
    if not work.authored:
        if hole:
            return "unproven", [], hole
        return "broken", [(e.loc, f"{e.name} runs in torch") for e in found.events[:4]], ""
    if asked.promise.params.get("work") == "product":
        return _multiplied(asked, hole)
    missing = not_worked_on(asked, ("inputs", "select_from"))
    if missing and not hole:
        return "unproven", [], f"no authored kernel was seen to work on {', '.join(missing)}"
    doing = _doing(asked)
    if doing or not work.torch:
        return "kept", [(e.loc, f"{e.name} is launched here") for e in (doing or work.authored)[:4]], ""
    return "unproven", [], hole or "the authored kernels were not seen to compute"


def _done_by_others(asked: Asked) -> list[Event]:
    """What libraries do of the work; nothing where authored kernels have to do some of it alone, and do."""
    work = asked.work
    if asked.promise.params.get("work") == "some" and any(computes(e) for e in work.authored) and not work.trifling:
        return []
    return [e for e in work.library if category(e) != "other" or e.attrs.get("foreign")]


def _multiplied(asked: Asked, hole: str) -> Judgement:
    """The work is a product of the inputs."""
    inputs = set(asked.promise.params.get("inputs", ()))
    uses = [u for u in asked.work.products if u.where != "library" and (not inputs or inputs & set(u.inputs))]
    if uses:
        return "kept", [(u.loc, f"an authored {u.engine} product") for u in uses[:4]], ""
    return "unproven", [], hole or "no product of the inputs was found in the authored kernels"


def _doing(asked: Asked) -> list[Event]:
    """The authored kernels that do the work: they compute, or else exchange what is to be sorted."""
    params, authored = asked.promise.params, asked.work.authored
    works = computes if params.get("work") == "some" else does_arithmetic
    return [e for e in authored if works(e)] or [
        e for e in authored if exchanges(e, frozenset(params.get("select_from", ())))
    ]
