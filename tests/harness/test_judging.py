"""The judge for agents: right, wrong and hostile submissions on public keys only, in turn, bounded and recorded."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("aiohttp")

from judging_kit import (
    ENDLESS,
    EXITS,
    HELPER,
    LOADS,
    QUICK,
    RAISES,
    RIGHT,
    WRONG,
    Judge,
    Loop,
    body,
    client,
    rows_problem,
)

from grader.authoring.run import public_master
from grader.grading.check import check_submission
from grader.judge.turns import turn
from grader.score import peaks
from harness.judging.base import Ask, to_line
from harness.judging.pool import JudgePool
from harness.judging.workspace import workspace_files
from kbh_lint.base import paths
from kbh_lint.problems import Problem, load_deck


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return rows_problem(tmp_path_factory.mktemp("problem"))


@pytest.fixture(scope="module")
def pool(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgePool]:
    """One process for all tests here, whose machine's rates were measured already."""
    before = {name: os.environ.get(name) for name in ("XDG_CACHE_HOME", "OMP_NUM_THREADS")}
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    machine = peaks.machine("cpu")
    os.environ["OMP_NUM_THREADS"] = str(machine.threads)
    peaks.store(peaks.Measured(machine, 20.0, dict.fromkeys(peaks.PRECISIONS, 0.1)))
    made = JudgePool(workers=1)
    yield made
    loop.run(made.close())
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


@pytest.fixture
def quick(loop: Loop) -> Iterator[JudgePool]:
    """A pool of one process that judges nothing, for what is the pool's own."""
    made = JudgePool(workers=1, command=[sys.executable, "-c", QUICK])
    yield made
    loop.run(made.close())


@pytest.fixture
def start(loop: Loop, pool: JudgePool, problem: Problem, tmp_path: Path) -> Iterator[Any]:
    """Starts judges of one run each; they are closed at the end."""
    made: list[Judge] = []

    def started(**limits: Any) -> Judge:
        of = limits.pop("problem", problem)
        made.append(loop.run(Judge.start(of, tmp_path / f"run{len(made)}", limits.pop("pool", pool), **limits)))
        return made[-1]

    yield started
    for judge in made:
        loop.run(judge.close())


def workspace(problem: Problem, folder: Path, text: str = RIGHT) -> Path:
    folder.mkdir()
    for name, data in {**workspace_files(problem, budget_s=2700), "solution.py": text.encode()}.items():
        (folder / name).write_bytes(data)
    return folder


# --- what comes of a submission ------------------------------------------------------------------------------


def test_an_agent_checks_and_times_its_solution_and_all_of_it_is_in_the_record(
    loop: Loop, start: Any, problem: Problem, tmp_path: Path
) -> None:
    judge = start(lint=True)
    place = workspace(problem, tmp_path / "workspace", LOADS)
    (place / "helper.py").write_text(HELPER)
    code, out, error = loop.run(client(place, "check", judge.url))
    assert code == 0, error
    assert "64x16x32  nominal/0" in out and "98_rows solution.py on cpu, reduced shapes: passed" in out
    assert "on the public seed 42; a grading draws values of its own" in out and "\nlinter: " in out
    assert "check: building: importing the submission" in error and "<scratch>" not in out and "/tmp" not in out
    for name, text in (("solution.py", LOADS), ("helper.py", HELPER)):
        (tmp_path / name).write_text(text)
    public = check_submission(problem, tmp_path / "solution.py", master=public_master(42))
    shown = {tuple(re.split(r" +", line)[1:4:2]) for line in out.splitlines() if " ok " in line}
    assert shown == {(case.case, f"{case.error:.3g}") for case in public.cases}, "values are those of the public seed"
    use = loop.run(judge.use())
    assert (use.what, use.outcome, use.message, use.score) == ("check", "passed", "all 3 cases are right", None)
    assert use.error is not None and 0 < use.error < 1 and use.seconds > 0
    assert use.solution == hashlib.sha256(LOADS.encode()).hexdigest()
    assert judge.folder.get(use.solution) == LOADS.encode()
    assert judge.folder.get(hashlib.sha256(HELPER.encode()).hexdigest()) == HELPER.encode()
    last = judge.sent(use)[-1]
    assert last["event"] == "result" and last["text"] == out

    code, out, error = loop.run(client(place, "benchmark", judge.url))
    assert code == 0, error
    assert re.search(r"^  64x16x32 +[\d.]+ [mu]?s +[\d.]+ [un]s +[\d.e-]+$", out, re.M), out
    assert out.startswith("practice: 98_rows on CPU") and "linter" not in out and "call 1 of" not in error
    use = loop.run(judge.use())
    assert use.what == "benchmark" and use.score is not None and 0 < use.score < 1
    assert f"practice score {use.score:.3g}"[:18] in out and judge.sent(use)[-1]["text"] == out


@pytest.mark.parametrize(
    ("text", "outcome", "said"),
    [
        (WRONG, "failed", "elements are off by"),
        (RAISES, "failed", "ValueError: the key is <redacted>"),
        (EXITS, "failed", "ended its process (exit status 3)"),
        ("", "trouble", "is empty"),
    ],
    ids=["wrong", "raises", "exits", "empty"],
)
def test_what_is_wrong_is_told_and_no_fault_of_a_submission_is_one_of_the_judge(
    loop: Loop, start: Any, text: str, outcome: str, said: str
) -> None:
    judge = start()
    found = loop.run(judge.ask(body(text), "benchmark" if text is EXITS else "check"))
    assert found["outcome"] == outcome and said in found["text"], found["text"]
    assert found["code"] == (1 if outcome == "failed" else 2) and found["score"] is None
    assert "Traceback (most" not in found["message"] and "/tmp" not in found["text"]
    assert loop.run(judge.use()).outcome == outcome


def test_a_submission_that_does_not_come_to_an_end_is_ended_in_its_bounded_time(loop: Loop, start: Any) -> None:
    judge = start(turn_s=2.0)
    found = loop.run(judge.ask(body(ENDLESS)))
    assert found["outcome"] == "failed" and "did not finish" in found["message"]
    assert 1.5 < loop.run(judge.use()).seconds < 25


def test_a_problem_of_the_deck_is_judged_at_its_reduced_shapes(loop: Loop, start: Any) -> None:
    problem = load_deck(paths.problems_dir())["05_topk_bitonic"]
    text = (Path(problem.path).parent / "reference.py").read_text().partition("\ndef oracle")[0]
    judge = start(problem=problem)
    found = loop.run(judge.ask(body(text)))
    assert found["outcome"] == "passed" and "128x4096x1" in found["text"], found["text"]


# --- requests that are none ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../up.py", "/etc/x.py", "a/../../b.cu", ".hidden.py", "a/.git/x.py", "x.so", "x", "run.json", "record/x.py",
     "a\\b.py", "new\nline.py", "nul\0.py", "é.py", "x" * 200 + ".py", "a/b/c/d/e/f/g/h.cu", "", "solution.py/x.py"],
)  # fmt: skip
def test_a_hostile_name_is_refused_before_anything_is_written(loop: Loop, start: Any, name: str) -> None:
    judge = start()
    found = loop.run(judge.ask(body({"solution.py": RIGHT, name: "x"})))
    assert found["status"] == 400 and "name of a file" in found["error"] or "in a folder of which" in found["error"]
    use = loop.run(judge.use())
    assert (use.outcome, use.solution) == ("refused", "") and judge.sent(use)[0]["error"] == use.message


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is no {"),
        (b'{"files": {"a.py": ""}}', "holds no solution.py"),
        (b'{"files": {"solution.py": 1}}', "is no {"),
        (b'{"files": {"solution.py": "%"}}', "is not in base64"),
        (body({"solution.py": "x" * 2_000_001}), "a file may have 2 MB"),
        (body({"solution.py": RIGHT, **{f"{i}.cu": "" for i in range(65)}}), "66 files"),
        (body({"solution.py": RIGHT, **{f"{i}.cu": "x" * 1_900_000 for i in range(4)}}) + b" " * (12 << 20), "12 MiB"),
        (body({"solution.py": RIGHT, **{f"{i}.cu": "x" * 1_990_000 for i in range(5)}})[: 12 << 20], "not JSON"),
    ],
    ids=["cut", "deep", "list", "none", "number", "base64", "long", "many", "body", "cut body"],
)
def test_a_request_that_is_huge_or_none_is_refused_with_a_sentence(
    loop: Loop, start: Any, data: bytes, said: str
) -> None:
    judge = start()
    found = loop.run(judge.ask(data))
    assert found["status"] == 400 and said in found["error"]
    assert judge.service.requests == 1 and loop.run(judge.use()).outcome == "refused"


def test_a_request_that_does_not_come_to_its_end_is_refused(loop: Loop, start: Any) -> None:
    judge = start(body_s=0.2)

    async def slow() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(judge.url.rpartition(":")[2]))
        writer.write(b"POST /judge/check HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        answer = await reader.readuntil(b"}")
        writer.close()
        return answer

    assert b"did not come to its end within 0.2 s" in loop.run(slow())


def test_requests_and_seconds_of_a_run_are_limited_and_the_limit_is_told_once_in_the_record(
    loop: Loop, start: Any
) -> None:
    judge = start(requests=2)
    for status in (400, 400, 429, 429):
        assert loop.run(judge.ask(b"{"))["status"] == status
    assert [use.message for use in judge.uses][2:] == ["all 2 requests that a run may make of the judge are used up"]
    tired = start(seconds=0.5)
    tired.service.seconds = 0.5
    assert "0.5 s that the judge works for a run are used up" in loop.run(tired.ask(body(RIGHT)))["error"]


# --- turns ---------------------------------------------------------------------------------------------------


def test_agents_get_the_judge_in_the_order_in_which_they_came(loop: Loop, start: Any, quick: JudgePool) -> None:
    first, *others = (start(pool=quick) for _ in range(4))

    async def one_after_the_other() -> list[str]:
        order: list[str] = []
        there = asyncio.Event()
        held = asyncio.create_task(first.ask(body(ENDLESS), on=lambda _: there.set()))
        await asyncio.wait_for(there.wait(), 30)
        tasks = []
        for number, judge in enumerate(others):
            came = asyncio.Event()

            def on(event: dict[str, Any], number: int = number, came: asyncio.Event = came) -> None:
                came.set()
                order.append(f"{number} {event['event']} {event.get('text', '')[:4]}".strip())

            tasks.append(asyncio.create_task(judge.ask(body(RIGHT), on=on)))
            await asyncio.wait_for(came.wait(), 30)  # it waits before the next agent comes
        held.cancel()
        await asyncio.gather(*tasks)
        return order

    order = loop.run(one_after_the_other())
    waiting, rest = order[:3], order[3:]
    assert waiting == ["0 say wait", "1 say wait", "2 say wait"]
    assert [line for line in rest if "result" in line] == ["0 result", "1 result", "2 result"]
    said = [judge.sent(judge.uses[0])[0]["text"] for judge in others]
    assert said[0] == "waiting for the judge, which is busy with another agent"
    assert said[2].endswith("; 2 wait before you") and others[0].uses[0].waited_s > 0


def test_an_agent_has_one_request_at_a_time(loop: Loop, start: Any, quick: JudgePool) -> None:
    judge = start(pool=quick)

    async def twice() -> dict[str, Any]:
        there = asyncio.Event()
        first = asyncio.create_task(judge.ask(body(ENDLESS), on=lambda _: there.set()))
        await asyncio.wait_for(there.wait(), 30)
        second = await judge.ask(body(WRONG), "benchmark")
        first.cancel()
        return second

    found = loop.run(twice())
    assert found["status"] == 409 and "still at your last request" in found["error"]
    assert [use.outcome for use in judge.uses][:1] == ["refused"]


def test_a_grading_gets_the_device_when_the_agent_that_holds_it_hangs_up(loop: Loop, start: Any) -> None:
    judge = start()
    runs, waits, done = threading.Event(), threading.Event(), threading.Event()
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        waits.set()

    def grading() -> None:
        runs.wait(30)
        with turn("cpu", tell):
            done.set()

    def wanted(event: dict[str, Any]) -> bool:
        if "call 1 of" in event.get("text", ""):
            runs.set()
        return runs.is_set() and waits.wait(30)

    thread = threading.Thread(target=grading)
    thread.start()
    loop.run(judge.until(body(ENDLESS), wanted))
    assert done.wait(30)
    thread.join()
    assert told[0] == "waiting for another grading that is being timed on this CPU"
    use = loop.run(judge.use())
    assert (use.outcome, use.message) == ("gone", "the agent hung up before there was a result") and use.seconds > 0
    assert any("call 1 of" in event.get("text", "") for event in judge.sent(use))


def test_practice_waits_for_a_grading_that_holds_the_device_and_does_not_run_beside_it(loop: Loop, start: Any) -> None:
    judge = start()  # asked after the process of the test before was ended
    seen: list[str] = []
    waits = threading.Event()

    def on(event: dict[str, Any]) -> None:
        seen.append(event.get("text", event["event"]))
        if "waiting for a turn on this CPU" in seen[-1]:
            waits.set()

    with turn("cpu"):
        asked = asyncio.run_coroutine_threadsafe(judge.ask(body(RIGHT), on=on), loop.loop)
        assert waits.wait(30)
        assert not any("submission" in text for text in seen), "nothing of it has been started"
    assert asked.result(30)["outcome"] == "passed"
    assert any("importing the submission" in text for text in seen) and judge.uses[0].waited_s > 0


# --- what ends it --------------------------------------------------------------------------------------------


def test_the_end_of_a_run_ends_its_judging_and_that_is_recorded_too(loop: Loop, start: Any, quick: JudgePool) -> None:
    judge = start(pool=quick)

    async def ended() -> dict[str, Any]:
        there = asyncio.Event()
        asked = asyncio.create_task(judge.ask(body(ENDLESS), on=lambda _: there.set()))
        await asyncio.wait_for(there.wait(), 30)
        await judge.service.close()
        assert [use.outcome for use in judge.uses] == ["stopped"]
        assert (await judge.ask(body(RIGHT)))["status"] == 503
        return await asked

    assert loop.run(ended())["event"] != "result"


def test_a_process_that_is_killed_is_told_of_and_another_one_takes_its_place(
    loop: Loop, start: Any, quick: JudgePool
) -> None:
    judge = start(pool=quick)

    def kill(event: dict[str, Any]) -> None:
        if "call 1 of" in event.get("text", ""):
            os.kill(int(event["text"].split()[-1]), signal.SIGKILL)

    found = loop.run(judge.ask(body(ENDLESS), on=kill))
    assert (found["outcome"], found["code"]) == ("trouble", 2) and "process ended; ask again" in found["text"]
    assert loop.run(judge.ask(body(RIGHT)))["outcome"] == "passed"


def test_a_process_ends_with_its_harness_and_lets_go_of_the_device(problem: Problem, pool: JudgePool) -> None:
    ask = Ask("check", problem.path, "cpu", "cpu", {"solution.py": json.loads(body(ENDLESS))["files"]["solution.py"]},
              0.0, 60.0, 60.0, (42,), False, "auto")  # fmt: skip
    pipe = subprocess.PIPE
    worker = subprocess.Popen([sys.executable, "-m", "harness.judging.worker"], stdin=pipe, stdout=pipe)
    try:
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(to_line(ask))
        worker.stdin.flush()
        assert any(b"call 1 of" in line for line in worker.stdout)
        worker.stdin.close()  # as the system does when the harness is killed
        assert worker.wait(30) == 0
        worker.stdout.close()
        told: list[str] = []
        with turn("cpu", told.append):
            assert told == []
    finally:
        worker.kill()


@pytest.mark.parametrize("bound", ["turn_s", "work_s"])
def test_a_process_that_is_stuck_is_ended_when_its_time_is_up(
    loop: Loop, start: Any, quick: JudgePool, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr("harness.judging.pool.GRACE_S", 0.2)
    judge = start(pool=quick, **{bound: 0.3})
    found = loop.run(judge.ask(body(ENDLESS)))
    assert found["outcome"] == "late" and "more than 0.3 s" in found["message"]
    assert quick._devices["cpu"].count == 0


@pytest.mark.parametrize("said", ["no JSON", "[1]", '{"event": "answer"}', '{"event": "answer", "code": "x"}', ""])
def test_a_process_that_talks_nonsense_is_replaced(loop: Loop, start: Any, said: str) -> None:
    other = JudgePool(workers=1, command=[sys.executable, "-c", f"print({said!r})"])
    judge = start(pool=other)
    assert loop.run(judge.ask(body(RIGHT)))["outcome"] == "trouble"
    loop.run(other.close())


def test_a_process_that_had_nothing_to_do_for_long_ends(loop: Loop, start: Any) -> None:
    brief = JudgePool(workers=1, command=[sys.executable, "-c", QUICK], idle_s=0.0)
    judge = start(pool=brief)
    assert loop.run(judge.ask(body(RIGHT)))["outcome"] == "passed"
    loop.run(brief.close())
    assert brief._devices["cpu"].count == 0 and not brief._ending
