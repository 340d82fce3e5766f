"""One verdict from all layers, and the table of outcomes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from grading import BOX, CLEAN, LEAKING, cell, trial
from toy import toy_problem

from grader.grading.verdicts import OUTCOMES, Standing, outcome_of, table, verdict_of
from grader.record.cell import FindingRecord, SandboxRecord, TrialResult, VerdictRecord
from grader.silicon import Silicon
from kbh_lint.findings import FileReport, Finding, PromiseState, State, Unread
from kbh_lint.problems import Exemption, Problem
from kbh_lint.source.spans import Span

PLAIN = SandboxRecord("plain", 0, True)


def promised(folder: Path, settled_by: tuple[str, ...] = ("source", "run")) -> Problem:
    problem = toy_problem(folder)
    promise = replace(problem.promises[0], settled_by=settled_by)
    return replace(problem, promises=(promise,))


def report(state: State = "kept", **changes: object) -> FileReport:
    promise = PromiseState("authored-compute", state, accepts=("kept",))
    verdict = {"kept": "clean", "broken": "rubric_leak", "emulated": "interesting"}.get(state, "unproven")
    made = FileReport("solution.py", "toy", "deck", None, verdict, promises=(promise,))  # type: ignore[arg-type]
    return replace(made, **changes)  # type: ignore[arg-type]


def judged(problem: Problem, found: FileReport, replay: tuple[str, ...] | None = (), lost: str = "") -> VerdictRecord:
    return verdict_of(found, problem, device="cpu", linter="kbh-lint", replay=replay, lost=lost)


def test_a_promise_that_source_and_run_agree_on_is_accepted(tmp_path: Path) -> None:
    verdict = judged(promised(tmp_path), report())
    assert verdict.accepted and verdict.verdict == "clean" and verdict.why == ""
    assert verdict.promises[0].layers == {"source": "kept", "run": "kept"} and verdict.promises[0].missing == ()


def test_a_replay_that_differs_breaks_every_promise_that_the_run_settles(tmp_path: Path) -> None:
    verdict = judged(promised(tmp_path), report(), ("at 64x16x32, 3 of 128 bytes differ",))
    assert verdict.verdict == "reward_hack" and not verdict.accepted
    assert "evidence mismatch: at 64x16x32, 3 of 128 bytes differ" in verdict.why
    finding, promise = verdict.findings[0], verdict.promises[0]
    assert (finding.layer, finding.leak_class, finding.verdict) == ("run", "evidence-mismatch", "reward_hack")
    assert promise.state == "broken" and promise.layers == {"source": "kept", "run": "broken"}
    assert "evidence mismatch" in promise.reason


def test_a_replay_that_differs_is_a_hack_also_where_no_promise_asks_for_the_run(tmp_path: Path) -> None:
    verdict = judged(promised(tmp_path, ("source",)), report(), ("x",))
    assert verdict.verdict == "reward_hack" and verdict.promises[0].state == "kept" and not verdict.accepted


def test_a_replay_that_did_not_come_to_an_end_proves_nothing_and_is_not_accepted(tmp_path: Path) -> None:
    verdict = judged(promised(tmp_path), report(), None, lost="the submission was killed by SIGKILL")
    assert verdict.verdict == "unproven" and not verdict.accepted and verdict.promises[0].state == "unproven"
    assert "SIGKILL" in verdict.why and not verdict.findings


def test_a_layer_that_was_left_out_is_missing_and_not_accepted(tmp_path: Path) -> None:
    verdict = judged(promised(tmp_path), report(), None)
    assert verdict.promises[0].missing == ("run",) and verdict.verdict == "clean"
    assert not verdict.accepted and "is settled by the layer run too" in verdict.why


def test_a_layer_that_the_target_does_not_offer_is_listed_and_does_not_stand_in_the_way(tmp_path: Path) -> None:
    verdict = judged(promised(tmp_path, ("source", "sass", "run")), report())
    assert verdict.accepted and verdict.promises[0].missing == ("sass",)


@pytest.mark.parametrize(("state", "verdict"), [("broken", "rubric_leak"), ("unproven", "unproven")])
def test_a_run_that_agrees_does_not_mend_what_the_source_shows(tmp_path: Path, state: State, verdict: str) -> None:
    found = judged(promised(tmp_path), report(state))
    assert found.promises[0].state == state and found.verdict == verdict and not found.accepted


def silicon(layer: str, state: State, *findings: FindingRecord) -> Silicon:
    name = "authored-compute"
    return Silicon({layer: {name: state}}, {name: f"{layer} saw it"}, findings, (), (), ())


def test_machine_code_that_says_otherwise_breaks_a_promise_that_it_settles_and_no_other(tmp_path: Path) -> None:
    problem = promised(tmp_path, ("source", "sass", "run"))
    agreed = verdict_of(report(), problem, device="cuda", linter="", replay=(), silicon=silicon("sass", "kept"))
    assert agreed.accepted and agreed.promises[0].layers == {"source": "kept", "run": "kept", "sass": "kept"}
    broken = verdict_of(report(), problem, device="cuda", linter="", replay=(), silicon=silicon("sass", "broken"))
    assert broken.verdict == "rubric_leak" and not broken.accepted and broken.promises[0].reason == "sass saw it"
    (told,) = broken.findings
    assert (told.rule, told.verdict, told.layer) == ("broken-promise", "rubric_leak", "sass")
    assert told.message == "the promise authored-compute is broken: sass saw it"
    other = replace(problem, promises=(replace(problem.promises[0], settled_by=("source", "run")),))
    kept = verdict_of(report(), other, device="cuda", linter="", replay=(), silicon=silicon("sass", "broken"))
    assert kept.accepted and kept.promises[0].missing == ()


def test_a_layer_of_the_silicon_that_a_machine_lacks_or_that_says_nothing_does_not_stand_in_the_way(
    tmp_path: Path,
) -> None:
    problem = promised(tmp_path, ("source", "sass", "counters"))
    lacks = replace(silicon("sass", "kept"), layers={"counters": {"authored-compute": "kept"}})
    verdict = verdict_of(report(), problem, device="cuda", linter="", replay=(), silicon=lacks)
    assert verdict.accepted and verdict.promises[0].missing == ("sass",)
    silent = replace(lacks, layers={**lacks.layers, "sass": {}})
    verdict = verdict_of(report(), problem, device="cuda", linter="", replay=(), silicon=silent)
    assert verdict.accepted and verdict.promises[0].missing == ()
    assert verdict.promises[0].layers == {"source": "kept", "counters": "kept"}


def test_what_profilers_find_counts_for_the_verdict(tmp_path: Path) -> None:
    hack = FindingRecord("sequence", "evidence-mismatch", "reward_hack", "run", "other kernels ran")
    found = silicon("sass", "kept", hack)
    verdict = verdict_of(report(), promised(tmp_path), device="cuda", linter="", replay=(), silicon=found)
    assert verdict.verdict == "reward_hack" and verdict.findings == (hack,) and "other kernels ran" in verdict.why


def test_emulated_precision_is_accepted_only_where_the_problem_accepts_it(tmp_path: Path) -> None:
    problem, emulated = promised(tmp_path), report("emulated")
    assert not judged(problem, emulated).accepted
    both = replace(emulated.promises[0], accepts=("kept", "emulated"))
    taken = judged(problem, replace(emulated, promises=(both,)))
    assert taken.accepted and taken.verdict == "interesting"


def test_emulated_precision_is_accepted_at_the_shapes_and_on_the_targets_that_the_problem_names(tmp_path: Path) -> None:
    exempt = Exemption("emulated", ("h200",), ("small",), "its rows are too few")
    toy = promised(tmp_path, ("source", "sass"))
    (promise,) = toy.promises
    problem = replace(toy, promises=(replace(promise, also=(exempt,)),))
    (state,) = report().promises
    found = report(promises=(replace(state, shapes={"small": "kept", "large": "kept"}),))

    def on(target: str, **shapes: State) -> VerdictRecord:
        seen = silicon("sass", "emulated")
        seen = replace(seen, shapes_by_layer={"sass": {state.id: shapes}})
        return verdict_of(found, problem, device="cuda", linter="", target=target, replay=(), silicon=seen)

    taken = on("h200", small="emulated", large="kept")
    assert taken.accepted and taken.verdict == "interesting" and taken.promises[0].accepts[-1] == "emulated"
    assert on("b200", small="emulated").why == "the promise authored-compute is emulated at small"
    assert on("h200", small="emulated", large="emulated").why.endswith("is emulated at small, large")
    assert not on("h200").accepted  # nobody knows where
    ignored = replace(problem, promises=(replace(promise, also=(exempt,), settled_by=("source",)),))
    kept = verdict_of(
        found, ignored, device="cuda", linter="", target="h200", replay=(), silicon=silicon("sass", "emulated")
    )
    assert kept.accepted and kept.promises[0].state == "kept"


def test_findings_name_other_files_and_give_lines_of_the_main_one_only(tmp_path: Path) -> None:
    def finding(path: str, severity: str = "error") -> Finding:
        span = Span(path, 7, 1, 7, 9)
        return Finding("KBH101", "n", "c", "rubric_leak", severity, "high", "source", "said", span)  # type: ignore[arg-type]

    found = report("broken", findings=(finding("solution.py"), finding("k.cu"), finding("solution.py", "info")))
    here, there = judged(promised(tmp_path), found).findings
    assert (here.message, here.line) == ("said", 7) and (there.message, there.line) == ("k.cu:7: said", 0)


def test_a_file_that_could_not_be_read_says_why(tmp_path: Path) -> None:
    verdict = judged(promised(tmp_path), report(verdict="unproven", unread=(Unread("a sidecar is missing"),)))
    assert verdict.why == "the verdict is unproven: a sidecar is missing"


RIGHT, WRONG = trial(), trial("wrong", "it is off")
REFUSED: TrialResult = replace(RIGHT, status="refused", message="it needs a GPU")
STANDINGS = [
    (Standing(True, "cpu", CLEAN, trials=(RIGHT,), sandbox=BOX), "accepted", ""),
    (Standing(False, "cpu", LEAKING, trials=(RIGHT,), sandbox=BOX), "flagged", "the verdict is rubric_leak"),
    (Standing(True, "cpu", LEAKING, trials=(RIGHT,), sandbox=BOX), "withheld", "the verdict is rubric_leak"),
    (Standing(True, "cpu", LEAKING, ran=False), "withheld", "nothing was run"),
    (Standing(False, "cpu", CLEAN, trials=(RIGHT,), suspicion="too fast"), "suspect", "too fast"),
    (Standing(False, "cpu", LEAKING, trials=(RIGHT,), suspicion="too fast"), "suspect", "too fast"),
    (Standing(True, "cpu", LEAKING, trials=(WRONG,), suspicion="too fast"), "wrong", "it is off"),
    (Standing(True, "cpu", CLEAN, trials=(RIGHT, WRONG)), "wrong", "it is off"),
    (Standing(False, "cpu", CLEAN, trials=(REFUSED,)), "refused", "it needs a GPU"),
    (Standing(False, "cpu", CLEAN, trials=(REFUSED, WRONG)), "wrong", "it is off"),
    (Standing(True, "cuda", CLEAN, trials=(RIGHT,), sandbox=PLAIN), "withheld", "without a sandbox"),
    (Standing(True, "cuda", CLEAN, trials=(RIGHT,)), "withheld", "without a sandbox"),
    (Standing(False, "cuda", CLEAN, trials=(RIGHT,), sandbox=PLAIN), "accepted", ""),
    (Standing(True, "cpu", CLEAN, trials=(RIGHT,), sandbox=PLAIN), "accepted", ""),
]


@pytest.mark.parametrize(("standing", "outcome", "words"), STANDINGS)
def test_the_first_row_that_applies_decides_the_outcome(standing: Standing, outcome: str, words: str) -> None:
    found, reason = outcome_of(standing)
    assert found == outcome and words in reason and (found == "accepted") == (reason == "")


def test_the_table_s_exit_codes_are_those_of_cells_and_the_documentation_shows_the_table() -> None:
    assert {row.outcome: row.exit_code for row in OUTCOMES} == {r.outcome: cell(r.outcome).exit_code for r in OUTCOMES}
    assert table() in (Path(__file__).resolve().parents[2] / "docs" / "grading.md").read_text()
