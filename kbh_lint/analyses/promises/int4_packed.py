"""`int4-packed`: the weight stays packed until the kernel that multiplies it."""

from __future__ import annotations

from kbh_lint.analyses.promises.asked import Asked, Judgement, behind
from kbh_lint.analyses.promises.holes import unread_reason


def int4(asked: Asked) -> Judgement:
    """Judges whether the packed weight is unpacked inside the kernel that multiplies it, and not before."""
    promise, run, found, work, packed = asked.promise, asked.run, asked.found, asked.work, asked.packed
    if packed.expanded:
        return (
            "broken",
            [place for s in packed.seeds for place in ((s.loc, "a full-width copy of the weight"), *s.related)][:6],
            "",
        )
    names, partners = (set(promise.params.get(key, ())) for key in ("packed", "with"))
    met = not partners or any(names & set(use.inputs) and partners & behind(use.event) for use in work.products)
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
