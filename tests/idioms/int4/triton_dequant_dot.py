"""W4A16 GEMM: packed bytes are loaded, split into nibbles, joined to rows and multiplied by `tl.dot` in one kernel."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

M, N, K = 1, 12288, 4096
GROUP = 128


@triton.jit
def w4a16_kernel(x_ptr, q_ptr, s_ptr, z_ptr, y_ptr, m, n, k,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    rm = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, GROUP)
    rp = tl.arange(0, GROUP // 2)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for g in range(0, k // GROUP):
        x = tl.load(x_ptr + rm[:, None] * k + (g * GROUP + rk)[None, :], mask=rm[:, None] < m, other=0.0)
        q = tl.load(q_ptr + (g * (GROUP // 2) + rp)[:, None] * n + rn[None, :], mask=rn[None, :] < n, other=0)
        pair = tl.join(q & 0xF, q >> 4)
        w = tl.reshape(tl.permute(pair, (0, 2, 1)), (GROUP, BLOCK_N)).to(tl.float32)
        s = tl.load(s_ptr + g * n + rn, mask=rn < n, other=0.0).to(tl.float32)
        z = tl.load(z_ptr + g * n + rn, mask=rn < n, other=0.0).to(tl.float32)
        w = (w - z[None, :]) * s[None, :]
        acc = tl.dot(x, w.to(tl.bfloat16), acc)
    tl.store(y_ptr + rm[:, None] * n + rn[None, :], acc.to(tl.bfloat16), mask=(rm[:, None] < m) & (rn[None, :] < n))


class Model(nn.Module):
    """y = x @ ((q - zero) * scale), q packed two to a byte along K."""

    def __init__(self, M: int, N: int, K: int, group_size: int = GROUP):
        super().__init__()
        self.M, self.N, self.K, self.group_size = M, N, K, group_size
        groups = K // group_size
        self.register_buffer("w_q", torch.randint(0, 256, (K // 2, N), dtype=torch.uint8))
        self.register_buffer("scales", (torch.rand(groups, N) * 0.01 + 0.001).to(torch.bfloat16))
        self.register_buffer("zeros", torch.randint(0, 16, (groups, N)).to(torch.bfloat16))

    def _reference_weight(self) -> torch.Tensor:
        """The dense weight, for tests."""
        q = torch.stack((self.w_q & 0xF, self.w_q >> 4), dim=1).reshape(self.K, self.N)
        zeros = self.zeros.repeat_interleave(self.group_size, dim=0)
        return (q.to(torch.bfloat16) - zeros) * self.scales.repeat_interleave(self.group_size, dim=0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        m, k = x.shape
        n = self.N
        y = torch.empty((m, n), dtype=torch.bfloat16, device=x.device)
        block_m = 16 if m <= 16 else 64
        grid = (triton.cdiv(n, 64), triton.cdiv(m, block_m))
        w4a16_kernel[grid](x, self.w_q, self.scales, self.zeros, y, m, n, k,
                           BLOCK_M=block_m, BLOCK_N=64, GROUP=self.group_size, num_warps=4, num_stages=3)
        return y


def get_inputs():
    return [torch.randn(M, K, dtype=torch.bfloat16)]


def get_init_inputs():
    return [M, N, K]
