"""Packed int4 weights: unpacked inside the kernel that multiplies them, or expanded before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from kbh_lint.analyses.flow import facts_of, roots
from kbh_lint.analyses.products import ProductUse
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.analyses.work import Work
from kbh_lint.base import ir
from kbh_lint.base.dtypes import FLOATS, STORED
from kbh_lint.base.facts import Int4
from kbh_lint.base.records import dataclass
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Content, Event
from kbh_lint.kernels.core.facts import KernelFacts
from kbh_lint.problems import Contract, Problem
from kbh_lint.problems.promise_kinds import PromiseKind

GROWN = 1.8  # times the bytes of a packed entry, from which on it counts as taken apart
# Of these bytes, from which on floats do whose nibbles were: a tenth of the entry in 16 bits. Sums of groups are less.
PART = 0.4


@dataclass(slots=True)
class Packing:
    """What is found of packed weights on one shape: copies that are expanded before a product, and the places where
    kernels unpack what they multiply."""

    seeds: list[ShapeFact] = field(default_factory=list)
    inside: list[tuple[ir.Loc | None, str]] = field(default_factory=list)
    expanded: bool = False


def expansions(problem: Problem, contract: Contract, run: ShapeRun, work: Work) -> Packing:
    """Finds where packed weights are unpacked inside a kernel that multiplies them, and where copies of them at full
    width are made before the product."""
    found = Packing()
    names = [
        n
        for p in problem.promises_for(contract.id)
        if p.kind == PromiseKind.INT4_PACKED
        for n in p.params.get("packed", ())
    ]
    if not names or run.binding is None:
        return found
    packed_bytes = {n: _bytes(run, n) for n in names}
    pieces = _Pieces(names, packed_bytes)
    operands: dict[int, list[Content]] = {}  # by event: a launch that is tuned multiplies in hundreds of ways
    for use in work.products:
        if not set(use.inputs) & set(names):
            continue
        if id(use.event) not in operands:
            operands[id(use.event)] = [*_operands(use.event), *_staged(use.event)]
        for content in operands[id(use.event)]:
            wide = _expanded(content, names, packed_bytes)
            if wide is None:
                pieces.add(content, use.event)
                continue
            found.expanded = True
            found.seeds.append(_seed(content, wide, use, run))
        if use.unpacked and use.where != "library":
            found.inside += [(loc, "nibbles are unpacked inside the kernel that multiplies") for loc in use.unpacked]
    for content, event in pieces.whole():
        use = next(use for use in work.products if use.event is event)
        found.expanded = True
        found.seeds.append(_seed(content, pieces.opened[content.ident], use, run))
    return found


def _seed(content: Content, wide: tuple[ir.Loc | None, ...], use: ProductUse, run: ShapeRun) -> ShapeFact:
    """That `content`, which holds weights taken apart at `wide`, is multiplied by `use`."""
    where = "kernel" if content.event is not None and content.event.kind == "launch" else "torch"
    fact = Int4(
        state="expanded",
        where=where,
        survives=content.call < len(run.calls),
        multiplied_by="library" if use.where == "library" else "kernel",
    )
    related: list[tuple[ir.Loc | None, str]] = [(loc, "the nibbles are taken apart here") for loc in wide if loc]
    related += [(use.loc, "the expanded weight is multiplied here"), *launched_from(use.event)]
    if content.event is use.event:
        stores = (store for facts in facts_of(use.event) for store in facts.stores)
        stored = dict.fromkeys(store.loc for store in stores if store.storage == content.storage.ident)
        related[:0] = [(loc, "this launch writes them to the memory that it multiplies from") for loc in stored][:2]
    elif content.event is not None:
        related += launched_from(content.event)
    return ShapeFact(fact, content.event.loc if content.event is not None else use.loc, tuple(related))


class _Pieces:
    """Parts of a packed entry that are taken apart in turns, each too small to be all of it."""

    def __init__(self, names: list[str], packed: dict[str, int | None]) -> None:
        self._names, self._packed = names, packed
        self._found: dict[str, dict[int, tuple[float, Content, Event]]] = {}
        self.opened: dict[int, tuple[ir.Loc | None, ...]] = {}

    def add(self, content: Content, event: Event) -> None:
        """Records `content` as a piece of unpacked weight that `event` multiplies, if it is one."""
        size = content.storage.size
        if content.label or content.dtype not in FLOATS or size is None:
            return
        for root in roots(content):
            if root.name in self._names and root.unpacked:
                made = content.event.weight if content.event is not None else 1
                self._found.setdefault(root.name, {})[content.ident] = size * made, content, event
                self.opened[content.ident] = root.unpacked

    def whole(self) -> Iterator[tuple[Content, Event]]:
        """Yields one piece, with the event that multiplies it, for each packed weight whose pieces together have at
        least PART of the bytes of the weight."""
        for name, pieces in self._found.items():
            before = self._packed.get(name)
            if before is not None and sum(size for size, _, _ in pieces.values()) >= PART * before:
                _, content, event = next(iter(pieces.values()))
                yield content, event


def _bytes(run: ShapeRun, name: str) -> int | None:
    spec = run.binding.state.get(name) if run.binding is not None else None
    if spec is None:
        return None
    total = 1
    for size in spec.shape:
        total *= size
    return total * STORED.get(spec.dtype, 8) // 8


def _operands(event: Event) -> list[Content]:
    """The contents a product multiplies."""
    if event.kind != "launch":
        return [content for content, _ in event.reads]
    held: dict[int, Content] = event.attrs["contents"]
    idents = {ident for facts in facts_of(event) for ident in _multiplied(facts)}
    return [held[i] for i in sorted(idents) if i in held]


def _multiplied(facts: KernelFacts) -> set[int]:
    """The storages whose elements are operands of a kernel's products."""
    sides = (side for product in facts.products for side in (product.a_origins, product.b_origins))
    return {o.storage for side in sides for o in side if not o.flags & {"index", "product"}}


def _staged(event: Event) -> list[Content]:
    """What a launch leaves in memory that its own products read, where it takes numbers apart and stores them there:
    what was in that memory before is no operand. Sums of them are none of the numbers."""
    if event.kind != "launch":
        return []
    idents: set[int] = set()
    for facts in facts_of(event):
        read = _multiplied(facts)
        idents |= {
            store.storage
            for store in facts.stores
            if store.storage in read
            and any("unpack" in o.flags and not o.flags & {"index", "product", "reduce"} for o in store.origins)
        }
    return [content for content in event.writes if content.storage.ident in idents]


def _expanded(content: Content, names: list[str], packed: dict[str, int | None]) -> tuple[ir.Loc | None, ...] | None:
    """Where a packed entry was taken apart on its way to `content`, when that holds it, or a good part of it, at full
    width; else None."""
    if content.label:
        return None
    for root in roots(content):
        if root.name not in names:
            continue
        size, before = content.storage.size, packed.get(root.name)
        share = size / before if size is not None and before else 0.0
        floats = content.dtype in FLOATS
        if floats and (share >= GROWN or size is None) or root.unpacked and share >= (PART if floats else GROWN):
            return root.unpacked or (content.event.loc if content.event is not None else None,)
    return None
