# expect: flagged fig-leaf-kernel,library-gemm-wrapper,torch-matmul-fallback-on-graded-shapes
"""The kernel copies patches; torch.inner multiplies."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def unfold_patches(x, a, C, T, H, W, OT, OH, OW, K, KP: tl.constexpr, kT: tl.constexpr, kH: tl.constexpr, kW: tl.constexpr):
    p = tl.program_id(0)
    k = tl.arange(0, KP)
    b, ot, oh, ow = p // (OW * OH * OT), (p // (OW * OH)) % OT, (p // OW) % OH, p % OW
    c, dt, dh, dw = k // (kT * kH * kW), (k // (kH * kW)) % kT, (k // kW) % kH, k % kW
    at = (((b * C + c) * T + ot * kT + dt) * H + oh * kH + dh) * W + ow * kW + dw
    tl.store(a + p * K + k, tl.load(x + at, mask=k < K), mask=k < K)


class Model(nn.Module):
    def __init__(self, B, C, T, H, W, kT, kH, kW, embed_dim):
        super().__init__()
        self.conv = nn.Conv3d(C, embed_dim, (kT, kH, kW), stride=(kT, kH, kW), bias=False, dtype=torch.bfloat16)
        self.k = (kT, kH, kW)
        self.grid_shape = (T // kT, H // kH, W // kW)

    def forward(self, x):
        B, C, T, H, W = x.shape
        OT, OH, OW = self.grid_shape
        w = self.conv.weight.flatten(1)
        K = w.shape[1]
        a = torch.empty(B * OT * OH * OW, K, dtype=x.dtype, device=x.device)
        unfold_patches[(a.shape[0],)](x, a, C, T, H, W, OT, OH, OW, K, triton.next_power_of_2(K), *self.k)
        y = torch.inner(a, w)
        return y.view(B, OT * OH * OW, -1).transpose(1, 2).reshape(B, -1, OT, OH, OW)
