"""Products and sums that run narrower than the problem's `narrowest` allows, and series without all their terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from kbh_lint import registry
from kbh_lint.analyses.flow import AUTHORED, Slice, facts_of, roots
from kbh_lint.analyses.products import ProductUse, effective, effective_bits
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.analyses.work import Work
from kbh_lint.base import facts as kinds
from kbh_lint.base import ir
from kbh_lint.base.dtypes import BITS, FLOATS
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Buffer, Descriptor
from kbh_lint.host.gpu.kernel_cache import agree
from kbh_lint.host.values.tensors import Event
from kbh_lint.kernels.core.facts import Product, ShortSeries, Store, Sum
from kbh_lint.problems import Problem

MAX_BITS = 8  # of numbers that no rounding of a result explains
MAX_SERIES = 8  # bindings of one kernel that differ in what decides
Other = tuple[Work, Slice]
TENSOR_ENGINES = ("dot", "mma", "wmma")


@dataclass(frozen=True, slots=True)
class Narrow:
    """One place where arithmetic is too narrow. `what` is operands, accumulators or sums, `types` what it runs on.
    `part`: of accumulators that hold the sum of a group, which a wide one is made of, or of one thread's; `by_size`: of
    totals that begin with the second part of a sum, which small shapes do not have."""

    what: str
    types: tuple[str, ...]
    inputs: tuple[str, ...]
    loc: ir.Loc | None
    use: ProductUse | None = None
    part: bool = False
    by_size: bool = False


def narrow(problem: Problem, work: Work, found: Slice) -> list[Narrow]:
    """All places of one shape where products, accumulators or sums are narrower than the problem's `narrowest`
    allows."""
    limit = {name: effective_bits(dtype) or 0 for name, dtype in problem.narrowest.items()}
    out = [*_rounded(found, limit.get("inputs", limit.get("operands", 0))), *_cut_down(work, limit.get("inputs", 0))]
    for use in work.products:
        types = operand_types(use)
        if use.narrowed and any(0 < (effective_bits(t) or 0) < limit.get("operands", 0) for t in types):
            out.append(Narrow("operands", types, use.narrowed, use.loc, use))
        bits = effective_bits(use.accumulator) if use.accumulator in FLOATS else None
        if bits is not None and bits < limit.get("accumulators", 0):
            if use.engine in TENSOR_ENGINES:
                part = _added_on(use, limit["accumulators"])
                out.append(Narrow("accumulators", (use.accumulator,), use.inputs, use.loc, use, part))
            elif _carries(use):
                out.append(Narrow("accumulators", (use.accumulator,), use.inputs, use.loc, use, True))
        out += [
            Narrow(
                "accumulators",
                (total.dtype,),
                use.inputs,
                total.loc,
                use,
                _added_on(use, limit["accumulators"], total.by),
            )  # fmt: skip
            for total in _rounded_totals(use, limit.get("accumulators", 0))
        ]
        for store, before in _added_to_stored(use, work, limit.get("accumulators", 0)):
            out += [
                Narrow("accumulators", (store.dtype,), each.inputs, store.loc, each, by_size=True)
                for each in (use, before)
            ]
    narrow_sums = _narrower(limit.get("sums", 0))
    for event in work.authored:
        for facts in facts_of(event):
            for total in facts.sums:
                if total.weighted and total.dtype in _narrower(limit.get("accumulators", 0)):
                    out.append(Narrow("accumulators", (total.dtype,), (), total.loc, None, True))
                elif total.dtype in narrow_sums and any("exp" in o.flags for o in total.origins):
                    out.append(Narrow("sums", (total.dtype,), (), total.loc))
        out += [
            Narrow("accumulators", (dtype,), use.inputs, loc, use, True)
            for use, dtype, loc in _rounded_parts(event, work, limit.get("accumulators", 0))
        ]
    return out


@cache
def _narrower(limit: int) -> frozenset[str]:
    """The floating-point types with fewer bits than so many."""
    return frozenset(dtype for dtype in FLOATS if (effective_bits(dtype) or 0) < limit)


def _rounded_parts(event: Event, work: Work, limit: int) -> Iterator[tuple[ProductUse, str, ir.Loc]]:
    """The sums, by launches that multiply nothing, of what launches before stored of products, rounded to narrow
    memory: parts of one total. Each with that product, the type of the memory and the place of the sum."""
    held = event.attrs.get("contents", {})
    for facts in facts_of(event):
        for total in facts.sums if not facts.products else ():
            read = {o.storage for o in total.origins if "index" not in o.flags} & held.keys() if _plain(total) else ()
            for content in [held[storage] for storage in read]:
                narrow = content.dtype in FLOATS and (effective_bits(content.dtype) or 0) < limit
                if narrow and content.event is not event and content.call == event.call:
                    uses = (use for use in work.products if use.event is content.event and len(use.inputs) > 1)
                    yield from ((use, content.dtype, total.loc) for use in uses)


def _plain(total: Sum) -> bool:
    """Whether a sum in floating point adds what was loaded as it is."""
    return total.dtype in FLOATS and not total.weighted and not any(o.flags & {"product", "exp"} for o in total.origins)


def _rounded_totals(use: ProductUse, limit: int) -> Iterator[Sum]:
    """The totals that a loop keeps in a narrow type, of a product; the powers of a series are none."""
    followed = use.engine in TENSOR_ENGINES or use.engine == "fma" and len(use.inputs) > 1
    narrower = _narrower(limit)
    for facts in [facts.plain() for facts in facts_of(use.event)] if followed else ():
        products = [p for p in facts.products if p.loc == use.loc and p.accumulator == use.accumulator]
        for total in facts.sums:
            if total.dtype in narrower and total.carried and not total.weighted:
                if any(_totals(total, product) for product in products):
                    yield total


def _totals(total: Sum, product: Product) -> bool:
    """Whether a total is that of a product, and no power of a series of powers."""
    if total.of:
        return product.loc in total.of and not _of_products(product)
    return product.kind != "fma" and total.loc != product.loc and _sums_up(product, total)


def _added_to_stored(use: ProductUse, work: Work, limit: int) -> Iterator[tuple[Store, ProductUse]]:
    """The stores to narrow memory of a product that is added to what is there, where a launch before left a product of
    the same inputs on each side: a total of parts of a sum. Each with that product."""
    for facts in facts_of(use.event) if use.engine in TENSOR_ENGINES and len(use.inputs) > 1 else ():
        products = [p for p in facts.products if p.loc == use.loc and p.accumulator == use.accumulator]
        for store in [s for s in facts.stores if s.dtype in _narrower(limit)]:
            before = _left_there(use.event, store)
            if before is not None and any(_holds(store, product) for product in products):
                others = (one for one in work.products if one.event is before)
                yield from (
                    (store, one) for one in others if one.sides == use.sides and set(one.inputs) == set(use.inputs)
                )


def _left_there(event: Event, store: Store) -> Event | None:
    """What else of the same call left that to which a launch adds by a store; None where it does not add."""
    held = event.attrs.get("contents", {}).get(store.storage) if store.added else None
    before: Event | None = held.event if held is not None else None
    return before if before is not None and before is not event and before.call == event.call else None


def _added_on(use: ProductUse, limit: int, but: frozenset[ir.Loc] = frozenset()) -> bool:
    """Whether a loop adds the results of a product with narrow accumulators to a wide sum: each holds a group's. What
    is summed at the places `but` is added to the narrow one."""
    return any(
        total.carried and (effective_bits(total.dtype) or 0) >= limit and _sums_up(product, total)
        for facts in facts_of(use.event)
        for product in facts.products
        if product.loc == use.loc and product.accumulator == use.accumulator
        for total in facts.sums
        if total.loc != product.loc  # what a product adds to itself is no other sum
        and total.loc not in but
    )


def _sums_up(product: Product, total: Sum) -> bool:
    summed = {o.storage for o in total.origins if "product" in o.flags and "exp" not in o.flags}
    return summed.issuperset(o.storage for o in product.a_origins | product.b_origins if "index" not in o.flags)


def _holds(store: Store, product: Product) -> bool:
    """Whether what is stored holds a product: of one that an exponential weighs, only the other factor is asked for."""
    summed = {o.storage for o in store.origins if "product" in o.flags and "exp" not in o.flags}
    factors = {o.storage for o in product.a_origins | product.b_origins if not o.flags & {"index", "exp"}}
    return bool(factors) and summed >= factors


def _carries(use: ProductUse) -> bool:
    """Whether a multiply-add of one thread adds up products of two tensors in a loop."""
    here = (total for facts in facts_of(use.event) for total in facts.sums if total.loc == use.loc)
    return use.engine == "fma" and len(use.inputs) > 1 and any(t.carried and t.dtype == use.accumulator for t in here)


def _rounded(found: Slice, limit: int) -> Iterator[Narrow]:
    """Inputs that torch rounds to a narrower type before a kernel works on them, whatever that multiplies in."""
    if not any(event.kind in AUTHORED for event in found.events):
        return
    for event in found.events:
        target = event.attrs.get("to")
        bits = effective_bits(target) if event.kind == "copy" and target in FLOATS else None
        if bits is None or bits >= limit or not event.attrs.get("cast"):
            continue
        sources = [r for content, _ in event.reads for r in roots(content) if r.content.label.startswith("input:")]
        names = {r.name for r in sources if r.content.dtype in FLOATS and BITS[r.content.dtype] > bits}
        if names:
            yield Narrow("inputs", (str(target),), tuple(sorted(names)), event.loc)


def _cut_down(work: Work, limit: int) -> Iterator[Narrow]:
    """Inputs that a kernel rounds to eight bits or fewer where it multiplies no matrices, which would say so."""
    for event in work.authored if limit > MAX_BITS else ():
        held = event.attrs.get("contents", {})
        for facts in facts_of(event):
            for cast in facts.casts:
                if cast.target not in FLOATS or BITS[cast.target] > MAX_BITS:
                    continue
                read = (held[o.storage] for o in cast.origins if o.storage in held and "index" not in o.flags)
                sources = [
                    r.content for content in read for r in roots(content) if r.content.label.startswith("input:")
                ]
                names = {c.label.partition(":")[2] for c in sources if c.dtype in FLOATS and BITS[c.dtype] > MAX_BITS}
                if names:
                    yield Narrow("inputs", (cast.target,), tuple(sorted(names)), cast.loc)


def operand_types(use: ProductUse) -> tuple[str, ...]:
    """The element types on which a product really multiplies: tf32 in place of fp32 where its mode says so."""
    return tuple(effective(t, use.mode) for t in use.operands)


def downcasts(
    problem: Problem, found: list[Narrow], work: Work, checked: Other | None, first: Other | None
) -> list[ShapeFact]:
    """Facts `downcast`: one for each different entry of `found`.

    `checked` is the work at the untimed shape that stands for this one, `first` the work of the first call at this
    shape; either is None where it was not followed. They show whether only timed calls are narrow.
    """
    fed = [u for u in work.products if u.inputs and u.engine != "fma"]
    whole = bool(fed) and all(any(n.use is u and not n.part for n in found) for u in fed)
    out: list[ShapeFact] = []
    seen = set()
    for item in found:
        key = (item.what, item.types, item.loc)
        if key in seen:
            continue
        seen.add(key)
        split = "none"
        if _differs(problem, item, first):
            split = "calls"
        elif _differs(problem, item, checked):
            split = "shapes"
        allowed = problem.narrowest.get(item.what, problem.narrowest.get("operands", "?"))
        every = whole and item.use is not None and not item.part or item.what == "inputs"
        fact = kinds.Downcast(
            what=item.what,
            types=item.types,
            allowed=allowed,
            inputs=item.inputs,
            share="all" if every else "some",
            split=split,
        )
        related = launched_from(item.use.event) if item.use is not None else []
        related += [(s.loc, f"{s.source} becomes {s.target} here") for s in item.use.steps] if item.use else []
        out.append(ShapeFact(fact, item.loc, tuple(related)))
    return out


def _differs(problem: Problem, item: Narrow, other: Other | None) -> bool:
    """Whether other work of the same problem does the same kind of thing, and nowhere so narrow."""
    if other is None or item.by_size:
        return False
    work, found = other
    if not (work.products if item.what in ("operands", "accumulators") else work.authored):
        return False
    return not _kinds(narrow(problem, work, found)) & _kinds([item])


def _kinds(found: Iterable[Narrow]) -> set[str]:
    return {item.what for item in found}


def cut_short(work: Work) -> list[ShapeFact]:
    """Facts `short-series`: kernels that invert a triangular matrix by a power series and leave out terms that are not
    zero."""
    return [
        ShapeFact(kinds.ShortSeries(terms=s.terms, needed=s.needed), s.loc, tuple(launched_from(event)))
        for event, s in short_series(work.authored)
    ]


def short_series(events: Iterable[Event]) -> Iterator[tuple[Event, ShortSeries]]:
    """Yields each launch among `events` whose kernel ends a power series of a triangular matrix before the terms
    vanish, with that series."""
    for event in events:
        for facts, binding in zip(event.attrs.get("facts", ()), event.attrs.get("bindings", ()), strict=False):
            if any(p.kind == "dot" and _of_products(p) for p in facts.products):
                yield from ((event, found) for found in _series_of(event, binding))


def _of_products(product: Product) -> bool:
    """Whether a square tile of products is multiplied by another, as the powers in a series are."""
    sides = (product.a_origins, product.b_origins)
    return all(any("product" in o.flags for o in side) for side in sides)


def _series_of(event: Event, binding: dict[str, object]) -> list[ShortSeries]:
    """The short series of one configuration, looked for once for all that cannot differ in them."""
    kernel = event.attrs["kernel"]
    look = registry.of_kernel(kernel.language).short_series if kernel.node.kind == "python" else None
    if look is None:
        return []
    known: list[tuple[dict[str, Any], frozenset[str], list[ShortSeries]]]
    known = event.attrs["answered"].here.setdefault(("series", id(kernel.node)), [])
    plain = {name: value for name, value in binding.items() if not isinstance(value, (Buffer, Descriptor))}
    for other, decided, found in known:
        if agree(plain, other, decided):
            return found
    if len(known) >= MAX_SERIES:
        return []
    made: list[ShortSeries]
    made, decided = look(kernel, binding, event.attrs["answered"].budgets.kernels)
    known.append((plain, decided, made))
    return made
