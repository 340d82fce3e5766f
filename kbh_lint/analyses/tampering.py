"""Facts about what a submission does to those who run it, and what it asks about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kbh_lint.analyses.flow import slice_of
from kbh_lint.analyses.reference import Traits
from kbh_lint.analyses.seeds import ShapeFact, span_of
from kbh_lint.base import ir
from kbh_lint.base.facts import BackendState, Effect, Monkeypatch, Sniff
from kbh_lint.base.values import Scalar
from kbh_lint.host.values import taint
from kbh_lint.host.values.decisions import ALL, FORK, Asked
from kbh_lint.host.values.path_runs import PathRun, ShapeRun
from kbh_lint.host.values.tensors import Event

_NOTED = {"monkeypatch": ("symbol", "target"), "effect": ("kind", "symbol", "what", "target", "undone")}


def tampering(paths: list[PathRun], reference: Traits) -> list[ShapeFact]:
    """Facts `sniff`, `monkeypatch`, `effect` and `backend-state`: what a submission asks about its environment, and
    what it changes there."""
    return [*_noted(paths, reference), *_sniffed(paths[0]), *_settings(paths), *_processes(paths[0]), *_exits(paths[0])]


def ended(paths: list[PathRun]) -> list[PathRun]:
    """The paths that come to an end: for a file with shapes the end of its runs, else the end of its module level."""
    return [p for p in paths if p.came_to_an_end() or not (p.failed or p.shapes)]


def _noted(paths: list[PathRun], reference: Traits) -> Iterator[ShapeFact]:
    """What every path that comes to an end does, and what is only done when the answer to a question is yes."""
    common = [{(k, *(a[n] for n in _NOTED[k])) for k, a, _ in p.notes if k in _NOTED} for p in ended(paths)]
    seen: set[Any] = set()
    for always, (kind, attrs, loc) in _told(paths):
        if kind not in _NOTED:
            continue
        chosen = {name: attrs[name] for name in _NOTED[kind]}
        key = (kind, *chosen.values())
        if always and any(key not in other for other in common) or (key, span_of(loc)) in seen:
            continue
        seen.add((key, span_of(loc)))
        if kind == "monkeypatch":
            what = measured_by(attrs["symbol"])
            what = "reference" if what == "other" and reference.calls(attrs["symbol"]) else what
            yield ShapeFact(Monkeypatch(**chosen, what=what), loc)
        else:
            yield ShapeFact(Effect(**chosen, when="forward" if attrs["call"] else "import"), loc)


def _told(paths: list[PathRun]) -> list[tuple[bool, tuple[str, dict[str, Any], ir.Loc | None]]]:
    """The notes of a run, which all paths have to share, and those that are taken from one run alone: what is done when
    the answer to a question is another, and what is replaced on other GPUs."""
    told = [(True, note) for note in paths[0].notes]
    for probe in paths[0].probes:
        told += [(False, n) for n in probe.other.notes if probe.asked != FORK or n[1].get("kind") != "exit"]
    for path in paths[0].elsewhere:
        told += [(False, note) for note in path.notes if note[0] == "monkeypatch"]
    return told


# What everyone in the process uses: a grader above all to make inputs, to compare, to synchronise, to copy and to time.
_MEASURING = (
    ("time", ("time.", "torch.cuda.Event", "torch.Event", "torch.cuda.streams.Event", "triton.testing.", "timeit.")),
    (
        "comparison",
        (
            "torch.allclose",
            "torch.isclose",
            "torch.equal",
            "torch.testing.",
            "torch.isfinite",
            "torch.isnan",
            "torch.Tensor.allclose",
            "torch.Tensor.isclose",
            "torch.Tensor.equal",
            "torch.Tensor.all",
            "torch.Tensor.any",
            "torch.Tensor.eq",
            "torch.Tensor.ne",
            "torch.Tensor.__eq__",
            "numpy.testing.",
            "numpy.allclose",
            "math.isclose",
            "torch.Tensor.__ne__",
            "torch.Tensor.isnan",
        ),
    ),
    (
        "synchronisation",
        (
            "torch.cuda.synchronize",
            "torch.cuda.Stream.",
            "torch.cuda.stream",
            "torch.cuda.current_stream",
            "torch.cuda.set_stream",
            "torch.cuda.default_stream",
            "torch.accelerator.synchronize",
        ),
    ),
    (
        "copies",
        (
            "torch.Tensor.copy_",
            "torch.Tensor.clone",
            "torch.Tensor.to",
            "torch.Tensor.cpu",
            "torch.Tensor.cuda",
            "torch.Tensor.numpy",
            "torch.Tensor.item",
            "torch.Tensor.detach",
            "torch.Tensor.contiguous",
            "torch.clone",
            "copy.",
            "torch.Tensor.data_ptr",
            "torch.Tensor.float",
            "torch.Tensor.double",
        ),
    ),
    (
        "inputs",
        (
            "torch.empty",
            "torch.zeros",
            "torch.ones",
            "torch.full",
            "torch.rand",
            "torch.randn",
            "torch.randint",
            "torch.manual_seed",
            "torch.Generator",
            "torch.Tensor.zero_",
            "torch.Tensor.fill_",
            "torch.tensor",
            "torch.Tensor.normal_",
            "torch.Tensor.uniform_",
            "torch.arange",
        ),
    ),
    ("process", ("builtins.", "os._exit", "sys.exit", "sys.modules", "os.environ.get", "sys._getframe")),
)


_ATEN = "torch.ops.aten."
_OF_DISPATCHER = {"_to_copy": "to", "_local_scalar_dense": "item"}  # operators that methods of other names call


def measured_by(symbol: str) -> str:
    """What a grader measures with the function `symbol`: time, comparison, synchronisation, copies, inputs, process, or
    other. An operator of torch counts as the functions and methods that call it."""
    if symbol.startswith(_ATEN):
        name = symbol.removeprefix(_ATEN).partition(".")[0]
        name = _OF_DISPATCHER.get(name, name)
        return next((what for of in ("torch.", "torch.Tensor.") if (what := _measured(of + name)) != "other"), "other")
    return _measured(symbol)


def _measured(symbol: str) -> str:
    for what, prefixes in _MEASURING:
        for prefix in prefixes:
            whole = prefix.endswith(".") or symbol in (prefix, f"{prefix}_like", f"{prefix}_strided")
            if symbol.startswith(prefix) and (whole or symbol.startswith(f"{prefix}.")):
                return what
    return "other"


# --- asking ------------------------------------------------------------------------------------------------


def signature(path: PathRun, *, launches: bool = False) -> frozenset[Any]:
    """What the caller of a run can observe of `path`: work behind the results, settings, effects and how it ends; equal
    signatures mean equal behaviour.

    With `launches` also the numbers and grids of launches.
    """
    out: set[Any] = {("failed", path.failed)} if path.failed else set()
    out |= {("stopped", run.label) for run in path.shapes if run.stopped}
    for run in path.shapes:
        out |= {(kind, run.label, *what) for kind, *what in _does(run, launches)}
    out |= {("set", a["symbol"], a["value"]) for kind, a, _ in path.notes if kind == "backend-state"}
    out |= {("does", a["kind"], a["symbol"]) for kind, a, _ in path.notes if kind == "effect" and not a["undone"]}
    return frozenset(out)


def _does(run: ShapeRun, launches: bool) -> Iterator[tuple[object, ...]]:
    """What one shape's run does on the way to its results, and beside it."""
    found = slice_of(run)
    yield from (("runs", e.kind, e.name) for e in found.events if e.kind != "copy")
    yield from (("unjoined", e.name) for e in found.events if e.attrs.get("beside"))
    yield from (("shows", c.label) for c in found.outside)
    if launches:
        yield from (("so", e.name, _launched(e)) for e in found.events if e.kind == "launch")
    calls = run.calls
    heavy = (e for e in (calls[-1].events if calls else ()) if e.kind in ("launch", "library", "cutlass"))
    yield from (("beside", e.kind, e.name) for e in heavy)
    yield from (("old",) for e in found.events if 0 < e.call < len(calls))
    yield from (("new",) for e in found.events if calls and e.call == len(calls))


def _launched(event: Event) -> str:
    """The numbers that a kernel is launched with, as text; what is not known is left out."""
    grid = event.attrs.get("grid")
    sizes = [_plain(size) for size in (grid if isinstance(grid, (tuple, list)) else [grid])]
    known = [
        sorted((name, str(_plain(value))) for name, value in binding.items() if _plain(value) is not None)
        for binding in event.attrs.get("bindings", ())
    ]
    return f"{sizes} {known}"


def _plain(value: object) -> int | float | str | None:
    """A number or a text among launch arguments; None for anything else."""
    value = value.value if isinstance(value, Scalar) else value
    return value if isinstance(value, (int, float, str)) else None


def _sniffed(path: PathRun) -> Iterator[ShapeFact]:
    """What is asked about those who run the submission; `decides` when what runs depends on the answer."""
    deciding = _deciding(path)
    reached = {e.loc for run in path.shapes for e in slice_of(run).events}
    values = {a["symbol"]: loc for kind, a, loc in path.notes if kind == "sniffed-value" and loc in reached}
    seen: set[Any] = set()
    for kind, attrs, loc in path.notes:
        symbol = attrs.get("symbol")
        if kind != "sniff" or (symbol, span_of(loc)) in seen:
            continue
        seen.add((symbol, span_of(loc)))
        sites = deciding.pop(Asked(str(symbol)), None) if loc is not None else None
        places = [(_at(loc, site), "what runs depends on it here") for site in sites or () if site is not None]
        if symbol in values:
            places.append((values[symbol], "it goes into the result here"))
        decides = bool(sites) or symbol in values
        yield ShapeFact(Sniff(symbol=str(symbol), what=attrs["what"], decides=decides), loc, tuple(places))
    for asked, sites in deciding.items():
        symbol = asked.symbol
        if asked.about == "caller" and symbol != "time":
            continue  # asked for in a place that was reported already
        what = taint.GAP if symbol == "time" else taint.MEMORY
        place = _at(_any_loc(path), sites[0] if sites else None)
        yield ShapeFact(Sniff(symbol=symbol or "torch.empty", what=what, decides=True), place)


def _deciding(path: PathRun) -> dict[Asked, list[Any]]:
    """The questions on whose answer it depends what runs, and where."""
    if not path.probes:
        return {}
    origin = path.probes[0].origin
    callers = {Asked(a["symbol"]) for kind, a, _ in path.notes if kind == "sniff" and a["what"] in taint.CALLERS}
    deciding: dict[Asked, list[Any]] = {}
    for probe in path.probes:
        if probe.asked in (FORK, ALL):
            continue
        # The environment and the clock may tune a kernel; who calls may not.
        launches = probe.asked in callers
        if signature(probe.other, launches=launches) != signature(origin, launches=launches):
            deciding[probe.asked] = list(probe.sites)
    return deciding


def _at(loc: ir.Loc | None, site: tuple[int, ...] | None) -> ir.Loc | None:
    """The place of a branch, in the text that `loc` lies in; none for one in a text of another language."""
    return (loc[0], *site[1:]) if loc is not None and site is not None and len(site) == len(loc) else None


def _any_loc(path: PathRun) -> ir.Loc | None:
    """Some place in the submission's Python."""
    events: Iterable[Event] = (e for run in path.shapes for call in run.calls for e in call.events)
    return next((e.loc for e in events if e.loc is not None and e.loc[0].language == "python"), None)


# --- settings ----------------------------------------------------------------------------------------------


def _settings(paths: list[PathRun]) -> Iterator[ShapeFact]:
    """Global settings: whether they are put back, and whether the two calls of forward run under different ones."""
    common = [{a["symbol"] for k, a, _ in p.notes if k == "backend-state"} for p in ended(paths)]
    by_symbol: dict[str, list[tuple[dict[str, Any], ir.Loc | None]]] = {}
    for kind, attrs, loc in paths[0].notes:
        if kind == "backend-state":
            by_symbol.setdefault(attrs["symbol"], []).append((attrs, loc))
    for symbol, entries in by_symbol.items():
        if any(symbol not in other for other in common):
            continue
        restored = entries[-1][0]["before"]
        in_calls = {call: [a["value"] for a, _ in entries if a["call"] == call] for call in (1, 2)}
        differs = bool(in_calls[2]) and in_calls[1] != in_calls[2] and "?" not in in_calls[1] + in_calls[2]
        seen: set[Any] = set()
        for attrs, loc in entries:
            if attrs["before"] or span_of(loc) in seen:
                continue
            seen.add(span_of(loc))
            when = "forward" if attrs["call"] else "import"
            value = attrs["value"]
            fact = BackendState(symbol=symbol, value=value, restored=restored, differs=differs, when=when)
            yield ShapeFact(fact, loc)


# --- the process -------------------------------------------------------------------------------------------


def _processes(path: PathRun) -> Iterator[ShapeFact]:
    """Processes that nothing waits for."""
    for symbol, program, loc in path.children[:4]:
        what = f"{program}, which nothing waits for"
        yield ShapeFact(_foreign("process", symbol, what, "import"), loc)


def _exits(path: PathRun) -> Iterator[ShapeFact]:
    """An uncaught SystemExit ends the process that grades."""
    for raised, when in [(path.raised, "import"), *((run.raised, "forward") for run in path.shapes)]:
        if raised == "SystemExit":
            yield ShapeFact(_foreign("exit", "SystemExit", "the end of the process", when), path.exit_loc)
            return


def _foreign(kind: str, symbol: str, what: str, when: str) -> Effect:
    return Effect(kind=kind, symbol=symbol, what=what, target="foreign", undone=False, when=when)
