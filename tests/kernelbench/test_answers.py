"""Which problem of a folder or of a manifest an answer belongs to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.cli import main
from kbh_lint.marked import DataError
from kbh_lint.source.answers import AnswersError, ProblemFiles
from kbh_lint.source.profiles import KERNELBENCH

PROBLEM = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.{operation}()


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""
ANSWER = (
    "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.{operation}()\n"
)


@pytest.fixture
def deck(tmp_path: Path) -> Path:
    """A folder with four problems in two levels, two of them of one name, and what is none."""
    folder = tmp_path / "deck"
    for path, operation in (
        ("level1/7_Sine.py", "sin"),
        ("level1/17_Cosine.py", "cos"),
        ("level2/7_Tangent.py", "tan"),
        ("level2/17_Cosine.py", "cos"),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(PROBLEM.format(operation=operation))
    (folder / "helpers.py").write_text("def get_inputs():\n    return []\n")
    (folder / "level1" / "linked.py").symlink_to(folder / "level1" / "7_Sine.py")
    return folder


def found(place: Path, answer: str, *match: str) -> str:
    """The problem of an answer by its path under the folder, or why there is none."""
    files = ProblemFiles.read(place, match, KERNELBENCH, "")
    file, why = files.file_for(place.parent / answer)
    return f"{file.parent.name}/{file.name}" if file is not None else why


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("runs/a/level_1_problem_7_sample_0_kernel.py", "level1/7_Sine.py"),
        ("runs/a/level_2_problem_7_sample_3_kernel.py", "level2/7_Tangent.py"),
        ("runs/level1/17/solution.py", "level1/17_Cosine.py"),
        ("runs/level_2/problem_17/try.py", "level2/17_Cosine.py"),
        ("runs/7_Sine.py", "level1/7_Sine.py"),
        ("runs/7_Tangent/solution.py", "level2/7_Tangent.py"),
        ("runs/20260101_model_7_Tangent_x/solution.py", "level2/7_Tangent.py"),
    ],
)
def test_names_that_benchmarks_give_are_known(deck: Path, answer: str, problem: str) -> None:
    assert found(deck, answer) == problem


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("runs/level_3_problem_7_sample_0_kernel.py", "nothing in its name says"),
        ("runs/17_Cosine.py", "nothing in its name says"),  # two have this name
        ("runs/x7_Sine.py", "nothing in its name says"),
    ],
)
def test_an_answer_without_one_problem_has_none_and_is_told_so(deck: Path, answer: str, words: str) -> None:
    assert words in found(deck, answer)


def test_a_pattern_of_ones_own_comes_first(deck: Path) -> None:
    assert found(deck, "out/task-7-b.py", "task-{n}-*.py=level1/{n}_*.py") == "level1/7_Sine.py"
    assert found(deck, "out/7_Tangent.py", "out/{n}_*.py=level1/{n}_*.py") == "level1/7_Sine.py"
    assert "fits 2 problems" in found(deck, "out/task-7-b.py", "task-{n}-*.py={n}_*.py")


@pytest.mark.parametrize("text", ["", "a", "=b", "a=", "{x}=x{y}.py", "{x}{x}=a.py"])
def test_a_pattern_that_is_none_is_told(deck: Path, text: str) -> None:
    with pytest.raises(AnswersError, match="is no pattern ANSWER=PROBLEM"):
        ProblemFiles.read(deck, [text], KERNELBENCH, "")


def test_a_manifest_names_the_problem_of_each_answer(deck: Path) -> None:
    manifest = deck / "answers.json"
    manifest.write_text(json.dumps({"runs/b/*.py": "level2/7_Tangent.py", "c.py": "level1/7_Sine.py"}))
    files = ProblemFiles.read(manifest, [], KERNELBENCH, "")
    for answer, name in (("runs/b/1.py", "7_Tangent"), ("x/c.py", "7_Sine")):
        file, where = files.file_for(deck.parent / answer)
        assert file is not None and file.stem == name and where == "answers.json"
    file, why = files.file_for(deck.parent / "d.py")
    assert file is None and "names no problem" in why


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("a.py: lost.py\n", AnswersError, "is no file"),
        ("a.py: [x]\n", DataError, "must be text"),
        ("- a\n", DataError, "one mapping"),
        ("{}\n", AnswersError, "names no answer"),
    ],
)
def test_a_malformed_manifest_is_told(deck: Path, text: str, error: type[Exception], words: str) -> None:
    manifest = deck / "answers.yaml"
    manifest.write_text(text)
    with pytest.raises(error, match=words):
        ProblemFiles.read(manifest, [], KERNELBENCH, "")


def test_a_folder_without_problems_and_what_is_no_folder_are_told(tmp_path: Path) -> None:
    for place, words in ((tmp_path, "holds no problem"), (tmp_path / "lost", "neither a folder")):
        with pytest.raises(AnswersError, match=words):
            ProblemFiles.read(place, [], KERNELBENCH, "")


def test_one_run_lints_answers_to_many_problems(deck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = deck.parent / "runs"
    runs.mkdir()
    for name, operation in (("7_Sine", "sin"), ("7_Tangent", "tan"), ("lost", "exp")):
        (runs / f"{name}.py").write_text(ANSWER.format(operation=operation))
    report = kbh_lint.lint([runs], problems=deck)
    verdicts = {Path(file.path).stem: (file.problem, file.verdict) for file in report.files}
    assert verdicts == {
        "7_Sine": ("7_Sine", "reward_hack"),
        "7_Tangent": ("7_Tangent", "reward_hack"),
        "lost": (None, "unproven"),
    }
    assert main(["--no-cache", "--problems", str(deck), str(runs)]) == 1
    assert "nothing in its name says which problem" in capsys.readouterr().out
    twice = ["--problem-file", str(deck / "level1/7_Sine.py")] * 2
    assert main(["--no-cache", *twice, str(runs)]) == 2
    assert "for several problems give --problems" in capsys.readouterr().err
    assert main(["--no-cache", "--problems", str(deck), "--problem", "01_fp8_gemm", str(runs)]) == 2
    assert "give one of these" in capsys.readouterr().err
