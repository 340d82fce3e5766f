"""The GPU's clock: launches that do not count, calls that wait, cold caches, and batches on values revealed late."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch

from grader.candidate.clock import Clock
from grader.candidate.clock.gpu import GpuClock
from grader.candidate.clock.opener import Opener
from grader.candidate.clock.outside import outside, run
from grader.candidate.clock.profile import ProfileClock
from grader.silicon.kernels import parse_trace
from grader.wire.driver import GpuError
from grader.wire.marks import MARK, UNSEEN_CALLS

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_the_clock_refuses_a_cpu_in_one_sentence() -> None:
    with pytest.raises(GpuError, match="cpu is no GPU that can be used here"):
        GpuClock("cpu")


@pytest.fixture
def word() -> Iterator[ctypes.c_uint64]:
    yield ctypes.c_uint64(0)


def test_a_gate_that_is_disarmed_in_time_stays_as_it_was(word: ctypes.c_uint64) -> None:
    opener = Opener(ctypes.addressof(word))
    opener.arm(30.0)
    assert not opener.disarm()
    assert word.value == 0
    opener.close()


def test_a_gate_opens_although_the_interpreter_is_held(word: ctypes.c_uint64) -> None:
    opener = Opener(ctypes.addressof(word))
    opener.arm(5e-3)
    ctypes.PyDLL(None).usleep(20_000)  # keeps the interpreter's lock, as an extension that waits for the device does
    assert opener.disarm()
    assert 0 < word.value < 1 << 31, "the gate compares 31 bits"
    opener.close()


def test_an_opener_can_be_used_again_after_it_opened(word: ctypes.c_uint64) -> None:
    opener = Opener(ctypes.addressof(word))
    for _ in range(3):
        word.value = 0
        opener.arm(2e-3)
        until = time.monotonic() + 10
        while not word.value and time.monotonic() < until:
            pass
        assert opener.disarm() and word.value
    word.value = 0
    opener.arm(30.0)
    assert not opener.disarm() and word.value == 0
    opener.close()


def timed_by(timed: Callable[..., Any], fn: Callable[[], Any]) -> tuple[Any, float, bool]:
    """A call of a function by a way that a clock has of timing one."""
    found: tuple[Any, float, bool] = run(timed(partial(outside, fn)))
    return found


def prepared(clock: Clock, calls: Sequence[Callable[[], Any]]) -> None:
    """Has a clock take functions for its next batch."""
    run(clock.prepare([partial(outside, fn) for fn in calls]))


@pytest.fixture
def clock() -> GpuClock:
    return GpuClock("cuda")


@pytest.mark.gpu(alone=True)
@gpu
def test_many_launches_are_timed_without_the_host_and_an_empty_call_takes_microseconds(clock: GpuClock) -> None:
    x = torch.empty(1024, device="cuda")

    def many() -> None:
        for _ in range(100):
            x.add_(1)

    many()
    times = [timed_by(clock.timed, many) for _ in range(9)]
    assert not any(waited for *_, waited in times)
    assert median(seconds for _, seconds, _ in times) < 100 * 4e-6, "a launch by the host takes longer"
    assert median(timed_by(clock.timed, lambda: None)[1] for _ in range(9)) < 10e-6


@pytest.mark.gpu(alone=True)
@gpu
def test_without_the_gate_the_launches_of_the_host_count(clock: GpuClock) -> None:
    x = torch.empty(1024, device="cuda")

    def many() -> None:
        for _ in range(100):
            x.add_(1)

    many()
    gated, ungated = (
        median(timed(many)[1] for _ in range(9))
        for timed in (partial(timed_by, clock.timed), partial(timed_by, clock.ungated))
    )
    assert ungated > gated + 100e-6, "an addition of torch takes the host over 2 us, and the device less"
    result, seconds, waited = timed_by(clock.ungated, lambda: x.add_(1))
    assert result is x and 0 < seconds < 1e-3 and not waited


@pytest.mark.gpu(alone=True)
@gpu
@pytest.mark.parametrize("library", [ctypes.PyDLL, ctypes.CDLL], ids=["lock-held", "lock-released"])
def test_a_call_that_waits_for_the_device_is_let_through_and_marked(clock: GpuClock, library: type) -> None:
    driver = library("libcuda.so.1")
    x = torch.empty(1 << 20, device="cuda")

    def waits() -> torch.Tensor:
        x.fill_(2)
        driver.cuCtxSynchronize()
        return x.add_(1)

    result, seconds, waited = timed_by(clock.timed, waits)
    assert waited and result is x and float(x[0]) == 3
    assert seconds < 5e-3, "the time at the gate does not count"
    assert not timed_by(clock.timed, lambda: x.add_(1))[2], "the next call is timed as ever"


@pytest.mark.gpu(alone=True)
@gpu
def test_a_call_that_raises_leaves_the_stream_free(clock: GpuClock) -> None:
    x = torch.zeros(8, device="cuda")

    def raises() -> None:
        x.add_(1)
        raise ValueError("of the submission")

    with pytest.raises(ValueError, match="of the submission"):
        timed_by(clock.timed, raises)
    torch.cuda.synchronize()
    assert float(x[0]) == 1 and timed_by(clock.timed, lambda: x.add_(1))[1] < 1e-3


@pytest.mark.gpu(alone=True)
@gpu
def test_inputs_come_from_dram_whatever_ran_before(clock: GpuClock) -> None:
    x = torch.ones(8 << 20, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    cold = median(timed_by(clock.timed, lambda: y.copy_(x))[1] for _ in range(15))
    warm = median(clock._bare(lambda: y.copy_(x)) for _ in range(15))
    assert cold > 1.2 * warm


@pytest.mark.gpu(alone=True)
@gpu
def test_the_canary_tells_a_flush_from_none(clock: GpuClock, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.7 < clock.canary() < 1.3
    monkeypatch.setattr(clock, "flush", lambda: None)
    assert clock.canary() < 0.3


@pytest.mark.gpu
@gpu
def test_a_batch_is_captured_and_its_replay_reads_the_values_of_then(clock: GpuClock) -> None:
    inputs = [torch.full((1000,), float(i), device="cuda") for i in range(5)]
    outputs = [torch.empty(1000, device="cuda") for _ in range(5)]
    prepared(clock, [lambda i=i: outputs[i].copy_((inputs[i] + 1) * 2) for i in range(5)])  # type: ignore[misc]
    assert clock.captured == ""
    for i, tensor in enumerate(inputs):
        tensor.fill_(10.0 * i)
        outputs[i].fill_(float("nan"))
    run(clock.run())
    assert [float(tensor[7]) for tensor in outputs] == [2 * (10.0 * i + 1) for i in range(5)]
    prepared(clock, ())


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("how", ["item", "legacy", "legacy-raw", "random", "raises-then"])
def test_what_cannot_be_captured_runs_call_by_call_and_leaves_nothing_broken(clock: GpuClock, how: str) -> None:
    runtime = ctypes.CDLL(f"libcudart.so.{str(torch.version.cuda).partition('.')[0]}")
    x, y = torch.ones(1000, device="cuda"), torch.empty(1000, device="cuda")

    def call() -> None:
        if how == "item":
            y.fill_(float(x.sum().item()))
        elif how == "legacy":
            with torch.cuda.stream(torch.cuda.default_stream()):
                y.copy_(x * 1000)
        elif how == "legacy-raw":
            runtime.cudaMemsetAsync(ctypes.c_void_p(y.data_ptr()), 0, ctypes.c_size_t(4000), None)  # unchecked
            y.add_(x * 1000)
        elif how == "random":
            y.copy_(torch.rand(1000, device="cuda").clamp(0, 0) + 1000 * x)
        else:
            y.copy_(x * 1000)
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("only while it is captured")

    prepared(clock, [call])
    assert clock.captured, "it was captured"
    x.fill_(2)
    y.fill_(float("nan"))
    run(clock.run())
    assert float(y[999]) == 2000
    torch.rand(4, device="cuda")
    assert float((torch.empty(1 << 20, device="cuda").fill_(1) + 1)[0]) == 2
    prepared(clock, [lambda: y.copy_(x)])
    assert clock.captured == "", "a later batch is captured as if nothing had been"
    run(clock.run())
    assert float(y[0]) == 2 and not torch.cuda.is_current_stream_capturing()


@pytest.mark.gpu
@gpu
def test_a_call_with_a_graph_or_a_stream_of_its_own_gives_right_results_in_a_batch(clock: GpuClock) -> None:
    xs, ys = ([torch.full((1000,), float(i), device="cuda") for i in range(3)] for _ in range(2))
    zs = [torch.empty(1000, device="cuda") for _ in range(3)]
    static, graph, side = torch.zeros(1000, device="cuda"), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        doubled = static * 2

    def call(i: int) -> None:
        static.copy_(xs[i])
        graph.replay()
        ys[i].copy_(doubled)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            zs[i].copy_(ys[i] + 1)
        torch.cuda.current_stream().wait_stream(side)

    prepared(clock, [lambda i=i: call(i) for i in range(3)])  # type: ignore[misc]
    for i, x in enumerate(xs):
        x.fill_(7.0 + i)
    run(clock.run())
    assert [float(y[5]) for y in ys] == [14.0, 16.0, 18.0], clock.captured
    assert [float(z[5]) for z in zs] == [15.0, 17.0, 19.0], clock.captured


@pytest.mark.gpu(alone=True)
@gpu
def test_batches_give_their_memory_back(clock: GpuClock) -> None:
    x = torch.ones(32 << 20, device="cuda")
    y = torch.empty_like(x)
    for _ in range(2):
        prepared(clock, [lambda: y.copy_((x + 1) * 2)])
        prepared(clock, ())
    torch.cuda.empty_cache()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(4):
        prepared(clock, [lambda: y.copy_((x + 1) * 2)])
        run(clock.run())
    prepared(clock, ())
    torch.cuda.empty_cache()
    assert before - torch.cuda.mem_get_info()[0] < x.nbytes


@pytest.mark.gpu(alone=True)
@gpu
def test_a_traced_call_has_no_gaps_in_which_the_host_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    clock, x = ProfileClock("cuda", "trace"), torch.zeros(1024, device="cuda")

    def ten() -> None:
        for _ in range(10):
            x.add_(1)

    prepared(clock, ())
    for _ in range(UNSEEN_CALLS + 1):
        timed_by(clock.timed, ten)
    seen = parse_trace((tmp_path / f"{MARK}-1-{UNSEEN_CALLS + 1}.json").read_text())
    assert len(seen.kernels) == 10
    assert seen.span < 40e-6, "a launch takes the host 5 us, and more beside a tracer"
