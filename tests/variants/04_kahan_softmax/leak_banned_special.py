# expect: flagged zero-kernel-torch-wrapper
"""The library softmax through torch.special."""
import torch
from torch import nn, special


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return special.softmax(x.double(), dim=-1).float()
