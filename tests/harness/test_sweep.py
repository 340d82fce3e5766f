"""`kbh sweep`: what a matrix says, what is done of it, and that no cut loses a cell or counts one twice."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyte
import pytest
from sample_run import record

from grader.judge.turns import turn
from harness.archive import Archive, all_facts
from harness.record.archive import RunFolder, new_run_id
from harness.record.exchange import ModelCall
from harness.record.run import State
from harness.record.usage import Usage
from harness.room import need_sealed
from harness.running.display import WIDTH
from harness.running.request import RunError
from harness.scripted.script import Write, load_script
from harness.sweep import drive as driving
from harness.sweep import work as working
from harness.sweep.cells import Cell, Places, cells_of
from harness.sweep.cli import main
from harness.sweep.cluster import RayCluster, _Sent, _worked
from harness.sweep.drive import Drive
from harness.sweep.ledger import Ledger, look
from harness.sweep.matrix import Matrix, read_matrix
from harness.sweep.meter import LOCKS, Meter, Used, _Driver, _sees_locks, measured_text
from harness.sweep.placement import Gone, Order, Placed, Say
from harness.sweep.plan import plan_of
from harness.sweep.progress import Progress
from kbh_lint.base import paths
from kbh_lint.marked import DataError
from kbh_lint.problems import load_deck

ROOT = Path(__file__).resolve().parents[2]
MATRIX = """\
name: trial
agents: [mini]
models:
  - {name: scripted/one, script: "{problem}.yaml"}
  - name: anthropic/two
problems: [01_fp8_gemm, 05_topk_bitonic]
targets: [cpu]
trials: 2
budget: 90s
attempts: 3
"""


Answer = Callable[[Order], Placed]


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    for problem in ("01_fp8_gemm", "05_topk_bitonic"):
        (tmp_path / f"{problem}.yaml").write_text("turns: [{text: Done., end: true}]\n")
    file = tmp_path / "matrix.yaml"
    file.write_text(MATRIX)
    return file


def ended(outcome: str = "FAIL", ending: str = "agent-stop", *, retryable: bool = False, calls: bool = False) -> Answer:
    """An answer that is a run without a solution; with `calls` it made one whose cost nobody knows."""

    def made(order: Order) -> Placed:
        placed = a_run(order, "done", outcome=outcome, ending=ending, retryable=retryable)
        if calls:
            RunFolder(placed.folder).append_call(
                ModelCall(1, 0.0, 0.0, 1.0, "openai-chat", "/v1/chat/completions", False, "ok", 200, "two", "two", "",
                          Usage(10, 5), "stop", "", "", 9, 9)
            )  # fmt: skip
        return placed

    return made


def a_run(order: Order, state: State, *, hold: bool = False, **more: object) -> Placed:
    """A run for an order in the folder that it names, of which the harness came as far as `state`."""
    asked = order.request
    said: dict[str, object] = {
        "run_id": new_run_id(asked.agent, asked.model, asked.problem), "agent": asked.agent, "model": asked.model,
        "problem": asked.problem, "target": "cpu", "trial": order.trial, "state": state, "sweep_key": asked.sweep_key,
        "started": time.time(), "ended": time.time(), "outcome": "", "ending": "", "usage": Usage(), "verdict": "",
        "grade_outcome": "", "peak_fraction": None, "roofline_fraction": None, "solution": "", **more,
    }  # fmt: skip
    made = record(**said)
    folder = RunFolder.create(asked.out, made)
    if not hold:
        folder.release()
    HELD.append(folder)
    return Placed(made, folder.path)


HELD: list[RunFolder] = []


class Fake:
    """A placement that answers each order with the next of its cell's answers, the last one for ever."""

    def __init__(self, answers: Callable[[Order], list[Answer]], jobs: int = 2) -> None:
        self.jobs = jobs
        self.orders: list[Order] = []
        self._answers = answers
        self._count: Counter[str] = Counter()

    async def place(self, order: Order, say: Say) -> Placed:
        self.orders.append(order)
        key = order.request.sweep_key
        listed = self._answers(order)
        self._count[key] += 1
        await asyncio.sleep(0)
        if order.resume:
            folder = RunFolder(order.request.out / order.resume)
            done = replace(folder.load(), state="done", outcome="FAIL", ending="agent-stop")
            folder.save(done)
            return Placed(done, folder.path)
        return listed[min(self._count[key], len(listed)) - 1](order)

    async def close(self) -> None:
        pass


class Bench:
    """A sweep in a folder, whose every command is another `Bench.go`."""

    def __init__(self, file: Path) -> None:
        self.matrix: Matrix = read_matrix(file)
        self.out = file.parent / "runs"
        self.out.mkdir(exist_ok=True)
        self.cells: list[Cell] = cells_of(self.matrix, Places(self.out))
        self.archive = Archive.create(file.parent / "archive")
        self.ledger = Ledger({})

    def look(self, *, again: bool = False) -> Ledger:
        self.ledger = look(self.cells, self.archive, self.out, self.matrix.attempts, mend=True, again=again)
        return self.ledger

    def go(self, placement: Fake, *, again: bool = False) -> Drive:
        ledger = self.look(again=again)
        made = Drive(self.matrix, ledger, self.archive, self.out, placement, Progress(ledger, 2, io.StringIO()))
        asyncio.run(made.run())
        return made

    def entries(self) -> Counter[str]:
        return Counter(one.sweep_key for one in all_facts(self.archive).facts)

    @property
    def keys(self) -> set[str]:
        return {cell.key for cell in self.cells}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(driving, "TICK_SECONDS", 0.02)


# --- the matrix ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("name: trial\n", "", 1, "needs `name`"),
        ("budget: 90s", "budgte: 90s", 1, "needs `budget`"),
        ("attempts: 3", "atempts: 3", 10, "has no key `atempts`"),
        ("agents: [mini]", "agents: [maxi]", 2, "no agent 'maxi'"),
        ("agents: [mini]", "agents: [{name: mini, effort: huge}]", 2, "does not know the effort 'huge'"),
        ("  - name: anthropic/two", "  - name: two", 5, "'two' is no model: write ROUTE/MODEL"),
        ("  - name: anthropic/two", '  - {name: scripted/one, script: "x.yaml"}', 5, "holds scripted/one twice"),
        ('script: "{problem}.yaml"', "solution: x.cu", 4, "is a Python file"),
        ('script: "{problem}.yaml"', "solution: none-*.py", 4, "stands once in the `name` and once in the `solution`"),
        ('one, script: "{problem}.yaml"', "*, solution: none-*.py", 4, "kinds of files, not 0"),
        ("trials: 2", "trials: 0", 8, "`trials` of the matrix must be a whole number from 1 to 100"),
        ("trials: 2", "trials: 1.5", 8, "whole number"),
        ("targets: [cpu]", "targets: [auto]", 7, "auto would be another elsewhere"),
        ("budget: 90s", "budget: soon", 9, "must be a length of time, such as 45m"),
        ("attempts: 3", "caps: {sweep_usd: 5}", 10, "only with `run_usd`"),
        ("attempts: 3", "caps: {run_usd: .nan}", 10, "must be a number from 0"),
        ("attempts: 3", "skip: [{model: scripted/oen}]", 10, "no model 'scripted/oen', so nothing is left out"),
        ("trials: 2", "trials: 2\ntrials: 3", 9, "stands twice"),
        ("agents: [mini]", "agents: [mini", 3, "not valid YAML"),
    ],
)
def test_a_bad_matrix_gives_one_sentence_with_its_line(matrix: Path, old: str, new: str, line: int, says: str) -> None:
    assert old in MATRIX
    matrix.write_text(MATRIX.replace(old, new))
    with pytest.raises(DataError, match=says) as caught:
        read_matrix(matrix)
    assert str(caught.value).startswith(f"{matrix}:{line}: ") and "\n" not in str(caught.value)


def test_the_sweep_of_the_deck_is_of_every_graded_problem(tmp_path: Path) -> None:
    deck = load_deck(paths.problems_dir())
    graded = tuple(name for name, problem in deck.items() if problem.status == "graded")
    file = Path(__file__).parents[2] / "examples" / "sweeps" / "deck.yaml"
    assert read_matrix(file).problems == graded and len(graded) >= 9
    one = tmp_path / "one" / "01_fp8_gemm"
    shutil.copytree(paths.problems_dir() / one.name, one)
    assert read_matrix(file, one.parent).problems == (one.name,)
    with pytest.raises(DataError, match="no graded problem"):
        read_matrix(file, tmp_path)


def test_a_cell_has_a_key_of_all_that_is_asked_for_and_of_no_place(matrix: Path, tmp_path: Path) -> None:
    def keys(out: Path = tmp_path / "runs") -> set[str]:
        return {cell.key for cell in cells_of(read_matrix(matrix), Places(out))}

    before = keys()
    assert len(before) == 8 and keys(tmp_path / "elsewhere") == before
    (tmp_path / "01_fp8_gemm.yaml").write_text("turns: [{text: Bye., end: true}]\n")
    assert len(before & keys()) == 6  # the two trials of the model whose script changed
    for old, new in (("budget: 90s", "budget: 91s"), ("attempts: 3", "grading: {samples: 5}")):
        matrix.write_text(MATRIX.replace(old, new))
        assert not before & keys()
    matrix.write_text(MATRIX.replace("trials: 2", "trials: 3"))
    assert len(keys()) == 12
    matrix.write_text(MATRIX + "skip: [{model: anthropic/two, problem: 01_fp8_gemm}]\n")
    assert len(keys()) == 6


def test_a_file_that_a_script_names_is_part_of_what_is_asked_for(matrix: Path, tmp_path: Path) -> None:
    text = "turns: [{write: {path: solution.py, content_file: first.py}}, {text: Done., end: true}]\n"
    (tmp_path / "01_fp8_gemm.yaml").write_text(text)
    with pytest.raises(RunError, match="first.py: no such file"):
        Bench(matrix)
    (tmp_path / "first.py").write_text("one")
    before = Bench(matrix).keys
    assert Bench(matrix).keys == before
    (tmp_path / "first.py").write_text("two")
    assert len(before & Bench(matrix).keys) == 6


def test_files_are_models_that_have_cells_where_the_files_are(matrix: Path, tmp_path: Path) -> None:
    row = '  - {name: deck/*, solution: "{problem}/a-*.py"}'
    matrix.write_text(MATRIX.replace('  - {name: scripted/one, script: "{problem}.yaml"}', row))
    for name in ("01_fp8_gemm/a-one", "01_fp8_gemm/b-one", "01_fp8_gemm/a-two", "05_topk_bitonic/a-two"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(f"# {name}\n")
    found = [cell for cell in Bench(matrix).cells if cell.scripted]
    assert [(cell.request.model, cell.request.problem, cell.trial) for cell in found] == [
        (model, problem, trial)
        for trial in (1, 2)
        for model, problem in (
            ("deck/one", "01_fp8_gemm"), ("deck/two", "01_fp8_gemm"), ("deck/two", "05_topk_bitonic"))
    ]  # fmt: skip
    assert found[0].request.script is not None
    turns = load_script(found[0].request.script).turns
    assert turns[0].cases[0].does == (Write("solution.py", "# 01_fp8_gemm/a-one\n"),)
    assert not turns[1].cases[0].does
    (tmp_path / "01_fp8_gemm" / "a-one.py").write_text("# another\n")
    keys = {cell.key for cell in Bench(matrix).cells}
    assert len(keys - {cell.key for cell in found}) == 4 + 2  # of the other model, and the two of the file


def test_what_is_not_there_is_said_before_anything_starts(
    matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for old, new, says in (
        ("05_topk_bitonic", "99_none", "there is no problem `99_none`"),
        ("targets: [cpu]", "targets: [abacus]", "there is no target `abacus`"),
        ("{problem}.yaml", "gone.yaml", "gone.yaml: no such file"),
        ("attempts: 3", "grading: {evidence: false}", "nothing can pass on 01_fp8_gemm"),
        ("budget: 90s", "budget: 90d", f"{matrix}:9: "),
    ):
        matrix.write_text(MATRIX.replace(old, new))
        assert main([str(matrix), "--out", str(tmp_path / "o")]) == 2
        said = capsys.readouterr().err
        assert said.startswith("kbh sweep: error: ") and says in said and said.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_a_machine_without_rooms_is_told_before_anything_starts_and_what_to_do(
    matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix.write_text(MATRIX.replace("  - name: anthropic/two\n", ""))
    monkeypatch.setenv("PATH", "/nonexistent")
    need_sealed.cache_clear()
    assert main([str(matrix), "--out", str(tmp_path / "o")]) == 2
    said = capsys.readouterr().err
    assert "bubblewrap is not installed; install bubblewrap" in said and "room: {sandbox: false}" in said
    assert said.count("\n") == 1 and not list((tmp_path / "o" / "runs").iterdir())


# --- the plan -----------------------------------------------------------------------------------------------


def test_a_dry_run_tells_runs_hours_and_the_most_it_can_cost_and_writes_nothing(
    matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(matrix), "--out", str(tmp_path / "o"), "--jobs", "4", "--dry-run"]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "trial: 8 cells = 1 agent x 2 models x 2 problems x 1 target x 2 trials" in told and "NOT BOUNDED" in told
    matrix.write_text(MATRIX + "caps: {run_usd: 2, sweep_usd: 20}\n")
    assert main([*words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    plan = found["plan"]
    assert (plan["runs"], plan["most_usd"], plan["again_usd"]) == (8, 8.0, 20.0)  # four runs are of a script
    assert plan["most_s"] == 2 * (90 + plan["grading_s"]) == 2 * (90 + 600) and len(set(found["keys"])) == 8
    assert not (tmp_path / "o").exists()


def test_a_plan_counts_what_is_settled_and_what_was_spent(matrix: Path) -> None:
    bench = Bench(matrix)
    bench.matrix = replace(bench.matrix, run_usd=1.0)
    for number, cell in enumerate(bench.cells[:3]):
        order = Order(cell.request, cell.trial)
        if number < 2:
            ended()(order)
        else:
            a_run(order, "ended")
    plan = plan_of(bench.matrix, bench.look(), 1)
    assert (plan.cells, plan.settled, plan.grading, plan.runs) == (8, 2, 1, 5) and plan.likely_s is not None


# --- cut, and gone on with ----------------------------------------------------------------------------------


def test_whatever_a_cut_leaves_every_cell_is_counted_once(matrix: Path) -> None:
    bench = Bench(matrix)
    states: tuple[State, ...] = ("preparing", "running", "ended", "grading", "done")
    for state, cell in zip(states, bench.cells, strict=False):
        order = Order(cell.request, cell.trial)
        a_run(order, state) if state != "done" else ended()(order)  # the last one is not in the archive yet
    placement = Fake(lambda order: [ended()])
    bench.go(placement)
    resumed = [order.request.sweep_key for order in placement.orders if order.resume]
    placed = [order.request.sweep_key for order in placement.orders if not order.resume]
    assert sorted(resumed) == sorted(cell.key for cell in bench.cells[2:4])
    assert sorted(placed) == sorted(cell.key for cell in [*bench.cells[:2], *bench.cells[5:]])
    assert bench.entries() == Counter(dict.fromkeys(bench.keys, 1))
    again = Fake(lambda order: [ended()])
    bench.go(again)
    assert again.orders == [] and bench.entries() == Counter(dict.fromkeys(bench.keys, 1))
    shutil.rmtree(bench.out)  # the archive alone says what is done
    assert bench.look().open() == []


def test_a_sweep_that_is_cancelled_at_any_order_is_gone_on_with(matrix: Path) -> None:
    bench = Bench(matrix)
    for cut in (1, 2, 4, 1):
        left = [cut]

        def answers(order: Order, left: list[int] = left) -> list[Answer]:
            left[0] -= 1
            if left[0] <= 0:
                raise asyncio.CancelledError
            return [ended()]

        placement = Fake(answers, jobs=1)
        with pytest.raises(asyncio.CancelledError):
            bench.go(placement)
    last = Fake(lambda order: [ended()])
    bench.go(last)
    assert len(last.orders) == 8 - (0 + 1 + 3 + 0)
    assert bench.entries() == Counter(dict.fromkeys(bench.keys, 1))


def test_a_node_that_is_gone_leaves_its_cell_to_be_placed_again_or_only_graded(matrix: Path) -> None:
    bench = Bench(matrix)

    def lost(state: State | None) -> Answer:
        def made(order: Order) -> Placed:
            if state is not None:
                a_run(order, state)
            raise Gone("its node is gone")

        return made

    ways = [None, "running", "ended", "grading"]
    which = {cell.key: ways[number % 4] for number, cell in enumerate(bench.cells)}
    placement = Fake(lambda order: [lost(which[order.request.sweep_key]), ended()])  # type: ignore[arg-type]
    done = bench.go(placement)
    assert done.given_up == [] and bench.entries() == Counter(dict.fromkeys(bench.keys, 1))
    assert sum(bool(order.resume) for order in placement.orders) == 4 and len(placement.orders) == 16


def test_a_cell_that_takes_its_node_with_it_each_time_is_given_up(matrix: Path) -> None:
    bench = Bench(matrix)
    bad = bench.cells[0].key

    def gone(order: Order) -> Placed:
        raise Gone("its node is gone")

    placement = Fake(lambda order: [gone] if order.request.sweep_key == bad else [ended()])
    done = bench.go(placement)
    assert [known.cell.key for known in done.given_up] == [bad]
    assert sum(order.request.sweep_key == bad for order in placement.orders) == driving.MOST_GONE
    assert set(bench.entries()) == bench.keys - {bad}


def test_a_run_that_another_process_works_on_is_waited_for(matrix: Path) -> None:
    bench = Bench(matrix)
    first = bench.cells[0]
    held = a_run(Order(first.request, first.trial), "running", hold=True)
    folder = HELD[-1]
    calls = 0

    def answers(order: Order) -> list[Answer]:
        nonlocal calls
        calls += 1
        if calls == 7:
            folder.save(replace(held.record, state="done", outcome="FAIL", ending="agent-stop"))
            folder.release()
        return [ended()]

    placement = Fake(answers, jobs=1)
    bench.go(placement)
    assert first.key not in {order.request.sweep_key for order in placement.orders}
    assert bench.entries() == Counter(dict.fromkeys(bench.keys, 1))


def test_no_second_command_works_on_the_same_cells(
    matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import fcntl

    (tmp_path / "o").mkdir()
    with (tmp_path / "o" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main([str(matrix), "--out", str(tmp_path / "o")]) == 2
    assert "another kbh sweep is at work in" in capsys.readouterr().err


# --- attempts and caps --------------------------------------------------------------------------------------


def test_an_error_is_tried_again_and_the_last_one_stands_until_it_is_asked_for_anew(matrix: Path) -> None:
    bench = Bench(matrix)
    rate = ended("ERR", "provider-rate", retryable=True)
    auth = ended("ERR", "provider-auth")
    kinds = [cell.key for cell in bench.cells[:3]]
    plans = {kinds[0]: [rate, rate, ended()], kinds[1]: [rate], kinds[2]: [auth]}
    placement = Fake(lambda order: plans.get(order.request.sweep_key, [ended()]))
    bench.go(placement)
    tries = Counter(order.request.sweep_key for order in placement.orders)
    assert [tries[key] for key in kinds] == [3, 3, 1]
    outcomes = {key: known.settled.outcome for key, known in bench.ledger.known.items() if known.settled}
    assert [outcomes[key] for key in kinds] == ["FAIL", "ERR", "ERR"] and set(outcomes) == bench.keys
    assert bench.look().open() == []
    bench.go(Fake(lambda order: [ended()]), again=True)
    assert bench.look().open() == [] and bench.ledger.known[kinds[1]].settled.outcome == "FAIL"  # type: ignore[union-attr]
    assert bench.entries()[kinds[1]] == 2  # the error stays in the archive, and does not count


def test_errors_in_a_row_end_the_command_before_every_cell_is_used_up(matrix: Path) -> None:
    bench = Bench(matrix)
    placement = Fake(lambda order: [ended("ERR", "provider-credit", retryable=True)])
    with pytest.raises(RunError, match="8 runs in a row say nothing of their agents, the last one as provider-credit"):
        bench.go(placement)
    assert 8 <= len(placement.orders) <= 9
    bench.go(Fake(lambda order: [ended()]), again=True)
    assert bench.look().open() == []


def test_a_run_that_no_archive_takes_at_first_is_added_when_it_is_whole(matrix: Path) -> None:
    bench = Bench(matrix)
    first = bench.cells[0].key
    broken: list[Path] = []

    def damaged(order: Order) -> Placed:
        placed = ended()(order)
        (placed.folder / "link").symlink_to("elsewhere")
        broken.append(placed.folder)
        return placed

    bench.go(Fake(lambda order: [damaged] if order.request.sweep_key == first else [ended()]))
    assert len(bench.ledger.faults) == 1 and set(bench.entries()) == bench.keys - {first}
    (broken[0] / "link").unlink()
    assert bench.look().faults == [] and set(bench.entries()) == bench.keys


def test_the_cap_on_a_sweep_is_kept_also_where_costs_are_unknown(matrix: Path) -> None:
    matrix.write_text(MATRIX + "caps: {run_usd: 1, sweep_usd: 2.5}\n")
    bench = Bench(matrix)
    placement = Fake(lambda order: [ended(calls=True)], jobs=4)
    done = bench.go(placement)
    paid = [order for order in placement.orders if order.request.model == "anthropic/two"]
    assert done.capped and len(paid) == 2 and len(placement.orders) == 6
    assert bench.ledger.unpriced == 2
    further = Fake(lambda order: [ended(calls=True)], jobs=4)
    assert bench.go(further).capped and further.orders == []


# --- what is shown ------------------------------------------------------------------------------------------


def test_progress_says_what_runs_waits_failed_and_why_in_lines_that_a_log_can_hold(matrix: Path) -> None:
    bench = Bench(matrix)
    stream, now = io.StringIO(), [0.0]
    ledger = bench.look()
    shown = Progress(ledger, 2, stream, lambda: now[0])
    first, second = list(ledger.known.values())[:2]
    for known, outcome, ending in ((first, "FAIL", "agent-stop"), (second, "ERR", "provider-rate")):
        shown.started(known)
        now[0] += 10.0
        detail = "told \x1b[31mby\nothers " + "why " * 99
        known.settled = record(outcome=outcome, ending=ending, detail=detail, roofline_fraction=None)
        shown.settled(known)
    shown.teller(first)("grading")
    now[0] += 31.0
    shown.tick(1, 5)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3 and "\x1b" not in stream.getvalue()
    assert lines[0].startswith("FAIL  mini  scripted/one  01_fp8_gemm  cpu  trial 1  agent-stop: told ")
    assert " why why ...  (" in lines[0]
    assert lines[2] == (
        "2 of 8 settled: 0 passed, 1 failed, 1 no result (1 provider-rate); "
        "1 running (1 in grading), 5 waiting; $0.00; about 0:30 left"
    )


class Terminal(io.StringIO):
    """A terminal that knows what is on its screen."""

    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        screen = pyte.Screen(WIDTH, 24)
        pyte.Stream(screen).feed(self.getvalue().replace("\n", "\r\n"))
        return [line.rstrip() for line in screen.display if line.strip()]


def test_a_terminal_shows_what_each_cell_is_at_and_keeps_what_is_over(matrix: Path) -> None:
    bench = Bench(matrix)
    stream, now = Terminal(), [0.0]
    ledger = bench.look()
    shown = Progress(ledger, 30, stream, lambda: now[0])
    cells = list(ledger.known.values())
    for known in cells[:2]:
        shown.started(known)
    for second in range(3):
        shown.teller(cells[0])(f"grading trial \x1b[31m{second}" + "x" * 200)
        now[0] += 10.0
        shown.tick(2, 6)
    on = stream.screen()
    assert on[0] == "0 of 8 settled: 0 passed, 0 failed"
    assert on[1] == "2 running (1 in grading), 6 waiting; $0.00; time left not known yet"
    assert on[2].startswith("  0:30  mini scripted/one 01_fp8_gemm cpu trial 1 grading trial") and len(on) == 4
    assert on[2].endswith("…") and "\x1b[31m" not in stream.getvalue()
    cells[0].settled = record(outcome="FAIL", ending="agent-stop", detail="why", roofline_fraction=None)
    shown.settled(cells[0])
    now[0] += 1.0
    shown.tick(1, 6)
    assert [line[:12] for line in stream.screen()][:2] == ["FAIL  mini  ", "1 of 8 settl"]
    shown.clear()
    assert len(stream.screen()) == 1


def test_a_meter_tells_for_how_long_a_turn_on_a_device_was_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBH_LOCK_DIR", str(tmp_path))
    monkeypatch.setattr("harness.sweep.meter.LOOK_SECONDS", 0.01)
    if not _sees_locks(LOCKS):
        pytest.skip("this system's list of locks does not have a lock that is held here")
    with Meter(["cpu", "GPU-other"]) as meter, turn("cpu"):
        time.sleep(0.3)
        time.sleep(0.1)
    held = meter.measured([record(), record()], 3)
    with Meter(["cpu"]) as meter:
        time.sleep(0.1)
    assert held.used[0].held is not None and held.used[0].held > 0.8 and held.used[1].held == 0.0
    assert held.used[1].kernels is None and (held.cells, held.jobs) == (2, 3) and held.cells_an_hour > 3600
    assert meter.measured([], 1).used[0].held == 0.0
    with Meter(["cpu"], tmp_path / "no list") as blind:
        pass
    assert blind.measured([], 1).used[0].held is None
    told = measured_text(replace(held, seconds=36.0, used=(Used("GPU-1", 0.75, 0.5), Used("GPU-2"))))
    assert told.splitlines()[0] == "2 cells in 0:36: 200 cells an hour, 3 at a time"
    assert told.splitlines()[-1] == "GPU-1: held by a turn 75% of the time, idle 25%; kernels ran 50%"


def test_a_sweep_that_is_interrupted_says_what_was_measured_until_then(
    matrix: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def cut(drive: Drive, placement: object, progress: object) -> None:
        drive.settled.append(record(outcome="PASS"))
        raise KeyboardInterrupt

    bench = Bench(matrix)
    here = SimpleNamespace(here=SimpleNamespace(gpus=(), target="cpu"))
    monkeypatch.setattr(working, "_driven", cut)
    monkeypatch.setattr(working, "harden_judge", lambda: None)
    monkeypatch.setattr(working, "LocalPool", lambda jobs: SimpleNamespace(jobs=jobs, prepared=lambda request: here))
    with pytest.raises(KeyboardInterrupt):
        working.work(bench.matrix, bench.look(), bench.archive, bench.out, jobs=3, cluster=None)
    assert re.search(r"^1 cells in \S+: [\d,]+ cells an hour, 3 at a time$", capsys.readouterr().err, re.M)


def test_the_drivers_samples_count_from_when_a_sweep_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is a stand-in: it has samples of before, then new ones, and then none."""
    asked: list[int] = []
    samples = {0: [(100, 90), (200, 90)], 200: [(300, 50), (400, 100)]}

    class NVMLError(Exception):
        pass

    def get(handle: object, kind: object, since: int) -> tuple[int, list[SimpleNamespace]]:
        asked.append(since)
        if since not in samples:
            raise NVMLError
        value = [
            SimpleNamespace(timeStamp=at, sampleValue=SimpleNamespace(uiVal=share)) for at, share in samples[since]
        ]
        return 0, value

    def none(*handle: object) -> None:
        raise NVMLError

    library = SimpleNamespace(
        NVMLError=NVMLError, NVML_GPU_UTILIZATION_SAMPLES=1, nvmlInit=lambda: None, nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid, nvmlDeviceGetSamples=get, nvmlDeviceGetUtilizationRates=none,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", library)
    driver = _Driver(["GPU-1"])
    assert driver.share("GPU-1") is None
    for _ in range(3):
        driver.ask()
    assert asked == [0, 200, 400] and driver.share("GPU-1") == 0.75 and driver.share("cpu") is None


# --- the cluster, and the whole ------------------------------------------------------------------------------


def test_a_node_refuses_what_it_does_not_have(matrix: Path, tmp_path: Path) -> None:
    bench = Bench(matrix)
    cell = bench.cells[0]
    order = Order(cell.request, cell.trial, deck=cell.deck)
    sent = _Sent(order, "a token", "0")
    assert "does not see" in _worked(sent).trouble
    (tmp_path / "shared-folder").write_text("a token")
    assert "has kbh" in _worked(sent).trouble
    from kbh_lint import __version__

    other = replace(sent, version=__version__, order=replace(order, deck="0" * 64))
    assert "another version of the problem 01_fp8_gemm" in _worked(other).trouble


def test_without_ray_a_cluster_is_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.sweep.cluster.find_spec", lambda name: None)
    with pytest.raises(RunError, match=r"pip install '.\[cluster\]'"):
        RayCluster("auto", ["cpu"], tmp_path)


def _bench(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "sweep.py"), "--problems", "1", "--models", "leaking", *words],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_real_sweep_that_is_killed_ends_whole() -> None:
    told = _bench("--ways", "local", "--trials", "1", "--kills", "1")
    assert "local: 1 of 1 cells" in told and "2 commands" in told and "1 of 1 entries are whole" in told


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_cluster_that_loses_a_node_makes_the_same_archive() -> None:
    pytest.importorskip("ray")
    told = _bench("--ways", "local,ray", "--trials", "3", "--kills", "2")
    assert "the archives have the same 3 keys; of 3 cells without chance 3 have the same" in told
