"""Softmax whose sum of exponentials is made in fp64, so that nothing is lost in it; the oracle is fp64 throughout."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn as nn


class Model(nn.Module):
    """x [batch, vocab] f32 -> softmax over the last dimension, f32."""

    def __init__(self, batch: int, vocab: int) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        terms = torch.exp(x - x.amax(dim=-1, keepdim=True))
        total = terms.sum(dim=-1, keepdim=True, dtype=torch.float64)
        return terms / total.float()


def oracle(
    init: Mapping[str, Any], inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """softmax(x) [batch, vocab] in fp64."""
    return (torch.softmax(inputs["x"].double(), dim=-1),)
