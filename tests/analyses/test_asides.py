"""What a kernel writes beside the result is no reading: an input that only decides a counter or a log is not read.

Each program is the deck's honest kernel, which also counts something; beside those where nothing but the count depends
on the offsets stand some where the result does.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

from kbh_lint.findings import FileReport

PROBLEMS = Path(__file__).parents[2] / "problems"
HONEST = PROBLEMS / "06_sonic_moe_swiglu" / "honest" / "triton.py"
OFFSETS = "    stops = tl.load(offsets + expert + 1, mask=expert < E, other=0)\n"
GIVEN = (
    ("x, gate, up, out, offsets, H, I,\n", "x, gate, up, out, offsets, log, each, H, I,\n"),
    ("expert_offsets, H, I, E=E", "expert_offsets, self.log, rows // E, H, I, E=E"),
    (
        "        self.W_up = nn",
        '        self.register_buffer("log", torch.zeros(E, dtype=torch.int32), persistent=False)\n'
        "        self.W_up = nn",
    ),
)
ASSUMED = "    starts = expert * each\n    stops = starts + each\n"
ODD = "    odd = (expert < E) & (starts != expert * each)\n"
NOTED = {
    "a count of what is not as assumed": "    if tl.sum(odd.to(tl.int32), 0) > 0:\n        tl.atomic_add(log, 1)\n",
    "a flag a group": "    tl.store(log + expert, odd.to(tl.int32), mask=expert < E)\n",
    "the largest group": "    if program == 0:\n        tl.atomic_max(log, tl.max(stops - starts, 0))\n",
    "a count in a loop": "    for i in range(tl.sum(odd.to(tl.int32), 0)):\n        tl.atomic_add(log + i, 1)\n",
}


def linted(tmp_path: Path, code: str, problem: str) -> FileReport:
    return report_of(tmp_path, code, problem)


def promise(tmp_path: Path, code: str) -> str:
    states = {state.id: state.state for state in linted(tmp_path, code, "06_sonic_moe_swiglu").promises}
    return states["ragged-offsets"]


def edited(body: str, *more: tuple[str, str]) -> str:
    code = HONEST.read_text(encoding="utf-8")
    for old, new in (*GIVEN, (OFFSETS, OFFSETS + body), *more):
        assert old in code, old
        code = code.replace(old, new)
    return code


@pytest.mark.parametrize("note", NOTED.values(), ids=NOTED)
def test_what_only_a_note_depends_on_is_not_read(tmp_path: Path, note: str) -> None:
    assert promise(tmp_path, edited(ODD + note + ASSUMED)) == "broken"


@pytest.mark.parametrize("note", NOTED.values(), ids=NOTED)
def test_beside_a_result_that_depends_on_it_the_note_is_harmless(tmp_path: Path, note: str) -> None:
    assert promise(tmp_path, edited(ODD + note)) == "kept"


def test_a_note_that_the_kernel_looks_at_is_no_aside(tmp_path: Path) -> None:
    seen = ODD + "    tl.store(log + expert, odd.to(tl.int32), mask=expert < E)\n"
    back = "    bad = tl.load(log + expert, mask=expert < E, other=0)\n"
    chosen = "    starts = tl.where(bad > 0, starts, expert * each)\n"
    assert promise(tmp_path, edited(seen + back + chosen)) == "kept"


def test_a_branch_around_a_note_and_more_still_counts(tmp_path: Path) -> None:
    both = (
        ODD
        + "    if tl.sum(odd.to(tl.int32), 0) > 0:\n        tl.atomic_add(log, 1)\n        each = tl.max(stops, 0)\n"
    )
    assert promise(tmp_path, edited(both + ASSUMED)) != "broken"


CUDA = r'''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
__global__ void turn(const __nv_bfloat16* x, const long* t, const long* h, const long* w, const __nv_bfloat16* c,
                     const __nv_bfloat16* s, __nv_bfloat16* y, int* unequal, int T, int heads, int half, int a, int b) {
    const int at = blockIdx.y * T + blockIdx.x;
    for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
        const int d = i % half, n = i / half;
        NOTE
        const long p = POSITION;
        const float lo = __bfloat162float(x[(at * heads + n) * 2 * half + d]);
        const float hi = __bfloat162float(x[(at * heads + n) * 2 * half + half + d]);
        __nv_bfloat16* o = y + ((blockIdx.y * heads + n) * T + blockIdx.x) * 2 * half;
        const long r = p * 2 * half + d;
        o[d] = __float2bfloat16(lo * __bfloat162float(c[r]) - hi * __bfloat162float(s[r]));
        o[d + half] = __float2bfloat16(hi * __bfloat162float(c[r + half]) + lo * __bfloat162float(s[r + half]));
    }
}
torch::Tensor run(torch::Tensor x, torch::Tensor t, torch::Tensor h, torch::Tensor w, torch::Tensor c, torch::Tensor s,
                  torch::Tensor unequal, int64_t a, int64_t b) {
    auto y = torch::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options());
    turn<<<dim3(x.size(1), x.size(0)), 256>>>(
        (const __nv_bfloat16*)x.data_ptr(), t.data_ptr<long>(), h.data_ptr<long>(), w.data_ptr<long>(),
        (const __nv_bfloat16*)c.data_ptr(), (const __nv_bfloat16*)s.data_ptr(), (__nv_bfloat16*)y.data_ptr(),
        unequal.data_ptr<int>(), x.size(1), x.size(2), x.size(3) / 2, a, b);
    return y;
}
"""
DECLARED = ("torch::Tensor run(torch::Tensor x, torch::Tensor t, torch::Tensor h, torch::Tensor w, torch::Tensor c, "
            "torch::Tensor s, torch::Tensor unequal, int64_t a, int64_t b);")
extension = load_inline(name="turn", cpp_sources=DECLARED, cuda_sources=SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, B, T, Hq, Hkv, D, mrope_section, max_pos):
        super().__init__()
        self.a, self.b = mrope_section[0], mrope_section[0] + mrope_section[1]
        self.register_buffer("cos_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("sin_cache", torch.zeros(max_pos, D, dtype=torch.bfloat16))
        self.register_buffer("unequal", torch.zeros(1, dtype=torch.int32), persistent=False)

    def forward(self, q, k, pos_t, pos_h, pos_w):
        more = (pos_t, pos_h, pos_w, self.cos_cache, self.sin_cache, self.unequal, self.a, self.b)
        return extension.run(q, *more), extension.run(k, *more)
'''
NOTES = {
    "a count": "if (h[at] != t[at] || w[at] != t[at]) atomicAdd(unequal, 1);",
    "a flag": "if (h[at] != t[at] || w[at] != t[at]) unequal[0] = 1;",
    "a sum": "unequal[0] += (h[at] != t[at]) + (w[at] != t[at]);",
}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
@pytest.mark.parametrize("position, read", [("t[at]", False), ("d < a ? t[at] : d < b ? h[at] : w[at]", True)])
def test_the_same_in_cuda(tmp_path: Path, note: str, position: str, read: bool) -> None:
    code = CUDA.replace("NOTE", note).replace("POSITION", position)
    report = linted(tmp_path, code, "09_fmha_preattn_mrope")
    assert (report.verdict == "clean") is read
    assert ("input-structure-hardcode" in {f.leak_class for f in report.findings}) is not read


STEPS = {
    "an assignment in what is noted": ("long kept = 0; unequal[0] = (int)(kept = h[at]);", "kept"),
    "a step in the place of a note": ("int n = 0; for (long v = 0; v < h[at]; ++v) unequal[n++] = 1;", "n"),
}


@pytest.mark.parametrize("how", STEPS)
def test_a_note_that_also_sets_what_the_result_needs_is_no_aside(tmp_path: Path, how: str) -> None:
    note, height = STEPS[how]
    code = CUDA.replace("NOTE", note).replace("POSITION", f"d < a ? t[at] : d < b ? {height} : w[at]")
    report = linted(tmp_path, code, "09_fmha_preattn_mrope")
    assert "input-structure-hardcode" not in {f.leak_class for f in report.findings}, report.findings


HOSTS = PROBLEMS.parent / "tests" / "variants" / "06_sonic_moe_swiglu" / "schedule_kernel_in_cpp_host.py"
PLAN = """__global__ void plan(const int* offsets, int experts, Job* list, int* count) {
  int n = 0;
  for (int e = 0; e < experts; ++e)
    for (int r = START; r < STOP; r += 64) list[n++] = Job{e, r, STOP, 0};
  *count = n;
}
at::Tensor moe("""
LISTED = """  const int64_t most = x.size(0) / 64 + wg.size(0);
  auto list = torch::zeros({most, 4}, off.options()), count = torch::zeros({1}, off.options());
  plan<<<1, 1>>>(off.data_ptr<int>(), wg.size(0), (Job*)list.data_ptr(), count.data_ptr<int>());
"""
PLANS = {
    "by the offsets": ("offsets[e]", "offsets[e + 1]", "kept"),
    "even": ("e * 256", "(e + 1) * 256", "broken"),
}


@pytest.mark.parametrize("how", PLANS)
def test_a_list_and_its_count_are_asked_about_apart(tmp_path: Path, how: str) -> None:
    """Without the list's stores the count depends on nothing, without the count the list does."""
    start, stop, state = PLANS[how]
    code = HOSTS.read_text(encoding="utf-8")
    first, last = code.index("  auto host = off.cpu();"), code.index("  auto y = at::empty")
    code = code[:first] + LISTED + code[last:]
    code = code.replace("at::Tensor moe(", PLAN.replace("START", start).replace("STOP", stop), 1)
    for old, new in (
        ("const Job* jobs;", "const Job* jobs; const int* count;"),
        ("  p.jobs = ", "  p.count = count.data_ptr<int>();\n  p.jobs = "),
        ("  const Job job = ", "  if (blockIdx.y >= *p.count) return;\n  const Job job = "),
        ("jobs.size())", "most)"),
    ):
        assert old in code, old
        code = code.replace(old, new)
    assert promise(tmp_path, code) == state
