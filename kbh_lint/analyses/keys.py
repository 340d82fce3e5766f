"""Sort and selection keys that are cut: results that follow from a part of the bits of an input alone."""

from __future__ import annotations

from kbh_lint.analyses.flow import Slice, facts_of
from kbh_lint.analyses.seeds import ShapeFact
from kbh_lint.base import ir
from kbh_lint.base.dtypes import INTS
from kbh_lint.base.facts import CutKeys
from kbh_lint.host.values.tensors import Content
from kbh_lint.kernels.core.facts import Origin
from kbh_lint.kernels.core.origins import CUT

MAX_WALK = 200


def cut_keys(result: list[Content], found: Slice) -> list[ShapeFact]:
    """Facts `cut-keys`: fp32 inputs that decide whole numbers of the result (indices) without their lowest bits.

    Told of results that Triton kernels make: there every decision is in the values.
    """
    if found.opaque or found.unfilled:
        return []
    bits: dict[str, dict[int, ir.Loc | None]] = {}
    stack = [content for content in result if content.dtype in INTS]
    seen: set[int] = set()
    while stack:
        content = stack.pop()
        if content.ident in seen or content.event is None:
            continue
        seen.add(content.ident)
        event = content.event
        if len(seen) > MAX_WALK or event.kind == "launch" and event.attrs["kernel"].node.kind != "python":
            return []
        if content.previous is not None:
            stack.append(content.previous)
        if event.kind != "launch":
            stack += [read for read, _ in event.reads]
            for read, _ in event.reads:
                bits.setdefault(read.label, {}).setdefault(0, None)
            continue
        held: dict[int, Content] = event.attrs["contents"]
        for facts in facts_of(event):
            if facts.unread:
                return []
            for store in (s for s in facts.stores if s.storage == content.storage.ident):
                for origin in store.origins:
                    source = held.get(origin.storage)
                    if source is not None and source.label:
                        bits.setdefault(source.label, {}).setdefault(_dropped(origin), store.loc)
                    elif source is not None:
                        stack.append(source)
    cut = [(label, min(counts), counts) for label, counts in bits.items() if label.startswith("input:") and min(counts)]
    return [ShapeFact(CutKeys(input=label[6:], bits=count), counts[count]) for label, count, counts in cut]


def _dropped(origin: Origin) -> int:
    return max((int(flag.removeprefix(CUT)) for flag in origin.flags if flag.startswith(CUT)), default=0)
