"""Whatever comes over the channel, the judge ends with one sentence, soon, and with nothing left open.

The candidates here are threads that write to the socket what no honest one would. The judge's side is the real one.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from toy import HONEST, solution, toy_problem

from grader.candidate.clock import make_clock
from grader.candidate.clock.outside import run
from grader.candidate.runner import Runner
from grader.candidate.serve import _answer, _serve
from grader.judge.judging import default_options, run_trial
from grader.judge.session import Session
from grader.record.bundle import trial_from_json, trial_to_json
from grader.record.cell import SandboxRecord, TrialResult
from grader.sandbox import Jail
from grader.sandbox.snapshot import snapshot
from grader.sandbox.supervise import Child, ChildGone
from grader.wire.frames import MAX_NUMBERS, MAX_TEXT, Frame, Kind, is_answer, receive_with, send

Candidate = Callable[[socket.socket], None]
SOON = 10.0  # seconds; the limits that are given to the judge here are far below


class Threads:
    """A sandbox whose candidates are threads of this process; the process that it reports has ended by itself."""

    record = SandboxRecord("plain", 0, True)

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._threads: list[threading.Thread] = []

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, fds: Sequence[int], jail: Jail,
        output: BinaryIO, report: int | None = None,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        link = socket.socket(fileno=os.dup(fds[0]))
        self._threads.append(threading.Thread(target=self._run, args=(link,), daemon=True))
        self._threads[-1].start()
        return subprocess.Popen(["true"])

    def _run(self, link: socket.socket) -> None:
        with link, contextlib.suppress(OSError, EOFError):
            self._candidate(link)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()

    def join(self) -> None:
        """Waits until the candidates noticed that the judge hung up."""
        for thread in self._threads:
            thread.join(SOON)
            assert not thread.is_alive(), "the judge left its end of the channel open"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("channel")


def header(magic: bytes = b"kbh1", kind: int = Kind.DONE, numbers: int = 0, seq: int = 1, length: int = 0) -> bytes:
    return struct.pack("<4sBxHII", magic, kind, numbers, seq, length)


def asked(place: Path, candidate: Candidate, *, limit: float = 0.05) -> Frame | ChildGone:
    """What the judge makes of a candidate when it asks one question; checks that it ends what it must."""
    files = set(os.listdir("/proc/self/fd"))
    sandbox = Threads(candidate)
    began = time.monotonic()
    child = Child([], sandbox=sandbox, scratch=place, read=(), cwd=place, budget=1.0)
    try:
        return child.ask(Kind.CALL, "run", numbers=(0.0,), limit=limit)
    except ChildGone as gone:
        assert str(gone).startswith("the submission ") and "\n" not in str(gone) and len(str(gone)) < 300
        return gone
    finally:
        child.close()
        sandbox.join()
        assert child.log == ""  # and the thread that reads what it prints has ended
        assert time.monotonic() - began < SOON
        assert set(os.listdir("/proc/self/fd")) == files, "a descriptor was left open"


COUNTS = st.one_of(st.integers(0, 5), st.sampled_from([MAX_NUMBERS, MAX_NUMBERS + 1, 2**16 - 1]))
LENGTHS = st.one_of(st.integers(0, 20), st.sampled_from([MAX_TEXT, MAX_TEXT + 1, 2**31, 2**32 - 1]))
HEADERS = st.builds(
    header,
    magic=st.sampled_from([b"kbh1", b"kbh1", b"kbh2", b"\0\0\0\0"]),
    kind=st.one_of(st.sampled_from(Kind).map(int), st.integers(0, 255)),
    numbers=COUNTS,
    seq=st.one_of(st.integers(0, 3), st.just(2**32 - 1)),
    length=LENGTHS,
)
BODIES = st.one_of(st.binary(max_size=64), st.sampled_from([b"\xed\xa0\x80", b"\x00" * 64, b"\xff" * 64, b"\x1b[2J"]))
FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(st.lists(st.one_of(HEADERS, BODIES), max_size=6).map(b"".join), st.booleans())
@example(header(length=2**32 - 1) + b"x" * 100, True)
@example(header(numbers=MAX_NUMBERS) + b"\xff" * 8 * MAX_NUMBERS, True)
@example(header(length=3) + b"\xed\xa0\x80", True)
@example(b"", True)
def test_any_bytes_give_an_answer_or_one_sentence(place: Path, sent: bytes, stays: bool) -> None:
    def candidate(link: socket.socket) -> None:
        link.sendall(sent)
        if stays:
            while link.recv(1 << 16):
                pass

    got = asked(place, candidate)
    if isinstance(got, Frame):
        assert got.seq == 1 and len(got.numbers) <= MAX_NUMBERS and len(got.text.encode()) <= 3 * MAX_TEXT


@FUZZ
@given(
    kind=st.sampled_from(Kind),
    seq=st.sampled_from([0, 1, 1, 1, 2, 2**32 - 1]),
    numbers=st.lists(st.sampled_from([0.0, -1.0, math.nan, math.inf, -math.inf, 1e308, 5e-324]), max_size=4),
    text=st.text(st.characters(codec="utf-8"), max_size=20),
    cut=st.integers(0, 40),
)
@example(kind=Kind.DONE, seq=1, numbers=[0.0], text="", cut=0)
@example(kind=Kind.READY, seq=1, numbers=[0.0], text="", cut=0)
def test_a_whole_answer_to_the_question_is_taken_and_nothing_else(
    place: Path, kind: Kind, seq: int, numbers: list[float], text: str, cut: int
) -> None:
    data = bytearray()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(ours, Frame(kind, seq, tuple(numbers), text))
        data += theirs.recv(1 << 16)
    whole = cut >= len(data) or cut == 0
    got = asked(place, lambda link: link.sendall(data if whole else data[:cut]))
    assert isinstance(got, Frame) == (whole and seq == 1 and is_answer(Kind.CALL, kind))


def quiet(link: socket.socket) -> None:
    while link.recv(1 << 16):
        pass


def drops(link: socket.socket) -> None:
    """A frame, one byte at a time, for ever."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    while True:
        for byte in header(length=MAX_TEXT) + b"x" * MAX_TEXT:
            link.send(bytes([byte]))
            if select_closed(link):
                return


def select_closed(link: socket.socket) -> bool:
    """Waits a moment for the judge to hang up."""
    link.settimeout(0.005)
    try:
        return link.recv(1 << 16) == b""
    except TimeoutError:
        return False


def flood(link: socket.socket) -> None:
    while True:
        link.sendall(header(seq=7, length=100) + b"x" * 100)


def right_answers(link: socket.socket) -> None:
    while True:
        link.sendall(header(seq=2))


def smuggle(link: socket.socket) -> None:
    """Each frame brings descriptors of files that the judge must not end up holding."""
    with open("/dev/zero", "rb") as zero:
        socket.send_fds(link, [header(seq=1)[:5]], [zero.fileno()] * 200)
        socket.send_fds(link, [header(seq=1)[5:]], [zero.fileno()] * 200)
        with contextlib.suppress(TimeoutError):
            link.settimeout(SOON)
            quiet(link)


@pytest.mark.parametrize(
    ("candidate", "says"),
    [
        (quiet, "did not finish within 0.05 s; it was to run"),
        (drops, "did not finish within 0.05 s; it was to run"),
        (flood, "answered a question that was not asked while it was to run"),
        (right_answers, "answered a question that was not asked while it was to run"),
        (lambda link: None, "ended its process (exit status 0) while it was to run"),
        (lambda link: link.shutdown(socket.SHUT_WR), "ended its process (exit status 0) while it was to run"),
    ],
)
def test_silence_drops_and_floods_end_in_time(place: Path, candidate: Candidate, says: str) -> None:
    got = asked(place, candidate)
    assert isinstance(got, ChildGone) and says in str(got)


def test_descriptors_that_a_candidate_sends_are_dropped(place: Path) -> None:
    assert isinstance(asked(place, smuggle), Frame)


def test_a_candidate_that_never_reads_cannot_hold_the_judge_up(place: Path) -> None:
    """The judge's question is larger than the socket takes."""
    stop = threading.Event()
    sandbox = Threads(lambda link: (stop.wait(SOON), None)[1])
    child = Child([], sandbox=sandbox, scratch=place, read=(), cwd=place, budget=1.0)
    child.link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    began = time.monotonic()
    with pytest.raises(ChildGone, match="did not finish"):
        child.ask(Kind.LOAD, "make its model", text="x" * MAX_TEXT, limit=0.05)
    assert time.monotonic() - began < SOON / 2
    stop.set()
    sandbox.join()


# --- whole trials ------------------------------------------------------------------------------------------

REAL = (Kind.READY, Kind.DONE, Kind.FAULT, Kind.ERROR, Kind.REFUSED)
NUMBERS = ((), (0.0, 0.0), (1e-9, 0.0), (math.nan, 1.0), (math.inf,), (-1.0, math.nan), (1e308,) * MAX_NUMBERS)
TEXTS = (
    "",
    "fine",
    "\x1b[31mpwned\x07\r\n" * 50,
    "x" * MAX_TEXT,
    "\u202e\ud7ff\ufffe",
    "\0" * 100,
    "kbh: accepted\n" * 99,
)


def fuzzed(seed: int) -> Candidate:
    """A candidate that is honest until the import and then answers as chance has it."""
    chance = random.Random(seed)
    patience = chance.choice([0, 0, 1, 3, 8, 20])

    def candidate(link: socket.socket) -> None:
        left = patience
        send(link, Frame(Kind.READY, 0))
        imported = False
        while True:
            question, descriptors = receive_with(link)
            for descriptor in descriptors:
                os.close(descriptor)
            imported |= question.kind == Kind.IMPORT
            right = Kind.DONE if is_answer(question.kind, Kind.DONE) else Kind.READY
            honest = Frame(right, question.seq, (1e-6, 0.0))
            if not imported or left > 0:
                left -= imported
                send(link, honest)
            else:
                strange(link, question.seq, chance)

    return candidate


def strange(link: socket.socket, seq: int, chance: random.Random) -> None:
    kind = chance.choice([*REAL, Kind.DONE, Kind.DONE, Kind.DONE, *Kind])
    data: dict[str, Any] = {"numbers": chance.choice(NUMBERS), "text": chance.choice(TEXTS)}
    frame = Frame(kind, seq if chance.random() < 0.9 else chance.randrange(2**32), **data)
    how = chance.random()
    if how < 0.1:
        link.sendall(chance.randbytes(chance.randrange(1, 200)))
    elif how < 0.15:
        link.close()
        raise EOFError
    else:
        send(link, frame, [0] if chance.random() < 0.1 else ())


def trial(tmp_path: Path, candidate: Candidate, seed: int, timeout: float = 2.0) -> TrialResult:
    problem = toy_problem(tmp_path)
    scratch = tmp_path / "scratch"
    taken = snapshot(solution(tmp_path, HONEST), scratch / "submission")
    sandbox = Threads(candidate)
    options = replace(default_options("cpu", timeout=timeout, build_timeout=timeout), samples=3, warmups=0)
    try:
        return run_trial(
            problem, taken, index=0, device="cpu", scale="reduced", master=seed.to_bytes(32, "big"), options=options,
            sandbox=sandbox, scratch=scratch, caches=None, keep_log=lambda text: "", progress=lambda text: None,
        )  # fmt: skip
    finally:
        sandbox.join()


@pytest.mark.parametrize("seed", range(24))
def test_no_answers_make_a_trial_right_or_break_it(tmp_path: Path, seed: int) -> None:
    files = len(os.listdir("/proc/self/fd"))
    began = time.monotonic()
    result = trial(tmp_path, fuzzed(seed), seed)
    assert time.monotonic() - began < 2 * SOON
    assert result.status in ("wrong", "refused")
    assert result.message and "\n" not in result.message and len(result.message) < 2500
    for text in (result.message, result.detail, *(shape.message for shape in result.shapes)):
        assert all(c.isprintable() or c == "\n" for c in text)
    assert trial_from_json(trial_to_json(result)) == result
    assert len(os.listdir("/proc/self/fd")) <= files


def working(tmp_path: Path, go: Callable[[Runner, socket.socket, Frame, int], None] | None = None) -> Candidate:
    """A candidate that does the work; `go` does a batch in its way."""

    def candidate(link: socket.socket) -> None:
        cpu = torch.device("cpu")
        runner = Runner(cpu, make_clock(cpu, True))
        arguments = argparse.Namespace(file=tmp_path / "solution.py")
        send(link, Frame(Kind.READY, 0))
        imported = False
        while True:
            question, descriptors = receive_with(link)
            imported |= question.kind == Kind.IMPORT
            if go is not None and imported and question.kind == Kind.GO and descriptors:  # a batch, no call alone
                go(runner, link, question, descriptors[0])
            else:
                run(_answer(link, question.seq, partial(_serve, runner, arguments, question, descriptors)))
            for descriptor in descriptors:
                os.close(descriptor)

    return candidate


def test_the_same_candidate_is_right_when_it_does_the_work(tmp_path: Path) -> None:
    """So that the tests above fail for the answers and not for the set-up."""
    result = trial(tmp_path, working(tmp_path), 1)
    assert (result.status, result.detail) == ("right", "")


@pytest.mark.parametrize("early", [False, True])
def test_a_batch_that_is_said_to_be_done_before_its_last_call_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    """Copying large outputs takes as long as their last part takes to compute. Here the candidate does that part right
    after the judge has read its clock, before anything is compared."""
    over, whole = threading.Event(), threading.Event()
    batch = Session.batch

    def watched(session: Session, *args: Any) -> Any:
        called = batch(session, *args)
        over.set()
        assert whole.wait(SOON)
        return called

    def go(runner: Runner, link: socket.socket, question: Frame, descriptor: int) -> None:
        over.clear()
        whole.clear()
        runner.views["batch inputs"].replace(descriptor)
        last = len(runner.batch) - 1
        with torch.no_grad():
            for index, place in enumerate(runner.batch):
                if early and index == last:
                    send(link, Frame(Kind.DONE, question.seq))
                    assert over.wait(SOON)
                place.outputs[0].copy_(runner.models[index % len(runner.models)](*place.inputs.values()))
        whole.set()
        if not early:
            send(link, Frame(Kind.DONE, question.seq))

    whole.set()  # for the batches before the import
    monkeypatch.setattr(Session, "batch", watched)
    result = trial(tmp_path, working(tmp_path, go), 1, timeout=30.0)
    assert result.status == ("wrong" if early else "right"), result.message
