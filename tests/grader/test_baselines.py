"""Baselines: modules of ours through the same judge, with times beside a cell and no part in its score."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from deck_cases import drawn, judged, loaded
from grading import cell, few_calls, toy_request, trial
from toy import HONEST, REFERENCE

from grader.cli import grade as grade_cli
from grader.deck.code import DeckError
from grader.grading import baselines
from grader.grading.baselines import source
from grader.grading.grade import Progress, grade
from grader.grading.request import GradeError, Request, options_from_json, options_of
from grader.judge import judging as judge
from grader.record.bundle import Bundle, CodecError, cell_from_json, cell_to_json, verify
from grader.record.cell import Baseline, BaselineTime, ShapeScore, TrialResult, geometric_mean
from grader.report.cell_text import render as text_of
from grader.report.page import render as page_of
from grader.report.view import View, load_view
from kbh_lint.base import paths
from kbh_lint.cli import kbh_main
from kbh_lint.problems import load_deck

pytestmark = pytest.mark.usefixtures("warm")

DECK = load_deck(paths.problems_dir())
GRADED = [problem.id for problem in DECK.values() if problem.contracts]
WITH_LIBRARY = sorted(path.parent.name for path in paths.problems_dir().glob("*/library.py"))
LIBRARY = '"""A product that is off."""\n' + REFERENCE.partition("def oracle")[0].replace("x @", "1.01 * x @")
TORCH = HONEST.replace("return (x", "torch.ones(300, 300).cumsum(0); return (x")  # not too short to be believed
TIME = BaselineTime("64x16x32", 4.0e-3, 4.0e-3, 3.9e-3, "proved", 2.0)
EAGER = Baseline("eager", "the reference in eager PyTorch", "right", "5 compared calls are right", (TIME,), 2.0)
WRONG = Baseline("library", "a product", "wrong", "it raised ImportError: no <b>module</b>")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    few_calls(monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("KBH_LOCK_DIR", str(tmp_path))


def imported(folder: Path, text: str) -> ModuleType:
    file = folder / "baseline_module.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("baseline_module", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- the modules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem_id", WITH_LIBRARY)
def test_the_call_of_a_library_is_right_by_the_problems_own_bounds(problem_id: str, tmp_path: Path) -> None:
    problem, _ = loaded(problem_id)
    module = source(problem, "library")
    assert module is not None and len(module.what) < 120 and "\n" not in module.what
    made = imported(tmp_path, module.text)
    for case in drawn(problem_id, problem.reduced[0], ("nominal/0", "structure")):
        result = judged(problem_id, made.Model(*case.binding.init.values()), case)
        assert result.ok, (case.spec.id, result.message)


@pytest.mark.share(4)
@pytest.mark.parametrize("problem_id", GRADED)
def test_every_problem_has_an_eager_and_a_compiled_baseline_with_the_references_own_state(
    problem_id: str, tmp_path: Path
) -> None:
    problem, code = loaded(problem_id)
    binding = next(iter(problem.contracts.values())).bind(problem.reduced[0])
    for name in ("eager", "compile"):
        module = source(problem, name)  # type: ignore[arg-type]
        assert module is not None
        model = imported(tmp_path, module.text).Model(*binding.init.values())
        assert list(model.state_dict()) == list(code.Model(*binding.init.values()).state_dict())
        assert (model._compiled_call_impl is not None) == (name == "compile")


def test_a_problem_without_a_library_has_no_such_baseline_and_one_that_says_nothing_is_a_fault(tmp_path: Path) -> None:
    request = toy_request(tmp_path)
    problem = load_deck(tmp_path / "deck")[request.problem]
    assert source(problem, "library") is None
    file = tmp_path / "deck" / "toy" / "library.py"
    for text, words in (("import torch", "does not say in its docstring"), ("def", "cannot be read: invalid syntax")):
        file.write_text(text)
        with pytest.raises(DeckError, match=words):
            source(problem, "library")


# --- a grading ---------------------------------------------------------------------------------------------


def test_baselines_go_through_the_judge_and_stand_beside_a_score_that_they_do_not_change(tmp_path: Path) -> None:
    said: list[Progress] = []
    request = toy_request(tmp_path, TORCH, baselines=("eager", "library"), evidence=False)
    (tmp_path / "deck" / "toy" / "library.py").write_text(LIBRARY)
    made, folder = grade(request, said.append)
    assert made.outcome == "flagged" and made.scores is not None
    eager, library = made.baselines
    assert (eager.name, eager.status, library.name, library.status) == ("eager", "right", "library", "wrong")
    (time,), (shape,) = eager.times, made.shapes
    larger = max(time.t_event, time.t_sealed or 0.0)
    assert time.seconds == (time.t_event if time.clock == "weak" else larger) > 0
    assert time.speedup == time.seconds / shape.t_scored and eager.speedup == pytest.approx(time.speedup)
    assert library.what == "A product that is off" and "are off by more than" in library.message
    assert library.times == () and library.speedup is None
    entries = Bundle.open(folder).entries()
    kept = [entry for entry in entries if entry.kind == "baseline"]
    assert [entry.data["name"] for entry in kept] == ["eager", "library"] and entries[-1].kind == "cell"
    assert Bundle.open(folder).get(str(kept[1].data["module"])).decode() == LIBRARY
    keys = {str(entry.data["trial"]["master"]) for entry in kept}
    assert len(keys | {trial.master for trial in made.trials}) == 3, "keys of their own"
    assert verify(folder) == [] and load_view(folder).cell == made
    assert [s.of for s in said if s.stage == "baseline" and s.state == "done"] == ["eager", "library"]


def hand_made(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    """Trials of this test are made without a process."""
    made = trial(status)

    def run(*_: object, master: bytes, **__: object) -> TrialResult:
        return replace(made, master=master.hex(), commitment=judge.commitment(master))

    monkeypatch.setattr(judge, "run_trial", run)


def test_what_has_no_score_is_compared_with_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hand_made(monkeypatch, "wrong")
    made, folder = grade(toy_request(tmp_path, baselines=("eager",), evidence=False))
    assert made.outcome == "wrong" and made.baselines == () and verify(folder) == []
    assert "baseline" not in [entry.kind for entry in Bundle.open(folder).entries()]


def test_a_baseline_that_the_problem_lacks_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Progress] = []
    hand_made(monkeypatch, "right")
    made, folder = grade(toy_request(tmp_path, baselines=("library", "eager"), evidence=False), said.append)
    assert made.outcome == "flagged" and [one.name for one in made.baselines] == ["eager"] and verify(folder) == []
    assert made.baselines[0].speedup == 1.0, "the same hand-made times"
    assert "the problem names no call of a library" in [s.text for s in said if s.stage == "baseline"]


def test_the_command_takes_names_with_commas_and_refuses_others_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grade_cli.parser().parse_args(["x.py", "--baseline", "eager, compile,eager"]).baseline == (
        "eager",
        "compile",
    )
    file = toy_request(tmp_path).submission
    words = ["grade", str(file), "--problem", "toy", "--problems-dir", str(tmp_path / "deck"), "--baseline", "numpy"]
    assert kbh_main(words) == 2
    err = capsys.readouterr().err
    assert "the baselines are eager, compile, library" in err and len(err.strip().splitlines()) == 1


def test_options_of_a_bundle_without_baselines_are_read_and_those_with_odd_ones_are_not() -> None:
    options = options_of(Request(Path("x.py"), "toy", baselines=("eager",)))
    assert json.loads(json.dumps(options))["baselines"] == ["eager"]
    assert options_from_json(options)["baselines"] == ("eager",)
    older = {name: value for name, value in options.items() if name != "baselines"}
    assert options_from_json(older)["baselines"] == ()
    for odd in ([1], "eager", None):
        with pytest.raises(GradeError):
            options_from_json({**options, "baselines": odd})
    with pytest.raises(GradeError, match="each once"):
        Request(Path("x.py"), "toy", baselines=("eager", "eager"))


# --- what is shown and kept --------------------------------------------------------------------------------


def test_text_and_page_show_times_and_speedups_and_what_is_wrong_with_a_baseline() -> None:
    view = View(cell("accepted", baselines=(EAGER, WRONG)))
    for shown in (text_of(view), page_of([view]).replace("&lt;", "<").replace("&gt;", ">")):
        assert "4 ms" in shown and "over eager" in shown and "no part of a score" in shown
        assert "2 times as fast by the geometric mean (the reference in eager PyTorch)" in shown
        assert "wrong: it raised ImportError: no <b>module</b>" in shown
    assert "<b>module" not in page_of([view])
    assert "baselines" not in text_of(View(cell("accepted"))) and "Baselines" not in page_of([View(cell("accepted"))])
    only = View(cell("accepted", baselines=(WRONG,)))
    assert "over library" not in text_of(only) and "over library" not in page_of([only])


def test_a_cell_without_a_score_is_compared_with_no_baseline_and_comes_back_from_json_as_it_was() -> None:
    made = cell("accepted", baselines=(EAGER, WRONG))
    assert cell_from_json(json.loads(json.dumps(cell_to_json(made)))) == made
    for outcome in ("withheld", "suspect", "wrong", "refused"):
        with pytest.raises(ValueError, match="is not compared with a baseline"):
            cell(outcome, baselines=(EAGER,))
        assert cell(outcome, baselines=(WRONG,)).baselines == (WRONG,)
    data = cell_to_json(made) | {"outcome": "withheld", "scores": None, "shapes": []}
    with pytest.raises(CodecError, match="is not compared with a baseline"):
        cell_from_json(data)


def test_where_a_baselines_clock_is_weak_its_claimed_time_is_compared_and_marked() -> None:
    kept = ShapeScore("a", 3e-3, 2e-5, 3e-3, 1e-6, 1e-6, "weak", 0, 3, 0.0, 0.1, 0.1, 0.1)
    for clock, seconds in (("weak", 2e-5), ("proved", 3e-3)):
        time = baselines._time(replace(kept, clock=clock), 1e-5)
        assert time.seconds == seconds and time.speedup == pytest.approx(seconds / 1e-5)
        shown = text_of(View(cell("accepted", baselines=(replace(EAGER, times=(time,)),))))
        assert ("(claimed)" in shown) == (clock == "weak")


def test_the_mean_of_speedups_is_geometric() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0) and math.isnan(geometric_mean([]))


def test_no_baseline_is_compared_where_one_shape_has_no_time() -> None:
    partial = replace(EAGER, times=(), speedup=None)
    assert "no comparison over all shapes" in text_of(View(cell("accepted", baselines=(partial,))))
