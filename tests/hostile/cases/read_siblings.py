"""Reads the scratch folders of other gradings, and what a neighbour left in /tmp."""

import json
import os
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


FACTS = json.loads(Path(__file__).with_name("facts.json").read_text())
CANARY = FACTS["canary"]


def attempt(name, action, *args):
    """Says whether something that must not work did."""
    try:
        result = action(*args)
    except BaseException as error:
        print(f"TRIED {name}: {type(error).__name__}", flush=True)
        return
    print(f"{'BREACH' if result else 'TRIED'} {name}", flush=True)


def steal():
    return bool(Path(f"{CANARY}/secret.txt").read_text())


def listed(place):
    return Path(CANARY).name in os.listdir(place) and steal()


attempt("the neighbour's file", steal)
for place in ("/tmp", "/var/tmp", "/dev/shm", Path(CANARY).parent):
    attempt(f"names in {place}", listed, place)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
