"""Ready-made functions of torch's inductor in Triton kernels: whole sorts are a library's, small functions are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

PROGRAM = """import torch
import torch.nn as nn
import triton
import triton.language as tl
IMPORT

OWN
@triton.jit
def level(x_ptr, src_ptr, val_ptr, at_ptr, n, out_n, k, FIRST: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    at = part * BLOCK + lane
    v = tl.load(x_ptr + row * n + at, mask=at < n, other=float("-inf"))
    if FIRST:
        where = at.to(tl.int32)
    else:
        where = tl.load(src_ptr + row * n + at, mask=at < n, other=0).to(tl.int32)
    out = row * out_n + part * k
    BODY


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        batch, n = x.shape
        k, parts = self.k, triton.cdiv(n, 1024)
        mid = parts * k
        mv = torch.empty(batch, mid, dtype=torch.float32, device=x.device)
        mi = torch.empty(batch, mid, dtype=torch.int64, device=x.device)
        level[(parts, batch)](x, mi, mv, mi, n, mid, k, FIRST=True, BLOCK=1024)
        values = torch.empty(batch, k, dtype=torch.float32, device=x.device)
        indices = torch.empty(batch, k, dtype=torch.int64, device=x.device)
        level[(1, batch)](mv, mi, values, indices, mid, k, k, FIRST=False, BLOCK=max(64, triton.next_power_of_2(mid)))
        return values, indices
"""
STORED = """
    tl.store(val_ptr + out + before, v, mask=before < k)
    tl.store(at_ptr + out + before, where.to(tl.int64), mask=before < k)"""
SORTED = "before = lane" + STORED
HELPERS = "from torch._inductor.runtime import triton_helpers as net"
SORT = "v, where = net.sort_with_index(v, where, None, 0, stable=False, descending=True)\n    " + SORTED
SORTS = {  # what is imported, what stands above, and what the kernel does
    "a module by another name": (HELPERS, "", SORT),
    "the function itself": (
        "from torch._inductor.runtime.triton_helpers import sort_with_index as put", "",
        SORT.replace("net.sort_with_index", "put")),
    "an older place": ("from torch._inductor import triton_helpers as net", "", SORT),
    "by way of a function": (
        HELPERS,
        "@triton.jit\ndef network(v, where):\n"
        "    return net.sort_with_index(v, where, None, 0, False, True)\n\n",
        "v, where = network(v, where)\n    " + SORTED,
    ),
    "by way of a name": (
        "import torch._inductor.runtime.triton_helpers\n"
        "net = getattr(torch._inductor.runtime, 'triton' + '_helpers')", "", SORT),
    "Triton's own, that inductor names again": (
        "from torch._inductor.runtime.triton_compat import tl as other", "",
        "keys = (v.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (0x7FFFFFFF - where)\n"
        "    keys = other.sort(keys, descending=True)\n"
        "    v = (keys >> 32).to(tl.int32).to(tl.float32, bitcast=True)\n"
        "    where = 0x7FFFFFFF - (keys & 0xFFFFFFFF)\n    " + SORTED,
    ),
}  # fmt: skip
RANKS = (
    "ahead = (v[None, :] > v[:, None]) | ((v[None, :] == v[:, None]) & (where[None, :] < where[:, None]))\n"
    "    before = tl.sum(ahead.to(tl.int32), 1)"
)
ROUNDS = """for r in range(k):
        best, there = BEST
        tl.store(val_ptr + out + r, best)
        tl.store(at_ptr + out + r, there.to(tl.int64))
        v = tl.where(where == there, float("-inf"), v)"""
OWN_SORTS = {
    "an own function of the name": (
        "",
        "@triton.jit\ndef sort_with_index(v, where):\n    " + RANKS + "\n    return before\n\n",
        "before = sort_with_index(v, where)" + STORED,
    ),
    "small functions": (
        HELPERS, "",
        "v = net.maximum(v, net.minimum(v, float('-inf')))\n    where = net.promote_to_tensor(where)\n    "
        "where = net.remainder_integer(where, 1 << 30)\n    " + RANKS + STORED,
    ),
    "functions of libdevice": (
        "from torch._inductor.runtime.triton_helpers import libdevice", "",
        "v = libdevice.fma(v, 1.0, 0.0)\n    " + RANKS + STORED),
    "rounds of extremes": (HELPERS, "", ROUNDS.replace("BEST", "net.max_with_index(v, where, 0)")),
    "rounds of Triton's extremes": (
        "", "", ROUNDS.replace("BEST", "tl.max(v, 0), tl.max(tl.where(v == tl.max(v, 0), where, -1), 0)")),
}  # fmt: skip


def _text(imported: str, above: str, body: str) -> str:
    return PROGRAM.replace("IMPORT", imported).replace("OWN", above).replace("BODY", body)


@pytest.mark.parametrize("how", SORTS)
def test_a_sort_of_inductors_selects_through(how: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, _text(*SORTS[how]), "05_topk_bitonic")
    assert "builtin-op-sidestep" in {f.leak_class for f in report.findings}, (report.verdict, report.promises)


@pytest.mark.parametrize("how", OWN_SORTS)
def test_a_selection_of_the_kernel_is_its_own_by(how: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, _text(*OWN_SORTS[how]), "05_topk_bitonic")
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread, report.promises)
    assert {promise.state for promise in report.promises} == {"kept"}
