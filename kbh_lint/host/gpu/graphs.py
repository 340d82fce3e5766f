"""CUDA graphs: what was captured happens again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.host.torch import recording, tensor_copies
from kbh_lint.host.values.objects import Graph
from kbh_lint.host.values.tensors import Event, Tensor

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def replay(interp: Run, graph: Graph, loc: ir.Loc | None) -> None:
    """Emits the events of a captured graph again; they read what the same storages hold now."""
    for old in list(graph.events):
        if isinstance(old, tuple):
            tensor_copies.overwrite(interp, *old)
            continue
        event = Event(
            old.kind, old.name, old.loc, [(t.storage.content, t) for _, t in old.reads], attrs=old.attrs.copy()
        )
        event.attrs["replayed"] = True
        interp.emit(event)
        if loc is not None:
            event.stack = (*event.stack, loc)
        now = {before.ident: tensor.storage.content for before, tensor in old.reads}
        for content in old.writes:
            target = Tensor(content.storage, content.dtype, None)
            flow = old.flows.get(content.ident) if old.flows is not None else None
            recording.write(interp, target, event, dtype=content.dtype)
            if flow is not None:
                event.flows = event.flows or {}
                event.flows[content.storage.content.ident] = [now.get(c.ident, c) for c in flow]


def method(interp: Run, owner: Graph, name: str, loc: ir.Loc | None) -> None:
    """Models capture_begin, capture_end and replay of torch's CUDA graphs."""
    if name == "capture_begin":
        owner.events = []
        interp.capturing.append(owner)
    elif name == "capture_end":
        if owner in interp.capturing:
            interp.capturing.remove(owner)
    elif name == "replay":
        replay(interp, owner, loc)
