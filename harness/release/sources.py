"""The linter on the sources that gradings hold: restored as files, read as the grader read them, linted in workers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from harness.archive.layout import StoreError
from kbh_lint.base import paths
from kbh_lint.base.errors import UsageError
from kbh_lint.base.limits import memory_limit
from kbh_lint.findings import FileReport
from kbh_lint.marked import DataError
from kbh_lint.service.one_file import Options
from kbh_lint.service.run import lint_found
from kbh_lint.source.submissions import BadInput, Submission, discover

__all__ = ["Linter", "Wanted"]

SECONDS = 300.0  # a bound on what hangs; steps end an analysis
MOST_NAME = 200
MAIN = "solution.py"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A submission on a problem and a target ("" for none): its files by name, and the hash that its cell names."""

    sha256: str
    problem: str
    target: str
    files: Mapping[str, bytes]

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of a report: all that it depends on."""
        return self.sha256, self.problem, self.target


class Linter:
    """Lints each submission once. `refused` says of others, by their keys, why there is no report."""

    def __init__(self, problems_dir: Path | None, jobs: int | str, place: Path) -> None:
        self._deck = paths.problems_dir(problems_dir)
        self._jobs = jobs
        self._place = place
        self.reports: dict[tuple[str, str, str], FileReport] = {}
        self.refused: dict[tuple[str, str, str], str] = {}

    def lint(self, wanted: Sequence[Wanted]) -> None:
        """Lints the submissions that were not linted before, and keeps the reports. Raises StoreError where the linter
        itself fails.
        """
        new = {one.key: one for one in wanted if one.key not in self.reports and one.key not in self.refused}
        found: list[tuple[tuple[str, str, str], Submission]] = []
        for key, one in new.items():
            try:
                found.append((key, self._restored(one)))
            except StoreError as error:
                self.refused[key] = str(error)
        if not found:
            return
        options = Options(str(paths.rules_dir()), str(self._deck), timeout=SECONDS)
        try:
            with memory_limit():
                report = lint_found([submission for _, submission in found], options, self._jobs, None, None)
        except (DataError, UsageError) as error:
            raise StoreError(f"the linter cannot work: {error}") from None
        for (key, _), file in zip(found, report.files, strict=True):
            self.reports[key] = file

    def _restored(self, wanted: Wanted) -> Submission:
        """A submission as the grader's snapshot was read: its paths are relative to its folder."""
        place = self._place / "submission"
        shutil.rmtree(place, ignore_errors=True)
        try:
            for name, data in wanted.files.items():
                parts = PurePosixPath(name).parts
                if not parts or len(name) > MOST_NAME or PurePosixPath(name).is_absolute() or ".." in parts or (
                    "\0" in name
                ):  # fmt: skip
                    raise StoreError("it names a file that lies outside the submission's folder")
                target = place.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            found = next(discover(
                [place / MAIN], problem=wanted.problem, target=wanted.target or None, problems_dir=self._deck
            ))  # fmt: skip
        except (OSError, UsageError, DataError) as error:
            raise StoreError(f"its sources cannot be read: {str(error)[:200]}") from None
        if isinstance(found, BadInput):
            raise StoreError(f"its sources cannot be read: {found.message.replace(f'{place}/', '')}")
        if found.sha256 != wanted.sha256:
            raise StoreError("its sources are not those whose hash its cell names")
        own = {
            name: replace(sidecar, path=sidecar.path.removeprefix(f"{place}/"))
            for name, sidecar in found.sidecars.items()
        }
        return replace(found, path=Path(MAIN), sidecars=own)
