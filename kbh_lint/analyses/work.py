"""Who does the work: authored kernels, libraries, eager torch or a compiler, at one graded shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kbh_lint.analyses.flow import AUTHORED, MAX_CONTENTS, Slice, facts_of, is_product, reads_of, roots
from kbh_lint.analyses.products import ProductUse, products
from kbh_lint.analyses.shares import FULL_SHARE, PRODUCT_SHARE, Asked, elements, meetings, promised
from kbh_lint.base.records import dataclass
from kbh_lint.host.gpu import device_wide
from kbh_lint.host.torch.aten_names import ARITHMETIC, family
from kbh_lint.host.torch.memory_order import entries
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.tensors import Content, Event

HEAVY_SHARE = {"product": PRODUCT_SHARE, "solver": 0.01}  # of the problem's operations; KDA's triangular solve is 3 %
# Elements to operations. All scores of an attention are 1 / (4 * head size) of them, partial results far less.
SMALL_SHARE = 0.001
SELECTORS = ("topk", "sort", "argsort", "radix_sort", "kthvalue", "radixsort", "select")
# Device-wide functions that tell where an extreme is select; those that reduce, scan or pick out are building blocks.
_OF_DEVICE_WIDE = {"sort": "selection", "place": "selection", "product": "product", "solver": "solver"}


@dataclass(slots=True)
class Work:
    """The events behind the result of one graded shape, sorted by who did them."""

    authored: list[Event] = field(default_factory=list)
    library: list[Event] = field(default_factory=list)  # heavy work done by a library
    torch: list[Event] = field(default_factory=list)  # other eager operations on inputs
    blobs: list[Event] = field(default_factory=list)
    unread: list[Event] = field(default_factory=list)
    products: list[ProductUse] = field(default_factory=list)
    trifling: bool = False  # authored kernels do less of the problem's operations than makes a result authored


def category(event: Event) -> str:
    """What a library event is: product, solver, selection, softmax, attention, elementwise, gather or other."""
    if event.attrs.get("promised"):
        return str(event.attrs["promised"])
    name = event.name.rsplit(".", 1)[-1].rsplit("::", 1)[-1]
    low = name.lower()
    does = _OF_DEVICE_WIDE.get(device_wide.does(event.name), "other") if device_wide.named(event.name) else ""
    if does:
        return does
    known = family(name)
    if "attention" in low:
        return "attention"
    if known == "solver":
        return "solver"
    if known == "product" or is_product(event):
        return "product"
    if known == "selection" or event.attrs.get("orders") or any(word in low for word in SELECTORS):
        return "selection"
    if known == "softmax":
        return "softmax"
    return "other"


def on_inputs(event: Event) -> bool:
    """Whether an event reads anything computed from an input of `forward` (not only weights, constants or indices)."""
    return any(from_inputs(content) for content, _ in event.reads)


def from_inputs(content: Content) -> bool:
    """Whether a content was computed from an input of `forward`, directly or indirectly."""
    known = content.notes.get("from_inputs")
    if known is not None:
        return bool(known)
    seen: set[int] = set()
    stack = [content]
    answer = False
    while stack:
        current = stack.pop()
        if current.ident in seen:
            continue
        seen.add(current.ident)
        earlier = current.notes.get("from_inputs")
        if current.label.startswith("input:") or earlier or len(seen) > MAX_CONTENTS:
            answer = True
            break
        if earlier is None:
            stack.extend(reads_of(current))
    content.notes["from_inputs"] = answer
    return answer


def sort_out(found: Slice, total_flops: int | None, want: Asked | None = None) -> Work:
    """Sorts the events behind a result by who did them: authored kernels, libraries, torch, or code that could not be
    read.

    Where there are authored kernels, torch work that a promise wants in kernels counts as a library's. Work that is
    done piece by piece counts by its sum.
    """
    work = Work(products=products(found))
    if want is not None and any(event.kind in AUTHORED for event in found.events):
        eager = [e for e in found.events if e.kind in ("op", "library", "copy") and on_inputs(e)]
        marks = _promised(eager, want) | {id(event): "product" for event in meetings(found, want.operands)}
        for event in eager:
            if id(event) in marks:
                event.attrs["promised"] = marks[id(event)]
    pieces = _sums(found)
    beside = _unnamed_beside(found, work, want)
    for event in found.events:
        if event.kind in AUTHORED:
            work.authored.append(event)
        elif event.kind == "blob":
            work.blobs.append(event)
        elif event.kind == "unread" or event in beside:
            work.unread.append(event)
        elif event.kind == "library" or event.attrs.get("promised"):
            if _heavy(event, total_flops, pieces):
                work.library.append(event)
            elif on_inputs(event):
                work.torch.append(event)
        elif on_inputs(event):
            work.torch.append(event)
    return work


def _unnamed_beside(found: Slice, work: Work, want: Asked | None) -> list[Event]:
    """The calls of functions of torch of which nobody knows which one it is, where authored kernels do the work of the
    problem: beside these it may be a trifle."""
    unnamed = [event for event in found.events if event.attrs.get("unnamed")]
    if not unnamed:
        return []
    if want is not None and want.products:
        return unnamed if any(use.where != "library" for use in work.products) else []
    return unnamed if any(event.kind in AUTHORED and does_arithmetic(event) for event in found.events) else []


def _promised(events: list[Event], want: Asked) -> dict[int, str]:
    """The torch work that promises want in kernels, by the events' ids: what it is."""
    found = promised(events, want)
    sizes: dict[int, int] = {id(e): least for e in events if (least := _least_input(e, want.whole))}
    on_whole = [e for e in events if id(e) in sizes]
    by_name: dict[str, int] = {}
    for event in on_whole:
        by_name[event.name] = by_name.get(event.name, 0) + elements(event)
    every = sum(by_name.values())
    for event in on_whole:
        if by_name[event.name] >= FULL_SHARE * sizes[id(event)] or every >= sizes[id(event)]:
            found.setdefault(id(event), "elementwise")
    return found


def _least_input(event: Event, inputs: Mapping[str, int]) -> int:
    """The elements of the smallest of `inputs` that torch does arithmetic on in an event; 0 where it is on none."""
    if event.name not in ARITHMETIC or event.kind == "copy" or not inputs:
        return 0
    whole = [inputs[r.name] for content, _ in event.reads for r in roots(content) if r.name in inputs]
    return min(whole, default=0) if elements(event) else 0


def _sums(found: Slice) -> dict[str, int]:
    """What libraries do of each category, added up: operations of products and solves, elements of all else."""
    sums: dict[str, int] = {}
    for event in found.events:
        if event.kind == "library":
            kind = category(event)
            flops = event.attrs.get("flops") if kind in HEAVY_SHARE else None
            count = flops * event.weight if isinstance(flops, int) else 0 if kind in HEAVY_SHARE else elements(event)
            sums[kind] = sums.get(kind, 0) + count
    return sums


def _heavy(event: Event, total_flops: int | None, sums: Mapping[str, int]) -> bool:
    """Library work that counts: products by their share of the problem's operations, selections and solvers always."""
    if event.attrs.get("promised"):
        return True
    kind = category(event)
    if kind in ("selection", "softmax"):
        return not _small(event, total_flops, sums.get(kind, 0)) and on_inputs(event)
    if kind == "attention":
        return on_inputs(event)
    if kind in ("product", "solver"):
        flops = event.attrs.get("flops")
        share = HEAVY_SHARE[kind] * (total_flops or 0)
        if flops is not None and total_flops and max(event.flops, flops * event.weight, sums.get(kind, 0)) < share:
            return False
        return flops != 0 and on_inputs(event)
    return bool(event.attrs.get("foreign")) and on_inputs(event)


def _small(event: Event, total_flops: int | None, pieces: int) -> bool:
    """Whether a sort or a softmax is over little: expert counts, the partial results of splits."""
    counts = [entries(tensor) for _, tensor in event.reads]
    sizes = [count for count in counts if count is not None]
    if not total_flops or not sizes or len(sizes) < len(event.reads):
        return False
    return max(max(sizes) * max(event.times, event.weight), pieces) < SMALL_SHARE * total_flops


def computes(event: Event) -> bool:
    """Whether an authored launch does any arithmetic on what it loads, even if it is only a scale or an activation."""
    return does_arithmetic(event) or any(facts.arithmetic for facts in facts_of(event))


def does_arithmetic(event: Event) -> bool:
    """Whether an authored launch computes more than copies and conversions."""
    if event.kind == "cutlass":
        return True
    for facts in [facts.plain() for facts in facts_of(event)]:
        if facts.products or facts.sums or facts.unread or facts.unpacks or facts.uses:
            return True
        for store in facts.stores:
            if len({o.storage for o in store.origins if "index" not in o.flags}) > 1:
                return True
            if any(o.flags & {"exp", "max", "reduce", "product"} for o in store.origins):
                return True
    return False


def exchanges(event: Event, names: frozenset[str]) -> bool:
    """Whether a launch permutes elements of the inputs `names` by their values: an element that is stored also chooses
    a branch or an address, or the element to store is chosen by other elements."""
    if event.kind != "launch" or not names:
        return False
    behind = {at: {label.partition(":")[2] for label in outside([c])} for at, c in event.attrs["contents"].items()}
    own = {at for at, found in behind.items() if found & names}
    for facts in facts_of(event):
        asked = {o.storage for choice in facts.choices for o in choice.origins} & own
        for store in facts.stores:
            held = {o.storage for o in store.origins if "index" not in o.flags} & own
            chose = {o.storage for o in store.origins if "index" in o.flags} & own
            if held & chose or asked and (held or chose):
                return True
    return False
