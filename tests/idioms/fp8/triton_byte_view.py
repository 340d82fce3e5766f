"""FP8 GEMM whose operands travel as bytes: the launcher passes uint8 views and the kernel bitcasts them to e4m3."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

M, N, K = 4096, 4096, 4096


@triton.jit
def load_e4m3(base, outer, ks, pitch, limit, depth):
    """A tile of bytes as e4m3; bytes outside are zero, which is +0.0 in e4m3."""
    raw = tl.load(base + outer[:, None] * pitch + ks[None, :],
                  mask=(outer[:, None] < limit) & (ks[None, :] < depth), other=0)
    return raw.to(tl.float8e4nv, bitcast=True)


@triton.jit
def gemm_bytes(xb, wb, ws, out, m, n, k, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    i = tl.program_id(0) * TM + tl.arange(0, TM)
    j = tl.program_id(1) * TN + tl.arange(0, TN)
    total = tl.zeros((TM, TN), tl.float32)
    for k0 in tl.range(0, k, TK):
        ks = k0 + tl.arange(0, TK)
        left = load_e4m3(xb, i, ks, k, m, k)
        right = load_e4m3(wb, j, ks, k, n, k)
        total = tl.dot(left, right.trans(1, 0), acc=total)
    total = total * tl.load(ws + j, mask=j < n, other=0.0)[None, :]
    tl.store(out + i[:, None] * n + j[None, :], total.to(out.dtype.element_ty),
             mask=(i[:, None] < m) & (j[None, :] < n))


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        weight = torch.randn(N, K).mul_(0.02)
        weight_scale = weight.abs().max(dim=1).values.div(448.0)
        self.register_buffer("weight", weight.div(weight_scale.view(-1, 1)).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", weight_scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        xb = x.contiguous().view(torch.uint8)
        wb = self.weight.view(torch.uint8)
        y = x.new_empty((x.size(0), wb.size(0)), dtype=torch.bfloat16)
        tm = 64 if x.size(0) < 128 else 128
        grid = lambda meta: (triton.cdiv(y.size(0), meta["TM"]), triton.cdiv(y.size(1), meta["TN"]))  # noqa: E731
        gemm_bytes[grid](xb, wb, self.weight_scale, y, y.size(0), y.size(1), x.size(1), TM=tm, TN=128, TK=64)
        return y


def get_inputs():
    return [(torch.rand(M, K) * 8.0 - 4.0).to(torch.float8_e4m3fn)]


def get_init_inputs():
    return [M, N, K]
