"""What machine code settles for or against a promise, from censuses made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from grader.deck.code import problems_dir
from grader.silicon.machine_code import Kernel, MachineCode
from grader.silicon.promises import Ran, settle
from grader.silicon.sass.census import Census
from grader.silicon.sass.products import Product
from kbh_lint.problems import Promise, load_problem

E4M3, BF16, F16 = (
    Product("QGMMA", "64x64x32", "e4m3", "e4m3", "f32"), Product("HGMMA", "64x64x16", "bf16", "bf16", "f32"),
    Product("HMMA", "16816", "f16", "f16", "f32"),
)  # fmt: skip


def promise(problem: str, kind: str) -> Promise:
    deck = load_problem(problems_dir() / problem / "problem.yaml")
    return next(each for each in deck.promises if each.kind == kind)


FP8, INT4 = promise("01_fp8_gemm", "fp8-products"), promise("07_w4a16_gemm", "int4-packed")
KAHAN, AUTHORED = promise("04_kahan_softmax", "compensated-sum"), promise("07_w4a16_gemm", "authored-compute")


def made(matrix: dict[Product, int] | None = None, opcodes: dict[str, int] | None = None, **more: Any) -> Census:
    return Census("kernel", "sm_90a", True, opcodes or {}, matrix or {}, more.pop("conversions", {}), **more)


UNPACK = {("e4m3", "f16"): 16}
CALLS = [
    (FP8, "kept", [made({E4M3: 8})], "kept"),
    (FP8, "kept", [made({E4M3: 8}), made()], "kept"),
    (FP8, "kept", [made({BF16: 8}, conversions=UNPACK)], "broken"),
    (FP8, "kept", [made({F16: 8}, conversions=UNPACK)], "emulated"),
    (FP8, "unproven", [made({F16: 8}, conversions=UNPACK)], "broken"),
    (FP8, "kept", [made({F16: 8})], "broken"),
    (FP8, "kept", [made({E4M3: 8, BF16: 2})], "unproven"),
    (FP8, "kept", [made({E4M3: 8}), made({BF16: 2})], "unproven"),
    (FP8, "kept", [made(opcodes={"FFMA": 64})], "broken"),
    (FP8, "kept", [made(indirect_calls=1)], "unproven"),
    (FP8, "kept", [made({Product("UTCQMMA", "", "f8f6f4", "f8f6f4", ""): 4})], "kept"),
    (INT4, "kept", [made({BF16: 8}, nibbles=16)], "kept"),
    (INT4, "kept", [made({BF16: 8}, {"I2FP": 64}, small_masks=16)], "kept"),
    (INT4, "kept", [made({BF16: 8}, small_masks=16, exponents=16)], "kept"),
    (INT4, "kept", [made({BF16: 8}, exponents=16)], "broken"),
    (INT4, "kept", [made({BF16: 8})], "broken"),
    (INT4, "kept", [made(nibbles=32), made({BF16: 8})], "broken"),
    (INT4, "kept", [made(opcodes={"FFMA": 64}, nibbles=16)], "kept"),
    (INT4, "kept", [made(opcodes={"FADD": 64})], "unproven"),
    (KAHAN, "kept", [made(residuals=4), made()], "kept"),
    (KAHAN, "kept", [made(opcodes={"DADD": 4})], "kept-by-precision"),
    (KAHAN, "kept", [made(opcodes={"FADD": 64})], "unproven"),
    (KAHAN, "unproven", [made(opcodes={"FADD": 64})], "broken"),
    (KAHAN, "broken", [made(opcodes={"FADD": 64})], "broken"),
    (AUTHORED, "kept", [made({BF16: 8})], "kept"),
    (AUTHORED, "kept", [made(opcodes={"FADD": 64})], "broken"),
]  # fmt: skip


@pytest.mark.parametrize(("promised", "source", "kernels", "state"), CALLS)
def test_machine_code_settles_a_promise(promised: Promise, source: Any, kernels: list[Census], state: str) -> None:
    found = settle(promised, source, [Ran(f"kernel{n}", (one,)) for n, one in enumerate(kernels)])
    assert found is not None and found.state == state
    assert found.reason and "\n" not in found.reason


@pytest.mark.parametrize("one", [made({BF16: 8}, nibbles=1), made({BF16: 8}, small_masks=16, exponents=3)])
def test_code_that_may_take_four_bit_fields_says_nothing(one: Census) -> None:
    assert settle(INT4, "kept", [Ran("mine", (one,))]) is None
    plain = settle(INT4, "kept", [Ran("mine", (one,)), Ran("other", (made({BF16: 8}),))])
    assert plain is not None and plain.state == "broken"


@pytest.mark.parametrize("promised", [FP8, INT4, KAHAN])
def test_a_kernel_without_code_leaves_a_promise_unproven(promised: Promise) -> None:
    good = made({E4M3: 8} if promised is FP8 else {BF16: 8}, nibbles=16)
    found = settle(promised, "kept", [Ran("mine", (good,)), Ran("hidden", ())])
    assert found is not None and found.state == "unproven" and "hidden" in found.reason


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE", "kept"),
        (
            "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c26CatArrayBatchedCopy_vectorizedI",
            "kept",
        ),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", "unproven"),
    ],
)
def test_fills_and_copies_by_torch_do_not(name: str, state: str) -> None:
    found = settle(FP8, "kept", [Ran(name, (), "torch"), Ran("mine", (made({E4M3: 8}),))])
    assert found is not None and found.state == state


def test_other_promises_and_an_empty_call_are_not_settled_by_machine_code() -> None:
    assert settle(promise("05_topk_bitonic", "authored-selection"), "kept", [Ran("mine", (made(),))]) is None
    found = settle(FP8, "kept", [])
    assert found is not None and found.state == "unproven"


def test_a_launch_that_fits_no_description_may_be_any_of_them() -> None:
    kernels = tuple(Kernel(made(), "x.cubin", "0" * 64, threads, 1024) for threads in (128, 256))
    code = MachineCode(kernels, (), "13.1")
    assert code.find("kernel", threads=128) == kernels[:1]
    assert code.find("kernel", threads=512) == kernels
    assert code.find("other") == ()
