"""A small problem with a submission, and trials of it by real processes, for tests of the judge."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from toy import HONEST, solution, toy_problem
from warm import Warm

from grader.judge.judging import TrialOptions, replay, run_trial
from grader.record.cell import TrialResult
from grader.record.spread import Wanted
from grader.sandbox import choose
from grader.sandbox.snapshot import Snapshot, snapshot
from kbh_lint.problems import Problem

MASTER = bytes(range(32))


OPTIONS = TrialOptions(4, 3, 2, 60.0, 20.0, None, 2)


EXACT = Wanted(math.inf)  # in two processes, with as many samples as others


class Ground:
    """A problem, a submission and a scratch folder."""

    def __init__(self, folder: Path, text: str, cold: bool = False) -> None:
        self.problem: Problem = toy_problem(folder)
        self.scratch = folder / "scratch"
        self.snapshot: Snapshot = snapshot(solution(folder, text), self.scratch / "submission")
        self.logs: list[str] = []
        plain = choose(device="cpu", wanted="plain")
        self.sandbox: Any = plain if cold else Warm(plain)

    @property
    def label(self) -> str:
        """The one shape that is graded."""
        return self.problem.reduced[0].label

    def keep(self, text: str) -> str:
        self.logs.append(text)
        return "kept"

    def settings(self, options: TrialOptions) -> dict[str, object]:
        return {
            "device": "cpu", "scale": "reduced", "options": options, "sandbox": self.sandbox,
            "scratch": self.scratch, "progress": lambda text: None,
        }  # fmt: skip

    def trial(self, options: TrialOptions = OPTIONS, master: bytes = MASTER) -> TrialResult:
        return run_trial(
            self.problem, self.snapshot, index=0, master=master, caches=None, keep_log=self.keep,
            **self.settings(options),  # type: ignore[arg-type]
        )  # fmt: skip

    def replay(self, trial: TrialResult) -> tuple[str, ...]:
        return replay(self.problem, self.snapshot, trial, caches=None, **self.settings(OPTIONS))  # type: ignore[arg-type]


def forward(body: str, before: str = "") -> str:
    """The honest submission with another body of forward."""
    text = HONEST.partition("        return (x")[0].replace("class Model", before + "\nclass Model")
    return text + "".join(f"        {line}\n" for line in body.splitlines())


RIGHT = "y = (x @ self.w) * (torch.arange(len(x)) < used)[:, None]\n"
