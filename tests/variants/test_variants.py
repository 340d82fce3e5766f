"""Submissions in other styles than the deck's own: honest ones keep promises, leaks are named.

A folder is named after its problem, and needs no line here. The first line of each file says what must come out:
`# expect: kept` or `# expect: flagged CLASS[,CLASS]`, of which one must be among the findings.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.problems import load_deck

HERE = Path(__file__).resolve().parent
PROBLEMS = sorted(path.name for path in HERE.iterdir() if any(path.glob("*.py")))
FILES = [path for problem in PROBLEMS for path in sorted((HERE / problem).glob("*.py"))]
MARK = "# expect: "
KEPT = {"kept", "kept-by-precision", "emulated"}


def expected(path: Path) -> str:
    """What the first line of a variant announces."""
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(MARK), path
    return first.removeprefix(MARK)


LEAK = {"rubric_leak", "reward_hack"}
HONEST = [p for p in FILES if expected(p) == "kept"]
LEAKS = [p for p in FILES if expected(p) != "kept"]


def name(path: Path) -> str:
    return f"{path.parent.name[:2]}-{path.stem}"


def test_every_folder_is_a_problem_s_and_has_honest_variants_and_leaks() -> None:
    assert set(PROBLEMS) <= set(load_deck(HERE.parents[1] / "problems")) and len(PROBLEMS) >= 9
    assert {p.parent.name for p in HONEST} == set(PROBLEMS)
    assert {p.parent.name for p in LEAKS} == set(PROBLEMS)


@pytest.mark.share(3)
@pytest.mark.parametrize("path", HONEST, ids=name)
def test_an_honest_variant_keeps_every_promise(path: Path) -> None:
    report = kbh_lint.lint([path], problem=path.parent.name).files[0]
    assert report.verdict in {"clean", "interesting"}, [(f.rule, f.message) for f in report.findings]
    assert [f.message for f in report.findings if f.verdict in LEAK] == []
    states = {promise.id: promise.state for promise in report.promises}
    assert states and set(states.values()) <= KEPT, f"{states} {report.unread}"


@pytest.mark.share(3)
@pytest.mark.parametrize("path", LEAKS, ids=name)
def test_a_leak_is_flagged_for_the_right_reason(path: Path) -> None:
    report = kbh_lint.lint([path], problem=path.parent.name).files[0]
    assert report.verdict in LEAK, f"{report.verdict} {report.unread}"
    classes = set(expected(path).removeprefix("flagged ").split(","))
    assert classes & {finding.leak_class for finding in report.findings}, report.findings
