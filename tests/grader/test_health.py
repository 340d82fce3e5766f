"""What the management library tells of a GPU."""

from __future__ import annotations

import pytest
import torch

from grader.health import health


def test_a_machine_without_a_gpu_has_no_health_to_tell() -> None:
    assert health("cpu") == {}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_tells_clocks_power_and_temperature() -> None:
    pytest.importorskip("pynvml")
    told = health("cuda")
    assert told["sm_mhz"] > 0 and 5 < told["celsius"] < 110
    assert told["power_w"] < told["power_limit_w"] * 1.2
    assert told["used_bytes"] > 0
