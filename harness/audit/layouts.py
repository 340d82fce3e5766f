"""What lies where in an archive. A plan is made of names alone; what it names is all that is opened afterwards.

`predecessor`: solutions as `public/runs/[BOARD/]RUN_solution.py.txt`, or in the pane of `RUN.html`; annotations,
details and leaderboards beside. `kernelbench`: `level_L_problem_P_sample_S_kernel.py` with `eval_results.json`.
`folder`: .py files.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.audit.annotations import RUN, Row, Theirs
from harness.audit.reading import AuditError, Item, Place, safe_path

__all__ = ["LAYOUTS", "Entry", "Plan", "detect", "plan"]

LAYOUTS = ("predecessor", "kernelbench", "folder")
MOST_ENTRIES = 50_000
_TEXT = re.compile(r"public/runs/(?:([A-Za-z0-9_-]+)/)?([^/]+)_solution\.py\.txt")
_PAGE = re.compile(r"(?:public/runs/(?:([A-Za-z0-9_-]+)/)?|archive/(v1)-runs/)([^/]+)\.html")
_ANNOTATION = re.compile(r"benchmarks/[^/]+/results/annotations/([^/]+)\.ya?ml")
_DETAIL = re.compile(r"public/data/rundetail/(?:([A-Za-z0-9_-]+)/)?([^/]+)\.json")
_BOARD = re.compile(r"benchmarks/[^/]+/results/leaderboard[^/]*\.json")
_SAMPLE_OF = re.compile(r"(level_\d{1,3}_problem_\d{1,6})_sample_\d{1,6}$")
_SAMPLE = re.compile(r"(?:(.*)/)?(level_(\d{1,3})_problem_(\d{1,6})_sample_(\d{1,6}))_kernel\.py")
_PROBLEM = re.compile(r"(?:.*/)?level_?(\d{1,3})/(\d{1,6})_[^/]+\.py")
_SOURCE = re.compile(r"(html|runs_txt|text):([^@]+)(?:@([0-9a-f]{7,64}))?")
_STAMP = re.compile(r"(\d{2}_[a-z][a-z0-9_]*)$")
MAIN = "main"


@dataclass(frozen=True, slots=True)
class Entry:
    """A run of the archive: where its solution lies (None: nowhere) and what speaks of it. `named` is the name by which
    lines of the solution are told; `sample` its problem and number in KernelBench's results."""

    run: str
    named: str
    board: str = ""
    place: Place | None = None
    annotation: Place | None = None
    detail: Place | None = None
    results: Place | None = None
    problem_file: Place | None = None
    sample: tuple[int, int] = (0, 0)
    sha256: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All runs of an archive, and its leaderboards."""

    layout: str
    entries: tuple[Entry, ...]
    boards: tuple[Place, ...] = ()

    def places(self) -> list[Place]:
        """All places that are opened, except for the files of problems."""
        found: list[Place | None] = list(self.boards)
        for entry in self.entries:
            found += [entry.place, entry.annotation, entry.detail, entry.results]
        return [place for place in dict.fromkeys(found) if place is not None]

    def problem_files(self) -> list[Place]:
        """The files of KernelBench's problems that are opened."""
        return list(dict.fromkeys(entry.problem_file for entry in self.entries if entry.problem_file is not None))


def detect(items: Sequence[Item]) -> str:
    """The layout that an archive's names show. Raises AuditError where they show none."""
    paths = [item.path for item in items]
    for name, patterns in (("predecessor", (_TEXT, _ANNOTATION)), ("kernelbench", (_SAMPLE,))):
        if any(pattern.fullmatch(path) for path in paths for pattern in patterns):
            return name
    if any(path.endswith(".py") for path in paths):
        return "folder"
    raise AuditError(f"nothing here is a solution: {', '.join(LAYOUTS)} are the layouts that are known")


def plan(
    layout: str, items: Sequence[Item], only: Sequence[Row] | None, problems: Sequence[Item] | None = None
) -> Plan:
    """Plans what is opened of an archive: all of its runs, or those that the rows of `only` name, and the files that
    annotate them.

    With `only` no leaderboard is opened, as each speaks of other runs too. `problems` are KernelBench's problems, where
    those of the archive are not meant. Raises AuditError.
    """
    made = {"predecessor": _predecessor, "kernelbench": _kernelbench, "folder": _folder}[layout]
    entries, boards = made(items)
    if layout == "kernelbench":
        entries = _with_problems(entries, items if problems is None else problems)
    if only is not None:
        entries, boards = _only(entries, only, layout), ()
    if len(entries) > MOST_ENTRIES:
        raise AuditError(f"the archive names more than {MOST_ENTRIES:,} runs; name some with --only")
    return Plan(layout, tuple(entries), tuple(boards))


def _only(entries: Sequence[Entry], rows: Iterable[Row], layout: str) -> list[Entry]:
    """The entries that rows name, in the rows' order; one without a solution for each that is not in the archive."""
    by_run = {entry.run: entry for entry in entries}
    by_path = {entry.place.path: entry for entry in entries if entry.place is not None}
    found: dict[str, Entry] = {}
    for row in rows:
        entry = by_path.get(row.file) if row.file else None
        entry = entry or by_run.get(row.run) or Entry(row.run or row.file, row.run or row.file)
        if row.source:
            entry = replace(entry, place=_source(row), named=f"{entry.run}.py", remarks=())
        entry = replace(entry, board=row.theirs.board or entry.board, sha256=row.theirs.sha256)
        found.setdefault(entry.run, entry)
    return list(found.values())


def _source(row: Row) -> Place:
    """Where a row says that the solution lies: `html:PATH`, `runs_txt:PATH`, each with `@COMMIT` or not."""
    found = _SOURCE.fullmatch(row.source)
    if found is None or not safe_path(found[2]):
        raise AuditError(f"the source of {row.run or row.file} is not html:PATH@COMMIT nor runs_txt:PATH@COMMIT")
    return Place(found[2], found[3] or "", "html" if found[1] == "html" else "text")


# --- the predecessor ---------------------------------------------------------------------------------------


def _predecessor(items: Sequence[Item]) -> tuple[list[Entry], Sequence[Place]]:
    solutions: dict[str, list[tuple[int, str, Item, Place]]] = defaultdict(list)
    annotations: dict[str, Place] = {}
    details: dict[str, tuple[str, Place]] = {}
    boards = []
    for item in items:
        path = item.path
        if found := _TEXT.fullmatch(path):
            # A board's own copy before the one that all boards share; a text before a page.
            solutions[found[2]].append((0 if found[1] else 1, found[1] or "", item, Place(path)))
        elif found := _PAGE.fullmatch(path):
            board = found[1] or found[2] or ""
            solutions[found[3]].append((2, board, item, Place(path, form="html")))
        elif found := _ANNOTATION.fullmatch(path):
            annotations.setdefault(found[1], Place(path))
        elif found := _DETAIL.fullmatch(path):
            if found[1] or found[2] not in details:
                details[found[2]] = (found[1] or "", Place(path))
        elif _BOARD.fullmatch(path):
            boards.append(Place(path))
    entries = []
    for run in sorted({*solutions, *annotations}):
        if RUN.fullmatch(run) is None:
            continue
        copies = sorted(solutions.get(run, ()), key=lambda copy: (copy[0], copy[1], copy[3].path))
        board, detail = details.get(run, ("", None))
        board = next((copy[1] for copy in copies if copy[1]), board) or MAIN
        entries.append(Entry(
            run, f"{run}.py", board, copies[0][3] if copies else None, annotations.get(run), detail,
            remarks=tuple(_others(copies)),
        ))  # fmt: skip
    return entries, boards


def _others(copies: Sequence[tuple[int, str, Item, Place]]) -> Iterable[str]:
    """Of texts of one run that are not the same, those that are not read."""
    first = copies[0][2] if copies else None
    for _, _, item, place in copies[1:]:
        if first is not None and place.form == "text" and (item.size, item.id) != (first.size, first.id):
            yield f"another text of this run lies at {place.path}, and is not the one that was read"


# --- KernelBench -------------------------------------------------------------------------------------------


def _kernelbench(items: Sequence[Item]) -> tuple[list[Entry], Sequence[Place]]:
    known = {item.path for item in items}
    entries = []
    for item in items:
        found = _SAMPLE.fullmatch(item.path)
        if found is None:
            continue
        folder, name = found[1] or "", found[2]
        results = f"{folder}/eval_results.json" if folder else "eval_results.json"
        run = f"{folder.replace('/', '~')}~{name}" if folder else name
        if RUN.fullmatch(run):
            entries.append(Entry(
                run, item.path, folder.rsplit("/", 1)[-1] or MAIN, Place(item.path),
                results=Place(results) if results in known else None, sample=(int(found[4]), int(found[5])),
            ))  # fmt: skip
    return entries, ()


def _with_problems(entries: Sequence[Entry], items: Sequence[Item]) -> list[Entry]:
    """The entries with the file of the problem that each solves, where one lies in a folder `levelL` as `P_*.py`."""
    files: dict[tuple[int, int], str] = {}
    for item in items:
        if found := _PROBLEM.fullmatch(item.path):
            files.setdefault((int(found[1]), int(found[2])), item.path)
    made = []
    for entry in entries:
        level = int(re.search(r"level_(\d+)_problem", entry.run)[1])  # type: ignore[index]
        path = files.get((level, entry.sample[0]))
        made.append(replace(entry, problem_file=Place(path) if path else None))
    return made


# --- a folder ----------------------------------------------------------------------------------------------


def _folder(items: Sequence[Item]) -> tuple[list[Entry], Sequence[Place]]:
    files = [item.path for item in items if _is_solution(item)]
    names = {path: _run_of(path) for path in files}
    counts = Counter(names.values())
    entries = []
    for path in files:
        run = names[path] if counts[names[path]] == 1 else path.removesuffix(".py").replace("/", "~")
        if RUN.fullmatch(run):
            entries.append(Entry(run, path, path.split("/")[0] if "/" in path else MAIN, Place(path)))
    return entries, ()


def _is_solution(item: Item) -> bool:
    parts = item.path.split("/")
    hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
    return item.path.endswith(".py") and not hidden and not (parts[-1] == "__init__.py" and item.size == 0)


def _run_of(path: str) -> str:
    *folders, name = path.split("/")
    return folders[-1] if folders and name == "solution.py" else name.removesuffix(".py")


def problem_of(said: Sequence[str], run: str, ids: Sequence[str]) -> str:
    """The problem of the deck that one of the texts `said` names, the run's own name last; else the first text that
    there is, or the problem in the run's name.
    """
    for text in (*said, run):
        known = max((name for name in ids if name in text), key=len, default="")
        if known:
            return known
    if sample := _SAMPLE_OF.search(run):
        return next((text for text in said if text), sample[1])
    found = _STAMP.search(run)
    return next((text for text in said if text), found[1] if found else "")


def matched(entries: Sequence[Entry], rows: Sequence[Row]) -> Mapping[str, Theirs]:
    """The annotation of each run; a row names its run, or the file or entry of it."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        by_file[entry.named.rsplit("/", 1)[-1]].append(entry.run)
    named = {entry.named: entry.run for entry in entries}
    found: dict[str, Theirs] = {}
    for row in rows:
        near = by_file.get(row.file.rsplit("/", 1)[-1], [])
        run = row.run or named.get(row.file) or (near[0] if len(near) == 1 else row.file)
        found[run] = row.theirs
    return found
