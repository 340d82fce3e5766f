"""What a submission's process can reach in each sandbox: one process a kind tries everything and tells."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import pytest

from grader.record.sandboxes import TRAITS, SandboxKind
from grader.sandbox import Jail, Sandbox, SandboxError, choose, harden_judge
from grader.sandbox.kinds import MAKERS
from grader.sandbox.kinds.supervised import Supervised
from grader.sandbox.places import _hidden, searched

ROOT = Path(__file__).resolve().parents[2]
KINDS = tuple(TRAITS)
CLOSED = tuple(kind for kind in TRAITS if TRAITS[kind].closed)
DATA_BYTES = 3 << 30
LIMIT_SECONDS = 60

EXPLORER = """
import ctypes, json, mmap, os, resource, signal, socket, subprocess, sys, tempfile
facts = json.loads(sys.argv[1])
judge, port, outside = facts["judge"], facts["port"], facts["outside"]
libc = ctypes.CDLL(None, use_errno=True)
tried = {}
def attempt(name, work):
    try:
        tried[name] = ["done", repr(work())[:200]]
    except BaseException as error:
        tried[name] = ["denied", type(error).__name__]
def call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *[ctypes.c_ulong(a) for a in arguments]) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def read(path):
    with open(path, "rb") as file:
        return file.read(16)
def write(path):
    with open(path, "ab") as file:
        file.write(b"x")
for name in ("mem", "environ", "maps", "auxv"):
    attempt(f"judge {name}", lambda: read(f"/proc/{judge}/{name}"))
attempt("judge descriptor", lambda: os.open(f"/proc/{judge}/fd/{facts['kept']}", os.O_RDONLY))
attempt("judge map_files", lambda: os.listdir(f"/proc/{judge}/map_files"))
attempt("judge root", lambda: os.listdir(f"/proc/{judge}/root"))
attempt("judge cwd", lambda: os.listdir(f"/proc/{judge}/cwd"))
attempt("judge cmdline", lambda: read(f"/proc/{judge}/cmdline"))
attempt("kill judge", lambda: os.kill(judge, 0))
attempt("ptrace judge", lambda: call(101, 16, judge, 0, 0))
attempt("seize judge", lambda: call(101, 0x4206, judge, 0, 0))
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
here = ctypes.create_string_buffer(8)
ours, theirs = Part(ctypes.addressof(here), 8), Part(facts["address"], 8)
for name, number in (("read", 310), ("write", 311)):
    attempt(f"process_vm_{name}",
        lambda: call(number, judge, ctypes.addressof(ours), 1, ctypes.addressof(theirs), 1, 0))
attempt("pidfd_getfd", lambda: call(438, os.pidfd_open(judge), 0, 0))
if facts["apart"]:  # else they would change the judge
    attempt("limit judge", lambda: resource.prlimit(judge, resource.RLIMIT_CPU, (1, 1)))
    attempt("slow judge", lambda: os.setpriority(os.PRIO_PROCESS, judge, 19))
    attempt("move judge", lambda: os.sched_setaffinity(judge, {0}))
attempt("become root", lambda: os.setuid(0))
for name, path in facts["repository"].items():
    attempt(name, lambda: read(path))
attempt("list repository", lambda: os.listdir(facts["root"] + "/problems"))
attempt("outside file", lambda: read(outside + "/secret"))
attempt("outside folder", lambda: os.listdir(outside))
attempt("shadow", lambda: read("/etc/shadow"))
attempt("write outside", lambda: write(outside + "/secret"))
attempt("write beside", lambda: write(outside + "/new"))
attempt("write home", lambda: write(facts["home"] + "/kbh-new"))
attempt("write grader", lambda: write(facts["root"] + "/grader/deck/keys.py"))
attempt("write python", lambda: write(sys.prefix + "/kbh-new"))
attempt("write system", lambda: write("/usr/lib/kbh-new"))
attempt("write root", lambda: write("/kbh-new"))
attempt("write kernel", lambda: write("/proc/sys/kernel/core_pattern"))
attempt("link outside", lambda: os.link(outside + "/secret", "stolen"))
attempt("rename outside", lambda: os.rename(outside + "/secret", "stolen"))
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as link:
        link.settimeout(5)
        link.connect(address)
        link.send(b"x")
attempt("tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", port)))
attempt("udp", lambda: connect(socket.AF_INET, ("127.0.0.1", facts["udp"]), socket.SOCK_DGRAM))
attempt("abstract socket", lambda: connect(socket.AF_UNIX, "\\0" + facts["abstract"]))
attempt("named socket", lambda: connect(socket.AF_UNIX, outside + "/socket"))
def send_beside():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", outside + "/datagrams")
attempt("datagram", send_beside)
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close())
for name, number, *arguments in (
    ("unshare user", 272, 0x10000000), ("unshare mount", 272, 0x20000), ("clone user", 56, 0x10000011, 0, 0, 0, 0),
    ("mount", 165, 0, 0, 0, 0, 0), ("bpf", 321, 0, 0, 0), ("perf", 298, 0, 0, -1 & 0xffffffff, -1 & 0xffffffff, 0),
    ("userfaultfd", 323, 1), ("io_uring", 425, 1, 0), ("keyctl", 250, 0, 0), ("shmget", 29, 0, 4096, 0o600),
    ("memfd", 319, ctypes.addressof(here), 0), ("handle", 304, 0, 0, 0), ("chroot", 161, ctypes.addressof(here)),
    ("kcmp", 312, judge, judge, 0, 0, 0),
):
    if facts["closed"]:  # elsewhere they would change this process
        attempt(name, lambda: call(number, *arguments))
attempt("memory", lambda: bytearray(facts["data"] * 2))
attempt("shared memory", lambda: mmap.mmap(-1, facts["data"] + (16 << 30)))
attempt("many files", lambda: [open("/dev/null") for _ in range(5000)])
limits = {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in ("CORE", "NPROC", "FSIZE")}
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
def compiled():
    with open("part.c", "w") as file:
        file.write("int answer(void) { return 42; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "part.so", "part.c"], check=True)
    return ctypes.CDLL("./part.so").answer()
attempt("compile", compiled)
attempt("temporary", lambda: tempfile.TemporaryFile().write(b"x"))
def named():  # as CUDA does when it starts
    with open(f"/proc/self/task/{os.getpid()}/comm", "w") as file:
        file.write("x")
attempt("thread name", named)
attempt("callback", lambda: ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: x)(3))
attempt("descriptor", lambda: os.write(facts["fd"], b"from inside"))
attempt("environment", lambda: sorted(os.environ))
os.environ["TRITON_INTERPRET"] = "1"
def torch_runs():
    sys.path += facts["searched"]
    import torch
    return (torch.ones(8, 8) @ torch.ones(8, 8)).sum().item()
attempt("torch", torch_runs)
if facts["closed"]:
    with open("kernel.py", "w") as file:
        file.write(facts["triton"])
    sys.path.insert(0, os.getcwd())
    attempt("triton", lambda: __import__("kernel").run())
pids = []
attempt("processes", lambda: pids.extend(name for name in os.listdir("/proc") if name.isdigit()))
print(json.dumps({"tried": tried, "fds": facts_fds, "limits": limits, "pids": len(pids), "uid": os.getuid(),
    "groups": os.getgroups(), "status": status}))
"""
EXPLORER = (
    "import os\nfacts_fds = sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}'))"
    + EXPLORER
)
TRITON = """
import torch, triton, triton.language as tl
@triton.jit
def add(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i) + 1)
def run():
    x, y = torch.zeros(16), torch.empty(16)
    add[(1,)](x, y, B=16)
    return y.sum().item()
"""

MEMORY = ["judge mem", "judge environ", "judge maps", "judge auxv", "judge descriptor", "judge map_files",
          "judge root", "judge cwd"]  # fmt: skip
SIGNALS = ["kill judge", "ptrace judge", "seize judge", "process_vm_read", "process_vm_write", "pidfd_getfd",
           "limit judge", "slow judge", "move judge", "become root"]  # fmt: skip
REPOSITORY = {
    "deck": "problems/01_fp8_gemm/problem.yaml", "oracle": "problems/01_fp8_gemm/reference.py",
    "tests": "tests/grader/conftest.py", "project": "pyproject.toml",
}  # fmt: skip
READS = [*REPOSITORY, "list repository", "outside file", "outside folder", "shadow", "judge cmdline"]
WRITES = ["write outside", "write beside", "write home", "write grader", "write python", "write system", "write root",
          "write kernel", "link outside", "rename outside"]  # fmt: skip
NETWORK = ["tcp", "udp", "abstract socket", "named socket", "datagram", "netlink"]
CALLS = ["unshare user", "unshare mount", "clone user", "mount", "bpf", "perf", "userfaultfd", "io_uring", "keyctl",
         "shmget", "memfd", "handle", "chroot", "kcmp"]  # fmt: skip
LIMITS = ["memory", "shared memory", "many files"]
NEEDED = ["compile", "temporary", "thread name", "callback", "descriptor", "torch"]


@dataclass(frozen=True)
class Told:
    """What the explorer answered, and what the test gave it."""

    sandbox: Sandbox
    answer: dict
    given: int
    file: Path


def get(kind: str) -> Sandbox:
    """The sandbox of a kind, where this machine has it."""
    try:
        return choose(device="cpu", wanted=kind)
    except SandboxError as error:
        pytest.skip(str(error))


def run(sandbox: Sandbox, code: str, scratch: Path, *arguments: str, jail: Jail, fds: Sequence[int] = ()) -> str:
    """What a program prints that ends well in the sandbox."""
    with tempfile.TemporaryFile() as output:
        process = sandbox.spawn(
            [sys.executable, "-I", "-c", code, *arguments],
            env={"PATH": os.defpath, "HOME": str(scratch), "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"},
            cwd=scratch,
            fds=fds,
            jail=jail,
            output=output,
        )
        try:
            status = process.wait(LIMIT_SECONDS)
        finally:
            sandbox.end(process)
        output.seek(0)
        said = output.read().decode()
    assert status == 0, said
    return said


@pytest.fixture(scope="module", autouse=True)
def _judge() -> None:
    harden_judge()


@pytest.fixture(scope="module", params=KINDS)
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """One process a kind that tries everything."""
    sandbox = get(request.param)
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("the key of another cell")
    scratch = tmp_path_factory.mktemp("cell") / "scratch"
    scratch.mkdir()
    address = f"kbh-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        (outside / "log").open("w+b") as inherited,
        (outside / "secret").open("rb") as not_given,
    ):
        udp.bind(("127.0.0.1", 0))
        abstract.bind("\0" + address)
        abstract.listen()
        named.bind(str(outside / "socket"))
        named.listen()
        datagrams.bind(str(outside / "datagrams"))
        for name in ("socket", "datagrams"):
            (outside / name).chmod(0o777)
        os.set_inheritable(not_given.fileno(), True)
        facts = {
            "judge": os.getpid(), "port": tcp.getsockname()[1], "udp": udp.getsockname()[1], "abstract": address,
            "outside": str(outside), "root": str(ROOT),
            "repository": {name: str((ROOT / path).resolve(strict=True)) for name, path in REPOSITORY.items()},
            "searched": [str(path) for path in searched()], "home": str(Path.home()), "data": DATA_BYTES,
            "address": id(outside), "fd": inherited.fileno(), "kept": not_given.fileno(),
            "closed": request.param in CLOSED,
            "apart": request.param in CLOSED or sandbox.record.uid != os.getuid(), "triton": TRITON,
        }  # fmt: skip
        jail = Jail((), (scratch,), data_bytes=DATA_BYTES)
        said = run(sandbox, EXPLORER, scratch, json.dumps(facts), jail=jail, fds=[inherited.fileno()])
        answer = json.loads(said.splitlines()[-1])
        yield Told(sandbox, answer, inherited.fileno(), outside / "log")


def denied(told: Told, names: list[str]) -> None:
    assert {name: told.answer["tried"][name] for name in names if told.answer["tried"][name][0] != "denied"} == {}


def closed(told: Told) -> None:
    if not told.sandbox.record.traits.closed:
        pytest.skip("this kind promises no such thing")


def as_the_judge(told: Told) -> None:
    if not told.sandbox.record.traits.closed and told.sandbox.record.uid == os.getuid():
        pytest.skip("it runs as the judge's user here")


def test_the_judges_memory_files_and_descriptors_are_closed(told: Told) -> None:
    denied(told, MEMORY)


def test_the_judge_can_neither_be_signalled_nor_traced_nor_slowed(told: Told) -> None:
    as_the_judge(told)
    denied(told, SIGNALS)


def test_the_deck_other_cells_and_secrets_cannot_be_read(told: Told) -> None:
    closed(told)
    denied(told, READS)


def test_nothing_can_be_written_outside_the_scratch_folder(told: Told) -> None:
    as_the_judge(told)
    denied(told, WRITES)


def test_no_listener_of_the_machine_can_be_reached(told: Told) -> None:
    assert told.sandbox.record.network is not told.sandbox.record.traits.closed
    closed(told)
    denied(told, NETWORK)


def test_calls_that_reach_the_kernel_are_refused(told: Told) -> None:
    closed(told)
    denied(told, CALLS)


def test_memory_and_descriptors_are_limited(told: Told) -> None:
    denied(told, LIMITS)
    assert told.answer["limits"]["CORE"] == [0, 0]
    assert told.answer["limits"]["FSIZE"][1] == Jail((), ()).file_bytes
    assert Jail((), ()).processes <= told.answer["limits"]["NPROC"][1] < 100_000


def test_only_the_given_descriptors_arrive_and_keep_their_numbers(told: Told) -> None:
    assert told.answer["fds"] == sorted({0, 1, 2, told.given})
    assert told.file.read_text() == "from inside"


def test_other_processes_are_not_listed(told: Told) -> None:
    if told.sandbox.record.traits.own_processes:
        assert told.answer["pids"] <= 2
    else:
        closed(told)
        assert told.answer["pids"] == 0


def test_it_runs_as_the_recorded_user_without_groups_or_capabilities(told: Told) -> None:
    status = told.answer["status"]
    assert told.answer["uid"] == told.sandbox.record.uid
    assert status["NoNewPrivs"].strip() == "1"
    if os.getuid() == 0:
        assert told.answer["uid"] > 0
        assert told.answer["groups"] == []
    allowed = 0 if told.sandbox.record.traits.own_processes else 1 << 2  # to read what it is shown, whoever owns it
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        assert int(status[name], 16) & ~allowed == 0


def test_compilers_torch_and_interpreted_kernels_work(told: Told) -> None:
    tried = told.answer["tried"]
    assert {name: tried[name] for name in NEEDED if tried[name][0] != "done"} == {}
    assert tried["compile"][1] == "42"
    if told.sandbox.record.traits.closed:
        assert tried["triton"] == ["done", "16.0"]


def test_its_environment_is_what_it_was_given(told: Told) -> None:
    allowed = {"HOME", "LC_CTYPE", "LOGNAME", "OMP_NUM_THREADS", "PATH", "TMPDIR", "USER", "KBH_SANDBOX"}
    assert set(json.loads(told.answer["tried"]["environment"][1].replace("'", '"'))) <= allowed


def test_a_readable_path_is_shown_but_not_written(tmp_path: Path) -> None:
    shown, scratch = tmp_path / "shown", tmp_path / "scratch"
    shown.mkdir()
    scratch.mkdir()
    (shown / "solution.py").write_text("x = 1")
    code = """
import sys
print(open(sys.argv[1]).read())
try:
    open(sys.argv[1], "w")
except OSError:
    print("closed")
"""
    for kind in CLOSED:
        jail = Jail((shown,), (scratch,))
        said = run(get(kind), code, scratch, str(shown / "solution.py"), jail=jail)
        assert said.split("\n") == ["x = 1", "closed", ""]


@pytest.mark.parametrize("imported", ["site-packages", "lib"])
def test_an_installed_deck_is_hidden_in_a_folder_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported: str
) -> None:
    site, scratch = tmp_path / "site-packages", tmp_path / "scratch"
    deck = site / "kbh_lint" / "_data" / "problems"
    deck.mkdir(parents=True)
    scratch.mkdir()
    (deck / "reference.py").write_text("the oracle")
    (site / "kbh_lint" / "rules.py").write_text("a rule")
    (site / "other.py").write_text("a library")
    (tmp_path / "lib").symlink_to(site)
    monkeypatch.syspath_prepend(str(tmp_path / imported))
    code = """
import sys
for folder in sys.argv[1:]:
    for name in ("other.py", "kbh_lint/rules.py", "kbh_lint/_data/problems/reference.py"):
        try:
            print(open(folder + "/" + name).read())
        except OSError:
            print("closed")
"""
    _hidden.cache_clear()
    try:
        for kind in CLOSED:
            jail = Jail((site, tmp_path / "lib"), (scratch,))
            said = run(get(kind), code, scratch, str(site), str(tmp_path / "lib"), jail=jail)
            assert said.split("\n") == ["a library", "a rule", "closed"] * 2 + [""]
    finally:
        _hidden.cache_clear()


def test_every_kind_of_sandbox_has_a_row_and_a_maker() -> None:
    assert tuple(TRAITS) == tuple(MAKERS) == get_args(SandboxKind), "TRAITS and SandboxKind name the same, in one order"


def test_a_program_may_stand_in_front_of_the_process(tmp_path: Path) -> None:
    open_kind = next(get(kind) for kind in TRAITS if kind not in CLOSED)
    assert isinstance(open_kind, Supervised)
    front = replace(open_kind, prefix=lambda jail: ("/usr/bin/env", "--"), marks={})
    (tmp_path / "scratch").mkdir()
    said = run(front, "print('inside')", tmp_path / "scratch", jail=Jail((), (tmp_path / "scratch",)))
    assert said == "inside\n" and front.marks == {}


def test_a_gpu_gets_no_open_sandbox_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import grader.sandbox as package

    def missing(notes: tuple[str, ...]) -> Sandbox:
        raise SandboxError("it is not installed")

    for kind in CLOSED:
        monkeypatch.setitem(MAKERS, kind, missing)
    package._CHOSEN.clear()
    try:
        with pytest.raises(SandboxError, match=next(row.remedy for row in TRAITS.values() if row.remedy)):
            choose(device="cuda:0")
        fallen = choose(device="cpu")
        assert not TRAITS[fallen.record.kind].closed
        for kind in CLOSED:
            assert any(kind in note and "not installed" in note for note in fallen.record.notes)
        asked = fallen.record.kind
        assert choose(device="cuda", wanted=asked).record.kind == asked
    finally:
        package._CHOSEN.clear()


def test_a_folder_that_is_a_link_is_not_given_to_the_submission(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    sandbox = choose(device="cpu")
    with pytest.raises(SandboxError, match="not a folder"), tempfile.TemporaryFile() as output:
        jail = Jail((), (tmp_path / "link",))
        sandbox.spawn([sys.executable], env={}, cwd=tmp_path, fds=[], jail=jail, output=output)


def test_giving_a_folder_away_follows_no_links(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root gives folders away")
    from grader.sandbox.users import give

    scratch, outside = tmp_path / "scratch", tmp_path / "outside"
    scratch.mkdir()
    outside.write_text("x")
    (scratch / "own").write_text("x")
    (scratch / "soft").symlink_to(outside)
    os.link(outside, scratch / "hard")
    give(scratch, 2_000_000_000)
    assert (scratch / "own").stat().st_uid == 2_000_000_000
    assert outside.stat().st_uid == 0


def test_what_cannot_be_started_is_one_sentence(tmp_path: Path) -> None:
    sandbox = choose(device="cpu")
    with tempfile.TemporaryFile() as output:
        process = sandbox.spawn(["/no/such/program"], env={}, cwd=tmp_path, fds=[], jail=Jail((), ()), output=output)
        assert process.wait(LIMIT_SECONDS) == 125
        sandbox.end(process)
        output.seek(0)
        assert output.read().decode().startswith("the sandbox could not be set up: ")
