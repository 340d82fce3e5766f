"""Flags and counters in `__device__` memory: what a kernel does with them on later calls is followed like any state."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, GRID, HEAD, KERNEL, OUTPUT, SIGNATURE, TILES, classes, lint, model

# A plain product on fp8 operands; FIRST and LAST stand for lines before and after it, VALUE for what is stored.
SOURCE = """
#include <torch/extension.h>
GLOBALS
__global__ void gemm(const __nv_fp8_e4m3* x, const __nv_fp8_e4m3* w, const float* s, __nv_bfloat16* y, int N, int K) {
  int row = blockIdx.x, col = threadIdx.x;
  FIRST
  float total = 0.f;
  for (int k = 0; k < K; ++k) total += float(x[row * K + k]) * float(w[col * K + k]);
  y[row * N + col] = __float2bfloat16(total * s[col]);
  LAST
}
KERNELS
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s) {
  int M = x.size(0), K = x.size(1), N = w.size(0);
  auto y = torch::empty({M, N}, x.options().dtype(torch::kBFloat16));
  BEFORE
  gemm<<<M, N>>>((const __nv_fp8_e4m3*)x.data_ptr(), (const __nv_fp8_e4m3*)w.data_ptr(), s.data_ptr<float>(),
                 (__nv_bfloat16*)y.data_ptr(), N, K);
  AFTER
  return y;
}
"""
BODY = model("return ext.run(x, self.weight, self.weight_scale)")
ONE = "if (row == 0 && col == 0) "
MEMO = "__device__ int ready; __device__ __nv_bfloat16 memo[1 << 26];"
KEEP = f"memo[row * N + col] = y[row * N + col]; {ONE}ready = 1;"
REUSE = "if (ready) { y[row * N + col] = memo[row * N + col]; return; }"
SET = "__global__ void set() { ready = 1; }"
HALF = (
    "for (int k = 0; k < K; ++k) total += __bfloat162float(__hmul(__float2bfloat16(float(x[row * K + k])), "
    "__float2bfloat16(float(w[col * K + k]))));"
)
STALE = {
    "a flag and a memo in one kernel": {"GLOBALS": MEMO, "FIRST": REUSE, "LAST": KEEP},
    "a flag that another kernel sets": {
        "GLOBALS": MEMO,
        "FIRST": REUSE,
        "LAST": "memo[row * N + col] = y[row * N + col];",
        "KERNELS": SET,
        "AFTER": "set<<<1, 1>>>();",
    },
    "a flag that the host sets": {
        "GLOBALS": MEMO,
        "FIRST": REUSE,
        "LAST": "memo[row * N + col] = y[row * N + col];",
        "AFTER": "int one = 1; cudaMemcpyToSymbol(ready, &one, sizeof(one));",
    },
    "a flag that the host reads": {
        "GLOBALS": MEMO,
        "LAST": KEEP,
        "KERNELS": "__global__ void emit(__nv_bfloat16* y, int N) { y[blockIdx.x * N + threadIdx.x] = "
        "memo[blockIdx.x * N + threadIdx.x]; }",
        "BEFORE": "int held = 0; cudaMemcpyFromSymbol(&held, ready, sizeof(held));\n"
        "  if (held) { emit<<<M, N>>>((__nv_bfloat16*)y.data_ptr(), N); return y; }",
    },
    "a flag that is exchanged": {
        "GLOBALS": MEMO,
        "FIRST": REUSE,
        "LAST": f"memo[row * N + col] = y[row * N + col]; {ONE}atomicExch(&ready, 1);",
    },
    "a count that is tested": {
        "GLOBALS": MEMO.replace("ready", "calls"),
        "FIRST": REUSE.replace("ready", "calls > 0"),
        "LAST": KEEP.replace("ready = 1", "++calls"),
    },
}
HONEST = {
    "a ticket of the last block": {
        "GLOBALS": "__device__ unsigned done; __device__ float part[1 << 20];",
        "LAST": "part[row] = 1.f; __threadfence();\n  if (atomicAdd(&done, 1u) == gridDim.x - 1) { done = 0; }",
    },
    "a flag that blocks wait for": {
        "GLOBALS": "__device__ volatile int ready;",
        "FIRST": "if (row > 0) { while (ready == 0) { } } else { ready = 1; }",
    },
    "a table of constants": {
        "GLOBALS": "__constant__ float one = 1.f; __constant__ float table[4] = {1.f, 1.f, 1.f, 1.f};",
        "LAST": "y[row * N + col] = __float2bfloat16(total * s[col] * one * table[col & 3]);",
    },
    "a size that the host sets on every call": {
        "GLOBALS": "__constant__ int rows;",
        "FIRST": "if (row >= rows) return;",
        "BEFORE": "cudaMemcpyToSymbol(rows, &M, sizeof(int));",
    },
    "scratch that is written before it is read": {
        "GLOBALS": "__device__ float held[1 << 26];",
        "LAST": "held[row * N + col] = total;",
        "KERNELS": "__global__ void emit(const float* s, __nv_bfloat16* y, int N) { int i = blockIdx.x * N + threadIdx.x;"
        " y[i] = __float2bfloat16(held[i] * s[threadIdx.x]); }",
        "AFTER": "emit<<<M, N>>>(s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(), N);",
    },
}
REPLAY = {"output-memoization", "identity-keyed-input-cache", "pointer-keyed-stale-state", "stale-weight-cache"}


def written(parts: dict[str, str]) -> str:
    source = SOURCE
    for name in ("GLOBALS", "FIRST", "LAST", "KERNELS", "BEFORE", "AFTER"):
        source = source.replace(name, parts.get(name, ""))
    return (
        HEAD
        + f'from torch.utils.cpp_extension import load_inline\next = load_inline("e", "{SIGNATURE}", r"""{source}""", '
        + 'functions=["run"])\n'
        + BODY
    )


@pytest.mark.parametrize("how", STALE)
def test_a_result_that_a_flag_finds_again_is_stale(tmp_path: Path, how: str) -> None:
    report = lint(tmp_path, written(STALE[how]))
    assert REPLAY & classes(report), (report.findings, report.unread)


@pytest.mark.parametrize("how", HONEST)
def test_flags_that_order_the_work_of_one_launch_are_no_state(tmp_path: Path, how: str) -> None:
    plain, found = lint(tmp_path, written({})), lint(tmp_path, written(HONEST[how]))
    assert classes(found) == classes(plain)
    assert [hole.reason for hole in found.unread] == []


def test_a_counter_that_changes_the_arithmetic_later_is_found(tmp_path: Path) -> None:
    parts = {"GLOBALS": "__device__ int calls;", "FIRST": "", "LAST": f"{ONE}++calls;"}
    text = written(parts).replace("float total = 0.f;", f"float total = 0.f;\n  if (calls > 100) {{ {HALF} }} else")
    assert "warm-up-dependent-arithmetic" in classes(lint(tmp_path, text))


# The same with a tensor of one number that the model keeps; BEGIN and END stand for lines before and after the product.
TRITON = (
    KERNEL.replace("gemm(x,", "gemm(flag, memo, x,").replace("    acc = tl.zeros", "BEGIN    acc = tl.zeros") + "END"
)
LOOK = """    at = rows[:, None] * N + cols[None, :]
    if tl.load(flag) != 0:
        tl.store(y + at, tl.load(memo + at))
        return
"""
MARK = "    tl.store(memo + rows[:, None] * N + cols[None, :], out.to(tl.bfloat16))\n    tl.store(flag, 1)\n"
MADE = "self.flag = torch.zeros(1, dtype=torch.int32)\nself.memo = torch.zeros(1 << 26, dtype=torch.bfloat16)"
LAUNCHED = f"{OUTPUT.strip()}\ngemm[{GRID}](self.flag, self.memo, {ARGUMENTS}, {TILES})\n"
TENSORS = {
    "a flag that the kernel sets": (True, LOOK, MARK, ""),
    "a flag that is exchanged": (True, LOOK, MARK.replace("tl.store(flag, 1)", "tl.atomic_xchg(flag, 1)"), ""),
    "a flag that the host sets": (True, LOOK, MARK.replace("    tl.store(flag, 1)\n", ""), "self.flag.fill_(1)\n"),
    "a flag that is cleared on every call": (False, LOOK, MARK, "self.flag.zero_()\n"),
    "a ticket": (
        False,
        "",
        "    if tl.atomic_add(flag, 1) == tl.num_programs(0) - 1:\n        tl.store(flag, 0)\n",
        "",
    ),
}


@pytest.mark.parametrize("how", TENSORS)
def test_a_flag_in_a_tensor_is_followed_too(tmp_path: Path, how: str) -> None:
    stale, begin, end, host = TENSORS[how]
    text = HEAD + TRITON.replace("BEGIN", begin).replace("END", end) + model(LAUNCHED + host + "return y", MADE)
    report = lint(tmp_path, text)
    assert bool(REPLAY & classes(report)) is stale, (report.findings, report.unread)
    assert stale or classes(report) == set()
