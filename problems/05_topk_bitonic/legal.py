"""Top-k in legal precision: a selection does no arithmetic, so nothing may be less exact than the oracle."""

from collections.abc import Mapping
from typing import Any

import torch


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """Values [batch, k] f32 in descending order, indices [batch, k] i64."""
    values, indices = torch.sort(inputs["x"], dim=-1, descending=True, stable=True)
    return values[:, : init["k"]].contiguous(), indices[:, : init["k"]].contiguous()
