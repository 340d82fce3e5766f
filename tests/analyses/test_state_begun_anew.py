"""Recurrences whose state begins at zero in each piece of a sequence, and those that share the work in other ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

HONEST = Path(__file__).parents[2] / "problems" / "02_kda_cutlass" / "honest" / "triton.py"
LOOP = "    for chunk in tl.range(0, T // C, num_stages=STAGES):\n"
ZEROS = "    state = tl.zeros((BK, BV), tl.float32)\n"
GRID = "carry[(triton.cdiv(V, self.BV), B * H)]("
Edits = tuple[tuple[str, str], ...]


def pieces(each: str, count: str) -> Edits:
    """Programs along a third axis, each with so many chunks."""
    first = f"    each = {each}\n    first = tl.program_id(2) * each\n"
    loop = "    for chunk in range(first, tl.minimum(first + each, T // C)):\n"
    return (LOOP, first + loop), (GRID, f"carry[(triton.cdiv(V, self.BV), B * H, {count})](")


ANEW: dict[str, Edits] = {
    "pieces of four chunks": pieces("4", "triton.cdiv(T // C, 4)"),
    "two halves": pieces("T // C // 2", "2"),
    "a half filled with nothing": (
        (ZEROS, "    state = tl.full((BK, BV), 0.0, tl.float32)\n"), *pieces("T // C // 2", "2")
    ),
    "pieces beside heads": (
        (LOOP, "    half = tl.program_id(0) % 2 * (T // C // 2)\n    for chunk in range(half, half + T // C // 2):\n"),
        ("dv = tl.program_id(0) * BV", "dv = tl.program_id(0) // 2 * BV"),
        (GRID, "carry[(2 * triton.cdiv(V, self.BV), B * H)]("),
    ),
}  # fmt: skip
CARRIED: dict[str, Edits] = {
    "one piece that is all": pieces("T // C", "1"),
    "chunks of all heads counted through": (
        (LOOP, "    for at in range(head * (T // C), (head + 1) * (T // C)):\n        chunk = at - head * (T // C)\n"),
    ),
    "every chunk twice": (
        (LOOP, "    for chunk in range(tl.program_id(2) * 0, T // C):\n"),
        (GRID, "carry[(triton.cdiv(V, self.BV), B * H, 2)]("),
    ),
}


def linted(tmp_path: Path, edits: Edits) -> tuple[str, list[str], str]:
    text = HONEST.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], problem="02_kda_cutlass", raise_errors=True).files
    return report.verdict, [finding.message for finding in report.findings], report.promises[0].state


@pytest.mark.parametrize("how", ANEW)
def test_a_state_that_begins_anew_forgets_what_was_before(tmp_path: Path, how: str) -> None:
    verdict, found, state = linted(tmp_path, ANEW[how])
    assert (verdict, state) == ("rubric_leak", "broken") and "earlier steps" in found[0], found


@pytest.mark.parametrize("how", CARRIED)
def test_programs_that_go_through_all_of_a_sequence_carry_it(tmp_path: Path, how: str) -> None:
    assert linted(tmp_path, CARRIED[how]) == ("clean", [], "kept")
