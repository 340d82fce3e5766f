"""From paths to submissions: files, folders, run archives and bundles, each with its sidecars, problem and target.

Nothing of a submission is imported or executed. Whatever cannot be used becomes a `BadInput` with one sentence, and the
rest goes on.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from kbh_lint.base.records import dataclass
from kbh_lint.source.profiles import KERNELBENCH
from kbh_lint.source.resolve import RUN_FILES, Resolver, suppression_notes
from kbh_lint.source.sidecars import Neighbours, Sidecar, split_bundle, with_reference

if TYPE_CHECKING:
    from kbh_lint.source.answers import ProblemFiles

MAX_BYTES = 2_000_000
MAX_FILES = 100_000
MAX_DEPTH = 32
SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True, slots=True)
class Submission:
    """A solution with all it loads, ready to be read.

    `text` has `\\n` line ends and no byte order mark; in a bundle it ends where the first sidecar block begins.
    `problem` and `target` are ids, or None when nothing says; `problem_source` says where the problem id was found.
    `sha256` covers text and sidecars. `problem_file` describes the problem when that is not one of the deck, `profile`
    how its benchmark runs answers (kbh_lint.source.profiles), `precision` what it converts inputs and weights to.
    """

    path: Path
    text: str
    sidecars: Mapping[str, Sidecar] = field(default_factory=dict)
    problem: str | None = None
    problem_source: str | None = None
    target: str | None = None
    notes: tuple[str, ...] = ()
    sha256: str = ""
    problem_file: str | None = None
    profile: str = KERNELBENCH.id
    precision: str = ""


@dataclass(frozen=True, slots=True)
class BadInput:
    """A path that could not be read as a submission; `message` is one sentence that names it."""

    path: Path
    message: str


def discover(
    paths: Iterable[str | os.PathLike[str]],
    *,
    problem: str | None = None,
    target: str | None = None,
    problems_dir: Path | None = None,
    files: ProblemFiles | None = None,
) -> Iterator[Submission | BadInput]:
    """The submissions under some paths: in the order of the arguments, within a folder in the order of names.

    `problem` and `target` hold for all of them; otherwise each is resolved by itself, against `files` of problems where
    these are given. Raises
    UsageError at once when one of them is not known, and ProblemError when the deck's hardware file is malformed.
    """
    resolver = Resolver(problems_dir, problem, target, files)
    return _discover(paths, resolver)


def _discover(paths: Iterable[str | os.PathLike[str]], resolver: Resolver) -> Iterator[Submission | BadInput]:
    seen: set[str] = set()
    neighbours = Neighbours()
    for given in paths:
        top = Path(given)
        if not top.is_dir():
            found: Iterator[Path | BadInput] = iter([top])
        else:
            found = _Walk(top, resolver).files()
        for item in found:
            if isinstance(item, BadInput):
                yield item
                continue
            real = os.path.realpath(item)
            if real not in seen:
                seen.add(real)
                yield read(item, resolver, neighbours)


def read(path: Path, resolver: Resolver, neighbours: Neighbours) -> Submission | BadInput:
    """One file as a submission, with its sidecars, problem and target."""
    content = _read_text(path)
    return content if isinstance(content, BadInput) else of_text(path, content, resolver, neighbours)


def of_text(path: Path, content: str, resolver: Resolver, neighbours: Neighbours) -> Submission:
    """The submission that a file would be if it held `content`, with `\\n` line ends (an editor's unsaved buffer)."""
    archive = is_archive(path, resolver)
    text, sidecars, notes = (content, {}, []) if archive else split_bundle(content, str(path))
    if not sidecars:
        sidecars = neighbours.beside(path, text, whole_folder=archive)
    run = path.parent if path.name == "solution.py" else None
    resolved = resolver.resolve(path, text, run)
    files = resolver.files
    if files is not None and resolved.file is not None:
        sidecars = with_reference(sidecars, text, Path(resolved.file), files.profile.reference)
    digest = hashlib.sha256(text.encode())
    for name in sorted(sidecars):
        digest.update(f"\0{name}\0{sidecars[name].size}\0{sidecars[name].text}".encode())
    return Submission(
        path=path,
        text=text,
        sidecars=sidecars,
        problem=resolved.problem,
        problem_source=resolved.problem_source,
        target=resolved.target,
        notes=(*notes, *resolved.notes, *suppression_notes(content)),
        sha256=digest.hexdigest(),
        problem_file=resolved.file,
        profile=files.profile.id if files is not None else KERNELBENCH.id,
        precision=files.precision if files is not None else "",
    )


def is_archive(path: Path, resolver: Resolver) -> bool:
    """Whether the file is a run's `solution.py`: beside a run file, or in a folder that is named for a problem."""
    if path.name != "solution.py":
        return False
    folder = path.parent
    return any((folder / name).is_file() for name in RUN_FILES) or resolver.in_name(folder.name) is not None


def _read_text(path: Path) -> str | BadInput:
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            return BadInput(path, f"{path}: is not a file")
        if info.st_size > MAX_BYTES:
            megabytes, limit = info.st_size / 1e6, MAX_BYTES / 1e6
            return BadInput(path, f"{path}: is {megabytes:.1f} MB long; a submission may have {limit:.0f} MB")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return BadInput(path, f"{path}: does not exist")
    except PermissionError:
        return BadInput(path, f"{path}: may not be read (permission denied)")
    except (OSError, ValueError) as error:
        return BadInput(path, f"{path}: cannot be read ({_reason(error)})")
    return text_of(path, data)


def text_of(path: Path, data: bytes) -> str | BadInput:
    """The text of a file that holds `data`, with `\\n` line ends and no byte order mark."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return BadInput(path, f"{path}: is UTF-16; save it as UTF-8")
    if b"\0" in data:
        return BadInput(path, f"{path}: is a binary file, not Python source")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"0x{data[error.start]:02x}"
        return BadInput(path, f"{path}: is not UTF-8 (line {line} holds the byte {byte}); save it as UTF-8")
    if not text.strip():
        return BadInput(path, f"{path}: is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


class _Walk:
    """The .py files below a folder that was asked for, run archives by their solution only."""

    def __init__(self, top: Path, resolver: Resolver) -> None:
        self.top = top
        self.real = os.path.realpath(top)
        self.resolver = resolver
        self.count = 0

    def files(self) -> Iterator[Path | BadInput]:
        """Files in the order of their names, and what had to be skipped."""
        some = False
        for item in self._folder(self.top, (self.real,)):
            some = True
            yield item
        if not some:
            yield BadInput(self.top, f"{self.top}: holds no .py file")

    def _folder(self, folder: Path, above: tuple[str, ...]) -> Iterator[Path | BadInput]:
        if len(above) > MAX_DEPTH:
            yield BadInput(folder, f"{folder}: was skipped, it lies more than {MAX_DEPTH} folders deep")
            return
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            yield BadInput(folder, f"{folder}: cannot be listed ({_reason(error)})")
            return
        solution = folder / "solution.py"
        if any(entry.name == "solution.py" for entry in entries) and is_archive(solution, self.resolver):
            yield solution
            return
        for entry in entries:
            if entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS:
                continue
            self.count += 1
            if self.count > MAX_FILES:
                yield BadInput(folder, f"{self.top}: holds more than {MAX_FILES} entries; the rest was skipped")
                return
            yield from self._entry(folder / entry.name, entry, above)
            if self.count > MAX_FILES:
                return

    def _entry(self, path: Path, entry: os.DirEntry[str], above: tuple[str, ...]) -> Iterator[Path | BadInput]:
        is_folder = _safe(entry.is_dir)
        if not is_folder and not entry.name.endswith(".py"):
            return
        if entry.is_symlink():
            real = os.path.realpath(path)
            if is_folder and any(real == parent or parent.startswith(real.rstrip(os.sep) + os.sep) for parent in above):
                yield BadInput(path, f"{path}: was skipped, it links back to a folder above it")
                return
            if not (real + os.sep).startswith(self.real.rstrip(os.sep) + os.sep):
                yield BadInput(path, f"{path}: was skipped, it links to a place outside {self.top}")
                return
        if not is_folder and entry.name == "__init__.py" and _safe(lambda: entry.stat().st_size == 0):
            return  # it marks a package, and is nobody's submission
        if is_folder:
            yield from self._folder(path, (*above, os.path.realpath(path)))
        else:
            yield path


def _safe(test: object) -> bool:
    try:
        return bool(test())  # type: ignore[operator]
    except OSError:
        return False
