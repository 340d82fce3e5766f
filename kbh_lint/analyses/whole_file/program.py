"""Facts about the file as a whole: kernels nobody launches, binaries, and what tampering there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kbh_lint import registry
from kbh_lint.analyses.crashes import file_crashes
from kbh_lint.analyses.flow import Slice, fills_unseen, slice_of
from kbh_lint.analyses.reference import Traits
from kbh_lint.analyses.seeds import ShapeFact, ShapeFacts, span_of
from kbh_lint.analyses.tampering import ended, tampering
from kbh_lint.analyses.whole_file.unbuilt import unbuilt
from kbh_lint.base import ir
from kbh_lint.base.fact_kind import FactKind
from kbh_lint.base.facts import Authored, Binary, DeadKernel
from kbh_lint.base.values import Func, JitFunction, Overloads
from kbh_lint.frontends.walk import walk
from kbh_lint.host.values.objects import ClassV, Extension
from kbh_lint.host.values.path_runs import PathRun, ShapeRun
from kbh_lint.host.values.tensors import Event


def file_facts(
    module: ir.Module, paths: list[PathRun], per_path: list[list[ShapeFacts]], reference: Traits
) -> list[ShapeFact]:
    """Facts that are tied to no shape: notes of runs (if every path has them), tampering, crashes, kernels that are
    never launched."""
    default = paths[0]
    out = [*_noted(paths), *tampering(paths, reference), *file_crashes(paths)]
    if default.shapes and any(run.calls for run in default.shapes):
        out += _dead(module, paths)
    return out


# By the kind of a note (`run.note` in the interpreter): the fact, of its attributes and of the first path.
_OF_NOTES: Mapping[str, Callable[[Mapping[str, Any], PathRun], FactKind]] = {
    "binary": lambda attrs, path: Binary(path=attrs["path"], reached=_reaches_a_blob(path)),
}


def _reaches_a_blob(path: PathRun) -> bool:
    return any(event.kind == "blob" for run in path.shapes for event in slice_of(run).events)


def _noted(paths: list[PathRun]) -> Iterator[ShapeFact]:
    """What every path that comes to an end noted."""
    common = [{(k, str(sorted(a.items()))) for k, a, _ in p.notes if k in _OF_NOTES} for p in ended(paths)]
    seen: set[Any] = set()
    for kind, attrs, loc in paths[0].notes:
        made = _OF_NOTES.get(kind)
        if made is None or any((kind, str(sorted(attrs.items()))) not in other for other in common):
            continue
        fact = made(attrs, paths[0])
        key = (fact, span_of(loc))
        if key not in seen:
            seen.add(key)
            yield ShapeFact(fact, loc)


def _dead(module: ir.Module, paths: list[PathRun]) -> Iterator[ShapeFact]:
    """Whether any run reaches an authored kernel, and the kernels that none reaches."""
    made = [(run, slice_of(run)) for path in _with_timed(paths) for run in path.shapes]
    launched, compiled = _launched([event for _, found in made for event in found.events])
    defined = kernels(paths[0])
    of_known = {id(func.node): language for func, language in defined if id(func.node) in launched}
    named = {*(launched | of_known).values(), *(["cutlass"] if compiled else [])}
    reached = bool(launched) or compiled
    fact = Authored(reached=reached, defined=len(defined), languages=tuple(sorted(filter(None, named))))
    yield ShapeFact(fact, None)
    none = not reached and all(_followed(run, found) for run, found in made)
    if none:
        defined += unbuilt(module, paths[0].env, {func.node.name for path in paths for func, _ in kernels(path)})
    defined = [(func, language) for func, language in defined if id(func.node) not in launched]
    called = {id(f.node) for f in _helpers(paths[0])} if defined else set()
    for func, language in defined:
        if id(func.node) not in called:
            yield ShapeFact(DeadKernel(name=func.node.name, language=language, only=none), func.node.loc)


def _with_timed(paths: list[PathRun]) -> list[PathRun]:
    """The paths, and what lengths of timed runs make of them."""
    return [*paths, *(path.timed for path in paths if path.timed is not None)]


def _launched(events: list[Event]) -> tuple[dict[int, str], bool]:
    """The languages of the kernels that results come from, by their nodes, and whether one is of CUTLASS."""
    of_launches = [event.attrs["kernel"] for event in events if event.kind == "launch"]
    languages = {id(kernel.node): kernel.language.partition(".")[0] for kernel in of_launches}
    return languages, any(event.kind == "cutlass" for event in events)


def _followed(run: ShapeRun, found: Slice) -> bool:
    """Whether all that makes a result was seen."""
    if found.unfilled and any(event.kind == "launch" for event in run.calls[-1].events if run.calls):
        return False  # what a launch was given was not followed to memory, and some of it nobody else fills
    return bool(found.events) and not found.opaque and not fills_unseen(run)


def kernels(path: PathRun) -> list[tuple[Func, str]]:
    """Every authored kernel of a path, with its language: those defined at module level or in a built extension, and
    those made during the run."""
    out: list[tuple[Func, str]] = []
    envs = [path.env.vars.values()]
    for value in {id(v): v for v in (*path.env.vars.values(), *path.authored)}.values():
        if isinstance(value, JitFunction):
            if all(func.node is not value.func.node for func, _ in out):
                out.append((value.func, value.func.language.partition(".")[0] or "triton"))
        elif isinstance(value, Extension):
            envs.append(value.env.vars.values())
        else:
            out.extend((func, func.language.partition(".")[0]) for func in _dsl_kernels(value))
    seen = {id(f.node) for f, _ in out}
    for values in envs:
        for value in values:
            for func in value.funcs if isinstance(value, Overloads) else ():
                if func.node.kind == "global" and func.node.body is not None and id(func.node) not in seen:
                    seen.add(id(func.node))
                    out.append((func, "cuda"))
    return out


def _dsl_kernels(value: object) -> list[Func]:
    """The kernels of other languages written in Python among a module's names: functions, or methods of a class."""
    found = value.env.vars.values() if isinstance(value, ClassV) else (value,)
    return [f for f in found if isinstance(f, Func) and registry.is_kernel(f.language)]


def _helpers(path: PathRun) -> Iterable[Func]:
    """Triton functions that other kernels call: device code, not kernels of their own."""
    named: set[str] = set()
    every = {id(v): v for v in (*path.env.vars.values(), *path.authored)}.values()
    made = [v for v in every if isinstance(v, JitFunction)]
    for value in made:
        if value.func.node.body is not None:
            named |= called_names(value.func.node.body)
    return [
        *(v.func for n, v in path.env.vars.items() if isinstance(v, JitFunction) and n in named),
        *(v.func for v in made if v.func.node.name in named),
    ]


def called_names(node: object) -> set[str]:
    """The names that occur in or below `node`, such as functions that are called or passed on."""
    return {item.id for item in walk(node) if isinstance(item, ir.Name)}
