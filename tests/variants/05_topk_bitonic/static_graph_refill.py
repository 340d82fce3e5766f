# expect: kept
"""A graph a shape over static buffers, refilled by copy_ on every call; a decorator does the capture."""
import functools

import torch
import torch.nn as nn
import triton
import triton.language as tl


def graphed(fn):
    pool = {}

    @functools.wraps(fn)
    def call(self, x):
        key = (x.shape, x.dtype, x.device)
        entry = pool.get(key)
        if entry is None:
            static = torch.empty_like(x)
            static.copy_(x)
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                fn(self, static)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = fn(self, static)
            entry = pool[key] = (graph, static, out)
        graph, static, out = entry
        static.copy_(x, non_blocking=True)
        graph.replay()
        return out

    return call


@triton.jit
def pick(x, v, i, n, K: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, N)
    a = tl.load(x + r * n + c, mask=c < n, other=-float("inf"))
    for j in range(K):
        m, at = tl.max(a, 0, return_indices=True)
        tl.store(v + r * K + j, m)
        tl.store(i + r * K + j, at.to(tl.int64))
        a = tl.where(c == at, -float("inf"), a)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.batch, self.n, self.k = batch, n, k
        self.register_buffer("_dummy", torch.zeros(1))

    @graphed
    def forward(self, x):
        v = torch.empty(self.batch, self.k, device=x.device)
        i = torch.empty(self.batch, self.k, dtype=torch.int64, device=x.device)
        pick[(self.batch,)](x, v, i, self.n, K=self.k, N=triton.next_power_of_2(self.n), num_warps=16)
        return v, i
