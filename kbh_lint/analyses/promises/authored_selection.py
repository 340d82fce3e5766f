"""`authored-selection`: no library selects; kernels of the submission do."""

from __future__ import annotations

from kbh_lint import registry
from kbh_lint.analyses.flow import facts_of
from kbh_lint.analyses.promises.asked import Asked, Judgement
from kbh_lint.analyses.promises.authored_compute import authored
from kbh_lint.base.facts import Selection
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.tensors import Event


def selection(asked: Asked) -> Judgement:
    """Judges whether authored kernels select, with no library and no built-in selection on the way to the result."""
    promise, work, facts = asked.promise, asked.work, asked.facts
    found_ones = [(s.loc, s.fact) for s in facts.seeds if isinstance(s.fact, Selection)]
    bad = [(loc, f"{fact.symbol} selects") for loc, fact in found_ones if fact.scope == "device"]
    if bad:
        return "broken", bad[:4], ""
    state, places, reason = authored(asked)
    names = frozenset(promise.params.get("select_from", ()))
    if state == "kept" and names and not any(_orders(event, names) for event in work.authored):
        return "unproven", [], f"no authored kernel was seen to compare elements of {', '.join(sorted(names))}"
    return state, places, reason


_ORDERED = frozenset(("max", "index", "reduce", "exp", "product"))  # what tells elements apart, or counts them


def _orders(event: Event, names: frozenset[str]) -> bool:
    """Whether data of inputs decides anything in a kernel: a branch, an address, a choice, an extreme, a count."""
    if event.kind != "launch" or not registry.by_pointers(event.attrs["kernel"].language):
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
