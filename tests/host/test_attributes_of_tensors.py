"""Attributes of tensors: those of torch, which each tensor has, and those that a program hangs on one."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from host_support import GRID, HEAD, KERNEL, OUTPUT, TILES, classes, lint, model, reasons

from kbh_lint.host.torch import torchlib

FILL = f"gemm[{GRID}](x, self.weight, self.weight_scale, y, M, N, K, {TILES})\n"
LAUNCH = f"{OUTPUT.strip()}\n{FILL}"
KEPT = "unchanged-input-output-memo"


def test_each_name_that_a_tensor_of_torch_has_is_known() -> None:
    assert [name for name in dir(torch.Tensor) if not torchlib.has_attribute(name)] == []


def put(read: str, name: str = "note") -> str:
    test = "if found is not None and found[0] == x._version:\n    return found[1]"
    return f"found = None\n{read}\n{test}\n{LAUNCH}x.{name} = x._version, y\nreturn y"


HUNG = {
    "tried": put("try:\n    found = x.note\nexcept AttributeError:\n    pass"),
    "by any exception": put("try:\n    found = x.note\nexcept Exception:\n    found = None"),
    "by getattr": put("try:\n    found = getattr(x, 'note')\nexcept AttributeError:\n    pass"),
    "suppressed": put("import contextlib\nwith contextlib.suppress(AttributeError):\n    found = x.note"),
    "under a word of the linter": put("try:\n    found = x.value\nexcept AttributeError:\n    pass", "value"),
    "under another one": put("if hasattr(x, 'range'):\n    found = x.range", "range"),
    "under a third": put("found = getattr(x, 'known', None)", "known"),
}
PLAN = """
class Plan:
    def __init__(self, x, N):
        self.y, self.seen = x.new_empty((x.shape[0], N), dtype=torch.bfloat16), -1

    def bring(self, x, fill):
        if TEST:
            fill(self.y)
        self.seen = x._version
        return self.y


def plan_of(x, N):
    try:
        return x.plan
    except AttributeError:
        x.plan = Plan(x, N)
        return x.plan

"""
BRING = f"def fill(y):\n    {FILL}return plan_of(x, N).bring(x, fill)"


@pytest.mark.parametrize("how", HUNG)
def test_a_result_may_hang_on_the_input(how: str, tmp_path: Path) -> None:
    report = lint(tmp_path, HEAD + KERNEL + model(HUNG[how]))
    assert classes(report) == {KEPT}, reasons(report)


@pytest.mark.parametrize(("test", "leaks"), [("self.seen < x._version", {KEPT}), ("True", set())])
def test_a_plan_that_hangs_on_the_input_is_brought_up_to_date(test: str, leaks: set[str], tmp_path: Path) -> None:
    report = lint(tmp_path, HEAD + PLAN.replace("TEST", test) + KERNEL + model(BRING))
    assert classes(report) == leaks, reasons(report)
    assert leaks or report.verdict == "clean", reasons(report)


HONEST = {
    "room": f"try:\n    y = x.room\nexcept AttributeError:\n    y = x.room = {OUTPUT.strip().partition(' = ')[2]}\n{FILL}return y",
    "sizes": f"try:\n    M, N, K = x.plan\nexcept AttributeError:\n    x.plan = M, N, K\n{LAUNCH}return y",
    "dropped": f"try:\n    del x.note\nexcept AttributeError:\n    pass\n{LAUNCH}x.note = y\nreturn y",
    "of torch": f"try:\n    x.cos_, x.values, x.is_cpu, x.T\nexcept AttributeError:\n    return x.new_zeros((M, N))\n{LAUNCH}return y",
}  # fmt: skip


@pytest.mark.parametrize("what", HONEST)
def test_other_things_may_hang_on_the_input(what: str, tmp_path: Path) -> None:
    report = lint(tmp_path, HEAD + KERNEL + model(HONEST[what]))
    assert report.verdict == "clean", reasons(report)
