"""Shared GPU memory: two processes, one allocation, and another allocation put at the same addresses."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from grader.wire import driver
from grader.wire.channel import POISON, Slot
from grader.wire.driver import GpuError
from grader.wire.vmm import VmmMemory, VmmViews, _rounded

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
ROOT = Path(__file__).resolve().parents[2]
COUNT = 1 << 20
SLOTS = (Slot("x", torch.float32, (COUNT,), 0), Slot("y", torch.bfloat16, (COUNT,), 4 * COUNT))
SIZE = 6 * COUNT
# Captures y = 2 x (a kernel) and a copy of x (a copy node) over a region, then replays both on what it is sent.
CHILD = """
import os, socket, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
import torch
from grader.wire.channel import Slot
from grader.wire.vmm import VmmViews
link = socket.socket(fileno=int(sys.argv[2]))
views = VmmViews(int(sys.argv[3]), int(sys.argv[4]))
count = int(sys.argv[5])
x, y = views.tensor(Slot("x", torch.float32, (count,), 0)), views.tensor(Slot("y", torch.bfloat16, (count,), 4 * count))
kept, doubled = torch.empty_like(x), torch.empty_like(x)
stream = torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph, stream=stream):
    doubled.copy_(x * 2)
    kept.copy_(x)
y.copy_(x)
torch.cuda.synchronize()
link.sendall(b"1")
while True:
    word, descriptors, _, _ = socket.recv_fds(link, 1, 1)
    if not word:
        break
    views.replace(descriptors[0])
    os.close(descriptors[0])
    graph.replay()
    y.copy_(doubled - kept)
    torch.cuda.synchronize()
    link.sendall(b"1")
"""


@contextmanager
def child(memory: VmmMemory) -> Iterator[socket.socket]:
    """A process that maps `memory`; the socket to it. It is waited for at the end, and must have ended well."""
    mine, theirs = socket.socketpair()
    mine.settimeout(60)
    roots = os.pathsep.join([str(ROOT), str(Path(torch.__file__).resolve().parents[1])])
    numbers = [str(n) for n in (theirs.fileno(), memory.fd, memory.size, COUNT)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD, roots, *numbers], pass_fds=[theirs.fileno(), memory.fd], stderr=errors
        )
        theirs.close()
        try:
            yield mine
        finally:
            mine.close()
            code = process.wait(60)
            errors.seek(0)
            assert code == 0, errors.read().decode()[-2000:]


def test_a_size_is_rounded_up_to_what_the_driver_can_map() -> None:
    assert [_rounded(n, 2 << 20) for n in (0, 1, 2 << 20, (2 << 20) + 1)] == [2 << 20, 2 << 20, 2 << 20, 4 << 20]


def test_a_region_on_a_cpu_is_refused_in_one_sentence() -> None:
    with pytest.raises(GpuError, match="cpu is no GPU that can be used here"):
        VmmMemory("inputs", 1, "cpu")
    with pytest.raises(GpuError, match="is no GPU"):
        VmmViews(0, 1, "cpu")


class FakeDriver:
    """Keeps books of what the driver would hold; the call number `fails` of those that acquire or map is refused."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=0)

    def __init__(self, fails: int = -1) -> None:
        self.fails, self.calls = fails, 0
        self.handles: set[int] = set()
        self.ranges: set[int] = set()
        self.mapped: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return MagicMock(name=name)

    def _refused(self) -> bool:
        self.calls += 1
        return self.calls - 1 == self.fails

    def _new(self, held: set[int]) -> tuple[Any, ...]:
        if self._refused():
            return (SimpleNamespace(name="CUDA_ERROR_OUT_OF_MEMORY"),)
        held.add(1000 * self.calls)
        return 0, 1000 * self.calls

    def cuMemGetAllocationGranularity(self, *_: Any) -> tuple[Any, ...]:
        return 0, 2 << 20

    def cuMemAddressReserve(self, *_: Any) -> tuple[Any, ...]:
        return self._new(self.ranges)

    def cuMemCreate(self, *_: Any) -> tuple[Any, ...]:
        return self._new(self.handles)

    def cuMemImportFromShareableHandle(self, *_: Any) -> tuple[Any, ...]:
        return self._new(self.handles)

    def cuMemExportToShareableHandle(self, *_: Any) -> tuple[Any, ...]:
        return (
            (SimpleNamespace(name="CUDA_ERROR_UNKNOWN"),) if self._refused() else (0, os.open(os.devnull, os.O_RDONLY))
        )

    def cuMemMap(self, address: int, *_: Any) -> tuple[Any, ...]:
        assert address in self.ranges and address not in self.mapped
        if self._refused():
            return (SimpleNamespace(name="CUDA_ERROR_INVALID_VALUE"),)
        self.mapped.add(address)
        return (0,)

    def cuMemSetAccess(self, *_: Any) -> tuple[Any, ...]:
        return (SimpleNamespace(name="CUDA_ERROR_INVALID_DEVICE"),) if self._refused() else (0,)

    def cuMemUnmap(self, address: int, _: int) -> tuple[Any, ...]:
        self.mapped.remove(address)
        return (0,)

    def cuMemRelease(self, handle: int) -> tuple[Any, ...]:
        self.handles.remove(handle)
        return (0,)

    def cuMemAddressFree(self, address: int, _: int) -> tuple[Any, ...]:
        assert address not in self.mapped, "addresses are freed after the memory was unmapped"
        self.ranges.remove(address)
        return (0,)


def life(fake: FakeDriver) -> bool:
    """A region made, mapped by the other side, replaced and closed; whether anything was refused."""
    opened: list[Any] = []
    try:
        opened.append(VmmMemory("first", 5 << 20, "cuda:0"))
        opened.append(VmmViews(opened[0].fd, opened[0].size, "cuda:0"))
        opened.append(VmmMemory("second", 5 << 20, "cuda:0"))
        opened[1].replace(opened[2].fd)
    except GpuError as error:
        assert "the CUDA driver refused cuMem" in str(error)
        return True
    finally:
        for region in opened:
            region.close()
    return False


@pytest.fixture
def no_gpu_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)


@pytest.mark.usefixtures("no_gpu_needed")
def test_whatever_the_driver_refuses_no_handle_descriptor_or_address_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    fails, refused = 0, True
    files = len(os.listdir("/proc/self/fd"))
    while refused:
        fake = FakeDriver(fails)
        monkeypatch.setattr(driver, "_driver", lambda fake=fake: fake)
        refused = life(fake)
        assert not fake.handles and not fake.mapped and not fake.ranges, f"after refusing call {fails}"
        assert len(os.listdir("/proc/self/fd")) == files
        fails += 1
    assert fails == 18, "each of the seventeen calls that acquire was refused once"


@pytest.mark.gpu
@gpu
def test_slots_of_every_kind_hold_what_is_written_and_only_there() -> None:
    memory = VmmMemory("state", 1 << 16, "cuda")
    try:
        memory.poison(1 << 16)
        for offset, dtype in ((256, torch.float8_e4m3fn), (512, torch.bfloat16), (1024, torch.int32)):
            tensor = memory.tensor(Slot("x", dtype, (4, 8), offset))
            tensor.copy_(torch.arange(32, device="cuda").view(4, 8))
            assert tensor.dtype == dtype and tensor.shape == (4, 8) and tensor.is_contiguous()
            assert tensor.data_ptr() == memory.address + offset
            assert memory.raw(32 * dtype.itemsize, offset).view(dtype).float().sum() == 31 * 16
        assert bool((memory.raw(256) == POISON).all()) and bool((memory.raw(8, 256 + 32) == POISON).all())
        assert memory.tensor(Slot("none", torch.bfloat16, (0, 3), 0)).shape == (0, 3)
        with pytest.raises(ValueError, match="outside a region"):
            memory.tensor(Slot("far", torch.float32, (memory.size // 4,), 256))
    finally:
        memory.close()


@pytest.mark.gpu
@gpu
def test_another_process_reads_and_writes_the_region_and_a_captured_graph_reads_what_replaced_it() -> None:
    first, later = VmmMemory("inputs", SIZE), [VmmMemory("inputs", SIZE) for _ in range(3)]
    try:
        first.tensor(SLOTS[0]).fill_(3)
        for number, memory in enumerate(later):
            memory.tensor(SLOTS[0]).fill_(10 + number)
        torch.cuda.synchronize()
        with child(first) as link:
            assert link.recv(1) == b"1"
            assert bool((first.tensor(SLOTS[1]) == 3).all())
            for number, memory in enumerate(later):
                socket.send_fds(link, [b"g"], [memory.fd])
                assert link.recv(1) == b"1"
                assert bool((memory.tensor(SLOTS[1]) == 10 + number).all())
        assert bool((first.tensor(SLOTS[1]) == 3).all())
    finally:
        for memory in (first, *later):
            memory.close()


@pytest.mark.gpu
@gpu
def test_a_closed_region_gives_back_its_memory_its_descriptor_and_may_be_closed_twice() -> None:
    torch.cuda.synchronize()
    free, _ = torch.cuda.mem_get_info()
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(4):
        memory = VmmMemory("outputs", 1 << 30)
        views = VmmViews(memory.fd, memory.size)
        views.raw(1 << 20).fill_(7)
        torch.cuda.synchronize()
        assert int(memory.raw(1)[0]) == 7
        views.close()
        memory.close()
        memory.close()
    assert abs(torch.cuda.mem_get_info()[0] - free) < 256 << 20
    assert len(os.listdir("/proc/self/fd")) == files


@pytest.mark.gpu
@gpu
def test_a_descriptor_that_names_no_allocation_is_refused_and_leaves_nothing_behind() -> None:
    with tempfile.TemporaryFile() as file, pytest.raises(GpuError, match="refused cuMemImportFromShareableHandle"):
        VmmViews(file.fileno(), 1 << 20)
    memory = VmmMemory("inputs", 1 << 20)
    views = VmmViews(memory.fd, memory.size)
    with tempfile.TemporaryFile() as file, pytest.raises(GpuError):
        views.replace(file.fileno())
    views.raw(4).fill_(5)
    torch.cuda.synchronize()
    assert memory.raw(4).tolist() == [5] * 4, "a refused replacement leaves the old memory mapped"
    views.close()
    memory.close()


def test_a_missing_driver_package_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cuda.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "cuda"]:
        monkeypatch.delitem(sys.modules, name)
    driver._driver.cache_clear()
    with pytest.raises(GpuError, match=r"cuda-bindings.*'cuda' is not a package"):
        driver.bound("cuInit")
    sys.modules.pop("cuda", None)
    driver._driver.cache_clear()
