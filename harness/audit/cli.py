"""`kbh audit`: lints a published archive, and holds its annotations against the result."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from time import monotonic

from grader.authoring.common import CommandError, need_grade
from harness.audit import markdown, page
from harness.audit.annotations import Row, parse, rows
from harness.audit.cells import Audit, Cell, cell_of
from harness.audit.compare import KINDS, TITLES
from harness.audit.gathering import Run, gather, problem_files
from harness.audit.layouts import LAYOUTS, Plan, detect, matched, plan
from harness.audit.linting import Beside, lint_runs
from harness.audit.reading import Archive, AuditError, Folder, Reader, open_archive
from harness.audit.record import as_json, schema
from kbh_lint import __version__
from kbh_lint.base import paths
from kbh_lint.base.errors import SetupError, UsageError
from kbh_lint.cli.options import TROUBLE, Parser, processes, seconds
from kbh_lint.findings import FileReport
from kbh_lint.marked import DataError
from kbh_lint.problems import load_deck
from kbh_lint.rules import load_rules
from kbh_lint.service.cache import version_digest
from kbh_lint.source.sidecars import Neighbours

__all__ = ["audit", "main", "parser"]

SAME, APART = 0, 1
MOST_LIST = 64 << 20
FILES = ("audit.json", "audit.md", "audit.html")

_EPILOG = """\
examples:
  kbh audit kernelbench.com/                       a checkout of a published archive; writes kbh-audit/
  kbh audit mirror.git --only runs.json -o out     runs that are named, from a git directory, and nothing else of it
  kbh audit runs/ --kernelbench KernelBench        samples of KernelBench with eval_results.json, under its problems
  kbh audit kernels/ --annotations labels.yaml     .py files, with what somebody said of them
  kbh audit kernels/ --grade                       also grade, strictly and in a sandbox, what can be graded here
  kbh audit --schema                               the JSON Schema of audit.json

exit codes:
  0  no annotation disagrees with the linter (what cannot be told is counted, and is no disagreement)
  1  one does
  2  the audit could not be made

No solution is imported; without --grade none is run. None of it is copied into the output without --with-sources.
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh audit`."""
    ask = Parser(
        prog="kbh audit", description="Lints a published archive, and holds its annotations against the result.",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("archive", nargs="?", type=Path, metavar="ARCHIVE", help="a folder, or a git directory")
    what = ask.add_argument_group("what is read")
    what.add_argument("--layout", choices=("auto", *LAYOUTS), default="auto", help="default: what its names show")
    what.add_argument("--revision", metavar="REV", default="HEAD", help="of a git directory (default: HEAD)")
    what.add_argument("--only", metavar="FILE", type=Path,
                      help="open only these runs: names, one a line, or JSON rows with run_id and source")  # fmt: skip
    what.add_argument("--annotations", metavar="FILE", type=Path,
                      help="JSON or YAML rows with run_id or file, and verdict or label")  # fmt: skip
    what.add_argument("--kernelbench", metavar="DIR", type=Path,
                      help="KernelBench's problems, as level1/1_NAME.py (default: those in the archive)")  # fmt: skip
    what.add_argument("--problem", metavar="ID", help="the problem that all of them solve")
    what.add_argument("--target", metavar="GPU", help="the GPU that all of them are for, and are graded on")
    what.add_argument("--problems-dir", metavar="DIR", type=Path, help="use these problems instead of the project's")
    how = ask.add_argument_group("how")
    how.add_argument("--jobs", "-j", metavar="N", type=processes, default="auto",
                     help="processes that lint: a number, or auto (the default)")  # fmt: skip
    how.add_argument("--timeout", metavar="S", type=seconds, default=60.0, help="seconds for one file (default: 60)")
    how.add_argument("--grade", action="store_true", help="also grade what can be graded on this machine")
    out = ask.add_argument_group("output")
    out.add_argument("-o", "--output", metavar="DIR", type=Path, default=Path("kbh-audit"),
                     help="where audit.json, audit.md and audit.html go (default: kbh-audit)")  # fmt: skip
    out.add_argument("--with-sources", action="store_true", help="copy solutions, and their lines into the outputs")
    out.add_argument("--schema", action="store_true", help="print the schema of audit.json, and do nothing else")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh audit`. Returns the exit code."""
    ask = parser()
    try:
        args = ask.parse_args(argv)
        if args.archive is None and not args.schema:
            ask.error("say which archive: kbh audit ARCHIVE")
    except SystemExit as done:
        return int(done.code or 0)
    if args.schema:
        print(json.dumps(schema(), indent=2))
        return SAME
    try:
        made = audit(args, _progress("lint"))
        _write(made, args.output)
    except KeyboardInterrupt:
        print("kbh audit: interrupted", file=sys.stderr)
        return 130
    except (AuditError, CommandError, UsageError, SetupError, DataError, ImportError) as error:
        return _trouble(str(error))
    except OSError as error:
        return _trouble(f"{error.filename or 'a file'}: {(error.strerror or str(error)).lower()}")
    except Exception as error:
        # The grader's errors are known by name: to import its classes would import torch.
        if args.grade and type(error).__name__ in ("SandboxError", "TargetError"):
            return _trouble(str(error))
        raise
    return _told(made, args.output)


def audit(args: argparse.Namespace, progress: Callable[[int, int], None]) -> Audit:
    """The audit that options ask for. Raises AuditError, OSError, and the linter's errors."""
    begun = monotonic()
    if args.grade:
        need_grade()
    ids = load_deck(paths.problems_dir(args.problems_dir)).ids
    only = _rows(args.only) if args.only else None
    said = _rows(args.annotations) if args.annotations else []
    archive = open_archive(args.archive, args.revision)
    elsewhere = Folder(args.kernelbench) if args.kernelbench else None
    try:
        made = _plan(args.layout, archive, only, elsewhere)
        runs = gather(made, Reader.of(archive, made.places()), matched(made.entries, said), ids)
        if not any(run.text is not None for run in runs):
            raise AuditError(f"no solution could be read: {runs[0].missing if runs else 'no run is there'}")
        with tempfile.TemporaryDirectory(prefix="kbh-audit-") as scratch:
            problems = problem_files(made, Reader.of(elsewhere or archive, made.problem_files()), Path(scratch))
            read = monotonic()
            beside = _beside(archive) if made.layout == "folder" and only is None else None
            reports, troubles = lint_runs(
                runs, problems=problems, problems_dir=args.problems_dir, problem=args.problem,
                target=None if args.target == "cpu" else args.target, jobs=args.jobs, timeout=args.timeout,
                progress=progress, beside=beside,
            )  # fmt: skip
        linted = monotonic()
    finally:
        archive.close()
    taken = {"read": read - begun, "lint": linted - read}
    cells = _cells(runs, reports, args.with_sources)
    if args.grade:
        grading = import_module("harness.audit.grading")  # only here: it loads torch
        grades = grading.grade_runs(runs, target=args.target or "auto", problems_dir=args.problems_dir, ids=ids,
                            progress=_progress("grade"))  # fmt: skip
        cells = tuple(replace(cell, grade=grades.get(cell.run)) for cell in cells)
        taken["grade"] = monotonic() - linted
    if args.with_sources:
        _copy(runs, args.output)
    return Audit(
        archive.name, archive.kind, archive.revision, made.layout, len(made.entries) if only is not None else None,
        cells, _versions(args.problems_dir), taken, args.with_sources, troubles,
    )  # fmt: skip


def _plan(layout: str, archive: Archive, only: Sequence[Row] | None, elsewhere: Folder | None) -> Plan:
    items = archive.items()
    return plan(
        detect(items) if layout == "auto" else layout, items, only, elsewhere.items() if elsewhere is not None else None
    )


def _rows(file: Path) -> list[Row]:
    """The rows of --only or --annotations: JSON, YAML, or names, one a line."""
    with file.open("rb") as stream:
        data = stream.read(MOST_LIST + 1)
    if len(data) > MOST_LIST:
        raise AuditError(f"{file} is longer than {MOST_LIST:,} bytes")
    if file.suffix in (".json", ".yaml", ".yml"):
        return rows(parse(data, str(file)), str(file))
    lines = (line.partition("#")[0].strip() for line in data.decode("utf-8-sig", "replace").splitlines())
    return rows([line for line in lines if line], str(file))


def _beside(archive: Archive) -> Beside | None:
    """What gives the files beside a solution of a folder, which it may load."""
    if not isinstance(archive, Folder):
        return None
    top, neighbours = archive.top, Neighbours()
    return lambda named, text: neighbours.beside(top / named, text, whole_folder=False)


def _cells(runs: Sequence[Run], reports: Mapping[str, FileReport], sources: bool) -> tuple[Cell, ...]:
    rules = {rule.id: " ".join(rule.summary.split()) for rule in load_rules(paths.rules_dir(), examples=False)}
    made = [cell_of(run, reports.get(run.entry.run), rules, sources=sources) for run in runs]
    order = {kind: number for number, kind in enumerate(("we-flag", "they-flag", "cannot-tell", "agree", "beside",
                                                         "not-annotated"))}  # fmt: skip
    return tuple(sorted(made, key=lambda cell: (order[cell.kind], cell.problem, cell.run)))


def _versions(problems_dir: Path | None) -> dict[str, str]:
    digest = version_digest(paths.rules_dir(), paths.problems_dir(problems_dir))
    python = ".".join(map(str, sys.version_info[:3]))
    return {"kbh": __version__, "rules and problems": digest, "python": python}


def _copy(runs: Sequence[Run], output: Path) -> None:
    folder = output / "sources"
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        if run.text is not None:
            (folder / f"{run.entry.run}.py").write_text(run.text, encoding="utf-8")


def _write(made: Audit, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    try:
        html = page.render(made)
    except page.PageError as error:
        raise AuditError(str(error)) from None
    texts = (json.dumps(as_json(made), indent=1) + "\n", markdown.render(made), html)
    for name, text in zip(FILES, texts, strict=True):
        (output / name).write_text(text, encoding="utf-8", errors="backslashreplace")


def _told(made: Audit, output: Path) -> int:
    counts = made.counts()
    taken = sum(made.seconds.values())
    print(f"{len(made.cells)} runs, {made.solutions} solutions, {taken:.1f} s: "
          + ", ".join(f"{counts[kind]} {TITLES[kind]}" for kind in KINDS))  # fmt: skip
    for name in FILES:
        print(output / name)
    for trouble in made.troubles:
        print(f"kbh audit: {trouble}", file=sys.stderr)
    return APART if any(cell.disagrees for cell in made.cells) else SAME


def _trouble(text: str) -> int:
    line = " ".join(text.split())
    print(f"kbh audit: error: {line if len(line) <= 600 else line[:597] + '...'}", file=sys.stderr)
    return TROUBLE


def _progress(what: str) -> Callable[[int, int], None]:
    """One line on a terminal's standard error, once the work has taken two seconds; elsewhere a line every ten."""
    begun, shown = monotonic(), [0.0]
    terminal = sys.stderr.isatty()

    def tell(done: int, total: int) -> None:
        now = monotonic()
        if now - begun < 2 or now - shown[0] < (0.2 if terminal else 10) and done < total:
            return
        shown[0] = now
        end = "" if terminal and done < total else "\n"
        sys.stderr.write(f"{chr(13) if terminal else ''}{what} {done}/{total} files{end}")
        sys.stderr.flush()

    return tell
