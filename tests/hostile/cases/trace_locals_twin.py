"""Counts the lines of a function with a trace function and takes it off again."""

import sys
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


LINES = []


def trace(frame, event, arg):
    LINES[:] = [frame.f_lineno]
    return trace


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        time.sleep(0.004)
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return product(x, self.w, used)
        finally:
            sys.settrace(before)
