# expect: flagged missing-kahan
"""Numba: threads add up in fp32, and nothing keeps what is rounded away."""

import math

import torch
import torch.nn as nn
from numba import cuda, float32

THREADS = 256
LOWEST = float32(-3.0e38)


@cuda.jit
def softmax(x, y, n):
    row, tid = cuda.blockIdx.x, cuda.threadIdx.x
    tops = cuda.shared.array(THREADS, float32)
    sums = cuda.shared.array(THREADS, float32)
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
    for j in range(tid, n, THREADS):
        total += math.exp(x[row, j] - top)
    sums[tid] = total
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if tid < width:
            sums[tid] += sums[tid + width]
        cuda.syncthreads()
        width //= 2
    whole = sums[0]
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
