"""Which target a grading is for: the GPU of this machine, held against the one that was named, or its CPU.

A GPU is scored against the datasheet in problems/hardware.yaml, at full shapes. A CPU runs the reduced shapes, Triton
kernels in an interpreter, and is scored against what was measured on it; that number is no score of a kernel and its
label says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from grader.record.cell import TargetRecord
from grader.score import peaks
from grader.score.standard import CPU, Chosen, TargetError, hardware_file, peak_of
from kbh_lint.problems import Problem, Target, find_target, load_targets

__all__ = [
    "CPU_LABEL", "Chosen", "TargetError", "choose_target", "cpu_target", "hardware_file", "pick_device",
    "running_target",
]  # fmt: skip

CPU_LABEL = "CPU (reduced shapes; Triton kernels interpreted)"


def choose_target(
    problem: Problem, wanted: str = "auto", *, device: str | None = None, say: Callable[[str], None] = lambda _: None
) -> Chosen:
    """The target of a grading here.

    `wanted` is "auto", "cpu", or a GPU by its id or another of its names, which must be the one of this machine.
    `device` is a torch device, for a machine with several; without one it is the GPU where there is one. `say` is told
    what is measured. Raises TargetError, and ProblemError for a hardware.yaml that cannot be read.
    """
    device = pick_device(wanted, device)
    if torch.device(device).type == "cpu":
        return _on_cpu(problem, say)
    targets = load_targets(hardware_file(problem))
    named = None if wanted == "auto" else find_target(targets, wanted)
    if wanted != "auto" and named is None:
        raise TargetError(f"there is no target `{wanted}`; there are {', '.join(targets)} and cpu")
    target = running_target(targets, device)
    if named is not None and named.id != target.id:
        raise TargetError(f"the target {named.id} was asked for, but the GPU of this machine is {target.product}")
    if target.id not in problem.targets:
        raise TargetError(f"{problem.id} is not offered on {target.id}; it is on {', '.join(problem.targets)}")
    record = TargetRecord(
        target.id, target.product, "cuda", "datasheet", peak_of(problem, target), target.dram_gbps, "full"
    )
    return Chosen(target, record)


def running_target(targets: Mapping[str, Target], device: str | torch.device = "cuda") -> Target:
    """The entry of hardware.yaml that a GPU is. Raises TargetError when it is none of them."""
    name = torch.cuda.get_device_name(device)
    target = find_target(targets, name)
    if target is None:
        raise TargetError(f"the GPU of this machine, {name}, is not in hardware.yaml; there are {', '.join(targets)}")
    major, minor = torch.cuda.get_device_capability(device)
    if target.capability is not None and target.capability != 10 * major + minor:
        raise TargetError(f"{name} says it is sm_{major}{minor}, but hardware.yaml has {target.sm} for {target.id}")
    return target


def cpu_target(found: peaks.Measured) -> Target:
    """A CPU as a target: its measured rates are its peaks."""
    return Target(CPU, CPU, found.machine.product, found.copy_gbps, dict(found.tflops))


def pick_device(wanted: str, device: str | None) -> str:
    """The torch device to grade on, for a target that was named or "auto". Raises TargetError."""
    there = torch.cuda.is_available()
    if device is None:
        device = CPU if wanted == CPU or (wanted == "auto" and not there) else "cuda"
    try:
        kind, index = torch.device(device).type, torch.device(device).index or 0
    except RuntimeError:
        raise TargetError(f"`{device}` is not a device; say cpu, cuda or cuda:0") from None
    if kind not in ("cpu", "cuda"):
        raise TargetError(f"a grading runs on a CUDA GPU or on a CPU, not on {device}")
    if wanted != "auto" and (wanted == CPU) != (kind == "cpu"):
        raise TargetError(f"the target {wanted} does not run on the device {device}")
    if kind == "cuda" and not there:
        what = "this machine has no GPU that torch can use"
        raise TargetError(what if wanted == "auto" else f"the target {wanted} was asked for, but {what}")
    if kind == "cuda" and index >= torch.cuda.device_count():
        raise TargetError(f"this machine has no GPU {index}")
    return device


def _on_cpu(problem: Problem, say: Callable[[str], None]) -> Chosen:
    if not problem.reduced:
        raise TargetError(f"{problem.id} has no reduced shapes, so it cannot be graded on a CPU")
    target = cpu_target(peaks.stored_or_measured(CPU, say))
    record = TargetRecord(
        CPU, target.product, "cpu", "measured", peak_of(problem, target), target.dram_gbps, "reduced", CPU_LABEL
    )
    return Chosen(target, record)
