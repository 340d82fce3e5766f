"""Lengths of which one and the next are the same to a kernel, which honours them to whole pages or tiles, and kernels
that tell them apart in whatever way."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TRITON = """# kbh: problem=03_paged_attention
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attend(q_ptr, cache, table, lengths, out, pages, scale, HEADS: tl.constexpr, KV: tl.constexpr, DIM: tl.constexpr,
           PAGE: tl.constexpr, LONGEST: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    SHARE: tl.constexpr = HEADS // KV
    b, head = tl.program_id(0), tl.program_id(1)
    rows = tl.arange(0, ROWS)
    dims = tl.arange(0, DIM)
    place = tl.arange(0, BLOCK)
    real = rows < SHARE
    at = (b * HEADS + head * SHARE + rows)[:, None] * DIM + dims[None, :]
    q = tl.load(q_ptr + at, mask=real[:, None], other=0.0)
    length = tl.load(lengths + b)
    last = LAST
    top = tl.full((ROWS,), -1.0e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, DIM), tl.float32)
    for start in range(0, last, BLOCK):
        positions = start + place
        keep = KEEP
        page = tl.load(table + b * pages + positions // PAGE, mask=positions < LONGEST, other=0)
        slot = (page.to(tl.int64) * PAGE + positions % PAGE) * KV + head
        k = tl.load(cache + slot[None, :] * (2 * DIM) + dims[:, None])
        v = tl.load(cache + slot[:, None] * (2 * DIM) + DIM + dims[None, :])
        scores = tl.dot(q, k) * scale
        MASKED
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        shrink = tl.exp(top - new_top)
        p = tl.exp(scores - new_top[:, None])
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p.to(tl.bfloat16), v, acc * shrink[:, None])
        top = new_top
    tl.store(out + at, (acc / total[:, None]).to(tl.bfloat16), mask=real[:, None])


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.sizes, self.longest = (num_heads, num_kv_heads, head_dim, page_size), seq_len

    def forward(self, query, kv_cache, block_table, seq_lens):
        heads, kv, dim, page = self.sizes
        out = torch.empty_like(query)
        attend[(query.shape[0], kv)](
            query, kv_cache, block_table, seq_lens, out, block_table.shape[1], dim ** -0.5,
            HEADS=heads, KV=kv, DIM=dim, PAGE=page, LONGEST=self.longest, BLOCK=64, ROWS=16,
        )
        return out
"""
WHERE = "scores = tl.where(keep[None, :], scores, -1.0e30)"
PAGES = "tl.cdiv(length, PAGE) * PAGE"
TRITON_LEAKS = {
    "whole blocks": ("tl.cdiv(length, BLOCK) * BLOCK", "positions < last", WHERE),
    "whole pages, and what there is at most": (PAGES, "(positions < last) & (positions < LONGEST)", WHERE),
    "pages by a shift": ("length + 15 >> 4 << 4", "positions < tl.minimum(last, LONGEST)", WHERE),
    "pages by their bits": ("length + 15 & -16", "positions < last", WHERE),
    "pages that are counted": ("tl.cdiv(length, PAGE) * PAGE", "positions // PAGE < (length + 15) // PAGE", WHERE),
    "the constant alone": ("tl.cdiv(length, BLOCK) * BLOCK", "positions < LONGEST", WHERE),
    "all but the last page": ("length // PAGE * PAGE", "positions < last", WHERE),
    "a weight of nothing": (PAGES, "positions < last", "scores += tl.where(keep, 0.0, -1.0e30)[None, :]"),
}
TRITON_HONEST = {
    "whole blocks, masked": ("tl.cdiv(length, BLOCK) * BLOCK", "positions < length", WHERE),
    "whole pages, masked by both": (PAGES, "(positions < LONGEST) & (positions < length)", WHERE),
    "all blocks that there can be": ("LONGEST", "positions < length", WHERE),
    "the last position": (PAGES, "positions <= length - 1", WHERE),
    "what is left in a page": (
        PAGES, "(positions // PAGE < length // PAGE) | (positions % PAGE < length % PAGE)", WHERE
    ),
    "a sum that is large": (PAGES, "positions >= length", "scores += tl.where(keep, -1.0e30, 0.0)[None, :]"),
    "a factor": (PAGES, "positions >= length", "scores -= keep.to(tl.float32)[None, :] * 1.0e30"),
    "an arithmetic mask": (
        PAGES, "positions - length", "scores -= tl.maximum(keep + 1, 0).to(tl.float32)[None, :] * 1.0e30"
    ),
    "another count where all is full": (
        PAGES, "(positions < LONGEST) if length == LONGEST else (positions < length)", WHERE
    ),
    "weights that are put to zero": (
        PAGES, "positions < length", "scores = tl.log(tl.exp(scores) * keep.to(tl.float32)[None, :])"
    ),
}  # fmt: skip

CUDA = """# kbh: problem=03_paged_attention
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
#include <cuda_bf16.h>
constexpr int PAGE = 16;
using half2_t = __nv_bfloat162;

__device__ __forceinline__ float add_up(float x) {
  for (int o = 16; o; o >>= 1) x += __shfl_xor_sync(~0u, x, o);
  return x;
}

template <int DIM>
__global__ void attend(const __nv_bfloat16* q, const __nv_bfloat16* cache, const int* table, const int* lengths,
                       __nv_bfloat16* out, int kv, int share, int pages, int longest, float scale) {
  constexpr int EACH = DIM / 32;
  const int b = blockIdx.y, head = blockIdx.x, lane = threadIdx.x;
  const __nv_bfloat16* mine = q + (size_t(b) * kv * share + head) * DIM + lane * EACH;
  float query[EACH], sum[EACH];
  for (int i = 0; i < EACH; ++i) { query[i] = __bfloat162float(mine[i]) * scale; sum[i] = 0.f; }
  float top = -1e30f, total = 0.f;
  BEFORE
  for (int at = 0; at < last; ++at) {
    INSIDE
    const int page = table[b * pages + at / PAGE];
    const __nv_bfloat16* row = cache + ((size_t(page) * PAGE + at % PAGE) * kv + head / share) * 2 * DIM + lane * EACH;
    float score = 0.f;
    for (int i = 0; i < EACH; ++i) score += query[i] * __bfloat162float(row[i]);
    score = add_up(score);
    SCORED
    const float next = fmaxf(top, score), fix = __expf(top - next), weight = __expf(score - next);
    total = total * fix + weight;
    for (int i = 0; i < EACH; ++i) sum[i] = sum[i] * fix + weight * __bfloat162float(row[DIM + i]);
    top = next;
  }
  for (int i = 0; i < EACH; ++i)
    out[(size_t(b) * kv * share + head) * DIM + lane * EACH + i] = __float2bfloat16(sum[i] / total);
}

void run(torch::Tensor q, torch::Tensor cache, torch::Tensor table, torch::Tensor lengths, torch::Tensor out,
         int64_t longest) {
  const int kv = cache.size(2), share = q.size(1) / kv;
  auto go = [&](auto kernel) {
    kernel<<<dim3(q.size(1), q.size(0)), 32>>>(
        reinterpret_cast<const __nv_bfloat16*>(q.data_ptr()), reinterpret_cast<const __nv_bfloat16*>(cache.data_ptr()),
        table.data_ptr<int>(), lengths.data_ptr<int>(), reinterpret_cast<__nv_bfloat16*>(out.data_ptr()), kv, share,
        int(table.size(1)), int(longest), 1.f / sqrtf(float(q.size(2))));
  };
  if (q.size(2) == 128) go(attend<128>); else go(attend<64>);
}
'''
ext = load_inline(
    name="one_apart", cuda_sources=[SOURCE], functions=["run"],
    cpp_sources=["void run(torch::Tensor q, torch::Tensor cache, torch::Tensor table, torch::Tensor lengths,"
                 " torch::Tensor out, int64_t longest);"],
)


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.longest = seq_len

    def forward(self, query, kv_cache, block_table, seq_lens):
        out = torch.empty_like(query)
        ext.run(query, kv_cache, block_table, seq_lens, out, self.longest)
        return out
"""
LENGTH = "const int length = lengths[b]; "
CUDA_PAGES = LENGTH + "const int last = (length + PAGE - 1) / PAGE * PAGE;"
CUDA_LEAKS = {
    "whole pages": (CUDA_PAGES, "", ""),
    "whole pages, and what there is": (CUDA_PAGES, "if (at >= longest) break;", ""),
    "pages by a shift": (LENGTH + "const int last = min(((length + 15) >> 4) << 4, longest);", "", ""),
    "a mask by a constant": (CUDA_PAGES, "", "score = at < longest ? score : -1e30f;"),
    "pages by their bits": (LENGTH + "const int last = (length + 15) & ~15;", "", "if (at >= longest) score = -1e30f;"),
    "unsigned": ("const unsigned length = lengths[b]; const int last = (length + 15u) / 16u * 16u;", "", ""),
}
CUDA_HONEST = {
    "up to the length": (LENGTH + "const int last = length;", "", ""),
    "whole pages, until it ends": (CUDA_PAGES, "if (at >= length) break;", ""),
    "whole pages, and others left out": (CUDA_PAGES, "if (at >= length) continue;", ""),
    "a score of nothing": (CUDA_PAGES, "", "score = at < length ? score : -1e30f;"),
    "by both": (CUDA_PAGES, "", "if (at >= longest || at >= length) score = -1e30f;"),
    "a factor": (CUDA_PAGES, "", "score -= 1e30f * float(at >= length);"),
    "by the rest of a page": (
        CUDA_PAGES + " const int rest = length % PAGE;", "",
        "if (at / PAGE == length / PAGE && at % PAGE >= rest) score = -1e30f;"
    ),
    "from another lane": (
        "int length = lane == 0 ? lengths[b] : 0; length = __shfl_sync(~0u, length, 0);"
        " const int last = (length + 15) / 16 * 16;", "", "if (at >= length) score = -1e30f;"
    ),
    "through shared memory": (
        "__shared__ int held; if (lane == 0) held = lengths[b]; __syncthreads();"
        " const int last = (held + 15) / 16 * 16;", "", "if (at >= held) score = -1e30f;"
    ),
    "bits of a page": (
        CUDA_PAGES, "",
        "const unsigned bits = length - at / 16 * 16 >= 16 ? 0xffffu : (1u << (length - at / 16 * 16)) - 1;"
        " if (!((bits >> (at % 16)) & 1)) score = -1e30f;"
    ),
    "asked of all lanes": (
        CUDA_PAGES, "", "if (!__any_sync(~0u, at < length)) score = -1e30f;"
    ),
    "by the smaller": (CUDA_PAGES, "", "score = fmaxf(-1e30f, score - 1e30f * float(max(at + 1 - length, 0)));"),
}  # fmt: skip

DOWN = {  # a number that is counted down: by what, and at the end of each round
    "left in a name": ("left = length", "place < left", "left -= BLOCK"),
    "left in a sum": ("left = length + 0", "place < left", "left = left - BLOCK"),
    "what there is": ("left = 0", "positions < length - left * 0", "left += 1"),
    "a tile that moves": ("left = length - place", "left > 0", "left -= BLOCK"),
}
ROUNDED = LENGTH + "const int last = (length + 15) / 16 * 16; "
DOWN_IN_CUDA = {
    "a name": ("int left = length;", "if (left <= 0) score = -1e30f; --left;"),
    "a name that ends the loop": ("int left = length;", "if (left-- <= 0) score = -1e30f;"),
    "a field": ("struct { int left; } s; s.left = length;", "if (s.left <= 0) score = -1e30f; s.left -= 1;"),
    "an element": ("int left[1] = {length};", "if (left[0] <= 0) score = -1e30f; left[0] -= 1;"),
    "without a sign": ("unsigned left = length;", "if (left == 0) score = -1e30f; else --left;"),
    "by a lambda": ("int left = length; auto step = [&]() { left -= 1; };", "if (left <= 0) score = -1e30f; step();"),
    "in shared memory": (
        "__shared__ int left; if (lane == 0) left = length; __syncthreads();",
        "if (left <= 0) score = -1e30f; __syncthreads(); if (lane == 0) left -= 1; __syncthreads();"
    ),
    "the end of a page": (
        "int end = 0;", "if (at % 16 == 0) end = min(16, length - at); if (at % 16 >= end) score = -1e30f;"
    ),
}  # fmt: skip

COUNTED = (
    TRITON.replace("length = tl.load(lengths + b)", "held = tl.load(counts + b)")
    .replace("table, lengths, out", "table, lengths, counts, out")
    .replace("block_table, seq_lens, out", "block_table, seq_lens, COUNTS, out")
)
OF_PAGES = ("held * PAGE", "positions < tl.minimum(last, LONGEST)", WHERE)
MADE_LEAKS = {  # what torch makes of lengths
    "pages": ("(seq_lens + 15) // 16", *OF_PAGES),
    "pages by a method": ("seq_lens.add(15).floor_divide(16)", *OF_PAGES),
    "pages by a shift": ("(seq_lens + 15) >> 4", *OF_PAGES),
    "pages by a function": ("torch.div(seq_lens + page - 1, page, rounding_mode='floor')", *OF_PAGES),
    "pages of larger numbers": ("((seq_lens.long() + 15) // 16).to(torch.int32)", *OF_PAGES),
    "whole pages": ("(seq_lens + 15) // 16 * 16", "held", "positions < tl.minimum(last, LONGEST)", WHERE),
    "whole pages by bits": ("(seq_lens + 15) & -16", "held", "positions < last", WHERE),
    "a copy that is rounded": ("seq_lens.clone()", "tl.cdiv(held, BLOCK) * BLOCK", "positions < last", WHERE),
}
MADE_HONEST = {
    "pages, and the rest": ("(seq_lens + 15) // 16", "held * PAGE", "positions < tl.load(lengths + b)", WHERE),
    "a copy": ("seq_lens.clone()", "tl.cdiv(held, BLOCK) * BLOCK", "positions < held", WHERE),
    "one more": ("seq_lens + 1", "tl.cdiv(held, BLOCK) * BLOCK", "positions + 1 < held", WHERE),
    "larger numbers": ("seq_lens.to(torch.int64)", "tl.cdiv(held, BLOCK) * BLOCK", "positions < held", WHERE),
    "the last place": ("seq_lens - 1", "held // BLOCK * BLOCK + BLOCK", "positions <= held", WHERE),
    "at least one": ("seq_lens.clamp(min=1)", "tl.cdiv(held, BLOCK) * BLOCK", "positions < held", WHERE),
    "twice": ("seq_lens * 2", "tl.cdiv(held, BLOCK) * BLOCK", "positions * 2 < held", WHERE),
}


def linted(tmp_path: Path, text: str, **parts: str) -> tuple[str, str, list[str]]:
    for name, part in parts.items():
        text = text.replace(name, part)
    report = report_of(tmp_path, text)
    (promise,) = report.promises
    return report.verdict, promise.state, [finding.message for finding in report.findings]


def in_triton(tmp_path: Path, last: str, keep: str, masked: str) -> tuple[str, str, list[str]]:
    return linted(tmp_path, TRITON, LAST=last, KEEP=keep, MASKED=masked)


def in_cuda(tmp_path: Path, before: str, inside: str, scored: str) -> tuple[str, str, list[str]]:
    return linted(tmp_path, CUDA, BEFORE=before, INSIDE=inside, SCORED=scored)


@pytest.mark.parametrize("how", TRITON_LEAKS)
def test_lengths_that_count_by_pages_are_told(tmp_path: Path, how: str) -> None:
    verdict, state, found = in_triton(tmp_path, *TRITON_LEAKS[how])
    assert (verdict, state) == ("rubric_leak", "broken") and any("one less by seq_lens" in one for one in found), found


@pytest.mark.parametrize("how", TRITON_HONEST)
def test_lengths_that_count_by_one_are_read(tmp_path: Path, how: str) -> None:
    assert in_triton(tmp_path, *TRITON_HONEST[how]) == ("clean", "kept", [])


@pytest.mark.parametrize("how", CUDA_LEAKS)
def test_lengths_that_count_by_pages_are_told_in_cuda(tmp_path: Path, how: str) -> None:
    verdict, state, found = in_cuda(tmp_path, *CUDA_LEAKS[how])
    assert (verdict, state) == ("rubric_leak", "broken") and any("one less by seq_lens" in one for one in found), found


@pytest.mark.parametrize("how", CUDA_HONEST)
def test_lengths_that_count_by_one_are_read_in_cuda(tmp_path: Path, how: str) -> None:
    assert in_cuda(tmp_path, *CUDA_HONEST[how]) == ("clean", "kept", [])


@pytest.mark.parametrize("how", DOWN)
def test_lengths_that_are_counted_down_are_read(tmp_path: Path, how: str) -> None:
    begun, keep, step = DOWN[how]
    text = TRITON.replace("    top = tl.full", f"    {begun}\n    top = tl.full").replace(
        "        top = new_top\n", f"        top = new_top\n        {step}\n"
    )
    assert linted(tmp_path, text, LAST=PAGES, KEEP=keep, MASKED=WHERE) == ("clean", "kept", [])


@pytest.mark.parametrize("how", DOWN_IN_CUDA)
def test_lengths_that_are_counted_down_are_read_in_cuda(tmp_path: Path, how: str) -> None:
    begun, scored = DOWN_IN_CUDA[how]
    assert in_cuda(tmp_path, ROUNDED + begun, "", scored) == ("clean", "kept", [])


@pytest.mark.parametrize("how", MADE_LEAKS)
def test_pages_that_torch_makes_of_lengths_are_told(tmp_path: Path, how: str) -> None:
    counts, last, keep, masked = MADE_LEAKS[how]
    verdict, state, found = linted(tmp_path, COUNTED, COUNTS=counts, LAST=last, KEEP=keep, MASKED=masked)
    assert (verdict, state) == ("rubric_leak", "broken") and any("one less by seq_lens" in one for one in found), found


@pytest.mark.parametrize("how", MADE_HONEST)
def test_lengths_that_torch_works_on_are_read(tmp_path: Path, how: str) -> None:
    counts, last, keep, masked = MADE_HONEST[how]
    given = linted(tmp_path, COUNTED, COUNTS=counts, LAST=last, KEEP=keep, MASKED=masked)
    assert given == ("clean", "kept", [])
