"""Looks for reference, cases and tolerances of its problem on the disk."""

import json
import os
import sys
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


FACTS = json.loads(Path(__file__).with_name("facts.json").read_text())
DECK = FACTS["deck"]
PROBLEMS = FACTS["problems"]


def attempt(name, action, *args):
    """Says whether something that must not work did."""
    try:
        result = action(*args)
    except BaseException as error:
        print(f"TRIED {name}: {type(error).__name__}", flush=True)
        return
    print(f"{'BREACH' if result else 'TRIED'} {name}", flush=True)


INSTALLED = [Path(entry, "kbh_lint") for entry in sys.path]
PLACES = [DECK, PROBLEMS, *INSTALLED, "/home", "/root", "/srv", "/mnt", os.getcwd()]
NAMES = {"problem.yaml", "tolerance.json", "legal.py", "cases.yaml"}


def search(top):
    for count, (folder, _, files) in enumerate(os.walk(top)):
        for name in NAMES.intersection(files):
            if "grader" not in Path(folder).parts and Path(folder, name).read_bytes():
                return True
        if count > 3000:
            break
    return False


for place in PLACES:
    attempt(f"deck below {place}", search, place)
attempt("reference beside the grader", search, Path(__import__("grader").__file__).parent.parent / "problems")


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
