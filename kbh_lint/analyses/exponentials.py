"""Exponentials that a reference takes and that kernels replace by arithmetic alone.

Sums, products and quotients make rational functions. One of a few terms follows an exponential on a short range only,
unless the power of two is split off: by a function, or by building the number's exponent in its bits, which changes
types on the way. Where neither is anywhere on the way to a result, it is right on a part of the legal inputs.
"""

from __future__ import annotations

from kbh_lint.analyses.flow import Slice, facts_of
from kbh_lint.analyses.reference import Traits
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.analyses.work import Work
from kbh_lint.base import ir
from kbh_lint.base.facts import ArithmeticExp
from kbh_lint.host.values.tensors import Content, Event
from kbh_lint.kernels.core.facts import KernelFacts, Origin

TAKEN = frozenset("exp softmax log_softmax logsumexp".split())
FUNCTIONS = TAKEN | frozenset("exp2 expm1 pow sigmoid silu tanh softplus ldexp".split())


def by_arithmetic(work: Work, found: Slice, reference: Traits) -> list[ShapeFact]:
    """Facts `arithmetic-exp`: inputs that a kernel sums after arithmetic alone, where the reference takes exponentials
    of them."""
    if not any(name in TAKEN for name, _ in reference.steps) or work.blobs or work.unread or found.unfilled:
        return []
    names = {event.name.rsplit(".", 1)[-1].rsplit("::", 1)[-1] for event in found.events if event.kind != "launch"}
    if names & FUNCTIONS:
        return []
    out: dict[str, ShapeFact] = {}
    for event in work.authored:
        for facts in facts_of(event):
            if facts.unread or facts.uses or any("exp" in o.flags or "cast" in o.flags for o in _origins(facts)):
                return []
            for name, loc in _sums(event, facts):
                out.setdefault(name, ShapeFact(ArithmeticExp(input=name), loc, tuple(launched_from(event))))
    return list(out.values())


def _origins(facts: KernelFacts) -> list[Origin]:
    return [o for total in facts.sums for o in total.origins] + [o for store in facts.stores for o in store.origins]


def _sums(event: Event, facts: KernelFacts) -> list[tuple[str, ir.Loc]]:
    """The inputs that are summed up after arithmetic, with the places."""
    held: dict[int, Content] = event.attrs["contents"]
    out = []
    for total in facts.sums if facts.arithmetic else ():
        for origin in total.origins:
            content = held.get(origin.storage)
            if content is not None and content.label.startswith("input:") and content.dtype == "f32":
                out.append((content.label.partition(":")[2], total.loc))
    return out
