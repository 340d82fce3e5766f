"""Frames, shared memory and the watch over a child, with children of a few lines."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grader.deck.code import TORCH_DTYPES
from grader.sandbox import choose
from grader.sandbox.base import CheckError
from grader.sandbox.snapshot import snapshot
from grader.sandbox.supervise import Child, ChildGone, environment
from grader.wire import channel, frames
from grader.wire.channel import Memory, Views, layout, size_of
from grader.wire.frames import ChannelError, Frame, Kind, clean_text, receive, receive_with, send

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@given(
    kind=st.sampled_from(Kind),
    seq=st.integers(0, 2**32 - 1),
    numbers=st.lists(st.floats(allow_nan=False), max_size=8),
    text=st.text(max_size=200),
)
def test_a_frame_arrives_as_it_was_sent(kind: Kind, seq: int, numbers: list[float], text: str) -> None:
    frame = Frame(kind, seq, tuple(numbers), text.encode("utf-8", "replace").decode())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(ours, frame)
        assert receive(theirs, time.monotonic() + 5) == frame


def header(magic: bytes = b"kbh1", kind: int = 2, numbers: int = 0, seq: int = 0, length: int = 0) -> bytes:
    return struct.pack("<4sBxHII", magic, kind, numbers, seq, length)


@pytest.mark.parametrize(
    "sent",
    [
        header(magic=b"kbh2"),
        header(kind=99),
        header(numbers=frames.MAX_NUMBERS + 1),
        header(length=frames.MAX_TEXT + 1),
        b"print says hello",
    ],
)
def test_bytes_that_are_no_frame_are_refused_before_their_length_is_believed(pair: Pair, sent: bytes) -> None:
    pair[0].sendall(sent)
    with pytest.raises(ChannelError):
        receive(pair[1], time.monotonic() + 5)


def test_an_end_or_a_silence_inside_a_frame_is_noticed(pair: Pair) -> None:
    pair[0].sendall(header(length=10) + b"four")
    with pytest.raises(TimeoutError):
        receive(pair[1], time.monotonic() + 0.05)
    pair[0].close()
    with pytest.raises(EOFError):
        receive(pair[1], time.monotonic() + 5)


def test_text_that_is_too_long_is_cut_when_it_is_sent(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_TEXT", 100)
    send(pair[0], Frame(Kind.ERROR, 1, text="x" * 500))
    assert receive(pair[1], time.monotonic() + 5).text == "x" * 100


def test_text_for_people_holds_no_control_characters_and_keeps_its_end() -> None:
    assert clean_text("\x1b[31mred\a\n\tend", 100) == "?[31mred?\n    end"
    assert clean_text("a" * 50 + "end", 10) == "...aaaaaaaend"


def specs() -> list[SimpleNamespace]:
    return [
        SimpleNamespace(name="x", dtype="e4m3", shape=(3, 5)),
        SimpleNamespace(name="empty", dtype="f32", shape=(0, 4)),
        SimpleNamespace(name="flag", dtype="bool", shape=(2,)),
        SimpleNamespace(name="index", dtype="i64", shape=(7,)),
    ]


def test_tensors_of_every_type_lie_apart_in_shared_memory_and_both_sides_see_them() -> None:
    slots = layout(specs(), TORCH_DTYPES)
    assert [slot.offset for slot in slots] == [0, 512, 512, 1024]
    assert channel.slots_from_json(channel.slots_to_json(slots)) == slots
    memory = Memory("kbh-test", size_of(slots))
    other = Views(memory.fd, memory.size)
    memory.tensor(slots[3]).copy_(torch.arange(7))
    memory.tensor(slots[0]).copy_(torch.full((3, 5), 1.5))
    assert other.tensor(slots[3]).tolist() == list(range(7))
    assert other.tensor(slots[0]).dtype == torch.float8_e4m3fn and bool((other.tensor(slots[0]).float() == 1.5).all())
    assert other.tensor(slots[1]).shape == (0, 4)
    memory.poison(size_of(slots))
    assert other.tensor(slots[3]).tolist() == [-1] * 7 and bool(other.tensor(slots[0]).float().isnan().all())
    memory.close()


def test_replacing_a_region_changes_what_tensors_made_before_hold_but_not_where_they_are() -> None:
    slots = layout([SimpleNamespace(name="x", dtype="i64", shape=(1000,))], TORCH_DTYPES)
    first, second = Memory("kbh-test", size_of(slots)), Memory("kbh-test", size_of(slots))
    first.tensor(slots[0]).fill_(1)
    second.tensor(slots[0]).fill_(2)
    views = Views(first.fd, first.size)
    seen = views.tensor(slots[0])
    place = seen.data_ptr()
    views.replace(second.fd)
    assert seen.data_ptr() == place and bool((seen == 2).all())
    seen.fill_(3)
    assert bool((second.tensor(slots[0]) == 3).all()) and bool((first.tensor(slots[0]) == 1).all())
    for memory in (first, second):
        memory.close()


def test_descriptors_travel_to_the_candidate_and_are_dropped_on_the_way_back(pair: Pair) -> None:
    judge, candidate = pair
    memory = Memory("kbh-test", 4096)
    send(judge, Frame(Kind.GO, 5, (1.0,), "text"), [memory.fd])
    frame, (received,) = receive_with(candidate)
    assert frame == Frame(Kind.GO, 5, (1.0,), "text") and os.fstat(received).st_ino == os.fstat(memory.fd).st_ino
    before = len(os.listdir("/proc/self/fd"))
    send(candidate, Frame(Kind.DONE, 5), [received, received])
    assert receive(judge, time.monotonic() + 5) == Frame(Kind.DONE, 5)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(received)
    memory.close()


def test_a_child_cannot_shrink_or_unseal_the_memory_that_the_judge_has_mapped() -> None:
    memory = Memory("kbh-test", 1 << 16)
    for size in (0, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.fd, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(memory.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    memory.close()


LINK = "import os, signal, socket, struct, sys; link = socket.socket(fileno=int(sys.argv[2]));"


def child(tmp_path: Path, code: str, budget: float = 20.0) -> Child:
    sandbox = choose(device="cpu", wanted="plain")
    return Child([], sandbox=sandbox, scratch=tmp_path, read=(), cwd=tmp_path, budget=budget, boot=LINK + code)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("os._exit(0)", "the submission ended its process (exit status 0) while it was to start"),
        ("sys.exit(3)", "the submission ended its process (exit status 3) while it was to start"),
        ("os.abort()", "the submission was killed by SIGABRT while it was to start"),
        ("link.sendall(b'RESULT: PASS ' * 9); signal.pause()", "wrote on the grader's channel while it was to start"),
    ],
)
def test_each_way_to_go_wrong_gets_its_own_sentence(tmp_path: Path, code: str, words: str) -> None:
    with pytest.raises(ChildGone, match=words.replace("(", r"\(").replace(")", r"\)")):
        child(tmp_path, code).wait("start")


def test_a_child_that_hangs_is_ended_when_its_time_is_up(tmp_path: Path) -> None:
    hanging = child(tmp_path, "signal.pause()", budget=0.3)
    with pytest.raises(ChildGone, match=r"did not finish within 0.3 s; it was to start"):
        hanging.wait("start")
    assert hanging._process.returncode == 128 + 9


def test_an_answer_to_another_question_is_not_taken(tmp_path: Path) -> None:
    code = "link.recv(1); link.sendall(struct.pack('<4sBxHII', b'kbh1', 2, 0, 7, 0)); signal.pause()"
    with pytest.raises(ChildGone, match="answered a question that was not asked"):
        child(tmp_path, code).ask(Kind.CALL, "run")


@pytest.mark.parametrize(
    ("question", "answer"),
    [(Kind.GO, Kind.READY), (Kind.CALL, Kind.READY), (Kind.REHEARSE, Kind.DONE), (Kind.LOAD, Kind.GO)],
)
def test_an_answer_that_says_something_else_than_was_asked_ends_the_process(
    tmp_path: Path, question: Kind, answer: Kind
) -> None:
    code = f"link.recv(1); link.sendall(struct.pack('<4sBxHII', b'kbh1', {int(answer)}, 0, 1, 0)); signal.pause()"
    with pytest.raises(ChildGone, match=f"answered {question.name} with {answer.name} while it was to run"):
        child(tmp_path, code).ask(question, "run")


def test_noise_on_the_standard_streams_harms_nothing_and_is_shown_when_the_child_dies(tmp_path: Path) -> None:
    code = "print('x' * 10**6); print('the last words', file=sys.stderr, flush=True); os._exit(1)"
    with pytest.raises(ChildGone) as gone:
        child(tmp_path, code).wait("start")
    assert gone.value.detail.endswith("the last words") and len(gone.value.detail) < 2000


def test_what_the_child_started_ends_with_it(tmp_path: Path) -> None:
    code = "pid = os.fork(); pid or signal.pause();"
    code += "link.sendall(struct.pack('<4sBxHIId', b'kbh1', 2, 1, 0, 0, pid)); signal.pause()"
    parent = child(tmp_path, code)
    (pid,) = parent.wait("start").numbers
    grandchild = os.pidfd_open(int(pid))
    assert select.select([grandchild], [], [], 0)[0] == [], "it runs"
    parent.close()
    assert select.select([grandchild], [], [], 10)[0] == [grandchild], "it has ended"
    os.close(grandchild)


def test_the_child_inherits_only_the_descriptors_and_variables_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBH_SECRET", "1")
    secret = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(secret, True)
    code = "n = len(os.listdir('/proc/self/fd')); k = int('KBH_SECRET' in os.environ);"
    code += "link.sendall(struct.pack('<4sBxHIIdd', b'kbh1', 2, 2, 0, 0, n, k)); signal.pause()"
    running = child(tmp_path, code)
    assert running.wait("start").numbers == (5.0, 0.0), "three standard streams, the channel, and the listing itself"
    running.close()
    os.close(secret)
    assert environment(tmp_path)["HOME"].startswith(str(tmp_path))


def test_a_snapshot_holds_the_submission_and_the_sidecars_that_it_names(tmp_path: Path) -> None:
    source = tmp_path / "mine"
    source.mkdir()
    (source / "triton.py").write_text("import torch\nCODE = open('kernel.cu').read()\n")
    (source / "kernel.cu").write_text("// a kernel\n")
    (source / "other.cu").write_text("// not named\n")
    taken = snapshot(source / "triton.py", tmp_path / "copy")
    assert sorted(p.name for p in (tmp_path / "copy").iterdir()) == ["kernel.cu", "solution.py"]
    assert taken.file.name == "solution.py" and len(taken.sha256) == 64
    again = snapshot(source / "triton.py", tmp_path / "copy")
    assert again == taken
    with pytest.raises(CheckError, match=r"absent\.py: does not exist"):
        snapshot(source / "absent.py", tmp_path / "copy")
