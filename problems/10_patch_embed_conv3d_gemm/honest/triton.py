"""Patch embedding in Triton as one implicit GEMM: patches are gathered by address, nothing is unfolded in memory.

y[embedding, patch] = sum over k of weight[embedding, k] * x[base(patch) + offset(k)], k = (channel, dt, dh, dw).
The address of an element is the sum of a part that depends on the patch alone and one that depends on k alone, so
the gather costs one addition an element. Rows of a patch are kW elements that lie together: with VECTOR, the
largest power of two that divides kW and W, Triton is told so and copies that many at once, asynchronously.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def patch_embed(
    x, weight, y, T, H, W, grid_t, grid_h, grid_w, patches, embed,
    C: tl.constexpr, KT: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, VECTOR: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One tile [BLOCK_E embeddings, BLOCK_P patches] of y."""
    DEPTH: tl.constexpr = C * KT * KH * KW
    embeddings = tl.program_id(0) * BLOCK_E + tl.arange(0, BLOCK_E)
    patch = tl.program_id(1) * BLOCK_P + tl.arange(0, BLOCK_P)
    places = grid_t * grid_h * grid_w
    batch, place = patch // places, patch % places
    t, h, w = place // (grid_h * grid_w), place // grid_w % grid_h, place % grid_w
    base = tl.multiple_of(((batch * C * T + t * KT) * H + h * KH) * W + w * KW, VECTOR)
    accumulator = tl.zeros((BLOCK_E, BLOCK_P), dtype=tl.float32)
    for start in range(0, DEPTH, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        channel, dt, dh, dw = k // (KT * KH * KW), k // (KH * KW) % KT, k // KW % KH, k % KW
        offset = ((channel * T + dt) * H + dh) * W + dw
        offset = tl.max_contiguous(tl.multiple_of(offset, VECTOR), VECTOR)
        rows = tl.load(
            weight + embeddings[:, None] * DEPTH + k[None, :],
            mask=(embeddings[:, None] < embed) & (k[None, :] < DEPTH), other=0.0,
        )
        columns = tl.load(
            x + (base[None, :] + offset[:, None]), mask=(k[:, None] < DEPTH) & (patch[None, :] < patches), other=0.0
        )
        accumulator = tl.dot(rows, columns, accumulator)
    target = y + (batch * embed * places + place)[None, :] + embeddings[:, None] * places
    tl.store(target, accumulator.to(tl.bfloat16), mask=(embeddings[:, None] < embed) & (patch[None, :] < patches))


class Model(nn.Module):
    """x [B, C, T, H, W] bf16 -> [B, embed_dim, T/kT, H/kH, W/kW] bf16; the stride is the kernel, without bias."""

    def __init__(self, B: int, C: int, T: int, H: int, W: int, kT: int, kH: int, kW: int, embed_dim: int) -> None:
        super().__init__()
        self.size = (kT, kH, kW)
        self.conv = nn.Conv3d(C, embed_dim, self.size, stride=self.size, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, weight = x.contiguous(), self.conv.weight.contiguous()
        b, c, t, h, w = x.shape
        kt, kh, kw = self.size
        embed = weight.shape[0]
        grid_t, grid_h, grid_w = t // kt, h // kh, w // kw
        patches = b * grid_t * grid_h * grid_w
        y = torch.empty((b, embed, grid_t, grid_h, grid_w), dtype=torch.bfloat16, device=x.device)
        block_e, block_p = (64, 32) if patches <= 1024 else (128, 128)
        grid = (triton.cdiv(embed, block_e), triton.cdiv(patches, block_p))
        patch_embed[grid](
            x, weight, y, t, h, w, grid_t, grid_h, grid_w, patches, embed,
            C=c, KT=kt, KH=kh, KW=kw, VECTOR=math.gcd(math.gcd(kw, w), 8),
            BLOCK_E=block_e, BLOCK_P=block_p, BLOCK_K=64, num_stages=4, num_warps=4,
        )
        return y
