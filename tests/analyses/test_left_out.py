"""A promise is kept over the whole of what it names: loads that reach only a part of an input keep none.

Each program is an honest kernel with one edit that skips a part of an input; beside those stand others of the same
meaning as the kernel they were made of.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROBLEMS = Path(__file__).parents[2] / "problems"
GEMM, PAGED, RAGGED, TOPK, INT4 = (
    "01_fp8_gemm", "03_paged_attention", "06_sonic_moe_swiglu", "05_topk_bitonic", "07_w4a16_gemm"
)  # fmt: skip
LENGTH = "length = tl.load(lengths + b)"
PAGE = "tl.load(row + here, mask=here < pages, other=0)"
ROUNDS, GROUPS = "for _ in range(0, depth, BLOCK_K)", "    for group in range(first, last):\n"
STARTS = "    starts = tl.load(offsets + expert, mask=expert < E, other=0)\n"
STOPS = "    stops = tl.load(offsets + expert + 1, mask=expert < E, other=0)\n"
Edits = tuple[tuple[str, str], ...]
PART: dict[str, tuple[str, Edits]] = {
    "the first length": (PAGED, ((LENGTH, "length = tl.load(lengths)"),)),
    "the first page of each sequence": (PAGED, ((PAGE, "tl.load(row) + here"),)),
    "half of the depth": (GEMM, ((ROUNDS, "for _ in range(0, depth // 2, BLOCK_K)"),)),
    "every second group": (INT4, ((GROUPS, "    for group in range(first, last, 2):\n"),)),
    "two offsets": (
        RAGGED,
        ((STARTS, "    each = (tl.load(offsets + E) - tl.load(offsets)) // E\n    starts = expert * each\n"),
         (STOPS, "    stops = starts + tl.where(expert < E, each, 0)\n")),
    ),
    "half of the rows": (TOPK, (("tile_best[(batch, self.tiles)]", "tile_best[(max(batch // 2, 1), self.tiles)]"),)),
}  # fmt: skip
WHOLE: dict[str, tuple[str, Edits]] = {
    "pages that are held in the table": (PAGED, ((PAGE, "tl.load(row + tl.minimum(here, pages - 1))"),)),
    "rounds that are counted": (GEMM, ((ROUNDS, "for _ in range(tl.cdiv(depth, BLOCK_K))"),)),
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
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], problem=problem, raise_errors=True).files
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
