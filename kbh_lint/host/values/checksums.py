"""Checksums of memory: sums, samples and copies that a submission keeps to tell whether a later call gives the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbh_lint.host.values.tensors import Content, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_WALK = 200
_THROUGH = frozenset("all any item logical_not bool to _local_scalar_dense".split())


def outside(contents: Sequence[Content], most: int = MAX_WALK, until: str | None = None) -> dict[str, frozenset[int]]:
    """Returns the inputs and weights that contents were computed from: for each label the idents of the contents then
    held. No more than `most` contents are looked at, and none behind the first whose label begins with `until`."""
    found: dict[str, set[int]] = {}
    seen: set[int] = set()
    stack = list(contents)
    while stack and len(seen) < most:
        content = stack.pop()
        ident, label = content.ident, content.label
        if ident in seen:
            continue
        seen.add(ident)
        if label and label.startswith(("input:", "state:")):
            found.setdefault(label, set()).add(ident)
            if until is not None and label.startswith(until):
                break
            continue
        if content.event is not None:  # as in `Content.sources`, of which most calls would be made here
            stack += content.event.flow(content)
        if content.previous is not None:
            stack.append(content.previous)
    return {label: frozenset(idents) for label, idents in found.items()}


def same_value(interp: Run, left: Unknown, right: Unknown) -> bool | None:
    """Whether two numbers read in different calls are equal: they are when they come from the same contents. Numbers
    from other contents are taken to differ, unless this call looks for keys that miss a change
    (`interp.memory.colliding`). None when these are not two readings of the same tensors."""
    if not left.made or not right.made or left.made == right.made:
        return None
    whole = left.reading == right.reading and bool(left.reading)
    return _verdict(interp, left.contents, right.contents, lossy=not whole)


def _verdict(interp: Run, left: tuple[Content, ...], right: tuple[Content, ...], lossy: bool) -> bool | None:
    a, b = outside(left), outside(right)
    if not a or a.keys() != b.keys():
        return None
    if a == b:
        return True
    if lossy:
        interp.memory.compared = True
        return bool(interp.memory.colliding)
    return False


def same_tensors(interp: Run, left: Tensor, right: Tensor) -> bool | None:
    """Whether a tensor equals one that an earlier call computed from the same inputs; None when neither is such a
    tensor."""
    a, b = left.storage.content, right.storage.content
    if a is b:
        return None
    now = interp.trace.call_index
    if not any(c.event is not None and 0 < c.call < now for c in (a, b)):
        return None
    return _verdict(interp, (a,), (b,), lossy=_lossy(a, left) or _lossy(b, right))


def _lossy(content: Content, tensor: Tensor) -> bool:
    """Whether a tensor shows fewer elements than what it was made from, and is no plain copy of it."""
    if tensor.is_slice:
        return True
    event = content.event
    if event is None:
        return False
    if event.kind != "copy":
        return True
    return any(_lossy(read, through) for read, through in event.reads)


def comparison(interp: Run, content: Content) -> bool | None:
    """Returns the truth of a tensor that holds the result of comparing others for equality; None for other tensors."""
    positive = True
    for _ in range(8):
        event = content.event
        if event is None:
            return None
        if event.name == "logical_not":
            positive = not positive
        if event.name in ("eq", "ne", "isclose") and len(event.reads) == 2:
            answer = same_tensors(interp, event.reads[0][1], event.reads[1][1])
            if answer is None:
                return None
            return (answer == (event.name != "ne")) == positive
        if event.name not in _THROUGH or len(event.reads) != 1:
            return None
        content = event.reads[0][0]
    return None
