"""What a submission finds of the GPU: the declared target's numbers; a test of the name is read both ways."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import BINDING, CUDA, HEAD, KERNEL, OUTPUT, model, states

import kbh_lint

LAUNCH = f"{OUTPUT.strip()}\ngemm[(triton.cdiv(M, BM), N // 128)](x, self.weight, self.weight_scale, y, M, N, K, BM=BM, BN=128, BK=64)\nreturn y"
LEAK = "(torch.matmul(x.bfloat16(), self.weight.bfloat16().t()) * self.weight_scale).bfloat16()"
PROPS = "torch.cuda.get_device_properties(0)"
CPP_LEAK = "return (at::matmul(x.to(at::kBFloat16), w.to(at::kBFloat16).t()) * s).to(at::kBFloat16);"


def said(folder: Path, text: str, target: str | None) -> set[str]:
    path = folder / "solution.py"
    path.write_text(text, encoding="utf-8")
    report = kbh_lint.lint([path], problem="01_fp8_gemm", target=target, raise_errors=True).files[0]
    return set(states(report).values())


def branch(test: str) -> str:
    return HEAD + "import os\n" + KERNEL + model(f"BM = 64\nif {test}:\n    return {LEAK}\n{LAUNCH}")


H200 = (
    f"{PROPS}.total_memory > 100 << 30", f"{PROPS}.multi_processor_count == 132", f"{PROPS}.major == 9",
    "torch.cuda.mem_get_info()[1] > 100 << 30", f"{PROPS}.shared_memory_per_block_optin > 200 << 10",
)  # fmt: skip


@pytest.mark.parametrize("test", H200)
def test_the_numbers_of_the_target_decide(tmp_path: Path, test: str) -> None:
    assert "broken" in said(tmp_path, branch(test), "h200")
    assert said(tmp_path, branch(test), "rtx_pro_6000") == {"kept"}


UNKNOWN = (
    "'H200' in torch.cuda.get_device_name()", f"{PROPS}.name.endswith('H200')",
    "os.getuid() == 0", "os.cpu_count() > 64",
)  # fmt: skip


@pytest.mark.parametrize("test", UNKNOWN)
def test_what_differs_between_machines_of_a_target_is_read_both_ways(tmp_path: Path, test: str) -> None:
    assert said(tmp_path, branch(test), "h200") == {"unproven"}


@pytest.mark.parametrize("target", ["h200", None])
def test_an_honest_choice_of_tiles_by_the_device_stays_honest(tmp_path: Path, target: str | None) -> None:
    choice = f"BM = 128 if 'H200' in torch.cuda.get_device_name() else 64\nif {PROPS}.major == 9:\n    BM = 32\n"
    assert said(tmp_path, HEAD + KERNEL + model(choice + LAUNCH), target) == {"kept"}


CPP = (
    "int v = 0; cudaDeviceGetAttribute(&v, cudaDevAttrComputeCapabilityMajor, 0); if (v == 9)",
    "int v = 0; cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0); if (v == 132)",
    "cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); if (p.major == 9)",
    "if (at::cuda::getCurrentDeviceProperties()->totalGlobalMem > (100ull << 30))",
)


@pytest.mark.parametrize("test", CPP)
def test_the_numbers_of_the_target_decide_in_c_plus_plus(tmp_path: Path, test: str) -> None:
    source = CUDA.replace("  int M = x.size(0)", f"  {test} {{ {CPP_LEAK} }}\n  int M = x.size(0)") + BINDING
    build = f"from torch.utils.cpp_extension import load_inline\next = load_inline('e', '', r'''{source}''')\n"
    text = HEAD + build + model("return ext.run(x, self.weight, self.weight_scale)")
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    for target, leaks in (("h200", True), ("rtx_pro_6000", False)):
        report = kbh_lint.lint([path], problem="01_fp8_gemm", target=target, raise_errors=True).files[0]
        assert ("library-gemm-wrapper" in {f.leak_class for f in report.findings}) is leaks, (target, report.unread)
