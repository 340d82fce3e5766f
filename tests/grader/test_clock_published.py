"""The published clock counts what the other one leaves out: the host's launch, and the write-back of dirty lines."""

from __future__ import annotations

from functools import partial
from statistics import median

import pytest
import torch

from grader.candidate.clock.gpu import GpuClock
from grader.candidate.clock.outside import outside, run
from grader.candidate.clock.published import PUBLISHED_FLUSH_BYTES, PublishedClock
from grader.score import published
from grader.wire.driver import GpuError
from kbh_lint.base import paths

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_the_flush_is_that_of_the_published_protocol() -> None:
    assert published.read(paths.problems_dir()).flush_bytes == PUBLISHED_FLUSH_BYTES


def test_the_published_clock_refuses_a_cpu_in_one_sentence() -> None:
    with pytest.raises(GpuError, match="cpu is no GPU that can be used here"):
        PublishedClock("cpu")


@gpu
@pytest.mark.gpu(alone=True)
def test_small_calls_cost_their_launch_under_the_published_protocol() -> None:
    x = torch.randn(1 << 20, device="cuda")

    def call() -> torch.Tensor:
        return ((x + 1) * 2 - 3).sum()

    found = {}
    for make in (GpuClock, PublishedClock):
        clock = make("cuda")
        for _ in range(10):
            call()
        results = [run(clock.timed(partial(outside, call))) for _ in range(30)]
        clock.close()
        assert all(torch.equal(value, results[0][0]) and not waited for value, _, waited in results)
        found[make] = median(seconds for _, seconds, _ in results)
    print(f"ours {found[GpuClock] * 1e6:.2f} us, published {found[PublishedClock] * 1e6:.2f} us")
    assert 1e-6 < found[GpuClock] < found[PublishedClock] < 1e-3
