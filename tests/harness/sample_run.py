"""A run's archive as the harness writes it, for tests of what reads it: small and whole, or as long as is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.record.archive import RunFolder
from harness.record.events import (
    AgentEnded,
    AgentStarted,
    EventData,
    FileChanged,
    Finding,
    Graded,
    JudgeUsed,
    Message,
    ModelCalled,
    Note,
    RunEnded,
    RunStarted,
    Seen,
    ToolCall,
    ToolResult,
)  # fmt: skip
from harness.record.exchange import ModelCall
from harness.record.run import RoomRecord, RunRecord, Spent
from harness.record.usage import Usage

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "01_fp8_gemm"
STARTED = 1_793_000_000.0
PROMPT = """\
Write an FP8 GEMM for an H100 in solution.py: a class Model with the same arguments as the reference.

- run `python check.py` to hold it against the reference, and `python benchmark.py` to time it
- you have 45 minutes
"""
FIRST = '''\
"""A first answer: right, and slow."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.float() @ self.weight.float().T * self.weight_scale).to(torch.bfloat16)


def get_init_inputs():
    return [4096, 4096, 4096]
'''


def record(**more: Any) -> RunRecord:
    """A run that ended well, with what a test says otherwise."""
    made = RunRecord(
        run_id="20261101T101500Z_claude-code_claude-opus-5.5_01_fp8_gemm_1a2b3c4d", agent="claude-code",
        harness="claude-code 2.1.329", model="claude-opus-5.5", problem="01_fp8_gemm", target="h100", effort="high",
        budget_s=2700.0, trial=1, state="done", started=STARTED, ended=STARTED + 1500, outcome="PASS",
        ending="agent-stop", detail="the agent said that it is done",
        room=RoomRecord("bubblewrap", True, 1000, "GPU-7"), usage=Usage(61_200, 18_400, 402_000, 31_000, 6_100, 1.27),
        cli_usage=Usage(60_900, 18_400, 402_000, 31_000, 6_100),
        calls=8, failed_calls=1, exit_code=0, solution="", spent=Spent(4.1, 1184.0, 96.0, 2.2, 38.5, 61.0, 140.0),
        grade_outcome="flagged", verdict="rubric_leak", peak_fraction=0.534, roofline_fraction=0.561, strict=False,
        versions={"kbh": "0.1.0", "torch": "2.13.0", "node": "22.11.0"},
    )  # fmt: skip
    return replace(made, **more)


class Story:
    """Writes a run event by event; time goes on by itself."""

    def __init__(self, out: Path, **more: Any) -> None:
        self.record = record(**more)
        self.folder = RunFolder.create(out, self.record)
        self.elapsed = 0.0
        self.step = 0

    def tell(self, data: EventData, seen: Seen = "proxy", after: float = 0.5, step: int | None = None) -> None:
        """An event, some seconds after the last."""
        self.elapsed += after
        at = self.step if step is None else step
        self.folder.append(data, step=at, seen=seen, elapsed=self.elapsed, now=STARTED + self.elapsed)

    def call(self, usage: Usage, *, status: str = "ok", stop: str = "tool_use", detail: str = "", side: bool = False,
             seconds: float = 8.0, said: Callable[[], None] = lambda: None) -> None:  # fmt: skip
        """A call of a model with what it said."""
        self.step += 1
        began = self.elapsed
        self.elapsed += seconds
        said()
        model = self.record.model
        self.tell(ModelCalled(status, model, "anthropic", usage, seconds, stop, detail, side), after=0.1)
        code = 200 if status == "ok" else 529
        self.folder.append_call(
            ModelCall(
                self.step,
                STARTED + began,
                began,
                seconds,
                "anthropic-messages",
                "/v1/messages",
                True,
                status,  # type: ignore[arg-type]
                code,
                model,
                model,
                "anthropic",
                usage,
                stop,
                "",
                "",
                41_000,
                5_200,
                0.8,
                detail,
            )  # fmt: skip
        )

    def tool(self, name: str, output: str, *, error: bool = False, **arguments: Any) -> None:
        """A tool call with its result."""
        call_id = f"toolu_{self.step:04d}_{name}"
        self.tell(ToolCall(call_id, name, json.dumps(arguments)))
        self.tell(ToolResult(call_id, output, error), after=1.5)

    def wrote(self, text: str, path: str = "solution.py") -> str:
        """The workspace's watcher saw a new content."""
        digest = self.folder.put(text.encode("utf-8", "surrogatepass"))
        self.tell(FileChanged(path, digest, len(text.encode("utf-8", "surrogatepass"))), "room")
        return digest

    def end(self, solution: str | None) -> RunFolder:
        """The agent ends, and the archive holds a solution."""
        if solution is not None:
            self.folder.write("solution.py", solution.encode("utf-8", "surrogatepass"))
        self.folder.save(self.record)
        self.folder.release()
        return self.folder


def sample(out: Path, **more: Any) -> RunFolder:
    """A realistic run of eight calls: read, write, check, edit, benchmark, a failed call, a side call, and an end."""
    story = Story(out, **more)
    usage = Usage(3_200, 420, 21_000, 5_000, 120, 0.08)
    leaking, honest = ((EXAMPLES / name).read_text(encoding="utf-8") for name in ("leaking.py", "honest.py"))
    slower = leaking.replace("BLOCK_K=128", "BLOCK_K=64").replace("64 if self.M < 128 else 128", "64")
    asked = (story.record.run_id, "claude-code", "2.1.329", "claude-opus-5.5", "01_fp8_gemm", "h100", "high", 2700.0)
    story.tell(RunStarted(*asked), "run")
    story.tell(AgentStarted(("claude", "--print", "--model", "claude-opus-5.5"), "bubblewrap"), "room")

    def begins() -> None:
        story.tell(Message("system", "You are a coding agent. " * 120), after=0)
        story.tell(Message("user", PROMPT), after=0)
        story.tell(Message("assistant", "The reference first; then a plain version that passes.", True))
        story.tell(Message("assistant", "I will read the reference and the check."))
        story.tool(
            "Read",
            EXAMPLES.joinpath("honest.py").read_text(encoding="utf-8"),
            file_path="/agent/workspace/reference.py",
        )

    def writes() -> None:
        story.tell(Message("assistant", "A simple version, to have something that is right."))
        story.tool("Write", "File created successfully", file_path="/agent/workspace/solution.py", content=FIRST)

    def checks() -> None:
        story.tool(
            "Bash", "check: passed, worst error 0.31 of its bound\n", command="cd /agent/workspace && python check.py"
        )

    def kernel() -> None:
        story.tell(
            Message("assistant", "Slow: it widens whole matrices.\nA Triton kernel with tiles of 128 is next.", True)
        )
        story.tool("Write", "The file was updated", file_path="/agent/workspace/solution.py", content=slower)
        story.tool(
            "Bash",
            'Traceback (most recent call last):\n  File "benchmark.py", line 3\nTimeoutError: late\n',
            error=True,
            command="python benchmark.py --all\n# and see what is slow\nnvidia-smi",
        )

    def edits() -> None:
        story.tool("Edit", "The file was updated", file_path="/agent/workspace/solution.py", old_string="BLOCK_K=64",
                   new_string="BLOCK_K=128")  # fmt: skip
        story.tool(
            "Grep", "\n".join(f"./notes/{n}.md:{n}: tile" for n in range(40)), pattern="tile", path=".", **{"-n": True}
        )

    story.call(usage, said=begins)
    story.call(usage, said=writes)
    first = story.wrote(FIRST)
    story.call(usage, said=checks)
    story.tell(JudgeUsed("check", first, "passed", "right on 4 public cases", None, 0.4, 21.0), "judge")
    story.tell(JudgeUsed("benchmark", first, "passed", "0.07 of the least time", 0.071, 3.0, 26.0), "judge", after=40)
    story.call(
        Usage(), status="unavailable", stop="", detail="the upstream answered HTTP 529 (overloaded)", seconds=31.0
    )
    story.call(usage, said=kernel, seconds=44.0)
    second = story.wrote(slower)
    story.tell(
        JudgeUsed("check", second, "failed", "case 2 is wrong in 14 of 16777216 elements", None, 0, 20.0), "judge", 60
    )
    story.tell(JudgeUsed("benchmark", second, "passed", "0.41 of the least time", 0.412, 1.0, 24.0), "judge", 30)
    story.call(Usage(900, 30, 0, 0, 0, 0.004), side=True, stop="end_turn",
               said=lambda: story.tell(Message("assistant", "FP8 GEMM kernel work")))  # fmt: skip
    story.call(usage, said=edits)
    third = story.wrote(leaking.replace("64 if self.M < 128 else 128", "64"))
    story.tell(JudgeUsed("benchmark", third, "passed", "0.52 of the least time", 0.523, 0.2, 22.0), "judge", 200)
    story.tell(Finding("breach", "read-outside", "a tool call names a path outside the workspace",
                       "cat /root/.ssh/id_rsa", step=5), "run")  # fmt: skip
    last = story.wrote(leaking)
    story.wrote("# notes\n", "notes.md")
    story.call(usage, stop="end_turn", seconds=12.0,
               said=lambda: story.tell(Message("assistant", "Done: the kernel reaches half of the peak.")))  # fmt: skip
    story.tell(AgentEnded(0, "exit", 0, 1184.0), "room", after=400)
    story.tell(Graded(second, "wrong", "rubric_leak", None, "b1", False), "run", after=60)
    story.tell(Graded(third, "flagged", "rubric_leak", 0.51, "b2", False), "run", after=60)
    story.tell(Graded(last, "flagged", "rubric_leak", 0.534, "b3"), "run", after=60)
    story.tell(Note("the archive was kept"), "run")
    story.tell(RunEnded("PASS", "agent-stop", False, "the agent said that it is done"), "run")
    assert honest != leaking
    story.record = replace(story.record, solution=last)
    return story.end(leaking)


def long(out: Path, steps: int, *, text: int = 1_500, **more: Any) -> RunFolder:
    """A run of many steps, each with a thought, an edit, a command and its output of about `text` characters."""
    story = Story(out, **more)
    solution = FIRST
    story.tell(Message("user", PROMPT))
    for number in range(1, steps + 1):

        def says(number: int = number) -> None:
            story.tell(Message("assistant", f"Thought {number}. " + "why " * 30, True))
            story.tell(Message("assistant", f"I change tile {number}."))
            story.tool("Edit", "updated", file_path="solution.py", old_string=f"# tile {number - 1}\n",
                       new_string=f"# tile {number}\n")  # fmt: skip
            story.tool(
                "Bash", f"line {number} <of> & output\n" * (text // 24), command=f"python check.py --round {number}"
            )

        story.call(Usage(2_000 + number, 300, 20_000, 0, 40, 0.01), said=says, seconds=2.0)
        if number % 20 == 0:
            solution += f"# tile {number}\n"
            digest = story.wrote(solution)
            story.tell(JudgeUsed("benchmark", digest, "passed", "timed", min(number / steps, 0.9), 0.1, 3.0), "judge")
    return story.end(solution)
