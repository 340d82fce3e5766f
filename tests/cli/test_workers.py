"""Several processes: the same report, and a death or an overrun costs one file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import kbh

from kbh_lint.service.jobs import AUTO_FILES_A_JOB, worker_count

RULES = ("--rules-dir", "rules", "--no-cache", "--output-format", "json")


def test_two_jobs_give_the_report_of_one(work: Path) -> None:
    one = kbh(*RULES, "--jobs", "1", ".", cwd=work)
    two = kbh(*RULES, "--jobs", "2", ".", cwd=work)
    assert one.stdout == two.stdout
    assert len(json.loads(one.stdout)["files"]) == 4
    assert one.returncode == two.returncode == 1


def test_a_crash_costs_one_file_and_the_rest_is_linted(work: Path) -> None:
    (work / "crash.py").write_text("x = 1  # do: crash\n" + "#\n" * 50)
    done = kbh(*RULES, "--jobs", "2", ".", cwd=work)
    verdicts = {file["path"]: file for file in json.loads(done.stdout)["files"]}
    assert verdicts["crash.py"]["unread"][0]["reason"] == "kbh-lint crashed (exit status 7)"
    assert json.loads(done.stdout)["errors"] == [
        "crash.py: kbh-lint crashed (exit status 7); this says nothing of the file"
    ]
    assert done.returncode == 2
    assert verdicts["leak.py"]["verdict"] == "rubric_leak"
    assert verdicts["clean.py"]["verdict"] == "clean"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_file_over_its_time_is_an_error_and_no_opinion_and_the_rest_is_linted(work: Path, jobs: str) -> None:
    (work / "hang.py").write_text("x = 1  # do: hang\n")
    done = kbh(*RULES, "--jobs", jobs, "--timeout", "0.5", ".", cwd=work)
    files = {file["path"]: file for file in json.loads(done.stdout)["files"]}
    assert files["hang.py"]["unread"][0]["reason"].startswith(
        "the analysis took longer than 0.5 s here and was stopped"
    )
    (error,) = json.loads(done.stdout)["errors"]
    assert error.startswith("hang.py: ") and error.endswith("; this says nothing of the file")
    assert done.returncode == 2
    assert files["leak.py"]["verdict"] == "rubric_leak"


def test_auto_starts_another_worker_only_for_enough_files() -> None:
    assert worker_count("auto", 1) == 1
    assert worker_count("auto", 0) == 1
    assert worker_count("auto", 2 * AUTO_FILES_A_JOB - 1) == 1
    assert worker_count(8, 3) == 3


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_malformed_problem_stops_the_run_with_its_place(work: Path, jobs: str) -> None:
    (work / "data.py").write_text("x = 1  # do: malformed problem.yaml\n")
    done = kbh(*RULES, "--jobs", jobs, ".", cwd=work)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kbh-lint: error: problem.yaml:3: it makes no sense\n"
