import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.bfloat16))

    def forward(self, x):
        return torch.mm(x, self.weight.T)
