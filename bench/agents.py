"""The matrix of agents and faults: every CLI in a sealed room, with the proxy, against a scripted model on loopback.

    python bench/agents.py                            all cells, as a table
    python bench/agents.py --agents claude,codex      these CLIs only
    python bench/agents.py --rows ok,401 --check      these rows; exit status 1 if a cell is not as it must be
    python bench/agents.py --full claude,codex        every row of these, and of the others only whether they work
    python bench/agents.py --table docs/agents.md     also puts the table between the marks of that page

A cell is a whole run, as `kbh run` makes it, without the grading. An ok cell shows: the solution was written by the
CLI's own tools, with the right bytes; texts, tools and the end were read from what it prints; what it says it used is
what the proxy counted, which is what the script says; it ended by itself with status 0 and left nothing. A cell of a
fault shows how the run ended by the proxy's record, in how many calls; there the CLI may say what it likes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from grader.sandbox import harden_judge
from harness.agents.base import AgentText, AgentTool, Finished, Said
from harness.agents.install import InstallError, installed
from harness.agents.registry import ADAPTERS, adapter_named
from harness.judging.pool import JudgePool
from harness.proxy.base import Caps
from harness.record.archive import RECORD, RunFolder
from harness.record.events import AgentEnded
from harness.record.run import RunRecord
from harness.record.usage import Usage, total
from harness.running.display import Display
from harness.running.one_run import Shared, run_once
from harness.running.prepare import Prepared, prepare
from harness.running.request import RunRequest
from harness.scripted.script import Case, Script, Shell, Turn, Write

BEGIN, END = "<!-- matrix: made by bench/agents.py -->", "<!-- end of the matrix -->"
PROBLEM = "05_topk_bitonic"
BUDGET_S = 90.0
# Fewer failures than a real run bears, so that a cell takes seconds; a call may be silent for as long as most start up.
CAPS = Caps(failures_in_row=4, silent_s=8.0)
REAL = tuple(name for name, adapter in ADAPTERS.items() if adapter.package is not None)
SOLUTION = "import os\n\n# \u00fcn\u00efcode & <tags> $HOME `x` \"q\" 'q' \\n\n\nanswer = 42\n"
RAN = "it-ran-well"
SCRIPT = Script((
    Turn((Case("", "I write it.", "Let me think.", (Write("solution.py", SOLUTION),), Usage(1200, 340, 100, 0, 20)),)),
    Turn((Case("", "I run it.", "", (Shell(f"python3 solution.py && echo {RAN}"),), Usage(1500, 50, 1200)),)),
    Turn((Case(RAN, "Done: it ran.", usage=Usage(1700, 30, 1500)), Case("", "It failed.", usage=Usage(1, 1)))),
), name="matrix")  # fmt: skip
USED = total(turn.cases[0].usage for turn in SCRIPT.turns)
# The row of a fault, and the ending that the proxy's record must make of it.
ENDINGS: Mapping[str, str] = {
    "ok": "agent-stop",
    "401": "provider-auth",
    "402": "provider-credit",
    "429": "provider-rate",
    "500": "provider-unavailable",
    "cut": "provider-cut",
    "empty": "provider-cut",
    "hang": "provider-unavailable",
    "big": "provider-cut",
    "swapped": "provider-swapped",
}
TITLES: Mapping[str, str] = {"cut": "stream cut", "empty": "empty answer", "big": "50 MB answer"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One run. `wrong` says in a few words each what is not as it must be."""

    agent: str
    row: str
    record: RunRecord
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        took = f"{self.record.spent.agent:.1f} s"
        if self.row == "ok" and not self.wrong:
            return f"ok, {self.record.calls} calls, {took}"
        calls = f"{self.record.calls} call{'s' if self.record.calls != 1 else ''}"
        return f"{self.record.ending}, {calls}, {took}" + "".join(f"; **{one}**" for one in self.wrong)


# --- what a cell must show -----------------------------------------------------------------------------------


def judged(agent: str, row: str, out: Path, record: RunRecord) -> Cell:
    """Holds a run against its row."""
    folder = RunFolder(out / record.run_id)
    checks = [(record.ending == ENDINGS[row], f"not {ENDINGS[row]}: {record.detail}")]
    if row == "ok":
        checks += _worked(agent, folder, record)
    else:
        checks += [(record.outcome == "ERR", f"outcome {record.outcome or 'none'}")]
    checks.append((record.room is not None and record.room.sealed, "not sealed"))
    return Cell(agent, row, record, tuple(said for fine, said in checks if not fine))


def _worked(agent: str, folder: RunFolder, record: RunRecord) -> list[tuple[bool, str]]:
    solution = folder.path / "solution.py"
    said = _said(agent, folder)
    texts = "".join(item.text for item in said if isinstance(item, AgentText))
    ends = [item for item in said if isinstance(item, Finished)]
    left = [event.data.left_over for event in folder.events() if isinstance(event.data, AgentEnded)]
    return [
        (solution.is_file() and solution.read_bytes() == SOLUTION.encode(), "no solution.py, or another"),
        ("I write it." in texts and "Done: it ran." in texts, "texts not read"),
        (sum(isinstance(item, AgentTool) for item in said) == 2, "tools not read"),
        (bool(ends) and ends[-1].well, "no end seen"),
        (_counts(record.usage) == _counts(USED), f"proxy counted {_counts(record.usage)}"),
        (record.cli_usage is not None and _counts(record.cli_usage) == _counts(USED), "CLI counted otherwise"),
        (record.exit_code == 0, f"exit status {record.exit_code}"),
        (left == [0], f"left over {left}"),
        (not record.findings, "; ".join(found.message for found in record.findings[:2])),
        (not record.changed_template, "template changed"),
    ]


def _said(agent: str, folder: RunFolder) -> list[Said]:
    """What the CLI printed, read once more from the archive."""
    lines = (folder.path / RECORD / "agent" / "stdout.log").read_text(errors="replace").splitlines()
    return [item for line in lines for item in adapter_named(agent).read(line)]


def _counts(usage: Usage) -> tuple[int, ...]:
    """What all of them count: not all say what the model thought."""
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


# --- the runs ------------------------------------------------------------------------------------------------


def made(agent: str, out: Path, prefix: Path | None) -> Prepared:
    """What all cells of a CLI share."""
    script = out / "script.yaml"
    script.write_text("turns: [{text: replaced}]\n", encoding="utf-8")
    request = RunRequest(
        agent, "scripted", PROBLEM, budget_s=BUDGET_S, target="cpu", out=out, script=script, prefix=prefix, grade=False,
        caps=CAPS,
    )  # fmt: skip
    return replace(prepare(request), script=SCRIPT)


async def cells_of(wanted: Sequence[tuple[str, str]], out: Path, prefix: Path | None, jobs: int) -> list[Cell]:
    """Runs all cells, so many at a time."""
    ready = {agent: made(agent, out, prefix) for agent in dict.fromkeys(agent for agent, _ in wanted)}
    places, pool = asyncio.Semaphore(jobs), JudgePool()

    async def one(number: int, agent: str, row: str) -> Cell:
        prepared = ready[agent] if row == "ok" else replace(ready[agent], script=SCRIPT.failing(row))
        async with places:
            began = time.monotonic()
            cell = judged(agent, row, out, await run_once(prepared, number, shared))
            print(f"{agent:<9} {row:<8} {cell} ({time.monotonic() - began:.1f} s)", flush=True)
            return cell

    try:
        with ThreadPoolExecutor(max_workers=6 * jobs + 4) as executor, Path("/dev/null").open("w") as nowhere:
            shared = Shared(executor, pool, Display(nowhere))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(number + 1, *cell)) for number, cell in enumerate(wanted)]
            return [task.result() for task in tasks]
    finally:
        await pool.close()


# --- the table -----------------------------------------------------------------------------------------------


def table(cells: Sequence[Cell]) -> str:
    """The cells as Markdown: a row for each fault, a column for each CLI."""
    agents = list(dict.fromkeys(cell.agent for cell in cells))
    found = {(cell.agent, cell.row): str(cell) for cell in cells}
    heads = [f"{agent} {package.version if (package := ADAPTERS[agent].package) else ''}".strip() for agent in agents]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (len(agents) + 1) + "|"]
    for row in dict.fromkeys(cell.row for cell in cells):
        lines.append(f"| {TITLES.get(row, row)} | {' | '.join(found.get((agent, row), '') for agent in agents)} |")
    return "\n".join(lines) + "\n"


def put(page: Path, text: str) -> None:
    """Replaces what stands between the marks of a page. Raises ValueError where it has none."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no place for the table: {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{text}{END}{after}", encoding="utf-8")


# --- the command line ----------------------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 1 with --check where a cell is not as it must be, 2 where a CLI is not installed."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--agents", type=_words, default=list(REAL), help=f"default: {','.join(REAL)}")
    ask.add_argument("--rows", type=_words, default=list(ENDINGS), help=f"default: {','.join(ENDINGS)}")
    ask.add_argument("--full", type=_words, help="these run all rows, the others only ok (default: all of them)")
    ask.add_argument("--agents-dir", type=Path, help="where kbh agents installed the CLIs")
    ask.add_argument("--out", type=Path, help="keep the archives here")
    ask.add_argument("--jobs", type=int, default=2, help="cells at a time (default: 2)")
    ask.add_argument("--check", action="store_true", help="exit with 1 where a cell is not as it must be")
    ask.add_argument("--table", type=Path, metavar="FILE", help="put the table between the marks of this page")
    args = ask.parse_args(argv)
    odd = [row for row in args.rows if row not in ENDINGS]
    if odd:
        ask.error(f"{odd[0]!r} is no row; there are {', '.join(ENDINGS)}")
    try:
        for agent in args.agents:
            installed(adapter_named(agent), args.agents_dir)
    except (InstallError, ValueError) as error:
        ask.error(str(error))
    full = args.agents if args.full is None else args.full
    wanted = [(agent, row) for row in args.rows for agent in args.agents if row == "ok" or agent in full]
    with tempfile.TemporaryDirectory(prefix="kbh-matrix-") as spare:
        out = args.out or Path(spare)
        out.mkdir(parents=True, exist_ok=True)
        harden_judge()
        cells = asyncio.run(cells_of(wanted, out, args.agents_dir, args.jobs))
    print("\n" + table(cells), end="")
    if args.table is not None:
        put(args.table, table(cells))
    wrong = [cell for cell in cells if cell.wrong]
    for cell in wrong:
        print(f"wrong: {cell.agent} {cell.row}: {'; '.join(cell.wrong)}", file=sys.stderr)
    return 1 if args.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
