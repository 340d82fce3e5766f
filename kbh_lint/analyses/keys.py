"""Sort and selection keys that are cut: results that follow from a part of the bits of an input alone."""

from __future__ import annotations

from kbh_lint.analyses.flow import Slice, facts_of
from kbh_lint.analyses.seeds import ShapeFact
from kbh_lint.base import ir
from kbh_lint.base.dtypes import INTS
from kbh_lint.base.facts import CutKeys
from kbh_lint.host.values.tensors import Content, Event
from kbh_lint.kernels.core.facts import Origin
from kbh_lint.kernels.core.origins import CUT

MAX_WALK = 200


def cut_keys(result: list[Content], found: Slice) -> list[ShapeFact]:
    """Facts `cut-keys`: fp32 inputs whose lowest bits have no influence on the indices (integers) in `result`.

    Reported only of results that Triton kernels make, where values record every comparison that decides.
    """
    if found.opaque or found.unfilled:
        return []
    bits: dict[str, dict[int, ir.Loc | None]] = {}
    stack = [content for content in result if content.dtype in INTS]
    seen: set[int] = set()
    while stack:
        content = stack.pop()
        event = content.event
        if content.ident in seen or event is None:
            continue
        seen.add(content.ident)
        if len(seen) > MAX_WALK:
            return []
        if content.previous is not None:
            stack.append(content.previous)
        if event.kind != "launch":
            stack += [read for read, _ in event.reads]
            for read, _ in event.reads:
                bits.setdefault(read.label, {}).setdefault(0, None)
            continue
        stored = _stored(content, event)
        if stored is None:
            return []
        for source, dropped, loc in stored:
            if source.label:
                bits.setdefault(source.label, {}).setdefault(dropped, loc)
            else:
                stack.append(source)
    cut = [(label, min(counts), counts) for label, counts in bits.items() if label.startswith("input:") and min(counts)]
    return [ShapeFact(CutKeys(input=label[6:], bits=count), counts[count]) for label, count, counts in cut]


def _stored(content: Content, launch: Event) -> list[tuple[Content, int, ir.Loc | None]] | None:
    """What a Triton kernel's stores are made of, and how many bits of it are cut off before; None where the kernel was
    not read, or is none of Triton's."""
    if launch.attrs["kernel"].node.kind != "python" or any(facts.unread for facts in facts_of(launch)):
        return None
    held: dict[int, Content] = launch.attrs["contents"]
    return [
        (held[origin.storage], _dropped(origin), store.loc)
        for facts in facts_of(launch)
        for store in facts.stores
        if store.storage == content.storage.ident
        for origin in store.origins
        if origin.storage in held
    ]


def _dropped(origin: Origin) -> int:
    return max((int(flag.removeprefix(CUT)) for flag in origin.flags if flag.startswith(CUT)), default=0)
