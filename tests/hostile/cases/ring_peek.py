"""Reads all slots between two calls and looks whether values lie there that belong to a later call."""

import threading
import time

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


SLOTS, FIRST_SEEN, LAST_RETURN, DONE = {}, {}, [0.0], []


def digest(x, used):
    return hash(bytes(x.numpy().data) + bytes(used.numpy().data))


def watch():
    while True:
        for x, used in list(SLOTS.values()):
            FIRST_SEEN.setdefault(digest(x, used), (time.perf_counter(), LAST_RETURN[0], len(SLOTS)))
        time.sleep(0.0003)


threading.Thread(target=watch, daemon=True).start()


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        now = time.perf_counter()
        seen = FIRST_SEEN.get(digest(x, used))
        known = x.data_ptr() in SLOTS
        SLOTS[x.data_ptr()] = x.detach(), used
        if seen and known and seen[0] < now - 0.25 and seen[1] < LAST_RETURN[0]:
            print("BREACH values lay in a slot a quarter of a second before their call", flush=True)
        if len(SLOTS) > 1 and not DONE:
            print("TRIED to read ahead", flush=True)
            DONE.append(True)
        y = product(x, self.w, used)
        LAST_RETURN[0] = time.perf_counter()
        return y
