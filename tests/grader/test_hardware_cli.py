"""`kbh hardware`: what it lists, what it says of this machine, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from grader.cli import hardware as hardware_cli
from grader.cli.hardware import main
from grader.score import peaks

RATES = {"fp32": 60.0, "bf16": 790.0, "fp8": 1350.0}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one H200."""
    here = peaks.Machine("cuda", "NVIDIA H200", 0, "2.11")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(peaks, "machine", lambda _: here)
    monkeypatch.setattr(peaks, "measure", lambda *_: peaks.Measured(here, 4200.0, RATES))


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU, measured in no time."""
    here = peaks.Machine("cpu", "A CPU", 2, "2.13")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(peaks, "machine", lambda _: here)
    found = peaks.Measured(here, 25.0, {"fp32": 0.15, "fp8": 0.15}, ("fp8",))
    monkeypatch.setattr(peaks, "measure", lambda *_: found)


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_gpu_is_marked_and_what_it_reaches_stands_beside_its_datasheet(
    h200: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 0
    found = rows(capsys.readouterr().out)
    assert "* h200 sm_90a - 1979 1979 989.5 989.5 494.7 67 4800 60 NVIDIA H200 SXM" in found
    assert "this machine: NVIDIA H200; the target h200" in found
    assert "not measured yet: kbh hardware --measure" in found
    assert main(["--measure"]) == 0
    found = rows(capsys.readouterr().out)
    assert "copy, GB/s 4200 of 4800 (88%)" in found
    assert "fp8, TFLOP/s 1350 of 1979 (68%)" in found
    assert main([]) == 0  # it was kept
    assert "fp8, TFLOP/s 1350 of 1979 (68%)" in rows(capsys.readouterr().out)


def test_a_cpu_says_which_rates_are_those_of_fp32(cpu: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--measure"]) == 0
    text = capsys.readouterr().out
    assert "this machine: A CPU, 2 threads; the target cpu" in text
    assert "fp8, TFLOP/s 0.15 the rate of fp32: this CPU is no faster at the narrower format" in rows(text)
    assert "* is this machine" not in text


def test_json_has_every_target_and_what_was_measured(h200: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--measure", "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {"rtx_pro_6000", "h100_pcie", "h100_sxm", "h200", "b200"} <= {target["id"] for target in data["targets"]}
    assert data["machine"]["target"] == "h200"
    assert data["machine"]["measured"]["tflops"]["bf16"] == {
        "measured": 790.0, "datasheet": 989.5, "share": pytest.approx(790 / 989.5),
    }  # fmt: skip


def test_a_gpu_that_is_no_target_is_named(
    h200: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "NVIDIA L4")
    assert main([]) == 0
    text = capsys.readouterr().out
    assert "none of these targets" in text and "the GPU of this machine, NVIDIA L4, is not in hardware.yaml" in text


def test_a_corrupt_measurement_is_told_with_its_remedy(cpu: None, capsys: pytest.CaptureFixture[str]) -> None:
    path = peaks.store(peaks.measure("cpu"))
    assert path is not None
    path.write_text("{")
    assert main([]) == 0
    assert f"{path} is not JSON; --measure takes it anew" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--device", "cuda"], "kbh hardware: error: this machine has no GPU that torch can use"),
        (["--device", "tpu"], "`tpu` is not a device"),
        (["--format", "xml"], "invalid choice"),
        (["more"], "unrecognized arguments"),
        (["--problems-dir", "/nowhere"], "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_2(
    cpu: None, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and told in err and "Traceback" not in err


def test_without_torch_the_targets_are_listed_and_measuring_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hardware_cli, "find_spec", lambda _: None)
    assert main([]) == 0
    assert "torch is not installed" in capsys.readouterr().out
    assert main(["--measure"]) == 2
    assert "pip install '.[grade]'" in capsys.readouterr().err


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "examples:" in text and "exit codes:" in text
