"""Attaches to the grader, reads its memory across processes and takes its descriptors."""

import ctypes
import json
import os
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


LIBC = ctypes.CDLL(None, use_errno=True)


class Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def system(call, *args):
    result = LIBC.syscall(ctypes.c_long(call), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def read(pid, call):
    buffer = ctypes.create_string_buffer(16)
    here, there = Span(ctypes.addressof(buffer), 16), Span(ctypes.addressof(buffer), 16)
    return system(call, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)


def take(pid):
    return system(438, os.pidfd_open(pid), 0, 0)


X86 = os.uname().machine == "x86_64"
for pid in {JUDGE, VICTIM, os.getppid()} - {0, 1}:
    attempt(f"PTRACE_SEIZE {pid}", system, 101 if X86 else 117, 0x4206, pid, 0, 0)
    attempt(f"process_vm_readv {pid}", read, pid, 310 if X86 else 270)
    attempt(f"pidfd_getfd {pid}", take, pid)
attempt("a new user namespace", system, 272 if X86 else 97, 0x10000000)
attempt("perf_event_open", system, 298 if X86 else 241, ctypes.create_string_buffer(128), 0, -1, -1, 0)
attempt("bpf", system, 321 if X86 else 280, 0, ctypes.create_string_buffer(128), 128)
attempt("a reboot", system, 169 if X86 else 142, 0, 0, 0)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
