"""Tables of pointers in device memory: which tensors the addresses in a part of one lead to.

Addresses get there as numbers from the host, by copies, or because a kernel stores them. Each is noted on the content
that holds it (`recording.addresses`, `after_launch`), and a launch that is given the memory asks for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kbh_lint.host.torch.recording import ADDRESSES, MAX_ADDRESSES, Address
from kbh_lint.host.values.tensors import Content, Event, Tensor
from kbh_lint.kernels.core.facts import KernelFacts

WIDE = frozenset(("i64", "u64", "u8", "i8", "?"))  # types of memory that addresses may lie in
MAX_STEPS = 64  # contents that one is looked for through
_WHOLE = frozenset(  # copies in which a byte keeps its place
    "to cuda cpu long clone contiguous copy_ cudaMemcpy cudaMemcpyAsync cuMemcpyHtoD cuMemcpyHtoDAsync".split()
)


def leads(content: Content, start: int | None, stop: int | None) -> tuple[tuple[str, Tensor], ...]:
    """Returns the tensors that the addresses stored in `content` between two bytes point to, as (field, tensor), one
    for each field and storage."""
    found: list[Address] = []
    _follow(content, found, [MAX_STEPS])
    firsts = [a.at for a in found if a.at is not None and start is not None and a.at <= start]
    first = max(firsts, default=None)
    made: dict[tuple[str, int], Tensor] = {}
    for at, tensor, field in found:
        inside = at is None or start is None or at == first or at > start and (stop is None or at < stop)
        if inside:
            made.setdefault((field, tensor.storage.ident), tensor)
    return tuple((field, tensor) for (field, _), tensor in made.items())


def _follow(content: Content, found: list[Address], left: list[int]) -> None:
    left[0] -= 1
    if left[0] < 0:
        return
    found += content.notes.get(ADDRESSES, ())
    event = content.event
    if event is not None and event.kind in ("op", "copy"):
        for read, tensor in event.reads:
            if read.dtype not in WIDE or len(found) >= MAX_ADDRESSES:
                continue
            inside: list[Address] = []
            _follow(read, inside, left)
            moved = content.place.start if content.place is not None else 0
            there = tensor.start if event.name in _WHOLE else None
            for at, to, field in inside:
                found.append(Address(None if at is None or there is None else at - there + moved, to, field))
    if content.previous is not None:
        _follow(content.previous, found, left)


def after_launch(tensors: Mapping[int, Tensor], event: Event, facts: Iterable[KernelFacts]) -> None:
    """Notes which tensors the addresses that a launch stored point to."""
    starts = event.attrs["starts"]
    for fact in facts:
        for lead in fact.leads:
            table = tensors.get(lead.storage)
            if table is None:
                continue
            noted: list[Address] = table.storage.content.notes.setdefault(ADDRESSES, [])
            for origin in sorted(lead.origins, key=str):
                found = tensors.get(origin.storage)
                made = None if found is None else Address(starts.get(lead.param), found, lead.field)
                if made is not None and made not in noted:
                    noted.append(made)
