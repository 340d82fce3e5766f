"""The least precise result that is still right: fp32 sums, rounded once to bf16."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def legal(
    init: Mapping[str, Any], inputs: Mapping[str, Tensor], state: Mapping[str, Tensor], precision: Mapping[str, str]
) -> tuple[Tensor, ...]:
    """y [M,N] bf16."""
    return ((inputs["x"].float() @ state["weight"].float().T).to(torch.bfloat16),)
