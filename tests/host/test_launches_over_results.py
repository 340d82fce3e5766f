"""Launches over what something else computed: its result stays where a launch is too small to replace it."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, GRID, HEAD, KERNEL, TILES, classes, lint, model

LIBRARY = "y = (x.bfloat16() @ self.weight.bfloat16().T * self.weight_scale).bfloat16()\n"
WHOLE = f"gemm[{GRID}]({ARGUMENTS}, {TILES})\nreturn y"
CORNER = f"gemm[(1, 1)]({ARGUMENTS}, {TILES})\nreturn y"
STORE = "    tl.store(y + rows[:, None] * N + cols[None, :], out.to(tl.bfloat16), mask=(rows < M)[:, None])\n"
PERSISTENT = "    for _ in range(tl.program_id(1), N, 64):\n    " + STORE
HELPED = "    put(y + rows[:, None] * N + cols[None, :], out.to(tl.bfloat16), (rows < M)[:, None])\n"
PUT = "@triton.jit\ndef put(at, value, mask):\n    tl.store(at, value, mask=mask)\n"


@pytest.mark.parametrize(
    ("body", "kernel", "leaks"),
    [
        (LIBRARY + CORNER, KERNEL, True),
        (LIBRARY + CORNER.replace("(1, 1)", "2"), KERNEL, True),
        (LIBRARY + WHOLE, KERNEL, False),
        (LIBRARY + CORNER, KERNEL.replace(STORE, PERSISTENT), False),
        (LIBRARY + CORNER, PUT + KERNEL.replace(STORE, HELPED), False),
        (LIBRARY + CORNER.replace("(1, 1)", "(x.sum().item(), 1)"), KERNEL, False),
        ("y = torch.zeros((M, N), dtype=torch.bfloat16, device=x.device)\n" + WHOLE, KERNEL, False),
    ],
    ids=["a corner", "a number", "all", "tiles in a loop", "a helper", "a grid nobody knows", "zeros"],
)
def test_a_library_s_result_counts_only_if_a_kernel_cannot_have_replaced_it(
    tmp_path: Path, body: str, kernel: str, leaks: bool
) -> None:
    assert STORE in KERNEL
    found = classes(lint(tmp_path, HEAD + kernel + model(body)))
    assert ("fp8-upcast-bf16-gemm" in found) is leaks, found
