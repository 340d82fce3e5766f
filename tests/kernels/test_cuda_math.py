"""Functions of CUDA's math library: what they make of data is that data; functions that are not known stay unread."""

from __future__ import annotations

import pytest
from compensation_cuda_support import kernel_of
from cuda_support import run

from kbh_lint.base.values import Buffer
from kbh_lint.kernels.analyze import analyze

KERNEL = """
__global__ void kernel(const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float first = x[i], second = 0.f;
    BODY
    y[i] = first + second;
}
"""
CALLS = {
    "log1p": "first = log1p(first);",
    "atan2f": "first = atan2f(1.f, first);",
    "erfcinvf": "first = erfcinvf(first);",
    "rnorm3df": "first = rnorm3df(first, 1.f, 2.f);",
    "sincosf": "sincosf(first, &second, &first);",
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_the_math_library_hands_its_data_on(name: str) -> None:
    given = {"x": Buffer("f32", 1, "f32"), "y": Buffer("f32", 2, "f32")}
    facts = analyze(kernel_of(KERNEL.replace("BODY", CALLS[name])), given)
    assert not facts.unread
    assert {origin.param for store in facts.stores for origin in store.origins} == {"x"}


def test_what_sine_and_cosine_are_written_to_comes_from_their_argument() -> None:
    given = {"x": Buffer("f32", 1, "f32"), "y": Buffer("f32", 2, "f32")}
    facts = analyze(kernel_of(KERNEL.replace("BODY", "float c; sincosf(first, &second, &c); first = 0.f;")), given)
    assert {origin.param for store in facts.stores for origin in store.origins} == {"x"}


def test_a_function_of_nobody_is_not_read() -> None:
    given = {"x": Buffer("f32", 1, "f32"), "y": Buffer("f32", 2, "f32")}
    facts = analyze(kernel_of(KERNEL.replace("BODY", "first = log2p(first);")), given)
    assert [reason for reason, _ in facts.unread] == ["a call of log2p"]


@pytest.mark.parametrize(
    "call, read",
    [
        ("__nv_cvt_fp8_to_halfraw(x[0], __NV_E4M3)", True),
        ("__nv_cvt_fp6_to_halfraw(x[0], __NV_E2M3)", False),
    ],
)
def test_a_conversion_whose_name_is_not_known_is_not_read(call: str, read: bool) -> None:
    source = f"__global__ void kernel(const unsigned char* x, float* out) {{ out[0] = __half2float({call}); }}"
    facts = run(source, x=Buffer("u8", 1, "u8"), out=Buffer("f32", 9, "f32"))
    assert (facts.unread == []) is read
