import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return (x @ self.w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def oracle(init, inputs, state):
    x = inputs["x"].double()
    rows = torch.arange(len(x), device=x.device) < inputs["used"]
    return ((x @ state["w"].double()) * rows[:, None],)
