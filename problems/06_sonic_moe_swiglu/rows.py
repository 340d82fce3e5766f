"""The oracle at some rows only, for shapes where all of them are too dear, and the rows that are never left out."""

from collections.abc import Mapping
from typing import Any

import torch

from .reference import oracle


def oracle_rows(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    rows: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    """The oracle at `rows` [n] i64, which ascend; [n, I]. An expert has those of them that lie between its offsets."""
    offsets = torch.searchsorted(rows, inputs["expert_offsets"].long())
    return oracle(init, {"hidden_states": inputs["hidden_states"][rows], "expert_offsets": offsets}, state)


def boundary_rows(init: Mapping[str, Any], inputs: Mapping[str, torch.Tensor]) -> list[int]:
    """The first and the last row of every expert that owns any."""
    bounds = inputs["expert_offsets"].tolist()
    owned = [(first, last) for first, last in zip(bounds, bounds[1:]) if first < last]
    return sorted({row for first, last in owned for row in (first, last - 1)})
