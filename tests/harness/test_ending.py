"""How a run ended: each row of the table with the evidence that makes it, and its neighbours that must not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.running.ending import Evidence, decide, table
from harness.running.request import RunError, RunRequest, duration

WORKED = Evidence(reason="exit", calls=5, good_calls=5, last="ok", solution=True, graded="accepted")
ROWS = {
    "a score": (WORKED, "PASS", "agent-stop", False),
    "a score at the end of the budget": (replace(WORKED, reason="budget", last="gone"), "PASS", "budget", False),
    "a score though the provider failed at the end": (
        replace(WORKED, last="rate", faults=("rate",)), "PASS", "provider-rate", False,
    ),
    "wrong": (replace(WORKED, graded="wrong", said="a case is wrong"), "FAIL", "agent-stop", False),
    "withheld": (replace(WORKED, graded="withheld", said="a promise is broken"), "FAIL", "agent-stop", False),
    "wrong at the end of the budget": (replace(WORKED, reason="budget", graded="wrong"), "FAIL", "budget", False),
    "no solution": (replace(WORKED, solution=False, graded=""), "FAIL", "agent-stop", False),
    "no solution when the budget was over": (
        replace(WORKED, reason="budget", solution=False, graded=""), "FAIL", "budget", False,
    ),
    "a cap": (replace(WORKED, reason="limit", solution=False, graded=""), "FAIL", "limit", False),
    "no key": (Evidence(calls=2, last="auth", faults=("auth", "auth")), "ERR", "provider-auth", False),
    "no credit": (Evidence(calls=1, last="credit", faults=("credit",)), "ERR", "provider-credit", True),
    "rate": (Evidence(calls=9, last="rate", faults=("rate",) * 9, reason="budget"), "ERR", "provider-rate", True),
    "down": (Evidence(calls=3, last="unavailable", faults=("unavailable",)), "ERR", "provider-unavailable", True),
    "silent": (Evidence(calls=1, last="timeout", faults=("timeout",)), "ERR", "provider-unavailable", True),
    "cut": (Evidence(calls=4, good_calls=1, last="cut", faults=("cut",) * 3), "ERR", "provider-cut", True),
    "empty": (Evidence(calls=4, last="empty", faults=("empty",)), "ERR", "provider-cut", True),
    "too large": (Evidence(calls=1, last="too-large", faults=("too-large",)), "ERR", "provider-cut", True),
    "swapped, whatever came of it": (replace(WORKED, swapped=True), "ERR", "provider-swapped", True),
    "a failure that was overcome": (
        replace(WORKED, last="ok", faults=(), graded="wrong"), "FAIL", "agent-stop", False,
    ),
    "stopped by the proxy for failures in a row": (
        Evidence(calls=12, reason="provider", last="cut", faults=("cut",) * 12), "ERR", "provider-cut", True,
    ),
    "tampering": (replace(WORKED, changed=("check.py",)), "FAIL", "template-tampering", False),
    "a breach": (replace(WORKED, breaches=("step 3: x",)), "FAIL", "breach-attempt", False),
    "lost": (Evidence(lost=True), "ERR", "infrastructure", True),
    "ours": (Evidence(trouble="the room could not be had"), "ERR", "infrastructure", True),
    "killed by somebody else": (
        replace(WORKED, reason="killed", stopped="killed by SIGKILL", graded="wrong"), "ERR", "infrastructure", True,
    ),
    "killed by somebody else, with a score": (
        replace(WORKED, reason="killed", stopped="killed by SIGKILL"), "PASS", "agent-stop", False,
    ),
    "never asked": (Evidence(calls=0), "ERR", "infrastructure", True),
    "not graded though it was wanted": (replace(WORKED, graded=""), "ERR", "agent-stop", True),
    "not graded, as asked": (replace(WORKED, graded="", wants_grade=False), "", "agent-stop", False),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_the_evidence_decides(name: str) -> None:
    found, outcome, ending, retryable = ROWS[name]
    how = decide(found)
    assert (how.outcome, how.ending, how.retryable) == (outcome, ending, retryable)
    assert how.detail or how.outcome == "PASS"


def test_a_lost_run_is_never_the_agents_failure_whatever_else_is_known() -> None:
    assert decide(Evidence(lost=True, changed=("check.py",), breaches=("x",), last="auth")).outcome == "ERR"


def test_the_page_prints_the_table_from_the_code() -> None:
    assert table().count("\n") == len(table().splitlines()) and "template-tampering" in table()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45m", 2700), ("1h30m", 5400), ("90s", 90), ("90", 90), ("1.5h", 5400), (" 2m ", 120), ("4m5", 245)],
)
def test_lengths_of_time_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "45 minutes", "-3m", "1d", "0", "1e9", "99999h"])
def test_what_is_no_length_of_time_is_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="no length of time|between a second and a week"):
        duration(text)


@pytest.mark.parametrize(
    "change",
    [{"agent": "../x"}, {"model": ""}, {"problem": "a/b"}, {"budget_s": 0.0}, {"gpu": "all"}, {"arguments": ("x",)}],
    ids=str,
)
def test_a_request_that_cannot_be_is_one_sentence(change: dict[str, object]) -> None:
    with pytest.raises(RunError):
        RunRequest(**{"agent": "claude", "model": "anthropic/m", "problem": "01_fp8_gemm", **change})  # type: ignore[arg-type]
