"""What torch operations leave in a run: new tensors, events, and the contents that they write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import Value
from kbh_lint.host.values import bounds
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.cpp_objects import CStruct, Pointer, Slot
from kbh_lint.host.values.tensors import (
    ADDRESS_BITS,
    Content,
    Event,
    EventAttrs,
    Storage,
    Tensor,
    Unknown,
    product,
    row_major,
)

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

ADDRESSES = "addresses"  # the note on a content of the tensors that addresses in it lead to, and where these begin
MAX_ADDRESSES = 1024  # of one content
_FIRST = 1 << ADDRESS_BITS  # the first number that is an address
_NO_ADDRESSES = frozenset((Tensor, float, str, bool, type(None)))  # kinds of values of which none is one
MAX_DEPTH = 4  # lists and structs in one another that addresses are looked for in
MAX_PIECES = 16  # that one line writes side by side into a buffer, and that are told apart
MAX_OTHERS = 64  # that one line writes into a buffer, each made of other inputs and weights
MAX_ORDERED = 200  # values that are looked at, of those that are put in order
FILLED = "filled"  # the note on a content of how much lines wrote of its storage in the call that made it
MADE_OF = "made-of"  # the note on a content of these


def make(
    interp: Run, shape: tuple[Value, ...] | None, dtype: str, label: str = "", event: Event | None = None,
    strides: tuple[Value, ...] | None = None, device: str = "cuda",
) -> Tensor:  # fmt: skip
    """Makes a tensor over a new storage, whose content `event` wrote, or which comes from what `label` says."""
    count = product(shape)
    size = count * dtypes.STORED.get(dtype, 32) // 8 if count is not None else None
    storage = Storage(interp.session.idents, size)
    storage.content = Content(storage, dtype, interp.trace.call_index, label, event)
    if event is not None:
        event.writes.append(storage.content)
    made = Tensor(storage, dtype, shape, strides or row_major(shape), device=device)
    interp.memory.views[storage.ident] = made
    return made


def write(
    interp: Run, target: Tensor, event: Event, partial: bool = False, dtype: str | None = None, *,
    less: bool = False, count: int | None = None,
) -> None:  # fmt: skip
    """Records that `event` writes `target`. A partial write keeps the rest of the former content but for what the same
    source line wrote before; that is kept, too, where in this call it went to other bytes or came from other tensors,
    or where the line writes `less` than in an earlier call (of torch's operations, by `count`, the elements in the
    part)."""
    storage = target.storage
    filled = _filled(interp, target, event, count) if (partial or target.is_slice) and event.kind != "launch" else None
    old = storage.content
    keep: Content | None = None
    place = target.place if target.is_slice else None
    band = target.band if target.is_slice and place is None else None
    if partial or target.is_slice:
        keep = _kept(interp, target, event, None if less else (place, band), filled)
    storage.content = Content(storage, dtype or target.dtype, interp.trace.call_index, "", event, keep)
    storage.content.place, storage.content.band = place, band
    if filled is not None:
        storage.content.notes[FILLED] = filled
    if old.label == "empty" and old.call or old.notes.get("over-empty"):
        storage.content.notes["over-empty"] = True  # allocated in a call, and nothing but such writes since
    storage.version += 1
    event.writes.append(storage.content)


def _kept(
    interp: Run, target: Tensor, event: Event, bytes_: tuple[range | None, tuple[range, int] | None] | None,
    filled: _Filled | None,
) -> Content | None:  # fmt: skip
    """What stays of a storage that an event writes these bytes of, which are None where it writes less than before."""
    keep: Content | None = target.storage.content
    call = interp.trace.call_index
    while bytes_ is not None and keep is not None and keep.event is not None and keep.event.loc == event.loc:
        if keep.call == call and (_apart(keep, *bytes_) or _of_others(keep, event)):
            break
        if keep.call < call and filled is not None and _wrote_more(keep, filled):
            break
        keep = keep.previous
    if filled is not None and keep is not None:
        keep = _without_earlier(interp, target, keep, filled)
    gone = keep is None or keep.label in ("empty", "constant") or _scratch_of_others(interp, keep, event)
    return None if gone else keep


_Filled = dict[ir.Loc | None, int | None]  # by line, how many elements it wrote in a call, where that is known


def _filled(interp: Run, target: Tensor, event: Event, count: int | None) -> _Filled:
    """What lines have written of a storage in this call when one writes a part of it."""
    old = target.storage.content
    known: _Filled = dict(old.notes.get(FILLED, ())) if old.call == interp.trace.call_index else {}
    wrote = count if count is not None or not target.is_slice else product(target.shape)
    before = known.get(event.loc, 0)
    known[event.loc] = None if wrote is None or before is None else before + wrote
    return known


def _wrote_more(earlier: Content, filled: _Filled) -> bool:
    """Whether a line wrote more elements in an earlier call, which made a content, than it has written in this one."""
    loc = earlier.event.loc if earlier.event is not None else None
    now, then = filled.get(loc), earlier.notes.get(FILLED, {}).get(loc)
    return now is not None and then is not None and now < then


def _without_earlier(interp: Run, target: Tensor, content: Content, filled: _Filled) -> Content | None:
    """What is kept of a storage when lines have written so much of it in this call: nothing of earlier calls if that is
    all of it, and nothing of what the same lines wrote then, unless that was more."""
    size, width = target.storage.size, dtypes.STORED.get(target.dtype)
    counts = [count for count in filled.values() if count is not None]
    whole = isinstance(size, int) and width is not None and sum(counts) * width >= size * 8
    call, last = interp.trace.call_index, None
    kept: Content | None = content
    while kept is not None and kept.call == call and kept.event is not None:
        last, kept = kept, kept.previous
    if whole and kept is not None and kept.call < call:
        kept = None
    kept = _but_for(kept, filled)
    if last is None:
        return kept
    last.previous = kept
    return content


def _but_for(content: Content | None, filled: _Filled) -> Content | None:
    """A content of an earlier call without what lines wrote that have written in this one, and no less."""
    stay: list[Content] = []
    under, looked = content, 0
    while under is not None and under.event is not None and under.event.kind != "launch" and looked < MAX_PIECES:
        if under.event.loc not in filled or _wrote_more(under, filled):
            stay.append(under)
        under, looked = under.previous, looked + 1
    if looked == len(stay):
        return content
    for one in reversed(stay):
        made = Content(one.storage, one.dtype, one.call, one.label, one.event, under)
        made.notes, made.place, made.band = one.notes, one.place, one.band
        under = made
    return under


def _apart(content: Content, place: range | None, band: tuple[range, int] | None) -> bool:
    """Whether a content fills other bytes than these. Not many: a loop over all rows makes one content."""
    written, pieces = content, 0
    while pieces < MAX_PIECES:
        if band is not None and written.band is not None and written.band[1] == band[1]:
            one, other = written.band[0], band[0]
        elif place is not None and written.place is not None:
            one, other = written.place, place
        else:
            return False
        if one.start < other.stop and other.start < one.stop:
            return False
        if written.previous is None or written.previous.event is None:
            return True
        if written.event is None or written.previous.event.loc != written.event.loc:
            return True
        written, pieces = written.previous, pieces + 1
    return False


def _of_others(content: Content, event: Event) -> bool:
    """Whether what one line wrote last in this call, to bytes that are not told apart, is made of other inputs and
    weights than what it writes now. Not many: of what a line writes in turns, each stays that is not there already."""
    last, wrote = _made_of(content), _origins(event)
    if content.event is None or last == wrote:
        return False
    written = content.previous
    earlier: list[frozenset[str]] = []
    while written is not None and written.event is not None and written.event.loc == event.loc:
        if written.call != content.call or len(earlier) > MAX_OTHERS:
            break
        earlier.append(_made_of(written))
        written = written.previous
    return len(earlier) < MAX_PIECES or last not in earlier and len(earlier) < MAX_OTHERS


def _made_of(content: Content) -> frozenset[str]:
    """The inputs and weights that the last write of a content came from."""
    known: frozenset[str] | None = content.notes.get(MADE_OF)
    if known is None and content.event is not None:
        known = content.notes[MADE_OF] = _origins(content.event)
    return known or frozenset()


def _origins(event: Event) -> frozenset[str]:
    return frozenset(outside([content for content, _ in event.reads]))


def _scratch_of_others(interp: Run, content: Content, event: Event) -> bool:
    """Whether a launch writes memory that models of other shapes used: what it leaves there is none of its results."""
    return event.kind == "launch" and interp.memory.of_another_model(content)


def take_over(interp: Run, storage: Storage) -> None:
    """Forgets what a model of another shape left in a storage that a launch now both reads and writes, since it says
    nothing of this model's weights. Known numbers of counters stay."""
    old = storage.content
    if interp.memory.of_another_model(old):
        storage.content = Content(storage, old.dtype, interp.trace.call_index, "constant")
        storage.content.notes = old.notes


def record(
    interp: Run,
    kind: str,
    name: str,
    loc: ir.Loc | None,
    tensors: Sequence[Tensor],
    attrs: EventAttrs | None = None,
) -> Event:
    """Records and returns an event that reads `tensors`."""
    bounds.steps(interp, 2 * len(tensors))
    event = Event(kind, name, loc, [(t.storage.content, t) for t in tensors], attrs=attrs or {})
    steer = steered_by(tensors)
    if steer:
        event.attrs["steer"] = (*event.attrs.get("steer", ()), *steer)
    interp.emit(event)
    return event


def ordered(interp: Run, name: str, values: Value, loc: ir.Loc | None) -> Unknown | None:
    """Records that the host puts values in order, and returns what comes first, or second, or anywhere; None where none
    of them was read from a tensor."""
    contents = interp.contents_of(numbers_read(values))
    if not contents:
        return None
    event = Event("library", name, loc, [(one, _whole(one)) for one in contents])
    event.attrs["orders"], event.attrs["symbol"] = True, name
    interp.emit(event)
    made = make(interp, None, contents[0].dtype, event=event, device="cpu")
    return Unknown((made.storage.content,), name, made=interp.trace.round)


def numbers_read(value: Value, depth: int = 0) -> list[Value]:
    """The numbers among values, or in objects of C++, that were read from tensors; tensors of several are none."""
    if isinstance(value, Unknown):
        return [value] if value.contents else []
    if isinstance(value, Tensor):
        return [value] if value.shape == () else []
    inner = value.attrs.values() if isinstance(value, CStruct) else value if isinstance(value, (list, tuple)) else ()
    if depth > MAX_DEPTH:
        return []
    return [one for part in list(inner)[:MAX_ORDERED] for one in numbers_read(part, depth + 1)]


def _whole(content: Content) -> Tensor:
    """All that a storage holds, as one row."""
    size, bits = content.storage.size, dtypes.STORED.get(content.dtype, 0)
    count = size * 8 // bits if isinstance(size, int) and bits else None
    return Tensor(content.storage, content.dtype, None if count is None else (count,), device="cpu")


def may_fill(interp: Run, tensors: Sequence[Tensor], event: Event, *, over_work: bool = True) -> None:
    """`event`, a call that nobody read, may write to each tensor without contents and to each that outlives the call;
    with `over_work` also where work that was read left something in an earlier call. It is taken not to write to
    inputs, weights, or what was computed for it."""
    for tensor in tensors:
        content = tensor.storage.content
        unread = content.event is not None and content.event.kind in ("unread", "library")
        again = unread or over_work and content.call < interp.trace.call_index
        if content.label in ("empty", "constant") or not content.label and again:
            write(interp, tensor, event, partial=not content.label and not unread)


def steered_by(tensors: Sequence[Tensor]) -> tuple[Content, ...]:
    """Returns the contents that chose which part of a storage these views show (`x[first:last]` with bounds from a
    tensor)."""
    return tuple(content for tensor in tensors for content in tensor.attrs.get("steer", ()))


class Address(NamedTuple):
    """The address of a tensor, stored in a content: the byte at which its row begins, and the struct field that holds
    it."""

    at: int | None
    tensor: Tensor
    field: str = ""


def addresses(interp: Run, target: Tensor, values: Value, old: Content | None = None) -> None:
    """Notes which tensors the addresses among `values`, just written to `target`, point to. What a loop wrote to the
    former content `old` at the same source line is kept."""
    content = target.storage.content
    found: list[Address] = []
    if old is not None and old.event is not None and content.event is not None and old.event.loc == content.event.loc:
        found += old.notes.get(ADDRESSES, ())
    _add_addresses(interp, values, target.start, "", found, 0)
    if found:
        content.notes[ADDRESSES] = found


def _add_addresses(interp: Run, value: Value, start: int | None, field: str, found: list[Address], depth: int) -> None:
    """Addresses of one row of a table count as ones that begin where the row does."""
    value = value.get() if isinstance(value, Slot) else value
    if isinstance(value, (list, tuple)) and depth < MAX_DEPTH:
        rows = isinstance(value[0], (list, tuple)) if value else False
        width = 8 * len(value[0]) if rows else 0
        for at, item in enumerate(value[:MAX_ADDRESSES]):
            kind = type(item)
            if kind is int and item < _FIRST or kind in _NO_ADDRESSES:
                continue
            _add_addresses(interp, item, start if start is None else start + at * width, field, found, depth + 1)
        return
    if isinstance(value, CStruct) and depth < MAX_DEPTH:
        for name, item in value.attrs.items():
            _add_addresses(interp, item, start, f"{field}.{name}".strip("."), found, depth + 1)
        return
    tensor = value.tensor if isinstance(value, Pointer) else interp.tensor_at(value)
    if tensor is None or len(found) >= MAX_ADDRESSES:
        return
    near = found[-MAX_PIECES:]
    if not any((a.at, a.field) == (start, field) and a.tensor.storage is tensor.storage for a in near):
        found.append(Address(start, tensor, field))
