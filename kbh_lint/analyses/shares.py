"""How much of a problem's operations and of its memory traffic torch and libraries do, piece by piece added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from kbh_lint.analyses.flow import AUTHORED, Slice, facts_of, is_product
from kbh_lint.base.dtypes import STORED
from kbh_lint.base.formulas import FormulaError, Value, evaluate_int
from kbh_lint.base.records import dataclass
from kbh_lint.findings import Shares
from kbh_lint.host.gpu import device_wide
from kbh_lint.host.torch.aten_names import ACTIVATIONS, ARITHMETIC, FUNCTIONS, REDUCTIONS
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Content, Event, Tensor, broadcast, product
from kbh_lint.problems import Contract, Problem, Promise
from kbh_lint.problems.promise_kinds import PromiseKind

if TYPE_CHECKING:
    from kbh_lint.analyses.work import Work

Read = tuple[Content, Tensor]
DEVICE_WIDE = ("reduction", "extreme", "scan", "elementwise")  # what functions of cub and thrust do
PLACES = frozenset(("i64", "i32"))  # the types of indices
ROW_GATHERS = frozenset("index index_select embedding".split())
GATHERS = ROW_GATHERS | frozenset("gather take take_along_dim".split())
# Operations that put tensors together and compute nothing.
MOVES = frozenset(
    "cat concat concatenate stack hstack vstack dstack column_stack block_diag index_copy index_put scatter "
    "masked_scatter index_fill copy slice_scatter select_scatter where".split()
)
FULL_SHARE = 0.25  # of an input's elements: one of several equal inputs, or a part of the channels
# Of a reduction's operations and bytes. One pass that only reads (the maximum of a softmax) is a fifth and a half.
REDUCED_SHARE, REDUCED_BYTES = 0.25, 0.75
GATHERED_BYTES = 0.5  # of the problem's bytes, where a table that is none of the problem's is gathered from
# Of the problem's operations. A split merge of attention is up to 2 %, the lightest chunk product of KDA 12 %.
PRODUCT_SHARE = 0.04
SCORES_SHARE = 0.001  # elements to operations: all scores of an attention are 1 / (4 * head size) of them
TOLD_SHARE = 0.1  # of the problem's bytes, or of an elementwise problem's operations
FLOOR = 0.001  # of the problem's operations: less does not make a result authored
EXTREMES = frozenset("max min amax amin aminmax argmax argmin cummax cummin".split())
OPERATIONS_AN_ELEMENT = 4  # of a kernel without products: a scale, an addition, an activation


@dataclass(frozen=True, slots=True)
class Asked:
    """What a problem counts at one shape, and what its promises want in kernels.

    `flops` and `bytes` are the problem's own (None: not known), `elementwise` whether those operations are. `whole`
    are the elements of the inputs whose elementwise work is promised, `reduced` whether a reduction is, `indices` those
    of the inputs that kernels must read themselves, `scores` whether an attention's softmax is promised, `products`
    whether matrix products are, `operands` the inputs and weights that these multiply, and `activated` the elements of
    the result whose activation is promised.
    """

    flops: int | None = None
    bytes: int | None = None
    elementwise: bool = False
    whole: Mapping[str, int] = field(default_factory=dict)
    reduced: bool = False
    indices: Mapping[str, int] = field(default_factory=dict)
    scores: bool = False
    products: bool = False
    operands: frozenset[str] = frozenset()
    activated: int = 0


def asked(problem: Problem, contract: Contract, run: ShapeRun) -> Asked:
    """The operations, bytes and inputs that a problem's formulas and promises give for one graded shape."""
    promises = problem.promises_for(contract.id)
    names = {n for p in promises if p.params.get("work") == "elementwise" for n in p.params.get("inputs", ())}
    read = {n for p in promises if p.params.get("work") for n in p.params.get("must_read", ())}
    specs = run.binding.inputs if run.binding is not None else ()
    return Asked(
        _count(problem.flops, run),
        _count(problem.bytes, run),
        problem.work_kind == "elementwise",
        {spec.name: prod(spec.shape) for spec in specs if spec.name in names},
        any(p.params.get("work") == "reduction" for p in promises),
        {spec.name: prod(spec.shape) for spec in specs if spec.name in read},
        any(p.kind == PromiseKind.PAGED_ONLINE_SOFTMAX for p in promises),
        any(p.params.get("work") == "product" for p in promises),
        frozenset(n for p in promises if p.params.get("work") == "product" for n in p.params.get("inputs", ())),
        _activated(promises, run),
    )


def _activated(promises: Iterable[Promise], run: ShapeRun) -> int:
    """How many elements of the result an activation is promised for."""
    wanted = any(promise.params.get("activation") for promise in promises)
    return sum(prod(spec.shape) for spec in run.binding.outputs) if wanted and run.binding is not None else 0


def _count(formula: str, run: ShapeRun) -> int | None:
    if run.binding is None or not formula:
        return None
    return _counted(formula, tuple([(name, value, type(value)) for name, value in run.binding.shape.symbols.items()]))


@lru_cache(maxsize=256)
def _counted(formula: str, symbols: tuple[tuple[str, Value, type], ...]) -> int | None:
    """What a formula comes to: each path of each file asks at the same few shapes."""
    try:
        return evaluate_int(formula, {name: value for name, value, _ in symbols})
    except FormulaError:
        return None


def elements(event: Event) -> int:
    """How many elements the largest tensor has that an event reads, times the iterations that it stands for; 0 when
    unknown."""
    sizes = [n for _, tensor in event.reads if (n := product(tensor.shape)) is not None]
    return max(sizes, default=0) * event.weight


def computes_in_torch(event: Event) -> bool:
    """Whether an event is arithmetic by torch: elementwise, or a reduction along a dimension."""
    return event.kind in ("op", "library") and event.name in ARITHMETIC | FUNCTIONS | REDUCTIONS


def traffic(event: Event) -> int:
    """How many bytes an event reads and writes, times the iterations that it stands for; tensors of unknown size are
    left out."""
    if event.name in GATHERS and event.kind != "launch":
        return 2 * gathered(event) * event.weight
    read = sum(_held(tensor) for _, tensor in event.reads)
    if event.kind in AUTHORED:
        return (read + sum(content.storage.size or 0 for content in event.writes)) * event.weight
    along = event.name in REDUCTIONS and event.name not in ("cumsum", "cumprod")
    written = 0 if along else sum(_written(content, event) for content in event.writes)
    return (read + written) * event.weight


def _held(tensor: Tensor) -> int:
    count = product(tensor.shape) or 0
    size = count * STORED.get(tensor.dtype, 8) // 8
    return min(size, tensor.storage.size) if tensor.storage.size is not None else size


def _written(content: Content, event: Event) -> int:
    sizes = [n for _, tensor in event.reads if (n := product(tensor.shape)) is not None]
    size = max(sizes, default=0) * STORED.get(content.dtype, 8) // 8
    return min(size, content.storage.size) if content.storage.size is not None else size


def _picked(event: Event) -> tuple[Read, list[Read]] | None:
    """The table that torch gathers from, and the indices by which it does; None for all other events."""
    if event.name not in GATHERS or event.kind == "launch" or len(event.reads) < 2:
        return None
    first = event.reads[0]
    indexed = event.name == "index" or first[1].dtype not in PLACES  # embedding names its index first
    table = first if indexed else next((read for read in event.reads if read[1].dtype not in PLACES), first)
    return table, [read for read in event.reads if read is not table]


def _places(indices: list[Read]) -> int | None:
    """How many elements of the table indices name, over all that they are broadcast to."""
    return product(broadcast([tensor.shape for _, tensor in indices]))


def gathered(event: Event) -> int:
    """How many bytes a gather takes out of its table; 0 for other events, and where that is unknown."""
    found = _picked(event)
    if found is not None and event.name == "index" and event.writes and event.writes[0].storage.size is not None:
        return event.writes[0].storage.size
    count = _places(found[1]) if found is not None else None
    if found is None or count is None or not found[0][1].shape:
        return 0
    (_, table), indices = found
    row = product((table.shape or ())[len(indices) :]) if event.name in ROW_GATHERS else 1
    return count * (row or 0) * STORED.get(table.dtype, 8) // 8


def by_index(event: Event, names: Iterable[str]) -> bool:
    """Whether `event` is a torch gather whose index was computed from inputs in `names`; masks and other tensors of
    places do not count, and words that data of other inputs was packed into do."""
    found = _picked(event)
    if found is None or found[0][1].dtype in PLACES and _named(found[:1]) <= set(names):
        return False
    return bool(set(names) & _named(found[1]))


def _named(reads: Iterable[Read]) -> set[str]:
    return {label.partition(":")[2] for label in outside([content for content, _ in reads])}


def _followed(gathers: list[Event], want: Asked) -> bool:
    """Whether torch follows an index: takes from the problem's own data as many elements or rows as make a good part of
    it, or half of the problem's bytes from whatever table."""
    if sum(gathered(e) * e.weight for e in gathers) >= GATHERED_BYTES * (want.bytes or 0):
        return True
    followed: dict[str, int] = {}
    for event in gathers:
        (content, _), indices = _picked(event) or ((None, None), [])
        if content is not None and outside([content]):
            named = _named(indices) & want.indices.keys()
            name = max(named, key=lambda one: want.indices[one])
            followed[name] = followed.get(name, 0) + (_places(indices) or 0) * event.weight
    return any(count >= FULL_SHARE * want.indices[name] for name, count in followed.items())


def promised(events: list[Event], want: Asked) -> dict[int, str]:
    """The torch events among `events` that do work which a promise wants in kernels, as event id to category
    (elementwise, gather, softmax).

    Work that is done piece by piece counts by its sum.
    """
    found: dict[int, str] = {}
    if want.indices and want.bytes:
        gathers = [e for e in events if by_index(e, want.indices)]
        if gathers and _followed(gathers, want):
            found |= {id(e): "gather" for e in gathers}
    if want.products and want.flops:
        found |= _contractions(events, want.flops)
    arithmetic = [e for e in events if computes_in_torch(e) or device_wide.does(e.name) in DEVICE_WIDE]
    if want.reduced and want.flops and want.bytes:
        operations, moved = sum(map(elements, arithmetic)), sum(map(traffic, arithmetic))
        if operations > REDUCED_SHARE * want.flops or moved >= REDUCED_BYTES * want.bytes:
            found |= {id(e): "elementwise" for e in arithmetic}
    if want.scores and want.flops:
        powers = [e for e in arithmetic if e.name in ("exp", "exp2")]
        if sum(map(elements, powers)) >= SCORES_SHARE * want.flops:
            found |= {id(e): "softmax" for e in powers}
    if want.activated:
        activating = [e for e in arithmetic if e.name in ACTIVATIONS or _gates(e, want.activated)]
        if sum(map(elements, activating)) >= FULL_SHARE * want.activated:
            found |= {id(e): "elementwise" for e in activating}
    return found


def _gates(event: Event, count: int) -> bool:
    """Whether an event multiplies two tensors element by element, each of which is a good part of `count` elements."""
    sizes = [product(tensor.shape) or 0 for _, tensor in event.reads]
    return event.name in ("mul", "multiply") and len(sizes) > 1 and min(sizes) * event.weight >= FULL_SHARE * count


def seen_only_by_torch(found: Slice, name: str, size: int) -> list[Event]:
    """The torch events that work on input `name`, of `size` elements, or on values made from it, if authored kernels
    get less than FULL_SHARE of these elements: then no kernel selects from the input.

    Where the whole input went to the host, the events that process the rest. A kernel with as many outputs as inputs
    does not select either, if torch then takes extremes of its outputs.
    """
    if found.opaque or any(event.kind in ("unread", "blob") for event in found.events):
        return []
    doing, moving, handed, mapped = [], [], 0, False
    for event in found.events:
        made = [tensor for content, tensor in event.reads if f"input:{name}" in outside([content])]
        counts = [product(tensor.shape) for tensor in made]
        if None in counts and event.kind in AUTHORED:
            return []
        most = max((count or 0 for count in counts), default=0) * event.weight
        if event.kind in AUTHORED and most >= FULL_SHARE * size and _makes_as_many(event, most):
            mapped = True
        elif event.kind in AUTHORED:
            handed += most
        elif most >= FULL_SHARE * size and event.kind != "copy":
            doing.append(event)
        elif made:
            moving.append(event)
    if mapped:
        doing, moving = [event for event in doing if event.name in EXTREMES], []
    return (doing or moving) if handed < FULL_SHARE * size else []


def _makes_as_many(event: Event, count: int) -> bool:
    """Whether a kernel writes a tensor of no fewer elements."""
    sizes = ((write.storage.size, STORED.get(write.dtype)) for write in event.writes)
    return any(size is not None and bits and size * 8 // bits >= count for size, bits in sizes)


def meetings(found: Slice, operands: frozenset[str]) -> list[Event]:
    """The events in which torch combines several of the product's `operands` into one tensor, provided that no authored
    kernel is given two of them: then no kernel multiplies them."""
    if len(operands) < 2 or found.opaque or any(event.kind in ("unread", "blob") for event in found.events):
        return []
    groups: dict[int, frozenset[str]] = {}

    def met(event: Event) -> set[frozenset[str]]:
        """The operands behind each tensor that an event reads, if the event combines different ones; else an empty
        set."""
        read = {content.ident: content for content, _ in event.reads}
        for ident, content in read.items():
            if ident not in groups:
                groups[ident] = operands & {label.partition(":")[2] for label in outside([content])}
        known = [groups[ident] for ident in read if groups[ident]]
        return set(known) if len(known) > 1 and len(frozenset().union(*known)) > 1 else set()

    torch = []
    for event in found.events:
        handed = met(event)
        apart = any(a - b and b - a for a in handed for b in handed)
        moves = (
            event.kind == "copy" and event.name != "tensor" or event.name in MOVES
        )  # `tensor`: of the host's numbers
        if apart and moves or handed and event.kind not in ("op", "library", "copy"):
            return []
        if apart:
            torch.append(event)
    return torch


def _contractions(events: list[Event], flops: int) -> dict[int, str]:
    """Matrix products written as a product over a common grid and a sum: `(a[:, :, None] * b[None]).sum(1)`.

    Their multiplications and sums, by id, where they are as much of the problem's operations as no library may do.
    """
    found: dict[int, str] = {}
    operations = 0
    for event in events:
        for content, tensor in event.reads if event.name == "sum" else ():
            made = content.event
            if made is not None and made.kind in ("op", "library") and made.name == "mul" and _over_a_grid(made):
                found |= {id(event): "product", id(made): "product"}
                operations += 2 * (product(tensor.shape) or 0) * event.weight
    return found if operations >= PRODUCT_SHARE * flops else {}


def _over_a_grid(event: Event) -> bool:
    """Whether what an operation makes is larger than each tensor that it reads."""
    sizes = [product(tensor.shape) for _, tensor in event.reads]
    grid = broadcast([tensor.shape for _, tensor in event.reads])
    made = product(grid) if grid is not None else None
    return len(sizes) > 1 and made is not None and all(size is not None and size < made for size in sizes)


def beside(events: list[Event], want: Asked) -> tuple[float, list[Event]]:
    """How much torch does beside kernels, as a share of the problem's bytes, and the events that do it; copies and
    conversions are left out.

    For a problem with elementwise operations it is the share of operations, if that is larger.
    """
    doing = [e for e in events if computes_in_torch(e) or want.bytes and by_index(e, want.indices)]
    share = sum(map(traffic, doing)) / want.bytes if want.bytes else 0.0
    if want.elementwise and want.flops:
        share = max(share, sum(map(elements, doing)) / want.flops)
    return share, doing


def below_floor(authored: list[Event], flops: int | None) -> bool:
    """Whether the operations of all authored kernels together are too small a share of the problem's `flops` for the
    result to count as theirs.

    False where one of them contains a matrix product, or reads or writes a tensor of unknown size.
    """
    if not flops or not authored:
        return False
    total = 0
    for event in authored:
        facts = facts_of(event)
        sizes = [product(tensor.shape) for _, tensor in event.reads]
        written = [content.storage.size for content in event.writes]
        if event.kind != "launch" or is_product(event) or not facts or any(f.unread or f.uses for f in facts):
            return False
        if None in sizes or None in written:
            return False
        most = max((size or 0) for size in (*sizes, *((size or 0) // 2 for size in written), 0))
        total += most * event.weight
    return total * OPERATIONS_AN_ELEMENT < FLOOR * flops


def shares(work: Work, want: Asked) -> Shares:
    """Which share of the problem's operations and of the moved bytes is done by authored `kernels`, by a `library`, and
    by `torch`. Operations that are not counted elsewhere are the kernels'.

    The share of operations is None where they cannot be counted: the problem has no formula, or the count of a library
    call is unknown.
    """
    by_torch = [e for e in work.library if e.attrs.get("promised") and "places" not in e.attrs]  # no library's pointers
    eager, library = [*work.torch, *by_torch], [e for e in work.library if e not in by_torch]
    doers = {"kernels": work.authored, "library": library, "torch": eager}
    moved = {name: sum(map(traffic, events)) for name, events in doers.items()}
    every = sum(moved.values()) or 1
    done: dict[str, float | None] = dict.fromkeys(doers)
    counts = [e.attrs.get("flops") for e in library]
    if want.flops and not (work.unread or work.blobs) and all(isinstance(count, int) for count in counts):
        heavy = sum(count * e.weight for count, e in zip(counts, library, strict=True) if isinstance(count, int))
        by_library = min(1.0, heavy / want.flops)
        eagerly = min(1.0 - by_library, sum(_operations(e) for e in eager) / want.flops)
        rest = 1.0 - by_library - eagerly if work.authored else 0.0
        done = {"kernels": rest, "library": by_library, "torch": eagerly}
    return {name: (_rounded(done[name]), _rounded(moved[name] / every) or 0.0) for name in doers}


def _operations(event: Event) -> int:
    """What torch computes in an operation that a promise names: that of products, or one an element."""
    flops = event.attrs.get("flops")
    if event.kind == "library" and isinstance(flops, int):
        return flops * event.weight
    return elements(event) if computes_in_torch(event) else 0


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
