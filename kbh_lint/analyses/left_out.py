"""Inputs and weights of which the kernels that read them cannot have read all, and results that they cannot have
filled.

An upper bound of what is read is held against the whole: the elements that all loads together reach, and how many there
are. Of an operation of torch it is the view that it is given. Nothing is said where a load is not bounded. Of lengths
that are all the same in what is drawn, the bound is asked for just these too: a kernel that reads the last 1024 of any
length reads all of a shorter one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from math import gcd, lcm, prod
from typing import Any, Literal, NamedTuple

from kbh_lint import registry
from kbh_lint.analyses.flow import Slice, followed
from kbh_lint.base.dtypes import INTS, STORED
from kbh_lint.base.values import Buffer
from kbh_lint.host.gpu.extents import counted_bits
from kbh_lint.host.gpu.kernel_cache import Normal, normalised
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Content, Event, Storage, Tensor, product
from kbh_lint.kernels.extents.parts import Part
from kbh_lint.kernels.extents.reads import Parts, parts_under
from kbh_lint.kernels.extents.values import Dims
from kbh_lint.kernels.extents.writes import all_parts
from kbh_lint.problems import Promise

NAMED = ("inputs", "must_read", "narrow", "packed", "scales", "over", "select_from", "with")
VIEWED = ("op", "library", "copy")  # operations of torch, which read what they are given
_ANYWHERE = 1 << 62
MAX_PHASES = 64  # of words that are read, by what they leave when they are divided: fields of a struct
SPARE = 2  # of integers: the first or the last offset follows from the others
SPARE_OFFSETS = 3  # of those that rise from a first to a last one that are known: both do


def left_out(promise: Promise, found: Slice) -> dict[str, Event]:
    """The inputs and weights named by `promise` that no launch reads completely, each with a launch that reads a part.

    Where the trace has an input's values from several calls, those of the latest call count.
    """
    names = {name for key in NAMED for name in promise.params.get(key, ())}
    last: dict[str, Content] = {}
    for content in found.outside:
        name = content.label.partition(":")[2]
        if name in names and (name not in last or last[name].call < content.call):
            last[name] = content
    known = {name: _reader(content, found) for name, content in last.items()}
    return {name: event for name, event in known.items() if event is not None}


def _reader(content: Content, found: Slice) -> Event | None:
    """A launch that reads a part of a content; None where all may be read."""
    size = content.storage.size
    readers = [event for event in found.events if any(read is content for read, _ in event.reads)]
    if not isinstance(size, int) or not readers or any(content in e.attrs.get("steer", ()) for e in found.events):
        return None
    # What is left out for all legal lengths is left out for those that are drawn: where there are such, it is enough to
    # ask for them.
    drawn = any("drawn" in read.notes for event in readers for read, _ in event.reads)
    return readers[0] if _short(content, size, readers, drawn) else None


def _short(content: Content, size: int, readers: list[Event], drawn: bool) -> bool:
    """Whether launches read less than there is of a content: for all legal lengths, or for those that are `drawn`."""
    parts: list[tuple[Part, int]] = []
    for event in sorted(readers, key=_is_walked):
        here = _parts(content, event, drawn)
        if here is None or any(_is_whole(part, bits, size * 8) for part, bits in here):
            return False
        parts += here
    bits = min((width for _, width in parts), default=8)
    spare = SPARE_OFFSETS if content.notes.get("rising") else SPARE
    missing = spare * bits if content.dtype in INTS and content.dtype not in ("u8", "i8") else bits
    first, end = (min(p.first * w for p, w in parts), max(p.end * w for p, w in parts)) if parts else (0, 0)
    counts = [None if p.count is None else p.count * w for p, w in parts]
    most = sum(c for c in counts if c is not None)
    short = end - max(first, 0) + missing <= size * 8
    return short or None not in counts and most + missing <= size * 8


def _is_walked(event: Event) -> bool:
    """Whether it takes a walk through a kernel to tell what an event reads."""
    return event.kind == "launch" and event.weight == 1


def _is_whole(part: Part, bits: int, size: int) -> bool:
    """Whether a part in elements of so many bits may be all of what has `size` of them."""
    return part.first <= 0 and part.end * bits >= size and (part.count is None or part.count * bits >= size)


def _parts(content: Content, event: Event, drawn: bool) -> list[tuple[Part, int]] | None:
    """The part of each load of a content by a launch, with the width of an element; None where one is not known."""
    attrs, ident = event.attrs, content.storage.ident
    if event.kind in VIEWED and event.weight == 1:
        return _viewed(content, event)
    if event.kind != "launch" or event.weight != 1 or not attrs["bindings"]:
        return None
    if not registry.by_pointers(attrs["kernel"].language):
        return _by_language(content, event)
    grid, block = attrs["grid"], attrs["block"]
    if attrs["facts"][0].unread or not isinstance(grid, (tuple, list, int)):
        return None
    given = [name for name, value in attrs["bindings"][0].items() if getattr(value, "storage", -1) == ident]
    starts, bits = attrs.get("starts", {}), counted_bits(event, ident)
    if bits is None or any(starts.get(name) != 0 for name in given):
        return None
    dims = _dims(grid), _dims(block) if isinstance(block, (tuple, list, int)) else (None, None, None)
    found = _at(event, ident, dims, drawn=drawn)
    return None if found is None else [(part, bits) for part in found]


def _viewed(content: Content, event: Event) -> list[tuple[Part, int]] | None:
    """The parts that an operation of torch is given of a content."""
    found: list[tuple[Part, int]] = []
    for read, tensor in event.reads:
        if read is not content:
            continue
        count, bits = product(tensor.shape), STORED.get(tensor.dtype)
        if count is None or bits is None:
            return None
        found.append((Part(0, (content.storage.size or 0) * 8 // bits, count), bits))
    return found


def _by_language(content: Content, event: Event) -> list[tuple[Part, int]] | None:
    """The same of a kernel in a language that says itself which part of a tensor its kernels read. Of several that
    are timed one runs: their parts together are more than it reads."""
    attrs, ident, bits = event.attrs, content.storage.ident, STORED.get(content.dtype)
    read_parts = registry.of_kernel(attrs["kernel"].language).read_parts
    given = [name for name, value in attrs["bindings"][0].items() if getattr(value, "storage", -1) == ident]
    starts = attrs.get("starts", {})
    if read_parts is None or bits is None or any(starts.get(name) != 0 for name in given):
        return None
    if "cut" in attrs or any(facts.unread for facts in attrs["distinct"]):
        return None
    found: list[tuple[Part, int]] = []
    for kernel in attrs.get("kernels", (attrs["kernel"],)):
        parts, declared = read_parts(kernel, attrs["bindings"][0]).get(ident, ((), None))
        if declared is None or declared * bits != (content.storage.size or 0) * 8:
            return None
        found += [(part, bits) for part in parts]
    return found


def unfilled_by(tensor: Tensor, run: ShapeRun) -> Event | None:
    """A launch that writes a part of the result `tensor`, when no launch writes the rest of its uninitialised memory;
    None otherwise."""
    content, size = tensor.storage.content, tensor.storage.size
    shown = prod(tensor.shape) if tensor.shape and all(isinstance(n, int) for n in tensor.shape) else None
    if not content.notes.get("over-empty") or not isinstance(size, int) or shown is None or 0 in (tensor.strides or ()):
        return None
    ident = tensor.storage.ident
    writers = [e for call in run.calls for e in call.events if any(w.storage.ident == ident for w in e.writes)]
    if content.event is None or not any(event is content.event for event in writers):
        return None
    most = 0  # bits
    for event in writers:
        parts = _stored(ident, event)
        if parts is None or any(part.count is None for part, _ in parts):
            return None
        most += sum((part.count or 0) * bits for part, bits in parts)
    return content.event if most < min(shown * STORED.get(tensor.dtype, 8), size * 8) else None


class _Stretch(NamedTuple):
    """Bits of a storage, from `first` up to before `end`: words of `width` that begin at `phase`, modulo `step`. Where
    it is empty, no more is known of it than where it begins."""

    first: int
    end: int
    step: int = 1
    phase: int = 0
    width: int = 1


def read_after_it_was_stored(events: Iterable[Event], ident: int) -> bool:
    """Whether the launches among `events` read of storage `ident` only what launches before them may have stored there,
    as when a workspace is used in parts. What the storage held before is then not read."""
    written: list[_Stretch] = []
    readers = 0
    for event in events:
        if any(read.storage.ident == ident for read, _ in event.reads):
            readers += 1
            if not all(_within(read, written) for read in _stretches(event, ident, "loads")):
                return False
        if any(write.storage.ident == ident for write in event.writes):
            written += filter(None, _stretches(event, ident, "stores"))
    return readers > 0


def _within(read: _Stretch | None, written: list[_Stretch]) -> bool:
    """Whether each word that is read may be one of a stretch that was written: fields of structs lie between each
    other, so each remainder has its own."""
    if read is None:
        return False
    if read.first == read.end:
        return any(other.first <= read.first and read.end <= other.end for other in written)
    near = [other for other in written if other.first < read.end and read.first < other.end]
    period, word = lcm(read.step, *(other.step for other in near)), gcd(read.width, *(other.width for other in near))
    phases, words = range(read.phase, read.phase + period, read.step), range(0, read.width, word)
    return len(phases) * len(words) <= MAX_PHASES and all(
        any(_covers(other, read, at, word, phase) for other in near) for phase in phases for at in words
    )


def _covers(other: _Stretch, read: _Stretch, at: int, word: int, phase: int) -> bool:
    """Whether the word `at` so many bits behind where each word that is read begins, at a phase, is one of another
    stretch."""
    inside = other.first <= read.first + at and read.end - read.width + at + word <= other.end
    return inside and (phase + at - other.phase) % other.step <= other.width - word


def _stretches(event: Event, ident: int, what: Literal["loads", "stores"]) -> list[_Stretch | None]:
    """What a launch touches of a storage through each pointer; None where that is not known, or, of stores, where they
    leave some of it out.

    Of loads that are not bounded it is where the pointer begins, if the launch is given another one into the storage:
    what lies behind that is another part of a workspace. Stores that are not may end where such a one begins.
    """
    attrs, dims = event.attrs, _launched(event)
    if dims is None:
        return [None]
    places = [p for f in attrs["distinct"] for p in (f.loads if what == "loads" else f.stores) if p.storage == ident]
    found: list[_Stretch | None] = []
    for param in {place.param for place in places}:
        found += _through(event, param, {STORED.get(p.dtype) for p in places if p.param == param}, dims, what)
    return found or [None]


def _through(
    event: Event, param: str, widths: Collection[int | None], dims: tuple[Dims, Dims], what: Literal["loads", "stores"]
) -> list[_Stretch | None]:
    """The same of one pointer to elements of these widths."""
    given, start = event.attrs["bindings"][0], event.attrs.get("starts", {}).get(param)
    if not isinstance(given.get(param), Buffer) or start is None:
        return [None]
    ident, binding = given[param].storage, dict(given)
    others = [name for name, value in given.items() if _points_into(value, ident) and name != param]
    for number, name in enumerate(others):  # they lead elsewhere
        binding[name] = replace(binding[name], storage=-2 - number)
    all_of = all_parts(event.attrs["kernel"], binding, *dims)
    parts = (all_of.loads if what == "loads" else all_of.stores).get(ident)
    one = next(iter(widths)) if len(widths) == 1 else None
    bits = one if one is None or not parts else all_of.widths.get(ident) or one
    if bits is None:
        return [None]
    if not parts:
        return [_unbounded(event, start, others, what)]
    if what == "loads":
        return [_bits(part, start, bits) for part in parts]
    return _stored_bits(parts, start, bits)


def _bits(part: Part, start: int, bits: int) -> _Stretch:
    """A part in elements of so many bits, behind a byte."""
    step = part.step * bits
    first, end = start * 8 + part.first * bits, start * 8 + part.end * bits
    return _Stretch(first, end, step, (start * 8 + part.phase * bits) % step, part.width * bits)


def _stored_bits(parts: list[Part], start: int, bits: int) -> list[_Stretch | None]:
    """What stores can have filled: each what lies in its steps, or all together what is between them."""
    filled = [p for p in parts if p.count is None or p.count >= -(-(p.end - p.first) // p.step) * p.width]
    first, end = min(part.first for part in parts), max(part.end for part in parts)
    found: list[_Stretch | None] = [_bits(part, start, bits) for part in filled]
    if len(parts) > 1 and sum(end - first if part.count is None else part.count for part in parts) >= end - first:
        found.append(_bits(Part(first, end, None), start, bits))
    return found or [None]


def _unbounded(event: Event, start: int, others: list[str], what: Literal["loads", "stores"]) -> _Stretch | None:
    """Where accesses are taken to lie that begin at this byte, beside other pointers into the storage."""
    if what == "loads":
        return _Stretch(start * 8, start * 8) if others else None
    begun = [event.attrs["starts"].get(name) for name in others]
    return _Stretch(start * 8, min((at * 8 for at in begun if at is not None and at > start), default=_ANYWHERE))


def _points_into(given: object, ident: int) -> bool:
    return isinstance(given, Buffer) and given.storage == ident


def _stored(ident: int, event: Event) -> list[tuple[Part, int]] | None:
    """The part of each store of a launch to a storage, with the width of an element; None where one is not known, or
    where together they may be all of it."""
    dims = _launched(event)
    bits = None if dims is None else counted_bits(event, ident)
    parts = None if dims is None or bits is None else _at(event, ident, dims, "writes")
    return None if parts is None or bits is None else [(part, bits) for part in parts]


def _launched(event: Event) -> tuple[Dims, Dims] | None:
    """Grid and block of one launch of a kernel of threads whose stores were all read; None for another event."""
    attrs = event.attrs
    if event.kind != "launch" or event.weight != 1 or not followed(event) or len(attrs["bindings"]) != 1:
        return None
    grid, block = attrs["grid"], attrs["block"]
    if not isinstance(grid, (tuple, list, int)):
        return None
    return _dims(grid), _dims(block) if isinstance(block, (tuple, list, int)) else (None, None, None)


_Dims = tuple[tuple[Any, ...], tuple[Any, ...]]  # of the grid, and of a block
_Ranges = dict[int, tuple[int, int]]  # by storage, what the whole numbers in it are between


def _at(event: Event, ident: int, dims: _Dims, what: str = "reads", drawn: bool = False) -> list[Part] | None:
    """The parts of a storage at all loads or stores of a launch, found once for equal launches: of an input or a
    weight at its loads, of any storage at its stores. None where one has no bound, or together they may be all of it.
    """
    attrs, launch = event.attrs, normalised(event.attrs["answered"].here, event.attrs["bindings"][0])
    if what == "reads":
        return _read(event, launch, dims, _ranges(event, launch, drawn)).get(launch.storages.get(ident, -1))
    answers, local = attrs["answered"].everywhere, launch.storages.get(ident, -1)
    size = next((_elements(event, write.storage) for write in event.writes if write.storage.ident == ident), None)
    key = ("writes", attrs["seen"], launch.key, str(dims), local, size)
    if key not in answers:
        # who asks for stores asks for loads later, of most launches: both are found in one walk where they can be
        apart = any(_ranges(event, launch, drawn) for drawn in (False, True))
        asked = {} if apart else _outside(event, launch)
        sizes = asked if size is None else {**asked, local: size}
        found = all_parts(attrs["kernel"], launch.binding, *dims, frozenset(asked), frozenset((local,)), sizes)
        answers[key] = found.stores
        if asked:
            answers.setdefault(_key_of_reads(event, launch, dims, ()), []).append(({}, found.loads))
    stored: Parts = answers[key]
    return stored.get(local)


def _read(event: Event, launch: Normal, dims: _Dims, ranges: _Ranges) -> Parts:
    """What a launch reads of inputs and weights where whole numbers lie in ranges, found once for ranges that agree in
    all that it looks at: most kernels look at none of what holds the same number in all places when it is drawn."""
    attrs = event.attrs
    key = _key_of_reads(event, launch, dims, ranges)
    known: list[tuple[_Ranges, Parts]] = attrs["answered"].everywhere.setdefault(key, [])
    for met, parts in known:
        if all(ranges[at] == ends for at, ends in met.items()):
            return parts
    sizes = _outside(event, launch)
    parts, looked = parts_under(attrs["kernel"], launch.binding, *dims, ranges, frozenset(sizes), sizes)
    known.append(({at: ranges[at] for at in looked}, parts))
    return parts


def _key_of_reads(event: Event, launch: Normal, dims: _Dims, ranges: Iterable[int]) -> tuple[Any, ...]:
    sizes = tuple(_outside(event, launch).items())
    return "reads", event.attrs["seen"], launch.key, str(dims), frozenset(ranges), sizes


def _outside(event: Event, launch: Normal) -> dict[int, int]:
    """The inputs and weights that a launch reads, by number, with how many elements they have as it counts them; none
    of which that is not known."""
    here = event.attrs["answered"].here
    known = here.get(("outside", id(event)))
    if known is None or known[0] is not event:
        outside = {read.storage.ident: read.storage for read, _ in event.reads
                   if read.label.startswith(("input:", "state:"))}  # fmt: skip
        told = ((at, _elements(event, outside[ident])) for ident, at in launch.storages.items() if ident in outside)
        known = here["outside", id(event)] = event, {at: size for at, size in told if size is not None}
    sizes: dict[int, int] = known[1]
    return sizes


def _elements(event: Event, storage: Storage) -> int | None:
    """How many elements a storage has as a launch counts them that is given it from its beginning on."""
    bits, starts = counted_bits(event, storage.ident), event.attrs.get("starts", {})
    given = [name for name, one in event.attrs["bindings"][0].items() if getattr(one, "storage", -1) == storage.ident]
    if bits is None or not isinstance(storage.size, int) or any(starts.get(name) != 0 for name in given):
        return None
    return -(-storage.size * 8 // bits)


def _ranges(event: Event, launch: Normal, drawn: bool) -> _Ranges:
    """What the whole numbers of contents are between that a launch reads, where it is known."""
    told = ((read.storage.ident, _ends(read, drawn)) for read, _ in event.reads)
    return {launch.storages[at]: ends for at, ends in told if ends is not None and at in launch.storages}


def _ends(content: Content, drawn: bool) -> tuple[int, int] | None:
    """What the whole numbers of a content are between, where that is known."""
    given: tuple[int, int] | None = content.notes.get("whole")
    return (content.notes["drawn"],) * 2 if drawn and "drawn" in content.notes else given


def _dims(given: object) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)
