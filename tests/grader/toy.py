"""The problem of examples/toy in a folder of its own, for tests: y = x @ w with a ragged number of rows in use."""

from __future__ import annotations

from pathlib import Path

from kbh_lint.problems import Problem, load_problem

TOY = Path(__file__).resolve().parents[2] / "examples" / "toy"
PROBLEM, REFERENCE, CASES = ((TOY / name).read_text() for name in ("problem.yaml", "reference.py", "cases.py"))
KERNEL = (TOY / "kernel.py").read_text()
HONEST = REFERENCE.partition("\n\ndef oracle")[0]


def toy_problem(folder: Path) -> Problem:
    """Writes the problem below `folder` and reads it."""
    here = folder / "toy"
    here.mkdir()
    for name, text in {"problem.yaml": PROBLEM, "reference.py": REFERENCE, "cases.py": CASES}.items():
        (here / name).write_text(text)
    return load_problem(here / "problem.yaml")


def solution(folder: Path, text: str, name: str = "solution.py") -> Path:
    """Writes a submission."""
    file = folder / name
    file.write_text(text)
    return file
