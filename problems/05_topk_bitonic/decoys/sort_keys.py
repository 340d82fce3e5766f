"""The authored kernel packs values and columns into sortable keys; torch.sort selects."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pack(x, keys, n, BLOCK: tl.constexpr):
    """One int64 a value, whose order is that of the values."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    keep = columns < n
    bits = tl.load(x + row * n + columns, mask=keep, other=0.0).to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    tl.store(keys + row * n + columns, (bits.to(tl.int64) << 32) | (0x7FFFFFFF - columns).to(tl.int64), mask=keep)


class Model(nn.Module):
    """x [batch, n] f32 -> values [batch, k] f32 in descending order, indices [batch, k] i64."""

    def __init__(self, batch: int, n: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, n = x.shape
        keys = torch.empty(batch, n, dtype=torch.int64, device=x.device)
        pack[(batch, triton.cdiv(n, 1024))](x, keys, n, BLOCK=1024)
        best = torch.sort(keys, dim=-1, descending=True)[0][:, : self.k]
        indices = 0x7FFFFFFF - (best & 0x7FFFFFFF)
        return x.gather(1, indices), indices
