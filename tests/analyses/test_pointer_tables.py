"""Tables of pointers that CUDA C++ fills, on the device or on the host: what is read and written there is followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pointer_table_programs import BY_TABLES, INCLUDES, MULTIPLY, START, cuda, linted

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
