"""Kernels that find their tensors behind a table of pointers: what is read and written there is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

HEAD = """# kbh: problem=06_sonic_moe_swiglu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
"""
MODEL = """

class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.kept = None

    def forward(self, hidden_states, expert_offsets):
        E, H, I = self.W_gate.shape
        dev = hidden_states.device
"""
MULTIPLY = r"""
  for (int row = blockIdx.y; row < rows; row += gridDim.y) {
    float g = 0.f, u = 0.f;
    for (int k = 0; k < H; ++k) {
      const float v = __bfloat162float(x[(long)row * H + k]);
      g += v * __bfloat162float(gate[(long)k * I + col]);
      u += v * __bfloat162float(up[(long)k * I + col]);
    }
    y[(long)row * I + col] = __float2bfloat16(g / (1.f + __expf(-g)) * u);
  }
}
"""
START = "const int e = blockIdx.z, col = blockIdx.x * blockDim.x + threadIdx.x;\n  if (col >= I) return;"
INCLUDES = """
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <vector>
using bf16 = __nv_bfloat16;
"""
BY_TABLES = f"""{INCLUDES}
__global__ void grouped(const bf16* const* xs, const bf16* const* gates, const bf16* const* ups, bf16* const* ys,
                        const int* counts, int H, int I) {{
  {START}
  const bf16 *x = xs[e], *gate = gates[e], *up = ups[e];
  bf16* y = ys[e];
  const int rows = counts[e];{MULTIPLY}"""
BY_NUMBERS = f"""{INCLUDES}
__global__ void grouped(const int64_t* t, const int* counts, int E, int H, int I) {{
  {START}
  const bf16* x = reinterpret_cast<const bf16*>(t[e]);
  const bf16 *gate = (const bf16*)t[E + e], *up = (const bf16*)t[2 * E + e];
  bf16* y = (bf16*)t[3 * E + e];
  const int rows = counts[e];{MULTIPLY}"""
BY_GROUPS = f"""{INCLUDES}
struct Group {{ const bf16* x; const bf16* gate; const bf16* up; bf16* y; int rows; }};
__global__ void grouped(const Group* groups, int H, int I) {{
  {START}
  const Group q = groups[e];
  const bf16 *x = q.x, *gate = q.gate, *up = q.up;
  bf16* y = q.y;
  const int rows = q.rows;{MULTIPLY}"""
RUN = """
at::Tensor run(at::Tensor x, at::Tensor gate, at::Tensor up, at::Tensor offsets) {
  const int E = gate.size(0), H = gate.size(1), I = gate.size(2), each = x.size(0) / E;
  auto y = at::empty({x.size(0), I}, x.options());
  auto longs = offsets.options().dtype(at::kLong);
  const dim3 grid((I + 127) / 128, 64, E);
  const bf16 *px = (const bf16*)x.data_ptr(), *pg = (const bf16*)gate.data_ptr(), *pu = (const bf16*)up.data_ptr();
  bf16* py = (bf16*)y.data_ptr();
"""
GIVEN = "const bf16* x, const bf16* gate, const bf16* up, bf16* y, const int* offsets"
ALL = "px, pg, pu, py, offsets.data_ptr<int>()"
BY_KERNEL = (
    BY_TABLES
    + f"""
__global__ void fill({GIVEN}, const bf16** xs, const bf16** gates, const bf16** ups, bf16** ys, int* counts, int each,
                     int H, int I) {{
  const int e = threadIdx.x;
  const long first = FIRST;
  xs[e] = x + first * H; gates[e] = gate + (long)e * H * I; ups[e] = up + (long)e * H * I; ys[e] = y + first * I;
  counts[e] = COUNT;
}}
{RUN}
  auto tables = at::empty({{4, E}}, longs), counts = at::empty({{E}}, offsets.options());
  auto* t = (void**)tables.data_ptr();
  fill<<<1, E>>>({ALL}, (const bf16**)t, (const bf16**)(t + E), (const bf16**)(t + 2 * E), (bf16**)(t + 3 * E),
                 counts.data_ptr<int>(), each, H, I);
  grouped<<<grid, 128>>>((const bf16**)t, (const bf16**)(t + E), (const bf16**)(t + 2 * E), (bf16**)(t + 3 * E),
                         counts.data_ptr<int>(), H, I);
  return y;
}}
"""
)
AS_NUMBERS = (
    BY_NUMBERS
    + f"""
__global__ void fill({GIVEN}, int64_t* t, int* counts, int each, int E, int H, int I) {{
  const int e = threadIdx.x;
  const long first = FIRST;
  t[e] = (int64_t)(x + first * H); t[E + e] = (int64_t)(gate + (long)e * H * I);
  t[2 * E + e] = (int64_t)(up + (long)e * H * I); t[3 * E + e] = reinterpret_cast<int64_t>(y + first * I);
  counts[e] = COUNT;
}}
{RUN}
  auto tables = at::empty({{4, E}}, longs), counts = at::empty({{E}}, offsets.options());
  fill<<<1, E>>>({ALL}, tables.data_ptr<int64_t>(), counts.data_ptr<int>(), each, E, H, I);
  grouped<<<grid, 128>>>(tables.data_ptr<int64_t>(), counts.data_ptr<int>(), E, H, I);
  return y;
}}
"""
)
STRUCTS = (
    BY_GROUPS
    + f"""
__global__ void fill({GIVEN}, Group* groups, int each, int H, int I) {{
  const int e = threadIdx.x;
  const long first = FIRST;
  Group g;
  g.x = x + first * H; g.gate = gate + (long)e * H * I; g.up = up + (long)e * H * I; g.y = y + first * I;
  g.rows = COUNT;
  groups[e] = g;
}}
{RUN}
  auto groups = at::empty({{(long)(E * sizeof(Group))}}, x.options().dtype(at::kByte));
  fill<<<1, E>>>({ALL}, (Group*)groups.data_ptr(), each, H, I);
  grouped<<<grid, 128>>>((const Group*)groups.data_ptr(), H, I);
  return y;
}}
"""
)
ON_HOST = "const auto host = offsets.cpu();\n  const int* offsets_host = host.data_ptr<int>();"
VECTORS = (
    BY_TABLES
    + f"""{RUN}
  {ON_HOST}
  std::vector<const bf16*> xs(E), gates(E), ups(E);
  std::vector<bf16*> ys(E);
  std::vector<int> counts(E);
  for (int e = 0; e < E; ++e) {{
    const long first = FIRST;
    xs[e] = px + first * H; gates[e] = pg + (long)e * H * I; ups[e] = pu + (long)e * H * I; ys[e] = py + first * I;
    counts[e] = COUNT;
  }}
  void *dx, *dg, *du, *dy, *dc;
  const long bytes = E * sizeof(void*);
  cudaMalloc(&dx, bytes); cudaMalloc(&dg, bytes); cudaMalloc(&du, bytes); cudaMalloc(&dy, bytes);
  cudaMalloc(&dc, E * sizeof(int));
  cudaMemcpy(dx, xs.data(), bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(dg, gates.data(), bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(du, ups.data(), bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(dy, ys.data(), bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(dc, counts.data(), E * sizeof(int), cudaMemcpyHostToDevice);
  grouped<<<grid, 128>>>((const bf16**)dx, (const bf16**)dg, (const bf16**)du, (bf16**)dy, (const int*)dc, H, I);
  return y;
}}
"""
).replace("offsets[", "offsets_host[")
HOST_STRUCTS = (
    BY_GROUPS
    + f"""{RUN}
  {ON_HOST}
  std::vector<Group> groups(E);
  for (int e = 0; e < E; ++e) {{
    const long first = FIRST;
    groups[e].x = px + first * H; groups[e].gate = pg + (long)e * H * I; groups[e].up = pu + (long)e * H * I;
    groups[e].y = py + first * I;
    groups[e].rows = COUNT;
  }}
  auto kept = at::empty({{(long)(E * sizeof(Group))}}, x.options().dtype(at::kByte));
  cudaMemcpyAsync(kept.data_ptr(), groups.data(), E * sizeof(Group), cudaMemcpyHostToDevice, 0);
  grouped<<<grid, 128>>>((const Group*)kept.data_ptr(), H, I);
  return y;
}}
"""
).replace("offsets[", "offsets_host[")
CUTLASS = (
    INCLUDES
    + r"""
#include "cutlass/gemm/device/gemm_grouped.h"
using Half = cutlass::bfloat16_t;
using Kernel = typename cutlass::gemm::kernel::DefaultGemmGrouped<
    Half, cutlass::layout::RowMajor, cutlass::ComplexTransform::kNone, 8,
    Half, cutlass::layout::RowMajor, cutlass::ComplexTransform::kNone, 8,
    float, cutlass::layout::RowMajor, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
    cutlass::gemm::GemmShape<128, 128, 32>, cutlass::gemm::GemmShape<64, 64, 32>, cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<float, 4, float, float>,
    cutlass::gemm::threadblock::GemmBatchedIdentityThreadblockSwizzle, 4>::GemmKernel;
using Gemm = cutlass::gemm::device::GemmGrouped<Kernel>;
__global__ void swiglu(const float* g, const float* u, bf16* y, long n) {
  const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __float2bfloat16(g[i] / (1.f + __expf(-g[i])) * u[i]);
}
template <class T> T* upload(const std::vector<T>& v, at::Tensor& kept, at::Tensor x) {
  kept = at::empty({(long)(v.size() * sizeof(T))}, x.options().dtype(at::kByte));
  cudaMemcpyAsync(kept.data_ptr(), v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice, 0);
  return (T*)kept.data_ptr();
}
void product(at::Tensor x, at::Tensor w, at::Tensor out, const int* offsets, int each) {
  const int E = w.size(0), H = w.size(1), I = w.size(2);
  std::vector<cutlass::gemm::GemmCoord> sizes;
  std::vector<Half*> a, b;
  std::vector<float*> c;
  std::vector<int64_t> lda(E, H), ldb(E, I);
  for (int e = 0; e < E; ++e) {
    const long first = FIRST;
    sizes.push_back(cutlass::gemm::GemmCoord(COUNT, I, H));
    a.push_back((Half*)x.data_ptr() + first * H);
    b.push_back((Half*)w.data_ptr() + (long)e * H * I);
    c.push_back(out.data_ptr<float>() + first * I);
  }
  at::Tensor k0, k1, k2, k3, k4, k5;
  auto *ds = upload(sizes, k0, x);
  auto **da = upload(a, k1, x), **db = upload(b, k2, x);
  auto **dc = upload(c, k3, x);
  auto *la = upload(lda, k4, x), *lb = upload(ldb, k5, x);
  typename Gemm::EpilogueOutputOp::Params epilogue(1.f, 0.f);
  typename Gemm::Arguments args(ds, E, 264, epilogue, da, db, dc, dc, la, lb, lb, lb, sizes.data());
  Gemm gemm;
  gemm.initialize(args);
  gemm.run();
}
at::Tensor run(at::Tensor x, at::Tensor gate, at::Tensor up, at::Tensor offsets) {
  const int each = x.size(0) / gate.size(0);
  auto y = at::empty({x.size(0), gate.size(2)}, x.options());
  auto g = at::empty_like(y, at::kFloat), u = at::empty_like(g);
  const auto host = offsets.cpu();
  product(x, gate, g, host.data_ptr<int>(), each);
  product(x, up, u, host.data_ptr<int>(), each);
  swiglu<<<(y.numel() + 255) / 256, 256>>>(g.data_ptr<float>(), u.data_ptr<float>(), (bf16*)y.data_ptr(), y.numel());
  return y;
}
"""
)
WHOLE = "at::Tensor run(at::Tensor x, at::Tensor gate, at::Tensor up, at::Tensor offsets);"
IN_CUDA = {
    "filled by a kernel": BY_KERNEL, "addresses as numbers": AS_NUMBERS, "structs filled by a kernel": STRUCTS,
    "vectors of the host": VECTORS, "structs of the host": HOST_STRUCTS, "CUTLASS's groups": CUTLASS,
}  # fmt: skip

PARTS = (
    BY_TABLES
    + """
void run(at::Tensor xs, at::Tensor gates, at::Tensor ups, at::Tensor ys, at::Tensor n, int64_t H, int64_t I) {
  grouped<<<dim3((I + 127) / 128, 64, n.size(0)), 128>>>((const bf16**)xs.data_ptr(), (const bf16**)gates.data_ptr(),
      (const bf16**)ups.data_ptr(), (bf16**)ys.data_ptr(), n.data_ptr<int>(), H, I);
}
"""
)
PIECES = "void run(at::Tensor xs, at::Tensor gates, at::Tensor ups, at::Tensor ys, at::Tensor n, int64_t H, int64_t I);"
TRITON = """import triton
import triton.language as tl


@triton.jit
def grouped(xs, gates, ups, ys, counts, H, I, E: tl.constexpr, B: tl.constexpr, PROGRAMS: tl.constexpr):
    tile = tl.program_id(0)
    last = 0
    for e in range(E):
        m = tl.load(counts + e)
        columns = tl.cdiv(I, B)
        tiles = tl.cdiv(m, B) * columns
        while tile >= last and tile < last + tiles:
            x = tl.load(xs + e).to(tl.pointer_type(tl.bfloat16))
            gate = tl.load(gates + e).to(tl.pointer_type(tl.bfloat16))
            up = tl.load(ups + e).to(tl.pointer_type(tl.bfloat16))
            y = tl.load(ys + e).to(tl.pointer_type(tl.bfloat16))
            rows = (tile - last) // columns * B + tl.arange(0, B)
            cols = (tile - last) % columns * B + tl.arange(0, B)
            ks = tl.arange(0, B)
            g = tl.zeros((B, B), tl.float32)
            u = tl.zeros((B, B), tl.float32)
            for k in range(0, H, B):
                a = tl.load(x + rows[:, None] * H + k + ks[None, :], mask=rows[:, None] < m, other=0.0)
                g = tl.dot(a, tl.load(gate + (k + ks)[:, None] * I + cols[None, :]), g)
                u = tl.dot(a, tl.load(up + (k + ks)[:, None] * I + cols[None, :]), u)
            r = g / (1.0 + tl.exp(-g)) * u
            tl.store(y + rows[:, None] * I + cols[None, :], r.to(tl.bfloat16), mask=rows[:, None] < m)
            tile += PROGRAMS
        last += tiles
"""
ARITHMETIC = """
        out = hidden_states.new_empty(hidden_states.shape[0], I)
        first, n = FIRST
        e = torch.arange(E, device=dev)
        xs = hidden_states.data_ptr() + first * (2 * H)
        ys = out.data_ptr() + first * (2 * I)
        gates = self.W_gate.data_ptr() + e * (2 * H * I)
        ups = self.W_up.data_ptr() + e * (2 * H * I)
        LAUNCH
        return out
"""
OF_OFFSETS = "expert_offsets[:-1].long(), expert_offsets[1:] - expert_offsets[:-1]"
ALIKE = "[torch.full((E,), hidden_states.shape[0] // E, device=dev) * k for k in (torch.arange(E, device=dev), 1)]"
LISTS = """
        out = hidden_states.new_empty(hidden_states.shape[0], I)
        n = expert_offsets[1:] - expert_offsets[:-1]
        off = expert_offsets.tolist()
        table = lambda rows: torch.tensor([r.data_ptr() for r in rows], dtype=torch.int64, device=dev)
        xs, ys = (table([t[off[e]:] for e in range(E)]) for t in (hidden_states, out))
        gates, ups = table(self.W_gate.unbind(0)), table([self.W_up[e] for e in range(E)])
        LAUNCH
        return out
"""
ONE_TABLE = """
        out = hidden_states.new_empty(hidden_states.shape[0], I)
        off = expert_offsets.tolist()
        host = torch.empty(4, E, dtype=torch.int64)
        for e in range(E):
            host[0, e] = hidden_states[off[e]:].data_ptr()
            host[1, e] = self.W_gate[e].data_ptr()
            host[2, e] = self.W_up[e].data_ptr()
            host[3, e] = out[off[e]:].data_ptr()
        xs, gates, ups, ys = host.to(dev, non_blocking=True)
        n = expert_offsets[1:] - expert_offsets[:-1]
        LAUNCH
        return out
"""
KEPT = """
        n = expert_offsets[1:] - expert_offsets[:-1]
        out = hidden_states.new_empty(hidden_states.shape[0], I)
        off = expert_offsets.tolist()
        table = lambda rows: torch.tensor([r.data_ptr() for r in rows], dtype=torch.int64, device=dev)
        if self.kept is None:
            self.kept = WHAT
        WHAT = self.kept
        xs, ys = XS, table([out[off[e]:] for e in range(E)])
        LAUNCH
        return out
"""
WEIGHTS = "table(self.W_gate.unbind(0)), table(self.W_up.unbind(0))"
ROWS = "table([hidden_states[off[e]:] for e in range(E)])"
KEEPS_WEIGHTS = (
    KEPT.replace("self.kept = WHAT", f"self.kept = {WEIGHTS}").replace("WHAT = self", "gates, ups = self")
).replace("XS", ROWS)
KEEPS_ROWS = (
    KEPT.replace("self.kept = WHAT", f"self.kept = {ROWS}")
    .replace("WHAT = self.kept", f"gates, ups = {WEIGHTS}")
    .replace("XS", "self.kept")
)
PLACES = LISTS.replace(
    "xs, ys = (table([t[off[e]:] for e in range(E)]) for t in (hidden_states, out))",
    """places = lambda t, row: [t.data_ptr() + 2 * row * off[e] for e in range(E)]
        xs, ys = (torch.tensor(places(t, row), dtype=torch.int64, device=dev)
                  for t, row in ((hidden_states, H), (out, I)))""",
)
IN_PYTHON = {"lists": LISTS, "one table": ONE_TABLE, "sums": PLACES, "weights kept": KEEPS_WEIGHTS,
             "arithmetic": ARITHMETIC.replace("FIRST", OF_OFFSETS)}  # fmt: skip
LEAKS_IN_PYTHON = {
    "rows alike": (ARITHMETIC.replace("FIRST", ALIKE), "input-structure-hardcode"),
    "rows of the first call": (KEEPS_ROWS, "captures-user-input-as-static-buffer"),
}
WITH_TRITON = "grouped[(264,)](xs, gates, ups, ys, n, H, I, E=E, B=64, PROGRAMS=264)"


def linted(tmp_path: Path, text: str) -> tuple[str, set[str], dict[str, str]]:
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], raise_errors=True).files
    classes = {f.leak_class for f in report.findings if f.leak_class}
    return str(report.verdict), classes, {p.id: str(p.state) for p in report.promises}


def cuda(source: str, declared: str, body: str = "") -> str:
    load = f'SOURCE = r"""{source}"""\next = load_inline("g", "{declared}", SOURCE, functions=["run"])\n'
    body = body or "        return ext.run(hidden_states, self.W_gate, self.W_up, expert_offsets)\n"
    return HEAD + load + MODEL + body.replace("LAUNCH", "ext.run(xs, gates, ups, ys, n, H, I)")


@pytest.mark.parametrize("how", IN_CUDA)
def test_rows_behind_a_table_come_from_the_offsets(tmp_path: Path, how: str) -> None:
    text = IN_CUDA[how]
    offsets = "offsets_host" if "offsets_host" in text else "offsets"
    text = text.replace("FIRST", f"{offsets}[e]").replace("COUNT", f"{offsets}[e + 1] - {offsets}[e]")
    verdict, found, states = linted(tmp_path, cuda(text, WHOLE))
    assert (verdict, found, set(states.values())) == ("clean", set(), {"kept"})


@pytest.mark.parametrize("how", IN_CUDA)
def test_rows_behind_a_table_that_are_as_many_for_each(tmp_path: Path, how: str) -> None:
    text = IN_CUDA[how].replace("FIRST", "(long)e * each").replace("COUNT", "each")
    verdict, found, states = linted(tmp_path, cuda(text, WHOLE))
    assert (verdict, found) == ("rubric_leak", {"input-structure-hardcode"})
    assert states == {"authored-compute": "kept", "ragged-offsets": "broken"}


@pytest.mark.parametrize("how", IN_PYTHON)
@pytest.mark.parametrize("language", ["CUDA", "Triton"])
def test_tables_that_python_fills(tmp_path: Path, how: str, language: str) -> None:
    body = IN_PYTHON[how]
    text = cuda(PARTS, PIECES, body) if language == "CUDA" else HEAD + TRITON + MODEL + body
    verdict, found, states = linted(tmp_path, text.replace("LAUNCH", WITH_TRITON))
    assert (verdict, found, set(states.values())) == ("clean", set(), {"kept"})


@pytest.mark.parametrize("how", LEAKS_IN_PYTHON)
@pytest.mark.parametrize("language", ["CUDA", "Triton"])
def test_leaks_behind_tables_that_python_fills(tmp_path: Path, how: str, language: str) -> None:
    body, leak = LEAKS_IN_PYTHON[how]
    text = cuda(PARTS, PIECES, body) if language == "CUDA" else HEAD + TRITON + MODEL + body
    verdict, found, _ = linted(tmp_path, text.replace("LAUNCH", WITH_TRITON))
    assert verdict == "rubric_leak" and leak in found


def test_addresses_that_lead_to_nothing_known_prove_nothing(tmp_path: Path) -> None:
    body = LISTS.replace("        LAUNCH", "        ys = torch.zeros(E, dtype=torch.int64, device=dev)\n        LAUNCH")
    verdict, found, states = linted(tmp_path, cuda(PARTS, PIECES, body))
    assert (verdict, found, set(states.values())) == ("unproven", set(), {"unproven"})


CUTE = """# kbh: problem=06_sonic_moe_swiglu
import cutlass
import cutlass.cute as cute
import torch
import torch.nn as nn
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def grouped(ts: cute.Tensor, counts: cute.Tensor, H: cutlass.Constexpr, I: cutlass.Constexpr):
    tid, _, _ = cute.arch.thread_idx()
    bx, by, e = cute.arch.block_idx()
    col = bx * 128 + tid
    rows = counts[e]
    gmem = cute.AddressSpace.gmem
    flat, wide = cute.make_layout((rows, H), stride=(H, 1)), cute.make_layout((H, I), stride=(I, 1))
    x = cute.make_tensor(cute.make_ptr(cutlass.BFloat16, ts[0, e], gmem, assumed_align=16), flat)
    gate = cute.make_tensor(cute.make_ptr(cutlass.BFloat16, ts[1, e], gmem, assumed_align=16), wide)
    up = cute.make_tensor(cute.make_ptr(cutlass.BFloat16, ts[2, e], gmem, assumed_align=16), wide)
    y = cute.make_tensor(cute.make_ptr(cutlass.BFloat16, ts[3, e], gmem, assumed_align=16), wide)
    row = by
    while row < rows:
        g = cutlass.Float32(0.0)
        u = cutlass.Float32(0.0)
        for k in range(H):
            v = x[row, k].to(cutlass.Float32)
            g += v * gate[k, col].to(cutlass.Float32)
            u += v * up[k, col].to(cutlass.Float32)
        y[row, col] = (g / (1.0 + cute.math.exp(-g)) * u).to(cutlass.BFloat16)
        row += 64


@cute.jit
def launch(ts: cute.Tensor, counts: cute.Tensor, E: cutlass.Constexpr, H: cutlass.Constexpr, I: cutlass.Constexpr):
    grouped(ts, counts, H, I).launch(grid=[I // 128, 64, E], block=[128, 1, 1])
"""
IN_CUTE = """
        out = hidden_states.new_empty(hidden_states.shape[0], I)
        each = hidden_states.shape[0] // E
        off, counts = FIRST
        rows = [[hidden_states.data_ptr() + 2 * H * off[e] for e in range(E)], [w.data_ptr() for w in self.W_gate],
                [w.data_ptr() for w in self.W_up], [out.data_ptr() + 2 * I * off[e] for e in range(E)]]
        ts = torch.tensor(rows, dtype=torch.int64, device=dev)
        launch(from_dlpack(ts), from_dlpack(counts), E, H, I)
        return out
"""


def test_tables_of_cute(tmp_path: Path) -> None:
    honest = "expert_offsets.tolist(), expert_offsets[1:] - expert_offsets[:-1]"
    alike = "[each * e for e in range(E)], torch.full((E,), each, dtype=torch.int32, device=dev)"
    text = CUTE + MODEL + IN_CUTE
    assert linted(tmp_path, text.replace("FIRST", honest))[:2] == ("clean", set())
    verdict, found, states = linted(tmp_path, text.replace("FIRST", alike))
    assert (verdict, found, states["ragged-offsets"]) == ("rubric_leak", {"input-structure-hardcode"}, "broken")


FP8 = """# kbh: problem=01_fp8_gemm
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm(ts, scale, M, N, K, B: tl.constexpr):
    x = tl.load(ts).to(tl.pointer_type(TYPE))
    w = tl.load(ts + 1).to(tl.pointer_type(TYPE))
    y = tl.load(ts + 2).to(tl.pointer_type(tl.bfloat16))
    rm = tl.program_id(0) * B + tl.arange(0, B)
    rn = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        rk = k + tl.arange(0, B)
        a = tl.load(x + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(w + rn[None, :] * K + rk[:, None], mask=(rn[None, :] < N) & (rk[:, None] < K), other=0.0)
        acc = tl.dot(a, b, acc)
    s = tl.load(scale + rn, mask=rn < N)
    inside = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(y + rm[:, None] * N + rn[None, :], (acc * s[None, :]).to(tl.bfloat16), mask=inside)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.zeros(N, dtype=torch.float32))

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        y = torch.empty(M, N, dtype=torch.bfloat16, device=x.device)
        a, b = GIVEN
        ts = torch.tensor([a.data_ptr(), b.data_ptr(), y.data_ptr()], device=x.device)
        gemm[(triton.cdiv(M, 64), triton.cdiv(N, 64))](ts, self.weight_scale, M, N, K, B=64)
        return y
"""
WIDENED = "x.to(torch.bfloat16), self.weight.to(torch.bfloat16)"


def test_operands_behind_a_table_keep_their_types(tmp_path: Path) -> None:
    text = FP8.replace("TYPE", "tl.float8e4nv").replace("GIVEN", "x, self.weight")
    assert linted(tmp_path, text)[::2] == ("clean", {"fp8-products": "kept", "authored-compute": "kept"})
    verdict, found, states = linted(tmp_path, FP8.replace("TYPE", "tl.bfloat16").replace("GIVEN", WIDENED))
    assert (verdict, found, states["fp8-products"]) == ("rubric_leak", {"fp8-upcast-bf16-gemm"}, "broken")
