"""What a result comes from: walks over the contents and events of one graded shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.dtypes import NARROW, is_wider
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Sym
from kbh_lint.host.explore.probes import result_contents
from kbh_lint.host.gpu import device_wide
from kbh_lint.host.torch.aten_names import family
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Content, Event, Unknown
from kbh_lint.kernels.core.facts import KernelFacts, Origin

MAX_CONTENTS = 20_000
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
        """The name of the input or weight."""
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
    """Yields the contents that `content` was computed from: values, indices, numbers that steered its launch, and the
    content that it overwrote in part."""
    if content.event is not None:
        for read, _ in content.event.reads:
            yield read
        yield from content.event.attrs.get("steer", ())
    if content.previous is not None:
        yield content.previous


def is_unknown(result: object) -> bool:
    """Whether the value that `forward` returned is unknown where a tensor is expected."""
    if isinstance(result, (list, tuple)):
        return any(map(is_unknown, result))
    return (
        isinstance(result, (Sym, LibObject))
        and not result_contents(result)
        or (isinstance(result, Unknown) and not result.contents)
    )


def reach(result: object) -> Slice:
    """The backward slice of `result`, a value that `forward` returned: the contents, up to `MAX_CONTENTS` of them, and
    the events that it depends on, with the weights of the loop iterations that these stand for."""
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


def slice_of(run: ShapeRun) -> Slice:
    """What the last call of a run that is over returned comes from, found once for all who ask. Nobody changes it."""
    last = run.calls[-1] if run.calls else None
    known = run.reached
    if known is not None and known[0] is last and isinstance(known[1], Slice):
        return known[1]
    found = reach(last_call(run))
    run.reached = last, found
    return found


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
        return any(f.plain().products for f in facts_of(event))
    name = event.name.rsplit(".", 1)[-1].rsplit("::", 1)[-1]
    if event.kind == "library" and device_wide.named(event.name):
        return device_wide.does(event.name) in ("product", "solver")
    return event.kind == "library" and (family(name) in ("product", "solver") or _library_gemm(event.name))


def _library_gemm(name: str) -> bool:
    low = name.lower()
    return any(word in low for word in ("gemm", "matmul", "gemv", "conv", "_mm", "dot_product"))


def roots(content: Content) -> list[Root]:
    """The inputs and weights whose values flow into `content` without going through a matrix product."""
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
    """Whether converting an operand from `source` to `target` changes which tensor-core unit can multiply it: fp8 or
    fp4 becomes wider, or bf16 becomes fp8 or fp4."""
    return source in NARROW and is_wider(target, source) or source == "bf16" and target in NARROW


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


def followed(event: Event) -> bool:
    """Whether the kernel of a launch was read to its end, and its language is one for which stores, addresses and
    branches are recorded."""
    attrs = event.attrs
    known = registry.by_pointers(attrs["kernel"].language) and bool(attrs["bindings"])
    return known and not any(facts.unread for facts in attrs["distinct"])


def facts_of(event: Event) -> list[KernelFacts]:
    """The kernel facts of a launch, one for each different result among its autotuning configurations."""
    found: list[KernelFacts] = event.attrs.get("distinct", [])
    return found


def fills_unseen(run: ShapeRun) -> bool:
    """Whether the last call launches a kernel that could not be read to its end and of which no store was seen: it may
    have written any memory, the result's too."""
    launches = [e for e in run.calls[-1].events if e.kind == "launch" and not e.writes] if run.calls else []
    return any(f.unread or any(s.storage < 0 for s in f.stores) for e in launches for f in facts_of(e))


def last_call(run: ShapeRun) -> object:
    """The value that the last completed call of `forward` returned; None when no call was completed."""
    return run.calls[-1].result if run.calls else None
