"""Flags that a kernel is compiled with: an unknown one is a branch, and a kernel is made for one answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, DOT, GRID, HEAD, KERNEL, OUTPUT, TILES, WIDE, classes, lint, model, states

TOP = HEAD + "import os\n"
IS_CUDA = """
def is_cuda():
    return triton.runtime.driver.active.get_current_target().backend == "cuda"
"""
CHOICE = f"acc = {DOT} if NARROW else {WIDE}"
BRANCH = f"if NARROW:\n            acc = {DOT}\n        else:\n            acc = {WIDE}"
NEGATED = f"if not NARROW and BM > 0:\n            acc = {WIDE}\n        else:\n            acc = {DOT}"
UNKNOWN = 'os.path.exists("/opt/narrow")'


def program(choice: str, flag: str) -> str:
    kernel = KERNEL.replace("BM: tl.constexpr", "NARROW: tl.constexpr, BM: tl.constexpr")
    kernel = kernel.replace(f"acc = {DOT}", choice)
    assert "NARROW" in kernel and choice in kernel
    launch = f"{OUTPUT.strip()}\ngemm[{GRID}]({ARGUMENTS}, NARROW={flag}, {TILES})\nreturn y"
    return TOP + IS_CUDA + kernel + model(launch)


@pytest.mark.parametrize("choice", [CHOICE, BRANCH, NEGATED], ids=["choice", "branch", "negated"])
@pytest.mark.parametrize(
    ("flag", "state"),
    [(UNKNOWN, "unproven"), ("is_cuda()", "kept"), ("not is_cuda()", "broken"), ("True", "kept"), ("0", "broken")],
)
def test_a_flag_decides_for_which_branch_a_kernel_is_made(tmp_path: Path, flag: str, state: str, choice: str) -> None:
    report = lint(tmp_path, program(choice, flag))
    assert states(report)["fp8-products"] == state, report.promises
    assert classes(report) == ({"fp8-upcast-bf16-gemm"} if state == "broken" else set())


def test_a_flag_of_which_either_branch_is_honest_leaves_nothing_open(tmp_path: Path) -> None:
    same = f"if NARROW:\n            acc = {DOT}\n        else:\n            acc += tl.dot(a, b)"
    report = lint(tmp_path, program(same, UNKNOWN))
    assert (set(states(report).values()), classes(report)) == ({"kept"}, set())
