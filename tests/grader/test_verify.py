"""Evidence: written as it is read, and every way in which it can stop being true is noticed."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toy import HONEST as HONEST_TOY
from toy import toy_problem

from grader.authoring import device_memory, evidence, mutation, verify
from grader.authoring.evidence import digest, geometric_mean
from grader.authoring.verify import run_verify
from grader.cli.problems import main
from grader.deck.code import problems_dir
from grader.grading.check import CaseResult, CheckError, CheckReport
from kbh_lint.problems import load_deck, load_problem

pytestmark = pytest.mark.usefixtures("warm")

ID = "04_kahan_softmax"
HONEST, DECOY = "honest/triton.py", "decoys/tree_sum.py"
SOLUTIONS = f"""\
honest:
  - {{file: {HONEST}, language: triton, cpu: interpreter}}
decoys:
  - {{file: {DECOY}, rule: KBH103, promise: compensated-sum, idea: A tree of partial sums carries no error.}}
"""
Change = Callable[[dict[str, Any]], object]


def test_the_stored_evidence_is_of_the_problems_as_they_are_read_now() -> None:
    """A field that is added to contracts must not make every evidence one of another problem."""
    deck = load_deck(problems_dir())
    files = {name: evidence.path_of(problems_dir() / name, "h200") for name in deck}
    kept = {name: json.loads(file.read_text()) for name, file in files.items() if file.is_file()}
    assert len(kept) >= 9
    assert {name: one["files"]["problem.yaml"] for name, one in kept.items()} == {n: digest(deck[n]) for n in kept}


@pytest.fixture
def deck(tmp_path: Path) -> Path:
    """A deck of one problem with evidence that holds."""
    shutil.copy(problems_dir() / "hardware.yaml", tmp_path / "hardware.yaml")
    (tmp_path / "goals.yaml").write_text(f"h200: {{{ID}: 0.25}}\n")
    here = tmp_path / ID
    shutil.copytree(problems_dir() / ID, here, ignore=shutil.ignore_patterns("evidence", "__pycache__", "mutants.py"))
    (here / "solutions.yaml").write_text(SOLUTIONS)
    problem = load_problem(here / "problem.yaml")
    shapes = {s.label: {"cases": 9, "worst": 0.5, "worst_case": "nominal/0"} for s in problem.shapes}
    solutions = {
        file: {
            "kind": kind, "outcome": "passed", "message": "", "cases": 45, "shapes": shapes,
            "sha256": evidence.submission_hash(here / file), "roofline_fraction": 0.4, "speedup": 3.0,
        }
        for file, kind in ((HONEST, "honest"), (DECOY, "decoy"))
    }  # fmt: skip
    data = {
        "format": evidence.FORMAT, "problem": ID, "target": "h200", "files": evidence.file_hashes(problem),
        "reference": {"outcome": "passed"}, "solutions": solutions,
    }  # fmt: skip
    evidence.write(evidence.path_of(here, "h200"), data)
    return tmp_path


def read_back(deck: Path) -> tuple[int, str]:
    said: list[str] = []
    status = run_verify([ID], say=said.append, folder=deck)
    return status, "\n".join(said)


def change(deck: Path, edit: Change) -> None:
    path = evidence.path_of(deck / ID, "h200")
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


def test_evidence_that_fits_the_files_and_the_linter_holds(deck: Path) -> None:
    status, table = read_back(deck)
    assert status == 0 and "FAULT" not in table and table.endswith("the deck holds")
    (honest,) = [line for line in table.splitlines() if HONEST in line]
    assert honest.split() == [ID, HONEST, "45", "0.5", "0.4", "3", "clean"]
    (best,) = [line for line in table.splitlines() if "best on h200" in line]
    assert best.split() == [ID, "best", "on", "h200", "90", "0.4", "3", "goal", "0.25"]


def solution_of(data: dict[str, Any], file: str) -> dict[str, Any]:
    entry: dict[str, Any] = data["solutions"][file]
    return entry


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: solution_of(d, HONEST).update(outcome="failed", message="wrong"), "FAULT failed: wrong"),
        (lambda d: solution_of(d, DECOY).update(outcome="not-checkable", message="no"), "FAULT not-checkable: no"),
        (lambda d: solution_of(d, HONEST).update(roofline_fraction=0.2), "reaches 0.200 of the roofline, and the goal"),
        (lambda d: solution_of(d, HONEST).update(speedup=0.9), "no honest solution beats the eager reference"),
        (lambda d: solution_of(d, HONEST).update(kind="decoy"), "FAULT was run as decoy"),
        (lambda d: solution_of(d, DECOY)["shapes"].popitem(), "FAULT was not run at "),
        (lambda d: d["solutions"].pop(DECOY), "FAULT no evidence"),
        (lambda d: d["reference"].update(outcome="failed", message="bad"), "the reference fails its own check: bad"),
        (lambda d: d.update(format=0), "h200.json is not evidence of format 1"),
    ],
)
def test_evidence_that_shows_a_fault_does_not_hold(
    deck: Path, edit: Change, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "grader.authoring.readback._lint", lambda *_: {HONEST: ("clean", []), DECOY: ("rubric_leak", [])}
    )
    change(deck, edit)
    status, table = read_back(deck)
    assert status == 1 and words in table and table.endswith("see the lines with FAULT")


def test_files_that_changed_after_the_run_are_named(deck: Path) -> None:
    with (deck / ID / HONEST).open("a") as file:
        file.write("\n# one more line\n")
    with (deck / ID / "reference.py").open("a") as file:
        file.write("\n# one more line\n")
    yaml = (deck / ID / "problem.yaml").read_text()
    (deck / ID / "problem.yaml").write_text(yaml.replace("batch: 32, vocab: 4096", "batch: 33, vocab: 4096"))
    status, table = read_back(deck)
    assert status == 1 and "has changed since it was run" in table
    assert "problem.yaml, reference.py changed since the evidence was made" in table


def test_a_decoy_that_another_rule_flags_and_an_honest_one_that_leaks_are_faults(deck: Path) -> None:
    other = SOLUTIONS.replace("KBH103", "KBH999").replace(HONEST, "decoys/one_trip.py")
    (deck / ID / "solutions.yaml").write_text(other)
    status, table = read_back(deck)
    assert status == 1 and "is not clean: the verdict is rubric_leak" in table
    assert "is not flagged by KBH999, only by KBH103" in table


@pytest.mark.parametrize("text", ["", "[1]", "{", "null"])
def test_a_file_that_is_no_evidence_is_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "h200.json"
    path.write_text(text)
    data, why = evidence.read(path)
    assert data == {} and why.startswith("h200.json ")


def test_wording_may_change_without_a_new_run_but_no_number_may(tmp_path: Path) -> None:
    text = (problems_dir() / ID / "problem.yaml").read_text()
    (tmp_path / ID).mkdir()

    def changed(old: str, new: str) -> str:
        assert old in text
        (tmp_path / ID / "problem.yaml").write_text(text.replace(old, new))
        return digest(load_problem(tmp_path / ID / "problem.yaml"))

    same = digest(load_problem(problems_dir() / ID / "problem.yaml"))
    assert changed("title: Softmax", "title: A softmax") == same
    assert changed("reason: It is", "reason: That is") == same
    assert changed("std: 4", "std: 3") != same
    assert changed("bytes: batch*vocab*8", "bytes: batch*vocab*9") != same


def result(shape: str, case: str, error: float | None) -> CaseResult:
    return CaseResult(shape, case, error is not None, error, 0.01, "")


def test_an_entry_holds_the_worst_case_of_each_shape_and_times_as_shares_of_the_floor(tmp_path: Path) -> None:
    problem = load_deck(problems_dir())[ID]
    first, second, *rest = [shape.label for shape in problem.shapes]
    cases = (result(first, "nominal/0", 0.002), result(first, "stress/large", 0.005), result(second, "nominal/0", None))
    report = CheckReport(ID, HONEST, "abc", "cuda", "full", "passed", "", "", cases, "", 1.0)
    entry = verify._entry("honest", report, tmp_path)
    assert entry["shapes"][first] == {"cases": 2, "worst": 0.5, "worst_case": "stress/large"}
    assert entry["shapes"][second]["worst"] == math.inf
    target = verify.load_targets(problems_dir() / "hardware.yaml")["h200"]
    floors = {s.label: verify.floor(problem, s, target).t_floor for s in problem.shapes}  # type: ignore[union-attr]
    measured = {label: 4 * seconds for label, seconds in floors.items()}
    verify._add_times(entry, problem, target, measured, {label: 3 * t for label, t in measured.items()})
    assert entry["roofline_fraction"] == pytest.approx(0.25) and entry["speedup"] == pytest.approx(3)
    evidence.write(tmp_path / "e.json", {"entry": entry})
    assert json.loads((tmp_path / "e.json").read_text())["entry"]["shapes"][second]["worst"] == "inf"


def test_a_geometric_mean_of_nothing_or_of_a_zero_is_zero() -> None:
    assert geometric_mean([0.25, 1.0]) == pytest.approx(0.5)
    assert geometric_mean([]) == geometric_mean([0.0, 2.0]) == 0.0


def test_evidence_cannot_be_made_without_a_gpu_or_for_a_problem_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(CheckError, match="evidence is made on a CUDA GPU, and there is none here"):
        run_verify([ID], device="cuda")
    assert verify.main(["11_nothing"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("kbh: error: there is no problem `11_nothing` in ") and "; there are 01_fp8_gemm," in said


def test_a_problem_of_an_author_s_folder_is_verified_there_and_without_evidence_does_not_hold(
    deck: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "grader.authoring.readback._lint", lambda *_: {HONEST: ("clean", []), DECOY: ("rubric_leak", [])}
    )
    assert main(["--problems-dir", str(deck), "verify"]) == 0
    assert main(["--problems-dir", str(deck), "verify", str(deck / ID)]) == 0
    assert "the deck holds" in capsys.readouterr().out
    (deck / "goals.yaml").unlink()
    assert main(["--problems-dir", str(deck), "verify", ID]) == 0, "what is stored counts without a goal"
    shutil.rmtree(deck / ID / "evidence")
    assert main(["--problems-dir", str(deck), "verify"]) == 1
    assert f"FAULT no evidence is stored: `kbh problems verify {ID} --device cuda" in capsys.readouterr().out
    shutil.rmtree(deck / ID)
    assert main(["--problems-dir", str(deck), "verify"]) == 1
    assert "nothing was verified" in capsys.readouterr().out


def test_threads_wait_for_memory_that_others_hold_and_one_job_may_always_run() -> None:
    budget = device_memory.Budget(10)
    with budget.taken(6), budget.taken(4):
        assert budget._left == 0
    with budget.taken(1000):
        assert budget._left == 0
    assert budget._left == 10


def test_a_run_gives_evidence_of_every_solution_and_times_only_the_honest_ones_that_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = toy_problem(tmp_path)
    here = tmp_path / "toy"
    (here / "honest").mkdir()
    (here / "decoys").mkdir()
    (here / "honest/good.py").write_text(HONEST_TOY)
    (here / "honest/bad.py").write_text("import os\nos._exit(0)\n")
    (here / "decoys/right.py").write_text(HONEST_TOY + "\n")
    (here / "solutions.yaml").write_text(
        "honest:\n  - {file: honest/good.py, language: triton, cpu: native}\n"
        "  - {file: honest/bad.py, language: triton, cpu: native}\n"
        "decoys:\n  - {file: decoys/right.py, rule: KBH110, promise: authored-compute, idea: Eager torch.}\n"
    )
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda device: (1 << 34, 1 << 34))
    monkeypatch.setattr(verify, "device_times", lambda *_, **__: [2e-6])
    said: list[str] = []
    target = verify.load_targets(problems_dir() / "hardware.yaml")["h200"]
    run = verify._Run([problem], target, "cpu", jobs=2, timeout=120, say=said.append)
    grown: list[dict[str, Any]] = []
    run.everything(mutants=True, found=lambda _, data: grown.append(data))
    assert len(grown) == 2 and grown[0]["reference"]["seconds"] == {}, "stored before the times, and after them"
    data = grown[-1]
    assert any("has no mutants" in line for line in said)
    eager = data["reference"]["seconds"]["64x16x32"]
    assert data["reference"]["outcome"] == "passed" and 0 < eager < 0.1
    good, bad, right = (data["solutions"][f] for f in ("honest/good.py", "honest/bad.py", "decoys/right.py"))
    assert good["outcome"] == right["outcome"] == "passed" and good["cases"] == right["cases"] == 5
    assert good["speedup"] == pytest.approx(eager / good["shapes"]["64x16x32"]["seconds"])
    assert bad["outcome"] == "failed" and "ended its process (exit status 0)" in bad["message"]
    assert "speedup" not in right and "speedup" not in bad and "mutants" not in data
    assert any(line.startswith("toy honest/bad.py: failed") for line in said)
    evidence.write(tmp_path / "e.json", data)
    assert evidence.read(tmp_path / "e.json") == (json.loads((tmp_path / "e.json").read_text()), "")


MUTANTS = """\
from grader.deck.mutants import Mutant

MUTANTS = (
    Mutant("zeros", "All zeros.", lambda init: None),
    Mutant("deep", "Only wrong at depth.", lambda init: None, full=True),
)
"""


def mutants(deck: Path, **states: str) -> tuple[int, str]:
    here = deck / ID
    (here / "mutants.py").write_text(MUTANTS)
    sources = mutation._sources(load_problem(here / "problem.yaml"))
    entries = {name: {"state": state} for name, state in states.items()}
    change(deck, lambda d: d.update(mutants={"sources": sources, "mutants": entries, "score": 1.0}))
    return read_back(deck)


def test_a_mutant_that_lived_at_full_shapes_or_was_never_run_there_is_a_fault(deck: Path) -> None:
    status, table = mutants(deck, zeros="killed", deep="killed")
    assert status == 0 and "goal 0.25, mutants killed 100%" in table
    status, table = mutants(deck, zeros="survived", deep="killed")
    assert status == 1 and "the mutant zeros: survived on h200" in table
    status, table = mutants(deck, zeros="killed")
    assert status == 1 and "the mutant deep: no evidence is stored" in table
    assert "the mutant zeros" not in table
