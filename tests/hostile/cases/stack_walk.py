"""Looks for objects of the grader in all frames below it: in the import, in a model, in a call and in a copy."""

import sys

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


COPY, SAID = torch.Tensor.copy_, set()


def walk(where):
    frame = sys._getframe(1)
    while frame is not None:
        for name, value in list(frame.f_locals.items()) if frame.f_globals is not globals() else ():
            kind = type(value)
            if kind.__module__.startswith("grader.") or kind.__name__ in ("socket", "Namespace"):
                print(f"BREACH {kind.__name__} as {name} on the stack {where}", flush=True)
        frame = frame.f_back
    if where not in SAID:
        SAID.add(where)
        print(f"TRIED to find something {where}", flush=True)


def copy_(self, *args, **kwargs):
    walk("in a copy")
    return COPY(self, *args, **kwargs)


torch.Tensor.copy_ = copy_
walk("in the import")


class Model(nn.Module):
    def __init__(self, M, N, K):
        walk("when it is made")
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def load_state_dict(self, state, **kwargs):
        walk("when it gets weights")
        return super().load_state_dict(state, **kwargs)

    def forward(self, x, used):
        walk("in a call")
        return product(x, self.w, used)
