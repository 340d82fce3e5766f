"""Totals that kernels of TileLang keep in tiles of 16 bits from round to round, or only there in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

GEMM = Path(__file__).parents[1] / "variants" / "01_fp8_gemm" / "tilelang_gemm.py"
MULTIPLIED = "                T.gemm(sa, sb, acc, transpose_B=True)\n"
MADE = '            out = T.alloc_shared((bm, bn), "bfloat16")\n'
KEPT = MADE + '            kept = T.alloc_shared((bm, bn), "KIND")\n            T.clear(kept)\n'
EACH = "                for i, j in T.Parallel(bm, bn):\n"
LAST = "            T.copy(acc, out)\n"
ROUNDS = {
    "copied": f"                T.copy(kept, acc)\n{MULTIPLIED}                T.copy(acc, kept)\n",
    "added": "                T.clear(acc)\n"
    + MULTIPLIED
    + EACH
    + "                    kept[i, j] = kept[i, j] + acc[i, j]\n",
}
NONE = {
    "begun anew": "                T.clear(acc)\n" + MULTIPLIED + "                T.copy(acc, kept)\n"
    + EACH + "                    kept[i, j] = kept[i, j] + acc[i, j]\n",
    "a copy of it": MULTIPLIED + "                T.copy(acc, kept)\n",
}  # fmt: skip


def rules_of(tmp_path: Path, kind: str, step: str) -> set[str]:
    text = GEMM.read_text(encoding="utf-8").replace("# expect: kept", "# kbh: problem=01_fp8_gemm")
    for old, new in ((MADE, KEPT.replace("KIND", kind)), (MULTIPLIED, step), (LAST, "            T.copy(kept, out)\n")):
        assert old in text
        text = text.replace(old, new)
    return {f.rule for f in report_of(tmp_path, text).findings if "accumulators" in f.message}


@pytest.mark.parametrize("way", ROUNDS)
def test_a_tile_that_is_added_to_in_each_round(tmp_path: Path, way: str) -> None:
    assert rules_of(tmp_path, "bfloat16", ROUNDS[way]) == {"KBH403"}
    assert rules_of(tmp_path, "float32", ROUNDS[way]) == set()


@pytest.mark.parametrize("way", NONE)
def test_a_tile_that_is_written_anew_in_each_round(tmp_path: Path, way: str) -> None:
    assert rules_of(tmp_path, "bfloat16", NONE[way]) == set()
