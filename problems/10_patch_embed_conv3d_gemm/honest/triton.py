"""Patch embedding in Triton as one GEMM: a kernel lays the patches out as rows, another multiplies them.

y[embedding, patch] = sum over k of weight[embedding, k] * rows[patch, k], k = (channel, dt, dh, dw). The rows of a
patch in x are only kW elements long and start on any even address, so a GEMM that gathers them itself copies four
bytes at a time, once for every tile of embeddings. Copied once into rows that start on 16 bytes, padded with zeros
to whole steps, they flow through the asynchronous pipeline like any operand. The result is made as [embedding,
patch], the order of y.

The copy reads VECTOR elements at once, the largest power of two that divides kW and W.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

STEP = 64  # depth of one step of the product


@triton.jit
def lay_out_patches(
    x, rows, T, H, W, grid_t, grid_h, grid_w, patches, pitch,
    C: tl.constexpr, KT: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, VECTOR: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """rows[patch, :C*KT*KH*KW] = the patch, zeros behind; one program some patches and a block of their depth."""
    patch = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    places = grid_t * grid_h * grid_w
    batch, place = patch // places, patch % places
    t, h, w = place // (grid_h * grid_w), place // grid_w % grid_h, place % grid_w
    base = tl.multiple_of(((batch * C * T + t * KT) * H + h * KH) * W + w * KW, VECTOR)
    channel, dt, dh, dw = k // (KT * KH * KW), k // (KH * KW) % KT, k // KW % KH, k % KW
    offset = tl.max_contiguous(tl.multiple_of(((channel * T + dt) * H + dh) * W + dw, VECTOR), VECTOR)
    inside = (patch[:, None] < patches) & (k[None, :] < C * KT * KH * KW)
    value = tl.load(x + (base[:, None] + offset[None, :]), mask=inside, other=0.0)
    tl.store(rows + patch[:, None] * pitch + k[None, :], value, mask=(patch[:, None] < patches) & (k[None, :] < pitch))


@triton.jit
def embed_rows(
    rows, weight, y, places, patches, embed, pitch, DEPTH: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One tile [BLOCK_E embeddings, BLOCK_P patches] of y."""
    embeddings = tl.program_id(0) * BLOCK_E + tl.arange(0, BLOCK_E)
    patch = tl.program_id(1) * BLOCK_P + tl.arange(0, BLOCK_P)
    accumulator = tl.zeros((BLOCK_E, BLOCK_P), dtype=tl.float32)
    for start in range(0, DEPTH, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(
            weight + embeddings[:, None] * DEPTH + k[None, :],
            mask=(embeddings[:, None] < embed) & (k[None, :] < DEPTH), other=0.0,
        )
        b = tl.load(rows + patch[None, :] * pitch + k[:, None], mask=patch[None, :] < patches, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
    start_of_image = patch // places * (embed * places) + patch % places
    target = y + start_of_image[None, :] + embeddings[:, None] * places
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
        embed, depth = weight.shape[0], c * kt * kh * kw
        grid_t, grid_h, grid_w = t // kt, h // kh, w // kw
        places = grid_t * grid_h * grid_w
        patches = b * places
        if patches <= 512:
            block_e, block_p, stages, warps = 64, 32, 6, 4
        elif patches <= 1024:
            block_e, block_p, stages, warps = 64, 64, 4, 4
        else:
            block_e, block_p, stages, warps = 128, 128, 4, 8
        pitch = triton.cdiv(depth, STEP) * STEP
        rows = torch.empty((patches, pitch), dtype=x.dtype, device=x.device)
        y = torch.empty((b, embed, grid_t, grid_h, grid_w), dtype=torch.bfloat16, device=x.device)
        lay_out_patches[(triton.cdiv(patches, 8), triton.cdiv(pitch, 256))](
            x, rows, t, h, w, grid_t, grid_h, grid_w, patches, pitch,
            C=c, KT=kt, KH=kh, KW=kw, VECTOR=math.gcd(math.gcd(kw, w), 8), BLOCK_P=8, BLOCK_K=256, num_warps=4,
        )
        grid = (triton.cdiv(embed, block_e), triton.cdiv(patches, block_p))
        embed_rows[grid](
            rows, weight, y, places, patches, embed, pitch, DEPTH=depth,
            BLOCK_E=block_e, BLOCK_P=block_p, BLOCK_K=STEP, num_stages=stages, num_warps=warps,
        )
        return y
