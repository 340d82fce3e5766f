"""Patch embedding in Triton as one GEMM: a kernel lays the patches out as rows, another multiplies them.

y[embedding, patch] = sum over k of weight[embedding, k] * rows[patch, k], k = (channel, dt, dh, dw). The rows of a
patch in x are only kW elements long and start on any even address, so a GEMM that gathers them itself copies four
bytes at a time, once for every tile of embeddings. Copied once into rows that start on 128 bytes, they come through TMA
like any operand; what lies beyond the depth or the last patch reads as zero. The result is made as [embedding, patch],
the order of y.

Both kernels say how many elements lie together, which Triton cannot see: the copy reads the largest power of two that
divides kW and W, the product writes the largest that divides the patches of an image.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def lay_out_patches(
    x, rows, T, H, W, grid_t, grid_h, grid_w, patches, pitch,
    C: tl.constexpr, KT: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, VECTOR: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """rows[patch, :C*KT*KH*KW] = the patch; one program some patches and a block of their depth."""
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
    tl.store(rows + patch[:, None] * pitch + k[None, :], value, mask=inside)


@triton.jit
def embed_rows(
    rows, weight, y, patches, embed, DEPTH: tl.constexpr, PLACES: tl.constexpr, VECTOR: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One tile [BLOCK_E embeddings, BLOCK_P patches] of y; of the PLACES patches of an image VECTOR lie together."""
    first_embedding = tl.program_id(0) * BLOCK_E
    first_patch = tl.program_id(1) * BLOCK_P
    accumulator = tl.zeros((BLOCK_E, BLOCK_P), dtype=tl.float32)
    for k in range(0, DEPTH, BLOCK_K):
        a = weight.load([first_embedding, k])
        b = rows.load([first_patch, k])
        accumulator = tl.dot(a, b.T, accumulator)
    embedding = first_embedding + tl.arange(0, BLOCK_E)
    patch = first_patch + tl.arange(0, BLOCK_P)
    place = patch // PLACES * (embed * PLACES) + patch % PLACES
    place = tl.max_contiguous(tl.multiple_of(place, VECTOR), VECTOR)
    target = y + (place[None, :] + embedding[:, None] * PLACES)
    tl.store(target, accumulator.to(tl.bfloat16), mask=(embedding[:, None] < embed) & (patch[None, :] < patches))


def tiles(embed: int, patches: int) -> tuple[int, int, int, int]:
    """Embeddings and patches of a tile, stages and warps: small tiles where large ones would leave processors idle."""
    large = triton.cdiv(embed, 128) * triton.cdiv(patches, 128)
    if large < 64:
        return 64, 64, 6, 4
    return (128, 128, 4, 8) if large <= 132 else (128, 128, 3, 4)


class Model(nn.Module):
    """x [B, C, T, H, W] bf16 -> [B, embed_dim, T/kT, H/kH, W/kW] bf16; the stride is the kernel, without bias."""

    def __init__(self, B: int, C: int, T: int, H: int, W: int, kT: int, kH: int, kW: int, embed_dim: int) -> None:
        super().__init__()
        self.size = (kT, kH, kW)
        self.conv = nn.Conv3d(C, embed_dim, self.size, stride=self.size, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        b, c, t, h, w = x.shape
        kt, kh, kw = self.size
        grid_t, grid_h, grid_w = t // kt, h // kh, w // kw
        places = grid_t * grid_h * grid_w
        patches = b * places
        weight = self.conv.weight.flatten(1)
        embed, depth = weight.shape
        if depth % 8:  # TMA wants rows that start on 16 bytes
            weight = nn.functional.pad(weight, (0, -depth % 8))
        pitch = (depth + 63) // 64 * 64  # and reads rows that start on 128 bytes faster
        rows = torch.empty((patches, pitch), dtype=x.dtype, device=x.device)
        y = torch.empty((b, embed, grid_t, grid_h, grid_w), dtype=torch.bfloat16, device=x.device)
        lay_out_patches[(triton.cdiv(patches, 8), triton.cdiv(depth, 256))](
            x, rows, t, h, w, grid_t, grid_h, grid_w, patches, pitch,
            C=c, KT=kt, KH=kh, KW=kw, VECTOR=math.gcd(math.gcd(kw, w), 8), BLOCK_P=8, BLOCK_K=256, num_warps=4,
        )
        block_e, block_p, stages, warps = tiles(embed, patches)
        block_k = 64
        embed_rows[(triton.cdiv(embed, block_e), triton.cdiv(patches, block_p))](
            TensorDescriptor(rows, [patches, depth], [pitch, 1], [block_p, block_k]),
            TensorDescriptor(weight, [embed, depth], [weight.shape[1], 1], [block_e, block_k]),
            y, patches, embed, DEPTH=depth, PLACES=places, VECTOR=math.gcd(places, 8),
            BLOCK_E=block_e, BLOCK_P=block_p, BLOCK_K=block_k, num_stages=stages, num_warps=warps,
        )
        return y
