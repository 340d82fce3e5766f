"""The folder that `kbh problems new` writes: a small GEMM whose checker works, to be replaced part by part."""

from __future__ import annotations

import re
from pathlib import Path

from kbh_lint.authors import prompt
from kbh_lint.problems import load_problem

TEMPLATE = Path(__file__).resolve().parent / "template"
_ID = re.compile(r"\d{2}_[a-z0-9]+(_[a-z0-9]+)*")

_STEPS = """\
{path} holds a bf16 GEMM whose checker works. Make it your problem; each file says what belongs into it,
and nothing outside of the folder names a problem:

  1. problem.yaml   the operation, shapes, contract and promises; numbers stand here and nowhere else
  2. reference.py   Model, plain and eager, and oracle() in float64
  3. legal.py       what may be less precise than the oracle; then: kbh problems tolerance {path} --write
  4. cases.py       inputs with a structure that a lazy kernel would miss
  5. mutants.py     at least ten wrong kernels; then: kbh problems mutate {path}
  6. prompt.in.md   your words, with place holders for numbers; then: kbh problems render {path}
  7. honest/, decoys/, solutions.yaml: one kernel that keeps every promise, four that break one;
                    then: kbh problems solutions {path}

kbh-lint {path} says at every step what is still missing. When it says clean, on a GPU:
kbh problems verify {path} --device cuda --write. The tests of the deck run over every problem: pytest tests -k {id}."""


def write_problem(deck: Path, problem_id: str) -> Path:
    """Writes the folder `deck/problem_id`. Raises ValueError for a bad id or a folder that is there."""
    if not _ID.fullmatch(problem_id) or len(problem_id) > 60:
        raise ValueError(f"the id `{problem_id}` must be two digits, `_` and lower-case words, as in 11_my_problem")
    folder = deck / problem_id
    if folder.exists():
        raise ValueError(f"{folder} is there already")
    folder.mkdir(parents=True)
    for source in sorted(TEMPLATE.rglob("*.txt")):
        text = source.read_text(encoding="utf-8").replace("PROBLEM_ID", problem_id)
        written = folder / source.relative_to(TEMPLATE).with_suffix("")
        written.parent.mkdir(exist_ok=True)
        written.write_text(text, encoding="utf-8")
    problem = load_problem(folder / "problem.yaml")
    (folder / prompt.PROMPT).write_text(prompt.write(folder, problem), encoding="utf-8")
    return folder


def next_steps(folder: Path) -> str:
    """The text that says what the author of a new folder does next."""
    return _STEPS.format(path=folder, id=folder.name)
