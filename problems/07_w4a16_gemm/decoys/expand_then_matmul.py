"""A kernel expands the weight on every call, and the library multiplies the dense copy."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def expand(packed, scales, zeros, dense, N, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    pair = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    q = tl.load(packed + pair * N + columns, mask=inside, other=0)
    at = 2 * pair // GROUP * N + columns
    zero = tl.load(zeros + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(scales + at, mask=inside, other=0.0).to(tl.float32)
    low, high = ((q & 0xF).to(tl.float32) - zero) * scale, ((q >> 4).to(tl.float32) - zero) * scale
    tl.store(dense + 2 * pair * N + columns, low.to(tl.bfloat16), mask=inside)
    tl.store(dense + (2 * pair + 1) * N + columns, high.to(tl.bfloat16), mask=inside)


def expanded(packed: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, group: int) -> torch.Tensor:
    half, columns = packed.shape
    dense = torch.empty((2 * half, columns), dtype=torch.bfloat16, device=packed.device)
    expand[(half, triton.cdiv(columns, 1024))](packed, scales, zeros, dense, columns, GROUP=group, BLOCK=1024)
    return dense


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int, group_size: int = 128) -> None:
        super().__init__()
        self.group = group_size
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, expanded(self.w_q, self.scales, self.zeros, self.group))
