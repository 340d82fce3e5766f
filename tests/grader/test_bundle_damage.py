"""What a bundle says of its own files when a stranger changed them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bundle_rows import CODE, forge, rows, sha256, write

from grader.record.bundle import Bundle, BundleError, verify
from grader.record.bundle.files import DISK
from grader.record.bundle.read import ENTRY_BYTES, OBJECT_BYTES, canonical


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk is for the tests of crashes, and for real gradings."""
    monkeypatch.setattr(type(DISK), "sync", lambda disk, path: None)


def entry(folder: Path, seq: int) -> Path:
    return folder / "entries" / f"{seq:06d}.json"


def code(folder: Path) -> Path:
    return folder / "objects" / sha256(CODE)[:2] / sha256(CODE)


def rewritten(folder: Path, seq: int, change: Callable[[bytes], bytes]) -> None:
    path = entry(folder, seq)
    data = change(path.read_bytes())
    path.unlink()
    path.write_bytes(data)


def with_fields(**fields: object) -> Callable[[bytes], bytes]:
    return lambda data: canonical({**json.loads(data), **fields})


def grown(path: Path, size: int) -> None:
    path.unlink()
    with path.open("wb") as file:
        file.truncate(size)


def linked(path: Path) -> None:
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target.name)


def folder_linked(path: Path) -> None:
    target = path.parent.parent / "moved"
    path.rename(target)
    path.symlink_to(target)


TAMPERED = [
    (lambda f: rewritten(f, 4, lambda d: d.replace(b"1.5", b"1.2")), "entries/000005.json does not follow the entry"),
    (lambda f: rewritten(f, 11, lambda d: d[:-9]), "entries/000011.json is not JSON"),
    (lambda f: rewritten(f, 11, lambda d: b""), "entries/000011.json is not JSON"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"seq"', b'"seq":11,"seq"')), "is not written as an entry is"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b":", b": ")), "is not written as an entry is"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b"NaN")), "data.data.outcome is nan"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b"1e999")), "data.data.outcome is inf"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b'"\\ud800"')), "half a surrogate pair"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b"[" * 10**6)), "000011.json is nested too deep"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b"[" * 50 + b"]" * 50)), "nested 32 deep at most"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b"9" * 5000)), "entries/000011.json is not JSON"),
    (lambda f: rewritten(f, 11, lambda d: b"[]\n"), "is not an entry of format 1"),
    (lambda f: rewritten(f, 11, with_fields(format=2)), "is not an entry of format 1"),
    (lambda f: rewritten(f, 11, with_fields(more=1)), "does not have the fields of an entry"),
    (lambda f: rewritten(f, 11, with_fields(seq=12)), "says that it is entry 12"),
    (lambda f: rewritten(f, 11, with_fields(seq=True)), "says that it is entry True"),
    (lambda f: rewritten(f, 11, with_fields(kind="joke")), "is of a kind that is not known: 'joke'"),
    (lambda f: rewritten(f, 11, with_fields(time="2026-13-41T00:00:00Z")), "has a time that is none"),
    (lambda f: rewritten(f, 11, with_fields(data=[])), "has data that is not a mapping"),
    (lambda f: rewritten(f, 11, with_fields(objects=["../../x"])), "has a list of objects that is none"),
    (lambda f: entry(f, 3).unlink(), "entries/000003.json is missing"),
    (lambda f: entry(f, 1).unlink(), "entries/000001.json is missing"),
    (lambda f: grown(entry(f, 11), ENTRY_BYTES + 1), "entries/000011.json has more than 16,777,216 bytes"),
    (lambda f: linked(entry(f, 11)), "entries/000011.json is a link"),
    (lambda f: (f / "entries" / "000012.json").mkdir(), "entries/000012.json is not a plain file"),
    (lambda f: os.mkfifo(f / "entries" / "000012.json"), "entries/000012.json is not a plain file"),
    (lambda f: (f / "entries" / "notes\n.txt").touch(), "entries/notes?.txt is not the name of an entry"),
    (lambda f: folder_linked(f / "entries"), "entries is no folder"),
]  # fmt: skip


@pytest.mark.parametrize(("tamper", "says"), TAMPERED)
def test_a_changed_entry_is_named_and_the_bundle_is_not_read(
    tamper: Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    folder = write(tmp_path / "b", rows())
    tamper(folder)
    faults = verify(folder)
    assert any(says in fault for fault in faults), faults
    with pytest.raises(BundleError):
        Bundle.open(folder)


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (lambda f: code(f).unlink(), f"entries/000001.json names the object {sha256(CODE)}, which is not there"),
        (lambda f: (code(f).unlink(), code(f).write_bytes(b"other")), "does not hold the bytes that its name says"),
        (lambda f: grown(code(f), OBJECT_BYTES + 1), "has more than 67,108,864 bytes"),
        (lambda f: linked(code(f)), f"{sha256(CODE)} is a link"),
        (lambda f: code(f).with_name("x").touch(), f"objects/{sha256(CODE)[:2]}/x is not the name of an object"),
        (lambda f: code(f).with_name("00" * 32).touch(), "is not the name of an object"),
        (lambda f: (f / "objects" / "zz").touch(), "objects/zz is no folder"),
        (lambda f: (f / "tmp" / "prog").touch(), "tmp/prog does not belong in a bundle"),
        (lambda f: (f / "run.sh").touch(), "run.sh does not belong in a bundle"),
    ],
)
def test_a_changed_object_or_a_strange_file_is_named(
    tamper: Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    folder = write(tmp_path / "b", rows())
    tamper(folder)
    faults = verify(folder)
    assert any(says in fault for fault in faults), faults


def test_an_object_whose_bytes_were_changed_is_not_given_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "b", rows())
    code(folder).unlink()
    code(folder).write_bytes(b"other")
    with pytest.raises(BundleError, match="does not hold the bytes"):
        Bundle.open(folder).get(sha256(CODE))


def test_nothing_is_no_bundle(tmp_path: Path) -> None:
    for place in (tmp_path / "absent", tmp_path):
        with pytest.raises(BundleError):
            Bundle.open(place)
        assert len(verify(place)) >= 1
    assert verify(forge(tmp_path / "empty", []))[-1].endswith("is no bundle: it has no entries")


def test_what_is_said_of_a_folder_of_faults_is_bounded(tmp_path: Path) -> None:
    folder = write(tmp_path / "b", rows()[:2])
    entry(folder, 2).rename(entry(folder, 900_000))
    assert len(verify(folder)) == 101
