"""Branches on loaded data inside CUDA kernels: what runs on either side, however the branch is spelled."""

from __future__ import annotations

import pytest

from kbh_lint.base.values import UNKNOWN, Buffer, Scalar
from kbh_lint.frontends import cuda
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts

KERNEL = """
#include <mma.h>
using namespace nvcuda;

template <typename T>
__device__ void multiply(const T* a, const T* b, wmma::fragment<wmma::accumulator, 16, 16, 16, float>& c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> right;
  wmma::load_matrix_sync(left, a, 16);
  wmma::load_matrix_sync(right, b, 16);
  wmma::mma_sync(c, left, right, c);
}

__global__ void kernel(const float* x, const int* p, const __nv_bfloat16* a, const __nv_bfloat16* b, const half* h,
                       float* y, int n) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.f);
  BODY
  wmma::store_matrix_sync(y, c, 16, wmma::mem_row_major);
}
"""
FINE, COARSE = "multiply(a, b, c);", "multiply(h, h, c);"
CHOICE = f"if (big) {{ {FINE} }} else {{ {COARSE} }}"


def run(body: str) -> KernelFacts:
    text = KERNEL.replace("BODY", body)
    module = cuda.lower(text, cuda.lines_origin(text, "kernel.cu"))
    memory = {"x": "f32", "p": "i32", "a": "bf16", "b": "bf16", "h": "f16", "y": "f32"}
    buffers = {name: Buffer(dtype, number, dtype) for number, (name, dtype) in enumerate(memory.items(), 1)}
    return analyze(cuda.module_env(module).vars["kernel"].funcs[0], {**buffers, "n": Scalar(UNKNOWN, "i32")})


def sides(facts: KernelFacts) -> set[tuple[frozenset[str], frozenset[str]]]:
    """The operand types on either side of each branch on the data of x."""
    on_x = [branch for branch in facts.branches if any(o.param == "x" for o in branch.origins)]
    return {(frozenset(p[1] for p in b.taken), frozenset(p[1] for p in b.other)) for b in on_x}


BOTH = (frozenset({"bf16"}), frozenset({"f16"}))
ONE = (frozenset({"bf16"}), frozenset[str]())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"if (x[0] > 4.f) {{ {FINE} }} else {{ {COARSE} }}", {BOTH}),
        (f"switch ((int)(x[0] > 4.f)) {{ case 1: {FINE} break; default: {COARSE} }}", {BOTH}),
        (
            f"switch (int(x[0])) {{ case 1: {{ {FINE} break; }} case 2: {{ {COARSE} break; }} default: {COARSE} }}",
            {BOTH},
        ),
        (f"switch (int(x[0])) {{ case 1: {FINE} break; case 2: break; }}", {ONE}),
        (f"while (x[0] > 4.f) {{ {FINE} break; }}", {ONE}),
        (f"for (; x[0] > 4.f;) {{ {FINE} break; }}", {ONE}),
        ("x[0] > 4.f && (multiply(a, b, c), true);", {ONE}),
        ("x[0] < 4.f || (multiply(a, b, c), true);", {(frozenset(), frozenset({"bf16"}))}),
    ],
)
def test_the_products_on_either_side_are_known_however_a_branch_is_spelled(
    body: str, expected: set[tuple[frozenset[str], frozenset[str]]]
) -> None:
    assert sides(run(body)) == expected


@pytest.mark.parametrize(
    "chosen",
    [
        "bool big = x[0] > 4.f;",
        "bool big = __any_sync(0xffffffffu, x[threadIdx.x] > 4.f);",
        "bool big = __ballot_sync(0xffffffffu, x[threadIdx.x] > 4.f) != 0;",
        "bool big = __syncthreads_or(x[threadIdx.x] > 4.f);",
        "int big = x[0] > 4.f ? 1 : 0;",
        "int big = 0; if (x[0] > 4.f) big = 1;",
        "int big; if (x[0] > 4.f) big = 1; else big = 0;",
        "bool big = false; switch ((int)(x[0] > 4.f)) { case 1: big = true; break; default: break; }",
        "bool big = false; while (x[0] > 4.f) { big = true; break; }",
        "int big = 0; for (int i = 0; i < (x[0] > 4.f); ++i) big = 1;",
        "bool big = false; (x[0] > 4.f) && (big = true);",
    ],
)
def test_a_branch_on_a_choice_is_a_branch_on_the_data_that_chose(chosen: str) -> None:
    assert BOTH in sides(run(chosen + CHOICE))


@pytest.mark.parametrize(
    "body",
    [
        f"for (int i = 0; i < p[0]; ++i) {{ {FINE} }}",
        f"for (int i = 0; i < n; ++i) {{ if (x[0] > 4.f) y[1] = 1.f; {FINE} }}",
        f"switch (p[0]) {{ case 1: {FINE} break; default: {COARSE} }}",
        f"int best = 0; for (int i = 0; i < n; ++i) if (x[i] > x[best]) best = i; if (best < 4) {{ {FINE} }}",
    ],
)
def test_what_data_of_another_kind_or_only_a_place_decides_is_no_branch_on_it(body: str) -> None:
    assert sides(run(body)) == set()


def test_code_behind_a_goto_that_is_not_followed_is_read_and_the_goto_is_said() -> None:
    facts = run(f"if (n) {{ goto rest; }} else {{\nrest:\n{FINE} }}")
    assert {product.a for product in facts.products} == {"bf16"}
    assert "a goto" in {reason for reason, _ in facts.unread}


def test_code_that_a_goto_jumps_over_is_not_run() -> None:
    facts = run(f"goto rest;\n{COARSE}\nrest:\n{FINE}")
    assert {product.a for product in facts.products} == {"bf16"}
    assert not facts.unread


SHARED = "__shared__ float held[64]; held[threadIdx.x] = x[threadIdx.x]; __syncthreads(); int* flag = (int*)held;"


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("if (p[0] == n - 1) *flag = 1; else *flag = 0;", set[tuple[frozenset[str], frozenset[str]]]()),
        ("*flag = x[0] > 4.f;", {BOTH}),
    ],
)
def test_an_integer_stored_over_floats_of_shared_memory_is_what_is_read(
    store: str, expected: set[tuple[frozenset[str], frozenset[str]]]
) -> None:
    facts = run(f"{SHARED} {store} __syncthreads(); if (*flag) {{ {FINE} }} else {{ {COARSE} }}")
    assert sides(facts) == expected
