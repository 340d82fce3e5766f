"""A leak on one side of a branch that the code does not decide: no promise is then shown kept, whatever the rule."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.findings import FileReport

IDIOMS = Path(__file__).parents[1] / "idioms" / "fp8"
START = "        rows, depth = x.shape\n"
EMPTY = "torch.empty((rows, self.weight.shape[0]), device=x.device, dtype=torch.bfloat16)"
SIDE = "self.side = torch.cuda.Stream()\n    with torch.cuda.stream(self.side):\n        return self.forward_on(x)"
FOUND = "import os\nFOUND = os.path.isfile('third_party/cutlass/include/cutlass/cutlass.h')\n"
CUTLASS = (IDIOMS / "cutlass3.py").read_text(encoding="utf-8")


def lint(folder: Path, lines: str, more: str = "") -> FileReport:
    """The honest kernel with lines at the start of forward, and text before the class."""
    text = (IDIOMS / "triton_dot.py").read_text(encoding="utf-8")
    body = text[text.index(START) : text.index("\n\ndef get_inputs")]
    assert text.count(START) == 1
    indented = "".join(f"        {line}\n" for line in lines.splitlines())
    text = text.replace(START, START + indented).replace("class Model", f"{FOUND}{more}\n\nclass Model")
    if "forward_on" in lines:
        text = text.replace("\n\ndef get_inputs", f"\n    def forward_on(self, x):\n{body}\n\ndef get_inputs")
    path = folder / "solution.py"
    path.write_text(text, encoding="utf-8")
    return kbh_lint.lint([path], problem="01_fp8_gemm", raise_errors=True).files[0]


@pytest.mark.parametrize(
    "leak", [f"return {EMPTY}", SIDE, "x.zero_()"], ids=["nothing is written", "not waited for", "the input is lost"]
)
@pytest.mark.parametrize("test", ["FOUND", "not FOUND"])
def test_a_leak_on_one_side_leaves_promises_open(tmp_path: Path, test: str, leak: str) -> None:
    report = lint(tmp_path, f"if {test}:\n    {leak}")
    assert {promise.state for promise in report.promises} == {"unproven"} and report.verdict == "unproven"
    assert all("on a branch that the code alone does not decide" in promise.reason for promise in report.promises)


@pytest.mark.parametrize("test", ["FOUND", "not FOUND"])
def test_another_way_that_is_honest_too_does_not(tmp_path: Path, test: str) -> None:
    waited = SIDE.replace("return self.forward_on(x)", "y = self.forward_on(x)")
    waited += "\n    torch.cuda.current_stream().wait_stream(self.side)\n    return y"
    assert lint(tmp_path, f"if {test}:\n    {waited}").verdict == "clean"


@pytest.mark.parametrize(("arch", "verdict"), [("Sm90", "clean"), ("Sm80", "unproven")])
def test_a_product_for_another_architecture_is_none_in_fp8(tmp_path: Path, arch: str, verdict: str) -> None:
    source = CUTLASS[CUTLASS.index("CUDA_SRC = ") : CUTLASS.index("class Model")].replace("arch::Sm90", f"arch::{arch}")
    head = "from pathlib import Path\nfrom torch.utils.cpp_extension import load_inline\nCUTLASS = Path('cutlass')\n"
    more = f"{head}{source}EXT = build() if FOUND else None\n"
    call = "return EXT.fp8_gemm(pad_to_16(x), pad_to_16(self.weight), self.weight_scale)"
    report = lint(tmp_path, f"if EXT is not None:\n    {call}", more)
    assert report.verdict == verdict, [(promise.state, promise.reason) for promise in report.promises]
