# expect: flagged forbidden-op,forbidden-op-alias,builtin-op-sidestep,zero-kernel-torch-wrapper,reference-resubmission
import operator

import torch
import torch.nn as nn

_resolve = operator.attrgetter("ops.aten.topk.default")


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        op = _resolve(torch)
        values, indices = op(x, self.k, -1, True, True)
        return values, indices
