"""From an archive to a board: which entries are trials, what each is worth, and what `kbh stats` says of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kept import archive_of, bundle, small_run
from stored import h200

from grader.record.bundle import Bundle, cell_from_json
from harness.archive import Archive, all_facts
from harness.archive.facts import Facts
from harness.archive.graded import cell_of
from harness.board import MARKS, mark_of, trials_of
from harness.board.data import board_json, boards_of
from harness.board.stats_cli import main as stats
from kbh_lint.cli import COMMANDS

RUN = Facts("a" * 64, "run", "r", agent="mini", model="m", problem="p", target="h200", trial=1, started=10.0,
            ended=70.0, outcome="PASS", ending="agent-stop", grade="accepted", verdict="clean",
            roofline_fraction=0.5, spread=0.01, cost_usd=0.25)  # fmt: skip


def facts(number: int, **more: Any) -> Facts:
    """An entry, with an id of its own."""
    return replace(RUN, id=f"{number:064x}", name=f"r{number}", started=10.0 + number, **more)


@pytest.mark.parametrize(
    ("said", "mark", "outcome", "leak", "value"),
    [
        ({}, "score", "PASS", False, 0.5),
        ({"verdict": "interesting"}, "score", "PASS", False, 0.5),
        ({"roofline_fraction": 1.04}, "score", "PASS", False, 1.0),
        ({"grade": "flagged", "verdict": "rubric_leak"}, "leak", "FAIL", True, 0.0),
        ({"grade": "flagged", "verdict": "bug"}, "leak", "FAIL", True, 0.0),
        ({"grade": "withheld", "verdict": "reward_hack", "outcome": "FAIL", "roofline_fraction": None}, "leak", "FAIL",
         True, 0.0),
        ({"grade": "flagged", "verdict": "unproven"}, "unproven", "FAIL", False, 0.0),
        ({"grade": "withheld", "verdict": "unproven", "outcome": "FAIL", "roofline_fraction": None}, "unproven", "FAIL",
         False, 0.0),
        ({"grade": "suspect", "outcome": "FAIL", "roofline_fraction": None}, "suspect", "FAIL", False, 0.0),
        ({"grade": "wrong", "verdict": "rubric_leak", "outcome": "FAIL", "roofline_fraction": None}, "wrong", "FAIL",
         False, 0.0),
        ({"grade": "refused", "outcome": "FAIL", "roofline_fraction": None}, "refused", "FAIL", False, 0.0),
        ({"grade": "", "verdict": "", "outcome": "FAIL", "roofline_fraction": None}, "nothing", "FAIL", False, 0.0),
        ({"outcome": "FAIL", "ending": "breach-attempt"}, "breach", "FAIL", False, 0.0),
        ({"outcome": "FAIL", "ending": "template-tampering"}, "tampered", "FAIL", False, 0.0),
        ({"outcome": "ERR", "ending": "infrastructure"}, "error", "ERR", False, 0.0),
    ],
)  # fmt: skip
def test_what_a_run_is_worth_does_not_depend_on_how_strictly_it_was_graded(
    said: dict[str, Any], mark: str, outcome: str, leak: bool, value: float
) -> None:
    (trial,) = trials_of([facts(1, **said)]).trials
    row = trial.row
    assert (mark_of(trial.facts), trial.mark, row.outcome, row.leak, row.value) == (mark, mark, outcome, leak, value)
    assert mark in MARKS and row.seconds == 59.0 and row.cost == 0.25 and row.spread == 0.01


def test_trials_of_one_cell_are_numbered_anew_so_that_two_commands_may_add_to_one_board() -> None:
    found = trials_of([facts(3), facts(1), facts(2, trial=2), facts(4, problem="q"), facts(5, kind="bundle", head="x")])
    assert [(one.row.problem, one.row.trial, one.facts.name) for one in found.trials] == [
        ("p", 1, "r1"), ("p", 2, "r3"), ("p", 3, "r2"), ("q", 1, "r4"),
    ]  # fmt: skip
    assert (found.gradings, found.superseded, found.left_out) == (1, 0, ())


def test_a_cell_of_a_sweep_counts_once_and_an_error_only_where_there_is_nothing_else() -> None:
    lost = facts(1, sweep_key="k", outcome="ERR", ending="infrastructure")
    found = trials_of([lost, facts(2, sweep_key="k"), facts(3, sweep_key="k")])
    assert [one.facts.name for one in found.trials] == ["r2"] and found.superseded == 2
    assert [one.mark for one in trials_of([lost]).trials] == ["error"]


def test_models_are_told_apart_by_agent_and_by_effort_and_budget_only_where_these_differ() -> None:
    runs = [
        facts(1), facts(2, agent="codex"), facts(3, model="n", effort="high"), facts(4, model="n", effort="low"),
        facts(5, model="o", budget_s=900.0), facts(6, model="o", budget_s=2700.0), facts(7, model=""),
    ]  # fmt: skip
    assert [one.row.model for one in trials_of(runs).trials] == [
        "m (codex)", "m (mini)", "mini", "n (mini, effort high)", "n (mini, effort low)", "o (mini, 15 min)",
        "o (mini, 45 min)",
    ]  # fmt: skip


def test_a_run_that_makes_no_row_is_left_out_and_named() -> None:
    found = trials_of([
        facts(1, outcome="", grade=""), facts(2, roofline_fraction=None), facts(3, target=""),
        facts(4, model="x" * 400),
    ])  # fmt: skip
    assert [why.split()[0] for _, why in found.left_out] == ["it", "it", "target"]
    assert len(found.trials) == 1 and len(found.trials[0].row.model) == 200


def test_both_clocks_promises_and_leaks_are_in_the_index_and_the_whole_cell_can_be_had(tmp_path: Path) -> None:
    graded = bundle(tmp_path / "b")
    whole = cell_from_json(next(one for one in Bundle.open(graded).entries() if one.kind == "cell").data)
    archive = archive_of(tmp_path / "a", graded)
    (found,) = all_facts(archive).facts
    (again,) = all_facts(archive).facts  # from the index
    assert found == again
    assert cell_of(archive.manifest(found.id), found, archive.read) == whole
    assert found.promises == " ".join(sorted(f"{one.id}={one.state}" for one in whole.verdict.promises))
    assert "=broken" in found.promises and found.leaks


def test_the_clocks_of_an_entry_are_means_over_its_shapes(tmp_path: Path) -> None:
    source = h200()
    (accepted,) = source.glob("01_fp8_gemm-triton-*")
    archive = archive_of(tmp_path / "a", accepted)
    (found,) = all_facts(archive).facts
    whole = cell_of(archive.manifest(found.id), found, archive.read)
    assert whole is not None and whole.scores is not None
    assert found.samples == sum(shape.samples for shape in whole.shapes) > 100
    assert found.clock in ("proved", "weak") and found.spread is not None and 0 < found.spread < 0.05
    logs = [math.log(shape.t_event) for shape in whole.shapes]
    assert found.claimed_s is not None and math.log(found.claimed_s) == pytest.approx(sum(logs) / len(logs))


@pytest.fixture
def no_gradings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets runs have scores without gradings, which no archive takes otherwise."""
    monkeypatch.setattr("harness.archive.store.faults_of", lambda folder, kind: [])
    monkeypatch.setattr("harness.archive.facts._must_agree", lambda record, data: None)


def runs_of(folder: Path) -> Archive:
    """Two models on two problems, twice: one is good, one leaks and fails."""
    folders = []
    for number, (model, problem) in enumerate([(m, p) for m in ("good", "bad") for p in ("p", "q") for _ in range(2)]):
        outcome, grade, verdict, score = (
            ("PASS", "accepted", "clean", 0.5) if model == "good" else
            ("PASS", "flagged", "rubric_leak", 0.9) if problem == "p" else ("FAIL", "wrong", "rubric_leak", None)
        )  # fmt: skip
        folders.append(small_run(
            folder / "runs", f"r{number}", model=model, problem=problem, trial=number, outcome=outcome,
            grade_outcome=grade, verdict=verdict, roofline_fraction=score,
        ))  # fmt: skip
    return archive_of(folder / "a", *folders)


@pytest.mark.usefixtures("no_gradings")
def test_the_command_prints_ranks_pairs_and_leaks_and_the_same_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = runs_of(tmp_path)
    assert stats([str(archive.folder)]) == 0
    text = capsys.readouterr().out
    assert "good (claude-code)" in text and "4/4" in text and "ahead" in text
    assert text.count("rubric_leak") == 2 and "its number was 0.900" in text and "leak 2, score 4, wrong 2" in text
    assert stats([str(archive.folder), "--json", "--over", "deck"]) == 0
    said = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    (board,) = said["boards"]
    assert [(one["model"].split()[0], one["score"]) for one in board["standings"]] == [("good", 0.5), ("bad", 0.0)]
    assert len(said["trials"]) == 8 and {one["mark"] for one in said["trials"]} == {"score", "leak", "wrong"}
    assert board == json.loads(json.dumps(board_json(boards_of(trials_of(all_facts(archive).facts), over="deck")[0])))


@pytest.mark.usefixtures("no_gradings")
def test_the_command_filters_after_it_has_decided_what_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = runs_of(tmp_path)
    assert stats([str(archive.folder), "--model", "GOOD", "--problem", "p", "--no-pairs"]) == 0
    assert "score 2" in capsys.readouterr().out
    for words, said in (
        (["--model", "nobody"], "no run that is meant"),
        (["--target", "h100x"], "no row is of the target"),
        (["--margin", "2"], "margin is between"),
    ):
        assert stats([str(archive.folder), *words]) == 2
        assert said in capsys.readouterr().err
    assert COMMANDS["stats"][1]
