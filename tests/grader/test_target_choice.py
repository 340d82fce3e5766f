"""Which target a grading is for, and what is measured of a machine that has no datasheet."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader.score import peaks
from grader.score.targets import CPU_LABEL, TargetError, choose_target, cpu_target
from kbh_lint.base import paths
from kbh_lint.problems import Problem, ProblemError, load_problem, load_targets
from kbh_lint.problems.hardware import read_published

HERE = peaks.Machine("cpu", "A CPU", 2, "2.13")
FOUND = peaks.Measured(HERE, 25.0, {"fp32": 0.15, "bf16": 0.2, "fp8": 0.15}, ("fp8",))
GEMM = load_problem(paths.problems_dir() / "01_fp8_gemm" / "problem.yaml")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def gpu(monkeypatch: pytest.MonkeyPatch, name: str, capability: tuple[int, int] = (9, 0), count: int = 1) -> None:
    """A machine with GPUs of one kind."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A CPU whose measurement takes no time; the list grows with each measurement."""
    made: list[str] = []

    def measure(device: str, say: object = None) -> peaks.Measured:
        made.append(str(device))
        return FOUND

    monkeypatch.setattr(peaks, "measure", measure)
    monkeypatch.setattr(peaks, "machine", lambda _: HERE)
    return made


@pytest.mark.parametrize(
    ("name", "capability", "target"),
    [
        ("NVIDIA H200", (9, 0), "h200"),
        ("NVIDIA H100 80GB HBM3", (9, 0), "h100_sxm"),
        ("NVIDIA H100 PCIe", (9, 0), "h100_pcie"),
        ("NVIDIA B200", (10, 0), "b200"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", (12, 0), "rtx_pro_6000"),
    ],
)
def test_the_gpu_of_the_machine_is_the_target(
    monkeypatch: pytest.MonkeyPatch, name: str, capability: tuple[int, int], target: str
) -> None:
    gpu(monkeypatch, name, capability)
    for wanted in ("auto", target, target.replace("_", "-").upper()):
        chosen = choose_target(GEMM, wanted)
        assert (chosen.target.id, chosen.record.peaks, chosen.record.scale) == (target, "datasheet", "full")
        assert chosen.record.peak_tflops == chosen.target.peaks["fp8"]
        assert chosen.record.label == ""


@pytest.mark.parametrize(
    ("name", "capability", "wanted", "device", "told"),
    [
        ("NVIDIA H200", (9, 0), "b200", None, "b200 was asked for, but the GPU of this machine is NVIDIA H200 SXM"),
        ("NVIDIA H200", (9, 0), "h2000", None, "there is no target `h2000`; there are rtx_pro_6000"),
        ("NVIDIA H200 MIG 1g.18gb", (9, 0), "auto", None, "MIG 1g.18gb, is not in hardware.yaml"),
        ("NVIDIA H200", (8, 9), "auto", None, "says it is sm_89"),
        ("NVIDIA GeForce RTX 3090", (8, 6), "auto", None, "is not offered on rtx_3090"),
        ("NVIDIA H200", (9, 0), "cpu", "cuda", "the target cpu does not run on the device cuda"),
        ("NVIDIA H200", (9, 0), "h200", "cpu", "the target h200 does not run on the device cpu"),
        ("NVIDIA H200", (9, 0), "auto", "cuda:1", "this machine has no GPU 1"),
        ("NVIDIA H200", (9, 0), "auto", "tpu9", "`tpu9` is not a device"),
        ("NVIDIA H200", (9, 0), "auto", "meta", "runs on a CUDA GPU or on a CPU"),
    ],
)
def test_a_target_that_is_not_this_machine_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, capability: tuple[int, int], wanted: str, device: str | None, told: str
) -> None:
    gpu(monkeypatch, name, capability)
    with pytest.raises(TargetError) as caught:
        choose_target(GEMM, wanted, device=device)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_without_a_gpu_the_target_is_the_cpu_with_measured_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    no_gpu(monkeypatch)
    made = measured(monkeypatch)
    chosen = choose_target(GEMM)
    assert (chosen.target.id, chosen.target.sm, chosen.target.peaks["fp8"]) == ("cpu", "cpu", 0.15)
    assert (chosen.record.peaks, chosen.record.scale, chosen.record.label) == ("measured", "reduced", CPU_LABEL)
    assert (chosen.record.peak_tflops, chosen.record.dram_gbps) == (0.15, 25.0)
    assert choose_target(GEMM, "cpu") == chosen
    assert made == ["cpu"]  # the second grading read what the first one kept


def test_a_gpu_that_was_asked_for_is_not_replaced_by_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    no_gpu(monkeypatch)
    with pytest.raises(TargetError, match="h200 was asked for, but this machine has no GPU"):
        choose_target(GEMM, "h200")
    with pytest.raises(TargetError, match="this machine has no GPU"):
        choose_target(GEMM, device="cuda")


def test_a_problem_without_reduced_shapes_cannot_be_graded_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    no_gpu(monkeypatch)
    with pytest.raises(TargetError, match="has no reduced shapes"):
        choose_target(replace(GEMM, reduced=()))


def test_a_problem_of_ones_own_uses_the_hardware_of_the_project(
    monkeypatch: pytest.MonkeyPatch, sample: Problem
) -> None:
    gpu(monkeypatch, "NVIDIA H200")
    assert choose_target(sample).record.peak_tflops == 989.5


def test_the_cpu_is_measured_within_the_bounds_of_what_a_cpu_can_do() -> None:
    found = peaks.measure("cpu")
    assert 0.5 < found.copy_gbps < 5000
    assert set(found.tflops) == set(peaks.PRECISIONS)
    for name, rate in found.tflops.items():
        assert 1e-4 < found.tflops["fp32"] <= rate < 1e3
        assert (rate == found.tflops["fp32"]) or name not in found.widened
    assert cpu_target(found).capability is None


def test_a_measurement_is_kept_for_its_machine_only(tmp_path: Path) -> None:
    assert peaks.load(HERE, tmp_path) is None
    path = peaks.store(FOUND, tmp_path)
    assert path is not None and list(tmp_path.iterdir()) == [path]
    assert peaks.load(HERE, tmp_path) == FOUND
    for other in (replace(HERE, threads=1), replace(HERE, product="B"), replace(HERE, torch="2.14")):
        assert peaks.load(other, tmp_path) is None
    path.rename(tmp_path / f"{replace(HERE, threads=1).key}.json")
    with pytest.raises(peaks.PeakError, match="another machine"):
        peaks.load(replace(HERE, threads=1), tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 50_000, "not JSON"),
        (b" " * 70_000, "larger than 64 KB"),
        ([], "format 1"),
        ({"format": 2}, "format 1"),
        ({"more": 1}, "format 1"),
        ({"copy_gbps": 0}, "a rate that is not one"),
        ({"copy_gbps": True}, "a rate that is not one"),
        ({"copy_gbps": "25"}, "a rate that is not one"),
        ({"tflops": {"fp32": float("nan")}, "widened": []}, "a rate that is not one"),
        ({"tflops": {"fp32": 1e300}, "widened": []}, "a rate that is not one"),
        ({"tflops": {}}, "rates by precision"),
        ({"tflops": {"fp32": 1.0, "fp99": 1.0}}, "rates by precision"),
        ({"widened": ["fp9"]}, "which precisions are widened"),
        ({"widened": [["fp8"]]}, "which precisions are widened"),
    ],
)
def test_a_corrupt_measurement_is_told_in_a_sentence_and_taken_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: bytes | list[object] | dict[str, object], told: str
) -> None:
    path = peaks.store(FOUND, tmp_path)
    assert path is not None
    if isinstance(change, bytes):
        path.write_bytes(change)
    else:
        good = json.loads(path.read_text())
        path.write_text(json.dumps({**good, **change} if isinstance(change, dict) else change))
    with pytest.raises(peaks.PeakError, match=told):
        peaks.load(HERE, tmp_path)
    made = measured(monkeypatch)
    assert peaks.stored_or_measured("cpu", folder=tmp_path) == FOUND
    assert made == ["cpu"]
    assert peaks.load(HERE, tmp_path) == FOUND


def test_a_place_that_cannot_be_written_leaves_the_measurement_unkept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert peaks.store(FOUND, tmp_path / "file" / "hardware") is None
    assert peaks.load(HERE, tmp_path / "file" / "hardware") is None


def test_a_cpu_without_a_name_is_called_by_its_architecture(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor: 0\nmodel name\t: A  CPU\x20@ 3 GHz\n")
    assert peaks.cpu_name(tmp_path / "cpuinfo") == "A CPU @ 3 GHz"
    assert peaks.cpu_name(tmp_path / "none").endswith(" CPU")


def test_published_peaks_are_apart_from_the_datasheet_and_read_as_strictly(tmp_path: Path) -> None:
    published = read_published(paths.problems_dir() / "hardware.yaml")
    assert list(published) == ["rtx_pro_6000"]
    assert (published["rtx_pro_6000"].peaks["fp8"], published["rtx_pro_6000"].dram_gbps) == (400, 1800)
    assert load_targets(paths.problems_dir() / "hardware.yaml")["rtx_pro_6000"].peaks["fp8"] == 1000
    head = "x:\n  sm: sm_90a\n  product: X\n  names: []\n  dram_gbps: 1\n  peaks: {}\n"
    file = tmp_path / "hardware.yaml"
    file.write_text(head + "  published_2026_04: {dram_gbps: 1, peaks: {fp8: much}}\n")
    with pytest.raises(ProblemError, match=r":7: `fp8` must be a number"):
        load_targets(file)
    file.write_text(head + "  published_2026_04: {dram_gbps: 1, peaks: {}, colour: red}\n")
    with pytest.raises(ProblemError, match="no key `colour`"):
        load_targets(file)
