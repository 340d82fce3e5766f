"""Prompts and workspaces."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from grader.authoring.render import excerpt, folder_of, write_workspace
from kbh_lint.authors.prompt import PromptError, render
from kbh_lint.base import paths
from kbh_lint.marked import load
from kbh_lint.problems import load_deck, load_problem

DECK = load_deck(paths.problems_dir())
GRADED = [name for name in DECK.ids if DECK[name].contracts]


@pytest.mark.parametrize("name", GRADED)
def test_a_prompt_tells_shapes_tolerance_bans_and_promises(name: str) -> None:
    problem = DECK[name]
    folder = Path(problem.path).parent
    text = (folder / "prompt.md").read_text()
    assert text == render(problem, (folder / "prompt.in.md").read_text())
    flat = " ".join(text.split())
    assert all(str(value) in text for shape in problem.shapes for value in shape.symbols.values() if type(value) is int)
    assert all(f"`{ban.symbol}`" in flat for ban in problem.bans)
    assert all(" ".join(promise.text.split()) in flat for promise in problem.promises_for("deck"))
    if next(iter(problem.contracts.values())).compare.metric != "selection":
        assert all(f"{number:g}" in flat for number in problem.contracts["deck"].tolerance.values())
    assert "{{" not in text


def test_an_unknown_place_holder_is_told_with_its_line() -> None:
    with pytest.raises(PromptError, match="no `{{tolerence}}`") as caught:
        render(DECK["01_fp8_gemm"], "One line.\n\n{{ tolerence }}\n")
    assert caught.value.line == 3


def test_a_workspace_holds_what_an_agent_may_know(tmp_path: Path) -> None:
    names = [path.name for path in write_workspace(DECK["06_sonic_moe_swiglu"], tmp_path / "ws")]
    assert names == ["prompt.md", "reference.py", "problem.yaml", "check.py"]
    keys = set(load((tmp_path / "ws" / "problem.yaml").read_text(), "problem.yaml"))
    assert {"shapes", "contracts", "promises", "bans"} <= keys
    assert not {"cases", "stress", "legal", "reduced"} & keys
    check = (tmp_path / "ws" / "check.py").read_text()
    assert all(f'"--seed", "{seed}"' in check for seed in (42, 123, 456))
    compile(check, "check.py", "exec")


def test_the_check_of_a_problem_in_another_folder_looks_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr("grader.cli.problems.main", lambda words: asked.append(words) or 0)
    monkeypatch.setattr("sys.argv", ["check.py"])
    theirs = tmp_path / "problems" / "01_fp8_gemm"
    shutil.copytree(folder_of(DECK["01_fp8_gemm"]), theirs, ignore=shutil.ignore_patterns("evidence", "decoys"))
    for number, problem in enumerate((load_problem(theirs / "problem.yaml"), DECK["01_fp8_gemm"])):
        write_workspace(problem, tmp_path / str(number))
        with pytest.raises(SystemExit):
            runpy.run_path(str(tmp_path / str(number) / "check.py"))
    own, deck = asked
    assert own[:4] == ["--problems-dir", str(tmp_path / "problems"), "check", "01_fp8_gemm"] and deck == own[2:]


def test_a_workspace_is_not_written_over_somebodys_files(tmp_path: Path) -> None:
    (tmp_path / "solution.py").write_text("mine\n")
    with pytest.raises(PromptError, match="is not an empty folder"):
        write_workspace(DECK["01_fp8_gemm"], tmp_path)
    assert (tmp_path / "solution.py").read_text() == "mine\n"


def test_an_excerpt_keeps_the_lines_as_they_are_written() -> None:
    assert (
        excerpt("id: a\nlegal:\n  - {x: 1}\nshapes:\n  - {M: 4}  # why\n\ncases: []\n")
        == "id: a\nshapes:\n  - {M: 4}  # why\n"
    )
