"""What a result comes from: walks over the contents and events of one graded shape."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.dtypes import INTS, NARROW, WIDE_FLOATS
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Buffer, DType, Scalar, Sym, TypeValue
from kbh_lint.host.explore.probes import result_contents
from kbh_lint.host.gpu.kernel_cache import normalised
from kbh_lint.host.torch import limits
from kbh_lint.host.torch.aten_names import family
from kbh_lint.host.torch.whole_numbers import ENDS
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Content, Event, Unknown
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts, Origin, Origins
from kbh_lint.kernels.core.origins import floors
from kbh_lint.kernels.extents.unused import unused

MAX_CONTENTS = 20_000
MAX_WALKS = 8  # of one launch: configurations that facts tell apart
_WIDE_INTS = frozenset(("i16", "i32", "i64", "u32", "u64"))
AUTHORED = ("launch", "cutlass")


@dataclass(frozen=True, slots=True)
class Step:
    """A change of numeric type on the way: `where` is kernel, host or library."""

    loc: ir.Loc | None
    source: str
    target: str
    where: str


@dataclass(slots=True)
class Root:
    """An input or a weight that a value was computed from, the conversions on the way, and where packed numbers were
    taken apart."""

    content: Content
    steps: tuple[Step, ...] = ()
    unpacked: tuple[ir.Loc | None, ...] = ()

    @property
    def name(self) -> str:
        return self.content.label.partition(":")[2]


@dataclass(slots=True, eq=False)
class Slice:
    """The events that the last call's result depends on, in the order they happened."""

    events: list[Event] = field(default_factory=list)
    contents: set[int] = field(default_factory=set)
    outside: list[Content] = field(default_factory=list)  # inputs and state it was computed from
    opaque: bool = False  # an event on the way could not be read
    scratch: set[int] = field(default_factory=set)  # contents that authored kernels read
    unfilled: bool = False  # memory reaches the result that nothing was seen to fill
    start: tuple[Content, ...] = ()  # what forward returned


def reads_of(content: Content) -> Iterator[Content]:
    """Everything a content depends on: values, indices, and numbers that steered its launch."""
    if content.event is not None:
        for read, _ in content.event.reads:
            yield read
        yield from content.event.attrs.get("steer", ())
    if content.previous is not None:
        yield content.previous


def is_unknown(result: object) -> bool:
    """Whether what `forward` returned is a value that nobody knows, where a tensor is due."""
    if isinstance(result, (list, tuple)):
        return any(map(is_unknown, result))
    return (
        isinstance(result, (Sym, LibObject))
        and not result_contents(result)
        or (isinstance(result, Unknown) and not result.contents)
    )


def reach(result: object) -> Slice:
    """Walk back from what `forward` returned."""
    found = Slice()
    events: dict[int, Event] = {}
    stack = result_contents(result)
    found.start = tuple(stack)
    while stack and len(found.contents) < MAX_CONTENTS:
        content = stack.pop()
        if content.ident in found.contents:
            continue
        found.contents.add(content.ident)
        if content.label == "empty" and content.ident not in found.scratch:
            found.unfilled = True
        if content.label.startswith(("input:", "state:")):
            found.outside.append(content)
        if content.event is not None and id(content.event) not in events:
            events[id(content.event)] = content.event
            if content.event.kind in AUTHORED:
                # a kernel may read what it goes on to write itself: scratch, tiles that it accumulates into
                replaced = {w.previous.ident for w in content.event.writes if w.previous is not None}
                found.scratch.update(read.ident for read, _ in content.event.reads if read.ident in replaced)
            if content.event.kind == "unread":
                found.opaque = True
        stack.extend(reads_of(content))
    for event in events.values():  # the last of many iterations made what only a further one would read
        after = event.attrs.get("after")
        if after is not None and id(after) not in events:
            event.weight = max(event.weight, after.weight)
    found.events = sorted(events.values(), key=_order)
    return found


def used_inputs(found: Slice, most: Mapping[str, int], asked: Collection[str]) -> set[str]:
    """The names of those of the inputs `asked` for that the result was computed from, without what a kernel loads for
    nothing.

    `most` are the largest values of inputs, by name: a kernel's maximum of an input and just that number is known.
    """
    names: set[str] = set()
    seen: set[int] = set()
    stack = list(found.start)
    # Whether whole numbers make a difference to a kernel takes a walk through it, so it is asked last: they are inputs
    # or copies of inputs, and one launch to which they do is enough.
    doubtful: dict[int, tuple[Event, dict[int, Content]]] = {}  # by event: it, and those that flow on from it
    while True:
        while stack and len(seen) < MAX_CONTENTS:
            content = stack.pop()
            if content.ident in seen:
                continue
            seen.add(content.ident)
            if content.label.startswith(("input:", "state:")):
                names.add(content.label.partition(":")[2])
            event = content.event
            if event is not None and event.kind != "launch" and _one_number(content):
                continue
            unused = unused_loads(event, most) if event is not None else frozenset()
            if event is not None and event.kind == "launch":
                whole = {event.attrs["contents"][at].ident for at in _legal_loads(event)} - unused
                held = doubtful.setdefault(id(event), (event, {}))[1] if whole else {}
                held.update({read.ident: read for read in reads_of(content) if read.ident in whole})
                unused |= whole
            elif event is not None and "least" in event.attrs:
                unused = _below(event, event.attrs["least"], most)
            stack.extend(read for read in reads_of(content) if read.ident not in unused)
        left = {key: {_input(c) for c in held.values()} & set(asked) - names for key, (_, held) in doubtful.items()}
        most_left = max(left, key=lambda key: len(left[key]), default=None)
        if most_left is None or not left[most_left]:
            return names & set(asked)
        event, held = doubtful.pop(most_left)
        stack = [content for at, content in held.items() if at not in unneeded(event)]


def _input(content: Content) -> str:
    """The name of the input that a content is a copy of."""
    return _copied(content).label.partition(":")[2]


def _one_number(content: Content) -> bool:
    """Whether operations leave one number, whatever legal inputs hold."""
    ends = content.notes.get(ENDS)
    return ends is not None and ends[0] == ends[1] and content.previous is None


def _below(event: Event, least: int, most: Mapping[str, int]) -> frozenset[int]:
    """What an operation reads that can hold no number above the one that it puts for smaller ones."""
    found: set[int] = set()
    for content, _ in event.reads:
        source = _copied(content)
        highest = most.get(source.label.partition(":")[2]) if source.label.startswith("input:") else None
        if least == limits.ALL or highest is not None and highest <= least:
            found.add(content.ident)
    return frozenset(found)


def _copied(content: Content) -> Content:
    """What a content is a copy of, or a conversion; itself where it is neither."""
    while content.event is not None and content.event.kind == "copy" and len(content.event.reads) == 1:
        if content.previous is not None:
            break
        content = content.event.reads[0][0]
    return content


def unneeded(event: Event) -> frozenset[int]:
    """The whole numbers that a kernel loads and that make no difference to it, whatever legal ones they are.

    The kernel is walked again with what legal inputs hold: what reached something before, or was multiplied by zero,
    and then reaches nothing, is that.
    """
    attrs, ends = event.attrs, _legal_loads(event)
    if not ends:
        return frozenset()
    held, answers = attrs["contents"], attrs["answers"]
    launches = [normalised(attrs["cache"], binding) for binding in attrs["bindings"]]
    local = launches[0].storages
    if any(launch.storages != local for launch in launches) or not ends.keys() <= local.keys():
        return frozenset(held[at].ident for at in _unneeded(event, ends))
    told = tuple(sorted((local[at], between) for at, between in ends.items()))
    key = ("legal", attrs["seen"], told, *(launch.key for launch in launches))
    if key not in answers:
        answers[key] = frozenset(local[at] for at in _unneeded(event, ends))
    return frozenset(held[at].ident for at in ends if local[at] in answers[key])


def _legal_loads(event: Event) -> dict[int, tuple[int, int]]:
    """The storages of whole numbers of legal inputs that a kernel loads, with what these are between."""
    attrs = event.attrs
    if attrs["kernel"].language or not attrs["bindings"] or any(facts.unread for facts in attrs["distinct"]):
        return {}
    held = attrs["contents"]
    loaded = {load.storage for facts in attrs["distinct"] for load in facts.loads}
    return {at: known for at in held if at in loaded and (known := _legal(held[at])) is not None}


def _unneeded(event: Event, ends: dict[int, tuple[int, int]]) -> frozenset[int]:
    attrs, before, after = event.attrs, set[int](), set[int]()
    first = {id(facts): (binding, facts) for binding, facts in zip(attrs["bindings"], attrs["facts"], strict=False)}
    for binding, facts in list(first.values())[:MAX_WALKS]:
        again = analyze(attrs["kernel"], binding, budget=attrs["budgets"].kernels, ranges=ends)
        if again.unread:
            return frozenset()
        before |= _reached(facts) | {origin.storage for gone in facts.lost for origin in gone.origins}
        after |= _reached(again)
    kept = len(first) > MAX_WALKS or -1 in after
    return frozenset() if kept else frozenset((before - after) & ends.keys())


def _legal(content: Content) -> tuple[int, int] | None:
    """The ends of the whole numbers that a legal input holds."""
    source = _copied(content)
    known: tuple[int, int] | None = source.notes.get(ENDS)
    return known if source.label.startswith("input:") and content.dtype in _WIDE_INTS else None


def _reached(facts: KernelFacts) -> set[int]:
    """The storages of which something reaches a result, an address, a bound or a branch."""
    groups = (facts.stores, facts.bounds, facts.choices, facts.branches, facts.sums, facts.waits, facts.casts)
    origins = [fact.origins for group in groups for fact in group]
    origins += [side for product in facts.products for side in (product.a_origins, product.b_origins)]
    return {origin.storage for some in origins for origin in some}


def unused_loads(event: Event, most: Mapping[str, int]) -> frozenset[int]:
    """The contents that a kernel loads and that reach nothing: no value, address, mask or bound, no branch.

    Nothing where a part of the kernel was not read, or where a load's memory is not known. Other languages store and
    choose in ways of their own, which are not noted.
    """
    if event.kind != "launch" or event.attrs["kernel"].language:
        return frozenset()
    if event.attrs["kernel"].node.kind != "python":
        return _unused_in_cuda(event, most)
    held = event.attrs["contents"]
    known = {at: most.get(content.label.partition(":")[2]) for at, content in held.items()}
    loaded: set[int] = set()
    used: set[int] = set()

    def add(origins: Origins) -> None:
        for origin in origins:
            highest = known.get(origin.storage)
            if highest is None or highest not in floors(origin):  # a larger one may be of a multiple of it
                used.add(origin.storage)

    for facts in event.attrs["distinct"]:
        if facts.unread:
            return frozenset()
        loaded |= {load.storage for load in facts.loads}
        for group in (facts.stores, facts.bounds, facts.choices, facts.branches, facts.sums):
            for fact in group:
                add(fact.origins)
        for product in facts.products:
            add(product.a_origins | product.b_origins)
    return frozenset(held[at].ident for at in loaded - used if at in held) if -1 not in loaded | used else frozenset()


def _unused_in_cuda(event: Event, most: Mapping[str, int]) -> frozenset[int]:
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
            rising = bool(content.notes.get("rising"))
            key = ("unused", attrs["seen"], normalised(attrs["cache"], args).key, names[0], highest, rising)
            if key not in attrs["answers"]:
                attrs["answers"][key] = unused(attrs["kernel"], args, names[0], highest, rising)
            if attrs["answers"][key]:
                found.add(content.ident)
    return frozenset(found)


def _order(event: Event) -> int:
    return min((w.ident for w in event.writes), default=0)


def is_product(event: Event) -> bool:
    """Whether an event multiplies matrices."""
    known: bool | None = event.attrs.get("is_product")
    if known is None:
        known = event.attrs["is_product"] = _is_product(event)
    return known


def _is_product(event: Event) -> bool:
    if event.kind == "cutlass":
        return True
    if event.kind == "launch":
        return any(f.products for f in facts_of(event))
    name = event.name.rsplit(".", 1)[-1].rsplit("::", 1)[-1]
    return event.kind == "library" and (family(name) in ("product", "solver") or _library_gemm(event.name))


def _library_gemm(name: str) -> bool:
    low = name.lower()
    return any(word in low for word in ("gemm", "matmul", "gemv", "conv", "_mm", "dot_product"))


def roots(content: Content) -> list[Root]:
    """The outside contents whose values flow into `content` without going through a matrix product."""
    found: list[Root] | None = content.notes.get("roots")
    if found is None:
        found = content.notes["roots"] = _walk_roots(content)
    return found


def _walk_roots(content: Content, limit: int = 400) -> list[Root]:
    out: dict[int, Root] = {}
    seen: set[int] = set()
    stack: list[tuple[Content, tuple[Step, ...], tuple[ir.Loc | None, ...]]] = [(content, (), ())]
    while stack and len(seen) < limit:
        current, steps, unpacked = stack.pop()
        if current.ident in seen:
            continue
        seen.add(current.ident)
        if current.label:
            if current.label.startswith(("input:", "state:")):
                out.setdefault(current.ident, Root(current, steps, unpacked))
            continue
        if current.previous is not None:
            stack.append((current.previous, steps, unpacked))
        event = current.event
        if event is None:
            continue
        for source, more, opened in _sources(event, current):
            stack.append((source, (*steps, *more), (*unpacked, *opened)))
    return list(out.values())


def _sources(event: Event, content: Content) -> Iterator[tuple[Content, tuple[Step, ...], tuple[ir.Loc | None, ...]]]:
    """What flowed into one written content, with the conversions an event did."""
    if event.kind == "launch":
        yield from _launch_sources(event, content)
        return
    if is_product(event):
        return
    opened: tuple[ir.Loc | None, ...] = ()
    if event.name in ("bitwise_and", "bitwise_right_shift", "remainder", "floor_divide"):
        opened = (event.loc,)
    for read, tensor in event.reads:
        steps: tuple[Step, ...] = ()
        if tensor.dtype != content.dtype and widens(tensor.dtype, content.dtype):
            steps = (Step(event.loc, tensor.dtype, content.dtype, "host"),)
        yield read, steps, opened if read.dtype in ("u8", "i8", "i32", "u32") else ()


def widens(source: str, target: str) -> bool:
    """Whether a conversion changes what a product could have run on: fp8 becomes wider, or bf16 becomes fp8."""
    return source in NARROW and target in WIDE_FLOATS or source == "bf16" and target in NARROW


def _taken_apart_last(origin: Origin) -> tuple[int, bool]:
    """An order in which of the ways that a value came the walk, which begins with the last, meets one whose nibbles
    were taken apart first."""
    return origin.storage, "unpack" in origin.flags


def _launch_sources(
    event: Event, content: Content
) -> Iterator[tuple[Content, tuple[Step, ...], tuple[ir.Loc | None, ...]]]:
    held: dict[int, Content] = event.attrs["contents"]
    storage = content.storage.ident
    done: set[tuple[int, bool]] = set()
    for facts in facts_of(event):
        for store in facts.stores:
            if store.storage != storage:
                continue
            for origin in sorted(store.origins, key=_taken_apart_last):
                if "product" in origin.flags or "index" in origin.flags or origin.storage not in held:
                    continue
                key = (origin.storage, "unpack" in origin.flags)
                if key in done:
                    continue
                done.add(key)
                source = held[origin.storage]
                steps: tuple[Step, ...] = ()
                if source.dtype != content.dtype and widens(source.dtype, content.dtype):
                    cast = next((c for c in facts.casts if any(o.storage == origin.storage for o in c.origins)), None)
                    steps = (Step(cast.loc if cast is not None else event.loc, source.dtype, content.dtype, "kernel"),)
                opened = tuple(u.loc for u in facts.unpacks if any(o.storage == origin.storage for o in u.origins))[:1]
                yield source, steps, opened if "unpack" in origin.flags else ()
    if not done and any(f.unread for f in facts_of(event)):
        for read, _ in event.reads:
            yield read, (), ()


def facts_of(event: Event) -> list[KernelFacts]:
    """The kernel facts of a launch; what several configurations share is there once."""
    found: list[KernelFacts] = event.attrs.get("distinct", [])
    return found


def fills_unseen(run: ShapeRun) -> bool:
    """Whether the last call launches a kernel that could not be read to its end and was not seen to write anything: the
    memory that it fills is one that the trace does not know, and may be in the result."""
    launches = [e for e in run.calls[-1].events if e.kind == "launch" and not e.writes] if run.calls else []
    return any(f.unread or any(s.storage < 0 for s in f.stores) for e in launches for f in facts_of(e))


def last_call(run: ShapeRun) -> Any:
    """What the last completed `forward` returned."""
    return run.calls[-1].result if run.calls else None
