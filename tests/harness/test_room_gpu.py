"""A room has the one GPU that it is to have: its device nodes and no other's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from room_kit import opened, ran

from grader.sandbox.places import searched
from harness.room import gpu as module
from harness.room.base import RoomError, RoomSpec
from harness.room.gpu import nodes_of

UUIDS = ("GPU-00000000-aaaa-0000-0000-000000000000", "GPU-11111111-bbbb-0000-0000-000000000000")
INFORMATION = (
    "Model: \t\t NVIDIA H200\nIRQ:   \t\t 1\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n"
)
PROGRAM = """
import json, os, sys
sys.path += sys.argv[1:]
import torch
count = torch.cuda.device_count()
found = {str(torch.cuda.get_device_properties(i).uuid) for i in range(count)}
x = torch.ones(64, 64, device="cuda")
print(json.dumps([sorted(found), int((x @ x).sum()), sorted(n for n in os.listdir("/dev") if "nvidia" in n)]))
"""
OTHERS = """
import json, os, stat
try:
    os.mknod("/agent/workspace/nvidia", stat.S_IFCHR | 0o666, os.makedev(195, 0))
except OSError:
    print(json.dumps([name for name in os.listdir("/dev") if "nvidia" in name]))
"""


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine's files with two GPUs, whose minor numbers are in another order than their addresses."""
    for address, uuid, minor in (("0000:1b:00.0", UUIDS[0], 1), ("0000:3a:00.0", UUIDS[1], 0)):
        (tmp_path / "gpus" / address).mkdir(parents=True)
        (tmp_path / "gpus" / address / "information").write_text(INFORMATION.format(uuid=uuid, minor=minor))
    (tmp_path / "dev").mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1"):
        (tmp_path / "dev" / name).touch()
    monkeypatch.setattr(module, "DRIVER", tmp_path / "gpus")
    monkeypatch.setattr(module, "DEVICES", tmp_path / "dev")
    return tmp_path / "dev"


def test_a_gpu_is_found_by_its_uuid_and_not_by_its_place(two: Path) -> None:
    assert nodes_of(UUIDS[0]) == tuple(two / name for name in ("nvidiactl", "nvidia-uvm", "nvidia1"))
    assert nodes_of(UUIDS[1].upper()) == tuple(two / name for name in ("nvidiactl", "nvidia-uvm", "nvidia0"))


def test_an_unknown_gpu_and_a_missing_node_are_one_sentence(two: Path) -> None:
    with pytest.raises(RoomError, match="there is no GPU GPU-2 on this machine"):
        nodes_of("GPU-2")
    (two / "nvidia1").unlink()
    with pytest.raises(RoomError, match="nvidia1 is missing"):
        nodes_of(UUIDS[0])


def test_a_room_without_a_gpu_has_no_node_of_one() -> None:
    with opened() as room:
        assert ran(room, [sys.executable, "-I", "-S", "-c", OTHERS]).said == []


def here() -> dict[str, int]:
    """The GPUs of this machine; skips where there are none."""
    found = module._minors()
    if not found:
        pytest.skip("there is no GPU of NVIDIA's driver here")
    return found


@pytest.mark.gpu
def test_an_agent_computes_on_the_gpu_of_its_room_and_finds_no_other() -> None:
    for uuid, minor in here().items():
        with opened(RoomSpec(gpu=uuid, memory_bytes=None)) as room:
            assert room.record.gpu == uuid
            found, total, nodes = ran(
                room, [sys.executable, "-I", "-c", PROGRAM, *map(str, searched())], seconds=300
            ).said
            assert [f"gpu-{one.lower().removeprefix('gpu-')}" for one in found] == [uuid]
            assert total == 64 * 64 * 64
            assert nodes == sorted(["nvidia-uvm", f"nvidia{minor}", "nvidiactl"])
