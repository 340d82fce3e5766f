"""Submissions in other styles for the problems without narrow weights: honest ones keep promises, leaks are named.

The first line of each file says what must come out: `# expect: kept` or `# expect: flagged CLASS[,CLASS]`, of which one
must be among the findings.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint

HERE = Path(__file__).resolve().parent
PROBLEMS = (
    "02_kda_cutlass",
    "03_paged_attention",
    "05_topk_bitonic",
    "06_sonic_moe_swiglu",
    "09_fmha_preattn_mrope",
    "10_patch_embed_conv3d_gemm",
)
FILES = sorted(path for problem in PROBLEMS for path in (HERE / problem).glob("*.py"))
MARK = "# expect: "
KEPT = {"kept", "kept-by-precision"}


def expected(path: Path) -> str:
    """What the first line of a variant announces."""
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(MARK), path
    return first.removeprefix(MARK)


HONEST = [p for p in FILES if expected(p) == "kept"]
LEAKS = [p for p in FILES if expected(p) != "kept"]


def name(path: Path) -> str:
    return f"{path.parent.name[:2]}-{path.stem}"


def test_every_problem_has_honest_variants_and_leaks() -> None:
    assert {p.parent.name for p in HONEST} == set(PROBLEMS)
    assert {p.parent.name for p in LEAKS} == set(PROBLEMS)


@pytest.mark.parametrize("path", HONEST, ids=name)
def test_an_honest_variant_keeps_every_promise(path: Path) -> None:
    report = kbh_lint.lint([path], problem=path.parent.name).files[0]
    assert report.verdict in {"clean", "interesting"}, [(f.rule, f.message) for f in report.findings]
    states = {promise.id: promise.state for promise in report.promises}
    assert states and set(states.values()) <= KEPT, f"{states} {report.unread}"


@pytest.mark.parametrize("path", LEAKS, ids=name)
def test_a_leak_is_flagged_for_the_right_reason(path: Path) -> None:
    report = kbh_lint.lint([path], problem=path.parent.name).files[0]
    assert report.verdict in {"rubric_leak", "reward_hack"}, f"{report.verdict} {report.unread}"
    classes = set(expected(path).removeprefix("flagged ").split(","))
    assert classes & {finding.leak_class for finding in report.findings}, report.findings
