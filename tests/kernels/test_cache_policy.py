"""Requests to keep data in the L2 cache, however a kernel spells them, and whether what they keep is read once."""

from __future__ import annotations

import pytest

from kbh_lint.base.values import Buffer, Func
from kbh_lint.frontends import cuda
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.extents.reuse import read_once

HELPERS = """
__device__ __forceinline__ uint64_t policy() {
  uint64_t p;
  asm volatile("createpolicy.fractional.L2::POLICY.b64 %0, 1.0;" : "=l"(p));
  return p;
}
__device__ __forceinline__ float hinted(const float* a, uint64_t p) {
  float v;
  asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(v) : "l"(a), "l"(p));
  return v;
}
"""
ROW = "int i = blockIdx.x * n + threadIdx.x;\n"
KEPT = {
    "a policy": ROW + "y[i] = hinted(x + i, policy());",
    "a modifier": ROW + 'float v; asm("ld.global.L2::evict_last.f32 %0, [%1];" : "=f"(v) : "l"(x + i)); y[i] = v;',
    "a number": "constexpr uint64_t keep = 0x14F0000000000000ull;\n" + ROW + "y[i] = hinted(x + i, keep);",
    "a register of the text": ROW
    + 'float v; asm("{ .reg .b64 p; createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 p, 0.5;'
    + ' ld.global.L2::cache_hint.f32 %0, [%1], p; }" : "=f"(v) : "l"(x + i)); y[i] = v;',
    "a copy to shared memory": "__shared__ float s[128];\n"
    + ROW
    + "unsigned at = __cvta_generic_to_shared(s + threadIdx.x);\n"
    + 'asm("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], 4, %2;" :: "r"(at), "l"(x + i), "l"(policy()));\n'
    + "y[i] = s[threadIdx.x];",
    "a prefetch": ROW + 'asm("prefetch.global.L2::evict_last [%0];" :: "l"(x + i)); y[i] = x[i];',
    "an annotated pointer": "cuda::annotated_ptr<const float, cuda::access_property::persisting> p{x};\n"
    + ROW
    + "y[i] = p[i];",
    "an associated property": "auto p = cuda::associate_access_property(x, cuda::access_property::persisting{});\n"
    + ROW
    + "y[i] = p[i];",
}
FREE = {
    "another policy": KEPT["a policy"],
    "a number for evict_first": KEPT["a number"].replace("0x14F", "0x12F"),
    "a streaming pointer": KEPT["an annotated pointer"].replace("persisting", "streaming"),
    "a last use": ROW + "y[i] = __ldlu(x + i);",
}


def kernel_of(body: str, policy: str = "evict_last") -> Func:
    text = (
        HELPERS.replace("POLICY", policy) + f"__global__ void kernel(const float* x, float* y, int n) {{\n{body}\n}}\n"
    )
    found: Func = cuda.module_env(cuda.lower(text, cuda.lines_origin(text, "kernel.cu"))).vars["kernel"].funcs[0]
    return found


def kept(kernel: Func) -> set[str]:
    facts = analyze(kernel, {"x": Buffer("f32", 1, "f32"), "y": Buffer("f32", 2, "f32")})
    assert facts.unread == []
    assert {load.param for load in facts.loads} == {"x"}
    return {hint.param for hint in facts.hints}


@pytest.mark.parametrize("how", KEPT)
def test_a_request_to_keep_data_is_seen(how: str) -> None:
    assert kept(kernel_of(KEPT[how])) == {"x"}


@pytest.mark.parametrize("how", FREE)
def test_other_policies_keep_nothing(how: str) -> None:
    assert kept(kernel_of(FREE[how], "evict_first")) == set()


@pytest.mark.parametrize(
    ("body", "once"),
    [
        (KEPT["a policy"], True),
        (ROW + "y[i] = hinted(x + threadIdx.x, policy());", False),
        (ROW + "for (int k = 0; k < 4; ++k) y[i] += hinted(x + i, policy());", False),
        (ROW + "for (int k = 0; k < 4; ++k) y[i] += hinted(x + i * 4 + k, policy());", True),
        (ROW + "y[i] = hinted(x + i, policy()) + hinted(x + 2 * i, policy());", None),
    ],
)
def test_a_read_in_a_function_is_judged_where_it_is_called(body: str, once: bool | None) -> None:
    kernel = kernel_of(body)
    facts = analyze(kernel, {"x": Buffer("f32", 1, "f32"), "y": Buffer("f32", 2, "f32")})
    (place,) = {load.loc for load in facts.loads if load.param == "x"}
    assert read_once(kernel.node, place, kernel.env) is once
