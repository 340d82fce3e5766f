"""The hook, run by the real pre-commit from a copy of this checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from grader.authoring.new_problem import write_problem

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "01_fp8_gemm"
SHIPPED = (
    "kbh_lint",
    "grader",
    "rules",
    "problems",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    ".pre-commit-hooks.yaml",
)

Hook = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("pre_commit") is None, reason="pre-commit is not installed (it is in the dev extra)"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def committed(folder: Path) -> str:
    """Makes the folder a repository with everything in one commit; returns its id."""
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def hooks(of_all_workers: Path, once: Callable[..., Any]) -> tuple[Path, str]:
    """The repository of the hooks and its revision: the same for all workers, so that its environment is made once."""
    folder = of_all_workers / "hooks"

    def made() -> str:
        folder.mkdir()
        for name in SHIPPED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / name)
        return committed(folder)

    return folder, once("pre-commit-hooks", made)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, hooks: tuple[Path, str]) -> Path:
    """A repository with a solution, whose pre-commit configuration is the one that the README shows."""
    project = tmp_path_factory.mktemp("project")
    (project / "solutions" / "01_fp8_gemm").mkdir(parents=True)
    shutil.copy(EXAMPLES / "honest.py", project / "solutions" / "01_fp8_gemm")
    (project / "setup.py").write_text("print('not a solution')\n")
    shown = re.search(r"```yaml\n(repos:.+?- id: kbh-lint\n.+?)```", (ROOT / "README.md").read_text(), re.S)
    assert shown is not None
    config = shown[1].replace("<path or URL of this repository>", str(hooks[0]))
    config = config.replace("<tag or commit>", hooks[1])
    config += "      - id: kbh-lint-problems\n        files: ^problems/\n"
    base = ROOT / "tests" / "authors" / "base" / "11_bf16_gemm"
    shutil.copytree(base, project / "problems" / base.name, ignore=shutil.ignore_patterns("__pycache__"))
    write_problem(project / "problems", "12_row_gain")
    (project / ".pre-commit-config.yaml").write_text(config)
    committed(project)
    return project


@pytest.fixture
def run_hook(project: Path, hooks: tuple[Path, str]) -> Hook:
    """Runs a hook in the project; pre-commit itself lets one make the environment while others wait."""
    return partial(_run_hook, project, hooks[0].with_name("pre-commit-home"))


def _run_hook(project: Path, home: Path, *words: str, hook: str = "kbh-lint") -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"PRE_COMMIT_HOME": str(home), "PRE_COMMIT_COLOR": "never"}
    command = [sys.executable, "-m", "pre_commit", "run", hook, "--verbose", *words]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)


def test_the_hook_passes_an_honest_file(run_hook: Hook) -> None:
    done = run_hook("--files", "setup.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 file: 1 clean" in done.stdout


def test_the_hook_stops_a_leaking_file_and_one_whose_problem_nothing_names(project: Path, run_hook: Hook) -> None:
    text = (EXAMPLES / "leaking.py").read_text()
    files = project / "solutions" / "01_fp8_gemm" / "leaking.py", project / "solutions" / "nameless.py"
    for file in files:
        file.write_text(text)
    try:
        done = run_hook("--all-files")
    finally:
        for file in files:
            file.unlink()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "KBH101" in done.stdout and "leaking.py" in done.stdout
    assert "nameless.py is not accepted: no contract matched" in done.stdout
    assert "setup.py" not in done.stdout


def test_the_authors_hook_passes_a_finished_problem_whatever_file_of_it_changed(project: Path, run_hook: Hook) -> None:
    beside = project / "problems" / "11_bf16_gemm" / "decoys" / "library.cuh"
    beside.write_text("constexpr int rows = 64;\n")
    done = run_hook("--files", str(beside.relative_to(project)), hook="kbh-lint-problems")
    beside.unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "problems/11_bf16_gemm/problem.yaml: clean" in done.stdout
    assert "12_row_gain" not in done.stdout
    assert "not checked without the grade extra" in done.stdout or "not checked: FLOP counts" in done.stdout


def test_the_authors_hook_stops_a_new_problem_and_says_what_is_missing(run_hook: Hook) -> None:
    done = run_hook("--all-files", hook="kbh-lint-problems")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "12_row_gain" in done.stdout
    assert all(rule in done.stdout for rule in ("KBH902", "KBH914", "KBH920"))


def test_the_authors_hook_finds_a_number_that_was_changed_in_one_place_only(project: Path, run_hook: Hook) -> None:
    file = project / "problems" / "11_bf16_gemm" / "problem.yaml"
    before = file.read_text()
    file.write_text(before.replace("M: 8192, N: 4096, K: 4127", "M: 8192, N: 2048, K: 4127"))
    try:
        done = run_hook("--files", "problems/11_bf16_gemm/problem.yaml", hook="kbh-lint-problems")
    finally:
        file.write_text(before)
    assert done.returncode == 1
    assert "KBH912" in done.stdout and "prompt.md" in done.stdout
