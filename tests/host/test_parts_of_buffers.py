"""What a buffer holds that is filled part by part: each part is what was written there, whoever wrote the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint
from kbh_lint.findings import FileReport

ROPE = "09_fmha_preattn_mrope"
PROGRAM = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn(x, y, cos, sin, places, axis_step, token_step, T, H, S0: tl.constexpr, S1: tl.constexpr, HALF: tl.constexpr):
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.arange(0, HALF)
    axis = tl.where(c < S0, 0, tl.where(c < S0 + S1, 1, 2))
    at = tl.load(places + axis * axis_step + token * token_step)
    from_, to = x + (token * H + head) * 2 * HALF + c, y + ((token // T * H + head) * T + token % T) * 2 * HALF + c
    a, b = tl.load(from_).to(tl.float32), tl.load(from_ + HALF).to(tl.float32)
    near, far = cos + at * 2 * HALF + c, sin + at * 2 * HALF + c
    tl.store(to, (a * tl.load(near).to(tl.float32) - b * tl.load(far).to(tl.float32)).to(tl.bfloat16))
    near, far = near + HALF, far + HALF
    tl.store(to + HALF, (b * tl.load(near).to(tl.float32) + a * tl.load(far).to(tl.float32)).to(tl.bfloat16))


@triton.jit
def put(x, room, axis, n, step, apart, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(room + axis * step + i * apart, tl.load(x + i, mask=i < n), mask=i < n)


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.section, self.n, self.room = tuple(mrope_section), B * T, None
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def forward(self, q, k, pos_t, pos_h, pos_w):
        n = self.n
        if self.room is None:
            self.room = torch.empty(SHAPE, dtype=torch.int64, device=q.device)
        room, given = self.room, [p.reshape(-1) for p in (pos_t, pos_h, pos_w)]
        FILL
        steps = room.stride() if room.shape[0] == 3 else room.stride()[::-1]
        out = []
        for x in (q, k):
            B, T, H, D = x.shape
            y = torch.empty(B, H, T, D, dtype=x.dtype, device=x.device)
            turn[(n, H)](x, y, self.cos_cache, self.sin_cache, room, *steps, T, H, *self.section[:2], HALF=D // 2)
            out.append(y)
        return tuple(out)
"""
ROWS, COLUMNS = "(3, n)", "(n, 3)"
FILLS = {
    "rows by number": (ROWS, "for i, p in enumerate(given):\n    room[i] = p"),
    "rows by number, in one another": (ROWS, "for half in (0, 1):\n    for i, p in enumerate(given):\n"
        "        cut = slice(half * n // 2, (half + 1) * n // 2)\n        room[i, cut] = p[cut]"),
    "rows through select": (ROWS, "for i, p in enumerate(given):\n    room.select(0, i).copy_(p)"),
    "rows through narrow": (ROWS, "for i, p in enumerate(given):\n    room.narrow(0, i, 1).copy_(p[None])"),
    "rows by an index": (ROWS, "for i, p in enumerate(given):\n    room[torch.tensor([i], device=q.device)] = p"),
    "rows by index_copy_": (
        ROWS, "for i, p in enumerate(given):\n    room.index_copy_(0, torch.tensor([i], device=q.device), p[None])"),
    "rows by a mask": (
        ROWS, "order = torch.arange(3, device=q.device)\nfor i, p in enumerate(given):\n    room[order == i] = p"),
    "columns by a slice": (COLUMNS, "for i, p in enumerate(given):\n    room[..., i::3] = p[:, None]"),
    "columns of the flat buffer": (COLUMNS, "for i, p in enumerate(given):\n    room.view(-1)[i::3] = p"),
    "columns by number": (COLUMNS, "for i, p in enumerate(given):\n    room[:, i] = p"),
    "columns through unbind": (COLUMNS, "for to, p in zip(room.unbind(1), given):\n    to.copy_(p)"),
    "rows by a kernel": (
        ROWS, "for i, p in enumerate(given):\n    put[(triton.cdiv(n, 256),)](p, room, i, n, n, 1, BLOCK=256)"),
    "columns by a kernel": (
        COLUMNS, "for i, p in enumerate(given):\n    put[(triton.cdiv(n, 256),)](p, room, i, n, 1, 3, BLOCK=256)"),
}  # fmt: skip


def report(folder: Path, shape: str, fill: str) -> FileReport:
    path = folder / "answer.py"
    path.write_text(PROGRAM.replace("SHAPE", shape).replace("FILL\n", "\n        ".join(fill.splitlines()) + "\n"))
    return lint([path], problem=ROPE, raise_errors=True).files[0]


@pytest.mark.parametrize("how", FILLS)
def test_each_part_of_a_kept_buffer_reaches_the_result(how: str, tmp_path: Path) -> None:
    file = report(tmp_path, *FILLS[how])
    assert file.verdict == "clean", (file.findings, file.unread)
    assert [promise.state for promise in file.promises] == ["kept"], file.unread


@pytest.mark.parametrize("how", FILLS)
def test_an_input_that_fills_no_part_does_not_reach_it(how: str, tmp_path: Path) -> None:
    shape, fill = FILLS[how]
    file = report(tmp_path, shape, "given = [given[0], given[0], given[2]]\n" + fill)
    assert [finding.rule for finding in file.findings] == ["KBH401"], (file.findings, file.unread)
    assert [promise.state for promise in file.promises] == ["broken"]


@pytest.mark.parametrize(
    "fill", ["for p in given:\n    room[:] = p", "for p in given:\n    room.copy_(p.expand(3, n))"]
)
def test_what_is_written_over_as_a_whole_does_not_reach_it(fill: str, tmp_path: Path) -> None:
    file = report(tmp_path, ROWS, fill)
    assert [finding.rule for finding in file.findings] == ["KBH401"], (file.findings, file.unread)
