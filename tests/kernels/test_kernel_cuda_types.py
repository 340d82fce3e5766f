"""What C++ means in a CUDA kernel: templates, structs, vectors, unions and arrays keep data and what was done to it."""

from __future__ import annotations

from typing import Any

import pytest
from cuda_support import MMA8, MMA16, OUT, run
from origins_support import flags

from kbh_lint.base import ir, values
from kbh_lint.base.values import UNKNOWN, Buffer, Scalar, TypeValue


def test_template_arguments_choose_branches_and_types() -> None:
    source = (
        MMA8
        + MMA16
        + """
        template <bool FP8, typename T>
        __global__ void kernel(const uint32_t* x, const uint32_t* w, T* out) {
          uint32_t a[4] = {x[0], x[1], x[2], x[3]};
          uint32_t b[2] = {w[0], w[1]};
          float d[4] = {0};
          if constexpr (FP8) {
            mma(d, a, b);
          } else {
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
              "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
              : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
              : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
          }
          if constexpr (std::is_same_v<T, float>) out[0] = d[0];
          else out[0] = __float2bfloat16(d[1]);
        }
        """
    ).replace(MMA16, "")
    buffers: dict[str, Any] = {"x": Buffer("u32", 1, "e4m3"), "w": Buffer("u32", 2, "e4m3"), "out": OUT}
    kind = TypeValue(ir.TypeRef("__nv_bfloat16", (), ()), values.Env())
    fp8 = run(source, FP8=True, T=kind, **buffers)
    half = run(source, FP8=False, T=kind, **buffers)
    assert [p.a for p in fp8.products] == ["e4m3"] and [p.a for p in half.products] == ["f16"]
    assert [s.dtype for s in fp8.stores] == ["bf16"]
    assert fp8.decided == {"T"} and fp8.tests.names == {"FP8"}


def test_structs_methods_and_references_are_followed() -> None:
    facts = run(
        """
        struct Pair {
          float sum, extra;
          __device__ void add(float v) { sum += v; }
          __device__ float total() const { return sum + extra; }
        };
        template <typename F> __device__ void each(const float* x, int n, F f) {
          for (int i = 0; i < n; ++i) f(x[i]);
        }
        struct Args { const float* x; float* out; int n; };
        __global__ void kernel(const float* x, float* out, int n) {
          Args args{x, out, n};
          Pair p{0.f, 0.f};
          each(args.x, args.n, [&](float v) { p.add(expf(v)); });
          args.out[threadIdx.x] = p.total();
        }
        """,
        x=Buffer("f32", 1, "f32"), out=Buffer("f32", 9, "f32"), n=Scalar(UNKNOWN),
    )  # fmt: skip
    (store,) = facts.stores
    assert store.param == "out" and flags(store.origins, "x") == {"exp", "reduce"}
    assert len(facts.sums) == 1 and facts.unread == []


@pytest.mark.parametrize(
    ("struct", "read"),
    [
        ("template <int N> struct alignas(2 * N) Frag { __nv_bfloat162 v[N / 2]; }; using Part = Frag<4>;", "f.v[1]"),
        ("struct Part { __nv_bfloat162 first, second; };", "f.second"),
        ("struct Pair { __nv_bfloat162 v; }; struct Part { Pair low, high; };", "f.high.v"),
    ],
    ids=["an array", "fields", "a struct in it"],
)
def test_a_vector_that_is_written_over_a_struct_lies_in_all_of_its_fields(struct: str, read: str) -> None:
    facts = run(
        f"""
        {struct}
        __global__ void kernel(const uint2* x, const float* y, __nv_bfloat162* out) {{
          Part f, g;
          *reinterpret_cast<uint2*>(&f) = __ldg(x + threadIdx.x);
          *reinterpret_cast<float*>(&g) = y[threadIdx.x];
          out[threadIdx.x] = {read};
        }}
        """,
        x=Buffer("u32", 1, "bf16"), y=Buffer("f32", 2, "f32"), out=OUT,
    )  # fmt: skip
    (store,) = facts.stores
    assert {(o.param, o.dtype) for o in store.origins} == {("x", "bf16")} and facts.casts == []


def test_unions_and_memcpy_move_bits_without_casts() -> None:
    facts = run(
        """
        union Bits { uint32_t word; __nv_bfloat162 pair; };
        __global__ void kernel(const uint32_t* x, __nv_bfloat162* out) {
          Bits b;
          b.word = x[threadIdx.x];
          uint32_t copy;
          __nv_bfloat162 value = b.pair;
          memcpy(&copy, &value, 4);
          out[threadIdx.x] = *reinterpret_cast<__nv_bfloat162*>(&copy);
        }
        """,
        x=Buffer("u32", 1, "bf16"), out=OUT,
    )  # fmt: skip
    (store,) = facts.stores
    assert {o.dtype for o in store.origins} == {"bf16"} and facts.casts == []


@pytest.mark.parametrize(
    "declared",
    [
        "union Bits { uint4 word; __nv_bfloat16 item[8]; };",
        "struct Bits { int pad; union { uint4 word; __nv_bfloat16 item[8]; }; };",
    ],
)
def test_arrays_in_unions_share_their_memory(declared: str) -> None:
    facts = run(
        declared
        + """
        __global__ void kernel(const uint4* x, float* out) {
          Bits b;
          b.word = x[threadIdx.x];
          for (int i = 0; i < 8; ++i) out[threadIdx.x * 8 + i] = __bfloat162float(b.item[i]);
        }
        """,
        x=Buffer("u32", 1, "bf16"), out=Buffer("f32", 9, "f32"),
    )  # fmt: skip
    (store,) = facts.stores
    assert flags(store.origins, "x") == {"cast"}
    assert [(c.source, c.target) for c in facts.casts] == [("bf16", "f32")]
