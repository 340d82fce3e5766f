"""The files of an archive: of a folder, or of a git directory at a revision. Links are never followed.

`Reader` hands out what it was told may be opened, and nothing else.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

__all__ = ["Archive", "AuditError", "Folder", "Git", "Item", "Place", "Reader", "open_archive", "safe_path"]

MOST_ITEMS = 400_000
MOST_DEPTH = 32
MOST_LISTING = 256 << 20
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_BAD = re.compile(r"[\x00-\x1f\x7f]")


class AuditError(Exception):
    """The audit cannot be made; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Item:
    """A file of an archive that is listed, not opened. `id` is the same for the same content, empty where not known."""

    path: str
    size: int
    id: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text lies: a path within the archive, of a commit where it is not the archive's own revision. In a place
    whose `form` is `html` it is the solution's pane of that page."""

    path: str
    commit: str = ""
    form: str = "text"


class Archive(Protocol):
    """Names and contents."""

    kind: str
    name: str
    revision: str

    def items(self) -> Sequence[Item]:
        """The regular files, in the order of their paths. Raises AuditError."""
        ...

    def read(self, path: str, most: int, commit: str = "") -> bytes:
        """A file of at most so many bytes. Raises OSError where there is none or it is longer, AuditError where the
        archive cannot be read any further."""
        ...

    def close(self) -> None:
        """Ends what was started for reading."""
        ...


def safe_path(path: str) -> bool:
    """Whether a path stays within the folder that it is relative to, and can be asked for in one line."""
    parts = path.split("/")
    return 0 < len(path) <= 1024 and not _BAD.search(path) and not any(part in ("", ".", "..") for part in parts)


def open_archive(place: Path, revision: str) -> Archive:
    """The archive at a path: a git directory without a work tree, or a folder. Raises AuditError."""
    if not place.is_dir():
        raise AuditError(f"{place} is not a folder")
    if (place / "objects").is_dir() and (place / "HEAD").is_file() and (place / "refs").exists():
        return Git(place, revision, place.name)
    if revision != "HEAD":
        raise AuditError("--revision is for a git directory; check a folder out at the revision that is meant")
    return Folder(place)


@dataclass
class Reader:
    """What may be opened of an archive: `allowed` places, and no other. `opened` has those that were."""

    archive: Archive
    allowed: frozenset[tuple[str, str]]
    opened: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, archive: Archive, places: Iterable[Place]) -> Reader:
        """A reader of these places alone."""
        return cls(archive, frozenset((place.path, place.commit) for place in places))

    def read(self, place: Place, most: int) -> bytes:
        """The bytes at a place. Raises OSError where there are none, AuditError for one that was not named."""
        asked = (place.path, place.commit)
        if asked not in self.allowed:
            raise AuditError(f"{place.path} was not to be opened")
        self.opened.append(asked)
        return self.archive.read(place.path, most, place.commit)


# --- a folder ----------------------------------------------------------------------------------------------


class Folder:
    """A folder, such as a checkout. With a `.git` folder of its own, earlier revisions can be read too."""

    kind = "folder"
    revision = ""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.name = top.resolve().name
        self._history: Git | None = None

    def items(self) -> Sequence[Item]:
        """See Archive."""
        return sorted(self._below(self.top, "", 0, [0]), key=lambda item: item.path)

    def _below(self, folder: Path, prefix: str, depth: int, count: list[int]) -> Iterator[Item]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            if depth:
                return
            raise AuditError(f"{folder} cannot be listed ({(error.strerror or '').lower()})") from None
        for entry in entries:
            count[0] += 1
            if count[0] > MOST_ITEMS:
                raise AuditError(f"{self.top} holds more than {MOST_ITEMS:,} files; name a folder in it")
            path = prefix + entry.name
            if entry.is_symlink() or not safe_path(path) or entry.name == ".git":
                continue
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    if depth < MOST_DEPTH:
                        yield from self._below(folder / entry.name, path + "/", depth + 1, count)
                elif entry.is_file(follow_symlinks=False):
                    yield Item(path, entry.stat(follow_symlinks=False).st_size)

    def read(self, path: str, most: int, commit: str = "") -> bytes:
        """See Archive. Every folder on the way is opened without following links."""
        if commit:
            return self._past().read(path, most, commit)
        _check(path)
        *folders, name = path.split("/")
        here = os.open(self.top, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for folder in folders:
                below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
                os.close(here)
                here = below
            # Non-blocking: a pipe would never answer.
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
        finally:
            os.close(here)
        with os.fdopen(file, "rb") as stream:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(errno.EINVAL, "is not a file", path)
            data = stream.read(most + 1)
        if len(data) > most:
            raise _too_long(path, most)
        return data

    def _past(self) -> Git:
        if self._history is None:
            place = self.top / ".git"
            if place.is_symlink() or not place.is_dir():
                raise OSError(errno.ENOENT, "has no git history here", str(place))
            self._history = Git(place, "HEAD", self.name)
        return self._history

    def close(self) -> None:
        """See Archive."""
        if self._history is not None:
            self._history.close()


# --- git ---------------------------------------------------------------------------------------------------


class Git:
    """A git directory, read by one process of `git cat-file`. Nothing that its configuration names is run."""

    kind = "git"

    def __init__(self, place: Path, revision: str, name: str) -> None:
        self.place, self.name = place, name
        self._process: subprocess.Popen[bytes] | None = None
        if revision.startswith("-") or _BAD.search(revision):
            raise AuditError(f"{revision!r} is not a revision")
        said = self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", most=200)
        self.revision = said.decode("ascii", "replace").strip()
        if not _COMMIT.fullmatch(self.revision):
            raise AuditError(f"{name} has no revision {revision}")

    def items(self) -> Sequence[Item]:
        """See Archive."""
        listing = self._ask("ls-tree", "-r", "-z", "-l", "--full-tree", self.revision, most=MOST_LISTING)
        found: list[Item] = []
        for line in listing.split(b"\0"):
            about, _, name = line.partition(b"\t")
            words = about.split()
            # Links (120000) and other repositories (160000) are no files.
            if len(words) != 4 or not words[0].startswith(b"100"):
                continue
            path = name.decode("utf-8", "replace")
            if safe_path(path) and words[3].isdigit():
                found.append(Item(path, int(words[3]), words[2].decode("ascii", "replace")))
        if len(found) > MOST_ITEMS:
            raise AuditError(f"{self.name} holds more than {MOST_ITEMS:,} files")
        return sorted(found, key=lambda item: item.path)

    def read(self, path: str, most: int, commit: str = "") -> bytes:
        """See Archive."""
        _check(path)
        if commit and not _COMMIT.fullmatch(commit):
            raise OSError(errno.EINVAL, "is no commit", commit)
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(f"{commit or self.revision}:{path}\n".encode())
            process.stdin.flush()
            head = process.stdout.readline(4096)
            words = head.split()
            if head.endswith((b" missing\n", b" ambiguous\n")):
                raise OSError(errno.ENOENT, "is not in the archive", path)
            if len(words) != 3 or words[1] != b"blob" or int(words[2]) > most:
                self.close()  # what follows is a body that nobody wants
                if len(words) == 3 and words[1] == b"blob":
                    raise _too_long(path, most)
                raise OSError(errno.ENOENT, "is not a file of the archive", path)
            size = int(words[2])
            data = process.stdout.read(size + 1)
        except BrokenPipeError:
            self.close()
            raise AuditError(f"git ended while {self.name} was read") from None
        if len(data) != size + 1:
            self.close()
            raise AuditError(f"git gave less of {path} than it said: {self.name} is damaged")
        return data[:-1]

    def close(self) -> None:
        """See Archive."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = self._start("cat-file", "--batch")
        return self._process

    def _ask(self, *words: str, most: int) -> bytes:
        """What a command of git prints; nothing where it fails."""
        process = self._start(*words)
        assert process.stdin is not None and process.stdout is not None
        with process.stdin, process.stdout:
            data = process.stdout.read(most + 1)
            if len(data) > most:
                process.kill()
        if process.wait() != 0 and len(data) > most:
            raise AuditError(f"{self.name} holds more files than an audit takes")
        return data if process.returncode == 0 else b""

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        # Objects that are missing are not fetched, others are not put in their place.
        own = {
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ALLOW_PROTOCOL": "", "LC_ALL": "C",
            "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
        }  # fmt: skip
        try:
            return subprocess.Popen(
                ["git", f"--git-dir={self.place.absolute()}", "--no-pager", *words], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**kept, **own}, cwd="/",
            )  # fmt: skip
        except OSError:
            raise AuditError("an archive that is a git directory needs the program git, which is not here") from None


def _check(path: str) -> None:
    if not safe_path(path):
        raise OSError(errno.EINVAL, "is not a path within the archive", path)


def _too_long(path: str, most: int) -> OSError:
    return OSError(errno.EFBIG, f"is longer than {most:,} bytes", path)
