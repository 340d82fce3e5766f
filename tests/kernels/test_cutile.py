"""cuTile kernels: other spellings of one product, what is read by an index, and what is not read and said so."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint
from kbh_lint.base import ir, values
from kbh_lint.findings import FileReport
from kbh_lint.frontends import python
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts

GEMM = (Path(__file__).parents[1] / "variants/01_fp8_gemm/cutile_gemm.py").read_text(encoding="utf-8")
MMA = "acc = ct.mma(a, ct.transpose(b), acc)"
LOAD = "a = ct.load(x, index=(m, k), shape=(TM, TK), padding_mode=ct.PaddingMode.ZERO)"
STORE = "ct.store(y, index=(m, n), tile=rescaled(acc, scale, n, TN).astype(y.dtype))"
LAUNCH = "ct.launch(torch.cuda.current_stream(), grid, gemm, (x, self.weight, self.weight_scale, y, tm, 128, 128))"
KEPT = {
    "an operator": (MMA, "acc = acc + a @ ct.permute(b, (1, 0))"),
    "a product by itself": (MMA, "acc = ct.add(acc, ct.matmul(a, b.transpose()))"),
    "a view of tiles": (LOAD, "a = x.tiled_view((TM, TK)).load((m, k))"),
    "elements by their places": (
        LOAD,
        "rows = m * TM + ct.arange(TM, dtype=ct.int32)\n        at = k * TK + ct.arange(TK, dtype=ct.int32)\n"
        "        a = ct.gather(x, (rows[:, None], at[None, :]), padding_value=0)",
    ),
    "places that are written": (
        STORE,
        "rows = m * TM + ct.arange(TM, dtype=ct.int32)\n    at = n * TN + ct.arange(TN, dtype=ct.int32)\n"
        "    ct.scatter(y, (rows[:, None], at[None, :]), rescaled(acc, scale, n, TN).astype(y.dtype))",
    ),
    "a decorator without brackets": ("@ct.kernel(occupancy=2)", "@ct.kernel"),
}
LEAKS = {
    "elements that are widened": (MMA, "acc = ct.mma(a.astype(ct.float16), ct.transpose(b).astype(ct.float16), acc)"),
    "an operator on wider tiles": (MMA, "acc += ct.astype(a, ct.bfloat16) @ ct.astype(b, ct.bfloat16).transpose()"),
}  # fmt: skip
UNREAD = {
    "an operation that is not known": (MMA, "acc = ct.unheard_of(a, b, acc)"),
    "a search of the fastest": (LAUNCH, LAUNCH.replace("ct.launch(", "ct.tune.exhaustive_search(")),
    "arguments too many": (LAUNCH, LAUNCH.replace("128))", "128, 1))")),
}


def linted(tmp_path: Path, old: str, new: str) -> FileReport:
    assert old in GEMM, old
    path = tmp_path / "solution.py"
    path.write_text(GEMM.replace(old, new), encoding="utf-8")
    return lint([path], problem="01_fp8_gemm", raise_errors=True).files[0]


@pytest.mark.parametrize("how", KEPT)
def test_one_product_in_other_words_is_kept(tmp_path: Path, how: str) -> None:
    report = linted(tmp_path, *KEPT[how])
    assert (report.verdict, {p.state for p in report.promises}) == ("clean", {"kept"}), report.promises


@pytest.mark.parametrize("how", LEAKS)
def test_operands_that_are_widened_first_are_told(tmp_path: Path, how: str) -> None:
    report = linted(tmp_path, *LEAKS[how])
    assert (report.verdict, report.findings[0].rule) == ("rubric_leak", "KBH101"), report.promises


@pytest.mark.parametrize("how", UNREAD)
def test_what_is_not_read_is_not_called_clean(tmp_path: Path, how: str) -> None:
    report = linted(tmp_path, *UNREAD[how])
    assert report.verdict == "unproven" and not report.findings, report.findings


def test_the_bindings_of_the_driver_are_no_language(tmp_path: Path) -> None:
    report = linted(tmp_path, "import cuda.tile as ct", "import cuda.tile as ct\nfrom cuda.bindings import driver")
    assert report.verdict == "clean", report.promises


WIDE = "y.copy_(torch.matmul(x.float(), self.weight.float().t()))"


@pytest.mark.parametrize(("text", "verdict"), [((WIDE, LAUNCH), "clean"), ((LAUNCH, WIDE), "reward_hack")])
def test_tiles_that_are_stored_by_an_index_may_cover_an_array(
    tmp_path: Path, text: tuple[str, str], verdict: str
) -> None:
    """An index counts tiles: the first one is no first element, and what was there before is not taken to stay."""
    assert linted(tmp_path, LAUNCH, "\n        ".join(text)).verdict == verdict


PRODUCT = """
def kernel(x, w, y, n, TM, TN):
    a = ct.load(x, index=(ct.bid(0), 0), shape=(TM, 64))
    b = ct.load(w, index=(0, ct.bid(1)), shape=(64, TN))
    ct.store(y, index=(ct.bid(0), ct.bid(1)), tile=ct.matmul(a, b).astype(y.dtype))
"""


def product(tall: int) -> KernelFacts:
    (node,) = (s for s in python.lower(PRODUCT, "kernel.py").body if isinstance(s, ir.FuncDef))
    func = values.Func(node, values.Env({"ct": values.Sym("cuda.tile")}), language="cutile")
    buffers = {name: values.Buffer("bf16", at, "bf16") for at, name in enumerate(("x", "w", "y"), 1)}
    return analyze(func, {**buffers, "n": values.Scalar(7), "TM": tall, "TN": 128})


def test_the_rows_of_a_product_are_those_of_its_tile_which_has_decided() -> None:
    """So a launch with tiles of another height is analysed for itself; other numbers give the same facts."""
    for tall in (32, 64):
        facts = product(tall)
        assert [p.rows for p in facts.products] == [tall], facts.unread
        assert facts.decided & {"TM", "TN", "n"} == {"TM"}
