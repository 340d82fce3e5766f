"""Tiles of tokens of which one says whether the positions of all are read, and tiles whose tokens are all asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import cases, report_of

from kbh_lint.base.values import Buffer, Scalar
from kbh_lint.kernels.extents.asked.held import decisive

MODEL = """class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.section = list(mrope_section)
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))

    def forward(self, q, k, pos_t, pos_h, pos_w):
        B, T, hq, D = q.shape
        hkv = k.shape[2]
        yq = torch.empty(B, hq, T, D, dtype=q.dtype, device=q.device)
        yk = torch.empty(B, hkv, T, D, dtype=q.dtype, device=q.device)"""
TRITON = """# kbh: problem=09_fmha_preattn_mrope
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def agree(pt, ph, pw, at):
    t = tl.load(pt + at)
    return (t == tl.load(ph + at)) & (t == tl.load(pw + at))


@triton.jit
def turn(x, y, cos, sin, t, h, w, rows, live, heads, head, b, T, s0, s1, D: tl.constexpr, B: tl.constexpr):
    c = tl.arange(0, D // 2)
    axis = tl.where((c < s0)[None, :], t[:, None], tl.where((c < s0 + s1)[None, :], h[:, None], w[:, None]))
    low, high = axis * D + c[None, :], axis * D + D // 2 + c[None, :]
    keep = live[:, None]
    at = x + ((b * T + rows) * heads + head)[:, None] * D + c[None, :]
    one, two = tl.load(at, mask=keep).to(tl.float32), tl.load(at + D // 2, mask=keep).to(tl.float32)
    first = one * tl.load(cos + low, mask=keep) - two * tl.load(sin + low, mask=keep)
    second = two * tl.load(cos + high, mask=keep) + one * tl.load(sin + high, mask=keep)
    out = y + ((b * heads + head) * T + rows)[:, None] * D + c[None, :]
    tl.store(out, first.to(tl.bfloat16), mask=keep)
    tl.store(out + D // 2, second.to(tl.bfloat16), mask=keep)


@triton.jit
def mrope(q, k, pt, ph, pw, cos, sin, yq, yk, T, hq, hkv, s0, s1, D: tl.constexpr, B: tl.constexpr):
    first, b = tl.program_id(0) * B, tl.program_id(1)
    base = b * T + first
    rows = first + tl.arange(0, B)
    live = rows < T
    at = b * T + rows
    t = tl.load(pt + at, mask=live, other=0)
BODY
    for head in range(0, hq):
        turn(q, yq, cos, sin, t, h, w, rows, live, hq, head, b, T, s0, s1, D, B)
    for head in range(0, hkv):
        turn(k, yk, cos, sin, t, h, w, rows, live, hkv, head, b, T, s0, s1, D, B)


MODEL
        caches = self.cos_cache, self.sin_cache
        mrope[(triton.cdiv(T, 8), B)](
            q, k, pos_t, pos_h, pos_w, *caches, yq, yk, T, hq, hkv, self.section[0], self.section[1], D=D, B=8
        )
        return yq, yk
"""
ONE = cases("""\
# a branch
text = (tl.load(pt + base) == tl.load(ph + base)) & (tl.load(pt + base) == tl.load(pw + base))
h, w = t, t
if not text:
    h = tl.load(ph + at, mask=live, other=0)
    w = tl.load(pw + at, mask=live, other=0)
# both sides of one
if agree(pt, ph, pw, base):
    h, w = t, t
else:
    h = tl.load(ph + at, mask=live, other=0)
    w = tl.load(pw + at, mask=live, other=0)
# a mask
other = tl.load(pt + base) != tl.load(ph + base)
h = tl.load(ph + at, mask=live & other, other=0)
w = tl.load(pw + at, mask=live, other=0)
h = tl.where(other, h, t)
""")
ALL = cases("""\
# no question
h = tl.load(ph + at, mask=live, other=0)
w = tl.load(pw + at, mask=live, other=0)
# a vote
vote = tl.load(ph + at, mask=live, other=0) == t
h, w = t, t
if tl.min(vote.to(tl.int32)) == 0:
    h = tl.load(ph + at, mask=live, other=0)
w = tl.load(pw + at, mask=live, other=0)
# a vote of those of which one agrees
h, w = t, tl.load(pw + at, mask=live, other=0)
if tl.load(pt + base) == tl.load(ph + base):
    same = tl.sum((tl.load(ph + at, mask=live, other=0) != t).to(tl.int32))
    if same != 0:
        h = tl.load(ph + at, mask=live, other=0)
else:
    h = tl.load(ph + at, mask=live, other=0)
# each token by itself
one = tl.load(ph + at, mask=live, other=0)
h = tl.where(one == t, t, one)
w = tl.load(pw + at, mask=live, other=0)
# read beforehand
h = tl.load(ph + at, mask=live, other=0)
w = tl.load(pw + at, mask=live, other=0)
if tl.load(pt + base) == tl.load(ph + base):
    h = h + 0
# another way of reading
if tl.load(pt + base) == tl.load(ph + base):
    h = tl.load(ph + at, mask=live, other=0)
    w = tl.load(pw + at, mask=live, other=0)
else:
    w = tl.load(pw + at, mask=live, other=1)
    h = tl.load(ph + at, mask=live, other=1)
""")
CUDA = '''# kbh: problem=09_fmha_preattn_mrope
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
constexpr int TOK = 4;
struct Axes { const int64_t* t; const int64_t* h; const int64_t* w; };

__device__ __forceinline__ bool agree(const Axes& p, size_t at) {
  const int64_t t = __ldg(p.t + at);
  return t == __ldg(p.h + at) && t == __ldg(p.w + at);
}

__device__ __forceinline__ int64_t position(const Axes& p, size_t at, int c, int s0, int s1, bool text) {
  if (text || c < s0) return p.t[at];
  return c < s0 + s1 ? p.h[at] : p.w[at];
}

__device__ void turn(const bf16* q, const bf16* k, bf16* yq, bf16* yk, const bf16* cosv, const bf16* sinv, int64_t row,
                     int c, int b, int tok, int T, int D, int hq, int hkv) {
  const float cl = __bfloat162float(cosv[row * D + c]), sl = __bfloat162float(sinv[row * D + c]);
  for (int head = 0; head < hq + hkv; ++head) {
    const bool is_q = head < hq;
    const int h = is_q ? head : head - hq, heads = is_q ? hq : hkv;
    const bf16* x = (is_q ? q : k) + ((size_t(b) * T + tok) * heads + h) * D;
    bf16* y = (is_q ? yq : yk) + ((size_t(b) * heads + h) * T + tok) * D;
    const float u = __bfloat162float(x[c]), v = __bfloat162float(x[(c + D / 2) % D]);
    y[c] = __float2bfloat16(u * cl + (c < D / 2 ? -v : v) * sl);
  }
}

__global__ void mrope(const bf16* q, const bf16* k, Axes pos, const bf16* cosv, const bf16* sinv, bf16* yq, bf16* yk,
                      int T, int D, int hq, int hkv, int s0, int s1) {
  const int b = blockIdx.y;
BODY
}

void run(at::Tensor q, at::Tensor k, at::Tensor pt, at::Tensor ph, at::Tensor pw, at::Tensor cosv, at::Tensor sinv,
         at::Tensor yq, at::Tensor yk, int64_t s0, int64_t s1) {
  const int B = q.size(0), T = q.size(1), hq = q.size(2), D = q.size(3), hkv = k.size(2);
  const Axes pos{pt.data_ptr<int64_t>(), ph.data_ptr<int64_t>(), pw.data_ptr<int64_t>()};
  mrope<<<dim3(T / PER, B), 128>>>((const bf16*)q.data_ptr(), (const bf16*)k.data_ptr(), pos,
      (const bf16*)cosv.data_ptr(), (const bf16*)sinv.data_ptr(), (bf16*)yq.data_ptr(), (bf16*)yk.data_ptr(), T, D, hq,
      hkv, s0, s1);
}
"""
T = "at::Tensor"
module = load_inline(
    name="turned", functions=["run"], cuda_sources=SOURCE,
    cpp_sources=f"void run({T}, {T}, {T}, {T}, {T}, {T}, {T}, {T}, {T}, int64_t, int64_t);",
)


MODEL
        caches = self.cos_cache, self.sin_cache
        module.run(q, k, pos_t, pos_h, pos_w, *caches, yq, yk, self.section[0], self.section[1])
        return yq, yk
'''
GO_ON = "turn(q, k, yq, yk, cosv, sinv, row, c, b, t0 + tok, T, D, hq, hkv);"
START = "const int t0 = blockIdx.x * TOK;\nconst size_t base = size_t(b) * T + t0;\n"
LOOP = """for (int i = threadIdx.x; i < TOK * D; i += 128) {
  const int tok = i / D, c = i % D;
"""
CUDA_ONE = cases("""\
# a branch that all take
const bool text = agree(pos, base);
LOOP  int64_t row = position(pos, base + tok, c % (D / 2), s0, s1, text);
  GO
}
# a thread asks for all
__shared__ bool text;
if (threadIdx.x == 0) text = agree(pos, base);
__syncthreads();
LOOP  int64_t row = position(pos, base + tok, c % (D / 2), s0, s1, text);
  GO
}
# a loop for each answer
if (pos.t[base] == pos.h[base]) {
LOOP  const int64_t row = c % (D / 2) < s0 + s1 ? pos.t[base + tok] : pos.w[base + tok];
  GO
}
} else {
LOOP  const int64_t row = position(pos, base + tok, c % (D / 2), s0, s1, false);
  GO
}
}
# tokens that are passed over
for (int tok = 0; tok < TOK; ++tok)
  for (int c = threadIdx.x; c < D; c += 128) {
    const int m = c % (D / 2);
    int64_t row = m < s0 || m >= s0 + s1 ? (m < s0 ? pos.t : pos.w)[base + tok] : pos.t[base + tok];
    if (pos.t[base] != pos.h[base] && m >= s0 && m < s0 + s1) row = pos.h[base + tok];
    GO
  }
""")
CUDA_ALL = cases("""\
# no question
LOOP  int64_t row = position(pos, base + tok, c % (D / 2), s0, s1, false);
  GO
}
# each token by itself
LOOP  int64_t row = position(pos, base + tok, c % (D / 2), s0, s1, agree(pos, base + tok));
  GO
}
# a vote of the block
bool mine = true;
if (threadIdx.x < TOK) mine = agree(pos, base + threadIdx.x);
const bool text = __syncthreads_and(mine);
LOOP  int64_t row = position(pos, base + tok, c % (D / 2), s0, s1, text);
  GO
}
# a vote in a loop
bool text = true;
for (int tok = 0; tok < TOK; ++tok) text = text && agree(pos, base + tok);
LOOP  int64_t row = position(pos, base + tok, c % (D / 2), s0, s1, text);
  GO
}
# a vote that is written out
const bool text = agree(pos, base) && agree(pos, base + 1) && agree(pos, base + 2) && agree(pos, base + 3);
LOOP  int64_t row = position(pos, base + tok, c % (D / 2), s0, s1, text);
  GO
}
# a vote of vectors
const longlong4 t = *reinterpret_cast<const longlong4*>(pos.t + base);
const longlong4 h = *reinterpret_cast<const longlong4*>(pos.h + base);
const bool text = t.x == h.x && t.y == h.y && t.z == h.z && t.w == h.w;
LOOP  const int m = c % (D / 2);
  const int64_t row = (m < s0 || text && m < s0 + s1 ? pos.t : m < s0 + s1 ? pos.h : pos.w)[base + tok];
  GO
}
# a block has one token
const int t0 = blockIdx.x, tok = 0;
const size_t at = size_t(b) * T + t0;
const bool text = agree(pos, at);
for (int c = threadIdx.x; c < D; c += 128) {
  const size_t here = at;
  int64_t row = position(pos, here, c % (D / 2), s0, s1, text);
  GO
}
# a warp has one token
const int tok = threadIdx.x / 32;
const bool text = agree(pos, base + tok);
for (int c = threadIdx.x % 32; c < D; c += 32) {
  int64_t row = position(pos, base + tok, c % (D / 2), s0, s1, text);
  GO
}
# tokens in turns
for (int tok = 0; tok < TOK; ++tok) {
  const size_t at = base + tok;
  const bool text = agree(pos, at);
  for (int c = threadIdx.x; c < D; c += 128) {
    int64_t row = position(pos, at, c % (D / 2), s0, s1, text);
    GO
  }
}
# a vote where one agrees
bool text = agree(pos, base);
if (text) {
  bool mine = threadIdx.x >= TOK || agree(pos, base + threadIdx.x);
  text = __syncthreads_and(mine);
}
LOOP  int64_t row = position(pos, base + tok, c % (D / 2), s0, s1, text);
  GO
}
""")


def linted(tmp_path: Path, text: str) -> tuple[list[str], set[str]]:
    report = report_of(tmp_path, text.replace("MODEL", MODEL))
    states = {str(p.state) for p in report.promises}
    return [finding.message for finding in report.findings if finding.verdict == "rubric_leak"], states


def in_triton(body: str) -> str:
    return TRITON.replace("BODY", "\n".join("    " + line for line in body.splitlines()))


def in_cuda(body: str) -> str:
    per = "1" if "const int t0" in body else "TOK"
    body = (body if "const int t0" in body else START + body).replace("LOOP", LOOP).replace("GO", GO_ON)
    return CUDA.replace("PER", per).replace("BODY", "\n".join("  " + line for line in body.splitlines()))


@pytest.mark.parametrize("how", ONE)
def test_one_token_that_is_asked_for_all_is_told(tmp_path: Path, how: str) -> None:
    found, states = linted(tmp_path, in_triton(ONE[how]))
    assert states == {"broken"} and any("pos_" in one for one in found), (found, states)


@pytest.mark.parametrize("how", ALL)
def test_tokens_that_are_all_asked_are_not(tmp_path: Path, how: str) -> None:
    assert linted(tmp_path, in_triton(ALL[how])) == ([], {"kept"})


def test_a_tile_of_one_token_is_asked_for_itself(tmp_path: Path) -> None:
    text = in_triton(ONE["both sides of one"]).replace("B=8\n", "B=1\n").replace("cdiv(T, 8)", "cdiv(T, 1)")
    assert linted(tmp_path, text) == ([], {"kept"})


@pytest.mark.parametrize("how", CUDA_ONE)
def test_one_token_that_is_asked_for_all_is_told_in_cuda(tmp_path: Path, how: str) -> None:
    found, states = linted(tmp_path, in_cuda(CUDA_ONE[how]))
    assert states == {"broken"} and any("pos_" in one for one in found), (found, states)


@pytest.mark.parametrize("how", CUDA_ALL)
def test_tokens_that_are_all_asked_are_not_in_cuda(tmp_path: Path, how: str) -> None:
    found, states = linted(tmp_path, in_cuda(CUDA_ALL[how]))
    assert found == [] and states <= {"kept", "unproven"}, (found, states)


def test_launches_that_differ_in_other_memory_and_sizes_alone_are_asked_about_once() -> None:
    places, values, other = (Buffer(kind, at, kind) for kind, at in (("i32", 1), ("f32", 2), ("f32", 3)))
    asked = frozenset((1,))
    known = decisive({"x": places, "y": values, "n": Scalar(8)}, asked)
    assert decisive({"x": places, "y": other, "n": Scalar(9)}, asked) == known
    assert decisive({"x": places, "y": values, "n": Scalar(1)}, asked) != known
    assert decisive({"x": values, "y": places, "n": Scalar(8)}, asked) != known
