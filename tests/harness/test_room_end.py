"""Whatever an agent starts ends with it, with its room, and with the harness."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from room_kit import SMALL, begun, opened, python, ran, until

from grader.sandbox import harden_judge
from grader.sandbox.jail import descendants
from harness.room.base import Room, RoomSpec

ROOT = Path(__file__).resolve().parents[2]
STAYING = {
    "double fork": """
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
""",
    "signals ignored": """
if os.fork() == 0:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)
""",
    "nohup": """
for command in (["nohup", "sleep", "600"], ["setsid", "nohup", "sleep", "600"]):
    subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
""",
    "timer": """
if os.fork() == 0:
    os.setsid()
    def again(*_):
        if os.fork() == 0:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
        else:
            os._exit(0)
    signal.signal(signal.SIGALRM, again)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    while True:
        signal.pause()
""",
    "chain of short lives": """
if os.fork() == 0:
    while True:
        try:
            if os.fork():
                os._exit(0)
            os.setsid()
        except OSError:
            pass
""",
}
BEGIN = "import os, signal, subprocess, sys, time\n"
BOMB = """
import os, resource, sys
if os.getuid() == 0 or resource.getrlimit(resource.RLIMIT_NPROC)[1] > 300:
    sys.exit("the limit is not in place, so this does not start")
print("ready", flush=True)
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
HARNESS = """
import os, sys, time
from harness.room import open_room
from harness.room.base import RoomSpec
from grader.sandbox.jail import descendants
room = open_room(RoomSpec(disk_bytes=1 << 20, tmp_bytes=1 << 20), sealed=sys.argv[1] == "True")
reader, writer = os.pipe()
with os.fdopen(reader, "rb") as lines, os.fdopen(writer, "wb") as out:
    room.start([sys.executable, "-I", "-S", "-c", sys.argv[2]], env={}, stdin=b"", stdout=out, stderr=out)
    lines.readline()
print(*[pid for pid, _ in descendants(os.getpid())], flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module", autouse=True)
def _harness() -> None:
    harden_judge()


@pytest.fixture(params=[True, False], ids=["sealed", "plain"])
def room(request: pytest.FixtureRequest) -> Room:
    room = opened(sealed=request.param)
    request.addfinalizer(room.close)
    return room


def alive(room: Room) -> list[int]:
    """Processes of the room's user, or, where that is ours, those below us."""
    if room.record.uid == os.getuid():
        return [pid for pid, _ in descendants(os.getpid())]
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"\t{room.record.uid}\t" in (entry / "status").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("name", STAYING)
def test_what_stays_behind_is_counted_and_ends_with_the_agent(room: Room, name: str) -> None:
    said = ran(room, python(BEGIN + STAYING[name] + 'print("done", flush=True)\n'))
    assert (said.status, said.out) == (0, "done\n")
    until(lambda: alive(room) == [])
    if name != "chain of short lives":  # one that forks and goes may be missed by one look at the processes
        until(lambda: room.left_over() >= {"double fork": 3, "nohup": 2}.get(name, 1))
    room.end()
    assert alive(room) == []


@pytest.mark.parametrize("name", STAYING)
def test_the_end_of_a_room_ends_what_an_agent_started(room: Room, name: str) -> None:
    begun(room, python(BEGIN + STAYING[name] + 'print("ready", flush=True)\ntime.sleep(600)\n'))
    if name == "double fork":
        until(lambda: room.left_over() == 3)
    assert room.wait(0) is None
    began = time.monotonic()
    room.end()
    assert time.monotonic() - began < 10
    assert alive(room) == []
    assert room.wait(0) is not None
    if name == "double fork":
        assert room.left_over() == 3


def test_an_agent_that_ends_properly_leaves_nothing_over(room: Room) -> None:
    assert ran(room, ["sh", "-c", "sleep 0 & wait; true"]).status == 0
    assert room.left_over() == 0
    room.end()
    assert room.left_over() == 0


def test_a_fork_bomb_is_bounded_by_its_own_rooms_number_and_ends() -> None:
    for sealed in (True, False):
        spec = RoomSpec(disk_bytes=1 << 20, tmp_bytes=1 << 20, processes=30)
        with opened(spec, sealed=sealed) as room, opened(SMALL) as other:
            if room.record.uid == 0:
                pytest.skip("the kernel does not count the processes of root")
            begun(room, python(BOMB))
            until(lambda room=room: room.left_over() >= 29)
            assert len(alive(room)) <= 30 + 2 * (os.cpu_count() or 1)
            if os.getuid() == 0:
                assert ran(other, ["sh", "-c", "for i in 1 2 3 4 5; do sleep 1 & done; echo fine"]).out == "fine\n"
            room.end()
            assert alive(room) == []


def test_waiting_in_one_thread_ends_when_another_ends_the_room(room: Room) -> None:
    begun(room, python('import time; print("ready", flush=True); time.sleep(600)'))
    found: list[int | None] = []
    waiting = threading.Thread(target=lambda: found.append(room.wait(60)))
    waiting.start()
    room.end()
    waiting.join(30)
    assert found == [128 + signal.SIGKILL] or found == [-signal.SIGKILL]


def test_a_room_that_was_never_used_ends_and_closes_twice(room: Room) -> None:
    assert room.left_over() <= 1
    room.end()
    room.end()
    room.close()
    room.close()
    assert alive(room) == []


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "plain"])
def test_a_harness_that_is_killed_takes_its_rooms_along(sealed: bool) -> None:
    opened(sealed=sealed).close()
    daemons = BEGIN + STAYING["double fork"] + 'print("ready", flush=True)\ntime.sleep(600)\n'
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(sealed), daemons],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        text=True,
    )
    assert harness.stdout is not None
    handles = [os.pidfd_open(int(pid)) for pid in harness.stdout.readline().split()]
    assert len(handles) >= 5
    harness.kill()
    harness.wait()
    harness.stdout.close()
    for handle in handles:
        ended = select.select([handle], [], [], 30)[0]
        os.close(handle)
        assert ended, "a process outlived the harness"


def test_two_rooms_at_once_see_nothing_of_each_other() -> None:
    look = """
import json, os
print(json.dumps([sorted(int(pid) for pid in os.listdir("/proc") if pid.isdigit()), os.listdir("/agent/workspace"),
    [name for name in os.listdir("/tmp") if name == "mine"], os.listdir("/dev/shm"),
    open("/proc/net/unix").read().count("kbh-of-an-agent")]))
"""
    make = """
import os, socket, time
for path in ("/agent/workspace/mine", "/tmp/mine", "/dev/shm/mine"):
    open(path, "w").close()
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0kbh-of-an-agent")
print("ready", flush=True)
time.sleep(600)
"""
    with opened() as one, opened() as other:
        begun(one, python(make))
        assert ran(other, python(look)).said == [[1, 2], [], [], [], 0]
        assert other.files.walk("workspace") == []
        other.close()
        assert one.wait(0) is None and one.left_over() == 0
