"""Profiles itself once and puts the former hook back."""

import sys
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


EVENTS = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        time.sleep(0.004)
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, arg: EVENTS.append(event) if len(EVENTS) < 9 else None)
        try:
            return product(x, self.w, used)
        finally:
            sys.setprofile(before)
