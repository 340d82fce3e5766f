"""`kbh replay`: an agent against a conversation that was written down, in a script or in the archive of a run."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from grader.authoring.common import TROUBLE
from harness.proxy.bodies import load_exchange
from harness.record.archive import ArchiveError, RunFolder, is_run
from harness.record.run import RunRecord
from harness.running.cli import DONE, ERRORS, FAILED, INTERRUPTED, need_harness, said
from harness.running.display import Display
from harness.running.request import RunRequest
from harness.scripted.script import Script, load_script

__all__ = ["compare", "main", "parser"]

_EPILOG = """\
No model is asked. Of a run, the same agent is started in a new room with the same problem, prompt and budget, and gets
the answers that the model gave then; what it makes of them is held against what the run made. Of a script, the answers
come from a YAML file (docs/scripts.md).

examples:
  kbh replay kbh-runs/RUN                                   does the agent do the same again?
  kbh replay kbh-runs/RUN --grade                           and does the grader say the same?
  kbh replay conversation.yaml claude 05_topk_bitonic       an agent through a script (kbh run has more options)
  kbh replay conversation.yaml --serve                      only the model: its address, until Ctrl-C

exit codes: 0 the same, or the script was played; 1 something differs; 2 it could not be done
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh replay`."""
    ask = argparse.ArgumentParser(
        prog="kbh replay", description="Runs an agent against a conversation that was written down.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("source", metavar="RUN|SCRIPT", type=Path, help="the archive of a run, or a script")
    ask.add_argument("agent", metavar="AGENT", nargs="?", help="with a script: who plays it")
    ask.add_argument("problem", metavar="PROBLEM", nargs="?", help="with a script: on which problem")
    ask.add_argument("--serve", action="store_true", help="only serve the answers on loopback")
    ask.add_argument("--grade", action="store_true", help="grade what the agent makes of it")
    ask.add_argument("--no-sandbox", action="store_true", help="without a room; the result says so")
    ask.add_argument("--problems-dir", metavar="DIR", type=Path, help="use these problems instead of the project's")
    ask.add_argument("--agents-dir", metavar="DIR", type=Path, help="where kbh agents installed the CLIs")
    ask.add_argument("--out", metavar="DIR", type=Path, default=Path("kbh-replays"),
                     help="where archives are kept (default: kbh-replays)")  # fmt: skip
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh replay`. Returns the exit code."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as done:
        return int(done.code or 0)
    try:
        need_harness()
        return _serve(args.source) if args.serve else _run(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if type(error).__name__ not in ERRORS and not isinstance(error, OSError):
            raise
        print(f"kbh replay: error: {error}", file=sys.stderr)
        return TROUBLE


def _run(args: argparse.Namespace) -> int:
    from harness.running.trials import run_trials  # aiohttp comes with it

    before = RunFolder(args.source).load() if is_run(args.source) else None
    request = _request(args, before)
    display = Display()
    try:
        (after,) = run_trials(request, 1, 1, display)
    finally:
        display.clear()
    print(said(after, request.out / after.run_id), end="")
    if before is None:
        return TROUBLE if after.outcome == "ERR" else DONE
    differences = compare(before, after, graded=args.grade)
    print("\n".join(f"  differs: {line}" for line in differences) or f"  the same as {before.run_id}")
    return FAILED if differences else DONE


def _request(args: argparse.Namespace, before: RunRecord | None) -> RunRequest:
    common = RunRequest(
        args.agent or (before.agent if before else ""),
        "scripted" if before is None else before.model,
        args.problem or (before.problem if before else ""),
        out=args.out, problems_dir=args.problems_dir, script=args.source,
        prefix=args.agents_dir, sealed=not args.no_sandbox, grade=args.grade,
    )  # fmt: skip
    if before is None:
        return common
    return replace(
        common, budget_s=before.budget_s, effort=before.effort, target=before.target, strict=before.strict
    )  # fmt: skip


def compare(before: RunRecord, after: RunRecord, *, graded: bool) -> list[str]:
    """A sentence for each difference between a run and its replay; times and usage may differ."""
    rows = [
        ("the harness", before.harness, after.harness),
        ("the ending", before.ending, after.ending),
        ("the exit status", before.exit_code, after.exit_code),
        ("the solution", before.solution[:12] or "none", after.solution[:12] or "none"),
        ("the number of calls", before.calls, after.calls),
        ("the template", sorted(before.template.items()), sorted(after.template.items())),
    ]
    if graded:
        rows += [("the outcome", before.outcome, after.outcome), ("the verdict", before.verdict, after.verdict)]
    found = []
    for what, was, now in rows:
        if was != now:
            found.append(f"{what} was {was} and is {now}" if what != "the template" else "the files that were given")
    return found


def _serve(source: Path) -> int:
    from harness.scripted.server import serve  # aiohttp comes with it

    if is_run(source):
        folder = RunFolder(source)
        script = Script.from_calls((load_exchange(folder, call) for call in folder.calls()), name=source.name)
    elif source.is_dir():
        raise ArchiveError(f"{source} is a folder, but not the archive of a run")
    else:
        script = load_script(source)
    url, close = serve(script, workspace=str(Path.cwd()))
    try:
        print(f"{url}  (the base URL of every dialect; any key will do; Ctrl-C ends it)", flush=True)
        while True:
            time.sleep(3600)
    finally:
        close()
