"""A kernel that moves elements about by what they are selects, though it computes nothing with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = r'''# kbh: problem=05_topk_bitonic
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
__device__ void ordered(int& a, int& b, int& at_a, int& at_b, bool down) {
  MOVE
}
__global__ void rounds(int* keys, int* places, int n, int size, int stride) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = i ^ stride;
  if (j <= i || j >= n) return;
  int* k = keys + (long)blockIdx.y * n;
  int* p = places + (long)blockIdx.y * n;
  int a = k[i], b = k[j], at_a = p[i], at_b = p[j];
  ordered(a, b, at_a, at_b, (i & size) == 0);
  k[i] = a; k[j] = b; p[i] = at_a; p[j] = at_b;
}
void order(at::Tensor keys, at::Tensor places) {
  const int n = keys.size(1);
  for (int size = 2; size <= n; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2)
      rounds<<<dim3((n + 255) / 256, keys.size(0)), 256>>>(keys.data_ptr<int>(), places.data_ptr<int>(), n, size,
                                                           stride);
}
"""
ext = load_inline("o", cpp_sources="void order(at::Tensor keys, at::Tensor places);", cuda_sources=SOURCE,
                  functions=["order"])


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        rows, n = x.shape
        room = 1 << (n - 1).bit_length()
        keys = x.view(torch.int32)
        keys = torch.where(keys < 0, keys ^ 0x7FFFFFFF, keys)
        keys = torch.nn.functional.pad(keys, (0, room - n), value=-(2**31))
        places = torch.arange(room, device=x.device, dtype=torch.int32).expand(rows, room).contiguous()
        ext.order(keys, places)
        chosen = places[:, : self.k].to(torch.int64)
        return torch.gather(x, 1, chosen), chosen
'''
MOVES = {
    "an exchange": ("if ((a < b) == down) { int t = a; a = b; b = t; t = at_a; at_a = at_b; at_b = t; }", "kept"),
    "an exchange by a choice": (
        "const bool other = (a < b) == down; const int t = a, p = at_a; a = other ? b : a; b = other ? t : b; "
        "at_a = other ? at_b : at_a; at_b = other ? p : at_b;", "kept",
    ),
    "by places alone": ("if (down) { int t = a; a = b; b = t; t = at_a; at_a = at_b; at_b = t; }", "unproven"),
    "nothing": ("at_a = at_a;", "unproven"),
}  # fmt: skip


@pytest.mark.parametrize("how", MOVES)
def test_who_compares_and_moves_selects(tmp_path: Path, how: str) -> None:
    move, state = MOVES[how]
    report = report_of(tmp_path, TEXT.replace("MOVE", move))
    (promise,) = report.promises
    assert promise.state == state, promise
