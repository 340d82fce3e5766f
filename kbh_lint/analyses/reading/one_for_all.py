"""Inputs of which a launch reads one element to decide whether it reads others of them."""

from __future__ import annotations

from collections.abc import Collection

from kbh_lint.analyses.flow import Slice, followed
from kbh_lint.base.dtypes import INTS
from kbh_lint.host.gpu.kernel_cache import normalised
from kbh_lint.host.values.tensors import Content, Event
from kbh_lint.kernels.extents.asked.held import decisive
from kbh_lint.kernels.extents.asked.once import asked_once

MAX_CONFIGS = 12  # of one launch


def one_for_all(found: Slice, wanted: Collection[str]) -> dict[str, Event]:
    """The integer inputs among `wanted` that only one launch reads, which tests one element to decide whether to read
    others of them, by name, with that launch."""
    known: dict[str, Event] = {}
    for content in found.outside:
        name = content.label.partition(":")[2]
        readers = [event for event in found.events if any(read is content for read, _ in event.reads)]
        if name not in wanted or content.dtype not in INTS or len(readers) != 1 or readers[0].kind != "launch":
            continue
        if any(content in event.attrs.get("steer", ()) for event in found.events):
            continue
        if _asked_in(readers[0], content):
            known[name] = readers[0]
    return known


def _asked_in(event: Event, content: Content) -> bool:
    attrs = event.attrs
    if not followed(event):
        return False
    whole = {at for at, held in attrs["contents"].items() if held.label.startswith("input:") and held.dtype in INTS}
    answers = attrs["answered"].everywhere
    for binding in attrs["bindings"][:MAX_CONFIGS]:
        launch = normalised(attrs["answered"].here, binding)
        mine = frozenset(launch.storages[at] for at in whole if at in launch.storages)
        key = ("asked once", attrs["seen"], decisive(launch.binding, mine))
        if key not in answers:
            answers[key] = asked_once(attrs["kernel"], launch.binding, mine)
        if launch.storages.get(content.storage.ident) not in answers[key]:
            return False
    return True
