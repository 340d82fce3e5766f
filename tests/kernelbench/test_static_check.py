"""The drop-in for KernelBench's static check: its signature, and answers on what a program does."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path

import pytest

from kbh_lint import UsageError
from kbh_lint.base import paths
from kbh_lint.compat.kernelbench import validate_kernel_static
from kbh_lint.rules import KERNELBENCH_CHECKS, load_rules

PROBLEM = Path(__file__).parent / "problems" / "1_row_products.py"
HEAD = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"
KERNEL = (
    HEAD
    + """@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * K + depth[None, :], mask=(rows < M)[:, None] & (depth < K)[None, :], other=0.0)
        y = tl.load(b + depth[:, None] * N + cols[None, :], mask=(depth < K)[:, None] & (cols < N)[None, :], other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + cols[None, :], total, mask=(rows < M)[:, None] & (cols < N)[None, :])


class ModelNew(nn.Module):
    def forward(self, A, B):
        try:  # words of a text that decide nothing
            pass
        except ValueError:
            pass
        (M, K), N = A.shape, B.shape[1]
        C = torch.empty(M, N, device=A.device, dtype=A.dtype)
        product[(triton.cdiv(M, 64), triton.cdiv(N, 64))](A, B, C, M, N, K, 64, 64, 32)
        return C
"""
)
WRAPPER = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, A, B):\n        return A @ B\n"


def test_the_signature_is_theirs_with_keywords_after_it() -> None:
    parameters = inspect.signature(validate_kernel_static).parameters
    own = [name for name, p in parameters.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert own == ["code", "backend", "precision", "forbidden", "warnings"]
    assert [parameters[name].default for name in own[1:]] == ["cuda", "fp16", None, None]


def test_every_check_is_named_by_a_rule_and_rules_of_a_class_name_the_same() -> None:
    rules = load_rules(paths.rules_dir(), examples=False)
    assert {check for rule in rules for check in rule.kernelbench} == set(KERNELBENCH_CHECKS)
    of_class: dict[str, set[str]] = {}
    for rule in rules:
        of_class.setdefault(rule.leak_class, set()).update(rule.kernelbench)
    assert [rule.id for rule in rules if set(rule.kernelbench) != of_class[rule.leak_class]] == []


def test_a_kernel_is_valid_in_its_own_backend_only() -> None:
    assert validate_kernel_static(KERNEL, "triton", "fp32", reference=PROBLEM) == (True, [], [])
    valid, errors, _ = validate_kernel_static(KERNEL, "cuda", "fp32", reference=PROBLEM)
    assert not valid and errors == ["no cuda kernel takes part in the result; it comes from kernels in triton"]


def test_a_wrapper_is_not_valid_whatever_the_text_of_its_problem_is_called() -> None:
    for reference in (PROBLEM, PROBLEM.read_text()):
        valid, errors, _ = validate_kernel_static(WRAPPER, "triton", "fp32", reference=reference)
        assert not valid and any("KBH110" in error and error.startswith("line ") for error in errors)


def test_checks_that_are_named_are_the_only_ones_that_count() -> None:
    check = partial(validate_kernel_static, WRAPPER, "triton", "fp32", reference=PROBLEM)
    assert check(forbidden=["lazy_eval", "unheard_of"], warnings=[]) == (True, [], [])
    valid, errors, milder = check(forbidden=["KBH110"], warnings=["code_bypass"])
    assert not valid and len(errors) == 1 and "KBH110" in errors[0]
    assert milder and all("KBH11" in text and "KBH110" not in text for text in milder)


def test_without_a_reference_the_answer_says_what_it_does_not_know() -> None:
    valid, errors, milder = validate_kernel_static(KERNEL, "triton")
    assert (
        valid
        and not errors
        and milder == ["no reference was given, so that it was not followed what the kernel computes"]
    )


def test_a_text_that_is_no_program_is_not_valid() -> None:
    for code in ("", "\0", "def f(:\n"):
        valid, errors, _ = validate_kernel_static(code, "triton")
        assert not valid and errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "opencl"}, "no backend 'opencl'"),
        ({"precision": "int1"}, "no precision 'int1'"),
        ({"profile": "v9"}, "no profile 'v9'"),
        ({"reference": "lost.py"}, "lost.py: is not a file"),
    ],
)
def test_what_is_not_known_is_told(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        validate_kernel_static(WRAPPER, **options)  # type: ignore[arg-type]
