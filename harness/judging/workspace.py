"""The files that an agent's workspace begins with: what it reads, and the two programs that ask the judge."""

from __future__ import annotations

from pathlib import Path

from grader.authoring.render import workspace_texts
from kbh_lint.authors.prompt import PROMPT, PromptError
from kbh_lint.problems import Problem

__all__ = ["PromptError", "workspace_files"]

CLIENT = Path(__file__).with_name("client.py")
MARK = 'WHAT = "check"\n'


def workspace_files(
    problem: Problem, *, budget_s: float, target: str = "cpu", product: str = "", gpu_in_room: bool = False
) -> dict[str, bytes]:
    """prompt.md, reference.py, problem.yaml (what a solution must know of it), check.py and benchmark.py, by name.

    `target` and `product` are those of the GPU that the run is for ("cpu": reduced shapes); `gpu_in_room` says whether
    the agent itself can use it. Raises PromptError and OSError for a problem without its files.
    """
    texts = workspace_texts(problem)
    texts[PROMPT] += "\n" + about_the_run(budget_s, target, product, gpu_in_room=gpu_in_room)
    client = CLIENT.read_text(encoding="utf-8")
    texts["check.py"] = client
    texts["benchmark.py"] = client.replace(MARK, MARK.replace("check", "benchmark"))
    return {name: text.encode("utf-8") for name, text in texts.items()}


def about_the_run(budget_s: float, target: str, product: str, *, gpu_in_room: bool) -> str:
    """The part of the prompt that is about one run: time, GPU, and how to ask the judge."""
    if target == "cpu":
        where = (
            "There is no GPU here. The judge runs the kernels on a CPU, at reduced shapes and with Triton interpreted, "
            "so times say little about a GPU."
        )
    elif gpu_in_room:
        where = f"The GPU is {_gpu(target, product)}, and you can use it here; others may be timed on it meanwhile."
    else:
        where = f"The GPU is {_gpu(target, product)}. It is not in this room: the judge runs the kernels on it for you."
    return f"""\
## This run

You have {_minutes(budget_s)} of wall-clock time. What `solution.py` holds when you are done, or when the time is up, is
graded once on inputs that nobody has seen; keep a version there that works.

{where} There is no network.

- `python check.py` has a judge outside this room check `solution.py` on public seeds. Exit status 0: right, 1: wrong,
  2: it could not be judged.
- `python benchmark.py` has it timed on a public seed, and prints each shape's time, the least time there could be, and
  the fraction. It is practice: the grading takes more samples on other inputs, and that score counts.

Both take turns with other agents on the same machine, one request of yours at a time, and say so while they wait. Leave
the files that were here at the start as they are; your files may lie beside them.
"""


def _gpu(target: str, product: str) -> str:
    return f"{product} (`{target}`)" if product else f"`{target}`"


def _minutes(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes"
