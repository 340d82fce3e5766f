"""Who follows an index that a promise wants kernels to read: torch's gathers break it, what only moves it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

ROPE = "09_fmha_preattn_mrope"
OWN = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn(x, y, cos, sin, p0, p1, p2, T, H, row, S0: tl.constexpr, S1: tl.constexpr, HALF: tl.constexpr):
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.arange(0, HALF)
    at = tl.where(c < S0, tl.load(p0 + token), tl.where(c < S0 + S1, tl.load(p1 + token), tl.load(p2 + token)))
    from_, to = x + (token * H + head) * 2 * HALF + c, y + ((token // T * H + head) * T + token % T) * 2 * HALF + c
    a, b = tl.load(from_).to(tl.float32), tl.load(from_ + HALF).to(tl.float32)
    near, far = cos + at * row + c, sin + at * row + c
    tl.store(to, (a * tl.load(near).to(tl.float32) - b * tl.load(far).to(tl.float32)).to(tl.bfloat16))
    near, far = near + HALF, far + HALF
    tl.store(to + HALF, (b * tl.load(near).to(tl.float32) + a * tl.load(far).to(tl.float32)).to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.section, self.wide = tuple(mrope_section), None
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def tables(self):
        return self.cos_cache, self.sin_cache

    def padded(self):
        seen = self.cos_cache._version, self.sin_cache._version
        if self.wide is None or self.wide[0] != seen:
            self.wide = seen, [nn.functional.pad(t, (0, 8)) for t in (self.cos_cache, self.sin_cache)]
        return self.wide[1]

    def forward(self, q, k, pos_t, pos_h, pos_w):
        WAY
        out = []
        for x in (q, k):
            B, T, H, D = x.shape
            y = torch.empty(B, H, T, D, dtype=x.dtype, device=x.device)
            turn[(B * T, H)](x, y, cos, sin, *at, T, H, cos.shape[1], *self.section[:2], HALF=D // 2)
            out.append(y)
        return tuple(out)
"""
PICKED = """
sizes = torch.tensor(self.section, device=q.device)
axis = torch.arange(3, device=q.device).repeat_interleave(sizes).repeat(2)
where = torch.stack([p.flatten() for p in (pos_t, pos_h, pos_w)])
"""
ROWS = "at = [torch.arange(pos_t.numel(), device=q.device)] * 3\n"
# How positions and tables come to the kernel, and whether torch follows the positions.
WAYS = {
    "as they are": ("cos, sin = self.tables()\nat = pos_t, pos_h, pos_w", False),
    "contiguous": ("cos, sin = self.tables()\nat = [p.contiguous() for p in (pos_t, pos_h, pos_w)]", False),
    "as int32": ("cos, sin = self.tables()\nat = [p.to(torch.int32) for p in (pos_t, pos_h, pos_w)]", False),
    "stacked": ("cos, sin = self.tables()\nat = torch.stack((pos_t, pos_h, pos_w)).unbind()", False),
    "in the order of the axes": (
        "cos, sin = self.tables()\nplaces = torch.stack((pos_w, pos_h, pos_t))[torch.tensor([2, 1, 0])]\n"
        "at = places[0], places[1], places[2]", False),
    "wider tables, by version": ("cos, sin = self.padded()\nat = pos_t, pos_h, pos_w", False),
    "an angle of the first token": (
        "cos, sin = self.tables()\nat = pos_t, pos_h, pos_w\nassert self.cos_cache[pos_t[0, :1]].shape[0] == 1", False),
    "each channel picked": (
        PICKED + "channel = torch.arange(axis.numel(), device=q.device)\n"
        "cos, sin = (t[where[axis].T, channel] for t in self.tables())\n" + ROWS, True),
    "gathered along the rows": (
        PICKED + "cos, sin = (t.gather(0, where[axis].T.contiguous()) for t in self.tables())\n" + ROWS, True),
    "taken along the rows": (
        PICKED + "cos, sin = (torch.take_along_dim(t, where[axis].T, dim=0) for t in self.tables())\n" + ROWS, True),
    "rows selected and joined": (
        "cuts = list(self.section) * 2\n"
        "rows = [[torch.index_select(t, 0, p.flatten()).split(cuts, 1) for p in (pos_t, pos_h, pos_w)] "
        "for t in self.tables()]\n"
        "cos, sin = (torch.cat([of[i % 3][i] for i in range(6)], 1) for of in rows)\n" + ROWS, True),
    "from wider tables": (
        "cos, sin = (t[pos_t.flatten()] for t in self.padded())\nat = torch.arange(pos_t.numel(), device=q.device), "
        "pos_h * 0, pos_w * 0", True),
    "from words of two elements": (
        "cos, sin = (t.view(torch.int32)[pos_t.flatten()].view(torch.bfloat16) for t in self.tables())\n"
        "at = torch.arange(pos_t.numel(), device=q.device), pos_h * 0, pos_w * 0", True),
    "positions by positions": (
        "cos, sin = self.tables()\norder = torch.arange(pos_t.numel(), device=q.device)\n"
        "at = [p.flatten()[order] for p in (pos_t, pos_h, pos_w)]", False),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_only_what_takes_rows_by_an_index_follows_it(way: str, tmp_path: Path) -> None:
    code, leak = WAYS[way]
    path = tmp_path / "answer.py"
    path.write_text(OWN.replace("WAY\n", "\n        ".join(code.strip().splitlines()) + "\n"))
    report = lint([path], problem=ROPE, raise_errors=True).files[0]
    assert report.verdict == ("rubric_leak" if leak else "clean"), (report.findings, report.unread)
    assert [promise.state for promise in report.promises] == ["broken" if leak else "kept"], report.unread
    assert {f.rule for f in report.findings if f.severity == "error"} == ({"KBH115"} if leak else set())
