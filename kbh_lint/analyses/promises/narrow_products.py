"""`fp8-products` and its like: the products run on the promised group of element types."""

from __future__ import annotations

from kbh_lint.analyses.products import ProductUse
from kbh_lint.analyses.promises.asked import Asked, Judgement, Places
from kbh_lint.analyses.promises.holes import unread_reason
from kbh_lint.base import architectures, dtypes


def narrow_products(asked: Asked) -> Judgement:
    """Judges whether every product of the narrow inputs runs on operands of the promised group of types, such as
    fp8."""
    promise, run, found, work = asked.promise, asked.run, asked.found, asked.work
    narrow = set(promise.params.get("narrow", ()))
    wanted = [u for u in work.products if set(u.inputs) & narrow]
    broken = [u for u in wanted if u.upcast]
    if broken:
        places: Places = [(s.loc, f"{s.source} becomes {s.target}") for u in broken for s in u.steps]
        return "broken", [*places, *((u.loc, f"the product runs on {u.operands[0]}") for u in broken)], ""
    pinned = [u for u in wanted if not architectures.multiplies(_built_for(u), promise.kind.group)]
    if pinned:
        return (
            "broken",
            [(u.loc, f"built for an architecture without products of {promise.kind.group}") for u in pinned],
            "",
        )
    group = dtypes.group(promise.kind.group)
    named = group & set(promise.params.get("product", group))
    good = [u for u in wanted if set(u.operands) <= named]
    if good and len(good) == len(wanted):
        return "kept", [(u.loc, f"{u.engine} on {u.operands[0]} x {u.operands[1]}") for u in good], ""
    return "unproven", [], unread_reason(run, found, work) or "no product of the inputs was found"


def _built_for(use: ProductUse) -> architectures.Capability:
    """The architecture that a CUTLASS type names; the newest for products of another kind, and where it names none."""
    kind = use.event.attrs.get("cutlass")
    return max(architectures.ARCHITECTURES) if kind is None or kind.arch is None else divmod(kind.arch, 10)
