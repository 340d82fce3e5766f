"""Kernels that ask memory of the call before whether the inputs are the same, and then leave the result as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, GEMM, GRID, HEAD, OUTPUT, TILES, lint, model

LOOK = """
@triton.jit
def look(x, seen, moved, n, B: tl.constexpr):
    total = tl.sum(tl.load(x + tl.arange(0, B) * (n // B)).to(tl.float32))
    tl.store(moved, (SAME).to(tl.int32))
    tl.store(seen, NEXT)
"""
GATE = "    if tl.load(moved) == 0:\n        return\n    rows ="
GATED = "\n\n@triton.jit" + GEMM.replace("(x, w, s, y,", "(x, w, s, y, moved,").replace("    rows =", GATE, 1)
KEPT = (
    'self.seen, self.moved = torch.zeros(1, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")\n'
    'self.y = torch.empty(M, N, dtype=torch.bfloat16, device="cuda")\n'
)
ASKED = "look[(1,)](x, self.seen, self.moved, x.numel(), B=1024)\n"
WORK = f"gemm[{GRID}]({ARGUMENTS.replace('y,', 'y, self.moved,')}, {TILES})\nreturn y\n"
FIRST = "y = self.y\n"
FRESH = OUTPUT.strip() + "\n"
WAYS = {
    "a sum of the inputs": ("tl.load(seen) != total", "total", FIRST + ASKED, True),
    "a sum that is nearly the same": ("tl.abs(tl.load(seen) - total) > 1e-6", "total * 1.0", FIRST + ASKED, True),
    "a result of its own": ("tl.load(seen) != total", "total", FRESH + ASKED, False),
    "a result that was begun": ("tl.load(seen) != total", "total", f"{FIRST}y.zero_()\n{ASKED}", False),
    "inputs alone": ("total != 0", "total", FIRST + ASKED, False),
    "how often it was called": ("tl.load(seen) != 4", "tl.load(seen) + 1", FIRST + ASKED, False),
    "a count beside the inputs": ("tl.load(seen) + total != 4", "tl.load(seen) + 1", FIRST + ASKED, False),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_kernel_may_not_ask_what_the_call_before_left(tmp_path: Path, way: str) -> None:
    same, following, first, found = WAYS[way]
    asks = LOOK.replace("SAME", same).replace("NEXT", following)
    report = lint(tmp_path, HEAD + asks + GATED + model(first + WORK, KEPT))
    assert ("KBH209" in {finding.rule for finding in report.findings}) == found, report.trace


RESET = """
y = self.y
if self.loaded != self.weight._version:
    self.seen.zero_()
    self.loaded = self.weight._version
"""


@pytest.mark.parametrize(("reset", "found"), [(RESET, True), ("y = self.y\nself.seen.zero_()\n", False)])
def test_what_is_forgotten_when_weights_change_is_kept_else(tmp_path: Path, reset: str, found: bool) -> None:
    asks = LOOK.replace("SAME", "tl.load(seen) != total").replace("NEXT", "total")
    text = HEAD + asks + GATED + model(reset + ASKED + WORK, KEPT + "self.loaded = -1\n")
    rules = {finding.rule for finding in lint(tmp_path, text).findings}
    assert ("KBH209" in rules) == found and not (found and rules & {"KBH202", "KBH402"}), rules


STORE = "tl.store(y + rows[:, None] * N + cols[None, :], out.to(tl.bfloat16), mask=(rows < M)[:, None])"
MOVED = "tl.load(moved) != 0"


def masked(test: str) -> str:
    return STORE.replace("(rows < M)[:, None]", f"(rows < M)[:, None] & {test}")


WEIGHT = ASKED.replace("(x,", "(self.weight,").replace("x.numel", "self.weight.numel")
HALVES = f"stale = {MOVED}\n    even = (cols % 2 == 0)[None, :]\n    "
MASKS = {
    "a mask": (masked(f"({MOVED})"), FIRST + ASKED, True),
    "the rows that are live": (
        f"live = tl.where({MOVED}, M, 0)\n    {STORE.replace('rows < M', 'rows < live')}", FIRST + ASKED, True
    ),
    "their number": (
        f"live = M * tl.load(moved)\n    {STORE.replace('rows < M', 'rows < live')}", FIRST + ASKED, True
    ),
    "the masks of two stores": (
        f"{HALVES}{masked('even & stale')}\n    {masked('(~even) & stale')}", FIRST + ASKED, True
    ),
    "a mask of one store of two": (f"{HALVES}{masked('even & stale')}\n    {masked('(~even)')}", FIRST + ASKED, False),
    "either side of a branch": (f"if {MOVED}:\n        {STORE}\n    else:\n        {STORE}", FIRST + ASKED, False),
    "rounds of a loop": (f"for i in range(tl.load(moved)):\n        {STORE}", FIRST + ASKED, True),
    "where rounds begin": (f"for i in range(tl.where({MOVED}, 0, 1), 1):\n        {STORE}", FIRST + ASKED, True),
    "rounds that go on": (
        f"for i in range(2):\n        if not {MOVED}:\n            continue\n        {STORE}", FIRST + ASKED, True
    ),
    "what follows such rounds": (
        f"for i in range(2):\n        if not {MOVED}:\n            continue\n        out += 0.0\n    {STORE}",
        FIRST + ASKED, False,
    ),
    "a tail": (STORE, FIRST + ASKED, False),
    "a mask of a result of its own": (masked(f"({MOVED})"), FRESH + ASKED, False),
    "a mask of what weights come to": (masked(f"({MOVED})"), FIRST + WEIGHT, False),
    "a mask of inputs": (masked("(tl.load(x + rows).to(tl.float32) == 0)[:, None]"), FIRST + ASKED, False),
}  # fmt: skip


@pytest.mark.parametrize("way", MASKS)
def test_a_mask_may_not_ask_it_either(tmp_path: Path, way: str) -> None:
    store, first, found = MASKS[way]
    assert STORE in GEMM
    gemm = "\n\n@triton.jit" + GEMM.replace("(x, w, s, y,", "(x, w, s, y, moved,").replace(STORE, store)
    asks = LOOK.replace("SAME", WAYS["a sum of the inputs"][0]).replace("NEXT", "total")
    report = lint(tmp_path, HEAD + asks + gemm + model(first + WORK, KEPT))
    assert ("KBH209" in {finding.rule for finding in report.findings}) == found, report.trace


@pytest.mark.parametrize("mask, found", [("(rows < M) & (tl.load(at) != mark)", True), ("rows < M", False)])
def test_the_kernel_may_keep_what_it_asks_itself(tmp_path: Path, mask: str, found: bool) -> None:
    gemm = GEMM.replace("(x, w, s, y,", "(x, w, s, y, seen,").replace(
        "        acc = tl.dot", "        mark += tl.sum(a.to(tl.float32), axis=1)\n        acc = tl.dot"
    )
    begun = "    mark = tl.zeros((BM,), dtype=tl.float32)\n    at = seen + tl.program_id(1) * M + rows\n    for k"
    gemm = gemm.replace("    for k", begun)
    gemm = gemm.replace("mask=(rows < M)[:, None])\n", "mask=MASK)\n    tl.store(at, mark)\n")
    setup = KEPT.replace("torch.zeros(1, device", "torch.zeros(N // 128, M, device")
    text = HEAD + "\n\n@triton.jit" + gemm.replace("MASK", f"({mask})[:, None]")
    report = lint(tmp_path, text + model(FIRST + WORK.replace("self.moved", "self.seen"), setup))
    assert ("KBH209" in {finding.rule for finding in report.findings}) == found, report.trace


MARKED = GEMM.replace("(x, w, s, y,", "(x, w, s, y, marks, number,")
EARLY = "    at = marks + tl.program_id(0)\n    if TEST:\n        return\n    rows ="
NUMBERS = {  # how the kernel tests its mark, the number that it is given, where the result lies, and what is found
    "a version": ("tl.load(at) == number", "x._version", FIRST, True),
    "a version in a sum": ("tl.load(at) - number >= 0", "x._version + 2", FIRST, True),
    "a version and a result of its own": ("tl.load(at) == number", "x._version", FRESH, False),
    "how often it was called": ("tl.load(at) == number", "self.count()", FIRST, False),
    "a number of tiles": ("tl.load(at) == number", "triton.cdiv(M, 64)", FIRST, False),
    "the weight's version alone": ("tl.load(at) == number", "self.weight._version", FIRST, True),
    "the version alone": ("number < 0", "x._version", FIRST, False),
}  # fmt: skip
COUNT = """
    def count(self):
        self.calls += 1
        return self.calls
"""


@pytest.mark.parametrize("way", NUMBERS)
def test_marks_may_not_tell_that_inputs_are_the_same(tmp_path: Path, way: str) -> None:
    test, number, first, found = NUMBERS[way]
    gemm = MARKED.replace("    rows =", EARLY.replace("TEST", test), 1)
    gemm = gemm.replace("mask=(rows < M)[:, None])\n", "mask=(rows < M)[:, None])\n    tl.store(at, number)\n")
    setup = KEPT + 'self.calls, self.marks = 0, torch.full((M,), -1, dtype=torch.int64, device="cuda")\n'
    work = f"{first}gemm[{GRID}]({ARGUMENTS.replace('y,', f'y, self.marks, {number},')}, {TILES})\nreturn y\n"
    report = lint(tmp_path, HEAD + "\n\n@triton.jit" + gemm + model(work, setup) + COUNT)
    assert ("KBH209" in {finding.rule for finding in report.findings}) == found, report.trace


LAYOUT = """
@triton.jit
def layout(w, packed, marks, number, B: tl.constexpr):
    at = marks + tl.program_id(0)
    if tl.load(at) == number:
        return
    cols = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(packed + cols, tl.load(w + cols))
    tl.store(at, number)
"""


@pytest.mark.parametrize("source, found", [("self.weight", False), ("x", True)])
def test_a_layout_of_the_weight_may_be_kept_by_its_version(tmp_path: Path, source: str, found: bool) -> None:
    setup = (
        f"{KEPT}self.packed = torch.empty(N, K, dtype=torch.float8_e4m3fn, device='cuda')\n"
        "self.marks = torch.full((N * K // 1024,), -1, dtype=torch.int64, device='cuda')\n"
    )
    packs = f"layout[({source}.numel() // 1024,)]({source}, self.packed, self.marks, {source}._version, B=1024)\n"
    given = ARGUMENTS.replace(source, "self.packed", 1)
    work = f"{FIRST}{packs}gemm[{GRID}]({given}, {TILES})\nreturn y\n"
    report = lint(tmp_path, HEAD + LAYOUT + "\n\n@triton.jit" + GEMM + model(work, setup))
    assert ("KBH209" in {finding.rule for finding in report.findings}) == found, report.trace


CUDA = """
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
#include <cuda_fp8.h>
#include <cuda_bf16.h>
struct Kept { unsigned long long seen; int moved; };
struct Words { const unsigned* at; int count; __device__ unsigned of(int i) const { return at[i % count]; } };
__global__ void look(Words words, Kept* kept) {
  __shared__ unsigned long long all;
  if (threadIdx.x == 0) all = 0;
  __syncthreads();
  atomicAdd(&all, (unsigned long long)words.of(threadIdx.x) * 2654435761u);
  __syncthreads();
  if (threadIdx.x == 0) {
    kept->moved = SAME;
    kept->seen = all;
  }
}
__global__ void gemm(const __nv_fp8_e4m3* x, const __nv_fp8_e4m3* w, const float* s, __nv_bfloat16* y, int N, int K,
                     const Kept* kept) {
  EARLY
  int row = blockIdx.x, col = threadIdx.x;
  float total = 0.f;
  for (int k = 0; k < K; ++k) total += float(x[row * K + k]) * float(w[col * K + k]);
  STORE
  LATE
}
void run(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor y, torch::Tensor kept) {
  auto* head = (Kept*)kept.data_ptr();
  look<<<1, 256>>>(Words{(const unsigned*)x.data_ptr(), int(x.numel() / 4)}, head);
  gemm<<<x.size(0), w.size(0)>>>((const __nv_fp8_e4m3*)x.data_ptr(), (const __nv_fp8_e4m3*)w.data_ptr(),
    s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(), w.size(0), x.size(1), head);
}
'''
NAME = "void run(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor y, torch::Tensor kept);"
ext = load_inline("e", NAME, SOURCE, functions=["run"])
"""
VALUE = "__float2bfloat16(total * s[col])"
BRANCH = f"if (kept->moved) {{ y[row * N + col] = {VALUE}; }}"
LEFT = "y[row * N + col] = __float2bfloat16(total);"


@pytest.mark.parametrize(("same", "early", "late", "found"), [
    ("kept->seen != all", "", "", True),
    ("kept->seen == all ? 0 : 1", "if (!kept->moved) return;", "", True),
    ("kept->seen != all", "", LEFT, False),  # which is stored in any case
    ("all != 0", "", "", False),
])  # fmt: skip
def test_a_struct_may_hold_what_is_kept(tmp_path: Path, same: str, early: str, late: str, found: bool) -> None:
    setup = (
        'self.y = torch.empty(M, N, dtype=torch.bfloat16, device="cuda")\n'
        'self.kept = torch.zeros(16, dtype=torch.uint8, device="cuda")\n'
    )
    text = CUDA.replace("SAME", same).replace("EARLY", early).replace("LATE", late).replace("STORE", BRANCH)
    work = "ext.run(x, self.weight, self.weight_scale, self.y, self.kept)\nreturn self.y\n"
    report = lint(tmp_path, HEAD + text + model(work, setup))
    assert ("KBH209" in {finding.rule for finding in report.findings}) == found, report.trace


BY_ASSEMBLY = (
    'asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.global.u16 [%0], %1; }" :: "l"(y + row * N + col), '
    f'"h"(__bfloat16_as_ushort({VALUE})), "r"(TEST));'
)
EACH = "for (int c = col; c < N; c += N) {"
STORES = {
    "a ternary": (f"kept->moved ? (void)(y[row * N + col] = {VALUE}) : (void)0;", True),
    "and": (f"kept->moved && (y[row * N + col] = {VALUE}, true);", True),
    "assembly": (BY_ASSEMBLY.replace("TEST", "kept->moved"), True),
    "assembly of places": (BY_ASSEMBLY.replace("TEST", "col < N"), False),
    "a loop": (f"for (int i = 0; i < kept->moved; ++i) y[row * N + col] = {VALUE};", True),
    "where rounds begin": (f"for (int c = kept->moved ? col : N; c < N; c += N) y[row * N + c] = {VALUE};", True),
    "a bound": (f"const int end = kept->moved ? N : 0; if (col < end) y[row * N + col] = {VALUE};", True),
    "a round that goes on": (f"{EACH} if (!kept->moved) continue; y[row * N + c] = {VALUE}; }}", True),
    "behind such a round": (
        f"{EACH} if (!kept->moved) continue; total += 0.f; }} y[row * N + col] = {VALUE};", False
    ),
    "a switch": (f"switch (kept->moved) {{ case 0: break; default: y[row * N + col] = {VALUE}; }}", True),
    "all of a switch": (
        f"switch (kept->moved) {{ case 0: {LEFT} break; default: y[row * N + col] = {VALUE}; }}", False
    ),
    "a function": (f"auto put = [&](bool on) {{ if (on) y[row * N + col] = {VALUE}; }}; put(kept->moved != 0);", True),
}  # fmt: skip


@pytest.mark.parametrize("way", STORES)
def test_a_store_is_left_out_in_many_ways(tmp_path: Path, way: str) -> None:
    store, found = STORES[way]
    setup = KEPT.partition("\n")[2] + 'self.kept = torch.zeros(16, dtype=torch.uint8, device="cuda")\n'
    text = CUDA.replace("SAME", "kept->seen != all").replace("EARLY", "").replace("LATE", "").replace("STORE", store)
    work = "ext.run(x, self.weight, self.weight_scale, self.y, self.kept)\nreturn self.y\n"
    report = lint(tmp_path, HEAD + text + model(work, setup))
    assert ("KBH209" in {finding.rule for finding in report.findings}) == found, report.trace


PARTS = """
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
#include <cuda_fp8.h>
#include <cuda_bf16.h>
__global__ void look(const unsigned* x, int count, unsigned* kept) {
  unsigned mine = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) mine ^= x[i] * 2654435761u + i;
  if (threadIdx.x == 0) NOW;
  __syncthreads();
  atomicXor(kept + 1, mine);
}
__global__ void gemm(const __nv_fp8_e4m3* x, const __nv_fp8_e4m3* w, const float* s, __nv_bfloat16* y, int N, int K,
                     const unsigned* kept) {
  int row = blockIdx.x, col = threadIdx.x;
  TEST
  float total = 0.f;
  for (int k = 0; k < K; ++k) total += float(x[row * K + k]) * float(w[col * K + k]);
  y[row * N + col] = __float2bfloat16(total * s[col]);
}
__global__ void settle(unsigned* kept) { NEXT; }
void run(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor y, torch::Tensor kept) {
  auto* at = (unsigned*)kept.data_ptr();
  look<<<1, 256>>>((const unsigned*)x.data_ptr(), int(x.numel() / 4), at);
  gemm<<<x.size(0), w.size(0)>>>((const __nv_fp8_e4m3*)x.data_ptr(), (const __nv_fp8_e4m3*)w.data_ptr(),
    s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(), w.size(0), x.size(1), at);
  settle<<<1, 1>>>(at);
}
'''
NAME = "void run(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor y, torch::Tensor kept);"
ext = load_inline("e", NAME, SOURCE, functions=["run"])
"""


@pytest.mark.parametrize(("test", "following", "found"), [
    ("if (kept[0] == kept[1]) return;", "kept[0] = kept[1]", True),
    ("if (!(kept[0] ^ kept[1])) return;", "kept[0] = kept[1]", True),
    ("const bool same = kept[0] == kept[1]; if (col >= (same ? 0 : N)) return;", "kept[0] = kept[1]", True),
    ("if (kept[1] == 0) { y[row * N + col] = __float2bfloat16(0.f); return; }", "kept[0] += 1", False),
    ("if (atomicAdd((unsigned*)kept + 2, 1) + 1 < kept[3]) return;", "kept[2] = 0", False),  # who is the last
])  # fmt: skip
def test_one_buffer_may_hold_both(tmp_path: Path, test: str, following: str, found: bool) -> None:
    setup = KEPT.partition("\n")[2] + 'self.kept = torch.zeros(2, dtype=torch.int32, device="cuda")\n'
    text = PARTS.replace("NOW", "kept[1] = 0").replace("TEST", test).replace("NEXT", following)
    work = "ext.run(x, self.weight, self.weight_scale, self.y, self.kept)\nreturn self.y\n"
    report = lint(tmp_path, HEAD + text + model(work, setup))
    assert ("KBH209" in {finding.rule for finding in report.findings}) == found, report.trace
