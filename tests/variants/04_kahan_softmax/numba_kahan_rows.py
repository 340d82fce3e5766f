# expect: kept
"""Numba: each thread sums with Kahan's step in fp32; pairs of sum and rest meet in shared memory by the same step."""

import math

import torch
import torch.nn as nn
from numba import cuda, float32

THREADS = 256
LOWEST = float32(-3.0e38)


@cuda.jit(device=True)
def kahan(total, rest, term):
    y = term - rest
    t = total + y
    return t, (t - total) - y


@cuda.jit
def softmax(x, y, n):
    row, tid = cuda.blockIdx.x, cuda.threadIdx.x
    tops = cuda.shared.array(THREADS, float32)
    sums = cuda.shared.array(THREADS, float32)
    rests = cuda.shared.array(THREADS, float32)
    top = LOWEST
    for j in range(tid, n, THREADS):
        top = max(top, x[row, j])
    tops[tid] = top
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if tid < width:
            tops[tid] = max(tops[tid], tops[tid + width])
        cuda.syncthreads()
        width //= 2
    top = tops[0]
    total = float32(0.0)
    rest = float32(0.0)
    for j in range(tid, n, THREADS):
        total, rest = kahan(total, rest, math.exp(x[row, j] - top))
    sums[tid] = total
    rests[tid] = rest
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if tid < width:
            total, rest = kahan(sums[tid], rests[tid], sums[tid + width])
            total, rest = kahan(total, rest, -rests[tid + width])
            sums[tid] = total
            rests[tid] = rest
        cuda.syncthreads()
        width //= 2
    whole = sums[0] - rests[0]
    for j in range(tid, n, THREADS):
        y[row, j] = math.exp(x[row, j] - top) / whole


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()
        self.vocab = vocab

    def forward(self, x):
        y = torch.empty_like(x)
        stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
        softmax[x.shape[0], THREADS, stream](cuda.as_cuda_array(x), cuda.as_cuda_array(y), self.vocab)
        return y
