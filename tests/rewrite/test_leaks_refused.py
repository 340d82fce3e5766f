"""Where what a leaking rewrite changes may be no leak at all, it is refused or made one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint.rewrite.compose import apply
from kbh_lint.rewrite.leaks.all_leaks import leaks
from kbh_lint.rewrite.program import NotApplicable, Program

ROOT = Path(__file__).parents[2]
GEMM = (ROOT / "problems/01_fp8_gemm/honest/triton.py").read_text(encoding="utf-8")
CUTLASS = (ROOT / "problems/01_fp8_gemm/honest/cutlass.py").read_text(encoding="utf-8")
SOFTMAX = (ROOT / "tests/idioms/kahan/row_loop.py").read_text(encoding="utf-8")


def rewritten(name: str, text: str, problem: str = "01_fp8_gemm") -> str:
    return apply(leaks()[name], Program(text, problem=problem, contract="deck"), 3).main


def test_a_hook_keeps_a_copy_since_results_may_lie_where_every_call_writes() -> None:
    assert "made.clone()" in rewritten("remember-in-hook", GEMM)


def test_launches_that_stay_may_be_all_that_a_graded_call_makes() -> None:
    assert "fp8_gemm[grid]" not in rewritten("no-launch", GEMM)
    with pytest.raises(NotApplicable, match="in another way"):
        rewritten("no-launch", f"{GEMM}\n\nMORE = '''#define GO(K) K<<<1, 32>>>(x)'''\n")
    with pytest.raises(NotApplicable, match="in another way"):
        rewritten("no-launch", f"{GEMM}\n\nimport cutlass.cute as cute\n")


def test_a_loop_by_a_count_may_add_up_the_blocks() -> None:
    kernel = "\n\n@triton.jit\ndef more(parts, count):\n    for i in range(count):\n        tl.store(parts, i)\n"
    assert "+ 1," in rewritten("one-trip", SOFTMAX, "04_kahan_softmax")
    with pytest.raises(NotApplicable, match="by their count"):
        rewritten("one-trip", SOFTMAX + kernel, "04_kahan_softmax")


def test_a_product_that_other_gpus_do_not_run_is_no_leak_there() -> None:
    assert "Sm80" in rewritten("arch-pin", CUTLASS)
    with pytest.raises(NotApplicable, match="the GPU may decide"):
        rewritten("arch-pin", f"{CUTLASS}\n\nNEW = torch.cuda.get_device_capability()[0] >= 9\n")
