"""A load is no reading: what a kernel loads must reach the result, by value, address, mask, bound or branch.

Each program is the deck's honest kernel with one edit; beside those that ignore what they load stand some that use it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

PROBLEMS = Path(__file__).parents[2] / "problems"
PAGED, RAGGED = "03_paged_attention", "06_sonic_moe_swiglu"
LENGTH = "    length = tl.load(lengths + b)\n"
PAGE = "tl.load(row + here, mask=here < pages, other=0), page)"
OFFSETS = "    stops = tl.load(offsets + expert + 1, mask=expert < E, other=0)\n"
LONGEST = (  # the longest sequence as a number that is known when the kernel is compiled
    ("STAGES: tl.constexpr,\n", "STAGES: tl.constexpr, LONGEST: tl.constexpr,\n"),
    ("STAGES=self.STAGES, num_warps", "STAGES=self.STAGES, LONGEST=self.longest, num_warps"),
    ("        self.heads, self.kv_heads", "        self.longest = seq_len\n        self.heads, self.kv_heads"),
)
EACH = (
    ("x, gate, up, out, offsets, H, I,\n", "x, gate, up, out, offsets, H, I, each,\n"),
    ("expert_offsets, H, I, E=E", "expert_offsets, H, I, rows // E, E=E"),
)
Edits = tuple[tuple[str, str], ...]
IGNORED: dict[str, tuple[str, Edits]] = {
    "lengths that are overwritten": (PAGED, ((LENGTH, f"{LENGTH}    length = pages * PAGE\n"),)),
    "lengths times zero": (PAGED, ((LENGTH, "    length = tl.load(lengths + b) * 0 + pages * PAGE\n"),)),
    "at least the longest": (PAGED, (*LONGEST, (LENGTH, "    length = tl.maximum(tl.load(lengths + b), LONGEST)\n"))),
    "the same by Python's max": (PAGED, (*LONGEST, (LENGTH, "    length = max(tl.load(lengths + b), LONGEST)\n"))),
    "pages that are not looked at": (PAGED, ((f"i, {PAGE}", f"i, here + 0 * {PAGE}"),)),
    "at least and at most the longest": (
        PAGED,
        (*LONGEST, (LENGTH, "    length = tl.minimum(tl.maximum(tl.load(lengths + b), LONGEST), LONGEST)\n")),
    ),
    "the same bounds by a name": (
        PAGED,
        (*LONGEST, (LENGTH, "    known = tl.load(lengths + b)\n    at_most = tl.minimum(known, LONGEST)\n"
                            "    length = tl.maximum(at_most, LONGEST)\n")),
    ),
    "lengths minus themselves": (
        PAGED, ((LENGTH, "    length = tl.load(lengths + b)\n    length = pages * PAGE + (length - length)\n"),)
    ),
    "offsets where they are as assumed": (
        RAGGED, (*EACH, (OFFSETS, f"{OFFSETS}    fixed = expert * each\n    alike = starts == fixed\n"
                                  "    starts = tl.where(alike, starts, fixed)\n    stops = starts + each\n"))
    ),
    "assumed offsets where others come": (
        RAGGED, (*EACH, (OFFSETS, f"{OFFSETS}    fixed = expert * each\n"
                                  "    starts = tl.where(starts != fixed, fixed, starts)\n    stops = starts + each\n"))
    ),
    "offsets that are overwritten": (
        RAGGED, (*EACH, (OFFSETS, f"{OFFSETS}    starts = expert * each\n    stops = starts + each\n"))
    ),
    "offsets that are only asserted": (
        RAGGED,
        (*EACH, (OFFSETS, f"{OFFSETS}    tl.device_assert(stops >= 0)\n    starts = expert * each\n"
                          "    stops = starts + each\n")),
    ),
}  # fmt: skip
USED: dict[str, tuple[str, Edits]] = {
    "at most the longest": (PAGED, (*LONGEST, (LENGTH, "    length = tl.minimum(tl.load(lengths + b), LONGEST)\n"))),
    "at least nothing": (PAGED, ((LENGTH, "    length = tl.maximum(tl.load(lengths + b), 0)\n"),)),
    "a bound of the grid, and a mask": (
        PAGED,
        (*LONGEST, (LENGTH, "    real = tl.load(lengths + b)\n    length = tl.maximum(real, LONGEST)\n"),
         ("keep = positions < last", "keep = positions < tl.minimum(last, real)")),
    ),
    "one where it is zero": (PAGED, ((LENGTH, f"{LENGTH}    length = tl.where(length > 0, length, 1)\n"),)),
    "times one": (PAGED, ((f"i, {PAGE}", f"i, 0 * here + 1 * {PAGE}"),)),
    "within two bounds": (
        PAGED, (*LONGEST, (LENGTH, "    length = tl.minimum(tl.maximum(tl.load(lengths + b), 0), LONGEST)\n"))
    ),
    "others where they are as assumed": (
        RAGGED, (*EACH, (OFFSETS, f"{OFFSETS}    fixed = expert * each\n"
                                  "    starts = tl.where(starts == fixed, fixed, starts)\n"))
    ),
    "offsets by their differences": (
        RAGGED, ((OFFSETS, f"{OFFSETS}    count = stops - starts\n    stops = starts + count\n"),)
    ),
}  # fmt: skip


def linted(tmp_path: Path, problem: str, edits: Edits) -> tuple[str, set[str], set[str]]:
    """(verdict, classes of findings, states of promises)."""
    text = (PROBLEMS / problem / "honest" / "triton.py").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    (report,) = lint([path], problem=problem, raise_errors=True).files
    return report.verdict, {finding.leak_class for finding in report.findings}, {p.state for p in report.promises}


@pytest.mark.parametrize("how", IGNORED)
def test_what_is_loaded_for_nothing_is_not_read(tmp_path: Path, how: str) -> None:
    verdict, found, states = linted(tmp_path, *IGNORED[how])
    assert (verdict, found) == ("rubric_leak", {"input-structure-hardcode"}) and "broken" in states


@pytest.mark.parametrize("how", USED)
def test_what_bounds_masks_or_places_the_work_is_read(tmp_path: Path, how: str) -> None:
    assert linted(tmp_path, *USED[how]) == ("clean", set(), {"kept"})


def test_a_factor_that_is_zero_at_one_shape_says_nothing_of_the_others(tmp_path: Path) -> None:
    edits = (
        *LONGEST,
        ("self.longest = seq_len", "self.longest = 0 if seq_len == 1024 else 1"),
        (LENGTH, "    length = tl.load(lengths + b) * LONGEST + pages * PAGE * (1 - LONGEST)\n"),
    )
    text = (PROBLEMS / PAGED / "honest" / "triton.py").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    (promise,) = lint([path], problem=PAGED, raise_errors=True).files[0].promises
    assert sorted(promise.shapes.values()) == ["broken", "kept", "kept", "kept", "kept"], promise.shapes
