"""Wrong submissions that the checker must see through."""

import torch
import torch.nn as nn
from grader.mutation import Mutant


class Gemm(nn.Module):
    """A GEMM that some method of a subclass gets wrong."""

    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.bfloat16))

    def forward(self, x):
        return self.wrong(x.float(), self.weight.float()).to(torch.bfloat16)


def mutant(name, idea, wrong):
    """A mutant from a function of x and weight in fp32."""
    kind = type(name, (Gemm,), {"wrong": staticmethod(wrong)})
    return Mutant(id=name, idea=idea, make=lambda init: kind(**init))


MUTANTS = (
    mutant("zeros", "nothing is computed", lambda x, w: x.new_zeros(x.shape[0], w.shape[0])),
    mutant("mean", "every row is the mean row", lambda x, w: (x @ w.T).mean(0, keepdim=True).expand(x.shape[0], -1)),
    mutant("last-k", "the last column of x is left out", lambda x, w: x[:, :-1] @ w[:, :-1].T),
    mutant("half-k", "half of the sum is left out", lambda x, w: x[:, ::2] @ w[:, ::2].T),
    mutant("first-k", "the first column of x is left out", lambda x, w: x[:, 1:] @ w[:, 1:].T),
    mutant("shifted", "the columns are off by one", lambda x, w: (x @ w.T).roll(1, 1)),
    mutant("rows-swapped", "the rows are off by one", lambda x, w: (x @ w.T).roll(1, 0)),
    mutant("negated", "the sign is wrong", lambda x, w: -(x @ w.T)),
    mutant("fp8", "x is rounded to e4m3", lambda x, w: x.to(torch.float8_e4m3fn).float() @ w.T),
    mutant("last-row", "the last row stays zero", lambda x, w: torch.cat([(x @ w.T)[:-1], x.new_zeros(1, w.shape[0])])),
)
