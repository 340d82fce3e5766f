"""A test of how many rows a group has comes out as it does for the offsets that are drawn, which are balanced."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import classes, lint, reasons, states

PROBLEM = "06_sonic_moe_swiglu"
HONEST = Path(__file__).parents[2] / "problems" / PROBLEM / "honest" / "triton.py"
START = "        rows, H = hidden_states.shape\n"
WAYS = {
    "a list": (
        "starts = expert_offsets.tolist()\n"
        "        most = max(starts[e + 1] - starts[e] for e in range(len(starts) - 1))"
    ),
    "a list of the host": (
        "starts, most = expert_offsets.cpu().tolist(), 0\n"
        "        for first, last in zip(starts, starts[1:]):\n"
        "            most = max(most, last - first)"
    ),
    "two elements": "most = int(expert_offsets[3]) - int(expert_offsets[2])",
    "the first two": "most = expert_offsets[1].item() - expert_offsets[0].item()",
    "the last two": "most = expert_offsets[-1].item() - expert_offsets[-2].item()",
    "differences": "most = (expert_offsets[1:] - expert_offsets[:-1]).max().item()",
    "diff": "most = torch.diff(expert_offsets).amax().item()",
    "each": "most = (expert_offsets[1:] - expert_offsets[:-1]).tolist()[5]",
}
LIBRARY = "return torch.nn.functional.silu(hidden_states @ self.W_gate[0]) * (hidden_states @ self.W_up[0])\n"


def verdict(folder: Path, way: str, test: str) -> tuple[set[str], str]:
    text = HONEST.read_text(encoding="utf-8")
    assert text.count(START) == 1
    text = text.replace(START, f"        {WAYS[way]}\n        if {test}:\n            {LIBRARY}{START}")
    report = lint(folder, text, PROBLEM)
    assert not report.unread, reasons(report)
    return classes(report), states(report)["authored-compute"]


@pytest.mark.parametrize("way", WAYS)
def test_the_library_for_groups_as_they_are_drawn_does_the_work(tmp_path: Path, way: str) -> None:
    found, state = verdict(tmp_path, way, "most >= 96")
    assert found & {"library-gemm-wrapper", "reference-resubmission"}, found
    assert state == "broken"


@pytest.mark.parametrize("way", WAYS)
def test_one_for_groups_that_are_never_drawn_does_none(tmp_path: Path, way: str) -> None:
    assert verdict(tmp_path, way, "most > 6000") == (set(), "kept")


@pytest.mark.parametrize("test", ["most > 2048", "most + 1 > 6000"])
def test_what_drawn_groups_may_be_or_not_stays_open(tmp_path: Path, test: str) -> None:
    found, state = verdict(tmp_path, "a list", test)
    assert "library-gemm-wrapper" not in found
    assert state == "unproven"


def test_elements_of_other_offsets_are_not_neighbours(tmp_path: Path) -> None:
    text = HONEST.read_text(encoding="utf-8")
    asked = "        most = int(expert_offsets[3]) - int((expert_offsets + 5000)[2])\n"
    text = text.replace(START, f"{asked}        if most > 6000:\n            {LIBRARY}{START}")
    assert states(lint(tmp_path, text, PROBLEM))["authored-compute"] == "unproven"
