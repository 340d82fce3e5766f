"""Idioms of real CUDA kernels that the analysis must see through."""

from __future__ import annotations

import pytest
from cuda_support import casts, run
from origins_support import flags, params

from kbh_lint.base.values import UNKNOWN, Buffer, Scalar

F32 = Buffer("f32", 9, "f32")
BF16 = Buffer("bf16", 9, "bf16")
N = Scalar(UNKNOWN)


WIDENINGS = {
    "a table in constant memory": """
        __constant__ float table[256];
        __global__ void kernel(const uint8_t* x, float* out) { out[threadIdx.x] = table[x[threadIdx.x]]; }""",
    "a table in shared memory": """
        __global__ void kernel(const uint8_t* x, float* out) {
          __shared__ float table[256];
          for (int i = threadIdx.x; i < 256; i += 32) { __nv_fp8_e4m3 v; v.__x = (uint8_t)i; table[i] = float(v); }
          __syncthreads();
          out[threadIdx.x] = table[x[threadIdx.x]];
        }""",
    "sign, exponent and mantissa put together": """
        __device__ float decode(uint8_t b) {
          uint32_t s = (b & 0x80u) << 24, e = (b >> 3) & 0xF, m = b & 7;
          return __uint_as_float(s | ((e + 120) << 23) | (m << 20));
        }
        __global__ void kernel(const uint8_t* x, float* out) { out[threadIdx.x] = decode(x[threadIdx.x]); }""",
    "ldexp of the fields": """
        __global__ void kernel(const uint8_t* x, float* out) {
          int b = x[threadIdx.x];
          out[threadIdx.x] = ldexpf(1.f + (b & 7) / 8.f, ((b >> 3) & 15) - 7);
        }""",
    "a packed object": """
        __global__ void kernel(const uint32_t* x, float4* out) {
          uint32_t w = x[threadIdx.x];
          out[threadIdx.x] = static_cast<float4>(*reinterpret_cast<__nv_fp8x4_e4m3*>(&w));
        }""",
    "a copy by memcpy": """
        __global__ void kernel(const uint8_t* x, float* out) {
          __nv_fp8_e4m3 v;
          memcpy(&v, x + threadIdx.x, 1);
          out[threadIdx.x] = float(v);
        }""",
}


@pytest.mark.parametrize("way", WIDENINGS)
def test_every_way_to_widen_fp8_is_a_cast(way: str) -> None:
    facts = run(WIDENINGS[way], x=Buffer("u8", 1, "e4m3"), out=F32)
    assert ("e4m3", "f32") in casts(facts)
    assert "cast" in flags(facts.stores[0].origins, "x")
    assert facts.unpacks == [] and facts.unread == []


@pytest.mark.parametrize(
    "body",
    [
        'uint32_t r; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(x[0])); out[0] = *(__half2*)&r;',
        "__half2_raw r = __nv_cvt_fp8x2_to_halfraw2(x[0], __NV_E4M3); out[0] = *reinterpret_cast<__half2*>(&r);",
    ],
)
def test_conversions_of_pairs_are_casts_to_half(body: str) -> None:
    facts = run(
        f"__global__ void kernel(const uint16_t* x, __half2* out) {{ {body} }}",
        x=Buffer("u16", 1, "e4m3"), out=Buffer("f16", 9, "f16"),
    )  # fmt: skip
    assert casts(facts) == {("e4m3", "f16")}


@pytest.mark.parametrize(
    "body",
    [
        "out[0] = __uint_as_float(u);",
        "float f; memcpy(&f, &u, 4); out[0] = f;",
        "out[0] = *(float*)&u;",
        "union { unsigned i; float g; } c; c.i = u; out[0] = c.g;",
    ],
)
def test_bf16_shifted_into_a_float_is_a_cast_from_bf16(body: str) -> None:
    facts = run(
        f"""
        __global__ void kernel(const unsigned short* x, float* out) {{
          unsigned int u = ((unsigned int)x[threadIdx.x]) << 16;
          {body}
        }}""",
        x=Buffer("u16", 1, "bf16"), out=F32,
    )  # fmt: skip
    assert casts(facts) == {("bf16", "f32")}


@pytest.mark.parametrize(
    "convert",
    ["__nv_fp8_e4m3(v)", "(__nv_fp8_e4m3)v", "static_cast<__nv_fp8_e4m3>(v)"],
)
def test_quantising_is_a_cast_the_other_way(convert: str) -> None:
    facts = run(
        f"""
        __global__ void kernel(const __nv_bfloat16* x, __nv_fp8_e4m3* out, const float* s) {{
          float v = __bfloat162float(x[threadIdx.x]) / s[0];
          out[threadIdx.x] = {convert};
        }}""",
        x=Buffer("bf16", 1, "bf16"), out=Buffer("e4m3", 9, "e4m3"), s=Buffer("f32", 3, "f32"),
    )  # fmt: skip
    assert ("f32", "e4m3") in casts(facts) and [s.dtype for s in facts.stores] == ["e4m3"]


def test_fp8_bytes_stored_as_integers_are_fp8_stores() -> None:
    facts = run(
        """
        __global__ void kernel(const float* x, uint8_t* out) {
          out[threadIdx.x] = __nv_cvt_float_to_fp8(x[threadIdx.x], __NV_SATFINITE, __NV_E4M3);
        }""",
        x=Buffer("f32", 1, "f32"), out=Buffer("u8", 9, "u8"),
    )  # fmt: skip
    assert [s.dtype for s in facts.stores] == ["e4m3"]


def test_positions_stored_as_integers_stay_integers() -> None:
    facts = run(
        """
        __global__ void kernel(const float* x, long long* out) {
          unsigned key = __float_as_uint(x[threadIdx.x]);
          unsigned long long packed = ((unsigned long long)key << 32) | threadIdx.x;
          out[0] = (long long)(unsigned)packed;
        }""",
        x=Buffer("f32", 1, "f32"), out=Buffer("i64", 9, "i64"),
    )  # fmt: skip
    assert [s.dtype for s in facts.stores] == ["i64"]


SUMS = {
    "a dot of four in one expression": """
        __device__ float dot4(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
        __global__ void kernel(const float4* x, const float4* w, float* out, int n) {
          float s = 0;
          for (int i = 0; i < n; i++) s += dot4(x[i], w[i]);
          out[0] = s;
        }""",
    "pointers that walk": """
        __global__ void kernel(const float* __restrict__ x, const float* w, float* out, int n) {
          const float* px = x + threadIdx.x;
          const float* pw = w;
          float s = 0;
          while (n-- > 0) { s += *px++ * *pw; pw += 32; }
          out[0] = s;
        }""",
    "vectors seen as pairs": """
        __global__ void kernel(const float4* x, const float4* w, float* out, int n) {
          float s = 0;
          for (int i = 0; i < n; i++) {
            float4 a = x[i], b = w[i];
            const float2* pa = reinterpret_cast<const float2*>(&a);
            const float2* pb = (const float2*)&b;
            for (int j = 0; j < 2; j++) { s = fmaf(pa[j].x, pb[j].x, s); s = fmaf(pa[j].y, pb[j].y, s); }
          }
          out[0] = s;
        }""",
    "an array of accumulators": """
        template <int R> __device__ void step(float (&acc)[R], const float* a, float b) {
        #pragma unroll
          for (int r = 0; r < R; ++r) acc[r] += a[r] * b;
        }
        __global__ void kernel(const float* x, const float* w, float* out, int n) {
          float acc[4] = {};
          for (int i = 0; i < n; i++) step<4>(acc, x + i, w[i]);
          for (int r = 0; r < 4; ++r) out[r] = acc[r];
        }""",
    "a lambda": """
        __global__ void kernel(const float* x, const float* w, float* out, int n) {
          float s = 0;
          auto step = [&](int i) { s += x[i] * w[i]; };
          for (int i = 0; i < n; i++) step(i);
          out[0] = s;
        }""",
    "tiles in shared memory": """
        __global__ void kernel(const float* x, const float* w, float* out, int n) {
          __shared__ float sa[16][17], sb[16][17];
          float s = 0;
          for (int t = 0; t < n; ++t) {
            sa[threadIdx.y][threadIdx.x] = x[t * 16 + threadIdx.x];
            sb[threadIdx.y][threadIdx.x] = w[t * 16 + threadIdx.x];
            __syncthreads();
            for (int k = 0; k < 16; ++k) s += sa[threadIdx.y][k] * sb[k][threadIdx.x];
            __syncthreads();
          }
          out[0] = s;
        }""",
}


@pytest.mark.parametrize("way", SUMS)
def test_every_way_to_sum_products_is_a_product(way: str) -> None:
    facts = run(SUMS[way], x=Buffer("f32", 1, "f32"), w=Buffer("f32", 2, "f32"), out=F32, n=N)
    assert {(p.kind, p.a, p.b) for p in facts.products} == {("fma", "f32", "f32")}
    assert all(params(p.a_origins) == {"x"} and params(p.b_origins) == {"w"} for p in facts.products)
    assert "product" in flags(facts.stores[0].origins, "x") and facts.unread == []


def test_operators_of_structs_carry_their_fields() -> None:
    facts = run(
        """
        struct Two { float a, b; __device__ Two operator+(const Two& o) const { return {a + o.a, b + o.b}; } };
        __device__ Two operator*(Two p, float s) { return Two{p.a * s, p.b * s}; }
        __global__ void kernel(const Two* x, float* out, int n) {
          Two s{0, 0};
          for (int i = 0; i < n; i++) s = s + x[i] * 2.f;
          out[0] = s.a + s.b;
        }""",
        x=Buffer("f32", 1, "f32"), out=F32, n=N,
    )  # fmt: skip
    assert params(facts.stores[0].origins) == {"x"} and facts.unread == []


STORED = {
    "an array of a struct": ("struct Four { float v[4]; };", "p.v[i] = x[i] * y[i];"),
    "rows of a struct": ("struct Four { float v[2][2]; };", "p.v[i / 2][i % 2] = x[i] * y[i];"),
    "an array of structs": ("struct One { float a; }; struct Four { One v[4]; };", "p.v[i].a = x[i] * y[i];"),
    "a field": ("struct Four { float a, b, c, d; };", "p.a = x[i] * y[i];"),
}


@pytest.mark.parametrize("what", STORED)
def test_a_struct_that_is_stored_whole_takes_along_what_it_holds(what: str) -> None:
    declared, fill = STORED[what]
    source = f"""
        {declared}
        __global__ void kernel(const float* x, const float* y, const float* z, float* out) {{
          Four p;
          Four other;
          for (int i = 0; i < 4; ++i) {{ {fill} }}
          other = *(const Four*)z;
          *(Four*)(out + threadIdx.x * 4) = p;
        }}"""
    (store,) = [s for s in run(source, x=F32, y=F32, z=F32, out=F32).stores if s.origins]
    assert params(store.origins) == {"x", "y"}


def test_a_struct_overlaid_on_shared_memory_keeps_its_fields_apart() -> None:
    facts = run(
        """
        struct Storage { __nv_bfloat16 tile[4096]; float sums[32]; };
        __global__ void kernel(const __nv_bfloat16* x, const float* w, float* out) {
          extern __shared__ char raw[];
          Storage& s = *reinterpret_cast<Storage*>(raw);
          Storage* p = (Storage*)raw;
          s.tile[threadIdx.x] = x[threadIdx.x];
          s.sums[threadIdx.x] = w[threadIdx.x];
          __syncthreads();
          out[0] = p->sums[0];
          out[1] = __bfloat162float(p->tile[1]);
        }""",
        x=Buffer("bf16", 1, "bf16"), w=Buffer("f32", 2, "f32"), out=F32,
    )  # fmt: skip
    assert [params(s.origins) for s in facts.stores] == [{"w"}, {"x"}]


def test_shared_memory_declared_outside_the_kernel_is_shared_memory() -> None:
    facts = run(
        """
        extern __shared__ __align__(16) unsigned char raw[];
        __global__ void kernel(const __nv_bfloat16* x, const float* w, float* out) {
          __nv_bfloat16 (*tile)[72] = reinterpret_cast<__nv_bfloat16 (*)[72]>(raw);
          float* sums = reinterpret_cast<float*>(raw + 64 * 72 * 2);
          tile[threadIdx.x][3] = x[threadIdx.x];
          sums[threadIdx.x] = w[threadIdx.x];
          __syncthreads();
          out[0] = sums[1];
          out[1] = __bfloat162float(tile[threadIdx.x][threadIdx.y]);
        }""",
        x=Buffer("bf16", 1, "bf16"), w=Buffer("f32", 2, "f32"), out=F32,
    )  # fmt: skip
    assert [(s.param, params(s.origins)) for s in facts.stores] == [("out", {"w"}), ("out", {"x"})]


def test_swaps_by_reference_move_values() -> None:
    facts = run(
        """
        __device__ void order(float& a, float& b) { if (a < b) { float t = a; a = b; b = t; } }
        __global__ void kernel(const float* x, const float* w, float* out) {
          float v[2] = {x[0], 0.f};
          float u = w[0];
          order(v[1], u);
          out[0] = v[1];
        }""",
        x=Buffer("f32", 1, "f32"), w=Buffer("f32", 2, "f32"), out=F32,
    )  # fmt: skip
    assert "w" in params(facts.stores[0].origins)


def test_asynchronous_copies_of_libraries_fill_shared_memory() -> None:
    facts = run(
        """
        __global__ void kernel(const float* x, float* out) {
          __shared__ float s[64];
          auto block = cooperative_groups::this_thread_block();
          cooperative_groups::memcpy_async(block, s, x, 256);
          cooperative_groups::wait(block);
          auto pipe = cuda::make_pipeline();
          pipe.producer_acquire();
          cuda::memcpy_async(s + 1, x + 1, 4, pipe);
          pipe.producer_commit();
          pipe.consumer_wait();
          out[0] = cooperative_groups::reduce(block, s[3], cooperative_groups::plus<float>());
        }""",
        x=Buffer("f32", 1, "f32"), out=F32,
    )  # fmt: skip
    assert params(facts.stores[0].origins) == {"x"} and facts.unread == []
    assert [u.symbol for u in facts.uses] == ["cooperative_groups::reduce"]


def test_nibbles_through_helpers_and_bit_field_extraction_are_unpacks() -> None:
    facts = run(
        """
        __device__ int field(uint32_t v, int i) { return (v >> (4 * i)) & 0xF; }
        __device__ uint32_t extract(uint32_t a, uint32_t s) {
          uint32_t r;
          asm("bfe.u32 %0, %1, %2, 4;" : "=r"(r) : "r"(a), "r"(s));
          return r;
        }
        __global__ void kernel(const uint32_t* w, float* out) {
          for (int i = 0; i < 8; i++) out[i] = (float)field(w[0], i) + (float)extract(w[0], i * 4);
        }""",
        w=Buffer("i32", 2, "i32"), out=F32,
    )  # fmt: skip
    assert len(facts.unpacks) == 2 and flags(facts.stores[0].origins, "w") == {"unpack", "cast"}


def test_a_consumer_written_before_its_producer_still_sees_the_data() -> None:
    facts = run(
        """
        __global__ void kernel(const float* x, float* out) {
          __shared__ float s[32];
          if (threadIdx.x >= 32) {
            out[threadIdx.x] = s[threadIdx.x - 32];
          } else {
            s[threadIdx.x] = x[threadIdx.x];
          }
        }""",
        x=Buffer("f32", 1, "f32"), out=F32,
    )  # fmt: skip
    assert params(facts.stores[0].origins) == {"x"}


def test_structs_of_kernel_arguments_name_their_fields() -> None:
    facts = run(
        """
        struct Args { const __nv_bfloat16* x; float* out; int n; };
        __global__ void kernel(const __grid_constant__ Args args) {
          for (int i = threadIdx.x; i < args.n; i += 32) args.out[i] = __bfloat162float(args.x[i]);
        }""",
        args=UNKNOWN,
    )  # fmt: skip
    assert [(s.param, params(s.origins)) for s in facts.stores] == [("args.out", {"args.x"})]


@pytest.mark.parametrize("fill", ["keys[threadIdx.x] = 0ull;", "((uint4*)keys)[threadIdx.x] = make_uint4(0, 0, 0, 0);"])
def test_memory_filled_with_constants_first_does_not_lose_the_data(fill: str) -> None:
    facts = run(
        f"""
        __global__ void kernel(const float* x, unsigned long long* out) {{
          __shared__ unsigned long long keys[64];
          {fill}
          __syncthreads();
          keys[threadIdx.x] = ((unsigned long long)__float_as_uint(x[threadIdx.x]) << 32) | threadIdx.x;
          __syncthreads();
          out[threadIdx.x] = keys[threadIdx.x ^ 1];
        }}""",
        x=Buffer("f32", 1, "f32"), out=Buffer("u64", 9, "u64"),
    )  # fmt: skip
    assert params(facts.stores[0].origins) == {"x"}


def test_a_position_chosen_by_comparing_data_comes_from_the_data_as_an_index() -> None:
    facts = run(
        """
        __global__ void kernel(const float* x, long long* out, int n) {
          float best = -INFINITY;
          int at = 0;
          for (int i = threadIdx.x; i < n; i += 32) {
            float v = x[i];
            if (v > best) { best = v; at = i; }
          }
          out[0] = at;
        }""",
        x=Buffer("f32", 1, "f32"), out=Buffer("i64", 9, "i64"), n=N,
    )  # fmt: skip
    assert {(o.param, "index" in o.flags) for o in facts.stores[0].origins} == {("x", True)}


def test_bit_fields_of_four_bits_take_nibbles_out() -> None:
    text = """
    struct Pair { uint8_t low : WIDTH; uint8_t high : WIDTH; };
    __global__ void kernel(const uint8_t* w, float* out) {
        Pair p = *reinterpret_cast<const Pair*>(w + threadIdx.x);
        out[2 * threadIdx.x] = p.low;
        out[2 * threadIdx.x + 1] = reinterpret_cast<const Pair*>(w)[threadIdx.x].high;
    }
    """
    facts = run(text.replace("WIDTH", "4"), w=Buffer("u8", 1, "u8"), out=F32)
    assert len(facts.unpacks) == 2 and all(params(u.origins) == {"w"} for u in facts.unpacks)
    assert not run(text.replace(" : WIDTH", ""), w=Buffer("u8", 1, "u8"), out=F32).unpacks


ROWS = {
    "a pointer to rows": "T (*d)[LD]",
    "rows without an end": "T d[][LD]",
    "a reference to an array": "T (&d)[64][LD]",
}


@pytest.mark.parametrize("way", ROWS)
def test_what_a_helper_writes_to_rows_of_shared_memory_is_read_there(way: str) -> None:
    facts = run(
        f"""
        template <int LD, class T>
        __device__ void fetch({ROWS[way]}, const T* x) {{ d[threadIdx.x][3] = x[threadIdx.x]; }}
        __global__ void kernel(const float* x, float* out) {{
          __shared__ float tile[64][72];
          fetch<72>(tile, x);
          float (*again)[72] = tile;
          float (&same)[64][72] = tile;
          out[0] = again[threadIdx.y][3];
          out[1] = same[threadIdx.y][3];
        }}""",
        x=Buffer("f32", 1, "f32"), out=F32,
    )  # fmt: skip
    assert [params(s.origins) for s in facts.stores if s.param == "out"] == [{"x"}, {"x"}]


def test_what_a_lambda_declares_hides_the_variable_around_it_and_leaves_it_alone() -> None:
    facts = run(
        """
        __global__ void kernel(const float* x, const float* w, float* out, float* other, int n) {
          float s = 0, t = 0;
          auto step = [&](int i) { t += x[i]; float s = w[i]; other[i] = s; };
          for (int i = 0; i < n; i++) { step(i); s += t; }
          out[0] = s;
        }""",
        x=F32, w=F32, out=F32, other=F32, n=N,
    )  # fmt: skip
    stored = {store.param: params(store.origins) for store in facts.stores}
    assert stored == {"out": {"x"}, "other": {"w"}}


def test_a_method_of_a_field_of_the_object_changes_that_field() -> None:
    facts = run(
        """
        template <int N> struct Row {
          float data[N];
          __device__ float& operator[](int i) { return data[i]; }
          __device__ void fill(float v) { for (int i = 0; i < N; ++i) data[i] = v; }
        };
        template <int N> struct State {
          Row<N> row; float scale;
          __device__ void begin(float v) { row.fill(v); scale = 1.f; }
          __device__ void merge(const Row<N>& other) { for (int i = 0; i < N; ++i) row[i] = row[i] * scale + other[i]; }
        };
        __global__ void kernel(const float* x, const float* w, float* out) {
          State<4> state;
          state.begin(x[0]);
          Row<4> more;
          for (int i = 0; i < 4; ++i) more[i] = w[i];
          state.merge(more);
          out[threadIdx.x] = state.row[0];
        }""",
        x=F32, w=F32, out=F32,
    )  # fmt: skip
    (store,) = facts.stores
    assert params(store.origins) == {"x", "w"} and facts.unread == []
