"""Whose code the submission is: functions of published libraries, and licence headers, that it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kbh_lint.analyses.flow import slice_of
from kbh_lint.analyses.seeds import ShapeFact, span_of
from kbh_lint.analyses.whole_file.program import called_names
from kbh_lint.base import ir
from kbh_lint.base.facts import Licence, Vendored
from kbh_lint.base.records import dataclass
from kbh_lint.base.regexes import regex
from kbh_lint.base.values import Func, JitFunction
from kbh_lint.fingerprints.functions import CPP_SUFFIXES, Function, cpp_functions, python_functions
from kbh_lint.fingerprints.store import Match, load, matches
from kbh_lint.frontends.python import PythonUnit
from kbh_lint.host.values.path_runs import PathRun
from kbh_lint.problems import Ban, Problem
from kbh_lint.source.sidecars import Sidecar

if TYPE_CHECKING:
    from kbh_lint.frontends.cuda import CudaUnit

FRAMEWORKS = frozenset({"torch", "triton"})  # a ban of one of their functions is no ban of all their code
MAX_RELATED = 8
_SPDX = regex(r"SPDX-License-Identifier:\s*([\w.+-]+(?:\s+(?:OR|AND|WITH)\s+[\w.+-]+)*)")
_HOLDER = regex(r"\bCopyright\b[\s\d,.\u00a9-]{0,60}(?:\(c\)[\s\d,.\u00a9-]{0,60})?([^\W\d_][^\n]{1,80})", re.I)
_MARKED = regex(r"\bCopyright\b.{0,40}?(?:\(c\)|\u00a9|\d{4})", re.I)  # a word about copyright has none of them
MAX_HEADERS = 10


@dataclass(frozen=True, slots=True)
class _Part:
    """A function of the submission and the unit that it stands in: a file, or a CUDA text as it was built."""

    unit: PythonUnit | CudaUnit
    function: Function

    def loc(self) -> ir.Loc:
        """The line where the function begins."""
        if not isinstance(self.unit, PythonUnit):
            return (self.unit, self.function.start, self.function.start + 1)
        line = self.function.line
        rows = self.unit.text.split("\n")
        row = rows[line - 1] if line <= len(rows) else ""
        indent = len(row) - len(row.lstrip())
        return (self.unit, line, len(row[:indent].encode()), line, len(row.encode()))

    def holds(self, path: str, line: int) -> bool:
        """Whether the function covers a line of a file."""
        if not isinstance(self.unit, PythonUnit):
            return False  # kernels of such a text are known by their names
        first = self.unit.first_line - 1
        return path == self.unit.path and self.function.line + first <= line <= self.function.end_line + first


def vendored_facts(
    module: ir.Module,
    sidecars: Mapping[str, Sidecar],
    built: Iterable[ir.Module],
    problem: Problem | None,
    paths: list[PathRun],
) -> list[ShapeFact]:
    """Facts `vendored`, one for each published library whose functions the submission contains, and `licence`, one for
    each licence header.

    `built` are the C++ texts of the submission's extensions.
    """
    units = [module.unit, *(PythonUnit(s.path, s.text, s.first_line) for s in sidecars.values() if not s.binary)]
    made = [text.unit for text in built]
    found = matches([part.function for part in _parts(units, made, placed=False)], load())
    parts = _parts(units, made, placed=True) if found else []
    by_library: dict[str, list[Match]] = {}
    for match in found:
        by_library.setdefault(match.origin.name, []).append(match)
    followed = any(run.calls for run in paths[0].shapes)
    used = _used(paths[0], parts) if found and followed else None
    out = [_vendored(some, parts, used, problem) for some in by_library.values()]
    return out + [seed for unit in units for seed in _headers(unit)][:MAX_HEADERS]


def _parts(units: Iterable[PythonUnit], made: Iterable[CudaUnit], *, placed: bool) -> list[_Part]:
    """The functions of files and of texts as they were built, with their places where these are asked for."""
    parts = [_Part(unit, function) for unit in units for function in _functions(unit, placed)]
    return parts + [_Part(unit, function) for unit in made for function in cpp_functions(unit.prepared, placed=placed)]


def _functions(unit: PythonUnit, placed: bool) -> list[Function]:
    if unit.path.endswith(".py"):
        found = python_functions(unit.text, placed=placed)
        return found or (cpp_functions(unit.text, placed=placed) if unit.first_line > 1 else [])
    return cpp_functions(unit.text, placed=placed) if unit.path.endswith(CPP_SUFFIXES) else []


def _vendored(
    found: list[Match], parts: list[_Part], used: frozenset[int] | None, problem: Problem | None
) -> ShapeFact:
    first = found[0]
    places = dict.fromkeys(match.where for match in found)
    names = tuple(dict.fromkeys(match.function for match in found))
    bans = problem.bans if problem is not None else ()
    fact = Vendored(
        library=first.origin.name,
        version=first.origin.version,
        licence=first.origin.licence,
        functions=names[:MAX_RELATED],
        share=round(first.share, 2),
        forbidden=any(_bans(ban, first.origin.imports, names) for ban in bans),
        reached=any(place in used for place in places) if used is not None else None,
    )
    related = [(parts[m.where].loc(), f"{m.share:.0%} of {m.origin.name}'s {m.function}") for m in found[:MAX_RELATED]]
    return ShapeFact(fact, parts[first.where].loc(), tuple(related))


def _bans(ban: Ban, imports: Iterable[str], functions: Iterable[str]) -> bool:
    """Whether a ban of a library's function bans the library's code in the submission too."""
    for path in ban.paths:
        root, _, rest = path.partition(".")
        if root in imports and (root not in FRAMEWORKS or rest.rsplit(".", 1)[-1] in functions):
            return True
    return False


# --- what is used ------------------------------------------------------------------------------------------


def _used(path: PathRun, parts: list[_Part]) -> frozenset[int]:
    """The parts that a result depends on: launched kernels, what these call, and functions on the way to a launch."""
    names: set[str] = set()
    places: set[tuple[str, int]] = set()
    texts: set[tuple[str, int]] = set()
    for run in path.shapes:
        for event in slice_of(run).events:
            for loc in (event.loc, *event.stack):
                span = span_of(loc)
                if span is not None:
                    places.add((span.path, span.line))
            kernel = event.attrs.get("kernel")
            node = getattr(kernel, "node", None)
            if isinstance(kernel, Func) and node is not None:
                names.add(node.name)
                span = span_of(node.loc)
                if span is not None:
                    texts.add((span.path, span.line))
    names |= _called(path, names)
    return frozenset(
        index
        for index, part in enumerate(parts)
        if part.function.name in names or any(part.holds(file, line) for file, line in places | texts)
    )


def _called(path: PathRun, names: set[str]) -> set[str]:
    """The Triton functions that some functions call, and those that these call."""
    known = {name: value.func for name, value in path.env.vars.items() if isinstance(value, JitFunction)}
    out: set[str] = set()
    pending = list(names)
    while pending:
        func = known.get(pending.pop())
        if func is not None and func.node.body is not None:
            fresh = {name for name in called_names(func.node.body) if name in known} - out
            out |= fresh
            pending += fresh
    return out


# --- licence headers ---------------------------------------------------------------------------------------


def _headers(unit: PythonUnit) -> Iterator[ShapeFact]:
    """SPDX identifiers and copyright lines in comments and strings."""
    if "SPDX-" not in unit.text and "opyright" not in unit.text and "COPYRIGHT" not in unit.text:
        return
    rows = unit.text.split("\n")
    for number, row in enumerate(rows, 1):
        spdx, holder = _SPDX.search(row), _HOLDER.search(row) if _MARKED.search(row) else None
        if spdx is None and holder is None:
            continue
        start = spdx.start() if spdx is not None else holder.start() if holder is not None else 0
        loc = (unit, number, len(row[:start].encode()), number, len(row.rstrip().encode()))
        yield ShapeFact(
            Licence(spdx=spdx[1] if spdx is not None else "", holder=holder[1].strip(" .*/#") if holder else ""),
            loc,
        )
