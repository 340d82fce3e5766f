"""Device times. Without a GPU only the refusal can be tested."""

from __future__ import annotations

import pytest
import torch

from grader.score.timing import device_times

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_device_times_refuse_a_cpu_instead_of_timing_something_else() -> None:
    with pytest.raises(ValueError, match="device times need a GPU"):
        device_times(lambda: None, device="cpu")


@pytest.mark.gpu(alone=True)
@gpu
def test_device_times_hide_launches_and_grow_with_the_work() -> None:
    small = torch.empty(1 << 20, device="cuda")
    large = torch.empty(1 << 28, device="cuda")
    little = sorted(device_times(lambda: small.add_(1), trials=11))[5]
    much = sorted(device_times(lambda: large.add_(1), trials=11))[5]
    assert 0 < little < 50e-6
    assert much > (2 * large.nbytes) / 8e12, "faster than any memory"
    assert much > 20 * little


@pytest.mark.gpu(alone=True)
@gpu
def test_many_small_launches_are_timed_without_the_time_the_host_needs_for_them() -> None:
    x = torch.empty(1024, device="cuda")

    def ten() -> None:
        for _ in range(10):
            x.add_(1)

    assert sorted(device_times(ten, trials=11))[5] < 60e-6
