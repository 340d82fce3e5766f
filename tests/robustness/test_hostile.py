"""Whatever a submission holds, linting it ends soon, in bounded memory, with a verdict and no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostile import submissions
from shares import taken

ROOT = Path(__file__).resolve().parents[2]
MAX_SECONDS = 30  # the dearest takes 17 alone, and beside two other workers on two cores a third more
MAX_MEGABYTES = 1_500
CASES = submissions()

# One process for all that run. It says after each file what it cost, so that one that kills it is the first missing.
DRIVER = """
import json, pathlib, resource, sys, time
sys.path[:0] = [{root!r}]
import kbh_lint
resource.setrlimit(resource.RLIMIT_AS, (3 * 1024**3, 3 * 1024**3))
path = pathlib.Path("solution.py")
for name, text in json.load(sys.stdin).items():
    path.write_text(text, encoding="utf-8")
    started = time.process_time()
    try:
        report = kbh_lint.lint([path], problem="01_fp8_gemm", raise_errors=True, timeout=60)
        said = [report.files[0].verdict, [item.reason for item in report.files[0].unread]]
    except Exception as error:
        said = ["raised", [type(error).__name__ + ": " + str(error)]]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps([name, time.process_time() - started, memory, *said]), flush=True)
"""


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, once: Callable[..., Any]
) -> dict[str, Any]:
    asked = {*taken(request, "name"), *(f"forward/{name}" for name in taken(request, "endless"))}
    cases = {name: text for name, text in CASES.items() if name in asked or not asked}
    return dict(once("hostile-outcomes", lambda: linted(tmp_path_factory.mktemp("hostile"), cases)))


def linted(folder: Path, cases: dict[str, str]) -> dict[str, Any]:
    """What linting each case costs and says, how the process ended, and what lies in its folder then."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVER.format(root=str(ROOT))],
        input=json.dumps(cases),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    found: dict[str, Any] = {name: rest for name, *rest in rows}
    found["end"] = [done.returncode, done.stderr[-2000:]]
    found["left"] = sorted(p.name for p in folder.iterdir())
    return found


@pytest.mark.share(6)
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_hostile_submission_costs_no_more_than_its_bound(name: str, outcomes: dict[str, Any]) -> None:
    assert name in outcomes, f"the process ended before it: {outcomes['end']}"
    seconds, megabytes, verdict, reasons = outcomes[name]
    assert verdict in {"clean", "unproven", "interesting", "rubric_leak", "reward_hack", "bug"}, reasons
    assert seconds < MAX_SECONDS
    assert megabytes < MAX_MEGABYTES
    assert not any("\n" in reason or "Traceback" in reason for reason in reasons)


@pytest.mark.slow
@pytest.mark.parametrize("endless", ["loop-without-end", "exponential-recursion", "summed-again-and-again"])
def test_a_forward_without_end_is_unproven_for_that_reason(endless: str, outcomes: dict[str, Any]) -> None:
    verdict, reasons = outcomes[f"forward/{endless}"][2:]
    assert verdict == "unproven"
    assert any("did not end within its bound" in reason for reason in reasons)


@pytest.mark.slow
def test_nothing_that_hostile_submissions_write_is_written(outcomes: dict[str, Any]) -> None:
    assert outcomes["end"] == [0, ""]
    assert outcomes["left"] == ["solution.py"]
