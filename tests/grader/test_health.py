"""What the management library tells of a GPU."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from grader.judge.resources import driver_version, health


def test_a_machine_without_a_gpu_has_no_health_to_tell() -> None:
    assert health("cpu") == {}


@pytest.mark.parametrize("told", [b"580.95.05", "580.95.05"])
def test_the_driver_is_told_as_text_and_nothing_where_the_library_fails(
    monkeypatch: pytest.MonkeyPatch, told: object
) -> None:
    def nothing() -> None:
        return None

    library = SimpleNamespace(nvmlInit=nothing, nvmlShutdown=nothing, nvmlSystemGetDriverVersion=lambda: told)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert driver_version() == "580.95.05"
    library.nvmlInit = None
    assert driver_version() == ""


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_tells_clocks_power_and_temperature() -> None:
    pytest.importorskip("pynvml")
    told = health("cuda")
    assert told["sm_mhz"] > 0 and 5 < told["celsius"] < 110
    assert told["power_w"] < told["power_limit_w"] * 1.2
    assert told["used_bytes"] > 0
    assert driver_version().split(".")[0].isdigit()
