"""Products whose tiles are walked in bands: what their loads reach is known, also where a function says which tile."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

HONEST = Path(__file__).parents[2] / "problems" / "01_fp8_gemm" / "honest" / "triton.py"
LOOP = "for _ in range(0, depth, BLOCK_K):"
SHORT = "for _ in range(0, depth - BLOCK_K, BLOCK_K):"
ORDER = """    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first = tile // (GROUP * tiles_n) * GROUP
    band = min(tiles_m - first, GROUP)
"""
ROWS = "(first + tile % (GROUP * tiles_n) % band)"
COLUMNS = "tile % (GROUP * tiles_n) // band"
FUNCTION = f'''@triton.jit
def order(tile, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Which tile."""
{ORDER}    return {ROWS}, {COLUMNS}


@triton.jit
def fp8_gemm('''
ONE = """@triton.jit
def place(tile, BLOCK: tl.constexpr):
    return tile * BLOCK + tl.arange(0, BLOCK)


@triton.jit
def fp8_gemm("""
Edits = tuple[tuple[str, str], ...]
WRAPPED: Edits = (
    ("x_tile = x + rows[:, None]", "x_tile = x + (rows % M)[:, None]"),
    ("w_tile = weight + columns[None, :]", "w_tile = weight + (columns % N)[None, :]"),
    ("tl.load(x_tile, mask=rows[:, None] < M, other=0.0)", "tl.load(x_tile)"),
    ("tl.load(w_tile, mask=columns[None, :] < N, other=0.0)", "tl.load(w_tile)"),
)
IN_A_FUNCTION: Edits = (
    (ORDER, "    row, column = order(tile, M, N, BLOCK_M, BLOCK_N, GROUP)\n"),
    (ROWS, "row"),
    (COLUMNS, "column"),
    ("@triton.jit\ndef fp8_gemm(", FUNCTION),
)
PLACED: Edits = (
    (f"{ROWS} * BLOCK_M + tl.arange(0, BLOCK_M)", f"place({ROWS}, BLOCK=BLOCK_M)"),
    (f"{COLUMNS} * BLOCK_N + tl.arange(0, BLOCK_N)", f"place({COLUMNS}, BLOCK_N)"),
    ("@triton.jit\ndef fp8_gemm(", ONE),
)
WAYS: dict[str, Edits] = {
    "in the kernel": (),
    "rows that wrap": WRAPPED,
    "in a function": IN_A_FUNCTION,
    "in a function, rows that wrap": (*IN_A_FUNCTION, *WRAPPED),
    "places in a function": (*PLACED, *WRAPPED),
}


def linted(tmp_path: Path, edits: Edits) -> tuple[str, list[str]]:
    text = HONEST.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    report = report_of(tmp_path, text, "01_fp8_gemm")
    return report.verdict, [finding.message for finding in report.findings]


@pytest.mark.parametrize("how", WAYS)
def test_a_last_block_that_is_left_out_is_told(tmp_path: Path, how: str) -> None:
    verdict, found = linted(tmp_path, (*WAYS[how], (LOOP, SHORT)))
    assert verdict == "rubric_leak" and any("depend on all of" in one for one in found), found


@pytest.mark.parametrize("how", WAYS)
def test_all_blocks_are_read(tmp_path: Path, how: str) -> None:
    assert linted(tmp_path, WAYS[how]) == ("clean", [])
