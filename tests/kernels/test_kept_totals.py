"""Totals that a loop keeps in memory between its rounds, in a narrow type or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_support import run
from linted import report_of

from kbh_lint.base.values import Buffer

TEXT = '''# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
using bf16 = __nv_bfloat16;
constexpr int TILE = 256, SLAB = 256;
struct Kept { float parts[2 * TILE]; KIND totals[2 * TILE]; };

struct Bias {
  KIND* to;
  __device__ Bias(KIND* at) : to(at) {}
  __device__ void load(const bf16* from) { for (int t = threadIdx.x; t < 2 * TILE; t += 32) to[t] = from[t]; }
};

__device__ void clear(KIND* to, int n) {
  for (int t = threadIdx.x; t < n; t += 32) to[t] = 0.f;
}
__device__ void multiply(float* to, const bf16* x, const bf16* w, int H, int I, int from) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int k = from; k < from + SLAB; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> b;
    wmma::load_matrix_sync(a, x + k, H);
    wmma::load_matrix_sync(b, w + (size_t)k * I, I);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(to, acc, 16, wmma::mem_row_major);
  __syncwarp();
}
FUNCTIONS
__global__ void swiglu(const bf16* x, const bf16* gate, const bf16* up, const int* offsets, bf16* y, KIND* scratch,
                       int H, int I) {
  extern __shared__ __align__(128) unsigned char raw[];
  float* parts = reinterpret_cast<float*>(raw);
  KIND* totals = reinterpret_cast<KIND*>(raw + 2 * TILE * sizeof(float));
  const int e = blockIdx.y, col = blockIdx.x * 16, lane = threadIdx.x;
  const bf16* w[2] = {gate + (size_t)e * H * I + col, up + (size_t)e * H * I + col};
  for (int row = offsets[e]; row < offsets[e + 1]; row += 16) {
    BEGIN
    for (int slab = 0; slab < H; slab += SLAB) {
      multiply(parts, x + (size_t)row * H, w[0], H, I, slab);
      multiply(parts + TILE, x + (size_t)row * H, w[1], H, I, slab);
      ROUND
    }
    for (int t = lane; t < TILE; t += 32) {
      const float g = END_GATE, u = END_UP;
      y[(size_t)(row + t / 16) * I + col + t % 16] = __float2bfloat16(g / (1.f + __expf(-g)) * u);
    }
  }
}
torch::Tensor run(torch::Tensor x, torch::Tensor gate, torch::Tensor up, torch::Tensor offsets) {
  const int H = x.size(1), I = gate.size(2), E = gate.size(0);
  auto y = torch::empty({x.size(0), I}, x.options());
  auto scratch = torch::empty({E * (I / 16) * 2 * TILE}, x.options().dtype(SCRATCH));
  swiglu<<<dim3(I / 16, E), 32, 8192>>>((const bf16*)x.data_ptr(), (const bf16*)gate.data_ptr(),
      (const bf16*)up.data_ptr(), offsets.data_ptr<int>(), (bf16*)y.data_ptr(), (KIND*)scratch.data_ptr(), H, I);
  return y;
}
"""
built = load_inline(
    name="kept", cpp_sources="torch::Tensor run(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor);",
    cuda_sources=SOURCE, functions=["run"],
)


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        return built.run(hidden_states, self.W_gate, self.W_up, expert_offsets)
'''
CLEAR = "for (int t = lane; t < 2 * TILE; t += 32) totals[t] = 0.f;"
EACH = "for (int t = lane; t < 2 * TILE; t += 32)"
ADDED = "__float2bfloat16(__bfloat162float(totals[t]) + parts[t])"
MINE = "scratch[(size_t)(e * gridDim.x + blockIdx.x) * 2 * TILE + t]"
HELD = "Kept& kept = *reinterpret_cast<Kept*>(raw);"
BY_HALVES = "for (int i = 0; i < 2; ++i) for (int t = lane; t < TILE; t += 32)"
NARROW = {
    "shared memory": (CLEAR, f"{EACH} totals[t] = {ADDED};", "totals"),
    "the other way round": (CLEAR, f"{EACH} totals[t] = __float2bfloat16(parts[t] + float(totals[t]));", "totals"),
    "a reference": (CLEAR, f"{EACH} {{ bf16& at = totals[t]; at = bf16(__bfloat162float(at) + parts[t]); }}", "totals"),
    "a pointer": (CLEAR, f"{EACH} {{ bf16* at = totals + t; *at = bf16(float(*at) + parts[t]); }}", "totals"),
    "a sum of two narrow numbers": (
        CLEAR, f"{EACH} totals[t] = __hadd(totals[t], __float2bfloat16(parts[t]));", "totals"
    ),
    "cleared by a function": ("clear(totals, 2 * TILE);", f"{EACH} totals[t] = {ADDED};", "totals"),
    "memory of the device": (
        f"{EACH} {MINE} = 0.f;", f"{EACH} {MINE} = __float2bfloat16(__bfloat162float({MINE}) + parts[t]);", MINE
    ),
    "a field": (
        f"{HELD} {CLEAR.replace('totals', 'kept.totals')}",
        f"{BY_HALVES} {{ auto& at = kept.totals[i * TILE + t];"
        " at = bf16(__bfloat162float(at) + parts[i * TILE + t]); }",
        "kept.totals",
    ),
    "registers": (
        "bf16 mine[16]; for (int i = 0; i < 16; ++i) mine[i] = 0.f;",
        "for (int i = 0; i < 16; ++i) mine[i] = bf16(__bfloat162float(mine[i]) + parts[i * 32 + lane]);",
        "registers",
    ),
    "scaled in between": (
        CLEAR,
        f"{EACH} totals[t] = __hmul(totals[t], __float2bfloat16(1.f)); {EACH} totals[t] = {ADDED};",
        "totals",
    ),
}  # fmt: skip
WIDE = {
    "totals in fp32": ("float", CLEAR, f"{EACH} totals[t] = totals[t] + parts[t];", "totals"),
    "two parts": (
        "bf16",
        "",
        f"{EACH} totals[t] = __float2bfloat16(parts[t] * 0.5f); {EACH} totals[t] = {ADDED};",
        "totals",
    ),
    "two parts, by a function": ("bf16", "", f"clear(totals, 2 * TILE); {EACH} totals[t] = {ADDED};", "totals"),
    "two parts, by a lambda": (
        "bf16",
        f"auto begin = [&]() {{ {CLEAR} }};",
        f"begin(); {EACH} totals[t] = {ADDED};",
        "totals",
    ),
    "two parts through a pointer": (
        "bf16",
        "",
        f"{EACH} {{ bf16* at = totals + t; *at = 0.f; }} {EACH} totals[t] = {ADDED};",
        "totals",
    ),
    "two parts by assembly": (
        "bf16",
        "const unsigned to = (unsigned)__cvta_generic_to_shared(totals);",
        """asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(to + lane * 16), "l"(w[0] + lane * 8));
      asm volatile("cp.async.wait_all;"); __syncwarp(); """
        f"{EACH} totals[t] = {ADDED};",
        "totals",
    ),
    "two parts by a method": (
        "bf16",
        "Bias bias(totals);",
        f"bias.load(w[0]); {EACH} totals[t] = {ADDED};",
        "totals",
    ),
    "a place of each round": (
        "bf16",
        f"{EACH} {MINE} = 0.f;",
        f"{EACH} scratch[slab * 64 + t] = __float2bfloat16(float(scratch[slab * 64 + t]) + parts[t]);",
        MINE,
    ),
    "a variable of each round": (
        "bf16",
        CLEAR,
        "bf16 mine[16] = {}; for (int i = 0; i < 16; ++i) mine[i] = bf16(float(mine[i]) + parts[i * 32 + lane]);",
        "totals",
    ),
    "a bias behind the loop": (
        "bf16",
        f"{CLEAR} float sum[16] = {{}};",
        "for (int i = 0; i < 16; ++i) sum[i] += parts[i * 32 + lane];",
        "bias",
    ),
    "another array": (
        "bf16",
        f"{CLEAR} float sum[16] = {{}};",
        "for (int i = 0; i < 16; ++i) { sum[i] += parts[i * 32 + lane]; totals[i * 32 + lane] = bf16(sum[i]); }",
        "totals",
    ),
}


CALLED = {
    "by reference": (
        "__device__ void add(bf16& total, float part) { total = __float2bfloat16(__bfloat162float(total) + part); }",
        CLEAR,
        f"{EACH} add(totals[t], parts[t]);",
        "totals",
    ),
    "of a local array, by reference": (
        "template <class T> __device__ void add(T& total, float part) { total = T(float(total) + part); }",
        "bf16 mine[16]; for (int i = 0; i < 16; ++i) mine[i] = 0.f;",
        "for (int i = 0; i < 16; ++i) add(mine[i], parts[i * 32 + lane]);",
        "registers",
    ),
    "by two functions": (
        "__device__ void put(bf16& at, float part) { at = bf16(float(at) + part); }\n"
        "__device__ void add(bf16& total, float part) { put(total, part); }",
        CLEAR,
        f"{EACH} add(totals[t], parts[t]);",
        "totals",
    ),
    "by address": (
        "__device__ void add(bf16* total, float part) { *total = __float2bfloat16(float(*total) + part); }",
        CLEAR,
        f"{EACH} add(&totals[t], parts[t]);",
        "totals",
    ),
    "all of them": (
        "__device__ void add(bf16* to, const float* from) {\n"
        "  for (int t = threadIdx.x; t < 2 * TILE; t += 32) to[t] = bf16(__bfloat162float(to[t]) + from[t]);\n}",
        CLEAR,
        "add(totals, parts);",
        "totals",
    ),
    "by two calls": (
        "__device__ void add(bf16& total, float part) { total = __float2bfloat16(__bfloat162float(total) + part); }",
        CLEAR,
        f"{EACH} {{ add(totals[t], parts[t] * 0.5f); add(totals[t], parts[t] * 0.5f); }}",
        "totals",
    ),
    "by a method": (
        "struct Total {\n  bf16 sum;\n  __device__ void add(float part) { sum = bf16(float(sum) + part); }\n};",
        "Total mine[16]; for (int i = 0; i < 16; ++i) mine[i].sum = 0.f;",
        "for (int i = 0; i < 16; ++i) mine[i].add(parts[i * 32 + lane]);",
        "objects",
    ),
    "by a method, through this": (
        "struct Total {\n  bf16 sum;\n"
        "  __device__ void add(float part) { this->sum = __float2bfloat16(float(this->sum) + part); }\n};",
        "Total mine[16]; for (int i = 0; i < 16; ++i) mine[i].sum = 0.f;",
        "for (int i = 0; i < 16; ++i) mine[i].add(parts[i * 32 + lane]);",
        "objects",
    ),
    "of an object, by reference": (
        "struct Total { bf16 sum; };\n"
        "__device__ void add(Total& to, float part) { to.sum = __float2bfloat16(float(to.sum) + part); }",
        "Total mine[16]; for (int i = 0; i < 16; ++i) mine[i].sum = 0.f;",
        "for (int i = 0; i < 16; ++i) add(mine[i], parts[i * 32 + lane]);",
        "objects",
    ),
    "by a lambda": (
        "",
        f"{CLEAR} auto add = [&](int t, float part) {{ totals[t] = bf16(float(totals[t]) + part); }};",
        f"{EACH} add(t, parts[t]);",
        "totals",
    ),
    "by a lambda, by reference": (
        "",
        f"{CLEAR} auto add = [](bf16& to, float part) {{ to = bf16(float(to) + part); }};",
        f"{EACH} add(totals[t], parts[t]);",
        "totals",
    ),
}
KEPT_WIDE = {
    "wide, by reference": (
        "float",
        "__device__ void add(float& total, float part) { total = total + part; }",
        CLEAR,
        f"{EACH} add(totals[t], parts[t]);",
        "totals",
    ),
    "begun by another function": (
        "bf16",
        "__device__ void begin(bf16& total, float part) { total = bf16(part); }\n"
        "__device__ void add(bf16& total, float part) { total = __float2bfloat16(__bfloat162float(total) + part); }",
        "",
        f"{EACH} {{ begin(totals[t], parts[t] * 0.5f); add(totals[t], parts[t] * 0.5f); }}",
        "totals",
    ),
    "begun by the function": (
        "bf16",
        "__device__ void add(bf16& total, float part) {\n"
        "  total = bf16(part * 0.5f);\n  total = bf16(float(total) + part * 0.5f);\n}",
        "",
        f"{EACH} add(totals[t], parts[t]);",
        "totals",
    ),
    "an object of each round": (
        "bf16",
        "struct Total {\n  bf16 sum = 0.f;\n  __device__ void add(float part) { sum = bf16(float(sum) + part); }\n};",
        f"{CLEAR} float sum[16] = {{}};",
        "for (int i = 0; i < 16; ++i) {\n        Total one; one.add(parts[i * 32 + lane]); sum[i] += float(one.sum); }",
        "bias",
    ),
    "a place of each round": (
        "bf16",
        "__device__ void add(bf16* to, const float* from, int at) {\n"
        "  for (int t = threadIdx.x; t < 64; t += 32) to[at + t] = bf16(float(to[at + t]) + from[t]);\n}",
        f"{EACH} {MINE} = 0.f;",
        "add(scratch, parts, slab * 64);",
        MINE,
    ),
    "a place of each round, named in the function": (
        "bf16",
        "__device__ void add(bf16* to, const float* from, int slab) {\n"
        "  bf16* mine = to + slab * 64;\n"
        "  for (int t = threadIdx.x; t < 64; t += 32) mine[t] = bf16(float(mine[t]) + from[t]);\n}",
        f"{EACH} {MINE} = 0.f;",
        "add(scratch, parts, slab);",
        MINE,
    ),
    "a bias behind the loop": (
        "bf16",
        "__device__ void add(bf16& total, float part) { total = __float2bfloat16(__bfloat162float(total) + part); }",
        f"{CLEAR} float sum[16] = {{}};",
        "for (int i = 0; i < 16; ++i) sum[i] += parts[i * 32 + lane];",
        "added",
    ),
    "what a variable of the function holds": (
        "bf16",
        "__device__ float add(float total, float part) { bf16 low = bf16(total); low = bf16(float(low) + part);\n"
        "  return total + part + 0.f * float(low); }",
        f"{CLEAR} float sum[16] = {{}};",
        "for (int i = 0; i < 16; ++i) sum[i] = add(sum[i], parts[i * 32 + lane]);",
        "bias",
    ),
}


def text(kind: str, begin: str, step: str, kept: str, functions: str = "") -> str:
    gate, up = f"float({kept}[t])", f"float({kept}[TILE + t])"
    if kept == MINE:
        gate, up = f"float({kept})", f"float({kept.replace('+ t]', '+ TILE + t]')})"
    elif kept == "registers":
        gate, up = "float(mine[t / 32])", "float(mine[8 + t / 32])"
    elif kept == "bias":
        bias = "float(bf16(float(bf16(sum[{at}])) + float(w[0][t % 16])))"
        gate, up = bias.format(at="t / 32"), bias.format(at="8 + t / 32")
    elif kept == "objects":
        gate, up = "float(mine[t / 32].sum)", "float(mine[8 + t / 32].sum)"
    elif kept == "added":
        step += "\n    }\n    bf16 out[16];\n    for (int i = 0; i < 16; ++i) {\n"
        step += "      out[i] = bf16(sum[i]); add(out[i], float(w[0][i]));"
        gate, up = "float(out[t / 32])", "float(out[8 + t / 32])"
    made = TEXT.replace("FUNCTIONS", functions).replace("BEGIN", begin).replace("ROUND", step)
    made = made.replace("END_GATE", gate).replace("END_UP", up)
    return made.replace("SCRATCH", "torch::kFloat" if kind == "float" else "torch::kBFloat16").replace("KIND", kind)


@pytest.mark.parametrize("begin, step, kept", NARROW.values(), ids=NARROW)
def test_a_total_that_is_kept_in_narrow_memory_is_narrow(tmp_path: Path, begin: str, step: str, kept: str) -> None:
    report = report_of(tmp_path, text("bf16", begin, step, kept))
    assert {finding.rule for finding in report.findings} == {"KBH403"}
    assert all("accumulators" in finding.message for finding in report.findings)


@pytest.mark.parametrize("kind, begin, step, kept", WIDE.values(), ids=WIDE)
def test_what_is_begun_in_each_round_is_no_total(tmp_path: Path, kind: str, begin: str, step: str, kept: str) -> None:
    assert report_of(tmp_path, text(kind, begin, step, kept)).verdict == "clean"


@pytest.mark.parametrize("functions, begin, step, kept", CALLED.values(), ids=CALLED)
def test_a_total_that_a_function_adds_to_is_narrow(
    tmp_path: Path, functions: str, begin: str, step: str, kept: str
) -> None:
    report = report_of(tmp_path, text("bf16", begin, step, kept, functions))
    assert {finding.rule for finding in report.findings} == {"KBH403"}


@pytest.mark.parametrize("kind, functions, begin, step, kept", KEPT_WIDE.values(), ids=KEPT_WIDE)
def test_what_else_a_function_adds_to_is_no_total(
    tmp_path: Path, kind: str, functions: str, begin: str, step: str, kept: str
) -> None:
    assert report_of(tmp_path, text(kind, begin, step, kept, functions)).verdict == "clean"


BY_REFERENCE = """
__device__ void add(bf16& total, const bf16* x, const bf16* w, int H, int I) {
  for (int k = 0; k < H; ++k) { BEGUN total = bf16(fmaf(float(x[k]), float(w[(size_t)k * I]), float(total))); }
}
__global__ void kernel(const bf16* x, const bf16* w, float* y, int H, int I) { BODY y[threadIdx.x] = float(total); }
"""
HERE = "for (int k = 0; k < H; ++k) total = bf16(fmaf(float(x[k]), float(w[(size_t)k * I]), float(total)));"


@pytest.mark.parametrize(
    ("body", "begun", "carried"),
    [
        (f"bf16 total = 0.f; {HERE}", "", True),
        (f"bf16 both[2] = {{}}; bf16& total = both[1]; {HERE}", "", True),
        ("bf16 total = 0.f; add(total, x, w, H, I);", "", True),
        ("bf16 total = 0.f; add(total, x, w, H, I);", "total = bf16(0.f);", False),
    ],
)
def test_what_is_assigned_to_a_reference_moves_it_nowhere(body: str, begun: str, carried: bool) -> None:
    source = "#include <cuda_bf16.h>\nusing bf16 = __nv_bfloat16;\n" + BY_REFERENCE
    memory = {"x": Buffer("bf16", 1, "bf16"), "w": Buffer("bf16", 2, "bf16"), "y": Buffer("f32", 3, "f32")}
    facts = run(source.replace("BODY", body).replace("BEGUN", begun), **memory, H=512, I=64)
    assert not facts.unread
    assert carried is any(one.dtype == "bf16" and one.carried for one in facts.sums)
