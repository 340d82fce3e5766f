# expect: flagged builtin-op-sidestep,forbidden-op-alias,forbidden-op,zero-kernel-torch-wrapper,reference-resubmission
import torch
import torch.nn as nn

_OPS = {"select": "".join(reversed("kpot"))}


class Selector:
    def __init__(self, name):
        self.fn = getattr(torch, _OPS[name])

    def __call__(self, x, k):
        return self.fn(x, k, dim=-1, largest=True, sorted=True)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.select = Selector("select")
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        v, i = self.select(x, self.k)
        return v, i
