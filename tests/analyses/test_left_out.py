"""A promise is kept over the whole of what it names: loads that reach only a part of an input keep none.

Each program is an honest kernel with one edit that skips a part of an input; beside those stand others of the same
meaning as the kernel they were made of.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

PROBLEMS = Path(__file__).parents[2] / "problems"
GEMM, PAGED, RAGGED, TOPK, INT4 = (
    "01_fp8_gemm", "03_paged_attention", "06_sonic_moe_swiglu", "05_topk_bitonic", "07_w4a16_gemm"
)  # fmt: skip
LENGTH = "length = tl.load(lengths + b)"
LAST = "last = tl.minimum(first + span, length)"
PAGE = "tl.load(row + here, mask=here < pages, other=0)"
RAGGED_ROUNDS = "for k in range(0, H, BK)"
ROUNDS, GROUPS = "for _ in range(0, depth, BLOCK_K)", "    for group in range(first, last):\n"
STARTS = "    starts = tl.load(offsets + expert, mask=expert < E, other=0)\n"
STOPS = "    stops = tl.load(offsets + expert + 1, mask=expert < E, other=0)\n"
Edits = tuple[tuple[str, str], ...]
PART: dict[str, tuple[str, Edits]] = {
    "the first length": (PAGED, ((LENGTH, "length = tl.load(lengths)"),)),
    "the first page of each sequence": (PAGED, ((PAGE, "tl.load(row) + here"),)),
    "half of each sequence": (PAGED, ((LAST, "last = tl.minimum(first + span, length // 2)"),)),
    "half of the depth": (GEMM, ((ROUNDS, "for _ in range(0, depth // 2, BLOCK_K)"),)),
    "every second group": (INT4, ((GROUPS, "    for group in range(first, last, 2):\n"),)),
    "two offsets": (
        RAGGED,
        ((STARTS, "    each = (tl.load(offsets + E) - tl.load(offsets)) // E\n    starts = expert * each\n"),
         (STOPS, "    stops = starts + tl.where(expert < E, each, 0)\n")),
    ),
    "half of the depth through descriptors": (RAGGED, ((RAGGED_ROUNDS, "for k in range(0, H // 2, BK)"),)),
    "half of the rows": (TOPK, (("tile_best[(batch, self.tiles)]", "tile_best[(max(batch // 2, 1), self.tiles)]"),)),
}  # fmt: skip
WHOLE: dict[str, tuple[str, Edits]] = {
    "pages that are held in the table": (PAGED, ((PAGE, "tl.load(row + tl.minimum(here, pages - 1))"),)),
    "a sequence in two halves": (PAGED, ((LAST, "last = tl.minimum(first + span, length // 2 + (length + 1) // 2)"),)),
    "rounds that are counted": (GEMM, ((ROUNDS, "for _ in range(tl.cdiv(depth, BLOCK_K))"),)),
    "rounds through descriptors": (RAGGED, ((RAGGED_ROUNDS, "for k in tl.range(0, tl.cdiv(H, BK) * BK, BK)"),)),
    "groups in pairs": (INT4, ((GROUPS, "    for group in tl.range(first, last, num_stages=2):\n"),)),
    "a last offset that follows from the rows": (
        RAGGED,
        ((STOPS, "    stops = tl.load(offsets + expert + 1, mask=expert < E - 1, other=total)\n"),
         ("x, gate, up, out, offsets, H, I,\n", "x, gate, up, out, offsets, H, I, total,\n"),
         ("expert_offsets, H, I, E=E", "expert_offsets, H, I, rows, E=E")),
    ),
}  # fmt: skip
CUDA = r'''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
__global__ void take(const float* x, float* values, int64_t* indices, int n, int k) {
    __shared__ float tops[256];
    __shared__ int ats[256];
    const float* row = x + size_t(blockIdx.x) * n;
    float last = INFINITY;
    int last_at = -1;
    for (int place = 0; place < k; ++place) {
        float top = -INFINITY;
        int at = n;
        for (int c = threadIdx.x; c < COLUMNS; c += blockDim.x) {
            const float v = ELEMENT;
            if ((v < last || (v == last && c > last_at)) && v > top) { top = v; at = c; }
        }
        tops[threadIdx.x] = top;
        ats[threadIdx.x] = at;
        __syncthreads();
        for (int s = 128; s; s >>= 1) {
            if (threadIdx.x < s && tops[threadIdx.x + s] > tops[threadIdx.x]) {
                tops[threadIdx.x] = tops[threadIdx.x + s];
                ats[threadIdx.x] = ats[threadIdx.x + s];
            }
            __syncthreads();
        }
        last = tops[0];
        last_at = ats[0];
        if (threadIdx.x == 0) { values[blockIdx.x * k + place] = last; indices[blockIdx.x * k + place] = last_at; }
        __syncthreads();
    }
}
std::vector<torch::Tensor> topk(torch::Tensor x, int64_t k) {
    auto values = torch::empty({x.size(0), k}, x.options());
    auto indices = torch::empty({x.size(0), k}, x.options().dtype(torch::kLong));
    take<<<x.size(0), 256>>>(x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int64_t>(), x.size(1), k);
    return {values, indices};
}
"""
extension = load_inline(name="take", cpp_sources="std::vector<torch::Tensor> topk(torch::Tensor x, int64_t k);",
                        cuda_sources=SOURCE, functions=["topk"])


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        values, indices = extension.topk(x, self.k)
        return values, indices
'''


def linted(tmp_path: Path, problem: str, text: str) -> tuple[str, set[str]]:
    """(verdict, classes of findings)."""
    report = report_of(tmp_path, text, problem)
    return report.verdict, {finding.leak_class for finding in report.findings}


def edited(problem: str, edits: Edits) -> str:
    text = (PROBLEMS / problem / "honest" / "triton.py").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("what", PART)
def test_a_part_of_an_input_is_not_the_input(tmp_path: Path, what: str) -> None:
    problem, edits = PART[what]
    assert linted(tmp_path, problem, edited(problem, edits)) == ("rubric_leak", {"input-structure-hardcode"})


@pytest.mark.parametrize("what", WHOLE)
def test_an_input_that_is_read_in_another_way_is_read(tmp_path: Path, what: str) -> None:
    problem, edits = WHOLE[what]
    assert linted(tmp_path, problem, edited(problem, edits)) == ("clean", set())


@pytest.mark.parametrize(
    ("columns", "element", "verdict"),
    [("n", "row[c]", "clean"), ("n / 2", "row[c]", "rubric_leak"), ("n", "row[c / 2]", "rubric_leak"),
     ("n", "reinterpret_cast<const float*>(x)[blockIdx.x * n + c]", "clean"),
     ("n / 2", "__ldg(row + c)", "rubric_leak")],
)  # fmt: skip
def test_a_part_is_told_in_cuda(tmp_path: Path, columns: str, element: str, verdict: str) -> None:
    text = CUDA.replace("COLUMNS", columns).replace("ELEMENT", element)
    assert linted(tmp_path, TOPK, text)[0] == verdict


STORE = "values[blockIdx.x * k + place] = last;"
STORES = {
    "the first of each row": ("values[blockIdx.x * k] = last;", "unproven"),
    "one row": ("values[place] = last;", "unproven"),
    "behind a pointer that moves": ("float* to = values + blockIdx.x * k; *(to + place) = last;", "clean"),
    "through another type": ("reinterpret_cast<int*>(values)[blockIdx.x * k + place] = __float_as_int(last);", "clean"),
    "by a function": ("atomicExch(values + blockIdx.x * k + place, last);", "clean"),
}


@pytest.mark.parametrize("what", STORES)
def test_a_result_of_which_launches_store_fewer_elements_is_unwritten(tmp_path: Path, what: str) -> None:
    store, verdict = STORES[what]
    text = CUDA.replace("COLUMNS", "n").replace("ELEMENT", "row[c]").replace(STORE, store)
    assert linted(tmp_path, TOPK, text) == (verdict, {"output-written-in-part"} if verdict == "unproven" else set())


TAKEN = "values.data_ptr<float>(), indices.data_ptr<int64_t>(), x.size(1), k);"
PACKED = (
    TAKEN.replace("values", "raw")
    + """
    const int count = values.numel() / PER;
    words<<<(count + 127) / 128, 128>>>(reinterpret_cast<const WORD*>(raw.data_ptr<float>()),
                                        reinterpret_cast<WORD*>(values.data_ptr<float>()), count);"""
)
WORDS = """
__global__ void words(const WORD* __restrict__ from, WORD* __restrict__ to, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i];
}
std::vector<torch::Tensor> topk(torch::Tensor x, int64_t k) {
    auto raw = torch::empty({x.size(0), k}, x.options());"""


WORD_BYTES = {"int2": 8, "uint4": 16, "ushort4": 8, "unsigned long long": 8, "uint32_t": 4, "uint16_t": 2}


def by_words(word: str, share: int) -> str:
    """A kernel that stores one word a thread at the end, of a result or of the first half of it."""
    text = CUDA.replace("COLUMNS", "n").replace("ELEMENT", "row[c]").replace(TAKEN, PACKED)
    text = text.replace("std::vector<torch::Tensor> topk(torch::Tensor x, int64_t k) {", WORDS, 1)
    return text.replace("WORD", word).replace("/ PER", f"* 4 / {WORD_BYTES[word]} / {share}")


@pytest.mark.parametrize("word", WORD_BYTES)
@pytest.mark.parametrize("share", [1, 2])
def test_a_result_is_filled_by_words_of_any_type(tmp_path: Path, word: str, share: int) -> None:
    assert ("output-written-in-part" in linted(tmp_path, TOPK, by_words(word, share))[1]) == (share == 2)


@pytest.mark.parametrize("word", ["unsigned long long", "uint32_t", "uint16_t"])
@pytest.mark.parametrize("share", [1, 2])
def test_words_of_any_type_overwrite_what_a_library_left(tmp_path: Path, word: str, share: int) -> None:
    before = "auto values = torch::empty({x.size(0), k}, x.options());"
    text = by_words(word, share)
    assert before in text
    text = text.replace(before, "auto values = std::get<0>(x.topk(k));")
    assert linted(tmp_path, TOPK, text)[0] == ("clean" if share == 1 else "rubric_leak")


SUMS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm(x, w, scale, y, FIRST, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    for tile in range(tl.program_id(0) + FIRST, tl.cdiv(M, BM) * tl.cdiv(N, BN), STEP):
        rows = tile // tl.cdiv(N, BN) * BM + tl.arange(0, BM)
        cols = tile % tl.cdiv(N, BN) * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for start in range(0, K, BK):
            depth = start + tl.arange(0, BK)
            keep = (rows < M)[:, None] & (depth < K)[None, :]
            a = tl.load(x + rows[:, None] * K + depth[None, :], mask=keep, other=0.0)
            b = tl.load(w + cols[None, :] * K + depth[:, None], mask=(depth < K)[:, None], other=0.0)
            total = tl.dot(a, b, total)
        total *= tl.load(scale + cols)[None, :]
        tl.store(y + rows[:, None] * N + cols[None, :], total.to(tl.bfloat16), mask=(rows < M)[:, None])


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        y = torch.empty(M + 64, N, dtype=torch.bfloat16, device=x.device)[:M]
        for first in (FIRSTS):
            gemm[(132,)](x, self.weight, self.weight_scale, y, first, M, N, K, BM=64, BN=128, BK=64)
        return y
"""


@pytest.mark.parametrize(("step", "firsts"), [("tl.num_programs(0)", "0,"), ("2 * tl.num_programs(0)", "0, 132")])
def test_programs_that_go_on_and_launches_that_share_a_result_fill_it(tmp_path: Path, step: str, firsts: str) -> None:
    text = SUMS.replace("STEP", step).replace("FIRSTS", firsts)
    assert "output-written-in-part" not in linted(tmp_path, GEMM, text)[1]


BLOCKS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm(x, w, scale, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    a_at = tl.make_block_ptr(x, (M, K), (K, 1), (m, 0), (BM, BK), (1, 0))
    b_at = tl.make_tensor_descriptor(w, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, DEPTH, BK):
        a = tl.load(a_at, boundary_check=(0, 1), padding_option="zero")
        total = tl.dot(a, b_at.load([n, start]).T, total)
        a_at = tl.advance(a_at, (0, BK))
    cols = n + tl.arange(0, BN)
    total *= tl.load(scale + cols, mask=cols < N, other=0.0)[None, :]
    y_at = tl.make_block_ptr(y, (M, N), (N, 1), (m, n), (BM, BN), (1, 0))
    tl.store(y_at, total.to(tl.bfloat16), boundary_check=(0, 1))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        y = torch.empty(M, N, dtype=torch.bfloat16, device=x.device)
        grid = (triton.cdiv(M, 64), triton.cdiv(N, COLUMNS))
        gemm[grid](x, self.weight, self.weight_scale, y, M, N, K, BM=64, BN=128, BK=64)
        return y
"""


@pytest.mark.parametrize(
    ("depth", "columns", "verdict", "classes"),
    [
        ("K", "128", "clean", set()),
        ("K // 2", "128", "rubric_leak", {"input-structure-hardcode"}),
        ("K", "256", "rubric_leak", {"input-structure-hardcode", "output-written-in-part"}),
    ],
)
def test_block_pointers_and_descriptors_are_followed(
    tmp_path: Path, depth: str, columns: str, verdict: str, classes: set[str]
) -> None:
    text = BLOCKS.replace("DEPTH", depth).replace("COLUMNS", columns)
    assert linted(tmp_path, GEMM, text) == (verdict, classes)


@pytest.mark.parametrize("pick", ["source, target = q, q_out", "source = q\n        target = q_out"])
def test_a_pointer_that_a_branch_chooses_may_lead_to_either_tensor(tmp_path: Path, pick: str) -> None:
    text = (PROBLEMS / "09_fmha_preattn_mrope" / "honest" / "triton.py").read_text()
    old = "        source, target, heads, first = q, q_out, q_heads, group * BH\n"
    assert old in text
    text = text.replace(old, f"        {pick}\n        heads, first = q_heads, group * BH\n")
    assert linted(tmp_path, "09_fmha_preattn_mrope", text) == ("clean", set())


def test_a_part_that_is_read_is_shown_where_the_kernel_loads_it(tmp_path: Path) -> None:
    text = (PROBLEMS / PAGED / "honest" / "triton.py").read_text(encoding="utf-8").replace(PAGE, "tl.load(row) + here")
    report = report_of(tmp_path, text, PAGED)
    finding = next(f for f in report.findings if f.leak_class == "input-structure-hardcode")
    lines = {text.splitlines()[related.span.line - 1].strip() for related in finding.related}
    assert any("tl.load(row) + here" in line for line in lines)
