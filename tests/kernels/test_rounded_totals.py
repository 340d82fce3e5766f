"""A total of products that a loop rounds to a narrow type is as narrow as an accumulator of that type."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = """# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rounded_sum(total, part):
    return (total + part).to(tl.bfloat16)


@triton.jit
def product(a, at, w):
    return tl.dot(a, tl.load(w + at))


@triton.jit
def halves(total):
    high = total.to(tl.bfloat16)
    return high, (total - high.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def swiglu(x, gate, up, offsets, y, H, I, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    expert = tl.program_id(0)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    last = tl.load(offsets + expert + 1)
    for first in range(tl.load(offsets + expert), last, BM):
        rows = first + tl.arange(0, BM)
        keep = (rows < last)[:, None]
        g = tl.zeros((BM, BN), dtype=tl.KEPT)
        u = tl.zeros((BM, BN), dtype=tl.KEPT)
        for k in range(0, H, BK):
            depth = k + tl.arange(0, BK)
            a = tl.load(x + rows[:, None] * H + depth[None, :], mask=keep, other=0.0)
            at = (expert * H + depth)[:, None] * I + cols[None, :]
            GATE
            UP
        g, u = g.to(tl.float32), u.to(tl.float32)
        g = g * tl.sigmoid(g) * u
        g = g.to(tl.bfloat16)
        tl.store(y + rows[:, None] * I + cols[None, :], g, mask=keep)


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        x, gate, up = hidden_states, self.W_gate, self.W_up
        E, H, I = gate.shape
        y = torch.empty(x.shape[0], I, dtype=torch.bfloat16, device=x.device)
        swiglu[(E, I // 128)](x, gate, up, expert_offsets, y, H, I, BM=64, BN=128, BK=64)
        return y
"""
PART = "tl.dot(a, tl.load({w} + at))"
ROUNDED = {
    "added, then converted": ("bfloat16", f"{{v}} = ({{v}} + {PART}).to(tl.bfloat16)"),
    "converted, then added": ("bfloat16", f"{{v}} = {{v}} + {PART}.to(tl.bfloat16)"),
    "added on": ("bfloat16", f"{{v}} += {PART}.to(tl.bfloat16)"),
    "given to the product": ("float16", "{v} = tl.dot(a, tl.load({w} + at), {v}.to(tl.float32)).to(tl.float16)"),
    "and widened again": ("float32", "{v} = tl.dot(a, tl.load({w} + at), {v}).to(tl.bfloat16).to(tl.float32)"),
    "in a statement of its own": (
        "float32",
        "{v} = {v} * 1.0 + " + PART + "\n            {v} = {v}.to(tl.bfloat16).to(tl.float32)",
    ),
    "by another name": (
        "bfloat16",
        "more_{v} = {v}.to(tl.float32) + " + PART + "\n            {v} = more_{v}.to(tl.bfloat16)",
    ),
    "by a function": ("bfloat16", f"{{v}} = rounded_sum({{v}}, {PART})"),
    "a product by a function": ("bfloat16", "{v} = ({v} + product(a, at, {w})).to(tl.bfloat16)"),
    "both by functions": ("bfloat16", "{v} = rounded_sum({v}, product(a, at, {w}))"),
    "chosen": (
        "float32",
        f"old_{{v}} = tl.where(k > 0, {{v}}, 0.0)\n            {{v}} = old_{{v}} + {PART}\n"
        "            {v} = {v}.to(tl.bfloat16).to(tl.float32)",
    ),
    "turned over": (
        "float32",
        f"low_{{v}} = tl.trans({{v}} + {PART}).to(tl.bfloat16)\n            {{v}} = tl.trans(low_{{v}}).to(tl.float32)",
    ),
    "after a scale": ("float32", f"{{v}} = tl.cast(tl.cast({{v}} * 1.0 + {PART}, tl.bfloat16), tl.float32)"),
}
WIDE = {
    "by the product": ("float32", "{v} = tl.dot(a, tl.load({w} + at), {v})"),
    "added": ("float32", f"{{v}} = {{v}} + {PART}"),
    "of an operand": ("float32", "{v} = tl.dot(a.to(tl.bfloat16), tl.load({w} + at).to(tl.bfloat16), {v})"),
    "of a group": (
        "float32",
        "part = tl.zeros((BM, BN), dtype=tl.bfloat16)\n"
        f"            for half in range(2):\n                part = (part + {PART}).to(tl.bfloat16)\n"
        "            {v} += part.to(tl.float32)",
    ),
    "of a copy by another name": (
        "float32",
        "more_{v} = {v} + " + PART + "\n            seen = more_{v}.to(tl.bfloat16)\n            {v} = more_{v}",
    ),
    "begun in each round": (
        "float32",
        "part = "
        + PART
        + "\n            part = part.to(tl.bfloat16).to(tl.float32)\n            {v} = {v} + part * 0.0 + "
        + PART,
    ),
    "by functions": ("float32", "{v} = {v} + product(a, at, {w})"),
    "by a function that rounds a part": (
        "float32",
        "part_{v} = rounded_sum(product(a, at, {w}), 0.0)\n            {v} = {v} + part_{v}.to(tl.float32)",
    ),
    "of high and low parts": (
        "float32",
        f"more_{{v}} = {{v}} + {PART}\n            high_{{v}}, low_{{v}} = halves(more_{{v}})\n"
        "            {v} = high_{v}.to(tl.float32) + low_{v}.to(tl.float32)",
    ),
    "of high and low parts that are kept": (
        "float32",
        "rest_{v} = {v} - {v}.to(tl.bfloat16).to(tl.float32)\n"
        f"            {{v}} = {{v}}.to(tl.bfloat16).to(tl.float32) + rest_{{v}} + {PART}",
    ),
    "of a copy": ("float32", f"{{v}} += {PART}\n            seen = {{v}}.to(tl.bfloat16)"),
}


def text(kept: str, step: str) -> str:
    made = TEXT.replace("KEPT", kept).replace("GATE", step.format(v="g", w="gate"))
    return made.replace("            UP\n", f"            {step.format(v='u', w='up')}\n")


@pytest.mark.parametrize("kept, step", ROUNDED.values(), ids=ROUNDED)
def test_a_total_that_is_rounded_in_a_loop_is_narrow(tmp_path: Path, kept: str, step: str) -> None:
    report = report_of(tmp_path, text(kept, step))
    assert [finding.rule for finding in report.findings] == ["KBH403"] * (
        1 if "(a, at" in step or "_sum(" in step else 2
    )
    assert all("accumulators" in finding.message for finding in report.findings)


@pytest.mark.parametrize("kept, step", WIDE.values(), ids=WIDE)
def test_what_else_is_converted_is_no_total(tmp_path: Path, kept: str, step: str) -> None:
    assert report_of(tmp_path, text(kept, step)).verdict in {"clean", "interesting"}
