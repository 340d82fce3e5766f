"""Lints the solutions of an archive as `kbh-lint` does: in memory, in worker processes, with bounds on each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.audit.gathering import Run
from harness.audit.reading import Place
from kbh_lint.base import paths
from kbh_lint.base.limits import memory_limit
from kbh_lint.findings import FileReport
from kbh_lint.service.one_file import Options
from kbh_lint.service.run import Progress, lint_found
from kbh_lint.source.resolve import Resolver, suppression_notes
from kbh_lint.source.sidecars import Sidecar, split_bundle
from kbh_lint.source.submissions import Submission

__all__ = ["lint_runs"]

Beside = Callable[[str, str], Mapping[str, Sidecar]]


def lint_runs(
    runs: Sequence[Run], *, problems: Mapping[Place, Path], problems_dir: Path | None = None,
    problem: str | None = None, target: str | None = None, jobs: int | str = "auto", timeout: float = 60.0,
    progress: Progress | None = None, beside: Beside | None = None,
) -> tuple[dict[str, FileReport], tuple[str, ...]]:  # fmt: skip
    """The report on each run that has a solution, by its name, and a sentence for each where the linter gave out.

    `problems` are the files of KernelBench's problems by their places in the archive; `beside` gives the files that lie
    beside a solution. Raises UsageError for an unknown `problem` or `target`, and DataError.
    """
    deck = paths.problems_dir(problems_dir)
    resolver = Resolver(deck, problem, target)
    found = [(run, _submission(run, run.text, resolver, problems, beside)) for run in runs if run.text is not None]
    options = Options(str(paths.rules_dir()), str(deck), timeout=timeout)
    with memory_limit():
        report = lint_found([submission for _, submission in found], options, jobs, None, progress)
    by_run = {run.entry.run: file for (run, _), file in zip(found, report.files, strict=True)}
    return by_run, report.errors


def _submission(
    run: Run, content: str, resolver: Resolver, problems: Mapping[Place, Path], beside: Beside | None
) -> Submission:
    path = Path(run.entry.named)
    text, sidecars, notes = split_bundle(content, str(path))
    if not sidecars and beside is not None:
        sidecars = dict(beside(run.entry.named, text))
    # A place that is not there: nothing of the folder that this runs in may say what the problem is.
    resolved = resolver.resolve(Path("/nowhere") / path, text, None)
    problem, source = resolved.problem, resolved.problem_source
    if resolver.problem is None and run.problem in resolver.ids:
        problem, source = run.problem, "the archive"
    file = problems.get(run.entry.problem_file) if run.entry.problem_file is not None else None
    return Submission(
        path=path, text=text, sidecars=sidecars, problem=file.stem if file else problem, problem_source=source,
        target=resolved.target, notes=(*notes, *resolved.notes, *suppression_notes(content)), sha256=run.sha256,
        problem_file=str(file) if file else None,
    )  # fmt: skip
