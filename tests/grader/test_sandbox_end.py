"""A submission's processes end with it, and with the judge, whatever they do to stay."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.record.sandboxes import TRAITS
from grader.sandbox import Jail, Sandbox, SandboxError, choose, harden_judge
from grader.sandbox.control import groups_work
from grader.sandbox.jail import descendants

ROOT = Path(__file__).resolve().parents[2]
KINDS = tuple(TRAITS)
LIMIT_SECONDS = 20
PROCESSES = 30
OWN_PROCESSES = 3  # of the sandbox itself

DAEMONS = """
import os, signal, sys, time
for _ in range(6):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
print("ready", flush=True)
time.sleep(600 if sys.argv[1] == "stay" else 0)
"""
BOMB = """
import os, resource, sys, time
if os.getuid() == 0 or resource.getrlimit(resource.RLIMIT_NPROC)[1] > 300:
    sys.exit("the limit is not in place, so this does not start")
print("ready", flush=True)
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
# Each generation leaves session and group of the last one and lives for a moment only.
RUNNER = """
import os
print("ready", flush=True)
while True:
    try:
        if os.fork():
            os._exit(0)
        os.setsid()
    except OSError:
        pass
"""
HIDDEN_THREAD = """
import ctypes, os, threading, time
if os.fork() == 0:
    os.setsid()
    threading.Thread(target=time.sleep, args=(600,)).start()
    print("ready", flush=True)
    ctypes.CDLL(None).syscall(60, 0)  # ends the first thread alone
time.sleep(600)
"""
KILLER = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
print("ready", flush=True)
for target in (os.getppid(), 0):
    try:
        os.kill(target, signal.SIGKILL)
    except OSError:
        pass
time.sleep(600)
"""
HOARD = """
import os, time
print("ready", flush=True)
for _ in range(3):
    if os.fork() == 0:
        break
held = bytearray(300 << 20)
held[::4096] = b"x" * len(held[::4096])
time.sleep(600)
"""
MIDDLE = """
import os, sys, time
from pathlib import Path
from grader.sandbox import Jail, choose, harden_judge
from grader.sandbox.jail import descendants
harden_judge()
scratch = Path(sys.argv[2])
log = (scratch.parent / "log").open("wb")
sandbox = choose(device="cpu", wanted=sys.argv[1])
sandbox.spawn([sys.executable, "-I", "-c", sys.argv[3], "stay"], env={}, cwd=scratch, fds=[],
    jail=Jail((), (scratch,)), output=log)
while b"ready" not in (scratch.parent / "log").read_bytes():
    time.sleep(0.01)
print(*[pid for pid, _ in descendants(os.getpid())], flush=True)
time.sleep(600)
"""
# Judges one after the other, each killed when it has just started a process: that one still sets itself up.
YOUNG = """
import os, select, signal, sys, time
from pathlib import Path
from grader.record.sandboxes import TRAITS
from grader.sandbox import Jail, choose
from grader.sandbox.jail import descendants
scratch, judges = Path(sys.argv[2]), int(sys.argv[3])
sandbox = choose(device="cpu", wanted=sys.argv[1])
log = (scratch.parent / "log").open("wb")
for number in range(judges):
    judge = os.fork()
    if judge == 0:
        sandbox.spawn([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"], env={}, cwd=scratch, fds=[],
            jail=Jail((), (scratch,)), output=log)
        time.sleep(600)
    found = []
    while len(found) <= number % (3 if TRAITS[sys.argv[1]].own_processes else 2):
        found = [pid for pid, _ in descendants(judge)]
    time.sleep(number % 7 * 0.0005)
    handles = []
    for pid in found:
        try:
            handles.append(os.pidfd_open(pid))
        except ProcessLookupError:
            pass
    os.kill(judge, signal.SIGKILL)
    os.waitpid(judge, 0)
    for handle in handles:
        if not select.select([handle], [], [], 20)[0]:
            sys.exit(f"judge {number} was outlived")
        os.close(handle)
print("none is left")
"""


@pytest.fixture(scope="module", autouse=True)
def _judge() -> None:
    harden_judge()


@pytest.fixture(params=KINDS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return get(request.param)


def get(kind: str) -> Sandbox:
    """The sandbox of a kind, where this machine has it."""
    try:
        return choose(device="cpu", wanted=kind)
    except SandboxError as error:
        pytest.skip(str(error))


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def start(sandbox: Sandbox, scratch: Path, code: str, *arguments: str, jail: Jail | None = None) -> subprocess.Popen:
    """A process that has said that it is ready."""
    log = scratch.parent / "log"
    with log.open("wb") as output:
        process = sandbox.spawn(
            [sys.executable, "-I", "-c", code, *arguments],
            env={},
            cwd=scratch,
            fds=[],
            jail=jail or Jail((), (scratch,)),
            output=output,
        )
    until(lambda: b"ready" in log.read_bytes() or process.poll() is not None)
    assert b"ready" in log.read_bytes(), log.read_bytes()
    return process


def until(reached: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_SECONDS
    while not reached():
        assert time.monotonic() < limit, "it did not happen in time"
        os.sched_yield()


def left(sandbox: Sandbox) -> list[int]:
    """Processes of the sandbox's user, or, where that is the judge's, those below the judge."""
    if sandbox.record.uid == os.getuid():
        return [pid for pid, _ in descendants(os.getpid())]
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"\t{sandbox.record.uid}\t" in (entry / "status").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("stays", ["stay", "go"])
def test_daemons_end_with_the_submission(sandbox: Sandbox, scratch: Path, stays: str) -> None:
    process = start(sandbox, scratch, DAEMONS, stays)
    sandbox.end(process)
    assert left(sandbox) == []
    assert process.returncode is not None


def test_a_fork_bomb_stays_below_its_limit_and_ends(sandbox: Sandbox, scratch: Path) -> None:
    if sandbox.record.uid == 0:
        pytest.skip("the kernel does not count the processes of root")
    jail = Jail((), (scratch,), processes=PROCESSES)
    process = start(sandbox, scratch, BOMB, jail=jail)
    try:
        until(lambda: len(left(sandbox)) >= PROCESSES)
        assert len(left(sandbox)) <= PROCESSES + 2 * (os.cpu_count() or 1) + OWN_PROCESSES
    finally:
        sandbox.end(process)
    assert left(sandbox) == []


def test_a_chain_of_short_lives_ends(sandbox: Sandbox, scratch: Path) -> None:
    sandbox.end(start(sandbox, scratch, RUNNER))
    assert left(sandbox) == []


def test_a_process_whose_first_thread_is_gone_ends(sandbox: Sandbox, scratch: Path) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the number of exit is that of x86_64")
    sandbox.end(start(sandbox, scratch, HIDDEN_THREAD))
    assert left(sandbox) == []


def test_an_attack_on_the_supervisor_leaves_nothing(sandbox: Sandbox, scratch: Path) -> None:
    sandbox.end(start(sandbox, scratch, KILLER))
    assert left(sandbox) == []


def test_ending_one_process_leaves_the_others_of_the_same_sandbox(sandbox: Sandbox, tmp_path: Path) -> None:
    processes = []
    for name in ("one", "two"):
        (tmp_path / name / "scratch").mkdir(parents=True)
        processes.append(start(sandbox, tmp_path / name / "scratch", DAEMONS, "stay"))
    first, second = processes
    before = len(left(sandbox))
    sandbox.end(first)
    assert first.poll() is not None
    assert second.poll() is None
    assert len(left(sandbox)) == before // 2
    sandbox.end(second)
    assert left(sandbox) == []


def test_the_memory_of_all_processes_together_is_limited(sandbox: Sandbox, scratch: Path) -> None:
    if not groups_work():
        pytest.skip("this machine has no place for a control group with a memory controller")
    jail = Jail((), (scratch,), data_bytes=500 << 20, tmp_bytes=50 << 20)
    process = start(sandbox, scratch, HOARD, jail=jail)
    assert process.wait(LIMIT_SECONDS) in (128 + signal.SIGKILL, -signal.SIGKILL)
    sandbox.end(process)
    assert left(sandbox) == []


def test_the_exit_status_is_that_of_the_program(sandbox: Sandbox, scratch: Path) -> None:
    for code, status in (("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 11)", 128 + signal.SIGSEGV)):
        process = start(sandbox, scratch, f"print('ready', flush=True)\n{code}")
        assert process.wait(LIMIT_SECONDS) == status
        sandbox.end(process)


@pytest.mark.parametrize("kind", KINDS)
def test_the_judges_death_takes_all_of_it_along(kind: str, scratch: Path) -> None:
    get(kind)
    judge = subprocess.Popen(
        [sys.executable, "-c", MIDDLE, kind, str(scratch), DAEMONS],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        text=True,
    )
    assert judge.stdout is not None
    handles = [os.pidfd_open(int(pid)) for pid in judge.stdout.readline().split()]
    assert len(handles) >= 7
    judge.kill()
    judge.wait()
    judge.stdout.close()
    for handle in handles:
        ended = select.select([handle], [], [], LIMIT_SECONDS)[0]
        os.close(handle)
        assert ended, "a process outlived the judge"


@pytest.mark.parametrize("kind", KINDS)
def test_a_judge_that_is_killed_while_a_process_starts_is_outlived_by_nothing(kind: str, scratch: Path) -> None:
    get(kind)
    done = subprocess.run(
        [sys.executable, "-c", YOUNG, kind, str(scratch), "60"], capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )  # fmt: skip
    assert done.stdout == "none is left\n", done.stderr
