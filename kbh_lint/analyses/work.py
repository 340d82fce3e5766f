"""Who does the work: authored kernels, libraries, eager torch or a compiler, at one graded shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kbh_lint.analyses.flow import AUTHORED, MAX_CONTENTS, Reach, facts_of, is_product, reads_of, roots
from kbh_lint.analyses.products import ProductUse, products
from kbh_lint.host.torch.torchlib import PRODUCTS, SELECTIONS, SOFTMAXES, SOLVERS
from kbh_lint.host.values.tensors import Content, Event, product

# Of the problem's operations. A split merge of attention is up to 2 %, the lightest chunk product of KDA 12 %, its
# triangular solve 3 %.
HEAVY_SHARE = {"product": 0.04, "solver": 0.01}
# Elements to operations. All scores of an attention are 1 / (4 * head size) of them, partial results far less.
SMALL_SHARE = 0.001
SELECTORS = ("topk", "sort", "argsort", "radix_sort", "kthvalue", "radixsort", "select")


@dataclass(slots=True)
class Work:
    """What one shape's result took, sorted by who did it."""

    authored: list[Event] = field(default_factory=list)
    library: list[Event] = field(default_factory=list)  # heavy work done by a library
    torch: list[Event] = field(default_factory=list)  # other eager operations on inputs
    blobs: list[Event] = field(default_factory=list)
    unread: list[Event] = field(default_factory=list)
    products: list[ProductUse] = field(default_factory=list)


def category(event: Event) -> str:
    """What a library event is: product, solver, selection, softmax, attention, elementwise or other."""
    if event.attrs.get("elementwise"):
        return "elementwise"
    name = event.name.rsplit(".", 1)[-1].rsplit("::", 1)[-1]
    low = name.lower()
    if name in ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention") or "attention" in low:
        return "attention"
    if name in SOLVERS:
        return "solver"
    if name in PRODUCTS or is_product(event):
        return "product"
    if name in SELECTIONS or any(word in low for word in SELECTORS):
        return "selection"
    if name in SOFTMAXES:
        return "softmax"
    return "other"


def on_inputs(event: Event) -> bool:
    """Whether an event works on forward's inputs (not only on weights, constants or indices)."""
    return any(from_inputs(content) for content, _ in event.reads)


def from_inputs(content: Content) -> bool:
    """Whether a content depends on an input of `forward` in any way."""
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


def sort_out(found: Reach, total_flops: int | None, inputs: Mapping[str, int] | None = None) -> Work:
    """Sort the events behind a result by who did them.

    Beside a kernel, torch arithmetic on whole `inputs` (elements by name) counts as a library's work.
    """
    work = Work(products=products(found))
    beside = any(event.kind in AUTHORED for event in found.events)
    for event in found.events:
        if inputs and beside and _elementwise(event, inputs):
            event.attrs["elementwise"] = True
        if event.kind in AUTHORED:
            work.authored.append(event)
        elif event.kind == "blob":
            work.blobs.append(event)
        elif event.kind == "unread":
            work.unread.append(event)
        elif event.kind == "library" or event.attrs.get("elementwise"):
            if _heavy(event, total_flops):
                work.library.append(event)
            elif on_inputs(event):
                work.torch.append(event)
        elif on_inputs(event):
            work.torch.append(event)
    return work


ARITHMETIC = frozenset(
    "add sub rsub mul multiply div true_divide neg addcmul addcdiv lerp pow square exp exp2 expm1 log sigmoid tanh "
    "where".split()
)
FULL_SHARE = 0.25  # of an input's elements: one of several equal inputs, or a part of the channels


def _elementwise(event: Event, inputs: Mapping[str, int]) -> bool:
    """Whether torch does arithmetic on whole `inputs` (elements by name), which a kernel is there to do."""
    if event.name not in ARITHMETIC or event.kind == "copy":
        return False
    sizes = [n for _, tensor in event.reads if (n := product(tensor.shape)) is not None]
    whole = [inputs[r.name] for content, _ in event.reads for r in roots(content) if r.name in inputs]
    return bool(whole and sizes) and max(sizes) >= FULL_SHARE * min(whole)


def _heavy(event: Event, total_flops: int | None) -> bool:
    """Library work that counts: products by their share of the problem's operations, selections and solvers always."""
    kind = category(event)
    if kind == "elementwise":
        return True
    if kind in ("selection", "softmax"):
        return not _small(event, total_flops) and on_inputs(event)
    if kind == "attention":
        return on_inputs(event)
    if kind in ("product", "solver"):
        flops = event.attrs.get("flops")
        share = HEAVY_SHARE[kind] * (total_flops or 0)
        if flops is not None and total_flops and max(event.flops, flops * event.weight) < share:
            return False
        return flops != 0 and on_inputs(event)
    return bool(event.attrs.get("foreign")) and on_inputs(event)


def _small(event: Event, total_flops: int | None) -> bool:
    """Whether a sort or a softmax is over little: expert counts, the partial results of splits."""
    counts = [product(tensor.shape) for _, tensor in event.reads if tensor.shape is not None]
    sizes = [count for count in counts if count is not None]
    if not total_flops or not sizes or len(sizes) < len(event.reads):
        return False
    return max(sizes) * max(event.times, event.weight) < SMALL_SHARE * total_flops


def computes(event: Event) -> bool:
    """Whether an authored launch does any arithmetic on what it loads, if only a scale or an activation."""
    return does_arithmetic(event) or any(facts.arithmetic for facts in facts_of(event))


def does_arithmetic(event: Event) -> bool:
    """Whether an authored launch computes more than copies and conversions."""
    if event.kind == "cutlass":
        return True
    for facts in facts_of(event):
        if facts.products or facts.sums or facts.unread or facts.unpacks or facts.uses:
            return True
        for store in facts.stores:
            if len({o.storage for o in store.origins if "index" not in o.flags}) > 1:
                return True
            if any(o.flags & {"exp", "max", "reduce", "product"} for o in store.origins):
                return True
    return False
