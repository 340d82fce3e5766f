# expect: flagged builtin-op-sidestep,partial-torch-compute,forbidden-op,forbidden-op-alias
"""A Triton path for the big row; the other shapes go through Tensor.sort."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def block_best(x, v, i, n, K: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    c = p * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + c, mask=c < n, other=-float("inf"))
    for r in range(K):
        m = tl.max(a, 0)
        j = tl.argmax(a, 0)
        tl.store(v + p * K + r, m)
        tl.store(i + p * K + r, p * BLOCK + j)
        a = tl.where(tl.arange(0, BLOCK) == j, -float("inf"), a)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.batch, self.n, self.k = batch, n, k
        self.register_buffer("_dummy", torch.zeros(1))
        self.run = self._wide if batch == 1 else self._narrow

    def _wide(self, x):
        parts = triton.cdiv(self.n, 2048)
        v = torch.empty(parts * self.k, device=x.device)
        i = torch.empty(parts * self.k, dtype=torch.int64, device=x.device)
        block_best[(parts,)](x, v, i, self.n, K=self.k, BLOCK=2048)
        v2 = torch.empty(1, self.k, device=x.device)
        j2 = torch.empty(1, self.k, dtype=torch.int64, device=x.device)
        block_best[(1,)](v, v2, j2, parts * self.k, K=self.k, BLOCK=triton.next_power_of_2(parts * self.k))
        return v2, i[j2]

    def _narrow(self, x):
        s, o = x.sort(dim=1, descending=True)
        return s[:, : self.k].contiguous(), o[:, : self.k].contiguous()

    def forward(self, x):
        return self.run(x)
