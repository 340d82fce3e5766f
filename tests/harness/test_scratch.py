"""What is unpacked to be read: gone at the end, after a kill by the next command, and never what another one uses."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.archive import scratch as module
from harness.archive.layout import Manifest, Stored
from harness.archive.scratch import scratch, unpacking

KILLED = """
import os, signal, sys
from pathlib import Path
from harness.archive.scratch import scratch
with scratch("kbh-some-", Path(sys.argv[1])) as folder:
    (folder / "below").mkdir()
    (folder / "below" / "file").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def manifest(size: int) -> Manifest:
    return Manifest("0" * 64, "run", "a-run", {"run.json": Stored("0" * 64, size)})


def test_the_next_command_removes_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert (left / "below" / "file").is_file()
    (tmp_path / "kbh-some-file").mkdir(mode=0o700)  # no name that is made here
    (tmp_path / "kbh-some-abcdefgh").mkdir(mode=0o755)  # somebody's own
    (tmp_path / "kbh-other-abcdefgh").mkdir(mode=0o700)
    kept = {path.name for path in tmp_path.iterdir()} - {left.name}
    (tmp_path / "kbh-some-linked00").symlink_to(tmp_path / "kbh-other-abcdefgh")
    with scratch("kbh-some-", tmp_path) as first, scratch("kbh-some-", tmp_path) as second:
        assert first != second and first.is_dir() and second.is_dir() and not left.exists()
        assert first.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "kbh-some-linked00"}


def test_small_entries_are_unpacked_in_memory_and_others_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    monkeypatch.setattr(module, "MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    with unpacking("kbh-some-") as unpack:
        with unpack(manifest(1000)) as small, unpack(manifest(module.MEMORY_BYTES + 1)) as large:
            assert memory in Path(small).parents and disk in Path(large).parents
        full = shutil.disk_usage(memory)._replace(free=module.MEMORY_SPARE + 999)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
        with unpack(manifest(1000)) as elsewhere:
            assert disk in Path(elsewhere).parents
    assert os.listdir(memory) == os.listdir(disk) == []
    monkeypatch.setattr(module, "MEMORY", tmp_path / "none")
    with unpacking("kbh-some-", disk) as unpack, unpack(manifest(1000)) as below:
        assert Path(below).parent == disk
