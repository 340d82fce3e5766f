"""A release may come from anybody: tar files of other kinds, bombs, lies about sizes; all are refused."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.archive import StoreError
from harness.archive.layout import MARKER
from harness.release import verify_release
from harness.release.pack import ARCHIVE, DERIVED, HEAD, NAMES, Head, head_bytes, read_head, unpack_archive
from harness.release.tar import BLOCK, END, Gunzip, header, members, padding
from harness.release.verify_cli import main as verify_command

SIGN = b'{"format":1}\n'


def tar_of(*files: tuple[str, bytes]) -> bytes:
    """A tar file as releases have them."""
    return b"".join(header(name, len(data)) + data + padding(len(data)) for name, data in files) + END


def listed(data: bytes, most: int = 100) -> list[tuple[str, bytes]]:
    """What a tar file holds, read to the end."""
    return [(name, source.read(size)) for name, size, source in members(io.BytesIO(data), most)]


def other_tar(change: Callable[[tarfile.TarInfo], None], kind: int = tarfile.USTAR_FORMAT) -> bytes:
    """A tar file of one member, as another program would write it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=kind) as file:
        info = tarfile.TarInfo(HEAD)
        info.size, info.mode = 3, 0o644
        change(info)
        file.addfile(info, io.BytesIO(b"abc" if info.isreg() else b""))
    return made.getvalue()


def set_to(**fields: object) -> Callable[[tarfile.TarInfo], None]:
    """A change of a member's fields."""

    def change(info: tarfile.TarInfo) -> None:
        for name, value in fields.items():
            setattr(info, name, value)

    return change


def test_what_is_written_is_read_again_and_is_a_tar_file_for_others() -> None:
    files = [("a", b""), ("objects/ab/" + "c" * 64, b"x" * 513), ("z", b"1" * 512)]
    data = tar_of(*files)
    assert listed(data) == files
    with tarfile.open(fileobj=io.BytesIO(data)) as file:
        assert file.getnames() == [name for name, _ in files]
    assert [name for name, _, _ in members(io.BytesIO(data), 3)] == [
        name for name, _ in files
    ]  # unread ones are passed


@pytest.mark.parametrize(
    "data",
    [
        other_tar(set_to(name="../evil")),
        other_tar(set_to(name="/etc/passwd")),
        other_tar(set_to(name="objects/../../evil")),
    ],
    ids=["above", "absolute", "through"],
)
def test_a_path_that_leads_elsewhere_is_refused_and_nothing_is_written(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "r.tar").write_bytes(data)
    with pytest.raises(StoreError, match="does not belong in a release"):
        verify_release(tmp_path / "r.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["r.tar"] and not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize(
    "data",
    [
        other_tar(set_to(type=tarfile.SYMTYPE, linkname="/etc/passwd", size=0)),
        other_tar(set_to(type=tarfile.LNKTYPE, linkname=HEAD, size=0)),
        other_tar(set_to(type=tarfile.DIRTYPE, size=0)),
        other_tar(set_to(type=tarfile.CHRTYPE, size=0)),
        other_tar(set_to(type=tarfile.FIFOTYPE, size=0)),
        other_tar(set_to(type=tarfile.CONTTYPE)),
        other_tar(set_to(type=tarfile.GNUTYPE_SPARSE)),
        other_tar(set_to(mode=0o4755)),
        other_tar(set_to(uid=1000, uname="someone")),
        other_tar(set_to(mtime=1)),
        other_tar(set_to(name="n" * 120), tarfile.GNU_FORMAT),
        other_tar(set_to(pax_headers={"comment": "x" * 2000}), tarfile.PAX_FORMAT),
        other_tar(set_to(name="n\u00e9")),
        b"\x1f\x8b" + bytes(510),
        tar_of((HEAD, b"abc"))[:-1],
        tar_of((HEAD, b"abc")) + b"\0",
        tar_of((HEAD, b"abc"))[: BLOCK + 100],
        header(HEAD, 10**9) + b"abc",
        header(HEAD, 3) + b"abc" + b"hidden".ljust(509, b"\0") + END,
        b"",
    ],
)
def test_what_the_writer_would_not_have_written_is_refused(data: bytes) -> None:
    with pytest.raises(StoreError):
        listed(data)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3 * BLOCK - 1), st.integers(1, 255))
def test_no_bit_of_a_tar_file_can_be_changed_without_notice(place: int, flip: int) -> None:
    data = bytearray(tar_of(("a", b"x" * 600)))
    data[place] ^= flip
    with contextlib.suppress(StoreError):
        assert listed(bytes(data)) != [("a", b"x" * 600)]


def test_a_header_has_only_names_and_sizes_that_fit_into_it() -> None:
    for name, size in (("n" * 101, 1), ("n\u00e9", 1), ("n", -1), ("n", 8 << 30)):
        with pytest.raises(StoreError):
            header(name, size)


def packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def head_of(unpacked: int, count: int) -> Head:
    return Head("0" * 64, {}, (), unpacked, count, {})


def unpacks(folder: Path, data: bytes, unpacked: int, count: int) -> list[str]:
    (folder / ARCHIVE).write_bytes(data)
    return unpack_archive(folder / ARCHIVE, head_of(unpacked, count), folder / "archive")[1]


def test_a_bomb_ends_at_the_size_that_was_promised_and_costs_no_more(tmp_path: Path) -> None:
    bomb = packed(header("objects/ab/ab" + "c" * 62, 64 << 20) + bytes(64 << 20) + END)
    assert len(bomb) < 100_000
    with pytest.raises(StoreError, match="unpacks to more than the 10,000 bytes"):
        unpacks(tmp_path, bomb, 10_000, 1)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 400_000
    digest = hashlib.sha256(b"").hexdigest()
    many = packed(b"".join(header(f"objects/{digest[:2]}/{digest[:-3]}{n:03}", 0) for n in range(900)) + END)
    (tmp_path / "2").mkdir()
    with pytest.raises(StoreError, match="more than 5 files"):
        unpacks(tmp_path / "2", many, 10**7, 5)
    assert sum(1 for path in (tmp_path / "2").rglob("*")) < 10


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([(MARKER, SIGN), ("objects/ab/" + "c" * 64, b"")], "does not belong in an archive"),
        ([(MARKER, SIGN), ("objects/../../" + "c" * 64, b"")], "does not belong in an archive"),
        ([(MARKER, SIGN), ("index.sqlite", b"")], "does not belong in an archive"),
        ([(MARKER, SIGN), (MARKER, SIGN)], "there twice"),
        ([("manifests/ab/ab" + "c" * 62, b"")], "is no archive"),
        ([(MARKER, b'{"format":2}\n')], "not an archive of format 1"),
    ],
)
def test_an_archive_holds_objects_and_manifests_and_nothing_else(
    files: list[tuple[str, bytes]], said: str, tmp_path: Path
) -> None:
    data = tar_of(*files)
    with pytest.raises(StoreError, match=said):
        unpacks(tmp_path, packed(data), len(data), len(files))


def test_an_object_that_is_not_what_its_name_says_is_named(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"one").hexdigest()
    name = f"objects/{digest[:2]}/{digest}"
    data = tar_of((MARKER, SIGN), (name, b"two"))
    assert unpacks(tmp_path, packed(data), len(data), 2) == [f"{name} does not hold the bytes that its name says"]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-9],
        lambda data: data + b"more",
        lambda data: data + gzip.compress(b"another"),
        lambda data: b"PK" + data,
        lambda data: data[:40] + bytes([data[40] ^ 255]) + data[41:],
        lambda data: zlib.compress(b"not gzip"),
        lambda data: b"",
    ],
)
def test_a_compressed_archive_that_is_cut_or_longer_or_of_another_kind_is_refused(
    change: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    data = tar_of((MARKER, SIGN + os.urandom(2000)))
    with pytest.raises(StoreError, match=ARCHIVE):
        unpacks(tmp_path, change(packed(data)), len(data), 1)


def test_reading_compressed_bytes_keeps_little_in_memory() -> None:
    import tracemalloc

    data = packed(bytes(64 << 20))
    tracemalloc.start()
    source = Gunzip(io.BytesIO(data), 64 << 20)
    while source.read(4096):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_the_head_of_a_release_may_not_lie_about_what_it_is(tmp_path: Path) -> None:
    hashes = dict.fromkeys((ARCHIVE, *DERIVED), ("0" * 64, 1))
    good = head_bytes(hashes, ["a" * 64], 10, 1, {})
    wrong = [
        b"", b"[]", b'{"format":1}', b"{" * 100_000, good.replace(b'"format":1', b'"format":2'), good[:-1],
        good.replace(b'"bytes":10', b'"bytes":-1'), good.replace(b'"bytes":10', b'"bytes":1e99'),
        head_bytes(hashes, ["b" * 64, "a" * 64], 10, 1, {}), head_bytes(hashes, ["a"], 10, 1, {}),
        head_bytes({**hashes, "more": ("0" * 64, 1)}, [], 10, 1, {}), head_bytes(hashes, [], 1 << 60, 1, {}),
    ]  # fmt: skip
    (tmp_path / HEAD).write_bytes(good)
    assert read_head(tmp_path).entries == ("a" * 64,)
    for data in wrong:
        (tmp_path / HEAD).write_bytes(data)
        with pytest.raises(StoreError):
            read_head(tmp_path)


def test_a_folder_with_more_or_less_or_with_links_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hashes = dict.fromkeys((ARCHIVE, *DERIVED), ("0" * 64, 1))
    for name in NAMES:
        (tmp_path / name).write_bytes(head_bytes(hashes, [], 10, 1, {}))
    more, first = tmp_path / "more", tmp_path / DERIVED[0]
    more.write_bytes(b"")
    said = []
    changes: list[Callable[[], None]] = [more.unlink, first.unlink, lambda: first.symlink_to("/etc/passwd")]
    for change in changes:
        assert verify_command([str(tmp_path)]) == 2
        said.append(capsys.readouterr().err)
        change()
    assert verify_command([str(tmp_path)]) == 2
    said.append(capsys.readouterr().err)
    wanted = ("more does not belong in a release", "not compressed as gzip", f"{DERIVED[0]} is missing", "is a link")
    assert [text for text, one in zip(said, wanted, strict=True) if one not in text] == []


def test_a_pipe_or_another_file_is_no_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("hello")
    for name in ("pipe", "text"):
        assert verify_command([str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
