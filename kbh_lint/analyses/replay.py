"""What a call finds from earlier ones although its inputs or weights changed in between, and under which key."""

from __future__ import annotations

from collections.abc import Iterable

from kbh_lint.analyses.flow import MAX_CONTENTS, Slice, facts_of, is_product, reach
from kbh_lint.analyses.left_out import read_after_it_was_stored
from kbh_lint.analyses.outputs import UNREAD
from kbh_lint.analyses.reading.gates import kept_behind, told_by_numbers
from kbh_lint.analyses.reading.used import unused_loads
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.base import ir
from kbh_lint.base.dtypes import FLOATS
from kbh_lint.base.facts import IgnoredState, Survivor
from kbh_lint.base.records import dataclass
from kbh_lint.host.torch.whole_numbers import source
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.path_runs import Call, PathRun, ShapeRun
from kbh_lint.host.values.tensors import Content, Event, Tensor

MAX_MAKERS = 4
MAX_HARMLESS = 40  # facts of survivors that are no finding
# What a further call shows that the second did not: the key under which something was found again.
KEYS = {
    "fresh": "version", "one": "partial", "alone": "partial", "reused": "address-and-version", "collision": "checksum",
    "later": "count",
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Stale:
    """Contents of inputs and weights from before they changed that the result of `call` depends on, each with the event
    that read it first."""

    call: Call
    reads: list[tuple[Content, Event | None]]

    def names(self, what: str) -> tuple[str, ...]:
        """The names of the stale inputs (`what` is "input") or weights ("state"), each once."""
        return tuple(dict.fromkeys(c.label.partition(":")[2] for c, _ in self.of(what)))

    def of(self, what: str) -> list[tuple[Content, Event | None]]:
        """The stale contents of inputs (`what` is "input") or weights ("state"), each with the event that read it
        first."""
        return [(c, e) for c, e in self.reads if c.label.startswith(f"{what}:")]


def survivors(path: PathRun, run: ShapeRun, found: Slice) -> list[ShapeFact]:
    """Facts `survivor`: state that outlives a call. Those come first that a later call uses although inputs or weights
    changed."""
    if len(run.calls) < 2:
        return []
    second = stale_reads(path, run.calls[-1])
    # memory of tensors that only earlier calls were given is looked at where tensors are fresh
    second.reads = [(c, e) for c, e in second.reads if c.storage.ident in second.call.given or not _live(second, c, e)]
    out = [_seed(second, found, what, second.of(what), _key(path, run, second, what)) for what in ("input", "state")]
    seeds = [seed for seed in out if seed is not None]
    known = set(second.names("input"))
    for call in run.probes:
        if call.kind in KEYS:
            seeds += _shown_by(path, call, known)
    if not any(isinstance(seed.fact, Survivor) and seed.fact.role == "output" for seed in seeds):
        left = _same_again(run) or _not_stored(run, found)
        if left:  # what is kept of inputs is kept to be asked
            seeds = [seed for seed in seeds if not (isinstance(seed.fact, Survivor) and seed.fact.role == "derived")]
        seeds += left
    return [*seeds, *_harmless(run)]


def _shown_by(path: PathRun, call: Call, known: set[str]) -> list[ShapeFact]:
    """What a further call shows of inputs that are not yet in `known`, to which it adds them."""
    stale = stale_reads(path, call)
    reads = [(c, e) for c, e in stale.of("input") if c.label.partition(":")[2] not in known]
    if not reads:
        return []
    known.update(c.label.partition(":")[2] for c, _ in reads)
    # an event of this very call that reads memory of a tensor the call was not given: a captured graph, a descriptor
    live = [(c, e) for c, e in reads if _live(stale, c, e)]
    derived = [(c, e) for c, e in reads if not _live(stale, c, e)]
    found = reach(call.contents)
    seeds = [_seed(stale, found, "input", derived, KEYS[call.kind])]
    if live:
        key = "partial" if call.kind == "one" else "nothing" if call.kind == "fresh" else KEYS[call.kind]
        seeds.append(_seed(stale, found, "input", live, key, "memory"))
    return [seed for seed in seeds if seed is not None]


def _live(stale: Stale, content: Content, reader: Event | None) -> bool:
    return reader is not None and reader.call == stale.call.index and content.label.startswith("input:")


def _seed(
    stale: Stale, found: Slice, what: str, reads: list[tuple[Content, Event | None]], key: str, role: str = ""
) -> ShapeFact | None:
    if not reads:
        return None
    # handing out a copy of the old result is handing out the old result
    computes = any(e.call == stale.call.index and not (_copies(e) and _of_before(e, stale.call)) for e in found.events)
    names = tuple(dict.fromkeys(c.label.partition(":")[2] for c, _ in reads))
    fact = Survivor(what=what, names=names, role=role or ("derived" if computes else "output"), key=key)
    makers = [event for _, event in reads if event is not None]
    said = "reads memory of an earlier call's input" if role == "memory" else "made from what the input held then"
    related = [(loc, said) for maker in makers[:MAX_MAKERS] for loc, _ in launched_from(maker)]
    first = makers[0].loc if makers else None
    place = _call_site(makers[0]) if makers else None
    return ShapeFact(fact, place or first, tuple(related))


def _of_before(event: Event, call: Call) -> bool:
    """Whether an event reads none of the inputs that a call was given."""
    return not any(call.given.get(content.storage.ident) == content.ident for content, _ in event.reads)


def _copies(event: Event) -> bool:
    """Whether an event hands on what it reads as it is: a copy, or a kernel that only loads and stores."""
    if event.kind != "launch":
        return event.kind == "copy"
    facts = [facts.plain() for facts in facts_of(event)]
    stored = [o for f in facts for s in f.stores for o in s.origins if "index" not in o.flags]
    done = any(f.arithmetic or f.products or f.sums or f.casts or f.bounds or f.unread for f in facts)
    return bool(stored) and not done and not any(o.flags for o in stored)


def _key(path: PathRun, run: ShapeRun, second: Stale, what: str) -> str:
    """Under which key the values of the first call were kept, so that the second one found them: `shape`, `pointer`
    (the address of an input) or `identity` (of objects). The probes that still find them tell: one with new inputs
    of the same shapes, and one whose inputs lie at the old addresses."""
    if what == "state":
        return "identity"
    names = set(second.names(what))
    if not names:
        return "identity"
    by_kind = {call.kind: stale_reads(path, call) for call in run.probes if call.kind in ("fresh", "reused")}
    if "fresh" in by_kind and names & set(by_kind["fresh"].names(what)):
        return "shape"
    if "reused" in by_kind and names & set(by_kind["reused"].names(what)):
        if not any("identity" in k.keys for k in run.survived):
            return "pointer"
    asked = {a["storage"] for kind, a, _ in path.notes if kind == "pointer-read" and a.get("call") == len(run.calls)}
    return "pointer" if any(c.storage.ident in asked for c, _ in second.of(what)) else "identity"


def _same_again(run: ShapeRun) -> list[ShapeFact]:
    """A call with unchanged inputs that computes nothing, or not all of its products of them: its result is kept, or
    one of these, under a key that covers the inputs."""
    call = next((c for c in run.probes if c.kind == "same"), None)
    if call is None:
        return []
    found = reach(call.contents)
    made = [e for e in found.events if not _copies(e)]
    former = [e for e in made if 0 < e.call < call.index]
    role = "output" if former and not any(e.call == call.index for e in made) else "product"
    kept = former if role == "output" else _products_left_out(run, found, call)
    inputs = (c for c in found.outside if c.label.startswith("input:"))
    names = tuple(dict.fromkeys(c.label.partition(":")[2] for c in inputs))
    if not kept or not names:
        return []
    fact = Survivor(what="input", names=names, role=role, key="contents")
    last = kept[-1]
    return [ShapeFact(fact, _call_site(last), tuple(launched_from(last)))]


def _not_stored(run: ShapeRun, found: Slice) -> list[ShapeFact]:
    """Kernels that find out themselves that the inputs are those of the call before, whose result they leave."""
    for event, loc, names in kept_behind(run, found):
        fact = Survivor(what="input", names=names, role="output", key="contents")
        return [ShapeFact(fact, loc, tuple(launched_from(event)))]
    for event, loc in told_by_numbers(run, found):
        names = tuple(
            content.label.partition(":")[2] for content in found.outside if content.label.startswith("input:")
        )
        fact = Survivor(what="input", names=tuple(dict.fromkeys(names)), role="output", key="contents")
        return [ShapeFact(fact, loc, tuple(launched_from(event)))]
    return []


def _products_left_out(run: ShapeRun, found: Slice, call: Call) -> list[Event]:
    """The products of inputs of earlier calls that a result is made of, where its own call makes fewer of them than one
    whose inputs changed: sums that go on in one buffer are made of those of earlier calls, too."""
    mine, former = _products_of_inputs(found, call)
    usual, _ = _products_of_inputs(reach(run.calls[-1].contents), run.calls[-1])
    return former if len(mine) < len(usual) else []


def _products_of_inputs(found: Slice, call: Call) -> tuple[list[Event], list[Event]]:
    """The products of a floating-point input, or of a copy of one: those of a call, and those of calls before it."""
    mine: list[Event] = []
    former: list[Event] = []
    for event in found.events:
        origins = (source(content) for content, _ in event.reads) if event.call and is_product(event) else ()
        if any(origin.label.startswith("input:") and origin.dtype in FLOATS for origin in origins):
            (mine if event.call == call.index else former).append(event)
    return mine, former


def _harmless(run: ShapeRun) -> Iterable[ShapeFact]:
    """One fact a survivor, whatever it is kept for."""
    for kept in run.survived[:MAX_HARMLESS]:
        fact = Survivor(what="nothing", names=(), role=kept.role, key="+".join(kept.keys) or "none", slot=kept.path)
        yield ShapeFact(fact, kept.loc)


def _call_site(event: Event) -> ir.Loc | None:
    """The innermost place in Python where an event was started."""
    for loc in (event.loc, *reversed(event.stack)):
        if loc is not None and loc[0].language == "python":
            return loc
    return event.loc


def stale_reads(path: PathRun, call: Call) -> Stale:
    """The contents of inputs and weights that the result of `call` depends on although they were not passed to `call`.

    A buffer that a kernel of this call both reads and writes (a counter, an accumulator, partial sums) carries nothing
    over by itself: that read is not followed, unless the kernel reads the buffer before it writes. What an earlier call
    computed and left there is followed.
    """
    out: dict[int, tuple[Content, Event | None]] = {}
    seen: set[int] = set()
    current: set[str] = set()  # the inputs that the result depends on as they are
    carried: set[int] = set()  # what kernels find in buffers that they then write: a counter holds nothing of an input
    returned = {c.ident for c in call.contents}  # also what copies of those are made of
    stack: list[tuple[Content, Event | None]] = [(c, None) for c in call.contents]
    while stack and len(seen) < MAX_CONTENTS:
        content, reader = stack.pop()
        if content.ident in seen:
            continue
        seen.add(content.ident)
        if content.label.startswith(("input:", "state:")):
            storage = content.storage.ident
            if storage in path.given and call.given.get(storage, -1) not in (None, content.ident):
                out.setdefault(content.ident, (content, reader))
            continue
        event = content.event
        if event is None or path.stateful and event.call < call.index and content.storage.ident in call.given:
            continue  # a state that the caller hands in, with what an earlier call left in it
        written = {w.storage.ident for w in event.writes} if event.call == call.index else ()
        by_flow = call.kind != "in place" or content.ident in carried
        elsewhere = _flows_elsewhere(event, content, call) if by_flow else ()
        if content.ident in returned:  # the old result itself: all that its kernel read is in it
            elsewhere = elsewhere if event.call == call.index else ()
            returned |= {read.ident for read, _ in event.reads} if event.kind == "copy" else set()
        current |= {read.label for read, _ in event.reads if call.given.get(read.storage.ident) == read.ident}
        for read, _ in event.reads:
            if read.storage.ident in written:
                if not _carried(event, content, read, call):
                    continue
                carried.add(read.ident)
            if event.kind in UNREAD and _left_unread(read, call):
                continue
            stays = read.storage is content.storage and _apart(event, read.storage.ident, call)
            if read.ident not in elsewhere or stays:
                stack.append((read, event))
        stack.extend((c, event) for c in event.attrs.get("steer", ()))
        if content.previous is not None and not _other_parts(content, content.previous, call):
            stack.append((content.previous, event))
    if path.stateful:  # what builds on earlier calls depends on this one's inputs, too; a cache does not
        out = {ident: found for ident, found in out.items() if found[0].label not in current}
    return Stale(call, list(out.values()))


def _left_unread(read: Content, call: Call) -> bool:
    """Whether what nobody read is handed only what such a thing may have left in an earlier call: a workspace."""
    return read.event is not None and read.event.kind in UNREAD and read.call < call.index


def _other_parts(content: Content, before: Content, call: Call) -> bool:
    """Whether a call reads of a storage what it wrote there itself, and not what an earlier call left `before`."""
    made, ident = content.event, content.storage.ident
    if made is None or not before.call < made.call == call.index:
        return False
    if any(given.storage.ident == ident for given in call.contents):  # the caller reads all of it
        return False
    return read_after_it_was_stored(call.events, ident)


def _carried(event: Event, content: Content, read: Content, call: Call) -> bool:
    """Whether a launch reads what it also writes before anything of its own is there, or where nothing of its own comes
    to be, and needs it for `content`."""
    ident = read.storage.ident
    early = any(ident in facts.traffic().early for facts in facts_of(event)) or _apart(event, ident, call)
    beside = frozenset(other.storage.ident for other in event.writes) - {content.storage.ident}
    return early and read.ident not in unused_loads(event, {}, beside)


def _apart(event: Event, ident: int, call: Call) -> bool:
    """Whether a launch reads memory by a pointer that it writes nothing by, and that leads elsewhere than those by
    which `call` has written to this memory until then: a table behind the counter that it goes by."""
    if event.kind != "launch":
        return False
    begun = _written_from(event, ident)
    for other in call.events if event.call == call.index else ():
        if other is event:
            break
        begun |= _written_from(other, ident)
    starts = event.attrs.get("starts", {})
    written = {store.param for facts in facts_of(event) for store in facts.stores if store.storage == ident}
    read = {load.param for facts in facts_of(event) for load in facts.loads if load.storage == ident} - written
    return bool(written) and None not in begun and any(starts.get(name) not in {None, *begun} for name in read)


def _written_from(event: Event, ident: int) -> set[int | None]:
    """Where an event begins to write to memory: in bytes; None where that is not known."""
    if event.kind != "launch":
        return {None if c.place is None else c.place.start for c in event.writes if c.storage.ident == ident}
    starts = event.attrs.get("starts", {})
    stores = (store for facts in facts_of(event) for store in facts.stores)
    return {starts.get(store.param) for store in stores if store.storage == ident}


def _flows_elsewhere(event: Event, content: Content, call: Call) -> set[int]:
    """The contents that an event moved into other outputs only: a kernel may prepare two tensors at once.

    One that picks both its source and its target by the block it runs on seems to mix them: of such a kernel of an
    earlier call, nothing of an input is taken to be in an output that a weight went into. What a kernel of this `call`
    reads, it reads now.
    """
    flows = event.flows or {}
    own = flows.get(content.ident)
    if own is None:
        return set()
    mine = {c.ident for c in own}
    others = {c.ident for ident, sources in flows.items() if ident != content.ident for c in sources}
    earlier = event.call < call.index
    if earlier and others == mine and len(mine) > 1 and any(_from_outside(c) == {"state"} for c in own):
        return {c.ident for c in own if _from_outside(c) == {"input"}}
    return others - mine


def _from_outside(content: Content) -> set[str]:
    return {label.partition(":")[0] for label in outside([content])}


def ignored_state(run: ShapeRun, found: Slice) -> list[ShapeFact]:
    """Facts `ignored-state`: weights of which the result uses only the values from before `load_state_dict`."""
    loaded = {c.label.partition(":")[2] for c in found.outside if c.label.startswith("state:")}
    out: list[ShapeFact] = []
    for name, tensor in {**run.state, **(run.weights if run.loaded else {})}.items():
        if name in loaded:
            continue
        reader = next((e for e in found.events for c, _ in e.reads if _before_loading(c, tensor)), None)
        if reader is not None:
            out.append(ShapeFact(IgnoredState(name=name), reader.loc, tuple(launched_from(reader)[1:])))
    return out


def _before_loading(content: Content, tensor: Tensor) -> bool:
    if content.storage is not tensor.storage or content.call or content.label.startswith("state:"):
        return False
    return content.event is None or not content.event.attrs.get("loading")
