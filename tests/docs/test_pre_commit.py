"""The hook, run by the real pre-commit from a copy of this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("kbh_lint", "rules", "problems", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml")

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
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two solutions whose pre-commit configuration names this linter."""
    hooks = tmp_path_factory.mktemp("hooks")
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, hooks / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, hooks / name)
    revision = committed(hooks)
    project = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "examples" / "01_fp8_gemm", project / "solutions" / "01_fp8_gemm")
    (project / "setup.py").write_text("print('not a solution')\n")
    config = f"repos:\n- repo: {hooks}\n  rev: {revision}\n  hooks:\n  - id: kbh-lint\n    files: ^solutions/\n"
    (project / ".pre-commit-config.yaml").write_text(config)
    committed(project)
    return project


def run_hook(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    home = project.parent / "pre-commit-home"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"PRE_COMMIT_HOME": str(home), "PRE_COMMIT_COLOR": "never"}
    command = [sys.executable, "-m", "pre_commit", "run", "kbh-lint", "--verbose", *words]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)


def test_the_hook_passes_an_honest_file(project: Path) -> None:
    done = run_hook(project, "--files", "solutions/01_fp8_gemm/honest.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 file: 1 clean" in done.stdout


def test_the_hook_stops_a_leaking_file_and_shows_why(project: Path) -> None:
    done = run_hook(project, "--all-files")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "KBH101" in done.stdout and "leaking.py" in done.stdout
    assert "setup.py" not in done.stdout
