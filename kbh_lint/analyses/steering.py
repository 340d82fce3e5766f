"""Branches on the values of inputs that change the arithmetic: in Python and C++ by following both sides, in kernels
by what each side multiplies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kbh_lint.analyses import compensation, coverage
from kbh_lint.analyses.flow import Slice, facts_of, roots, slice_of
from kbh_lint.analyses.precision import operand_types, short_series
from kbh_lint.analyses.products import ProductUse, products
from kbh_lint.analyses.reading.gates import kept_behind
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.base import ir
from kbh_lint.base.dtypes import BITS, FLOATS
from kbh_lint.base.facts import ValueBranch
from kbh_lint.base.records import dataclass
from kbh_lint.host.values.path_runs import PathRun, ShapeRun
from kbh_lint.host.values.tensors import Content, Event, traced
from kbh_lint.kernels.core.facts import Branch, KernelFacts, Origin, ProductTypes
from kbh_lint.problems import Contract, Problem

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.compensation import CompensationFacts

# Tests for numbers that are no numbers protect a result, they do not trade its precision.
GUARDS = frozenset(("isnan", "isinf", "isfinite", "nan_to_num"))
CAREFUL, PLAIN = "a compensated sum", "a plain sum"
MAX_GUARDED = 50  # contents of a test that are looked at for guards
_CHOSEN = frozenset(("index", "test", "product"))  # a value that chose between constants, by which something was read
MAX_CHOICES = 16  # of one kernel, that are looked at for sums
MAX_SUMS = 8  # launches whose sums are looked at
MAX_EARLIER = 3  # launches that what lies at a place is followed through


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The arithmetic behind the result of one path: operand and accumulator types of its products, and further steps of
    its kernels."""

    products: frozenset[tuple[str, ...]]
    accumulators: frozenset[str]
    steps: frozenset[str]
    uses: tuple[ProductUse, ...] = ()


def steered(problem: Problem, contract: Contract, paths: list[PathRun]) -> list[list[ShapeFact]]:
    """Facts `value-branch` for each shape: branches on values of inputs that change the arithmetic.

    `paths` are the paths of one file. Where both sides of an undecided branch come to an end, the arithmetic behind
    their results is compared. Whether sides of a kernel compensate their sums is asked of problems that promise it.
    """
    base = next((p for p in paths if not p.forced), paths[0])
    compensates = compensation.promised(problem)
    places = problem.whole  # a model of another deck may route by values
    out = [[*_device(contract, run, compensates, places)] for run in base.shapes]
    for other in (*(p for p in paths if p is not base), *base.beyond):
        for key in other.forced:
            value = base.sites[key] if key in base.sites else base.settled.get(key)
            names = tested(contract, value.contents) if value is not None else ()
            if not names:
                continue
            for i, (run, changed) in enumerate(zip(base.shapes, other.shapes, strict=False)):
                out[i] += _host(base.places.get(key), names, run, changed)
    return out


def structural(contract: Contract) -> frozenset[str]:
    """The names of the inputs that may legally decide branches: offsets, lengths, indices, masks."""
    return frozenset(s.name for s in contract.forward if s.dtype in ("bool", "i16", "i32", "i64", "u16", "u32", "u64"))


def tested(contract: Contract, contents: Iterable[Content]) -> tuple[str, ...]:
    """The names of the inputs and weights whose magnitudes `contents` depend on; inputs that may legally decide
    branches, and tests for NaN or infinity, do not count."""
    names: set[str] = set()
    for content in contents:
        if not _guards(content):
            names |= {r.name for r in roots(content)}
    return tuple(sorted(names - structural(contract)))


def _guards(content: Content) -> bool:
    """Whether a content says only which numbers are finite."""
    made = (current.event for current in traced([content], MAX_GUARDED) if current.event is not None)
    return any(event.name in GUARDS or event.name in ("eq", "ne") and _with_itself(event) for event in made)


def _with_itself(event: Event) -> bool:
    return len(event.reads) == 2 and event.reads[0][0] is event.reads[1][0]


# --- Python and C++ ----------------------------------------------------------------------------------------


def _host(loc: ir.Loc | None, names: tuple[str, ...], run: ShapeRun, other: ShapeRun) -> Iterator[ShapeFact]:
    """What a branch of the host program changes at one shape."""
    if not run.calls or not other.calls:
        return
    ends = [slice_of(r) for r in (run, other)]
    here, there = (arithmetic(end) for end in ends)
    change, care = difference(here, there), list[str]()
    if not change:
        change, care = _care_of(here, there, (run, other), ends)
    if not change:
        return
    sides = (care[0], care[1]) if care else (_said(here), _said(there))
    fact = ValueBranch(layer="host", inputs=names, change=change, sides=sides)
    related: list[tuple[ir.Loc | None, str]] = []
    for word, side, rest in (("one side", here, there), ("the other", there, here)):
        for use in side.uses:
            if operand_types(use) not in rest.products:
                related.append((use.loc, f"{word} multiplies {' and '.join(operand_types(use))} here"))
    yield ShapeFact(fact, loc, tuple(related[:8]))


def _care_of(
    here: Arithmetic, there: Arithmetic, runs: tuple[ShapeRun, ShapeRun], ends: list[Slice]
) -> tuple[str, list[str]]:
    """What else differs between two sides whose types are the same, and how each side does it; "" for nothing."""
    if not here.products and not there.products:
        care = [_care(end) for end in ends] if "exp" in here.steps else []
        return ("compensation" if sorted(care) == [CAREFUL, PLAIN] else ""), care
    if not here.products or not there.products:
        return "", []
    care = [_length(end) for end in ends]
    if care[0] != care[1]:
        return "series", care
    care = [_history(run, end) for run, end in zip(runs, ends, strict=True)]
    return ("history" if care[0] != care[1] else ""), care


def _care(found: Slice) -> str:
    """Whether some launch behind a result compensates its sum of exponentials; `?` where that is not known."""
    launches = [e for e in found.events if e.kind == "launch" and any(f.sums for f in facts_of(e))]
    states = {compensation.of_launch(event, found).state for event in launches[:MAX_SUMS]}
    if states & {"effective", "precise"}:
        return CAREFUL
    known = states <= {"absent", "vacuous"} if len(launches) == 1 else states == {"absent"}  # or they do it together
    return PLAIN if known and len(launches) <= MAX_SUMS else "?"


def _length(found: Slice) -> str:
    """How far the power series behind a result go that end before their terms vanish, and what is short of none."""
    short = {(s.terms, s.needed) for _, s in short_series(found.events)}
    return ", ".join(f"{terms} of {needed} terms of a series" for terms, needed in sorted(short)) or "whole series"


def _history(run: ShapeRun, found: Slice) -> str:
    """Whether a recurrence behind a result begins anew in each piece of its sequence."""
    return "all earlier steps" if coverage.restarted(run, found) is None else "a state that begins anew in each piece"


def arithmetic(found: Slice) -> Arithmetic:
    """The arithmetic behind a result: operand and accumulator types of its products, exponentials, unpacking and
    narrowing casts."""
    uses = tuple(u for u in products(found) if "?" not in u.operands)
    steps: set[str] = set()
    for event in found.events:
        for facts in facts_of(event):
            steps |= {flag for s in facts.stores for o in s.origins for flag in o.flags & {"exp", "unpack"}}
            steps |= {c.target for c in facts.casts if _narrows(c.source, c.target)}
        source, target = event.attrs.get("from"), event.attrs.get("to")
        if event.kind == "copy" and isinstance(source, str) and isinstance(target, str) and _narrows(source, target):
            steps.add(target)
    return Arithmetic(
        frozenset(operand_types(u) for u in uses), frozenset(u.accumulator for u in uses), frozenset(steps), uses
    )


def _narrows(source: str, target: str) -> bool:
    return source in FLOATS and target in FLOATS and BITS[target] < BITS[source]


def difference(here: Arithmetic, there: Arithmetic) -> str:
    """How the arithmetic of two sides of a branch differs: "precision" of their products, "steps", or "" for no
    difference that counts."""
    if here.products and there.products:
        if here.products != there.products or here.accumulators != there.accumulators:
            return "precision"
    elif here.products or there.products:
        return ""  # work that one side is spared: an exact result may come of it
    return "steps" if here.steps != there.steps else ""


def _said(side: Arithmetic) -> str:
    kinds = sorted({" x ".join(p) for p in side.products})
    return ", ".join([*kinds, *sorted(side.steps)]) or "nothing"


# --- kernels -----------------------------------------------------------------------------------------------


def _device(contract: Contract, run: ShapeRun, compensates: bool, places: bool) -> Iterator[ShapeFact]:
    """Branches inside the kernels that a result comes from; with `compensates` also those between sums, with `places`
    also what is read by them. One that leaves the result as an earlier call left it is another thing."""
    found = slice_of(run)
    for event in found.events:
        for facts in facts_of(event):
            for branch in facts.branches:
                change = _sides(branch)
                names = _steered_by(contract, event, branch, change) if change else ()
                if names and not (change == "skip" and branch.loc in {loc for _, loc, _ in kept_behind(run, found)}):
                    sides = (_types(branch.taken, branch.sums[0]), _types(branch.other, branch.sums[1]))
                    fact = ValueBranch(layer="kernel", inputs=names, change=change, sides=sides)
                    yield ShapeFact(fact, branch.loc, tuple(launched_from(event)))
            if facts.products and places:
                yield from _places(contract, event, facts)
            if compensates:
                yield from _sums(contract, event, facts)


def _places(contract: Contract, event: Event, facts: KernelFacts) -> Iterator[ShapeFact]:
    """Values of inputs that choose between places or masks of what a kernel multiplies: how much of it is read. A test
    for exact zeros leaves out what adds nothing."""
    held: dict[int, Content] = event.attrs["contents"]
    for store in facts.stores:
        chosen = [o for o in store.origins if o.flags >= _CHOSEN and "zero" not in o.flags and o.dtype in FLOATS]
        names = tested(contract, dict.fromkeys(held[o.storage] for o in chosen if o.storage in held))
        if names:
            fact = ValueBranch(
                layer="kernel", inputs=names, change="places", sides=("all that is read", "a part of it")
            )
            yield ShapeFact(fact, store.loc, tuple(launched_from(event)))
            return


def _sums(contract: Contract, event: Event, facts: KernelFacts) -> Iterator[ShapeFact]:
    """Branches of a kernel on values, one side of which compensates its sum and the other does not."""
    if not facts.sums or facts.products or len(facts.choices) > MAX_CHOICES:
        return
    for choice in facts.choices:
        branch = Branch(choice.origins, frozenset(), frozenset(), frozenset(), choice.loc)
        names = _steered_by(contract, event, branch, "skip")
        sides = compensation.of_sides(event, choice.loc) if names else None
        care = [_careful(one) for one in sides or ()]
        if sorted(care) == [CAREFUL, PLAIN]:
            fact = ValueBranch(layer="kernel", inputs=names, change="compensation", sides=(care[0], care[1]))
            yield ShapeFact(fact, choice.loc, tuple(launched_from(event)))


def _careful(found: CompensationFacts) -> str:
    """Whether a kernel compensates its sum of exponentials; `?` where that is not known, or it has none."""
    if found.state in ("effective", "precise"):
        return CAREFUL
    return PLAIN if found.state in ("absent", "vacuous") and found.sums else "?"


def _sides(branch: Branch) -> str:
    taken, other = ({p[1:] for p in side if "?" not in p} for side in (branch.taken, branch.other))
    if taken and other:
        return "precision" if taken != other else ""
    if bool(branch.taken) == bool(branch.other):
        return ""
    sums, instead = branch.sums if branch.taken else branch.sums[::-1]
    return "instead" if instead & FLOATS and not sums & instead else "skip"


def _steered_by(contract: Contract, event: Event, branch: Branch, change: str) -> tuple[str, ...]:
    held: dict[int, Content] = event.attrs["contents"]
    chosen = [o for o in branch.origins if o.storage in held]
    if change == "skip":  # a bound that only begins at zero is none in the rounds after the first
        chosen = [o for o in chosen if not _exact(o)]
    elif change == "instead":
        chosen = [o for o in chosen if "zero" not in o.flags]
    contents = [content for o in chosen for content in _at_the_place(event, o, held[o.storage])]
    numbers: dict[str, tuple[Content, ...]] = event.attrs.get("numbers", {})
    contents += [c for name in branch.params for c in numbers.get(name, ())]
    return tested(contract, dict.fromkeys(contents))


def _at_the_place(event: Event, origin: Origin, held: Content, depth: int = 0) -> list[Content]:
    """What a parameter's place in a storage holds, of all that the storage does.

    Several pointers into one allocation (partial sums, statistics, ticket counters) are told apart by where they begin:
    what an earlier launch stored through pointers that begin elsewhere is not there. A storage that only one place of
    is written, or a place that is not known, is taken whole.
    """
    made = held.event
    here = event.attrs.get("starts", {}).get(origin.param)
    if made is None or made.kind != "launch" or here is None or depth > MAX_EARLIER:
        return [held]
    starts: dict[str, int | None] = made.attrs.get("starts", {})
    facts = made.attrs["distinct"]
    stores = [store for f in facts for store in f.stores if store.storage == origin.storage]
    if any(f.unread for f in facts) or any(starts.get(store.param) is None for store in stores):
        return [held]
    mine = [store for store in stores if starts[store.param] == here]
    if len(mine) == len(stores):
        return [held]
    before: dict[int, Content] = made.attrs["contents"]
    found: list[Content] = []
    if held.previous is not None:
        found += _at_the_place(event, origin, held.previous, depth + 1)
    for store in mine:
        for source in store.origins:
            if source.storage == origin.storage and source.storage in before:
                found += _at_the_place(made, source, before[source.storage], depth + 1)
            elif source.storage in before and "index" not in source.flags:
                found.append(before[source.storage])
    return found


def _exact(origin: Origin) -> bool:
    """Whether skipping a product by a test on this value may change no result: the value was compared with zero or an
    infinity, as where masked tiles are skipped, or was itself computed by products."""
    return bool(origin.flags & {"zero", "product", "exp"})


def _types(side: frozenset[ProductTypes], sums: frozenset[str]) -> str:
    made = ", ".join(sorted({f"{a} x {b} in {acc}" for _, a, b, acc in side}))
    return made or ", ".join(f"sums in {dtype} and no product" for dtype in sorted(sums & FLOATS)) or "no product"
