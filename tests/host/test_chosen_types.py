"""What a product is built of stays known where C++ chooses its types: by a condition, or by a template's argument."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

PROGRAM = (Path(__file__).parents[1] / "idioms" / "fp8" / "cutlass2.py").read_text(encoding="utf-8")
OPERANDS = PROGRAM[PROGRAM.index("struct Operands {") : PROGRAM.index("using E = ")]
NARROW = OPERANDS
WIDE = (
    NARROW.replace("float_e4m3_t", "bfloat16_t").replace("Sm89", "Sm80").replace("16, 8, 32", "16, 8, 16")
    .replace("return t;", "return t.to(torch::kBFloat16);")
)  # fmt: skip
BOTH = NARROW.replace("Operands", "Narrow") + WIDE.replace("Operands", "Wide")
BY_CONDITION = BOTH + "constexpr int BYTES = sizeof(float);\nusing Operands = CHOICE;\n"
BY_NUMBER = (
    "template <int V> struct Of;\n"
    + NARROW.replace("struct Operands", "template <> struct Of<89>")
    + WIDE.replace("struct Operands", "template <> struct Of<80>")
    + "template <int V> struct Of;\nusing Operands = Of<CHOICE>;\n"
)
VARIANTS = {
    "a condition that holds": (BY_CONDITION, "std::conditional_t<BYTES == 4, Narrow, Wide>", "clean"),
    "one that does not": (BY_CONDITION, "std::conditional_t<BYTES == 8, Narrow, Wide>", "rubric_leak"),
    "the member of a condition": (BY_CONDITION, "std::conditional<BYTES == 8, Wide, Narrow>::type", "clean"),
    "a trait that is only declared": (BY_NUMBER, "89", "clean"),
    "its other specialisation": (BY_NUMBER, "80", "rubric_leak"),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_types_of_a_product_are_those_that_were_chosen(tmp_path: Path, variant: str) -> None:
    operands, choice, verdict = VARIANTS[variant]
    report = report_of(tmp_path, PROGRAM.replace(OPERANDS, operands.replace("CHOICE", choice)), "01_fp8_gemm")
    assert (report.verdict, "sm80-arch-pin" in {finding.leak_class for finding in report.findings}) == (
        verdict, verdict != "clean",
    )  # fmt: skip
