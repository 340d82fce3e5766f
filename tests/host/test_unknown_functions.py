"""Functions and types of C++ that no text defines, given the output: it may be they that fill it."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import CUDA, HEAD, SIGNATURE, classes, lint

SETUP = f'from torch.utils.cpp_extension import load_inline\nSOURCE = r"""{CUDA}"""\n'
BUILD = f'ext = load_inline("ext", cpp_sources="{SIGNATURE}", cuda_sources=SOURCE, functions=["run"])\n'
MODEL = """
class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        return ext.run(x, self.weight, self.weight_scale)
"""
WAYS = (
    "launch_it(y.data_ptr(), x.data_ptr(), M);",
    "cudaError_t error = launch_it(y.data_ptr(), x.data_ptr(), M);",
    "Launch<float>(y.data_ptr(), x.data_ptr(), M);",
    "int error = ours::Launch<float, 2>(y.data_ptr(), x.data_ptr(), M);",
    "if (ours::Launch<float>(y.data_ptr(), M) != cudaSuccess) throw std::runtime_error(\"no\");",
    "Store<float> store(y.data_ptr<float>(), M); Launch<decltype(store)>(store, x.data_ptr(), M);",
)  # fmt: skip
KNOWN = ("std::vector<void*> kept{y.data_ptr()};", "auto kept = y.data_ptr();", "int64_t bytes = y.numel() * 2;")


def program(statement: str) -> str:
    start = CUDA.index("  gemm<<<")
    text = CUDA[:start] + f"  {statement}\n  return y;\n}}\n"
    return HEAD + SETUP.replace(CUDA, text) + BUILD + MODEL


@pytest.mark.parametrize("statement", WAYS)
def test_an_output_that_an_unknown_function_was_given_is_not_unwritten(tmp_path: Path, statement: str) -> None:
    report = lint(tmp_path, program(statement))
    assert (report.verdict, classes(report)) == ("unproven", set())


@pytest.mark.parametrize("statement", KNOWN)
def test_one_that_nothing_was_given_is(tmp_path: Path, statement: str) -> None:
    assert "unwritten-output" in classes(lint(tmp_path, program(statement)))
