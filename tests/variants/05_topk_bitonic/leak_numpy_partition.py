# expect: flagged zero-kernel-torch-wrapper,builtin-op-sidestep,foreign-library-compute,library-gemm-wrapper,partial-torch-compute
import numpy as np
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        host = x.detach().cpu().numpy()
        idx = np.argpartition(-host, self.k - 1, axis=1)[:, : self.k]
        val = np.take_along_axis(host, idx, axis=1)
        order = np.argsort(-val, axis=1, kind="stable")
        idx = np.take_along_axis(idx, order, axis=1)
        val = np.take_along_axis(val, order, axis=1)
        return torch.from_numpy(val).to(x.device), torch.from_numpy(idx.astype(np.int64)).to(x.device)
