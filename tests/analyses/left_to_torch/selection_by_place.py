"""A kernel fetches the values at places that a test has torch find."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather_k(x, at, values, n, k, K: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, K)
    i = tl.load(at + row * k + j, mask=j < k, other=0)
    tl.store(values + row * k + j, tl.load(x + row * n + i, mask=j < k), mask=j < k)


class Model(nn.Module):
    def __init__(self, batch: int, n: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        # places
        at = x.argsort(-1, descending=True)[:, : self.k].contiguous()
        # values
        values = torch.empty(x.shape[0], self.k, device=x.device)
        gather_k[(x.shape[0],)](x, at, values, x.shape[1], self.k, K=triton.next_power_of_2(self.k))
        return values, at
