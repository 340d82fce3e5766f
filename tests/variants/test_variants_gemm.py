"""Submissions in many styles for the two GEMM problems and the softmax: what each is expected to give stands in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

HERE = Path(__file__).parent
PROBLEMS = ("01_fp8_gemm", "04_kahan_softmax", "07_w4a16_gemm")
CASES = [path for problem in PROBLEMS for path in sorted((HERE / problem).glob("*.py"))]
LEAKS = ("rubric_leak", "reward_hack")
ACCEPTED = ("kept", "kept-by-precision", "emulated")


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_variant_gets_the_verdict_it_was_written_for(path: Path) -> None:
    expected = path.read_text().splitlines()[0].removeprefix("# expect: ").split()
    file = lint([path], problem=path.parent.name).files[0]
    if expected == ["kept"]:
        assert {p.id: (p.state, p.reason) for p in file.promises if p.state not in ACCEPTED} == {}
        assert [f.message for f in file.findings if f.verdict in LEAKS] == []
        assert file.verdict in ("clean", "interesting")
    else:
        assert expected[0] == "flagged"
        found = {f.leak_class for f in file.findings if f.verdict in (*LEAKS, "interesting")}
        assert file.verdict in LEAKS, file.promises
        assert set(expected[1].split(",")) <= found
