"""Launches over what something else computed: its result stays where a launch is too small to replace it."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, GRID, HEAD, KERNEL, TILES, classes, lint, model

LIBRARY = "y = (x.bfloat16() @ self.weight.bfloat16().T * self.weight_scale).bfloat16()\n"
WHOLE = f"gemm[{GRID}]({ARGUMENTS}, {TILES})\nreturn y"
CORNER = f"gemm[(1, 1)]({ARGUMENTS}, {TILES})\nreturn y"
STORE = "    tl.store(y + rows[:, None] * N + cols[None, :], out.to(tl.bfloat16), mask=(rows < M)[:, None])\n"
PERSISTENT = "    for first in range(0, M, 64):\n    " + STORE.replace("rows", "(first + rows)")
SAME = "    for _ in range(0, N, 64):\n    " + STORE
FLAG = "    never = tl.load(s) < 0\n"
HELPED = "    put(y + rows[:, None] * N + cols[None, :], out.to(tl.bfloat16), (rows < M)[:, None])\n"
PUT = "@triton.jit\ndef put(at, value, mask):\n    tl.store(at, value, mask=mask)\n"


@pytest.mark.parametrize(
    ("body", "kernel", "leaks"),
    [
        (LIBRARY + CORNER, KERNEL, True),
        (LIBRARY + CORNER.replace("(1, 1)", "2"), KERNEL, True),
        (LIBRARY + WHOLE, KERNEL, False),
        (LIBRARY + CORNER.replace("(1, 1)", "(1, N // 128)"), KERNEL.replace(STORE, PERSISTENT), False),
        (LIBRARY + CORNER, KERNEL.replace(STORE, SAME), True),
        (LIBRARY + WHOLE, KERNEL.replace(STORE, STORE.replace("rows < M", "rows < 64")), True),
        (LIBRARY + WHOLE, KERNEL.replace(STORE, STORE.replace("(rows < M)", "(out != out) & (rows < M)")), True),
        (LIBRARY + WHOLE, KERNEL.replace(STORE, FLAG + STORE.replace("(rows < M)", "never & (rows < M)")), True),
        (LIBRARY + WHOLE, KERNEL.replace(STORE, FLAG + "    if never:\n    " + STORE), True),
        (LIBRARY + CORNER, PUT + KERNEL.replace(STORE, HELPED), False),
        (LIBRARY + CORNER.replace("(1, 1)", "(x.sum().item(), N // 128)"), KERNEL, False),
        ("y = torch.zeros((M, N), dtype=torch.bfloat16, device=x.device)\n" + WHOLE, KERNEL, False),
    ],
    ids=[
        "a corner",
        "a number",
        "all",
        "tiles in a loop",
        "one tile in a loop",
        "masked",
        "never",
        "never, by what was loaded",
        "in a branch that is never taken",
        "a helper",
        "a grid nobody knows",
        "zeros",
    ],
)
def test_a_library_s_result_counts_only_if_a_kernel_cannot_have_replaced_it(
    tmp_path: Path, body: str, kernel: str, leaks: bool
) -> None:
    assert STORE in KERNEL
    found = classes(lint(tmp_path, HEAD + kernel + model(body)))
    assert ("fp8-upcast-bf16-gemm" in found) is leaks, found


PADDED = """\
rows = torch.empty((M, K + 64), dtype=torch.bfloat16, device=x.device)
rows[:, :K] = x.bfloat16()
ZEROS
wide = torch.zeros((N, K + 64), dtype=torch.bfloat16, device=x.device)
wide[:, :K] = self.weight.bfloat16()
y = torch.inner(rows, wide)
"""


@pytest.mark.parametrize("zeros", ["rows[:, K:] = 0", "pass"])
def test_a_product_over_a_buffer_that_is_filled_in_parts_is_one_of_the_inputs(tmp_path: Path, zeros: str) -> None:
    report = lint(tmp_path, HEAD + KERNEL + model(PADDED.replace("ZEROS", zeros) + CORNER))
    assert "partial-torch-compute" in classes(report)
    assert "KBH711" not in {finding.rule for finding in report.findings}
