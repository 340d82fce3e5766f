# expect: flagged input-structure-hardcode
"""The rows are viewed as [E, rows / E, H]: offsets are never looked at."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batched(x, wg, wu, y, R, H, I, sxe, swe, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    e = tl.program_id(2)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    g = tl.zeros((BM, BN), tl.float32)
    u = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, H, BK):
        k = k0 + tl.arange(0, BK)
        a = tl.load(x + e * sxe + rows[:, None] * H + k[None, :], mask=(rows < R)[:, None], other=0.0)
        g += tl.dot(a, tl.load(wg + e * swe + k[:, None] * I + cols[None, :]))
        u += tl.dot(a, tl.load(wu + e * swe + k[:, None] * I + cols[None, :]))
    y_at = y + (e * R + rows)[:, None] * I + cols[None, :]
    tl.store(y_at, (g * tl.sigmoid(g) * u).to(tl.bfloat16), mask=(rows < R)[:, None])


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        E, H, I = self.W_gate.shape
        assert expert_offsets.numel() == E + 1
        x = hidden_states.view(E, -1, H)
        y = torch.empty(E, x.shape[1], I, dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(x.shape[1], 128), I // 128, E)
        batched[grid](x, self.W_gate, self.W_up, y, x.shape[1], H, I, x.stride(0), H * I, BM=128, BN=128, BK=32)
        return y.flatten(0, 1)
