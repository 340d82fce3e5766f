"""What an agent in a sealed room tries to reach, and cannot: one program tries everything and tells."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from room_kit import opened, python, ran

from harness.room.base import RoomError, RoomSpec
from harness.room.files import FOLDER, FolderFiles

ROOT = Path(__file__).resolve().parents[2]
SECRET = "a-key-that-only-the-harness-has"
TRIED = """
import ctypes, json, os, socket, stat, subprocess, sys
facts = json.load(sys.stdin)
tried = {}
def attempt(name, work):
    try:
        tried[name] = ["done", repr(work())[:200]]
    except BaseException as error:
        tried[name] = ["denied", f"{type(error).__name__} {getattr(error, 'errno', '')}"]
def reach(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as link:
        link.settimeout(10)
        link.connect(address)
        link.send(b"x")
def found(paths, what):
    for path in paths:
        try:
            with open(path, "rb") as file:
                if what.encode() in file.read(1 << 20):
                    return path
        except OSError:
            pass
    raise LookupError("nowhere")
processes = [name for name in os.listdir("/proc") if name.isdigit()]
for name, path in facts["hidden"].items():
    attempt(name, lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1))
def imported(name):
    sys.path[:0] = facts["path"]
    open(__import__(name).__file__)
for name in ("grader", "harness", "kbh_lint"):
    attempt("import " + name, lambda: imported(name))
for name in ("environ", "cmdline", "maps"):
    attempt("key in " + name, lambda: found([f"/proc/{pid}/{name}" for pid in processes], facts["secret"]))
attempt("memory of the first process", lambda: open("/proc/1/mem", "rb"))
attempt("descriptors of the first process", lambda: os.listdir("/proc/1/fd"))
attempt("environment of the first process", lambda: open("/proc/1/environ", "rb").read())
attempt("root of the first process", lambda: os.listdir("/proc/1/root/"))
attempt("outside address", lambda: reach(socket.AF_INET, ("192.0.2.1", 80)))
attempt("outside address 6", lambda: reach(socket.AF_INET6, ("2001:db8::1", 80)))
attempt("outside datagram", lambda: reach(socket.AF_INET, ("192.0.2.1", 53), socket.SOCK_DGRAM))
attempt("name", lambda: socket.getaddrinfo("example.org", 80))
for address in facts["hosts"]:
    attempt("port of the host at " + address, lambda: reach(socket.AF_INET, (address, facts["port"])))
attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("socket to the hypervisor", lambda: socket.socket(40, socket.SOCK_STREAM))
attempt("audit socket", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9))
def add_address():
    import struct
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.settimeout(10)
        body = struct.pack("=BBBBi", 2, 24, 0, 0, 1) + struct.pack("=HH4s", 8, 2, bytes((10, 9, 8, 7)))
        link.send(struct.pack("=IHHII", 16 + len(body), 20, 0x605, 1, 0) + body)
        number = -struct.unpack_from("=i", link.recv(4096), 16)[0]
        if number:
            raise OSError(number, "refused")
attempt("address of its own", add_address)
attempt("kill the first process", lambda: os.kill(1, 9))
attempt("device", lambda: os.mknod("/agent/workspace/null", stat.S_IFCHR | 0o666, os.makedev(1, 3)))
attempt("block device", lambda: os.mknod("/agent/workspace/disk", stat.S_IFBLK | 0o666, os.makedev(254, 0)))
attempt("hard link outwards", lambda: os.link("/etc/passwd", "/agent/workspace/passwd"))
attempt("folder of a CLI", lambda: open("/agent/new", "w"))
attempt("change of user", lambda: os.setuid(0))
attempt("program of root", lambda: subprocess.run(["su", "-c", "true"], check=True, stdin=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL))
attempt("mount", lambda: subprocess.run(["mount", "-o", "remount,rw", "/usr"], check=True, stderr=subprocess.DEVNULL))
attempt("another port of the room", lambda: socket.create_server(("127.0.0.1", 4040)))
print(json.dumps({"tried": tried, "processes": len(processes), "devices": sorted(os.listdir("/dev")),
    "open": sorted(os.listdir("/proc/self/fd"), key=int), "interfaces": [name for _, name in socket.if_nameindex()]}))
"""


def grader_tests() -> ModuleType:
    """The tests of the grader's sandboxes, of which the program that tries everything is used here too."""
    path = ROOT / "tests/grader/test_sandbox.py"
    spec = importlib.util.spec_from_file_location("grader_sandbox_tests", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What there is outside: listeners of all kinds, a run of another agent, and a key in the environment."""
    outside = tmp_path_factory.mktemp("runs")
    outside.chmod(0o777)
    (outside / "secret").write_text("the solution of another run")
    (outside / "secret").chmod(0o666)
    name = f"kbh-room-{os.getpid()}"
    with (
        pytest.MonkeyPatch.context() as patch, socket.create_server(("0.0.0.0", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
    ):  # fmt: skip
        patch.setenv("KBH_TEST_API_KEY", SECRET)
        udp.bind(("127.0.0.1", 0))
        abstract.bind("\0" + name)
        abstract.listen()
        named.bind(str(outside / "socket"))
        named.listen()
        datagrams.bind(str(outside / "datagrams"))
        for link in (tcp, udp, abstract, named, datagrams):
            link.setblocking(False)
        yield {
            "judge": os.getpid(), "port": tcp.getsockname()[1], "udp": udp.getsockname()[1], "abstract": name,
            "outside": str(outside), "secret": SECRET, "root": str(ROOT),
        }  # fmt: skip
        for link in (tcp, abstract, named):
            with pytest.raises(BlockingIOError):
                link.accept()
        for link in (udp, datagrams):
            with pytest.raises(BlockingIOError):
                link.recv(1)


@pytest.fixture(scope="module")
def told(listening: dict[str, Any]) -> dict[str, Any]:
    """What the program found."""
    with opened() as room, opened() as other:
        other.files.write("workspace/solution.py", b"of another agent")
        hidden = {
            "repository": str(ROOT / "README.md"), "deck": str(ROOT / "problems"), "harness": str(ROOT / "harness"),
            "grader": str(ROOT / "grader/sandbox/jail.py"), "rules": str(ROOT / "rules"),
            "other run": listening["outside"], "other solution": f"{listening['outside']}/secret",
            "home": str(Path.home() / ".bashrc"), "shadow": "/etc/shadow", "machine": "/etc/machine-id",
            "judge's memory": f"/proc/{os.getpid()}/mem", "kernel's log": "/dev/kmsg", "memory": "/dev/mem",
            "network of the kernel": "/proc/sys/net/ipv4/conf/eth0/forwarding", "control groups": "/sys/fs/cgroup",
        }  # fmt: skip
        facts = {
            **listening, "hidden": hidden, "hosts": ["127.0.0.1", *addresses()],
            "path": [str(ROOT), *(entry for entry in sys.path if entry.endswith("-packages"))],
        }  # fmt: skip
        said: dict[str, Any] = ran(room, python(TRIED), stdin=json.dumps(facts).encode()).said
        return said


def addresses() -> list[str]:
    """The addresses of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        try:
            link.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [link.getsockname()[0]]


def test_everything_that_an_agent_tries_is_denied(told: dict[str, Any]) -> None:
    assert {name: said for name, said in told["tried"].items() if said[0] != "denied"} == {}
    assert len(told["tried"]) > 40


def test_an_agent_sees_its_own_processes_devices_and_network_only(told: dict[str, Any]) -> None:
    assert told["processes"] == 2
    assert told["interfaces"] == ["lo"]
    assert not [name for name in told["devices"] if "nvidia" in name or "sd" in name or "vd" in name or "loop" in name]
    assert told["open"] == ["0", "1", "2", "3"], "3 is the folder that it lists"


def test_what_a_submission_tries_in_the_graders_sandbox_is_denied_in_a_room_too(
    listening: dict[str, Any], tmp_path: Path
) -> None:
    known = grader_tests()
    spec = RoomSpec(memory_bytes=known.DATA_BYTES, disk_bytes=1 << 30)
    with opened(spec) as room:
        facts = {
            **listening, "repository": {name: str(ROOT / path) for name, path in known.REPOSITORY.items()},
            "searched": [str(path) for path in known.searched()], "home": str(Path.home()), "data": known.DATA_BYTES,
            "address": id(tmp_path), "fd": 2, "kept": 0, "closed": True, "apart": True,
            "triton": "def run(): return None",
        }  # fmt: skip
        answer = ran(room, [sys.executable, "-I", "-c", known.EXPLORER, json.dumps(facts)]).said
        record = room.record
    tried = answer["tried"]
    allowed = {"netlink", "memfd", "udp"}  # its own network, where nobody listens, and memory without a name
    denied = [*known.MEMORY, *known.SIGNALS, *known.READS, *known.WRITES, *known.NETWORK, *known.CALLS, "memory"]
    assert {name: tried[name] for name in denied if name not in allowed and tried[name][0] != "denied"} == {}
    assert {name: tried[name] for name in known.NEEDED if tried[name][0] != "done"} == {}
    assert (answer["uid"], answer["pids"]) == (record.uid, 2)
    assert answer["status"]["NoNewPrivs"].strip() == "1"
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb", *(["CapBnd"] if os.getuid() == 0 else [])):
        assert int(answer["status"][name], 16) == 0
    assert not any(name.startswith("KBH_TEST") for name in answer["tried"]["environment"][1])


HOSTILE = {
    "a link outwards": "ln -s /etc/passwd solution.py",
    "a link to a neighbour": "echo x > other.py; ln -s other.py solution.py",
    "a pipe": "mkfifo solution.py",
    "a socket": "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('solution.py')\"",
    "a folder": "mkdir solution.py",
    "3 GB of nothing": "truncate -s 1900M solution.py",
    "a link to a device": "ln -s /dev/zero solution.py",
    "a link to itself": "ln -s solution.py solution.py",
    "a link on the way": "rm -r sub; ln -s /etc sub",
}


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "plain"])
def test_what_is_no_plain_file_is_not_taken_for_the_solution(sealed: bool) -> None:
    with opened(sealed=sealed) as room:
        script = "; ".join(
            f"mkdir -p {number}/sub && (cd {number} && ({command}))" for number, command in enumerate(HOSTILE.values())
        )
        assert ran(room, ["bash", "-c", script]).err == ""
        for number, name in enumerate(HOSTILE):
            at = f"workspace/{number}"
            with pytest.raises(RoomError):
                room.files.read(f"{at}/{'sub/passwd' if 'on the way' in name else 'solution.py'}", 1 << 20)
            if name != "a folder":
                assert "solution.py" not in [
                    Path(path).name for path, size, _ in room.files.walk(at) if size <= 1 << 20
                ]
            room.files.write(f"{at}/x/solution.py", b"ours")
            if "on the way" in name:
                with pytest.raises(RoomError):
                    room.files.write(f"{at}/sub/passwd", b"ours")
            elif name != "a folder":
                room.files.write(f"{at}/solution.py", b"ours")
                assert room.files.read(f"{at}/solution.py", 100) == b"ours"
        assert ("workspace/0/solution.py", "/etc/passwd") not in room.files.links("workspace"), "ours is in its place"


def test_a_second_name_of_somebody_elses_file_is_not_read(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root reads what belongs to others")
    (tmp_path / "secret").write_text("a key")
    (tmp_path / "room").mkdir()
    os.link(tmp_path / "secret", tmp_path / "room" / "solution.py")
    files = FolderFiles(os.open(tmp_path / "room", FOLDER), 2_000_000_001, own_disk=False)
    with pytest.raises(RoomError, match="somebody else"):
        files.read("solution.py", 100)
    files.write("solution.py", b"replaced")
    assert (tmp_path / "secret").read_text() == "a key"
    files.close()


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a//b", "a/../b", "./a", "a\0b", "/".join("a" * 70)])
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with opened() as room:
        for work in (lambda: room.files.read(path, 10), lambda: room.files.write(path, b"x")):
            with pytest.raises(RoomError, match="no path within the room"):
                work()
