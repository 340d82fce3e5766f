# expect: kept
"""Implicit GEMM: patch columns are addressed on the fly, the output is written in channel-first order."""
import torch
import torch.nn as nn
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BM": bm, "BN": bn, "BK": bk}, num_warps=w, num_stages=s)
    for (bm, bn, bk, w, s) in ((64, 64, 32, 4, 4), (64, 128, 32, 4, 3), (128, 128, 64, 8, 3))
]


@triton.autotune(configs=CONFIGS, key=["P", "N", "K"])
@triton.jit
def conv_kernel(x, w, y, P, N, K, C, T, H, W, OT, OH, OW, kT: tl.constexpr, kH: tl.constexpr, kW: tl.constexpr,
                BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    p = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    ow = p % OW
    oh = (p // OW) % OH
    ot = (p // (OW * OH)) % OT
    b = p // (OW * OH * OT)
    row = b * C * T * H * W + ot * kT * H * W + oh * kH * W + ow * kW
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        dw = k % kW
        dh = (k // kW) % kH
        dt = (k // (kW * kH)) % kT
        c = k // (kW * kH * kT)
        col = c * T * H * W + dt * H * W + dh * W + dw
        a = tl.load(x + row[:, None] + col[None, :], mask=(p < P)[:, None] & (k < K)[None, :], other=0.0)
        bt = tl.load(w + n[None, :] * K + k[:, None], mask=(n < N)[None, :] & (k < K)[:, None], other=0.0)
        acc = tl.dot(a, bt, acc)
    spatial = OT * OH * OW
    at = (b * N * spatial + p % spatial)[:, None] + n[None, :] * spatial
    tl.store(y + at, acc.to(tl.bfloat16), mask=(p < P)[:, None] & (n < N)[None, :])


class Model(nn.Module):
    def __init__(self, B, C, T, H, W, kT, kH, kW, embed_dim):
        super().__init__()
        self.conv = nn.Conv3d(C, embed_dim, (kT, kH, kW), stride=(kT, kH, kW), bias=False, dtype=torch.bfloat16)
        self.k = (kT, kH, kW)
        self.grid_shape = (T // kT, H // kH, W // kW)

    def forward(self, x):
        B, C, T, H, W = x.shape
        N = self.conv.out_channels
        K = self.conv.weight[0].numel()
        OT, OH, OW = self.grid_shape
        y = torch.empty(B, N, OT, OH, OW, dtype=x.dtype, device=x.device)
        P = B * OT * OH * OW
        grid = lambda META: (triton.cdiv(P, META["BM"]), triton.cdiv(N, META["BN"]))
        conv_kernel[grid](x.contiguous(), self.conv.weight.flatten(1), y, P, N, K, C, T, H, W, OT, OH, OW, *self.k)
        return y
