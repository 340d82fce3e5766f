"""A room offers what an agent needs: programs, files both ways, a listener; and its bounds hold."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
import threading
from pathlib import Path, PurePosixPath

import pytest
from room_kit import SMALL, Ran, opened, python, ran

from harness.agents.base import NODE, PREFIX
from harness.agents.install import InstallError, installed
from harness.agents.registry import ADAPTERS
from harness.room import open_room
from harness.room.base import Mount, Room, RoomError, RoomSpec

SEALED = [True, False]
CALL = """
import json, socket, sys, urllib.request
print(json.dumps(urllib.request.urlopen(sys.argv[1] + "/hello", timeout=20).read().decode()))
"""
FILL = """
import json, os
written = 0
try:
    with open("big", "wb", buffering=0) as file:
        while True:
            written += file.write(b"x" * (1 << 20))
except OSError as error:
    print(json.dumps([error.errno, written]))
"""
MANY = """
import json, os
made = 0
try:
    while True:
        os.close(os.open(f"f{made}", os.O_CREAT | os.O_WRONLY))
        made += 1
except OSError as error:
    print(json.dumps([error.errno, made]))
"""


@pytest.fixture(params=SEALED, ids=["sealed", "plain"])
def room(request: pytest.FixtureRequest) -> Room:
    room = opened(sealed=request.param)
    request.addfinalizer(room.close)
    return room


def test_python_with_torch_and_a_compiler_work_in_a_sealed_room() -> None:
    code = "import torch; print(int((torch.ones(8, 8) @ torch.ones(8, 8)).sum()))"
    with opened(RoomSpec()) as room:
        assert ran(room, [sys.executable, "-c", code]) == Ran(0, "512\n", "")
    with opened() as room:
        room.files.write("workspace/main.c", b"int main(void) { return 7; }")
        assert ran(room, ["sh", "-c", "cc -o main main.c && ./main"]).status == 7


def test_node_starts_in_a_sealed_room_and_knows_user_and_host() -> None:
    node = shutil.which("node")
    if node is None or not Path(node).resolve().is_relative_to("/usr"):
        pytest.skip("there is no Node in /usr")
    told = "os.userInfo().username, os.homedir(), os.networkInterfaces().lo[0].address"
    code = f"const os = require('os'); console.log(JSON.stringify([{told}]))"
    with opened() as room:
        assert ran(room, [node, "-e", code]).said == ["kbh", "/agent/home", "127.0.0.1"]


@pytest.mark.parametrize("name", [name for name, adapter in ADAPTERS.items() if adapter.package is not None])
def test_every_installed_cli_starts_in_a_sealed_room(name: str) -> None:
    adapter = ADAPTERS[name]
    try:
        cli = installed(adapter)
    except InstallError as error:
        pytest.skip(str(error))
    mounts = [Mount(cli.folder, PREFIX), *([Mount(cli.node, NODE)] if cli.node is not None else [])]
    assert adapter.package is not None
    with opened(RoomSpec(mounts=tuple(mounts))) as room:
        said = ran(
            room, [str(PREFIX / adapter.package.command), "--version"], env={"PATH": f"{NODE}/bin:/usr/bin:/bin"}
        )
    assert said.status == 0 and adapter.package.version in said.out, said


def test_the_environment_is_what_was_given_and_the_usual_places(room: Room) -> None:
    code = "import json, os, sys; print(json.dumps([dict(os.environ), os.getcwd(), sys.stdin.read()]))"
    env, folder, stdin = ran(room, python(code), env={"PATH": "/usr/bin", "X": "y"}, stdin=b"a prompt").said
    assert (env["X"], env["PATH"], env["HOME"], env["TMPDIR"]) == ("y", "/usr/bin", str(room.home), str(room.temporary))
    assert set(env) <= {"X", "PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "LC_CTYPE", "KBH_SANDBOX"}
    assert (folder, stdin) == (str(room.workspace), "a prompt")


def test_the_listener_is_reached_from_inside(room: Room) -> None:
    said: list[bytes] = []

    def answer() -> None:
        with room.listener.accept()[0] as link:
            said.append(link.recv(4096))
            link.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    room.listener.settimeout(60)
    server = threading.Thread(target=answer)
    server.start()
    assert ran(room, python(CALL, room.base_url)).said == "hi"
    server.join()
    assert said[0].startswith(b"GET /hello ")


def test_the_listener_of_a_sealed_room_is_reached_from_nowhere_else() -> None:
    with opened() as room, opened() as other:
        assert room.base_url == other.base_url == "http://127.0.0.1:4040"
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", 4040), 5):
            pass
        assert ran(other, python("import socket; socket.create_connection(('127.0.0.1', 4040))")).status == 0
        other.listener.accept()[0].close()
        room.listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            room.listener.accept()


def test_files_are_written_for_the_agent_and_read_after_its_end(room: Room) -> None:
    room.files.write("workspace/sub/solution.py", b"x = 1\n")
    room.files.write("home/.bin/tool", b"#!/bin/sh\necho $1 > made\n", executable=True)
    done = ran(room, ["sh", "-c", 'echo "y = 2" >> sub/solution.py && $HOME/.bin/tool new && ln -s made link'])
    assert done == Ran(0, "", "")
    room.end()
    assert room.files.read("workspace/sub/solution.py", 100) == b"x = 1\ny = 2\n"
    assert room.files.read("workspace/made", 100) == b"new\n"
    assert [(path, size) for path, size, _ in room.files.walk("workspace")] == [
        ("workspace/made", 4), ("workspace/sub/solution.py", 12),
    ]  # fmt: skip
    assert room.files.links("workspace") == [("workspace/link", "made")]
    room.files.write("workspace/sub/solution.py", b"restored")
    assert room.files.read("workspace/sub/solution.py", 100) == b"restored"
    room.close()
    with pytest.raises(RoomError):
        room.files.read("workspace/made", 100)


def test_a_full_disk_is_an_error_inside_and_seen_outside() -> None:
    with opened() as room:
        number, written = ran(room, python(FILL)).said
        assert number == errno.ENOSPC and written <= SMALL.disk_bytes
        assert room.files.used().bytes > 0.95 * SMALL.disk_bytes
        with pytest.raises(RoomError, match="disk is full"):
            room.files.write("workspace/one", bytes(1 << 20))
        with pytest.raises(RoomError, match="No such file"):
            room.files.read("workspace/one", 100)


def test_temporary_folders_are_bounded_too() -> None:
    code = FILL.replace('"big"', 'os.environ["WHERE"] + "/big"')
    for where in ("/tmp", "/dev/shm"):
        with opened() as room:
            number, written = ran(room, python(code), env={"WHERE": where}).said
            assert number == errno.ENOSPC and written <= SMALL.tmp_bytes
            assert room.files.used().bytes < 1 << 20


def test_the_number_of_files_is_bounded_too() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can bound it; the record says so")
    with opened() as room:
        number, made = ran(room, python(MANY)).said
        assert (number, made) == (errno.ENOSPC, SMALL.disk_bytes // 8192 - 4)
        assert room.files.used().files == SMALL.disk_bytes // 8192
        with pytest.raises(RoomError, match="more than 100 files"):
            room.files.walk("workspace", most=100)


def test_mounts_are_read_only_and_seen_where_they_are_wanted(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data" / "x").write_text("shown")
    shown = {"data": "/opt/a/data", "data/x": "/srv/y"}
    spec = RoomSpec(mounts=tuple(Mount(tmp_path / source, PurePosixPath(there)) for source, there in shown.items()))
    for sealed in SEALED:
        with opened(spec, sealed=sealed) as room:
            x, y = (str(room.seen(PurePosixPath(path))) for path in ("/opt/a/data/x", "/srv/y"))
            assert (x == "/opt/a/data/x") is sealed
            done = ran(room, ["sh", "-c", f"cat {x} {y}; touch {x} || echo closed"])
            assert done.out == "shownshownclosed\n"
    assert not (tmp_path / "data" / "y").exists()


def test_the_exit_status_is_the_agents_or_its_signals(room: Room) -> None:
    assert room.wait(0) is None
    assert ran(room, ["sh", "-c", "kill -11 $$"]).status == 128 + 11
    assert room.wait(0) == 128 + 11


def test_what_cannot_be_started_is_one_sentence(room: Room) -> None:
    with pytest.raises(RoomError, match="could not be started in the room: /no/such/program: No such file"):
        ran(room, ["/no/such/program"])
    with pytest.raises(RoomError, match="one agent, once"):
        ran(room, ["true"])


def test_streams_can_be_opened_by_their_names(room: Room) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as lines, os.fdopen(writer, "wb") as out:
        command = "echo one > /dev/stdout; echo two > /dev/stderr"
        room.start(["sh", "-c", command], env={}, stdin=b"", stdout=out, stderr=out)
        out.close()
        assert lines.read() == b"one\ntwo\n"


def test_a_writer_whose_reader_has_gone_is_ended_as_anywhere(room: Room) -> None:
    assert ran(room, ["bash", "-c", "yes | head -n 1; echo ${PIPESTATUS[0]}"]).out == "y\n141\n"


def test_the_record_says_whether_it_was_sealed_for_ever() -> None:
    with opened() as room:
        assert (room.record.kind, room.record.sealed) == ("bubblewrap", True)
    with opened(sealed=False) as room:
        assert (room.record.kind, room.record.sealed) == ("none", False)
        assert any("open to" in note for note in room.record.notes)


def test_without_bubblewrap_there_is_no_sealed_room_and_a_word_about_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RoomError, match="bubblewrap is not installed; install bubblewrap.*--no-sandbox"):
        open_room(SMALL)


def test_where_bubblewrap_is_not_allowed_to_the_reason_and_what_to_do_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RoomError, match="bwrap: setting up uid map: Permission denied; .*--no-sandbox"):
        open_room(SMALL)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_missing_mount_and_a_missing_gpu_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RoomError, match="cannot be shown in a room: it is missing"):
        open_room(RoomSpec(mounts=(Mount(tmp_path / "none", PREFIX),)))
    with pytest.raises(RoomError, match="is no place in a room"):
        open_room(RoomSpec(mounts=(Mount(tmp_path, PurePosixPath("/opt/../etc")),)))
    with pytest.raises(RoomError, match="there is no GPU GPU-none"):
        open_room(RoomSpec(gpu="GPU-none"))


def test_many_rooms_at_once_have_users_of_their_own_and_mix_nothing_up() -> None:
    opened().close()  # where there can be none, threads could not skip
    rooms: list[Room] = []
    makers = [threading.Thread(target=lambda: rooms.append(opened())) for _ in range(8)]
    try:
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        assert len(rooms) == 8
        if os.getuid() == 0:
            assert len({room.record.uid for room in rooms}) == 8
        for number, room in enumerate(rooms):
            room.files.write("workspace/number", str(number).encode())
            assert ran(room, ["cat", "number"]).out == str(number)
    finally:
        for room in rooms:
            room.close()


def test_descriptors_and_users_are_given_back() -> None:
    opened().close()
    before = len(os.listdir("/proc/self/fd"))
    used = set()
    for sealed in (True, False, True, False):
        with opened(sealed=sealed) as room:
            ran(room, ["true"])
            used.add(room.record.uid)
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(used) == 1
