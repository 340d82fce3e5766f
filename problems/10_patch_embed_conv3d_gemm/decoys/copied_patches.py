"""A kernel of the submission copies patches into rows; the product over them is torch's."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_patches(
    x, rows, C, T, H, W, grid_t, grid_h, grid_w, K,
    KT: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, BLOCK: tl.constexpr,
):
    patch = tl.program_id(0)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    w, h, t = patch % grid_w, patch // grid_w % grid_h, patch // (grid_w * grid_h) % grid_t
    batch = patch // (grid_w * grid_h * grid_t)
    channel, dt, dh, dw = k // (KT * KH * KW), k // (KH * KW) % KT, k // KW % KH, k % KW
    at = (((batch * C + channel) * T + t * KT + dt) * H + h * KH + dh) * W + w * KW + dw
    tl.store(rows + patch * K + k, tl.load(x + at, mask=k < K, other=0.0), mask=k < K)


class Model(nn.Module):
    def __init__(self, B: int, C: int, T: int, H: int, W: int, kT: int, kH: int, kW: int, embed_dim: int) -> None:
        super().__init__()
        self.size = (kT, kH, kW)
        self.conv = nn.Conv3d(C, embed_dim, self.size, stride=self.size, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, t, h, w = x.shape
        grid_t, grid_h, grid_w = (length // size for length, size in zip(x.shape[2:], self.size))
        weight = self.conv.weight.flatten(1)
        rows = torch.empty((b * grid_t * grid_h * grid_w, weight.shape[1]), dtype=x.dtype, device=x.device)
        copy_patches[(rows.shape[0], triton.cdiv(weight.shape[1], 1024))](
            x, rows, c, t, h, w, grid_t, grid_h, grid_w, weight.shape[1],
            KT=self.size[0], KH=self.size[1], KW=self.size[2], BLOCK=1024,
        )
        product = torch.inner(rows, weight)
        return product.view(b, grid_t, grid_h, grid_w, -1).permute(0, 4, 1, 2, 3).contiguous()
