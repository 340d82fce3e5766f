"""`kbh run`: lets an agent work on a problem in a sealed room, and grades what it made."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from grader.authoring.common import TROUBLE, CommandError, need_grade
from grader.record.bundle.codec import to_json
from harness.proxy.base import Caps
from harness.record.run import RunRecord
from harness.running.display import Display, clock
from harness.running.request import MOST_TRIALS, RunError, RunRequest, duration

__all__ = ["main", "parser", "said"]

DONE, FAILED, INTERRUPTED = 0, 1, 130
NEEDS = ("aiohttp",)
ERRORS = frozenset({
    "AgentError", "ArchiveError", "CommandError", "DataError", "DeckError", "InstallError", "JudgeError", "PromptError",
    "RoomError", "RouteError", "RunError", "SandboxError", "ScriptError", "TargetError", "UsageError",
})  # fmt: skip

_EPILOG = """\
The agent gets a room: a workspace with the reference, check.py, benchmark.py and the prompt, a home of its own, one GPU
where there is one, and no way out but to its model, through a proxy that holds the key, pins model and provider, and
records every call. When the agent ends, or its budget does, nothing of it is left; what it wrote is graded.

examples:
  kbh agents install claude                               once: the CLI, by exact version
  kbh run claude anthropic/claude-opus-4-8 05_topk_bitonic
  kbh run codex openai/gpt-5.5 01_fp8_gemm --budget 45m --effort high --trials 3
  kbh run opencode openrouter/qwen/qwen3.6-max 07_w4a16_gemm --max-cost 5
  kbh run claude scripted 05_topk_bitonic --script conversation.yaml --target cpu     no account, no network
  kbh run mini openai/gpt-5.5 05_topk_bitonic             the tiny agent of this package: no CLI, no Node
  kbh run command openai/gpt-5.5 05_topk_bitonic --mount /opt/mine -- /opt/mine/agent.sh     any program
  kbh view kbh-runs/RUN                                   a page with everything that happened

A run that was cut (kill -9, power) is gone on with, or said to be lost, when the next one starts in the same --out.

exit codes:
  0  every run passed
  1  a run failed: wrong, leaking or no solution
  2  a run says nothing of the agent (provider, machine, stopped), or the command line cannot be followed
"""


class _Parser(argparse.ArgumentParser):
    """Prints a bad option in one line."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(TROUBLE, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _seconds(text: str) -> float:
    try:
        return duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parser() -> argparse.ArgumentParser:
    """The options of `kbh run`."""
    ask = _Parser(
        prog="kbh run", description="Lets a coding agent work on a problem in a sealed room, and grades what it made.",
        usage="kbh run AGENT MODEL PROBLEM [options] [-- PROGRAM ...]", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("agent", metavar="AGENT", help="see kbh agents list; `command` runs the program after --")
    ask.add_argument("model", metavar="MODEL", help="ROUTE/MODEL, such as anthropic/claude-opus-4-8")
    ask.add_argument("problem", metavar="PROBLEM", help="see kbh problems list")
    what = ask.add_argument_group("the run")
    what.add_argument("--budget", metavar="TIME", type=_seconds, default=2700.0,
                      help="wall clock of everything that the agent starts (default: 45m)")  # fmt: skip
    what.add_argument("--effort", metavar="E", default="", help="how hard the model is to think, in the CLI's words")
    what.add_argument("--trials", metavar="N", type=int, default=1, help="runs of the same kind (default: 1)")
    what.add_argument("--jobs", metavar="N", type=int, default=1, help="runs at the same time (default: 1)")
    what.add_argument("--target", metavar="GPU", default="auto",
                      help="the GPU of this machine, or cpu (default: the GPU where there is one)")  # fmt: skip
    what.add_argument("--problems-dir", metavar="DIR", type=Path, help="use these problems instead of the project's")
    model = ask.add_argument_group("the model")
    model.add_argument("--routes", metavar="FILE", type=Path, help="where models are, beside the routes that are known")
    model.add_argument("--script", metavar="FILE", type=Path, help="a scripted conversation in place of a model")
    model.add_argument("--max-cost", metavar="USD", type=float, help="end the run when its calls cost more")
    model.add_argument("--max-calls", metavar="N", type=int, default=Caps().calls,
                       help="end the run after so many calls (default: %(default)s)")  # fmt: skip
    model.add_argument("--silence", metavar="TIME", type=_seconds, default=Caps().silent_s,
                       help="give a call up that says nothing for so long (default: 5m)")  # fmt: skip
    room = ask.add_argument_group("the room")
    room.add_argument("--no-sandbox", action="store_true",
                      help="no room: the agent sees this machine, and the result says so for ever")  # fmt: skip
    room.add_argument("--gpu", choices=("room", "judge"), default="room",
                      help="judge: only check.py and benchmark.py reach the GPU, which runs then share")  # fmt: skip
    room.add_argument("--mount", metavar="PATH", type=Path, action="append", default=[],
                      help="show this in the room too, read-only, under its own path; may be given again")  # fmt: skip
    room.add_argument("--agents-dir", metavar="DIR", type=Path, help="where kbh agents installed the CLIs")
    grade = ask.add_argument_group("the grading")
    grade.add_argument("--no-grade", action="store_true", help="leave the grading to a later `kbh grade RUN`")
    grade.add_argument("--no-strict", action="store_true", help="also give a score when a promise is not shown kept")
    grade.add_argument("--samples", metavar="N", type=int, help="timed calls a shape")
    grade.add_argument("--no-evidence", action="store_true", help="leave out the replay, as in kbh grade")
    grade.add_argument("--known", metavar="DIR", type=Path, action="append", default=[],
                       help="earlier solutions that this one is held against; may be given again")  # fmt: skip
    grade.add_argument("--curve", metavar="N", type=int, default=0,
                       help="also time N earlier versions, for the curve on the page (default: 0)")  # fmt: skip
    out = ask.add_argument_group("output")
    out.add_argument("--out", metavar="DIR", type=Path, default=Path("kbh-runs"),
                     help="where archives are kept (default: kbh-runs)")  # fmt: skip
    out.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh run`. Returns the exit code."""
    try:
        words, program = _apart(sys.argv[1:] if argv is None else argv)
        args = parser().parse_args(words)
    except SystemExit as done:
        return int(done.code or 0)
    try:
        need_harness()
        return _run(args, program)
    except KeyboardInterrupt:
        print("\nkbh run: interrupted; what the agents did is lost, what was ended is kept", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return TROUBLE
    except Exception as error:
        if type(error).__name__ not in ERRORS and not isinstance(error, OSError):
            raise
        said_as = f"{error.filename or 'a file'}: {error.strerror}" if isinstance(error, OSError) else str(error)
        print(f"kbh run: error: {said_as}", file=sys.stderr)
        return TROUBLE


def _apart(words: Sequence[str]) -> tuple[Sequence[str], tuple[str, ...]]:
    """The words of ours, and the program with its arguments after --."""
    if "--" not in words:
        return words, ()
    at = list(words).index("--")
    return words[:at], tuple(words[at + 1 :])


def need_harness() -> None:
    """Raises CommandError when the extras that a run needs are not installed."""
    need_grade()
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        raise CommandError(f"this command needs {', '.join(missing)}; in a checkout: pip install '.[grade,harness]'")


def _request(args: argparse.Namespace, program: tuple[str, ...]) -> RunRequest:
    caps = replace(Caps(), cost_usd=args.max_cost, calls=args.max_calls, silent_s=args.silence)
    return RunRequest(
        args.agent, args.model, args.problem, budget_s=args.budget, effort=args.effort, target=args.target,
        out=args.out, problems_dir=args.problems_dir, routes=args.routes, script=args.script, prefix=args.agents_dir,
        mounts=tuple(args.mount),
        arguments=program, sealed=not args.no_sandbox, gpu=args.gpu, strict=not args.no_strict,
        grade=not args.no_grade, samples=args.samples, evidence=not args.no_evidence, known=tuple(args.known),
        curve=args.curve, caps=caps,
    )  # fmt: skip


def _run(args: argparse.Namespace, program: tuple[str, ...]) -> int:
    request = _request(args, program)
    for name, value in (("--trials", args.trials), ("--jobs", args.jobs)):
        if not 1 <= value <= MOST_TRIALS:
            raise RunError(f"{name} is 1 to {MOST_TRIALS}, not {value}")
    from harness.running.trials import run_trials  # aiohttp comes with it

    display = Display()
    try:
        records = run_trials(request, args.trials, args.jobs, display)
    finally:
        display.clear()
    if args.format == "json":
        runs = [{"archive": str(request.out / record.run_id), **to_json(record, RunRecord)} for record in records]
        print(json.dumps({"version": 1, "runs": runs}, indent=1))
    else:
        for record in records:
            print(said(record, request.out / record.run_id), end="")
    return max((_code(record) for record in records), default=TROUBLE)


def _code(record: RunRecord) -> int:
    return {"PASS": DONE, "FAIL": FAILED, "": DONE}.get(record.outcome, TROUBLE)


def said(record: RunRecord, archive: Path) -> str:
    """A run for people, in a few lines."""
    score = "" if record.roofline_fraction is None else f"  {record.roofline_fraction:.3f} of the least time"
    head = f"{record.outcome or 'not graded'} ({record.ending})  {record.problem}  {record.agent} {record.model}{score}"
    lines = [head, *([f"  {record.detail}"] if record.detail else [])]
    if record.verdict:
        lines.append(f"  verdict {record.verdict}, grader: {record.grade_outcome}")
    usage, spent = record.usage, record.spent
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.2f}"
    lines.append(
        f"  {record.calls} calls ({record.failed_calls} failed), {usage.prompt_tokens:,} tokens in,"
        f" {usage.output_tokens:,} out{cost}"
    )
    parts = (("agent", spent.agent), ("judge, within it", spent.judge), ("lint", spent.lint), ("build", spent.build),
             ("check and time", spent.check), ("rest of grading", spent.grade))  # fmt: skip
    lines.append("  " + ", ".join(f"{name} {clock(value)}" for name, value in parts if value >= 0.5 or name == "agent"))
    if record.room is not None and not record.room.sealed:
        lines.append("  NOT SEALED: the agent saw this machine (--no-sandbox)")
    lines += [f"  {'!' if found.decisive else '-'} {found.message}" for found in record.findings[:8]]
    lines += [f"  and {len(record.findings) - 8} more findings"] if len(record.findings) > 8 else []
    return "\n".join([*lines, f"  {archive}"]) + "\n"
