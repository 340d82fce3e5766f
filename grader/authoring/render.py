"""The prompt of a problem, and the workspace that an agent gets; needs no torch.

A workspace holds the prompt, the reference, the part of problem.yaml that a solution must know, and `check.py`, which
runs the checker on the public seeds. The plan of the cases, the legal model and the mutants stay out of it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from kbh_lint.authors import prompt
from kbh_lint.authors.prompt import PromptError
from kbh_lint.base import paths
from kbh_lint.problems import Problem

PUBLIC_SEEDS = (42, 123, 456)
SHOWN = (
    "id", "title", "status", "regime", "precision", "operation", "flops", "bytes", "work", "form", "targets", "shapes",
    "contracts", "promises", "bans",
)  # fmt: skip
_KEY = re.compile(r"^(?=[a-z_]+:)", re.M)

CHECK = '''"""Checks solution.py as the grader does, on public seeds: `python check.py`, or with the options of
`kbh problems check`. Needs torch and kbh."""

import sys

from grader.cli.problems import main

raise SystemExit(main([{folder}"check", "{problem}", "solution.py", {seeds}, *sys.argv[1:]]))
'''


def folder_of(problem: Problem) -> Path:
    """The problem's folder."""
    return Path(problem.path).resolve().parent


def write_prompt(problem: Problem) -> Path:
    """Renders prompt.md beside problem.yaml. Raises PromptError."""
    path = folder_of(problem) / prompt.PROMPT
    path.write_text(prompt.write(folder_of(problem), problem), encoding="utf-8")
    return path


def write_workspace(problem: Problem, out: Path) -> list[Path]:
    """Writes an agent's workspace into `out`, which must be empty or new. Raises PromptError, OSError."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise PromptError(1, f"{out} is not an empty folder")
    seeds = ", ".join(f'"--seed", "{seed}"' for seed in PUBLIC_SEEDS)
    check = CHECK.format(problem=problem.id, seeds=seeds, folder=_elsewhere(problem))
    files = {**workspace_texts(problem), "check.py": check}
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in files]


def workspace_texts(problem: Problem) -> dict[str, str]:
    """What an agent is given to read: prompt, reference, and the part of problem.yaml. Raises PromptError, OSError."""
    reference = folder_of(problem) / "reference.py"
    if not reference.is_file():
        raise PromptError(1, f"{problem.id} has no reference.py")
    return {
        prompt.PROMPT: prompt.write(folder_of(problem), problem),
        "reference.py": reference.read_text(encoding="utf-8"),
        "problem.yaml": excerpt((folder_of(problem) / "problem.yaml").read_text(encoding="utf-8")),
    }


def _elsewhere(problem: Problem) -> str:
    """The option that finds a problem which is not of the project's own deck."""
    deck = folder_of(problem).parent
    return "" if deck == paths.problems_dir().resolve() else f'"--problems-dir", {json.dumps(str(deck))}, '


def excerpt(text: str) -> str:
    """The top-level keys of a problem.yaml that a solution must know, as they are written."""
    blocks = (block for block in _KEY.split(text) if block.partition(":")[0] in SHOWN)
    return "".join(block.rstrip("\n") + "\n" for block in blocks)
