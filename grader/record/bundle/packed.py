"""Many bundles in one file: an archive of their folders, with its SHA-256 beside it (`NAME.tar.xz.sha256`)."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from grader.record.bundle.read import BundleError

__all__ = ["SUFFIX", "pack", "unpacked"]

SUFFIX = ".tar.xz"
MOST_BYTES = 256 << 20  # of what an archive holds
MOST_FILES = 100_000


def pack(folder: Path, archive: Path) -> None:
    """Writes a folder of bundles as an archive and its hash: members in order, without dates and owners."""
    with tarfile.open(archive, "w:xz", format=tarfile.GNU_FORMAT, preset=9) as tar:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(f"{folder.name}/{file.relative_to(folder).as_posix()}")
            member.size, member.mode = file.stat().st_size, 0o644
            with file.open("rb") as data:
                tar.addfile(member, data)
    _hash_file(archive).write_text(f"{_hash(archive)}  {archive.name}\n", encoding="ascii")


@contextmanager
def unpacked(place: Path) -> Iterator[Path]:
    """A folder of bundles: `place` itself, or what the archive `place` holds, for as long as the block runs.

    Raises BundleError for an archive that is not the one whose hash lies beside it, or that holds something else.
    """
    if not place.name.endswith(SUFFIX):
        yield place
        return
    try:
        known = _hash_file(place).read_text(encoding="ascii").split()[:1]
        if known != [_hash(place)]:
            raise BundleError(f"{place} is not the archive whose hash is in {_hash_file(place).name}")
    except OSError as error:
        raise BundleError(f"{error.filename} cannot be read: {(error.strerror or 'error').lower()}") from None
    with TemporaryDirectory(prefix="bundles-") as made:
        try:
            with tarfile.open(place, "r:xz") as tar:
                members = tar.getmembers()
                if len(members) > MOST_FILES or sum(member.size for member in members) > MOST_BYTES:
                    raise BundleError(f"{place} holds too much")
                tar.extractall(made, members, filter="data")
        except (tarfile.TarError, EOFError) as error:
            raise BundleError(f"{place} is no archive of bundles: {error}") from None
        yield Path(made, place.name.removesuffix(SUFFIX))


def _hash_file(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.sha256")


def _hash(archive: Path) -> str:
    with archive.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
