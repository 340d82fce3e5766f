"""The Python API: `lint` for paths; `one_file.lint_file` is for one submission that is already read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbh_lint.base import paths as locations
from kbh_lint.service.one_file import DEFAULT_TIMEOUT_S, ENGINE, Options
from kbh_lint.service.run import Progress, lint_paths, problem_files

if TYPE_CHECKING:
    from kbh_lint.findings import Report
    from kbh_lint.triage.changes import Changes

StrPath = str | os.PathLike[str]


def lint(
    paths: Iterable[StrPath],
    *,
    problem: str | None = None,
    target: str | None = None,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    jobs: int | str = 1,
    cache: StrPath | None = None,
    trace: bool = False,
    timeout: float = DEFAULT_TIMEOUT_S,
    rules_dir: StrPath | None = None,
    problems_dir: StrPath | None = None,
    progress: Progress | None = None,
    raise_errors: bool = False,
    authors: bool = False,
    changes: Changes | None = None,
    problem_file: StrPath | None = None,
    problems: StrPath | None = None,
    match: Sequence[str] = (),
    profile: str = "",
    precision: str = "",
) -> Report:
    """Lints files, folders and run archives; nothing of them is imported or executed.

    `problem` and `target` name the problem and the GPU for all files (else each file's own are used). `problem_file` is
    a KernelBench problem that is not in the deck, or the YAML beside it; `problems` a folder of such, or a manifest,
    from which each answer's is taken by its name, `match` patterns of names; `profile` and `precision` say how the
    benchmark runs answers (docs/kernelbench.md). `select` and
    `ignore` (rule ids, their prefixes, names, classes) choose which findings are listed; a verdict is always that of
    all rules. `jobs` is a number of processes or "auto"; `cache` a folder for results. `progress` is called with (files
    done, all files). `raise_errors` lets an error inside the tool through instead of calling the file unproven.

    A problem folder (it holds a `problem.yaml`), or a folder of them, is linted for its authors. `authors` takes every
    path for a part of a problem folder, and skips the rest. With `changes` only what changed is linted.

    Raises UsageError (an unknown problem, target, rule), RuleError or ProblemError (a malformed data file), and
    ImportError or SetupError when the linter is not installed whole.
    """
    files = problem_files(problem, _path(problem_file), _path(problems), match, profile, precision)
    options = Options(
        str(locations.rules_dir(_plain(rules_dir))),
        str(locations.problems_dir(_plain(problems_dir))),
        trace,
        timeout,
        raise_errors,
        ENGINE,
    )
    return lint_paths(
        [Path(path) for path in paths],
        options,
        problem=problem,
        target=target,
        select=tuple(select),
        ignore=tuple(ignore),
        jobs=jobs,
        cache=None if cache is None else Path(cache),
        progress=progress,
        authors=authors,
        changes=changes,
        files=files,
    )


def _path(path: StrPath | None) -> Path | None:
    return None if path is None else Path(path)


def _plain(path: StrPath | None) -> str | None:
    return None if path is None else os.fspath(path)
