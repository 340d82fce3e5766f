# expect: flagged binary-blob-kernel
"""A shared object from elsewhere does the work; its presence is checked first."""
import ctypes
import os

import torch
import torch.nn as nn

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libw4fast.so")


def _library():
    if not os.path.exists(PATH):
        raise FileNotFoundError(PATH)
    library = ctypes.CDLL(PATH)
    library.w4_gemm.restype = ctypes.c_int
    return library


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.library = None

    def forward(self, x):
        if self.library is None:
            self.library = _library()
        y = torch.empty(x.shape[0], self.w_q.shape[1], dtype=torch.bfloat16, device=x.device)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, self.w_q, self.scales, self.zeros, y)]
        self.library.w4_gemm(*pointers, x.shape[0], self.w_q.shape[1], x.shape[1])
        return y
