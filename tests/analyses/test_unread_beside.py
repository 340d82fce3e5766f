"""Something that could not be read, beside kernels that keep their promises: it proves nothing where it may have
written the result, whatever the promise, and takes nothing away where it cannot have."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROBLEMS = Path(__file__).parents[2] / "problems"
NAMES = ("01_fp8_gemm", "04_kahan_softmax", "07_w4a16_gemm", "10_patch_embed_conv3d_gemm")
ODD = "\n\n@triton.jit\ndef odd(p, q):\n    tl.store(q, 1.0)\n    tl.of_tomorrow(p)\n\n\n"
MAY_WRITE = {
    "a call that is given the result": "elsewhere.work(y)",
    "a call that is given a part of it": "elsewhere.work({'out': [y[:1]]})",
    "a call that is given its address": "elsewhere.work(y.data_ptr())",
    "an unknown method": "getattr(y, elsewhere.name)(y)",
    "a kernel": "odd[(1,)](y, torch.empty(4, device=x.device))",
}
CANNOT = {
    "a call that is given inputs": "elsewhere.work(x)",
    "a call that is given nothing": "elsewhere.work(x.shape, 1)",
    "a call on memory of its own": "elsewhere.work(torch.ones(4, device=x.device) + 1)",
    "a kernel on memory of its own": "odd[(1,)](*torch.empty(2, 4, device=x.device))",
    "a log": "logging.getLogger('a').debug('%s', y)",
    "a queue": "queue.SimpleQueue().put(y)",
}


def states(tmp_path: Path, problem: str, line: str) -> set[str]:
    text = (PROBLEMS / problem / "honest" / "triton.py").read_text(encoding="utf-8")
    before, _, after = text.rpartition("        return y\n")
    text = f"{before}        {line}\n        return y\n{after}"
    text = text.replace("\nclass Model(", f"import logging\nimport queue\n\nimport elsewhere\n{ODD}class Model(")
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    return {promise.state for promise in lint([path], problem=problem, raise_errors=True).files[0].promises}


@pytest.mark.parametrize("problem", NAMES)
@pytest.mark.parametrize("what", MAY_WRITE)
def test_what_may_have_written_the_result_leaves_every_promise_open(tmp_path: Path, problem: str, what: str) -> None:
    assert states(tmp_path, problem, MAY_WRITE[what]) == {"unproven"}


@pytest.mark.parametrize("what", CANNOT)
def test_what_cannot_have_written_the_result_takes_nothing_away(tmp_path: Path, what: str) -> None:
    for problem in NAMES[:3]:
        assert states(tmp_path, problem, CANNOT[what]) <= {"kept", "kept-by-precision"}


TABLE = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r'''
#include <torch/extension.h>
struct Job { const float* x; float* left; float* out; int n, k; };
__global__ void copies(Job job) { for (int i = threadIdx.x; i < job.n; i += 32) job.left[i] = job.x[i]; }
using Run = void (*)(const Job&);
const Run* all_of_them();
void top(at::Tensor x, at::Tensor left, at::Tensor out, int64_t k) {
  Job job{x.data_ptr<float>(), left.data_ptr<float>(), out.data_ptr<float>(), (int)x.size(1), (int)k};
  LAUNCH
  all_of_them()[k](job);
}
'''
ext = load_inline("chosen", cpp_sources="void top(at::Tensor x, at::Tensor left, at::Tensor out, int64_t k);",
                  cuda_sources=CUDA, functions=["top"])


class Model(nn.Module):
    def __init__(self, batch: int, n: int, k: int):
        super().__init__()
        self.k, self.left = k, None

    def forward(self, x):
        new = self.left is None
        if new:
            self.left = torch.empty(x.numel(), device=x.device)
        out = torch.empty(x.shape[0], self.k, device=x.device)
        ext.top(x, self.left, out, self.k)
        return out, out.long()
"""


def test_a_workspace_that_is_handed_to_what_was_not_read_is_no_cache(tmp_path: Path) -> None:
    """Nobody knows that the function left anything of the input there, or that it looks there before it writes."""
    path = tmp_path / "solution.py"
    path.write_text(TABLE.replace("LAUNCH", ""), encoding="utf-8")
    report = lint([path], problem="05_topk_bitonic", raise_errors=True).files[0]
    assert [found.rule for found in report.findings if found.verdict == "rubric_leak"] == []
    assert report.verdict == "unproven"


def test_what_a_kernel_left_there_in_the_first_call_is_one(tmp_path: Path) -> None:
    path = tmp_path / "solution.py"
    once = "static bool first = true; if (first) copies<<<1, 32>>>(job); first = false;"
    path.write_text(TABLE.replace("LAUNCH", once), encoding="utf-8")
    report = lint([path], problem="05_topk_bitonic", raise_errors=True).files[0]
    assert "KBH202" in {found.rule for found in report.findings}
