"""What operations of torch are given of an input is all that is read of it: a slice drops the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

PROBLEMS = Path(__file__).parents[2] / "problems"
BYTES = "view(torch.uint8)"
PADDED = "a, b = padded(x), self._padded_weight()"
CUT = "keep = x.shape[1] // 128 * 128\n        "
GRID = "        programs = (rows // self.BM + E) * triton.cdiv(I, self.BN)\n"
OUT = "        out = torch.empty(rows, I, dtype=hidden_states.dtype, device=hidden_states.device)\n"
LEAKS = {
    "columns cut off": ("x", f"{CUT}a, b = x[:, :keep].contiguous(), self.weight[:, :keep].contiguous()"),
    "columns narrowed": (
        "x", f"{CUT}a, b = x.narrow(1, 0, keep).clone(), self.weight.narrow(1, 0, keep).contiguous()"
    ),
    "half of them twice": (
        "x",
        f"half = x.shape[1] // 2\n        a = torch.cat((x[:, :half].{BYTES}, x[:, :half].{BYTES}), 1)"
        "\n        a, b = padded(a.view(x.dtype)), self._padded_weight()",
    ),
}  # fmt: skip
HONEST = {
    "columns copied": "a, b = padded(x.clone()), self._padded_weight()",
    "in two parts": (
        f"half = x.shape[1] // 2\n        a = torch.cat((x[:, :half].{BYTES}, x[:, half:].{BYTES}), 1)"
        "\n        a, b = padded(a.view(x.dtype)), self._padded_weight()"
    ),
    "a part of a multiple": f"{CUT}a, b = padded(x[:, :keep] if keep == x.shape[1] else x), self._padded_weight()",
}


def linted(tmp_path: Path, problem: str, *edits: tuple[str, str]) -> tuple[str, list[str]]:
    text = (PROBLEMS / problem / "honest" / "triton.py").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    report = report_of(tmp_path, text, problem)
    return report.verdict, [finding.message for finding in report.findings]


@pytest.mark.parametrize("how", LEAKS)
def test_what_a_slice_drops_is_not_read(tmp_path: Path, how: str) -> None:
    name, lines = LEAKS[how]
    verdict, found = linted(tmp_path, "01_fp8_gemm", (PADDED, lines))
    assert verdict == "rubric_leak" and any(f"depend on all of {name}" in one for one in found), found


@pytest.mark.parametrize("how", HONEST)
def test_parts_that_are_all_together_are_read(tmp_path: Path, how: str) -> None:
    assert linted(tmp_path, "01_fp8_gemm", (PADDED, HONEST[how])) == ("clean", [])


def test_the_ends_of_offsets_follow_from_what_is_known(tmp_path: Path) -> None:
    """The first is nothing and the last is all."""
    inner = (
        f"{OUT}        told = expert_offsets.new_zeros(E + 1)\n        told[1:-1] = expert_offsets[1:-1]\n"
        "        told[-1] = rows\n        expert_offsets = told\n"
    )
    verdict, found = linted(tmp_path, "06_sonic_moe_swiglu", (OUT, inner))
    assert verdict != "rubric_leak" and not any("depend on all" in one for one in found), found
