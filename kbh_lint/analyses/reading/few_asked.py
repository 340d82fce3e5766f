"""Offsets of which a few elements say that all groups are of one size: the others are then not read."""

from __future__ import annotations

from collections.abc import Collection

from kbh_lint.analyses.flow import Slice
from kbh_lint.analyses.reading.begins import made_of
from kbh_lint.analyses.reading.used import even_unseen
from kbh_lint.base.dtypes import INTS
from kbh_lint.host.torch.whole_numbers import source
from kbh_lint.host.values.tensors import Content, Event

MAX_LAUNCHES = 8


def few_asked(found: Slice, wanted: Collection[str]) -> dict[str, Event]:
    """The offsets among `wanted` of which the launches that read them need only a few elements where these are those of
    groups of one size, whatever the others say, by name, with the first such launch."""
    known: dict[str, Event] = {}
    for content in found.outside:
        name = content.label.partition(":")[2]
        launches = _readers(content, found) if name in wanted and content.notes.get("rising") else []
        if launches and _need_few(content, launches):
            known[name] = launches[0]
    return known


def _readers(content: Content, found: Slice) -> list[Event]:
    """The launches that read offsets, or a copy of them, themselves; none where anything else does."""
    launches: list[Event] = []
    for event in found.events:
        if any(made_of(steering, content.label.partition(":")[2]) for steering in event.attrs.get("steer", ())):
            return []
        if not any(source(read) is content for read, _ in event.reads):
            continue
        if event.kind == "copy" and len(event.reads) == 1 and "from" in event.attrs:
            continue
        if event.kind != "launch" or event.weight != 1:  # of one of many it is not known what the others ask for
            return []
        launches.append(event)
    return launches if len(launches) <= MAX_LAUNCHES else []


def _need_few(content: Content, launches: list[Event]) -> bool:
    """Whether launches ask for a few elements alone where all groups are as large, and else for more."""
    asked: set[int] = set()
    open_one, more = None, False
    for event in launches:
        mine = {read.ident for read, _ in event.reads if read.dtype in INTS and source(read) is content}
        unseen, layouts = even_unseen(event)
        if not mine <= unseen:
            return False
        for ident in mine:
            asked |= layouts[ident].asked
            open_one, more = layouts[ident], more or layouts[ident].others
    return more and open_one is not None and open_one.leaves_open(asked)
