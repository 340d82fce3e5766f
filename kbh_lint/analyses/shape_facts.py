"""What one graded shape's run shows: its facts, and the state of each promise on it."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

from kbh_lint.analyses import (
    compensation,
    coverage,
    exponentials,
    keys,
    l2,
    packing,
    precision,
    replay,
    shares,
    warmup,
)
from kbh_lint.analyses.crashes import shape_crashes
from kbh_lint.analyses.flow import Slice, facts_of, fills_unseen, is_unknown, last_call, reach, slice_of
from kbh_lint.analyses.outputs import output_seeds
from kbh_lint.analyses.products import ProductUse
from kbh_lint.analyses.promises.judge import judge
from kbh_lint.analyses.reading import unread
from kbh_lint.analyses.reading.clocks import clocked
from kbh_lint.analyses.reference import Traits, likeness, share
from kbh_lint.analyses.seeds import ShapeFact, ShapeFacts, launched_from
from kbh_lint.analyses.work import Work, category, computes, does_arithmetic, sort_out
from kbh_lint.base import ir
from kbh_lint.base.facts import (
    Arch,
    Banned,
    LibraryWork,
    NoAuthoredKernel,
    Product,
    ReferenceWork,
    Selection,
    Sniff,
    TorchShare,
)
from kbh_lint.host.values import taint
from kbh_lint.host.values.path_runs import PathRun, ShapeRun
from kbh_lint.host.values.tensors import Event
from kbh_lint.problems import Contract, Problem

Reduced = Callable[[], list[ShapeRun]]


def shape_facts(
    problem: Problem, contract: Contract, path: PathRun, run: ShapeRun, reference: Traits, reduced: Reduced
) -> ShapeFacts:
    """The facts and promise states of one graded shape on one path.

    `reduced` runs the untimed shapes that stand for graded ones; it is called only where a fact needs it.
    """
    found = slice_of(run)
    if not found.unfilled and fills_unseen(run):
        found = replace(found, unfilled=True)
    facts = ShapeFacts(run.label, empty=not found.events, unknown=is_unknown(last_call(run)))
    want = shares.asked(problem, contract, run)
    total = want.flops
    work = sort_out(found, total, want)
    work.trifling = not problem.whole and shares.below_floor(work.authored, total)
    facts.shares = shares.shares(work, want) if found.events else {}
    facts.seeds += product_seeds(work)
    if problem.whole or work.trifling or not any(computes(e) for e in work.authored):
        facts.seeds += library_seeds(work, problem)
    facts.seeds += torch_share_seeds(work, want)
    facts.seeds += authored_seeds(work, found, reference)
    facts.seeds += reference_seeds(work, found, reference)
    facts.seeds += selection_seeds(found, work) or outside_selection_seeds(found, problem, contract, run)
    facts.seeds += banned_seeds(found, problem)
    facts.seeds += replay.survivors(path, run, found)
    facts.seeds += replay.ignored_state(run, found)
    facts.seeds += l2.l2_policies(run, found)
    facts.seeds += warmup.warm_ups(run, found, work, total, compensation.promised(problem))
    facts.seeds += output_seeds(path, run, found)
    facts.seeds += _clocked(run, found)
    facts.seeds += shape_crashes(run)
    packed = packing.expansions(problem, contract, run, work)
    facts.seeds += packed.seeds
    narrow = precision.narrow(problem, work, found)
    if narrow:
        checked, first = _reduced_work(reduced, run.label), _first_work(run)
        facts.seeds += precision.downcasts(problem, narrow, work, checked, first)
    facts.seeds += precision.cut_short(work)
    facts.seeds += exponentials.by_arithmetic(work, found, reference)
    facts.seeds += keys.cut_keys(run.calls[-1].contents if run.calls else [], found)
    facts.seeds += coverage.short_grids(contract, run, found)
    facts.equal = unread.asserted_equal(path)
    judge(problem, contract, run, found, work, packed, facts, not path.forced)
    facts.seeds += unread.unread_inputs(path, run, found, work, reference, facts)
    return facts


def _clocked(run: ShapeRun, found: Slice) -> list[ShapeFact]:
    """Facts `sniff`: a kernel asks a clock of the GPU what to do."""
    told = {loc: event for event, loc in clocked(run, found)}
    fact = Sniff(symbol="a clock of the GPU", what=taint.GAP, decides=True)
    return [ShapeFact(fact, loc, tuple(launched_from(event))) for loc, event in told.items()]


def _reduced_work(reduced: Reduced, label: str) -> precision.Other | None:
    run = next((r for r in reduced() if r.label == label and r.calls), None)
    return None if run is None else _work_behind(last_call(run))


def _first_work(run: ShapeRun) -> precision.Other | None:
    return _work_behind(run.calls[0].result) if len(run.calls) > 1 else None


def _work_behind(result: object) -> precision.Other:
    found = reach(result)
    return sort_out(found, None), found


def product_seeds(work: Work) -> list[ShapeFact]:
    """Facts `product`, one a matrix product, and `arch`, for products that are built for another architecture."""
    out: list[ShapeFact] = []
    for use in work.products:
        cast = "none"
        if use.upcast:
            cast = use.steps[0].where if use.steps else ("library" if use.where == "library" else "kernel")
        fact = Product(
            where=use.where,
            engine=use.engine,
            operands=use.operands,
            narrow=use.narrow,
            upcast=use.upcast,
            cast=cast,
            inputs=use.inputs,
            layer=_layer(use),
            compiled=use.compiled,
        )
        related: list[tuple[ir.Loc | None, str]] = [(s.loc, f"{s.source} becomes {s.target} here") for s in use.steps]
        related += [(use.loc, f"the product runs on {use.operands[0]} and {use.operands[1]}")]
        related += launched_from(use.event)
        first = use.steps[0].loc if use.upcast and use.steps and use.where != "library" else use.loc
        out.append(ShapeFact(fact, first or use.loc, tuple(related)))
        kind = use.event.attrs.get("cutlass")
        if kind is not None and kind.arch is not None:
            pin = Arch(tag=kind.arch, fp8_capable=kind.arch >= 89)
            out.append(ShapeFact(pin, kind.arch_loc or use.loc, tuple(related)))
    return out


def _layer(use: ProductUse) -> str:
    if use.where != "library":
        return "kernel"
    return "c++" if "::" in use.engine or use.engine.startswith("cublas") else "python"


def library_seeds(work: Work, problem: Problem) -> list[ShapeFact]:
    """Facts `library-work`: work of the problem that a library does."""
    out: list[ShapeFact] = []
    helpers = [] if work.trifling else [e for e in work.authored if does_arithmetic(e)]
    authored = "some" if helpers else "casts" if work.authored else "none"
    uses = {id(u.event): u for u in work.products}
    for event in work.library:
        use = uses.get(id(event))
        symbol = str(event.attrs.get("symbol", event.name))
        fact = LibraryWork(
            category=category(event),
            symbol=symbol,
            layer="c++" if "::" in symbol or "cublas" in symbol else "python",
            operands=tuple(event.attrs.get("operands", ())),
            compiled=bool(event.attrs.get("compiled")),
            authored=authored,
            upcast=bool(use and use.upcast),
            foreign=bool(event.attrs.get("foreign")),
            weight_expanded=bool(use and use.unpacked_before),
        )
        related = launched_from(event)[1:]
        if use is not None:
            related = [(s.loc, f"{s.source} becomes {s.target} here") for s in use.steps] + related
        related += [
            (e.loc, f"the authored kernel {e.name} only prepares its operands")
            for e in work.authored
            if authored == "casts"
        ][:3]
        out.append(ShapeFact(fact, event.loc, tuple(related)))
    return out


def torch_share_seeds(work: Work, want: shares.Asked) -> list[ShapeFact]:
    """Fact `torch-share`: how much of the problem torch does while authored kernels do the rest; none below
    `shares.TOLD_SHARE`."""
    if not work.authored or any(category(e) != "other" for e in work.library):
        return []
    share, doing = shares.beside(work.torch, want)
    if share < shares.TOLD_SHARE:
        return []
    first = max(doing, key=shares.traffic)
    related = [(e.loc, f"{e.name} runs in torch here") for e in doing]
    return [ShapeFact(TorchShare(), first.loc, tuple(dict.fromkeys([*related, *launched_from(first)[1:]])))]


def authored_seeds(work: Work, found: Slice, reference: Traits) -> list[ShapeFact]:
    """Fact `no-authored-kernel`: libraries or torch make the whole result."""
    if work.authored or work.blobs or work.unread or found.unfilled or not found.events:
        return []
    operations = [e for e in found.events if e.kind in ("op", "library", "copy")]
    heavy = work.library or operations
    if not heavy:
        return []
    fact = NoAuthoredKernel(
        compiled=any(e.attrs.get("compiled") for e in operations),
        loop=any(e.weight > 1 for e in operations) or _repeats(operations),
        foreign=any(e.attrs.get("foreign") for e in work.library),
        reference=round(likeness(reference, found), 2) if reference.operations else None,
    )
    first = heavy[0]
    related = [(e.loc, f"{e.name} runs in torch here") for e in [*work.library, *operations]]
    return [ShapeFact(fact, first.loc, tuple(dict.fromkeys([*related, *launched_from(first)[1:]])))]


def reference_seeds(work: Work, found: Slice, reference: Traits) -> list[ShapeFact]:
    """Fact `reference-work`: torch runs every step of the reference, and authored kernels run beside it."""
    if not work.authored or share(reference, found) < 1:
        return []
    done = [e for e in found.events if e.kind in ("op", "library")]
    fact = ReferenceWork(
        authored="some" if any(computes(e) for e in work.authored) else "casts", steps=len(reference.steps)
    )
    related = [(e.loc, f"{e.name} runs in torch here") for e in done]
    return [ShapeFact(fact, done[0].loc, tuple(dict.fromkeys([*related, *launched_from(done[0])[1:]])))]


def _repeats(events: list[Event]) -> bool:
    places: dict[Any, int] = {}
    for event in events:
        if event.loc is not None:
            places[event.loc] = places.get(event.loc, 0) + 1
    return any(n > 3 for n in places.values())


def selection_seeds(found: Slice, work: Work) -> list[ShapeFact]:
    """Facts `selection`: complete selections (top-k, sort) by a library or a Python built-in. Of a few values that the
    host puts in order (lengths, the rows of a batch) it is none."""
    out: list[ShapeFact] = []
    for event in found.events:
        whole = event in work.library or not event.attrs.get("orders")
        if event.kind == "library" and category(event) == "selection" and whole:
            symbol = str(event.attrs.get("symbol", event.name))
            layer = "c++" if "::" in symbol else "python"
            out.append(
                ShapeFact(
                    Selection(symbol=symbol, layer=layer, scope="device"),
                    event.loc,
                    tuple(launched_from(event)),
                )
            )
        for facts in facts_of(event):
            for use in facts.uses:
                low = use.symbol.lower()
                if not any(word in low for word in ("topk", "sort", "select", "bitonic_merge")):
                    continue
                block = "block" in low or "warp" in low
                layer = "cuda" if "::" in use.symbol else "triton"
                fact = Selection(symbol=use.symbol, layer=layer, scope="block" if block else "device")
                out.append(ShapeFact(fact, use.loc, tuple(launched_from(event))))
    return out


def outside_selection_seeds(found: Slice, problem: Problem, contract: Contract, run: ShapeRun) -> list[ShapeFact]:
    """Fact `selection` for torch operations, whatever their names, that reduce the elements to select from before
    kernels get what is left."""
    names = {name for promise in problem.promises_for(contract.id) for name in promise.params.get("select_from", ())}
    specs = [spec for spec in (run.binding.inputs if run.binding is not None else ()) if spec.name in names]
    doing = [event for spec in specs for event in shares.seen_only_by_torch(found, spec.name, prod(spec.shape))]
    return [
        ShapeFact(
            Selection(symbol=_called(event), layer="python", scope="device"), event.loc, tuple(launched_from(event))
        )
        for event in doing[:1]
    ]


def _called(event: Event) -> str:
    return str(event.attrs.get("symbol") or f"torch.{event.name}")


def banned_seeds(found: Slice, problem: Problem) -> list[ShapeFact]:
    """Facts `banned`: symbols of the problem's list of bans that the result depends on."""
    out: list[ShapeFact] = []
    for event in found.events:
        symbols = [(str(event.attrs["symbol"]), event.loc)] if event.attrs.get("symbol") else []
        symbols += [(use.symbol, use.loc) for facts in facts_of(event) for use in facts.uses]
        for symbol, loc in symbols:
            for ban in problem.bans:
                if any(same_symbol(symbol, path) for path in ban.paths):
                    hidden = symbol != ban.symbol or not _spelled_out(ban.symbol, loc)
                    fact = Banned(symbol=ban.symbol, path=symbol, alias=hidden)
                    out.append(ShapeFact(fact, loc, tuple(launched_from(event)[1:])))
                    break
    return out


def _spelled_out(symbol: str, loc: ir.Loc | None) -> bool:
    """Whether the file's code says the symbol's own name; an operator or a name put together at run time does not."""
    if loc is None or loc[0].language != "python":
        return True
    return symbol.rsplit(".", 1)[-1] in _names(loc[0].text)


@lru_cache(maxsize=4)
def _names(text: str) -> frozenset[str]:
    """The names in a Python text, without strings and comments."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    try:
        return frozenset(t.string for t in tokens if t.type == tokenize.NAME)
    except (tokenize.TokenError, SyntaxError):
        return frozenset()


_SPACES = (
    "torch.nn.functional.",
    "torch.ops.aten.",
    "torch.Tensor.",
    "torch.special.",
    "torch.",
    "at::Tensor::",
    "at::",
    "torch::",
    "aten::",
    "Tensor.",
)


@lru_cache(maxsize=4096)
def _bare(text: str) -> str | None:
    """A path without the namespace of torch that it begins with; None when it begins with none."""
    return next((text[len(space) :] for space in _SPACES if text.startswith(space)), None)


def same_symbol(symbol: str, path: str) -> bool:
    """Whether two qualified names mean one operation: the names are equal, or name the same function in different
    namespaces of torch."""
    if symbol == path:
        return True
    left, right = _bare(symbol), _bare(path)
    return left is not None and right is not None and left.rstrip("_") == right.rstrip("_")
