"""Tests on a launch's arguments: kept as expressions, they say for which others the facts hold."""

from __future__ import annotations

from typing import Any

import pytest

from kbh_lint.base.values import Buffer, Func, Scalar
from kbh_lint.frontends import cuda
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts

KERNEL = """
__global__ void kernel(const float* x, float* out, int n, unsigned int m, int step) {
    int rounds = n / step;
    if (rounds > 2) out[0] = x[1];
    if (-m < 5) out[1] = x[0];
    for (int i = 0; i < rounds; i++) out[i] += x[i * step];
}
"""


def launch(n: Any, m: Any, step: Any) -> tuple[Func, dict[str, Any], KernelFacts]:
    module = cuda.lower(KERNEL, cuda.lines_origin("kernel.cu", KERNEL))
    kernel = cuda.module_env(module).vars["kernel"].funcs[0]
    memory = {"x": Buffer("f32", 1, "f32"), "out": Buffer("f32", 2, "f32")}
    args = {**memory, "n": n, "m": m, "step": step}
    return kernel, args, analyze(kernel, args)


def whole(n: int) -> Scalar:
    return Scalar(n, "i32")


@pytest.mark.parametrize(
    ("n", "m", "step", "same"),
    [
        pytest.param(1024, 1, 16, True, id="other numbers, all tests alike"),
        pytest.param(40, 1, 16, False, id="two rounds are not more than two"),
        pytest.param(8, 1, 16, False, id="no round at all"),
        pytest.param(1024, (1 << 32) - 1, 16, False, id="an unsigned number is negated as one"),
        pytest.param(1024, 1, 0, False, id="what comes to no number"),
    ],
)
def test_facts_hold_where_all_tests_come_out_alike(n: int, m: int, step: int, same: bool) -> None:
    kernel, known, facts = launch(whole(512), Scalar(1, "u32"), whole(32))
    args = {**known, "n": whole(n), "m": Scalar(m, "u32"), "step": whole(step)}
    assert not facts.decided & {"n", "m", "step"} and facts.tests.names == {"n", "m", "step"}
    assert facts.tests.hold(kernel.node.loc, args, known) is same
    if same:
        assert analyze(kernel, args).stores == facts.stores


def test_a_number_of_another_type_is_another() -> None:
    kernel, known, facts = launch(whole(512), Scalar(1, "u32"), whole(32))
    assert not facts.tests.hold(kernel.node.loc, {**known, "n": Scalar(512, "i64")}, known)
    assert not facts.tests.hold(kernel.node.loc, {**known, "n": 512}, known)


def test_a_number_that_no_operator_made_counts_with_its_arguments() -> None:
    """`min` is a function: it is not kept how it was made."""
    text = KERNEL.replace("n / step", "min(n, step)")
    module = cuda.lower(text, cuda.lines_origin("kernel.cu", text))
    kernel = cuda.module_env(module).vars["kernel"].funcs[0]
    memory = {"x": Buffer("f32", 1, "f32"), "out": Buffer("f32", 2, "f32")}
    facts = analyze(kernel, {**memory, "n": whole(512), "m": Scalar(1, "u32"), "step": whole(32)})
    assert not facts.tests.names & {"n", "step"}
