"""Wrong rotations: axes, sections, halves or heads mistaken in one place."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.nn as nn

from grader.mutation import Mutant, generic

from .reference import Model


class Rotary(nn.Module):
    """The rotation in fp32 with one `fault` in it; no fault is the right one."""

    def __init__(self, fault: str, init: Mapping[str, Any]) -> None:
        super().__init__()
        self.fault, self.section, self.rows = fault, [int(n) for n in init["mrope_section"]], int(init["max_pos"])
        for name in ("cos_cache", "sin_cache"):
            self.register_buffer(name, torch.empty(self.rows, init["D"], dtype=torch.bfloat16))

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, pos_t: torch.Tensor, pos_h: torch.Tensor, pos_w: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        positions = [self.position(at) for at in (pos_t, pos_h, pos_w)]
        cos, sin = self.angles(self.cos_cache, positions), self.angles(self.sin_cache, positions)
        turned = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        if self.fault == "key-not-turned":
            turned = turned[0], k.transpose(1, 2).clone(memory_format=torch.contiguous_format)
        if self.fault == "heads-before-time":
            # The right numbers in the input's order: a reshape where a transpose was asked for.
            turned = tuple(t.transpose(1, 2).reshape(t.shape) for t in turned)
        if self.fault == "key-heads-shared":
            turned = turned[0], turned[1][:, :1].expand_as(turned[1]).contiguous()
        if self.fault == "last-query-head":
            turned[0][:, -1] = 0
        if self.fault == "last-token":
            turned[1][:, :, -1] = k.transpose(1, 2)[:, :, -1]
        return turned

    def position(self, at: torch.Tensor) -> torch.Tensor:
        changed = {
            "position-one-off": (at - 1).clamp(min=0),
            "last-position-clamped": at.clamp(max=self.rows - 2),
            "position-zero-is-one": at.clamp(min=1),
            "position-wraps": at % (self.rows // 2),
            "position-of-the-first-token": at[:, :1].expand_as(at),
        }
        return changed.get(self.fault, at)

    def angles(self, cache: torch.Tensor, positions: list[torch.Tensor]) -> torch.Tensor:
        section = list(self.section)
        if self.fault == "boundary-one-off":
            section = [section[0] + 1, section[1] - 1, section[2]]
        order = {
            "time-only": [0] * 6,
            "height-and-width-exchanged": [0, 2, 1] * 2,
            "second-half-by-time": [0, 1, 2, 0, 0, 0],
            "axes-reversed-in-second-half": [0, 1, 2, 2, 1, 0],
        }.get(self.fault, [0, 1, 2] * 2)
        if self.fault == "axes-reversed-in-second-half":
            section = section + section[::-1]
        else:
            section = section * 2
        pieces = [cache[at].split(section, dim=-1) for at in positions]
        return torch.cat([pieces[axis][i] for i, axis in enumerate(order)], dim=-1)[:, None].float()

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x.transpose(1, 2).float()
        if self.fault == "neighbours-paired":
            turned = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
        else:
            left, right = x.chunk(2, dim=-1)
            turned = torch.cat((-right, left), dim=-1)
        if self.fault == "turns-backwards":
            turned = -turned
        if self.fault == "no-sign":
            turned = turned.abs() * x.roll(x.shape[-1] // 2, -1).sign()
        if self.fault == "cosine-only":
            turned = torch.zeros_like(turned)
        products = x * cos, turned * sin
        if self.fault == "bf16-arithmetic":
            products = tuple(p.to(torch.bfloat16).float() for p in products)
        if self.fault == "fp8-tables":
            products = x * cos.to(torch.float8_e4m3fn).float(), turned * sin.to(torch.float8_e4m3fn).float()
        return (products[0] + products[1]).to(torch.bfloat16).contiguous()


FAULTS = {
    "time-only": "All sections take the time position.",
    "height-and-width-exchanged": "Height and width change places.",
    "second-half-by-time": "The second half of the channels takes the time position.",
    "axes-reversed-in-second-half": "The second half of the channels has its sections in falling order.",
    "boundary-one-off": "The boundary between time and height is one channel too far.",
    "neighbours-paired": "Neighbouring channels are paired instead of the two halves.",
    "turns-backwards": "The sine has the wrong sign.",
    "no-sign": "The left half is not negated.",
    "cosine-only": "The sine's part is left out.",
    "key-not-turned": "k is returned as it came.",
    "key-heads-shared": "All heads of k are the first one.",
    "heads-before-time": "The output is laid out as the input was, with time before heads.",
    "last-query-head": "The last head of q is left at zero.",
    "last-token": "The last token of k is not turned.",
    "position-one-off": "Rows of the tables are taken one too early.",
    "last-position-clamped": "The last row of the tables is never read.",
    "position-zero-is-one": "Position 0 is taken for 1.",
    "position-wraps": "Positions wrap at half of the table.",
    "position-of-the-first-token": "All tokens have the first one's positions.",
    "bf16-arithmetic": "Both products are rounded to bf16 before they are added.",
    "fp8-tables": "The tables are read as e4m3.",
}

MUTANTS = (*generic(Model), *(Mutant(fault, idea, partial(Rotary, fault)) for fault, idea in FAULTS.items()))
