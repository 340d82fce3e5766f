"""Bundles in one archive: the same files come out, and nothing of an archive that is another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.record.bundle import BundleError
from grader.record.bundle.packed import pack, unpacked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "h200"
    for name in ("a/entries/000001.json", "a/objects/ff", "b/entries/000001.json"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    return made


def files(place: Path) -> dict[str, bytes]:
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_an_archive_gives_back_what_was_packed(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "h200.tar.xz"
    pack(folder, archive)
    with unpacked(archive) as place:
        assert place.name == "h200" and files(place) == files(folder)
    assert not place.exists()


def test_a_folder_is_taken_as_it_is(folder: Path) -> None:
    with unpacked(folder) as place:
        assert place == folder


def test_the_same_bundles_make_the_same_archive(folder: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "h200.tar.xz", tmp_path / "again.tar.xz"
    pack(folder, one)
    (folder / "a/objects/ff").touch()
    pack(folder, other)
    assert one.read_bytes() == other.read_bytes()


def test_a_changed_archive_is_refused(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "h200.tar.xz"
    pack(folder, archive)
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    with pytest.raises(BundleError, match="is not the archive whose hash"), unpacked(archive):
        pass


def test_an_archive_without_its_hash_is_refused(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "h200.tar.xz"
    pack(folder, archive)
    (tmp_path / "h200.tar.xz.sha256").unlink()
    with pytest.raises(BundleError, match="cannot be read"), unpacked(archive):
        pass
