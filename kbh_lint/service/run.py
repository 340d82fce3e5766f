"""One run over many paths: discovery, cache, workers, and the report in the order of the paths."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kbh_lint.authors.folders import FAULTS, Found, find
from kbh_lint.base.errors import UsageError
from kbh_lint.findings import Fact, FileReport, Report, Unread
from kbh_lint.rules import Rule, apply, by_line, unknown_words
from kbh_lint.service.cache import Cache
from kbh_lint.service.hygiene import checking
from kbh_lint.service.one_file import Options, load_rules_once, select_findings
from kbh_lint.source.answers import AnswersError, ProblemFiles
from kbh_lint.source.profiles import KERNELBENCH, PRECISIONS, PROFILES
from kbh_lint.source.submissions import BadInput, Submission, discover

if TYPE_CHECKING:
    from kbh_lint.triage.changes import Changes

Progress = Callable[[int, int], None]  # is given: files done, all files


def lint_paths(
    paths: Sequence[Path],
    options: Options,
    *,
    problem: str | None,
    target: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    jobs: int | str,
    cache: Path | None,
    progress: Progress | None,
    authors: bool = False,
    changes: Changes | None = None,
    files: ProblemFiles | None = None,
) -> Report:
    """See `kbh_lint.lint`."""
    _check_words((*select, *ignore), options)
    given = find(paths, authors=authors)
    found = _discovered(given.rest, options, problem, target, files)
    if changes is not None:
        found = [item for item in found if _changed(item, changes)]
        decks = tuple(deck for deck in given.decks if changes.has(deck / FAULTS))
        given = Found(tuple(filter(changes.below, given.problems)), decks, given.rest)
    submissions = lint_found(found, options, jobs, cache, progress)
    reports = submissions.files
    if given.problems or given.decks:
        reports = (*reports, *_problems(given, options, jobs, cache, progress))
    return Report(tuple(select_findings(file, select, ignore) for file in reports), submissions.errors)


def _discovered(
    paths: Sequence[Path], options: Options, problem: str | None, target: str | None, files: ProblemFiles | None = None
) -> list[Submission | BadInput]:
    deck = Path(options.problems_dir)
    return list(discover(paths, problem=problem, target=target, problems_dir=deck, files=files))


def problem_files(
    problem: str | None,
    file: Path | None,
    folder: Path | None = None,
    match: Sequence[str] = (),
    profile: str = "",
    precision: str = "",
) -> ProblemFiles | None:
    """The problems beside the deck that files are linted against: one `file`, or those of a `folder` or manifest.

    Raises UsageError for what contradicts itself, is not there or is not known, and DataError for a malformed manifest.
    """
    if file is None and folder is None:
        about = {"--match": match, "--profile": profile, "--precision": precision}
        said = next((name for name, given in about.items() if given), None)
        if said is not None:
            raise UsageError(f"{said} is about answers to problem files; give --problem-file or --problems, too")
        return None
    if problem is not None or (file is not None and folder is not None):
        raise UsageError(
            "--problem names a problem of the deck, --problem-file one beside it, --problems many; give one of these"
        )
    if profile and profile not in PROFILES:
        raise UsageError(f"there is no profile {profile!r}; known are {', '.join(PROFILES)}")
    if precision and precision not in PRECISIONS:
        raise UsageError(f"there is no precision {precision!r}; known are {', '.join(PRECISIONS)}")
    how = PROFILES[profile or KERNELBENCH.id]
    if precision and not how.converts:
        raise UsageError(f"the profile {how.id} converts nothing, so that --precision means nothing for it")
    if folder is not None:
        try:
            return ProblemFiles.read(folder, match, how, precision)
        except AnswersError as error:
            raise UsageError(str(error)) from None
    assert file is not None
    if match:
        raise UsageError("--match is for a folder of problems (--problems); --problem-file is the problem of all files")
    if file.suffix not in (".py", ".yaml") or not file.is_file():
        raise UsageError(f"{file}: a problem file is a file NAME.py or NAME.yaml; this is none")
    return ProblemFiles(how, precision, one=file)


def _changed(item: Submission | BadInput, changes: Changes) -> bool:
    """Whether a submission or a file that it loads changed. A path that is not a file is told of in any case."""
    sidecars = getattr(item, "sidecars", {}).values()
    there = [item.path, *(Path(sidecar.path) for sidecar in sidecars)]
    return not item.path.is_file() or any(map(changes.has, there))


def _problems(
    given: Found, options: Options, jobs: int | str, cache: Path | None, progress: Progress | None
) -> list[FileReport]:
    """The reports on problem folders; their solutions are linted against the deck that the folder is in."""
    from kbh_lint.authors.lint import lint  # start-up: only where files are linted anew

    def lint_files(deck: Path, files: Sequence[tuple[Path, str]]) -> list[FileReport]:
        own = replace(options, problems_dir=str(deck))
        found = [item for file, problem in files for item in _discovered([file], own, problem, None)]
        return list(lint_found(found, own, jobs, cache, progress).files)

    return lint(given, load_rules_once(options.rules_dir), lint_files, Path(options.problems_dir))


def lint_found(
    found: Sequence[Submission | BadInput],
    options: Options,
    jobs: int | str,
    cache: Path | None,
    progress: Progress | None,
) -> Report:
    """Lints what is read already: stored results first, the rest in workers; reports in the order of `found`, one for
    each submission."""
    store = _open_cache(cache, options)
    reports: dict[int, FileReport] = {}
    errors: list[str] = []
    pending: list[tuple[int, Submission, str]] = []
    for index, item in enumerate(found):
        if isinstance(item, BadInput):
            errors.append(item.message)
            if item.path.is_file():
                # It is there and nobody has read it: never to be taken for clean.
                unread = (Unread(item.message),)
                reports[index] = FileReport(str(item.path), None, None, None, "unproven", unread=unread)
            continue
        key = store.key(item, options.trace) if store else ""
        known = store.get(key) if store else None
        if known is not None:
            reports[index] = known
        else:
            pending.append((index, item, key))
    read = [(index, item) for index, item in enumerate(found) if not isinstance(item, BadInput)]
    with _broken_code(read, options) as broken:
        if pending:
            errors += _analyse(pending, options, jobs, store, reports, progress, len(reports) + len(pending))
        for index, facts in broken():
            _add_hygiene(index, facts, reports, options)
    return Report(tuple(reports[index] for index in sorted(reports)), tuple(errors))


@contextmanager
def _broken_code(
    read: Sequence[tuple[int, Submission]], options: Options
) -> Iterator[Callable[[], Iterable[tuple[int, tuple[Fact, ...]]]]]:
    """Has ruff look for code that cannot run while the block works; what it gives waits for facts, by the index of
    the file."""
    asked = any(query.fact == "broken-code" for rule in _hygiene_rules(options) for query in rule.when)
    wanted = read if asked else ()
    with checking([(str(item.path), item.text) for _, item in wanted]) as facts:
        yield lambda: zip((index for index, _ in wanted), facts(), strict=True)


def _hygiene_rules(options: Options) -> list[Rule]:
    return [rule for rule in load_rules_once(options.rules_dir) if rule.severity == "info"]


def _add_hygiene(index: int, facts: tuple[Fact, ...], reports: dict[int, FileReport], options: Options) -> None:
    """Findings of ruff beside the others. They are of severity info: verdicts stay as they are."""
    report = reports[index]
    more = apply(_hygiene_rules(options), facts, path=report.path, contract_known=report.contract is not None)
    if more:
        every = sorted((*report.findings, *more), key=by_line(report.path))
        reports[index] = replace(report, findings=tuple(every))


def _analyse(
    pending: list[tuple[int, Submission, str]],
    options: Options,
    jobs: int | str,
    store: Cache | None,
    reports: dict[int, FileReport],
    progress: Progress | None,
    total: int,
) -> list[str]:
    """Fills in `reports`; returns a sentence for each file on which the linter itself gave out, in the files' order."""
    from kbh_lint.service import jobs as workers  # start-up: only where files are linted anew

    load_rules_once(options.rules_dir)  # a malformed rule is told before any worker starts
    troubles: list[tuple[int, str]] = []
    for at, outcome in workers.run([item for _, item, _ in pending], options, workers.worker_count(jobs, len(pending))):
        index, _, key = pending[at]
        reports[index] = outcome.report
        if outcome.trouble:
            troubles.append((index, outcome.trouble))
        if store and outcome.stable:
            store.put(key, outcome.report)
        if progress:
            progress(len(reports), total)
    if store:
        store.close()
    return [trouble for _, trouble in sorted(troubles)]


def _open_cache(folder: Path | None, options: Options) -> Cache | None:
    if folder is None:
        return None
    return Cache(folder, Path(options.rules_dir), Path(options.problems_dir))


def _check_words(words: Collection[str], options: Options) -> None:
    if not words:
        return
    for word in unknown_words(words, load_rules_once(options.rules_dir)):
        raise UsageError(f"no rule has the id, prefix, name or class `{word}`; see --list-rules")
