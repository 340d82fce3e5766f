"""What a submission's processes have on the disk is counted in sum, and too much of it is its error."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from grader.record.sandboxes import TRAITS, SandboxKind
from grader.sandbox import SandboxError, choose, disk
from grader.sandbox.disk import SCRATCH_GIB, ScratchWatch, held, most_bytes
from grader.sandbox.supervise import Child, ChildGone

MIB = 1 << 20
LIMIT = 64 * MIB
# A process that writes and then waits; it answers nothing.
WRITER = """
import os, time
def write(name, size):
    with open(os.path.join(os.environ['TMPDIR'], name), 'wb', buffering=0) as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
{work}
time.sleep(60)
"""
MANY = "for i in range(100): write(f'part{i}', 4 << 20)"
DELETED = """
path = os.path.join(os.environ['TMPDIR'], 'gone')
file = open(path, 'wb', buffering=0)
os.unlink(path)
for _ in range(400):
    file.write(bytes(1 << 20))
"""
MAPPED = """
import ctypes
mmap, munmap = ctypes.CDLL(None).mmap, ctypes.CDLL(None).munmap
mmap.argtypes, mmap.restype = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long], ctypes.c_void_p
munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
def mapped(path, size):
    with open(path, 'wb+', buffering=0) as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
        at = mmap(None, 4096, 1, 1, file.fileno(), 0)
    os.unlink(path)
    return at
"""
MANY_MAPPED = MAPPED + "for i in range(100): mapped(os.path.join(os.environ['TMPDIR'], f'part{i}'), 4 << 20)"
ENOUGH = "write('honest', 50 << 20)"


def nobody() -> list[int]:
    return []


def test_files_are_counted_by_what_they_take_and_links_once(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(os.urandom(3 * MIB))
    os.link(tmp_path / "deep" / "file", tmp_path / "again")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    size, files = held([tmp_path], nobody(), threading.Event())
    assert 3 * MIB <= size < 4 * MIB and files == 4  # two folders, two files


def test_a_deleted_file_counts_while_it_is_open(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb", buffering=0) as file:
        file.write(os.urandom(3 * MIB))
        os.unlink(tmp_path / "file")
        assert held([tmp_path], [os.getpid()], threading.Event())[0] >= 3 * MIB
    assert held([tmp_path], [os.getpid()], threading.Event())[0] < MIB


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="what others map is seen by root alone")


@ROOT
def test_a_deleted_file_counts_while_a_page_of_it_is_mapped(tmp_path: Path) -> None:
    tools: dict[str, Any] = {"os": os}
    exec(MAPPED, tools)
    at = tools["mapped"](tmp_path / "file", 3 * MIB)
    assert held([tmp_path], [os.getpid()], threading.Event())[0] >= 3 * MIB
    assert held([tmp_path / "other"], [os.getpid()], threading.Event())[0] < MIB
    tools["munmap"](at, 4096)
    assert held([tmp_path], [os.getpid()], threading.Event())[0] < MIB


def test_one_that_is_open_elsewhere_does_not_count(tmp_path: Path) -> None:
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    with (tmp_path / "other" / "file").open("wb", buffering=0) as file:
        file.write(os.urandom(3 * MIB))
        os.unlink(tmp_path / "other" / "file")
        assert held([tmp_path / "own"], [os.getpid()], threading.Event())[0] < MIB


def test_too_many_files_are_too_much_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MOST_FILES", 100)
    monkeypatch.setattr(disk, "LOOK_S", 0.3)
    ended = threading.Event()
    watch = ScratchWatch([tmp_path], nobody, ended.set)
    for number in range(200):
        (tmp_path / f"{number}").touch()
    assert ended.wait(10)
    watch.close()
    assert "more than 100 files" in watch.over


@pytest.mark.parametrize(("said", "gib"), [("", 8.0), ("0.5", 0.5), ("-1", 8.0), ("nan", 8.0), ("much", 8.0)])
def test_the_limit_is_what_the_variable_says_or_eight(said: str, gib: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SCRATCH_GIB, said)
    assert most_bytes() == int(gib * (1 << 30))


@pytest.mark.parametrize("kind", TRAITS)
@pytest.mark.parametrize(
    ("work", "seconds", "said"),
    [
        pytest.param(MANY, 30.0, "wrote more than 0.0625 GiB to its scratch folder while it was to write", id="many"),
        pytest.param(
            DELETED, 30.0, "wrote more than 0.0625 GiB to its scratch folder while it was to write", id="open"
        ),
        pytest.param(
            MANY_MAPPED,
            30.0,
            "wrote more than 0.0625 GiB to its scratch folder while it was to write",
            id="mapped",
            marks=ROOT,
        ),
        pytest.param(ENOUGH, 2.0, "did not finish within 2 s; it was to write", id="honest"),
    ],
)
def test_a_process_that_fills_the_disk_ends_and_no_other(
    work: str,
    seconds: float,
    said: str,
    kind: SandboxKind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SCRATCH_GIB, str(LIMIT / (1 << 30)))
    monkeypatch.setattr(disk, "LOOK_S", 0.3)
    try:
        sandbox = choose(device="cpu", wanted=kind)
    except SandboxError as error:
        pytest.skip(f"there is no such sandbox here: {error}")
    with tempfile.TemporaryDirectory(prefix="kbh-disk-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        boot = WRITER.replace("{work}", work)
        child = Child([], sandbox=sandbox, scratch=place, read=(), cwd=place, budget=seconds, boot=boot)
        try:
            with pytest.raises(ChildGone) as gone:
                child.wait("write")
        finally:
            child.close()
    assert str(gone.value) == f"the submission {said}"
