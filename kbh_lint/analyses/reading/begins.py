"""Offsets of groups that a result takes for ends alone: where a group begins is worked out without them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kbh_lint.analyses.flow import Slice, followed, roots
from kbh_lint.base.dtypes import INTS
from kbh_lint.base.values import Buffer, DType, Scalar, TypeValue
from kbh_lint.host.gpu.kernel_cache import normalised
from kbh_lint.host.torch.whole_numbers import FIXED, held, source, whole
from kbh_lint.host.values.tensors import Content, Event
from kbh_lint.kernels.extents.ends_only import only_ends

MAX_CONFIGS = 12  # of one launch
MAX_LAUNCHES = 4  # of one for each group a later one may overwrite what an earlier one wrote
PLAIN = (Buffer, Scalar, DType, TypeValue, int, float, str)


def begins_elsewhere(found: Slice, wanted: Collection[str]) -> dict[str, Event]:
    """The offsets among `wanted` of which every launch uses only the ends of groups and derives the beginnings
    elsewhere, by name, each with one of these launches."""
    known: dict[str, Event] = {}
    for name in {content.label.partition(":")[2] for content in found.outside if content.notes.get("rising")}:
        launches = readers(name, found) if name in wanted else []
        if launches and all(_ends_in(event, name) for event in launches):
            known[name] = launches[0]
    return known


def readers(name: str, found: Slice) -> list[Event]:
    """The launches that read the offsets `name` or a plain copy of them; none if any other operation reads them, or if
    their values decide a branch of the host."""
    launches: list[Event] = []
    for event in found.events:
        if any(made_of(steering, name) for steering in event.attrs.get("steer", ())):
            return []
        mine = [read for read, _ in event.reads if read.dtype in INTS and made_of(read, name)]
        if not mine:
            continue
        if event.kind == "copy" and len(event.reads) == 1 and "from" in event.attrs:
            continue
        if event.kind != "launch" or any(source(read).label != f"input:{name}" for read in mine):
            return []
        if any(write.dtype in INTS for write in event.writes):  # a plan, of which others read
            return []
        launches.append(event)
    return launches if len(launches) <= MAX_LAUNCHES and all(event.weight == 1 for event in launches) else []


def made_of(content: Content, name: str) -> bool:
    """Whether `content` is the input `name`, or was computed from its values of this or an earlier call."""
    return content.label == f"input:{name}" or any(root.name == name for root in roots(content))


def _ends_in(event: Event, name: str) -> bool:
    """Whether a launch takes offsets for ends alone, in each of its configurations."""
    attrs = event.attrs
    if not followed(event):
        return False
    held_by = {at for at, content in attrs["contents"].items() if content.dtype in INTS and made_of(content, name)}
    if held_by != {read.storage.ident for read, _ in event.reads if read.dtype in INTS and made_of(read, name)}:
        return False
    return all(_in_one(event, binding, held_by) for binding in attrs["bindings"][:MAX_CONFIGS])


def _in_one(event: Event, binding: dict[str, Any], held_by: set[int]) -> bool:
    """The same in one of them; offsets are in the storages `held_by`."""
    attrs = event.attrs
    given = {name: value for name, value in binding.items() if getattr(value, "storage", -1) in held_by}
    plain = all(value is None or isinstance(value, PLAIN) for value in binding.values())
    if not plain or {value.storage for value in given.values()} != held_by:
        return False
    told = {param: _known(event, param, attrs["contents"][value.storage]) for param, value in given.items()}
    launch = normalised(attrs["answered"].here, binding)
    key = ("ends only", attrs["seen"], launch.key, str(sorted((param, sorted(at)) for param, at in told.items())))
    answers = attrs["answered"].everywhere
    if key not in answers:
        answers[key] = only_ends(attrs["kernel"], binding, told)
    found: bool = answers[key]
    return found


def _known(event: Event, param: str, content: Content) -> frozenset[int]:
    """The places behind a pointer whose elements all legal offsets have in common."""
    fixed, count = source(content).notes.get(FIXED, {}), held(content)
    if whole(content) is not source(content) or event.attrs.get("starts", {}).get(param) != 0 or count is None:
        return frozenset()
    return frozenset(at % count for at in fixed)
