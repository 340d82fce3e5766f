"""What a CUDA kernel does with data beside products: libraries, tables, sums, and calls that nobody knows."""

from __future__ import annotations

import pytest
from cuda_support import X16, run
from origins_support import flags, params

from kbh_lint.base.values import Buffer


def test_library_primitives_are_uses_by_full_path() -> None:
    facts = run(
        """
        #include <cub/cub.cuh>
        __global__ void kernel(const float* x, float* out) {
          using Sort = cub::BlockRadixSort<float, 256, 4>;
          __shared__ typename Sort::TempStorage temp;
          float keys[4];
          for (int i = 0; i < 4; ++i) keys[i] = x[threadIdx.x * 4 + i];
          Sort(temp).SortDescending(keys);
          out[threadIdx.x] = keys[0];
        }
        """,
        x=Buffer("f32", 1, "f32"), out=Buffer("f32", 9, "f32"),
    )  # fmt: skip
    assert {u.symbol for u in facts.uses} == {"cub::BlockRadixSort"}
    assert params(facts.stores[0].origins) == {"x"}


def test_pages_named_by_a_table_are_index_origins() -> None:
    facts = run(
        """
        __global__ void kernel(const int* table, const int* lens, const __nv_bfloat16* kv, float* out) {
          int n = lens[blockIdx.x];
          for (int t = threadIdx.x; t < n; t += 32) {
            int page = table[t / 16];
            out[t] = __bfloat162float(kv[page * 2048 + t]);
          }
        }
        """,
        table=Buffer("i32", 4, "i32"), lens=Buffer("i32", 5, "i32"), kv=X16, out=Buffer("f32", 9, "f32"),
    )  # fmt: skip
    (store,) = facts.stores
    assert params(store.origins) == {"kv"} and params(store.origins, index=True) == {"table"}
    assert {load.param for load in facts.loads} == {"table", "lens", "kv"}


def test_atomic_sums_and_shared_memory_trees_are_sums() -> None:
    facts = run(
        """
        __global__ void kernel(const float* x, float* out) {
          __shared__ float part[256];
          part[threadIdx.x] = x[threadIdx.x];
          for (int s = 128; s > 0; s >>= 1) {
            if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
            __syncthreads();
          }
          if (threadIdx.x == 0) atomicAdd(out, part[0]);
        }
        """,
        x=Buffer("f32", 1, "f32"), out=Buffer("f32", 9, "f32"),
    )  # fmt: skip
    assert len({s.loc for s in facts.sums}) == 2
    assert "reduce" in flags(facts.stores[0].origins, "x")


def test_unknown_calls_are_said_and_do_not_lose_the_data() -> None:
    facts = run(
        """
        __global__ void kernel(const float* x, float* out) {
          float v[4];
          mystery(v, x);
          out[0] = v[0];
        }
        """,
        x=Buffer("f32", 1, "f32"), out=Buffer("f32", 9, "f32"),
    )  # fmt: skip
    assert [reason for reason, _ in facts.unread] == ["a call of mystery"]
    assert params(facts.stores[0].origins) == {"x"}


BLOCK_SUM = """
FILE
__global__ void kernel(const float* x, float* out) {
    BODY
    __shared__ typename Reduce::TempStorage scratch;
    const float total = Reduce(scratch).Reduce(x[threadIdx.x], OPERATION);
    if (threadIdx.x == 0) out[blockIdx.x] = total;
}
"""


@pytest.mark.parametrize(
    ("around", "inside", "operation"),
    [
        ("", "using Reduce = cub::BlockReduce<float, 256>;", "cub::Max()"),
        ("namespace parts = ::cub;", "using Reduce = parts::BlockReduce<float, 256>;", "parts::Max()"),
        ("using namespace cub;", "typedef BlockReduce<float, 256> Reduce;", "Max()"),
        ("using cub::BlockReduce;", "using Reduce = BlockReduce<float, 256>;", "cub::Max()"),
        ("", "namespace parts = cub; using Reduce = parts::BlockReduce<float, 256>;", "cub::Max()"),
        ("", "using namespace cub; using Reduce = BlockReduce<float, 256>;", "Max()"),
    ],
)
def test_what_cub_does_in_a_block_is_read_however_its_namespace_is_spelled(
    around: str, inside: str, operation: str
) -> None:
    source = BLOCK_SUM.replace("FILE", around).replace("BODY", inside).replace("OPERATION", operation)
    facts = run(source, x=Buffer("f32", 1, "f32"), out=Buffer("f32", 2, "f32"))
    assert not facts.unread and {use.symbol for use in facts.uses} >= {"cub::BlockReduce"}


def test_a_class_of_the_file_hides_that_of_a_library() -> None:
    own = """
    template <class T, int N> struct BlockReduce {
        using TempStorage = int;
        BlockReduce(int&) {}
        template <class F> T Reduce(T v, F) { return v; }
    };
    """
    source = BLOCK_SUM.replace("FILE", own).replace("BODY", "using Reduce = BlockReduce<float, 256>;")
    facts = run(source.replace("OPERATION", "0"), x=Buffer("f32", 1, "f32"), out=Buffer("f32", 2, "f32"))
    assert not facts.uses


@pytest.mark.parametrize(("key", "carried"), [("x[t]", True), ("t & 15", False)])
def test_bits_that_a_table_gives_for_a_byte_are_that_byte_s_number(key: str, carried: bool) -> None:
    facts = run(
        f"""
        __device__ unsigned short halves[256];
        __global__ void kernel(const unsigned char* x, const __half* w, float* out) {{
          __shared__ unsigned short tile[256];
          const int t = threadIdx.x;
          tile[t] = halves[{key}];
          __syncthreads();
          uint32_t a = *(const uint32_t*)(tile + 2 * t), b = *(const uint32_t*)(w + 2 * t);
          float d[4] = {{0.f, 0.f, 0.f, 0.f}};
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, {{%8,%9}}, "
                       "{{%0,%1,%2,%3}};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                       : "r"(a), "r"(a), "r"(a), "r"(a), "r"(b), "r"(b));
          out[t] = d[0];
        }}
        """,
        x=Buffer("u8", 1, "e4m3"), w=Buffer("f16", 2, "f16"), out=Buffer("f32", 9, "f32"),
    )  # fmt: skip
    (product,) = facts.products
    assert product.a == "f16"
    assert ("x" in params(product.a_origins)) == carried


@pytest.mark.parametrize(
    "copied",
    [
        "Pack p{}; if (i < n) p = *at;",
        "Pack p = {}; if (i < n) { p = at[0]; }",
        "Pack p; if (i < n) p = *at; else p.of[0] = 0.f;",
        "Pack p{}; if (i >= n) { p.scale = 1.f; } else p = *at;",
        "Pack p = i < n ? *at : Pack{};",
        "Pack p{}; if (i < n) p = *at; p.scale = 1.f;",
        "Pack p{}; p = *at;",
    ],
)
def test_a_struct_that_is_copied_on_one_way_alone_holds_what_was_there(copied: str) -> None:
    facts = run(
        """
        struct Pack { float of[4]; float scale; };
        __device__ float sum(const Pack& p) { return p.of[0] + p.of[1] + p.of[2] + p.of[3]; }
        __global__ void kernel(const float* x, float* out, int n) {
          const int i = blockIdx.x * blockDim.x + threadIdx.x;
          const Pack* at = reinterpret_cast<const Pack*>(x + 5 * i);
          COPIED
          out[i] = sum(p);
        }
        """.replace("COPIED", copied),
        x=Buffer("f32", 1, "f32"), out=Buffer("f32", 9, "f32"), n=100,
    )  # fmt: skip
    assert params(facts.stores[0].origins) == {"x"}
