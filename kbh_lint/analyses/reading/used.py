"""What a result was computed from, without what kernels load for nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kbh_lint import registry
from kbh_lint.analyses.flow import MAX_CONTENTS, Slice, followed, reads_of
from kbh_lint.base import ir
from kbh_lint.base.dtypes import INTS
from kbh_lint.base.values import Buffer, DType, Func, Scalar, TypeValue
from kbh_lint.host.gpu.kernel_cache import normalised, once
from kbh_lint.host.torch import limits
from kbh_lint.host.torch.whole_numbers import ENDS, FIXED, held, neighbours, source, whole
from kbh_lint.host.values.tensors import Content, Event
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts, Origins
from kbh_lint.kernels.core.origins import floors
from kbh_lint.kernels.core.ranges import Layout, Rising
from kbh_lint.kernels.extents.asides import without
from kbh_lint.kernels.extents.unused import unused

MAX_WALKS = 8  # of one launch: configurations that facts tell apart
_WIDE_INTS = frozenset(("i16", "i32", "i64", "u32", "u64"))


def used_inputs(found: Slice, most: Mapping[str, int], asked: Collection[str]) -> set[str]:
    """The names of those inputs among `asked` that the result depends on; a load whose value has no effect does not
    count.

    `most` has the largest legal value of inputs, by name: the maximum of an input and its largest value is known,
    whatever the input is.
    """
    names: set[str] = set()
    seen: set[int] = set()
    stack = list(found.start)
    # Whether whole numbers make a difference to a kernel takes a walk through it, so it is asked last: they are inputs
    # or copies of inputs, and one launch to which they do is enough.
    doubtful: _Doubtful = {}
    while True:
        while stack and len(seen) < MAX_CONTENTS:
            content = stack.pop()
            if content.ident in seen:
                continue
            seen.add(content.ident)
            if content.label.startswith(("input:", "state:")):
                names.add(content.label.partition(":")[2])
            stack.extend(_read_for(content, most, asked, doubtful))
        left = {key: {_input(c) for c in held.values()} & set(asked) - names for key, (_, held) in doubtful.items()}
        most_left = max(left, key=lambda key: len(left[key]), default=None)
        if most_left is None or not left[most_left]:
            return names & set(asked)
        event, held = doubtful.pop(most_left)
        nothing = unneeded(event)
        stack = [content for at, content in held.items() if at not in nothing]


_Doubtful = dict[int, tuple[Event, dict[int, Content]]]  # by event: it, and whole numbers that flow on from it


def _read_for(
    content: Content, most: Mapping[str, int], asked: Collection[str], doubtful: _Doubtful
) -> Iterator[Content]:
    """What the event that made some contents needed for it; what it may have loaded for nothing goes to `doubtful`."""
    event = content.event
    unused: frozenset[int] = frozenset()
    if event is not None and event.kind == "launch":
        unused = unused_loads(event, most, _beside(content, asked))
        whole = {event.attrs["contents"][at].ident for at in _legal_loads(event)} - unused
        held = doubtful.setdefault(id(event), (event, {}))[1] if whole else {}
        held.update({read.ident: read for read in reads_of(content) if read.ident in whole})
        unused |= whole
    elif event is not None:
        if _one_number(content):
            return
        unused = _below(event, event.attrs["least"], most) if "least" in event.attrs else unused
    yield from (read for read in reads_of(content) if read.ident not in unused)


def _beside(content: Content, asked: Collection[str]) -> frozenset[int]:
    """What else the launch writes that made a content, where that launch reads one of the inputs asked for."""
    event = content.event
    if event is None or event.kind != "launch" or not any(_input(read) in asked for read, _ in event.reads):
        return frozenset()
    return frozenset(other.storage.ident for other in event.writes) - {content.storage.ident}


def _input(content: Content) -> str:
    """The name of the input that a content is a copy of."""
    return source(content).label.partition(":")[2]


def _one_number(content: Content) -> bool:
    """Whether operations leave one number, whatever legal inputs hold."""
    ends = content.notes.get(ENDS)
    return ends is not None and ends[0] == ends[1] and content.previous is None


def _below(event: Event, least: int, most: Mapping[str, int]) -> frozenset[int]:
    """What an operation reads that can hold no number above the one that it puts for smaller ones."""
    found: set[int] = set()
    for content, _ in event.reads:
        origin = source(content)
        highest = most.get(origin.label.partition(":")[2]) if origin.label.startswith("input:") else None
        if least == limits.ALL or highest is not None and highest <= least:
            found.add(content.ident)
    return frozenset(found)


def unneeded(event: Event) -> frozenset[int]:
    """The integer contents that a kernel loads and that have no effect on it for any legal values.

    The kernel is analysed again with the ranges of legal inputs. A content counts if it had an effect before, or was
    multiplied by zero, and has none under these ranges. An element that has an effect in some cases counts as used.
    """
    ends = _legal_loads(event)
    near = _near(event, ends)
    if not ends or near != ends and not _asked(event, near):
        return frozenset()
    return _asked(event, ends)


def near_unseen(event: Event) -> frozenset[int]:
    """The lengths (or values computed from them) that a kernel loads but cannot distinguish from their neighbouring
    number: the kernel behaves the same for two lengths that differ by one.

    Neither of the two is the length of the graded shape, as the kernel may have that number as a constant.
    """
    if not followed(event):
        return frozenset()
    held, ends = event.attrs["contents"], _legal_loads(event)
    few = {at: near for at, content in held.items() if (near := neighbours(content)) is not None}
    same = frozenset(held[at].ident for at, near in few.items() if near[0] == near[1])
    found = _asked(event, {**ends, **few}) if len(few) > len(same) else frozenset()
    return same | found & frozenset(held[at].ident for at in few)


def _near(event: Event, ends: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The same ends, but of lengths two numbers alone."""
    held = event.attrs["contents"]
    return {at: neighbours(held[at]) or between for at, between in ends.items()}


def _asked(event: Event, ends: dict[int, tuple[int, int]]) -> frozenset[int]:
    """The whole numbers between such ends that make no difference to a kernel, found once for equal launches."""
    attrs = event.attrs
    held, answers = attrs["contents"], attrs["answered"].everywhere
    launches = [normalised(attrs["answered"].here, binding) for binding in attrs["bindings"]]
    local = launches[0].storages
    if any(launch.storages != local for launch in launches) or not ends.keys() <= local.keys():
        return frozenset(held[at].ident for at in _unneeded(event, ends))
    rising = _rising(event, ends)
    told = tuple(sorted((local[at], between, str(rising.get(at))) for at, between in ends.items()))
    key = ("legal", attrs["seen"], told, *(launch.key for launch in launches))
    if key not in answers:
        answers[key] = frozenset(local[at] for at in _unneeded(event, ends))
    return frozenset(held[at].ident for at in ends if local[at] in answers[key])


def few_rows_unseen(event: Event) -> frozenset[int]:
    """The offsets that a kernel loads and that have no effect on it as long as no group has more than one row: the
    kernel does not distinguish a group of one row from an empty group."""
    ends = _legal_loads(event)
    rising = {at: replace(one, apart=1) for at, one in _rising(event, ends).items()} if ends else {}
    if not rising:
        return frozenset()
    return frozenset(event.attrs["contents"][at].ident for at in _unneeded(event, ends, rising) & rising.keys())


def even_unseen(event: Event) -> tuple[frozenset[int], dict[int, Layout]]:
    """The offsets that have no effect on a kernel beyond single elements which it asks for, as long as these are those
    of groups of one size; and, by content, which it asked for."""
    ends = _legal_loads(event)
    rising = {at: one for at, one in _rising(event, ends).items() if one.count > 2} if ends else {}
    if not rising:
        return frozenset(), {}
    held, layouts = event.attrs["contents"], {at: Layout.even(one) for at, one in rising.items()}
    unneeded = _unneeded(event, ends, rising, layouts)
    return frozenset(held[at].ident for at in unneeded & rising.keys()), {held[at].ident: layouts[at] for at in rising}


def _legal_loads(event: Event) -> dict[int, tuple[int, int]]:
    """The storages of whole numbers of legal inputs that a kernel loads, with what these are between."""
    attrs = event.attrs
    if not followed(event):
        return {}
    held = attrs["contents"]
    loaded = {load.storage for facts in attrs["distinct"] for load in facts.loads}
    return {at: known for at in held if at in loaded and (known := _legal(held[at])) is not None}


def _rising(event: Event, storages: Collection[int]) -> dict[int, Rising]:
    """Of the storages those that hold offsets that rise; with no count where it is not all, from the first on."""
    found: dict[int, Rising] = {}
    for at in storages:
        content = event.attrs["contents"][at]
        known = source(content).notes.get(FIXED, {})
        if not source(content).notes.get("rising") or not {0, -1} <= known.keys():
            continue
        names = [name for name, value in event.attrs["bindings"][0].items() if getattr(value, "storage", -1) == at]
        starts = event.attrs.get("starts", {})
        plain = whole(content) is source(content) and all(starts.get(name) == 0 for name in names)
        found[at] = Rising((held(content) or -1) if plain else -1, known[0], known[-1])
    return found


def _unneeded(
    event: Event,
    ends: dict[int, tuple[int, int]],
    rising: dict[int, Rising] | None = None,
    layouts: dict[int, Layout] | None = None,
) -> frozenset[int]:
    attrs, after = event.attrs, set[int]()
    first = {id(facts): (binding, facts) for binding, facts in zip(attrs["bindings"], attrs["facts"], strict=False)}
    asked = ends.keys() if rising is None else rising.keys()
    rising = _rising(event, ends) if rising is None else rising
    walked = list(first.values())[:MAX_WALKS]
    before = {at for _, facts in walked for at in _reached(facts)}
    before |= {origin.storage for _, facts in walked for gone in facts.lost for origin in gone.origins}
    wanted = before & asked
    if len(first) > MAX_WALKS:
        return frozenset()
    for binding, facts in walked:
        left = wanted - after  # where all that is asked about still reaches something, the rest is no question
        if not left:
            break
        budget = attrs["answered"].budgets.kernels
        kernel, told = attrs["kernel"], layouts or {}
        again = analyze(kernel, binding, budget=budget, ranges=ends, rising=rising, layouts=told, until=left)
        if again.unread:
            return frozenset()
        for at, layout in told.items():
            layout.others |= _loads_of(facts, at) != _loads_of(again, at)  # some are behind a branch that is not taken
        after |= _reached(again)
    return frozenset() if -1 in after else frozenset(wanted - after)


def _loads_of(facts: KernelFacts, storage: int) -> set[ir.Loc]:
    return {load.loc for load in facts.loads if load.storage == storage}


def _legal(content: Content) -> tuple[int, int] | None:
    """The ends of the whole numbers that a legal input holds."""
    origin = source(content)
    known: tuple[int, int] | None = origin.notes.get(ENDS)
    return known if origin.label.startswith("input:") and content.dtype in _WIDE_INTS else None


def _reached(facts: KernelFacts) -> set[int]:
    """The storages of which something reaches a result, an address, a bound or a branch."""
    groups = (facts.stores, facts.bounds, facts.choices, facts.branches, facts.waits, facts.casts)
    origins = [fact.origins for group in groups for fact in group]
    origins += [side for product in facts.products for side in (product.a_origins, product.b_origins)]
    return {origin.storage for some in origins for origin in some}


def unused_loads(event: Event, most: Mapping[str, int], beside: frozenset[int] = frozenset()) -> frozenset[int]:
    """The contents that a kernel loads without effect: they reach no value, address, mask, bound or branch, except for
    stores to the storages `beside`, which the result does not depend on.

    Empty where a part of the kernel, or the memory of a load, is unknown, and for languages whose stores and branches
    are not recorded.
    """
    if event.kind != "launch" or not registry.by_pointers(event.attrs["kernel"].language):
        return frozenset()
    held = event.attrs["contents"]
    cut = _without_asides(event, beside)
    kernels, left = cut if cut is not None else (None, frozenset[int]())
    noted = frozenset(held[at].ident for at in left if at in held)  # an atomic operation on it reads it
    if event.attrs["kernel"].node.kind != "python":
        return _unused_in_cuda(event, most, kernels) | noted
    known = {at: most.get(content.label.partition(":")[2]) for at, content in held.items()}
    loaded: set[int] = set()
    used: set[int] = set()

    def add(origins: Origins) -> None:
        """Marks the storages of `origins` as used, unless the maximum with their largest legal value hides them."""
        for origin in origins:
            highest = known.get(origin.storage)
            if highest is None or highest not in floors(origin):  # a larger one may be of a multiple of it
                used.add(origin.storage)

    for facts in event.attrs["distinct"]:
        loaded |= {load.storage for load in facts.loads}
    for facts in event.attrs["distinct"] if kernels is None else _analysed(event, kernels):
        if facts.unread:
            return frozenset()
        for group in (facts.stores, facts.bounds, facts.choices, facts.branches):
            for fact in group:
                add(fact.origins)
        for product in facts.products:
            add(product.a_origins | product.b_origins)
    if -1 in loaded | used:
        return frozenset()
    return noted | {held[at].ident for at in loaded - used if at in held}


def _without_asides(event: Event, beside: frozenset[int]) -> tuple[list[tuple[Func, Any]], frozenset[int]] | None:
    """The kernel at each binding without what it writes to the storages `beside`, and those of them that it then has
    nothing to do with; None where that changes nothing."""
    kernel, bindings, answers = event.attrs["kernel"], event.attrs["bindings"], event.attrs["answered"].everywhere
    if not beside or len(bindings) > MAX_WALKS:
        return None
    out, left = [], beside
    for args in bindings:
        pointers = {name: value.storage for name, value in args.items() if isinstance(value, Buffer)}
        names = [name for name, at in pointers.items() if at in beside]
        key = ("without", event.attrs["seen"], *names, None, *pointers)
        if key not in answers:
            answers[key] = without(kernel, names, pointers) if names else None
        cut = answers[key]
        if cut is None:
            return None
        out.append((cut[0], args))
        left &= {pointers[name] for name in cut[1]} - {at for name, at in pointers.items() if name not in cut[1]}
    return out, left


def _analysed(event: Event, kernels: list[tuple[Func, Any]]) -> list[KernelFacts]:
    """What kernels made of a launch's do, at the bindings that its own facts tell apart."""
    first = {id(facts): at for at, facts in reversed(list(enumerate(event.attrs["facts"][: len(kernels)])))}
    return [_facts(event, *kernels[at]) for at in sorted(first.values())]


def _facts(event: Event, kernel: Func, args: Mapping[str, object]) -> KernelFacts:
    """The facts of a kernel that was made of a launch's, analysed once for launches that cannot differ in them."""
    answered = event.attrs["answered"]
    launch = normalised(answered.here, args)
    known, budget = answered.everywhere.setdefault(("made", id(kernel.node)), []), answered.budgets.kernels
    return once(known, kernel, launch, lambda binding: analyze(kernel, binding, budget=budget))


def _unused_in_cuda(event: Event, most: Mapping[str, int], kernels: list[tuple[Func, Any]] | None) -> frozenset[int]:
    """The same for whole numbers that a CUDA kernel is given by one pointer each."""
    attrs, found = event.attrs, set()
    if len(attrs["bindings"]) != 1 or any(facts.unread for facts in attrs["distinct"]):
        return frozenset()
    args = attrs["bindings"][0]
    plain = all(isinstance(value, (Buffer, Scalar, DType, int, float, str, TypeValue)) for value in args.values())
    for content, _ in event.reads if plain else ():
        names = [name for name, value in args.items() if getattr(value, "storage", -1) == content.storage.ident]
        if content.label.startswith("input:") and len(names) == 1 and args[names[0]].dtype in INTS:
            highest = most.get(content.label.partition(":")[2])
            kernel = attrs["kernel"] if kernels is None else kernels[0][0]
            rising = bool(content.notes.get("rising"))
            told = names[0], highest, rising
            cut = 0 if kernels is None else id(kernel.node)
            key = ("unused", attrs["seen"], cut, normalised(attrs["answered"].here, args).key, *told)
            if key not in attrs["answered"].everywhere:
                attrs["answered"].everywhere[key] = unused(kernel, args, *told)
            if attrs["answered"].everywhere[key]:
                found.add(content.ident)
    return frozenset(found)
