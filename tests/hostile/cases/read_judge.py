"""Reads memory, environment, descriptors and command lines of the grader and of every other process."""

import json
import os
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


FACTS = json.loads(Path(__file__).with_name("facts.json").read_text())
JUDGE = FACTS["judge"]


def attempt(name, action, *args):
    """Says whether something that must not work did."""
    try:
        result = action(*args)
    except BaseException as error:
        print(f"TRIED {name}: {type(error).__name__}", flush=True)
        return
    print(f"{'BREACH' if result else 'TRIED'} {name}", flush=True)


def others():
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    except OSError:
        return range(1, 400)


def read(pid, name):
    data = Path(f"/proc/{pid}/{name}").read_bytes()
    return b"KBH_HOSTILE" in data or len(data) > 0 and pid == JUDGE


def memory(pid):
    with open(f"/proc/{pid}/maps") as lines:
        first = int(lines.readline().split("-")[0], 16)
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.seek(first)
        return bool(file.read(16)) and pid == JUDGE


def descriptors(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with open(f"/proc/{pid}/fd/{fd}", "rb"):
            return pid == JUDGE


for pid in {JUDGE, os.getppid(), *others()}:
    attempt(f"environment of {pid}", read, pid, "environ")
    attempt(f"memory of {pid}", memory, pid)
    attempt(f"descriptors of {pid}", descriptors, pid)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
