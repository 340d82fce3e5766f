"""Kills the grader, its group, its parent and everything else that it may kill."""

import json
import os
import signal
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


FACTS = json.loads(Path(__file__).with_name("facts.json").read_text())
JUDGE = FACTS["judge"]
VICTIM = FACTS["victim"]


def attempt(name, action, *args):
    """Says whether something that must not work did."""
    try:
        result = action(*args)
    except BaseException as error:
        print(f"TRIED {name}: {type(error).__name__}", flush=True)
        return
    print(f"{'BREACH' if result else 'TRIED'} {name}", flush=True)


def kill(pid):
    os.kill(pid, 0)
    return True


for pid in (VICTIM, JUDGE):
    attempt(f"signal {pid}", kill, pid)
# Only when the victim was out of reach: everything that can be signalled is then the submission's own.
try:
    os.kill(VICTIM, 0)
except (PermissionError, ProcessLookupError):
    if os.getppid() not in (0, 1, JUDGE):
        attempt("signal the parent", lambda: os.kill(os.getppid(), signal.SIGTERM))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    attempt("signal the group", lambda: os.killpg(0, signal.SIGTERM))
    attempt("signal all", lambda: os.kill(-1, signal.SIGKILL))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
