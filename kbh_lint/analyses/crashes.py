"""What the trace shows to be broken: calls that cannot work, uncaught exceptions, outputs of the wrong kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbh_lint.analyses.flow import last_call
from kbh_lint.analyses.outputs import forward_loc, tensors
from kbh_lint.analyses.seeds import ShapeFact
from kbh_lint.base.facts import Crash
from kbh_lint.base.values import Func
from kbh_lint.host.explore.exploration import model_class
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.path_runs import PathRun, ShapeRun
from kbh_lint.host.values.run_state import HoleKind
from kbh_lint.host.values.tensors import Tensor


def file_crashes(paths: list[PathRun]) -> Iterator[ShapeFact]:
    """Facts `crash` of a whole file: an exception on every path, no class `Model`, a method that does not take the
    arguments that it is called with."""
    first = paths[0]
    if all(path.failed for path in paths):
        what = "raises" if first.raised else "model" if first.no_model else ""
        if what:
            yield ShapeFact(Crash(what=what, message=first.failed), first.exit_loc)
        return
    contract = first.contract
    cls = model_class(first.env, contract) if contract is not None and contract.call is None else None
    run = next((run for run in first.shapes if run.binding is not None), None)
    if cls is None or run is None or run.binding is None:
        return
    arguments = len(run.binding.inputs) + len(run.binding.values)
    for name, given in (("__init__", len(run.binding.init)), ("forward", arguments)):
        try:
            method = cls.find(name)
        except KeyError:
            continue
        said = _arity(method, given) if isinstance(method, Func) else ""
        if said:
            yield ShapeFact(Crash(what="arguments", message=f"{cls.name}.{name} {said}"), method.node.loc)


def _arity(method: Func, given: int) -> str:
    """Why a method cannot be called with `given` positional arguments; nothing when it can."""
    params = [p for p in method.node.params if p.kind == "positional"][1:]
    needed = sum(p.default is None for p in params)
    keywords = [p.name for p in method.node.params if p.kind == "keyword" and p.default is None]
    if given < needed:
        return f"wants {needed} arguments and gets {given}"
    if given > len(params) and not any(p.kind == "star" for p in method.node.params):
        return f"takes {len(params)} arguments and gets {given}"
    return f"wants the keyword {keywords[0]}, which nobody gives" if keywords else ""


def shape_crashes(run: ShapeRun) -> list[ShapeFact]:
    """Facts `crash` of one graded shape: an uncaught exception, an undefined name, an output that the contract does not
    declare."""
    out: list[ShapeFact] = []
    if run.raised:
        out.append(ShapeFact(Crash(what="raises", message=f"forward or __init__: {run.stopped}"), run.stopped_at))
    for hole in run.unread:
        if hole.kind is HoleKind.UNDEFINED:
            out.append(ShapeFact(Crash(what="name", message=hole.why), hole.loc))
    if len(run.calls) > 1 and run.binding is not None:
        out += [ShapeFact(Crash(what="output", message=text), forward_loc(run)) for text in _output_faults(run)]
    return out


def _output_faults(run: ShapeRun) -> list[str]:
    """How the result differs from what the contract declares, as far as it is known."""
    assert run.binding is not None
    result = last_call(run)
    if result is None:
        return ["forward returns None"]
    found: list[Any] = tensors(result)
    declared = run.binding.outputs
    if isinstance(result, LibObject) or not found or not all(isinstance(t, Tensor) for t in found):
        return []
    if not declared:
        return []  # a problem file whose reference could not be followed to its sizes
    if len(found) != len(declared):
        return [f"forward returns {len(found)} tensors in place of {len(declared)}"]
    out: list[str] = []
    for got, want in zip(found, declared, strict=True):
        event = got.storage.content.event
        if event is not None and event.loc is not None and event.loc[0].language != "python":
            continue  # what C++ allocates is not known well enough
        if want.dtype and got.dtype not in ("?", want.dtype):
            out.append(f"the output is {got.dtype} in place of {want.dtype}")
        known = got.shape is not None and all(isinstance(d, int) for d in got.shape)
        if known and tuple(got.shape) != tuple(want.shape):
            out.append(f"the output has the shape {_size(got.shape)} in place of {_size(want.shape)}")
        if known and not got.is_contiguous():
            out.append("the output is not contiguous")
        if got.device not in ("cuda", "?") and not got.device.startswith("cuda"):
            out.append(f"the output is on {got.device}")
    return out


def _size(shape: tuple[object, ...]) -> str:
    return "x".join(str(d) for d in shape) or "()"
