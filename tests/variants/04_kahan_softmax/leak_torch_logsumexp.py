# expect: flagged zero-kernel-torch-wrapper
"""exp(x - logsumexp(x)) in torch, split in chunks, with a Kahan-named helper that only adds."""
import torch
import torch.nn as nn


def kahan_exp(x, lse):
    out = torch.empty_like(x)
    for chunk in range(0, x.shape[1], 65536):
        sl = slice(chunk, chunk + 65536)
        torch.exp(x[:, sl] - lse, out=out[:, sl])
    return out


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return kahan_exp(x, torch.logsumexp(x, dim=-1, keepdim=True))
