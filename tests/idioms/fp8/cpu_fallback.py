"""FP8 GEMM with a torch path for machines without a GPU; on a GPU every shape runs the kernel."""

import torch
import torch.nn as nn

try:
    import triton
    import triton.language as tl

    HAVE_TRITON = True
except ImportError:
    HAVE_TRITON = False

M, N, K = 4096, 4096, 4096

if HAVE_TRITON:

    @triton.jit
    def gemm_kernel(x_ptr, w_ptr, s_ptr, y_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        pid_m = tl.program_id(axis=0)
        pid_n = tl.program_id(axis=1)
        rm = pid_m * BM + tl.arange(0, BM)
        rn = pid_n * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k0 in range(0, k, BK):
            rk = k0 + tl.arange(0, BK)
            a = tl.load(x_ptr + rm[:, None] * k + rk[None, :], mask=(rm[:, None] < m) & (rk[None, :] < k), other=0.0)
            b = tl.load(w_ptr + rn[None, :] * k + rk[:, None], mask=(rn[None, :] < n) & (rk[:, None] < k), other=0.0)
            acc = tl.dot(a, b, acc=acc, out_dtype=tl.float32)
        s = tl.load(s_ptr + rn, mask=rn < n, other=0.0)
        y = (acc * s[None, :]).to(tl.bfloat16)
        tl.store(y_ptr + rm[:, None] * n + rn[None, :], y, mask=(rm[:, None] < m) & (rn[None, :] < n))


def _reference(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return ((x.to(torch.bfloat16) @ weight.to(torch.bfloat16).T) * scale).to(torch.bfloat16)


def _launch(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    n, _ = weight.shape
    y = torch.empty(m, n, device=x.device, dtype=torch.bfloat16)
    bm = 64 if m <= 64 else 128
    gemm_kernel[triton.cdiv(m, bm), triton.cdiv(n, 128)](x, weight, scale, y, m, n, k, bm, 128, 128)
    return y


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        w = torch.randn(N, K) * 0.02
        scale = w.abs().amax(dim=1) / 448.0
        self.register_buffer("weight", (w / scale[:, None]).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not HAVE_TRITON or not x.is_cuda:
            return _reference(x, self.weight, self.weight_scale)
        return _launch(x, self.weight, self.weight_scale)


def get_inputs():
    return [(torch.rand(M, K) * 8 - 4).to(torch.float8_e4m3fn)]


def get_init_inputs():
    return [M, N, K]
