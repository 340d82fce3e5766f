"""What is wrong with what `forward` hands out, apart from how it was computed.

A result that nothing waits for, that computes when somebody looks at it, that depends on nothing, or that nobody wrote;
and inputs or weights that the call changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kbh_lint.analyses.flow import Slice, facts_of, last_call, reach
from kbh_lint.analyses.left_out import unfilled_by
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.base import ir
from kbh_lint.base.facts import Beside, ConstantOutput, InputWritten, LazyOutput, StateIgnored, UnwrittenOutput
from kbh_lint.base.values import Func
from kbh_lint.host.explore.probes import result_contents
from kbh_lint.host.values.objects import ClassV, Instance
from kbh_lint.host.values.path_runs import PathRun, ShapeRun
from kbh_lint.host.values.tensors import Content, Event, Tensor

HOOKS = ("__torch_function__", "__torch_dispatch__", "__getattribute__", "__array__", "__eq__", "__float__", "__bool__")
MAX_OUTPUTS = 16
_STRANGE = frozenset(("import", "binary", "star-import", "given"))  # kinds of notes
UNREAD = ("blob", "unread")  # kinds of events of which nobody read what they do


def output_seeds(path: PathRun, run: ShapeRun, found: Slice) -> list[ShapeFact]:
    """Facts about the tensors that `forward` returns: `beside`, `lazy-output`, `constant-output`, `unwritten-output`,
    `input-written`, `state-ignored`."""
    if len(run.calls) < 2:
        return []
    result = last_call(run)
    outputs = list(tensors(result))
    later = next((call for call in run.probes if call.kind == "later"), None)
    apart = _beside(found.events) or ([] if later is None else _beside(reach(list(later.contents)).events))
    out = apart + _lazy(outputs)
    if run.layout is None:  # an entry point may be given what it is to fill
        out += _written(run)
    if run.ignored and run.state:
        out.append(ShapeFact(StateIgnored(names=tuple(run.state)), forward_loc(run, "load_state_dict")))
    if outputs and _followed(path, run):
        given = run.layout is None or run.inputs  # an entry point that takes numbers makes its own inputs
        if given and result_contents(result) and not found.outside and not found.unfilled:
            first = next((e for e in found.events), None)
            related = tuple(launched_from(first)) if first else ()
            out.append(ShapeFact(ConstantOutput(outputs=len(outputs)), forward_loc(run), related))
        out += _unwritten(run, [t for t in outputs if isinstance(t, Tensor)])
    return out


def _followed(path: PathRun, run: ShapeRun) -> bool:
    """Whether nothing stayed unread that may have made or written the result."""
    met = not _STRANGE.isdisjoint(path.kinds)
    strange = met and not _STRANGE.isdisjoint([kind for kind, _, _ in path.notes])
    unread = any(event.kind in UNREAD for call in run.calls for event in call.events)
    return not (strange or run.unread or path.unread or unread)


def forward_loc(run: ShapeRun, method: str = "forward") -> ir.Loc | None:
    """The place where the method of the model is defined; None when there is no such function."""
    try:
        found = run.instance.cls.find(method)
    except (AttributeError, KeyError):
        return None
    return found.node.loc if isinstance(found, Func) else None


def _unwritten(run: ShapeRun, outputs: list[Tensor]) -> list[ShapeFact]:
    """Results that nobody wrote, or wrote in part."""
    events = [event for call in run.calls for event in call.events]
    lost = any(event.attrs.get("lost") for event in events)  # it may point anywhere
    lost = lost or any(
        store.storage < 0 for event in events for facts in facts_of(event) for store in facts.plain().stores
    )
    if not lost and all(_fresh(t.storage.content) for t in outputs):
        return [ShapeFact(UnwrittenOutput(how="never"), forward_loc(run))]
    looked_at = (unfilled_by(t, run) for t in outputs if run.layout is None)
    short = next((event for event in looked_at if event is not None), None)
    if short is None:
        return []
    return [ShapeFact(UnwrittenOutput(how="only in part"), short.loc, tuple(launched_from(short)[1:]))]


def tensors(value: object, depth: int = 0) -> list[object]:
    """The tensors and tensor-like objects in a returned tensor, tuple, list or dict, nested ones too."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and depth < 4:
        return [t for item in value[:MAX_OUTPUTS] for t in tensors(item, depth + 1)]
    return [value] if isinstance(value, (Tensor, Instance)) else []


def _beside(events: Iterable[Event]) -> list[ShapeFact]:
    """The work of a call, or of one much later, that nothing waits for."""
    seen: set[tuple[str, Any]] = set()
    out: list[ShapeFact] = []
    for event in events:
        lane = event.attrs.get("beside")
        if lane and (lane, event.loc) not in seen:
            seen.add((lane, event.loc))
            out.append(ShapeFact(Beside(lane=lane, name=event.name), event.loc, tuple(launched_from(event)[1:])))
    return out


def _lazy(outputs: list[Any]) -> list[ShapeFact]:
    out: list[ShapeFact] = []
    for value in outputs:
        if isinstance(value, Tensor):
            cls, view = value.attrs.get("subclass"), value.attrs.get("lazy")
            if view:
                out.append(ShapeFact(LazyOutput(name=str(view), how="view"), value.attrs.get("lazy_loc")))
        else:
            cls = value.cls if any(b.startswith("torch.") for b in value.cls.external_bases()) else None
        if isinstance(cls, ClassV):
            hooks = [name for base in cls.mro() for name in HOOKS if name in base.env.vars]
            if hooks:
                loc = cls.node.loc if cls.node is not None else None
                out.append(ShapeFact(LazyOutput(name=cls.name, how=hooks[0]), loc))
    return out


def _fresh(content: Content) -> bool:
    """Memory that was allocated and that nothing has written."""
    return content.label == "empty" and content.event is None


def _written(run: ShapeRun) -> list[ShapeFact]:
    """Inputs and weights whose contents the calls replaced."""
    out: list[ShapeFact] = []
    for what, group in (("input", run.inputs), ("state", run.state)):
        for name, tensor in group.items():
            content = tensor.storage.content
            if content.label.startswith(("input:", "state:")) or content.call != len(run.calls):
                continue
            if content.event is not None and content.event.kind in UNREAD:
                continue  # it may have been written, and need not have been
            loc = content.event.loc if content.event is not None else forward_loc(run)
            related = tuple(launched_from(content.event)[1:]) if content.event is not None else ()
            out.append(ShapeFact(InputWritten(what=what, name=name), loc, related))
    return out
