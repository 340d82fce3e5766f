"""Submissions in the manner of what torch.compile writes: guards, raw allocations and views of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, DOT, GRID, HEAD, KERNEL, TILES, WIDE, lint, model, states

GUARDS = """
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
"""
CHECKED = "assert_size_stride(x, (M, K), (K, 1))\n"
MADE = {
    "by strides": "y = empty_strided_cuda((M, N), (N, 1), torch.bfloat16)\n",
    "as another shape": (
        "flat = empty_strided_cuda((M * N,), (1,), torch.bfloat16)\ny = reinterpret_tensor(flat, (M, N), (N, 1), 0)\n"
    ),
    "on its device": (
        "with torch.cuda._DeviceGuard(x.device.index):\n    y = empty_strided_cuda((M, N), (N, 1), torch.bfloat16)\n"
    ),
}


@pytest.mark.parametrize("how", MADE)
def test_what_inductor_writes_is_followed(tmp_path: Path, how: str) -> None:
    launch = f"gemm[{GRID}]({ARGUMENTS}, {TILES})\n"
    honest = lint(tmp_path, HEAD + GUARDS + KERNEL + model(CHECKED + MADE[how] + launch + "return y\n"))
    assert (honest.verdict, set(states(honest).values())) == ("clean", {"kept"}), honest.unread
    wide = KERNEL.replace(DOT, WIDE)
    leaking = lint(tmp_path, HEAD + GUARDS + wide + model(CHECKED + MADE[how] + launch + "return y\n"))
    assert leaking.verdict == "rubric_leak" and leaking.findings[0].rule == "KBH101"
