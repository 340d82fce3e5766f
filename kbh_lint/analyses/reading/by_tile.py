"""Offsets of groups that a result is not made of row by row: a group is chosen for all rows of a block at once.

Kernels do so, or operations of torch: offsets that are only held against fewer numbers than there are rows, which do
not follow from them, say nothing of the rows between those.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from kbh_lint.analyses.flow import Slice, followed
from kbh_lint.analyses.reading.begins import MAX_CONFIGS, PLAIN, made_of, readers
from kbh_lint.base.dtypes import FLOATS, INTS
from kbh_lint.host.gpu.kernel_cache import normalised
from kbh_lint.host.torch.whole_numbers import FIXED, source
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.tensors import Content, Event
from kbh_lint.kernels.extents.chosen import chosen_by

_HELD_AGAINST = frozenset("searchsorted bucketize lt le gt ge less less_equal greater greater_equal".split())


def chosen_for_tiles(found: Slice, wanted: Collection[str]) -> dict[str, Event]:
    """The offsets among `wanted` that every launch uses only to choose one group for a whole block of rows, or that
    torch only compares with fewer numbers than there are rows, by name, each with one of these events."""
    known: dict[str, Event] = {}
    for content in found.outside:
        name, rows = content.label.partition(":")[2], content.notes.get(FIXED, {}).get(-1)
        if name not in wanted or not content.notes.get("rising") or not rows:
            continue
        launches = readers(name, found)
        if launches and all(_by_tile(event, name, rows) for event in launches):
            known[name] = launches[0]
        elif not launches and (asked := _held_against_few(found, name, rows)) is not None:
            known[name] = asked
    return known


def _held_against_few(found: Slice, name: str, rows: int) -> Event | None:
    """An operation that holds offsets against fewer numbers than there are rows, and nothing else is done with them."""
    first: Event | None = None
    for event in found.events:
        if any(source(steering).label == f"input:{name}" for steering in event.attrs.get("steer", ())):
            return None
        if not any(_is_of(read, name) for read, _ in event.reads) or event.kind == "copy" and len(event.reads) == 1:
            continue
        if not _against_few(event, name, rows):
            return None
        first = first or event
    return first


def _is_of(content: Content, name: str) -> bool:
    return content.dtype in INTS and source(content).label == f"input:{name}"


def _against_few(event: Event, name: str, rows: int) -> bool:
    """Whether an operation holds offsets against fewer numbers than there are rows, which come from nothing."""
    others = [(read, tensor) for read, tensor in event.reads if not _is_of(read, name)]
    counts = [tensor.numel() for _, tensor in others]
    known = event.kind in ("op", "library") and event.name.rsplit(".", 1)[-1] in _HELD_AGAINST
    if not known or not others or outside([read for read, _ in others]):
        return False
    return all(count is not None and count < rows for count in counts)


def _by_tile(event: Event, name: str, rows: int) -> bool:
    """Whether a launch chooses groups for fewer blocks than there are rows, in each of its configurations."""
    attrs = event.attrs
    if not followed(event):
        return False
    whole = [read for read, _ in event.reads if read.dtype in INTS]
    if not all(made_of(read, name) for read in whole):  # what others worked out may say more
        return False
    held = {read.storage.ident for read in whole}
    given = {read.storage.ident for read, _ in event.reads if read.dtype in FLOATS and _is_input(read)}
    made = {write.storage.ident for write in event.writes}
    if not given or not made:
        return False
    return all(_for_few(event, binding, held, given | made, rows) for binding in attrs["bindings"][:MAX_CONFIGS])


def _for_few(event: Event, binding: dict[str, object], held: set[int], lines: set[int], rows: int) -> bool:
    """The same in one of them; offsets are in the storages `held`, and `lines` have one for each row."""
    grid, axes = event.attrs["grid"], _axes(event, binding, held, lines)
    sizes = list(grid) if isinstance(grid, (tuple, list)) else [grid]
    counts = [sizes[axis] for axis in axes or () if axis < len(sizes)]
    known = [count for count in counts if isinstance(count, int)]
    return axes is not None and len(known) == len(axes) and prod(known) < rows


def _is_input(content: Content) -> bool:
    return source(content).label.startswith("input:")


def _axes(event: Event, binding: dict[str, object], held: set[int], rows: set[int]) -> frozenset[int] | None:
    """The axes of the grid that groups are chosen by, found once for equal launches."""
    attrs = event.attrs
    by = {name: getattr(value, "storage", None) for name, value in binding.items()}
    if not all(value is None or isinstance(value, PLAIN) for value in binding.values()) or not held <= set(by.values()):
        return None
    offsets = sorted(name for name, at in by.items() if at in held)
    static = sorted(name for name, at in by.items() if at in rows)
    launch = normalised(attrs["answered"].here, binding)
    key = ("chosen", attrs["seen"], launch.key, *offsets, None, *static)
    answers = attrs["answered"].everywhere
    if key not in answers:
        answers[key] = chosen_by(attrs["kernel"], binding, offsets, frozenset(static))
    found: frozenset[int] | None = answers[key]
    return found
