"""Walks all objects of its process for the plan of the cases, the oracle, tolerances or a key."""

import gc
import sys
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


WORDS = ("nominal/0", "stress/large", "structure/ragged", "ragged/0")


def walk():
    found, count = set(), 0
    for thing in gc.get_objects():
        count += 1
        items = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list | tuple) else ()
        try:
            for item in list(items)[:2000]:
                if isinstance(item, str) and item.startswith(WORDS[:3]) and item not in WORDS:
                    found.add(item)
        except Exception:
            continue
        if type(thing).__name__ in ("CaseSpec", "Case", "Bound", "Bundle"):
            found.add(type(thing).__name__)
    words = b" ".join(Path("/proc/self", name).read_bytes() for name in ("cmdline", "environ"))
    found |= {word for word in ("master", "nominal", "tolerance") if word.encode() in words}
    found |= {
        name
        for name in ("grader.deck.cases", "grader.deck.keys", "grader.judge.judging", "grader.authoring.tolerance")
        if name in sys.modules
    }
    print(f"TRIED {count} objects", flush=True)
    for name in found:
        print(f"BREACH {name} is in reach of the submission", flush=True)


DONE = []


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        if len(DONE) < 2:
            DONE.append(True)
            walk()
        return product(x, self.w, used)
