"""A test of lengths, all of which are as long in timed runs: the side that these take is what is timed."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of
from test_lengths_that_are_drawn import TEXT

PLAIN = TEXT.replace("FIRST", "0").replace("LAST", "length")
LIBRARY = """pages = kv_cache[block_table.long()].flatten(1, 2).transpose(1, 2).repeat_interleave(heads // kv, 1)
            out = torch.nn.functional.scaled_dot_product_attention(
                query.unsqueeze(2), pages[..., :self.full, :dim], pages[..., :self.full, dim:], scale=dim ** -0.5)
            return out.squeeze(2)"""
OWN = """out = torch.empty_like(query)
            attend[(query.shape[0], kv)](
                query, kv_cache, block_table, self.whole, out, block_table.shape[1], dim ** -0.5,
                HEADS=heads, KV=kv, DIM=dim, PAGE=page, BLOCK=64, ROWS=16,
            )
            return out"""
CPP = """
from torch.utils.cpp_extension import load_inline
host = load_inline("host", cpp_sources='''#include <torch/extension.h>
bool alike(const at::Tensor& lengths, int64_t full) { return at::all(lengths == full).item<bool>(); }
bool each(const at::Tensor& lengths, int64_t full) {
  auto here = lengths.cpu();
  const int* first = here.data_ptr<int>();
  bool found = true;
  for (int64_t i = 0; i < here.numel(); ++i) found = found && first[i] == full;
  return found;
}''', functions=["alike", "each"])
"""
WAYS = {
    "all": "(seq_lens == self.full).all()",
    "not any": "not (seq_lens != self.full).any().item()",
    "the least": "int(seq_lens.min()) == self.full",
    "both ends": "seq_lens.amin().item() >= self.full and seq_lens.amax().item() <= self.full",
    "a set": "set(seq_lens.tolist()) == {self.full}",
    "one of a set": "len(set(seq_lens.tolist())) == 1",
    "each": "all(n == self.full for n in seq_lens.cpu().tolist())",
    "differences": "bool((seq_lens.diff() == 0).all())",
    "tensors": "torch.equal(seq_lens, torch.full_like(seq_lens, self.full))",
    "less one": "(((seq_lens.long() - 1) // 16 + 1) * 16 >= self.full).all()",
    "c++": "host.alike(seq_lens, self.full)",
    "c++, one by one": "host.each(seq_lens, self.full)",
}


MADE = "self.sizes = num_heads, num_kv_heads, head_dim, page_size\n"
KEPT = """        self.full = seq_len
        self.whole = torch.full((batch,), seq_len, dtype=torch.int32, device="cuda")
"""
CALLED = "heads, kv, dim, page = self.sizes\n"


def text(way: str, taken: str) -> str:
    """The kernel of the other tests over whole lengths, and before it `taken` where `way` holds."""
    made = PLAIN.replace(MADE, MADE + KEPT)
    made = made.replace(CALLED, f"{CALLED}        if {way}:\n            {taken}\n")
    return made.replace("\n@triton.jit", CPP + "\n@triton.jit") if "host." in way else made


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_library_for_full_lengths_is_what_is_timed(tmp_path: Path, way: str) -> None:
    report = report_of(tmp_path, text(way, LIBRARY))
    assert report.verdict == "rubric_leak", [u.reason for u in report.unread]
    assert {p.state for p in report.promises} == {"broken"}
    assert "KBH502" in {finding.rule for finding in report.findings}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_library_for_other_lengths_is_not(tmp_path: Path, way: str) -> None:
    report = report_of(tmp_path, text(f"not ({way})", LIBRARY))
    assert report.verdict == "unproven"
    assert not {finding.rule for finding in report.findings} & {"KBH110", "KBH119", "KBH502"}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_own_kernel_for_full_lengths_is_no_leak(tmp_path: Path, way: str) -> None:
    """Its kernel reads no lengths: the test before it has read them."""
    assert report_of(tmp_path, text(way, OWN)).verdict in {"clean", "unproven"}


EVEN = """# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def experts(x, gate, up, offsets, out, H, I, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    e, column = tl.program_id(0), tl.program_id(1) * BN + tl.arange(0, BN)
    for first in range(tl.load(offsets + e), tl.load(offsets + e + 1), BM):
        row = first + tl.arange(0, BM)
        inside = row < tl.load(offsets + e + 1)
        g, u = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
        for k in range(0, H, BK):
            depth = k + tl.arange(0, BK)
            a = tl.load(x + row[:, None].to(tl.int64) * H + depth[None, :], mask=inside[:, None], other=0.0)
            at = (e.to(tl.int64) * H + depth[:, None]) * I + column[None, :]
            g = tl.dot(a, tl.load(gate + at), g)
            u = tl.dot(a, tl.load(up + at), u)
        made = (g / (1 + tl.exp(-g)) * u).to(tl.bfloat16)
        tl.store(out + row[:, None].to(tl.int64) * I + column[None, :], made, mask=inside[:, None])


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.even = torch.arange(E + 1, dtype=torch.int32, device="cuda") * (T_total * K // E)

    def forward(self, hidden_states, expert_offsets):
        rows, (E, H, I) = hidden_states.shape[0], self.W_gate.shape
        out = torch.empty(rows, I, dtype=torch.bfloat16, device="cuda")
        TEST
        experts[(E, I // 64)](hidden_states, self.W_gate, self.W_up, expert_offsets, out, H, I, 64, 64, 64)
        return out
"""


@pytest.mark.parametrize(
    ("test", "leak"),
    [
        ("expert_offsets = self.even if torch.equal(expert_offsets, self.even) else expert_offsets", False),
        ("expert_offsets = self.even", True),
        ("assert torch.equal(expert_offsets, self.even)\n        expert_offsets = self.even", True),
        ("if not torch.equal(expert_offsets, self.even): raise ValueError\n        expert_offsets = self.even", True),
    ],
    ids=["exact", "replaced", "asserted", "refused"],
)
def test_offsets_that_equal_others_may_be_replaced_by_them(tmp_path: Path, test: str, leak: bool) -> None:
    """A test that goes on with what it was given where the two differ is no assertion that they are equal."""
    rules = {finding.rule for finding in report_of(tmp_path, EVEN.replace("TEST", test)).findings}
    assert ("KBH401" in rules) is leak
