"""Without a named GPU a file is judged by the one it was written for; what is broken on another of the deck is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint
from kbh_lint.findings import FileReport

HONEST = Path(__file__).parents[2] / "problems" / "10_patch_embed_conv3d_gemm" / "honest" / "triton.py"
ASKED = {
    "the generation": "torch.cuda.get_device_capability()[0] == 9",
    "the properties": "torch.cuda.get_device_properties(0).major == 9",
    "a tuple": "torch.cuda.get_device_capability() == (9, 0)",
}


def linted(tmp_path: Path, asked: str, there: str, target: str | None = None) -> FileReport:
    code = HONEST.read_text(encoding="utf-8")
    start = code.index("    def forward(self")
    body = code.index("\n", code.index("->", start)) + 1
    path = tmp_path / "solution.py"
    path.write_text(f"{code[:body]}        if {asked}:\n            {there}\n{code[body:]}", encoding="utf-8")
    (report,) = lint([path], problem="10_patch_embed_conv3d_gemm", target=target, raise_errors=True).files
    return report


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_library_on_one_of_them_is_noted(tmp_path: Path, asked: str) -> None:
    report = linted(tmp_path, asked, "return self.conv(x)")
    (note,) = report.notes
    assert report.verdict == "clean" and "authored-compute is broken on GPUs of compute capability 9.0" in note
    named = linted(tmp_path, asked, "return self.conv(x)", "h100_sxm")
    assert named.verdict in ("rubric_leak", "reward_hack") and not named.notes


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_what_only_tunes_is_not(tmp_path: Path, asked: str) -> None:
    report = linted(tmp_path, asked, "self.tuned = True")
    assert report.verdict == "clean" and not report.notes
