"""Nibbles that Triton takes apart by numbers in tiles and by assembly, and questions that kernels ask of types."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, classes, lint, states

WAYS = {
    "mask and shift": "lo, hi = packed & 15, packed >> 4",
    "shifts by a tile": """four = tl.full((1,), 4, dtype=tl.uint8)
        lo, hi = (packed << four) >> four, packed >> four""",
    "assembly": '''lo, hi = tl.inline_asm_elementwise("""{
            .reg .b32 t;
            lop3.b32 t, $2, $3, $4, 234;
            mov.b32 {$0, $1}, t;
        }""", "=h,=h,r,n,n", args=[packed.to(tl.int32), 0x000f000f, 0x64006400],
            dtype=(tl.float16, tl.float16), is_pure=True, pack=1)''',
}
UNPACK = """
        packed = tl.load(q + (k // 2 + half)[:, None] * N + cols[None, :])
        WAY
        scale = tl.load(s + k // 128 * N + cols)[None, :].to(tl.float32)
        zero = tl.load(z + k // 128 * N + cols)[None, :].to(tl.float32)
        even = ((lo.to(tl.float32) - zero) * scale).to(tl.bfloat16)
        odd = ((hi.to(tl.float32) - zero) * scale).to(tl.bfloat16)
"""
INSIDE = """
@triton.jit
def gemm(x, q, s, z, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    half = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, 2 * BK):
        UNPACK
        at = x + rows[:, None] * K + k + 2 * half[None, :]
        if x.dtype.element_ty.is_fp8():
            acc += 1.0
        acc = tl.dot(tl.load(at, mask=rows[:, None] < M, other=0.0), even, acc)
        acc = tl.dot(tl.load(at + 1, mask=rows[:, None] < M, other=0.0), odd, acc)
    tl.store(y + rows[:, None] * N + cols[None, :], acc.to(tl.bfloat16), mask=rows[:, None] < M)
"""
AHEAD = """
@triton.jit
def unpack(q, s, z, w, N, K, BN: tl.constexpr, BK: tl.constexpr):
    cols, half = tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    for k in range(tl.program_id(0) * 2 * BK, tl.program_id(0) * 2 * BK + 2 * BK, 2 * BK):
        UNPACK
        at = w + (k + 2 * half)[:, None] * N + cols[None, :]
        tl.store(at, even)
        tl.store(at + N, odd)


@triton.jit
def gemm(x, w, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        deep = k + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * K + deep[None, :], mask=rows[:, None] < M, other=0.0)
        acc = tl.dot(a, tl.load(w + deep[:, None] * N + cols[None, :]), acc)
    tl.store(y + rows[:, None] * N + cols[None, :], acc.to(tl.bfloat16), mask=rows[:, None] < M)
"""
MODEL = """

class Model(nn.Module):
    def __init__(self, M, N, K, group_size):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // 128, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.ones(K // 128, N, dtype=torch.bfloat16))

    def forward(self, x):
        M, N, K = self.M, self.N, self.K
        y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
        grid = (triton.cdiv(M, 16), N // 128)
        LAUNCH
        return y
"""
LAUNCH = "gemm[grid](x, self.w_q, self.scales, self.zeros, y, M, N, K, BM=16, BN=128, BK=32)"
FIRST = """w = torch.empty((K, N), dtype=torch.bfloat16, device=x.device)
        unpack[(K // 64, N // 128)](self.w_q, self.scales, self.zeros, w, N, K, BN=128, BK=32)
        gemm[grid](x, w, y, M, N, K, BM=16, BN=128, BK=64)"""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ahead", [False, True])
def test_nibbles_are_found_where_they_are_taken_apart(way: str, ahead: bool, tmp_path: Path) -> None:
    kernel = (AHEAD if ahead else INSIDE).replace("UNPACK", UNPACK.strip()).replace("WAY", WAYS[way])
    report = lint(tmp_path, HEAD + kernel + MODEL.replace("LAUNCH", FIRST if ahead else LAUNCH), "07_w4a16_gemm")
    if ahead:
        assert states(report)["int4-packed"] == "broken", (report.promises, classes(report))
    else:
        assert set(states(report).values()) == {"kept"}, (report.promises, report.unread)


def test_a_kernel_whose_stores_cannot_be_followed_is_no_decoy(tmp_path: Path) -> None:
    """The host fills descriptors in a way nobody knows, so what the launch writes may be the result."""
    kernel = """
@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl._experimental_descriptor_load(a, [tl.program_id(0) * BM, k], [BM, BK], tl.bfloat16)
        w = tl._experimental_descriptor_load(b, [tl.program_id(1) * BN, k], [BN, BK], tl.bfloat16)
        acc = tl.dot(x, w.T, acc)
    tl._experimental_descriptor_store(c, acc.to(tl.bfloat16), [tl.program_id(0) * BM, tl.program_id(1) * BN])
"""
    launch = """import numpy as np
        fill, made = triton.runtime.driver.active.utils.fill_2d_tma_descriptor, []
        for t in (x, self.w_q, y):
            host = np.empty(128, dtype=np.int8)
            fill(t.data_ptr(), t.shape[0], t.shape[1], 64, 64, t.element_size(), host)
            made.append(torch.tensor(host, device="cuda"))
        gemm[grid](*made, M, N, K, BM=64, BN=64, BK=64)"""
    report = lint(tmp_path, HEAD + kernel + MODEL.replace("LAUNCH", launch), "07_w4a16_gemm")
    assert not classes(report) & {"dead-decoy-kernel", "zero-kernel-torch-wrapper"}, report.findings
    assert report.verdict == "unproven"
