"""Writes, renames, links and changes modes outside its folder."""

import json
import os
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


FACTS = json.loads(Path(__file__).with_name("facts.json").read_text())
CANARY = FACTS["canary"]
REPOSITORY = FACTS["repository"]


def attempt(name, action, *args):
    """Says whether something that must not work did."""
    try:
        result = action(*args)
    except BaseException as error:
        print(f"TRIED {name}: {type(error).__name__}", flush=True)
        return
    print(f"{'BREACH' if result else 'TRIED'} {name}", flush=True)


PLACES = [
    CANARY,
    f"{REPOSITORY}/tests/hostile",
    REPOSITORY,
    "/var/tmp",
    "/usr/lib",
    "/etc",
    "/root",
    "/home",
]


def write(place):
    file = Path(place, "kbh-hostile.txt")
    file.write_text("here")
    file.unlink()
    return place in (CANARY, REPOSITORY)


for place in PLACES:
    attempt(f"write in {place}", write, place)
SECRET = Path(f"{CANARY}/secret.txt")
attempt("append", lambda: os.close(os.open(SECRET, os.O_WRONLY | os.O_APPEND)) is None)
attempt("rename", lambda: SECRET.rename(f"{CANARY}/renamed.txt"))
attempt("chmod", lambda: SECRET.chmod(0o600) or True)
attempt("truncate", lambda: os.truncate(SECRET, 0) or True)
attempt("times", lambda: os.utime(SECRET, (0, 0)) or True)
attempt("hard link", lambda: os.link(SECRET, Path(os.environ["TMPDIR"], "linked")) or True)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
