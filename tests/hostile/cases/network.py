"""Connects to a server on this machine and to others, by TCP, UDP and local sockets."""

import json
import socket
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


FACTS = json.loads(Path(__file__).with_name("facts.json").read_text())
PORT = FACTS["port"]


def attempt(name, action, *args):
    """Says whether something that must not work did."""
    try:
        result = action(*args)
    except BaseException as error:
        print(f"TRIED {name}: {type(error).__name__}", flush=True)
        return
    print(f"{'BREACH' if result else 'TRIED'} {name}", flush=True)


def connect(family, kind, address):
    with socket.socket(family, kind) as link:
        link.settimeout(0.3)
        link.connect(address)
        link.send(b"secrets")
        return kind == socket.SOCK_STREAM


def listen():
    with socket.socket() as server:
        server.settimeout(0.1)
        server.bind(("0.0.0.0", 0))
        return False


attempt("TCP to the test", connect, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT))
attempt("TCP by IPv6", connect, socket.AF_INET6, socket.SOCK_STREAM, ("::1", PORT))
attempt("UDP", connect, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", PORT))
attempt("local socket", connect, socket.AF_UNIX, socket.SOCK_STREAM, "\0kbh-hostile-PORT")
attempt("raw socket", lambda: bool(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)))
attempt("server", listen)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
