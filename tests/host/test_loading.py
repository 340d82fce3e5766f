"""Weights that a submission loads by code of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

HEAD = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.empty(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.empty(K // 128, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.empty(K // 128, N, dtype=torch.bfloat16))
        self.register_buffer("_wide", torch.empty(K, N, dtype=torch.bfloat16), persistent=False)
        HOOK

    def expand(self):
        nibbles = torch.stack([self.w_q & 0xF, self.w_q >> 4], 1).reshape(-1, self.w_q.shape[1])
        zeros = self.zeros.repeat_interleave(128, 0)
        self._wide.copy_((nibbles.to(torch.bfloat16) - zeros) * self.scales.repeat_interleave(128, 0))

    def forward(self, x):
        return x @ self._wide
"""
OVERRIDE = """
    def load_state_dict(self, state, strict=True):
        loaded = super().load_state_dict(state, strict)
        self.expand()
        return loaded
"""
PRIVATE = """
    def _load_from_state_dict(self, state, prefix, *rest):
        super()._load_from_state_dict(state, prefix, *rest)
        self.expand()
"""
HOOK = "self.register_load_state_dict_post_hook(lambda module, keys: module.expand())"


@pytest.mark.parametrize(
    "source",
    [HEAD.replace("HOOK", "pass") + OVERRIDE, HEAD.replace("HOOK", "pass") + PRIVATE, HEAD.replace("HOOK", HOOK)],
    ids=["load_state_dict", "_load_from_state_dict", "a hook"],
)
def test_a_weight_expanded_while_loading_is_expanded(source: str, tmp_path: Path) -> None:
    file = report_of(tmp_path, source, "07_w4a16_gemm")
    assert "preunpacked-int4" in {finding.leak_class for finding in file.findings}
    assert {promise.id: promise.state for promise in file.promises}["int4-packed"] == "broken"
