"""A load is no reading: what a kernel loads must reach the result, by value, address, mask, bound or branch.

Each program is the deck's honest kernel with one edit; beside those that ignore what they load stand some that use it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

from kbh_lint import lint

PROBLEMS = Path(__file__).parents[2] / "problems"
PAGED, RAGGED, ROPE = "03_paged_attention", "06_sonic_moe_swiglu", "09_fmha_preattn_mrope"
LENGTH = "    length = tl.load(lengths + b)\n"
PAGE = "tl.load(row + here, mask=here < pages, other=0), page)"
OFFSETS = "    stops = tl.load(offsets + expert + 1, mask=expert < E, other=0)\n"
LONGEST = (  # the longest sequence as a number that is known when the kernel is compiled
    ("STAGES: tl.constexpr,\n", "STAGES: tl.constexpr, LONGEST: tl.constexpr,\n"),
    ("STAGES=self.STAGES, num_warps", "STAGES=self.STAGES, LONGEST=self.longest, num_warps"),
    ("        self.heads, self.kv_heads", "        self.longest = seq_len\n        self.heads, self.kv_heads"),
)
EACH = (
    ("x, gate, up, out, offsets, H, I,\n", "x, gate, up, out, offsets, H, I, each,\n"),
    ("expert_offsets, H, I, E=E", "expert_offsets, H, I, rows // E, E=E"),
)
HEIGHT = "    at_w = tl.load(pos_w + token, mask=real, other=0)[:, None]\n"
ROPE_EDIT = (
    (HEIGHT, f"{HEIGHT}    at_h = tl.where(at_h >= 0, at_t, at_h)\n    at_w = tl.where(at_w < 0, at_w, at_t)\n"),
)
ROPE_TWIN = (
    (HEIGHT, f"{HEIGHT}    at_h = tl.where(at_h < 0, at_t, at_h)\n    at_w = tl.where(at_w >= 0, at_w, at_t)\n"),
)
ON_HOST = "        output = torch.empty_like(query)\n"
Edits = tuple[tuple[str, str], ...]


def host(line: str) -> Edits:
    """An edit that gives the kernel other lengths than the host was given."""
    return (*LONGEST[2:], (ON_HOST, f"{ON_HOST}        seq_lens = {line}\n"))


IGNORED: dict[str, tuple[str, Edits]] = {
    "lengths that are overwritten": (PAGED, ((LENGTH, f"{LENGTH}    length = pages * PAGE\n"),)),
    "asked whether they are none": (
        PAGED, ((LENGTH, "    if tl.load(lengths + b) < 1:\n        return\n    length = pages * PAGE\n"),)
    ),
    "lengths times zero": (PAGED, ((LENGTH, "    length = tl.load(lengths + b) * 0 + pages * PAGE\n"),)),
    "at least the longest": (PAGED, (*LONGEST, (LENGTH, "    length = tl.maximum(tl.load(lengths + b), LONGEST)\n"))),
    "at least the longest, on the host": (PAGED, host("seq_lens.clamp(min=self.longest)")),
    "the same after a conversion": (PAGED, host("seq_lens.long().clamp_min(self.longest).int()")),
    "between two bounds that are one": (PAGED, host("torch.clip(seq_lens, self.longest, max=self.longest)")),
    "nothing of them, and the longest": (PAGED, host("seq_lens.mul(0).add_(self.longest)")),
    "the longest where they are shorter, on the host": (
        PAGED, host("torch.where(seq_lens < self.longest, self.longest, seq_lens)")
    ),
    "themselves where they are as long": (PAGED, host("seq_lens.int().where(seq_lens >= self.longest, self.longest)")),
    "filled where they are shorter": (PAGED, host("seq_lens.masked_fill(seq_lens < self.longest, self.longest)")),
    "the larger of them and the longest": (
        PAGED, host("torch.maximum(seq_lens, torch.full_like(seq_lens, self.longest))")
    ),
    "the same by Python's max": (PAGED, (*LONGEST, (LENGTH, "    length = max(tl.load(lengths + b), LONGEST)\n"))),
    "pages that are not looked at": (PAGED, ((f"i, {PAGE}", f"i, here + 0 * {PAGE}"),)),
    "at least and at most the longest": (
        PAGED,
        (*LONGEST, (LENGTH, "    length = tl.minimum(tl.maximum(tl.load(lengths + b), LONGEST), LONGEST)\n")),
    ),
    "the same bounds by a name": (
        PAGED,
        (*LONGEST, (LENGTH, "    known = tl.load(lengths + b)\n    at_most = tl.minimum(known, LONGEST)\n"
                            "    length = tl.maximum(at_most, LONGEST)\n")),
    ),
    "at least more than the longest": (
        PAGED, (*LONGEST, (LENGTH, "    length = tl.maximum(tl.load(lengths + b), LONGEST + 8)\n"))
    ),
    "others where they are longer than any": (
        PAGED,
        (*LONGEST, (LENGTH, "    told = tl.load(lengths + b)\n"
                            "    length = tl.where(told > LONGEST, told, LONGEST)\n")),
    ),
    "the same by a branch": (
        PAGED,
        (*LONGEST, (LENGTH, "    length = tl.load(lengths + b)\n"
                            "    if length <= LONGEST:\n        length = LONGEST\n")),
    ),
    "what division leaves of them": (
        PAGED, (*LONGEST, (LENGTH, "    length = LONGEST + tl.load(lengths + b) // (LONGEST + 1)\n"))
    ),
    "whole numbers past the point": (PAGED, ((LENGTH, "    length = pages * PAGE + tl.load(lengths + b) % 1\n"),)),
    "lengths in a factor that is nothing": (
        PAGED,
        (*LONGEST, (LENGTH, "    told = tl.load(lengths + b)\n    over = tl.minimum(told, LONGEST) - told\n"
                            "    length = LONGEST - (tl.maximum(told - LONGEST, 0)).to(tl.int32)\n")),
    ),
    "heights and widths that are never below zero": (ROPE, ROPE_EDIT),
    "lengths minus themselves": (
        PAGED, ((LENGTH, "    length = tl.load(lengths + b)\n    length = pages * PAGE + (length - length)\n"),)
    ),
    "offsets where they are as assumed": (
        RAGGED, (*EACH, (OFFSETS, f"{OFFSETS}    fixed = expert * each\n    alike = starts == fixed\n"
                                  "    starts = tl.where(alike, starts, fixed)\n    stops = starts + each\n"))
    ),
    "assumed offsets where others come": (
        RAGGED, (*EACH, (OFFSETS, f"{OFFSETS}    fixed = expert * each\n"
                                  "    starts = tl.where(starts != fixed, fixed, starts)\n    stops = starts + each\n"))
    ),
    "offsets that are overwritten": (
        RAGGED, (*EACH, (OFFSETS, f"{OFFSETS}    starts = expert * each\n    stops = starts + each\n"))
    ),
    "offsets that are only asserted": (
        RAGGED,
        (*EACH, (OFFSETS, f"{OFFSETS}    tl.device_assert(stops >= 0)\n    starts = expert * each\n"
                          "    stops = starts + each\n")),
    ),
}  # fmt: skip
USED: dict[str, tuple[str, Edits]] = {
    "asked whether they are none, and a mask": (PAGED, ((LENGTH, f"{LENGTH}    if length < 1:\n        return\n"),)),
    "at most the longest": (PAGED, (*LONGEST, (LENGTH, "    length = tl.minimum(tl.load(lengths + b), LONGEST)\n"))),
    "at least one, on the host": (PAGED, host("seq_lens.clamp(min=1)")),
    "within bounds, on the host": (PAGED, host("torch.clamp(seq_lens, 0, max=self.longest)")),
    "times one, on the host": (PAGED, host("seq_lens.mul(1)")),
    "at least nothing": (PAGED, ((LENGTH, "    length = tl.maximum(tl.load(lengths + b), 0)\n"),)),
    "a bound of the grid, and a mask": (
        PAGED,
        (*LONGEST, (LENGTH, "    told = tl.load(lengths + b)\n    length = tl.maximum(told, LONGEST)\n"),
         ("keep = positions < last", "keep = positions < tl.minimum(last, told)")),
    ),
    "one where it is zero": (PAGED, ((LENGTH, f"{LENGTH}    length = tl.where(length > 0, length, 1)\n"),)),
    "times one": (PAGED, ((f"i, {PAGE}", f"i, 0 * here + 1 * {PAGE}"),)),
    "within two bounds": (
        PAGED, (*LONGEST, (LENGTH, "    length = tl.minimum(tl.maximum(tl.load(lengths + b), 0), LONGEST)\n"))
    ),
    "others where they are too long, and those": (
        PAGED,
        (*LONGEST, (LENGTH, "    told = tl.load(lengths + b)\n"
                            "    length = tl.where(told < LONGEST, told, LONGEST)\n")),
    ),
    "the same by a branch": (
        PAGED,
        (*LONGEST, (LENGTH, "    length = tl.load(lengths + b)\n    if length > LONGEST:\n        length = LONGEST\n")),
    ),
    "the longest where they are longer, on the host": (
        PAGED, host("torch.where(seq_lens > self.longest, self.longest, seq_lens)")
    ),
    "one where there is none": (PAGED, host("seq_lens.masked_fill(seq_lens < 1, 1)")),
    "the smaller of them and the longest": (
        PAGED, host("torch.minimum(seq_lens, torch.full_like(seq_lens, self.longest))")
    ),
    "one more and one less": (PAGED, ((LENGTH, "    length = -(1 - (tl.load(lengths + b) + 1)).to(tl.int64)\n"),)),
    "what division and the rest make of them": (
        PAGED, (*LONGEST, (LENGTH, "    told = tl.load(lengths + b)\n    length = told // 8 * 8 + told % 8\n"))
    ),
    "the rest by more than the longest": (
        PAGED, (*LONGEST, (LENGTH, "    length = tl.load(lengths + b) % (LONGEST + 1)\n"))
    ),
    "heights and widths where they are below zero": (ROPE, ROPE_TWIN),
    "others where they are as assumed": (
        RAGGED, (*EACH, (OFFSETS, f"{OFFSETS}    fixed = expert * each\n"
                                  "    starts = tl.where(starts == fixed, fixed, starts)\n"))
    ),
    "offsets by their differences": (
        RAGGED, ((OFFSETS, f"{OFFSETS}    count = stops - starts\n    stops = starts + count\n"),)
    ),
}  # fmt: skip


CUDA = r'''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
__global__ void attend(const __nv_bfloat16* q, const __nv_bfloat16* cache, const int* table, const int* lengths,
                       __nv_bfloat16* out, int heads, int kv_heads, int dim, int page, int pages, int longest) {
    const int b = blockIdx.y, h = blockIdx.x, kv = h / (heads / kv_heads);
    __shared__ float parts[256];
    float top = -1e30f, total = 0.f, sum = 0.f;
    LENGTH
    for (int at = 0; at < length; ++at) {
        PAGE
        const __nv_bfloat16* row = cache + ((size_t(where) * page + at % page) * kv_heads + kv) * 2 * dim;
        const float mine = __bfloat162float(q[(b * heads + h) * dim + threadIdx.x]);
        parts[threadIdx.x] = mine * __bfloat162float(row[threadIdx.x]);
        __syncthreads();
        float dot = 0.f;
        for (int d = 0; d < dim; ++d) dot += parts[d];
        __syncthreads();
        dot *= rsqrtf(dim);
        const float fresh = fmaxf(top, dot), shrink = expf(top - fresh), p = expf(dot - fresh);
        total = total * shrink + p;
        sum = sum * shrink + p * __bfloat162float(row[dim + threadIdx.x]);
        top = fresh;
    }
    out[(b * heads + h) * dim + threadIdx.x] = __float2bfloat16(sum / total);
}
torch::Tensor run(torch::Tensor q, torch::Tensor cache, torch::Tensor table, torch::Tensor lengths, int64_t longest) {
    auto out = torch::empty_like(q);
    attend<<<dim3(q.size(1), q.size(0)), q.size(2)>>>(
        reinterpret_cast<const __nv_bfloat16*>(q.data_ptr()), reinterpret_cast<const __nv_bfloat16*>(cache.data_ptr()),
        table.data_ptr<int>(), lengths.data_ptr<int>(), reinterpret_cast<__nv_bfloat16*>(out.data_ptr()),
        q.size(1), cache.size(2), q.size(2), cache.size(1), table.size(1), longest);
    return out;
}
"""
DECLARATION = (
    "torch::Tensor run(torch::Tensor q, torch::Tensor cache, torch::Tensor table, torch::Tensor lengths, int64_t n);"
)
extension = load_inline(name="attend", cpp_sources=DECLARATION, cuda_sources=SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.longest = seq_len

    def forward(self, query, kv_cache, block_table, seq_lens):
        return extension.run(query, kv_cache, block_table, seq_lens, self.longest)
'''
WHERE = "const int where = table[b * pages + at / page];"
LENGTHS = "const int length = lengths[b];"
ROW = "const int* mine = table + b * pages; const int here = b * pages + at / page, where = "
IN_CUDA = {
    "lengths that nothing uses": ("const int n = lengths[b]; (void)n; const int length = longest;", WHERE, False),
    "lengths times zero": ("const int length = longest + 0 * lengths[b];", WHERE, False),
    "at least the longest": ("const int length = max(lengths[b], longest);", WHERE, False),
    "the same by a choice": ("int n = lengths[b]; const int length = n < longest ? longest : n;", WHERE, False),
    "pages less themselves": (
        "const int length = lengths[b];",
        "const int named = table[b * pages + at / page], where = named - named + b * pages + at / page;",
        False,
    ),
    "pages of a row times zero": (LENGTHS, f"{ROW}here + mine[at / page] * 0;", False),
    "the larger of that and a place": (LENGTHS, f"{ROW}mine[at / page] * 0 > here ? 0 : here;", False),
    "pages of which there is none": (LENGTHS, f"{ROW}mine[at / page] < 0 ? mine[at / page] : here;", False),
    "pages of a row": (LENGTHS, f"{ROW}mine[at / page] + here * 0;", True),
    "pages beside the first": (LENGTHS, f"{ROW}mine[at / page] < 1 ? 0 : mine[at / page];", True),
    "lengths and pages": ("const int length = lengths[b];", WHERE, True),
    "at most the longest": ("const int length = min(lengths[b], longest);", WHERE, True),
    "at least nothing": ("const int length = max(lengths[b], 0);", WHERE, True),
    "a bound inside": ("const int n = lengths[b]; int length = longest;", f"if (at >= n) break; {WHERE}", True),
    "others where they are longer than any": (
        "const int n = lengths[b]; const int length = n > longest ? n : longest;", WHERE, False
    ),
    "the same by a branch": ("int length = lengths[b]; if (length <= longest) length = longest;", WHERE, False),
    "what division leaves of them": ("const int length = longest + lengths[b] / (longest + 1);", WHERE, False),
    "shorter by what they are longer": (
        "const int n = lengths[b], over = max(n - longest, 0); const int length = longest - over;", WHERE, False
    ),
    "where they are not too long": (
        "int length = lengths[b]; if (length > longest) length = longest;", WHERE, True
    ),
    "what division and the rest make of them": (
        "const int n = lengths[b]; const int length = n / 8 * 8 + n % 8;", WHERE, True
    ),
    "unsigned numbers that wrap": (
        "const unsigned n = lengths[b]; const unsigned d = n - longest - 1u; "
        "const int length = d < 0u + longest ? longest : n;", WHERE, True
    ),
    "a length that one thread reads": (
        "__shared__ int n; if (threadIdx.x == 0) n = lengths[b]; __syncthreads(); const int length = n;", WHERE, True
    ),
}  # fmt: skip


def linted(tmp_path: Path, problem: str, edits: Edits) -> tuple[str, set[str], set[str]]:
    """(verdict, classes of findings, states of promises)."""
    text = (PROBLEMS / problem / "honest" / "triton.py").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    report = report_of(tmp_path, text, problem)
    return report.verdict, {finding.leak_class for finding in report.findings}, {p.state for p in report.promises}


@pytest.mark.parametrize("how", IGNORED)
def test_what_is_loaded_for_nothing_is_not_read(tmp_path: Path, how: str) -> None:
    verdict, found, states = linted(tmp_path, *IGNORED[how])
    assert (verdict, found) == ("rubric_leak", {"input-structure-hardcode"}) and "broken" in states


@pytest.mark.parametrize("how", USED)
def test_what_bounds_masks_or_places_the_work_is_read(tmp_path: Path, how: str) -> None:
    assert linted(tmp_path, *USED[how]) == ("clean", set(), {"kept"})


def test_a_factor_that_is_zero_at_one_shape_says_nothing_of_the_others(tmp_path: Path) -> None:
    edits = (
        *LONGEST,
        ("self.longest = seq_len", "self.longest = 0 if seq_len == 1024 else 1"),
        (LENGTH, "    length = tl.load(lengths + b) * LONGEST + pages * PAGE * (1 - LONGEST)\n"),
    )
    text = (PROBLEMS / PAGED / "honest" / "triton.py").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    (promise,) = lint([path], problem=PAGED, raise_errors=True).files[0].promises
    assert sorted(promise.shapes.values()) == ["broken", "kept", "kept", "kept", "kept"], promise.shapes


@pytest.mark.parametrize("how", IN_CUDA)
def test_what_cuda_loads_for_nothing_is_not_read(tmp_path: Path, how: str) -> None:
    length, page, honest = IN_CUDA[how]
    report = report_of(tmp_path, CUDA.replace("LENGTH", length).replace("PAGE", page), PAGED)
    expected = ("clean", set()) if honest else ("rubric_leak", {"input-structure-hardcode"})
    assert (report.verdict, {finding.leak_class for finding in report.findings}) == expected
