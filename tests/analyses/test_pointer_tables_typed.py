"""Tables of pointers whose kernels say of what type an address is: tensors of CuTe, pointers of Triton in FP8."""

from __future__ import annotations

from pathlib import Path

from pointer_table_programs import MODEL, linted

CUTE = """# kbh: problem=06_sonic_moe_swiglu
import cutlass
import cutlass.cute as cute
import torch
import torch.nn as nn
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def grouped(ts: cute.Tensor, counts: cute.Tensor, H: cutlass.Constexpr, I: cutlass.Constexpr):
    tid, _, _ = cute.arch.thread_idx()
    bx, by, e = cute.arch.block_idx()
    col = bx * 128 + tid
    rows = counts[e]
    gmem = cute.AddressSpace.gmem
    flat, wide = cute.make_layout((rows, H), stride=(H, 1)), cute.make_layout((H, I), stride=(I, 1))
    x = cute.make_tensor(cute.make_ptr(cutlass.BFloat16, ts[0, e], gmem, assumed_align=16), flat)
    gate = cute.make_tensor(cute.make_ptr(cutlass.BFloat16, ts[1, e], gmem, assumed_align=16), wide)
    up = cute.make_tensor(cute.make_ptr(cutlass.BFloat16, ts[2, e], gmem, assumed_align=16), wide)
    y = cute.make_tensor(cute.make_ptr(cutlass.BFloat16, ts[3, e], gmem, assumed_align=16), wide)
    row = by
    while row < rows:
        g = cutlass.Float32(0.0)
        u = cutlass.Float32(0.0)
        for k in range(H):
            v = x[row, k].to(cutlass.Float32)
            g += v * gate[k, col].to(cutlass.Float32)
            u += v * up[k, col].to(cutlass.Float32)
        y[row, col] = (g / (1.0 + cute.math.exp(-g)) * u).to(cutlass.BFloat16)
        row += 64


@cute.jit
def launch(ts: cute.Tensor, counts: cute.Tensor, E: cutlass.Constexpr, H: cutlass.Constexpr, I: cutlass.Constexpr):
    grouped(ts, counts, H, I).launch(grid=[I // 128, 64, E], block=[128, 1, 1])
"""
IN_CUTE = """
        out = hidden_states.new_empty(hidden_states.shape[0], I)
        each = hidden_states.shape[0] // E
        off, counts = FIRST
        rows = [[hidden_states.data_ptr() + 2 * H * off[e] for e in range(E)], [w.data_ptr() for w in self.W_gate],
                [w.data_ptr() for w in self.W_up], [out.data_ptr() + 2 * I * off[e] for e in range(E)]]
        ts = torch.tensor(rows, dtype=torch.int64, device=dev)
        launch(from_dlpack(ts), from_dlpack(counts), E, H, I)
        return out
"""


def test_tables_of_cute(tmp_path: Path) -> None:
    honest = "expert_offsets.tolist(), expert_offsets[1:] - expert_offsets[:-1]"
    alike = "[each * e for e in range(E)], torch.full((E,), each, dtype=torch.int32, device=dev)"
    text = CUTE + MODEL + IN_CUTE
    assert linted(tmp_path, text.replace("FIRST", honest))[:2] == ("clean", set())
    verdict, found, states = linted(tmp_path, text.replace("FIRST", alike))
    assert (verdict, found, states["ragged-offsets"]) == ("rubric_leak", {"input-structure-hardcode"}, "broken")


FP8 = """# kbh: problem=01_fp8_gemm
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm(ts, scale, M, N, K, B: tl.constexpr):
    x = tl.load(ts).to(tl.pointer_type(TYPE))
    w = tl.load(ts + 1).to(tl.pointer_type(TYPE))
    y = tl.load(ts + 2).to(tl.pointer_type(tl.bfloat16))
    rm = tl.program_id(0) * B + tl.arange(0, B)
    rn = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        rk = k + tl.arange(0, B)
        a = tl.load(x + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(w + rn[None, :] * K + rk[:, None], mask=(rn[None, :] < N) & (rk[:, None] < K), other=0.0)
        acc = tl.dot(a, b, acc)
    s = tl.load(scale + rn, mask=rn < N)
    inside = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(y + rm[:, None] * N + rn[None, :], (acc * s[None, :]).to(tl.bfloat16), mask=inside)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.zeros(N, dtype=torch.float32))

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        y = torch.empty(M, N, dtype=torch.bfloat16, device=x.device)
        a, b = GIVEN
        ts = torch.tensor([a.data_ptr(), b.data_ptr(), y.data_ptr()], device=x.device)
        gemm[(triton.cdiv(M, 64), triton.cdiv(N, 64))](ts, self.weight_scale, M, N, K, B=64)
        return y
"""
WIDENED = "x.to(torch.bfloat16), self.weight.to(torch.bfloat16)"


def test_operands_behind_a_table_keep_their_types(tmp_path: Path) -> None:
    text = FP8.replace("TYPE", "tl.float8e4nv").replace("GIVEN", "x, self.weight")
    assert linted(tmp_path, text)[::2] == ("clean", {"fp8-products": "kept", "authored-compute": "kept"})
    verdict, found, states = linted(tmp_path, FP8.replace("TYPE", "tl.bfloat16").replace("GIVEN", WIDENED))
    assert (verdict, found, states["fp8-products"]) == ("rubric_leak", {"fp8-upcast-bf16-gemm"}, "broken")
