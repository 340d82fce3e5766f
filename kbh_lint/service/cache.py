"""Results kept by content hash: a file that has not changed is not analysed again.

The key covers all that a result depends on: the text and sidecars, the path (spans name it), the resolved problem and
target, every rule and problem file, the source of this package, Python and the parsers. Entries are signed with a
secret of the user's own: a cache folder may come along with somebody else's submission, and a forged `clean` in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kbh_lint.base.version import __version__
from kbh_lint.findings import FileReport
from kbh_lint.report.data import file_from_dict, file_to_dict

if TYPE_CHECKING:
    from kbh_lint.source.submissions import Submission

MAX_BYTES = 64 * 1024**2
MAX_ENTRY_BYTES = 4 * 1024**2
DEFAULT_DIR = ".kbh-cache"
_PARSERS = ("tree_sitter", "tree_sitter_cpp")
_SECRET_BYTES = 32


class Cache:
    """Results under `folder`. Every failure to read or write is a miss: a cache never stops the linter."""

    def __init__(self, folder: Path, rules_dir: Path, problems_dir: Path, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder / "v1"
        self._root = folder
        self._max_bytes = max_bytes
        self._secret = user_secret()
        self._world = _digest_world(rules_dir, problems_dir)
        self._written = 0

    def key(self, submission: Submission, trace: bool) -> str:
        """The key of one submission's result."""
        digest = hashlib.sha256(self._world)
        about = [
            str(submission.path),
            submission.problem,
            submission.problem_source,
            submission.target,
            list(submission.notes),
            trace,
            submission.problem_file,
            submission.profile,
            submission.precision,
        ]
        _feed(digest, json.dumps(about).encode())
        _feed(digest, submission.text.encode("utf-8", "surrogatepass"))
        if submission.problem_file is not None:
            file = Path(submission.problem_file)
            _feed_files(digest, file.parent, (file.with_suffix(suffix) for suffix in (".py", ".yaml")))
        for name in sorted(submission.sidecars):
            _feed(digest, name.encode("utf-8", "surrogatepass"))
            _feed(digest, repr(submission.sidecars[name]).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def get(self, key: str) -> FileReport | None:
        """The stored result, or None. A torn, altered or forged entry counts as none."""
        if self._secret is None:
            return None
        try:
            with open(self._path(key), "rb") as stream:
                data = stream.read(MAX_ENTRY_BYTES + 1024)
            seal, _, body = data.partition(b"\n")
            if seal != self._seal(key, body):
                return None
            return file_from_dict(json.loads(body))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, key: str, report: FileReport) -> None:
        """Stores a result: written beside and renamed, so that no reader sees half of it."""
        if self._secret is None:
            return
        body = json.dumps(file_to_dict(report), separators=(",", ":")).encode()
        if len(body) > MAX_ENTRY_BYTES:
            return
        path = self._path(key)
        beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            if not self._written:
                self._prepare()
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(self._seal(key, body) + b"\n" + body)
            os.replace(beside, path)
            self._written += 1
        except OSError:
            with suppress(OSError):
                beside.unlink()

    def close(self) -> None:
        """Drops the oldest entries when the folder has grown over its bound."""
        if not self._written:
            return
        entries: list[tuple[float, int, str]] = []
        with suppress(OSError):
            for shelf in os.scandir(self._folder):
                if shelf.is_dir(follow_symlinks=False):
                    for entry in os.scandir(shelf.path):
                        stat = entry.stat(follow_symlinks=False)
                        entries.append((stat.st_mtime, stat.st_size, entry.path))
        total = sum(size for _, size, _ in entries)
        if total <= self._max_bytes:
            return
        for _, size, path in sorted(entries):
            if total <= self._max_bytes * 3 // 4:
                break
            with suppress(OSError):
                os.unlink(path)
                total -= size

    def _prepare(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        ignore = self._root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _seal(self, key: str, body: bytes) -> bytes:
        assert self._secret is not None
        seal = hashlib.blake2b(key.encode(), key=self._secret)
        seal.update(body)
        return seal.hexdigest().encode()


def user_secret() -> bytes | None:
    """The user's own random secret, made on first use; None (no caching) when it cannot be kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(base) / "kbh" / "secret"
    with suppress(OSError):
        secret = path.read_bytes()
        if len(secret) == _SECRET_BYTES:
            return secret
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"secret.{os.getpid()}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(os.urandom(_SECRET_BYTES))
        os.replace(beside, path)
        return path.read_bytes()
    except OSError:
        return None


def _feed(digest: hashlib._Hash, data: bytes) -> None:
    # The length first: two different splits of the same bytes must not agree.
    digest.update(len(data).to_bytes(8, "little"))
    digest.update(data)


def _digest_world(rules_dir: Path, problems_dir: Path) -> bytes:
    """What all results of this run depend on."""
    digest = hashlib.sha256()
    _feed(digest, f"{__version__} {sys.implementation.cache_tag} {sys.version}".encode())
    for name in _PARSERS:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            with suppress(OSError):
                stat = os.stat(spec.origin)
                _feed(digest, f"{spec.origin} {stat.st_size} {stat.st_mtime_ns}".encode())
    digest.update(_sources(rules_dir, problems_dir))
    return digest.digest()


def version_digest(rules_dir: Path, problems_dir: Path) -> str:
    """Twelve hex digits for the source of this package, the rules and the problems: the same on every machine."""
    return _sources(rules_dir, problems_dir).hex()[:12]


def _sources(rules_dir: Path, problems_dir: Path) -> bytes:
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parent.parent
    for base, files in (
        (package, sorted(path for kind in ("py", "bin") for path in package.rglob(f"*.{kind}"))),
        (rules_dir, sorted(rules_dir.glob("*.y*ml"))),
        # The references too: how like one a submission is, is a fact.
        (problems_dir, sorted(path for kind in ("yaml", "py") for path in problems_dir.rglob(f"*.{kind}"))),
    ):
        _feed_files(digest, base, files)
    return digest.digest()


def _feed_files(digest: hashlib._Hash, base: Path, files: Iterable[Path]) -> None:
    _feed(digest, b"folder")
    for path in files:
        with suppress(OSError):
            data = path.read_bytes()
            _feed(digest, str(path.relative_to(base)).encode())
            _feed(digest, data)
