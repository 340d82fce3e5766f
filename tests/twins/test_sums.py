"""A compensated sum is found however its two numbers are held; without the compensation it is a plain sum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from linted import report_of

ROWS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "sums.yaml").read_text())
CAREFUL = "float q = v - C; float t = S + q; C = (t - S) - q; S = t;"
PLAIN = "S += v; C = 0.f;"
PYTHON = '''import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
PRE
__global__ void soft(const float* __restrict__ x, float* __restrict__ y, int n) {
  const float* row = x + (size_t)blockIdx.x * n;
  float m = -1e38f;
  for (int i = 0; i < n; ++i) m = fmaxf(m, row[i]);
  INIT
  for (int i = 0; i < n; ++i) { const float v = expf(row[i] - m); ADD }
  const float r = 1.f / (TOTAL);
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[(size_t)blockIdx.x * n + i] = expf(row[i] - m) * r;
}
at::Tensor run(at::Tensor x) {
  auto y = at::empty_like(x);
  soft<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""
ext = load_inline("sums", cpp_sources="at::Tensor run(at::Tensor x);", cuda_sources=SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return ext.run(x)
'''


def solution(row: dict[str, Any], step: str) -> str:
    """The submission that holds its sum as a row says."""
    step = step.replace("S", row["sum"]).replace("C", row["error"])
    text = PYTHON.replace("PRE", row.get("pre", "")).replace("INIT", row["init"]).replace("ADD", row["step"])
    return text.replace("STEP", step).replace("TOTAL", row["total"])


@pytest.mark.share(3)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
@pytest.mark.parametrize("step", [CAREFUL, PLAIN], ids=["compensated", "plain"])
def test_a_sum_is_told_however_it_is_held(tmp_path: Path, row: dict[str, Any], step: str) -> None:
    report = report_of(tmp_path, solution(row, step), "04_kahan_softmax")
    verdicts = {"clean"} if step == CAREFUL else {"rubric_leak", "reward_hack"}
    said = [(finding.rule, finding.message) for finding in report.findings], report.promises
    assert report.verdict in verdicts | ({"unproven"} if row.get("open") else set()), said
