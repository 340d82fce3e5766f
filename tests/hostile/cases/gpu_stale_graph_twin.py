"""Replays a graph of its own after copying the inputs into it."""

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        self.graph = None

    def forward(self, x, used):
        if torch.cuda.is_current_stream_capturing():
            return product(x, self.w, used)
        if self.graph is None:
            self.x, self.rows = x.clone(), used.clone()
            product(self.x, self.w, self.rows)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = product(self.x, self.w, self.rows)
        self.x.copy_(x)
        self.rows.copy_(used)
        self.graph.replay()
        return self.y.clone()
