"""Matrix products of CUDA kernels, by instruction, library or hand: their types, and what their data went through."""

from __future__ import annotations

from typing import Any

import pytest
from cuda_support import MMA8, MMA16, OUT, W8, W16, X8, X16, line, run
from origins_support import flags, params

from kbh_lint.base import ir, values
from kbh_lint.base.values import UNKNOWN, Buffer, Descriptor, Scalar, TypeValue

STAGED = """
__device__ __forceinline__ void copy16(uint32_t dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\\n" :: "r"(dst), "l"(src));
}
__device__ __forceinline__ void ldsm4(uint32_t (&r)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
template <int BM, int BN, int BK>
__global__ void __launch_bounds__(128) kernel(const uint8_t* __restrict__ x, const uint8_t* __restrict__ w,
                                              __nv_bfloat16* out, const float* scale, int K) {
  extern __shared__ __align__(128) uint8_t smem[];
  uint8_t* sa = smem;
  uint8_t* sb = sa + BM * BK;
  float acc[4] = {0.f, 0.f, 0.f, 0.f};
  for (int k = 0; k < K; k += BK) {
    copy16((uint32_t)__cvta_generic_to_shared(sa + threadIdx.x * 16), x + k + threadIdx.x * 16);
    copy16((uint32_t)__cvta_generic_to_shared(sb + threadIdx.x * 16), w + k + threadIdx.x * 16);
    asm volatile("cp.async.wait_group 0;\\n" ::);
    __syncthreads();
    uint32_t a[4], b[4];
    ldsm4(a, (uint32_t)__cvta_generic_to_shared(sa + (threadIdx.x & 31) * BK));
    ldsm4(b, (uint32_t)__cvta_generic_to_shared(sb + (threadIdx.x & 31) * BK));
    uint32_t b2[2] = {b[0], b[1]};
    mma(acc, a, b2);
  }
  out[threadIdx.x] = __float2bfloat16(acc[0] * scale[threadIdx.x]);
}
"""
TILES: dict[str, Any] = {"BM": 64, "BN": 64, "BK": 64, "K": Scalar(UNKNOWN)}


def test_fp8_bytes_staged_through_shared_memory_reach_an_fp8_mma_without_casts() -> None:
    args: dict[str, Any] = {
        "x": Buffer("u8", 1, "e4m3"),
        "w": Buffer("u8", 2, "e4m3"),
        "out": OUT,
        "scale": Buffer("f32", 3, "f32"),
    }
    facts = run(MMA8 + STAGED, **args, **TILES)
    (product,) = facts.products
    assert (product.kind, product.a, product.b, product.accumulator, product.rows) == ("mma", "e4m3", "e4m3", "f32", 16)
    assert (params(product.a_origins), params(product.b_origins)) == ({"x"}, {"w"})
    assert {o.dtype for o in product.a_origins | product.b_origins} == {"e4m3"}
    assert product.casts == () and product.opcode.startswith("mma.sync.aligned.m16n8k32")
    assert params(facts.stores[0].origins) == {"x", "w", "scale"}
    assert facts.unread == []


@pytest.mark.parametrize(
    "widen",
    [
        "__float2bfloat16(float(x[i]))",
        "__float2bfloat16(static_cast<float>(x[i]))",
        "__nv_bfloat16((float)x[i])",
        "__float2bfloat16(__half2float(__nv_cvt_fp8_to_halfraw(x[i].__x, __NV_E4M3)))",
    ],
)
def test_fp8_widened_before_shared_memory_makes_a_bf16_mma_with_casts(widen: str) -> None:
    facts = run(
        MMA16
        + f"""
        __global__ void kernel(const __nv_fp8_e4m3* x, const __nv_fp8_e4m3* w, float* out, int n) {{
          __shared__ __nv_bfloat16 sa[64 * 64];
          __shared__ __nv_bfloat16 sb[64 * 64];
          for (int i = threadIdx.x; i < n; i += 128) {{
            sa[i] = {widen};
            sb[i] = __float2bfloat16(float(w[i]));
          }}
          __syncthreads();
          uint32_t a[4], b[2];
          for (int i = 0; i < 4; ++i) a[i] = *reinterpret_cast<const uint32_t*>(&sa[i * 2]);
          for (int i = 0; i < 2; ++i) b[i] = *reinterpret_cast<const uint32_t*>(&sb[i * 2]);
          float acc[4] = {{}};
          mma(acc, a, b);
          out[threadIdx.x] = acc[0];
        }}
        """,
        x=X8, w=W8, out=Buffer("f32", 9, "f32"), n=Scalar(UNKNOWN),
    )  # fmt: skip
    (product,) = facts.products
    assert (product.a, product.b) == ("bf16", "bf16")
    assert "cast" in flags(product.a_origins, "x") and "cast" in flags(product.b_origins, "w")
    assert product.casts and facts.unread == []


def test_a_cast_points_at_its_own_line() -> None:
    facts = run(
        """
        __global__ void kernel(const __nv_fp8_e4m3* x, __nv_bfloat16* out) {
          int i = threadIdx.x;
          float v = float(x[i]);
          out[i] = __float2bfloat16(v);
        }
        """,
        x=X8, out=OUT,
    )  # fmt: skip
    assert [(c.source, c.target, line(c.loc)) for c in facts.casts] == [("e4m3", "f32", 4), ("f32", "bf16", 5)]


def test_tensor_maps_fill_shared_memory_for_tcgen05() -> None:
    facts = run(
        """
        __device__ void tma(void* dst, const CUtensorMap* map, int x, int y, uint64_t* bar) {
          uint32_t to = __cvta_generic_to_shared(dst), flag = __cvta_generic_to_shared(bar);
          asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%3, %4}], [%2];" :: "r"(to), "l"(map), "r"(flag), "r"(x), "r"(y));
        }
        __device__ uint64_t describe(uint32_t address) {
          uint64_t d = 0;
          d |= (uint64_t)((address & 0x3FFFF) >> 4);
          d |= (uint64_t)1 << 46;
          return d;
        }
        __global__ void kernel(const __grid_constant__ CUtensorMap xm, const __grid_constant__ CUtensorMap wm,
                               float* out, int n) {
          extern __shared__ uint8_t smem[];
          __shared__ uint64_t bar;
          uint8_t* sb = smem + 16384;
          if (threadIdx.x >= 32) {
            uint64_t da = describe((uint32_t)__cvta_generic_to_shared(smem));
            uint64_t db = describe((uint32_t)__cvta_generic_to_shared(sb));
            for (int k = 0; k < n; ++k)
              asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;"
                " tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p; }"
                :: "r"(0), "l"(da + k * 2), "l"(db + k * 2), "r"(7), "r"(k));
            uint32_t r;
            asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(r) : "r"(0));
            out[threadIdx.x] = __uint_as_float(r);
          } else {
            tma(smem, &xm, 0, 0, &bar);
            tma(sb, &wm, 0, 0, &bar);
          }
        }
        """,
        xm=Descriptor("e4m3", 1, "e4m3"), wm=Descriptor("e4m3", 2, "e4m3"), out=Buffer("f32", 9, "f32"),
        n=Scalar(UNKNOWN),
    )  # fmt: skip
    (product,) = facts.products
    assert (product.a, product.b) == ("e4m3", "e4m3")
    assert (params(product.a_origins), params(product.b_origins)) == ({"xm"}, {"wm"})
    assert [(s.param, params(s.origins)) for s in facts.stores] == [("out", {"xm", "wm"})]


def test_a_bf16_descriptor_makes_a_bf16_tcgen05_product() -> None:
    facts = run(
        """
        __global__ void kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, float* out) {
          __shared__ __nv_bfloat16 sa[4096];
          __shared__ __nv_bfloat16 sb[4096];
          sa[threadIdx.x] = x[threadIdx.x];
          sb[threadIdx.x] = w[threadIdx.x];
          uint64_t da = (uint64_t)__cvta_generic_to_shared(sa) >> 4, db = (uint64_t)__cvta_generic_to_shared(sb) >> 4;
          asm volatile("tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, 1;" :: "r"(0), "l"(da), "l"(db), "r"(7));
        }
        """,
        x=X16, w=W16, out=Buffer("f32", 9, "f32"),
    )  # fmt: skip
    assert [(p.a, p.b) for p in facts.products] == [("bf16", "bf16")]


def test_wgmma_takes_its_types_from_the_opcode_and_its_data_from_the_descriptors() -> None:
    facts = run(
        """
        __global__ void kernel(const uint8_t* x, const uint8_t* w, float* out) {
          __shared__ uint8_t sa[4096];
          __shared__ uint8_t sb[4096];
          *reinterpret_cast<uint4*>(sa + threadIdx.x * 16) = *reinterpret_cast<const uint4*>(x + threadIdx.x * 16);
          *reinterpret_cast<uint4*>(sb + threadIdx.x * 16) = *reinterpret_cast<const uint4*>(w + threadIdx.x * 16);
          float d[4] = {0};
          uint64_t da = (uint64_t)__cvta_generic_to_shared(sa) >> 4, db = (uint64_t)__cvta_generic_to_shared(sb) >> 4;
          asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0, %1, %2, %3}, %4, %5, 1, 1, 1;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(da), "l"(db));
          out[threadIdx.x] = d[0];
        }
        """,
        x=Buffer("u8", 1, "e4m3"), w=Buffer("u8", 2, "e4m3"), out=Buffer("f32", 9, "f32"),
    )  # fmt: skip
    (product,) = facts.products
    assert (product.a, product.rows) == ("e4m3", 64)
    assert (params(product.a_origins), params(product.b_origins)) == ({"x"}, {"w"})


def test_wmma_fragments_multiply_in_their_declared_type() -> None:
    facts = run(
        """
        using namespace nvcuda;
        template <typename T>
        __global__ void kernel(const T* x, const T* w, float* out, int K) {
          wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> a;
          wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> b;
          wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[2];
          wmma::fill_fragment(c[0], 0.0f);
          for (int k = 0; k < K; k += 16) {
            wmma::load_matrix_sync(a, x + k, K);
            wmma::load_matrix_sync(b, w + k, K);
            wmma::mma_sync(c[0], a, b, c[0]);
          }
          wmma::store_matrix_sync(out, c[0], 16, wmma::mem_row_major);
        }
        """,
        x=X16, w=W16, out=Buffer("f32", 9, "f32"), K=Scalar(UNKNOWN),
        T=TypeValue(ir.TypeRef("__nv_bfloat16", (), ()), values.Env()),
    )  # fmt: skip
    (product,) = facts.products
    assert (product.kind, product.a, product.b, product.rows) == ("wmma", "bf16", "bf16", 16)
    assert (params(product.a_origins), params(product.b_origins)) == ({"x"}, {"w"})
    assert params(facts.stores[0].origins) == {"x", "w"}


@pytest.mark.parametrize(
    "body",
    [
        "acc += __bfloat162float(x[k]) * float(w[k] & 0xF);",
        "acc = acc + __bfloat162float(x[k]) * float(w[k] & 0xF);",
        "acc = fmaf(__bfloat162float(x[k]), float(w[k] & 0xF), acc);",
        "add(acc, __bfloat162float(x[k]), w[k] & 0xF);",
    ],
)
def test_scalar_multiply_accumulates_are_products_by_fma(body: str) -> None:
    facts = run(
        f"""
        __device__ void add(float& total, float a, int q) {{ total += a * static_cast<float>(q); }}
        __global__ void kernel(const __nv_bfloat16* x, const uint8_t* w, float* out, int K) {{
          float acc = 0.f;
          for (int k = 0; k < K; ++k) {{
            {body}
          }}
          for (int o = 16; o > 0; o >>= 1) acc += __shfl_xor_sync(0xffffffff, acc, o);
          out[threadIdx.x] = acc;
        }}
        """,
        x=X16, w=Buffer("u8", 2, "u8"), out=Buffer("f32", 9, "f32"), K=Scalar(UNKNOWN),
    )  # fmt: skip
    (product,) = facts.products
    assert (product.kind, product.a) == ("fma", "f32")
    assert (params(product.a_origins), params(product.b_origins)) == ({"x"}, {"w"})
    assert flags(product.b_origins, "w") == {"unpack", "cast"}
    assert len(facts.unpacks) == 1 and len({s.loc for s in facts.sums}) == 2


def test_magic_number_unpacking_by_lop3_is_an_unpack_and_a_cast() -> None:
    facts = run(
        MMA16
        + """
        __global__ void kernel(const __nv_bfloat16* x, const uint32_t* w, float* out) {
          uint32_t q = w[threadIdx.x], lo;
          asm volatile("lop3.b32 %0, %1, 0x000f000f, 0x43004300, 0xEA;" : "=r"(lo) : "r"(q));
          __nv_bfloat162 v = *reinterpret_cast<__nv_bfloat162*>(&lo);
          v = __hsub2(v, v);
          uint32_t a[4], b[2];
          a[0] = a[1] = a[2] = a[3] = *reinterpret_cast<const uint32_t*>(x + threadIdx.x);
          b[0] = b[1] = *reinterpret_cast<uint32_t*>(&v);
          float d[4] = {0};
          mma(d, a, b);
          out[threadIdx.x] = d[0];
        }
        """,
        x=X16, w=Buffer("u32", 2, "u8"), out=Buffer("f32", 9, "f32"),
    )  # fmt: skip
    (product,) = facts.products
    assert flags(product.b_origins, "w") == {"unpack", "cast"}
    assert params(facts.unpacks[0].origins) == {"w"}
