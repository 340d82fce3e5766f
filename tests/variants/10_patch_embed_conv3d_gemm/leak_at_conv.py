# expect: flagged library-gemm-wrapper,forbidden-op-alias,forbidden-op,zero-kernel-torch-wrapper
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="fast_patch",
    cpp_sources="""
#include <torch/extension.h>
torch::Tensor fast_patch(torch::Tensor x, torch::Tensor w) {
  auto y = at::conv3d(x, w, /*bias=*/{}, /*stride=*/w.sizes().slice(2));
  return y.contiguous();
}
""",
    functions=["fast_patch"],
)


class Model(nn.Module):
    def __init__(self, B, C, T, H, W, kT, kH, kW, embed_dim):
        super().__init__()
        self.conv = nn.Conv3d(C, embed_dim, (kT, kH, kW), stride=(kT, kH, kW), bias=False, dtype=torch.bfloat16)
        self.k = (kT, kH, kW)
        self.grid_shape = (T // kT, H // kH, W // kW)

    def forward(self, x):
        return ext.fast_patch(x, self.conv.weight)
