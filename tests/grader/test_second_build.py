"""When the second build of a submission is made, and what becomes of one that fails."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader import sandbox
from grader.grading import beside as besides
from grader.grading import stages
from grader.judge import cores
from grader.judge import judging as judge
from grader.judge.compiling import Compiled
from grader.record.cell import SandboxRecord
from grader.sandbox import folders
from grader.sandbox.base import CheckError
from grader.sandbox.kinds import bubblewrap
from grader.sandbox.kinds.bubblewrap import Bubblewrap
from grader.sandbox.snapshot import Snapshot, snapshot
from grader.silicon import rebuild
from grader.silicon.machine_code import MachineCode
from grader.silicon.ncu import ProfilerError

BOX = Bubblewrap("bwrap", 7, SandboxRecord("bubblewrap", 7, False))
CUDA = "import torch.utils.cpp_extension\n"
Build = Callable[..., Compiled]


def job(folder: Path, text: str) -> Any:
    """A grading on a GPU of a file with this text."""
    file = folder / "file.py"
    file.write_text(text)
    record = SimpleNamespace(id="h200", product="H200", scale="full")
    return SimpleNamespace(
        device="cuda", snapshot=snapshot(file, folder / "submission"), problem=SimpleNamespace(id="01"),
        options=SimpleNamespace(build_timeout=300.0),
        chosen=SimpleNamespace(record=record), versions={}, scratch=folder, tell=lambda _: None,
        workplace=lambda: folder / "run",
    )  # fmt: skip


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Build], None]:
    """Puts another function in the place of building."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(besides, "second", lambda box, place: replace(box, uid=8))
    monkeypatch.setattr(besides, "enough", lambda: True)
    return lambda build: monkeypatch.setattr(judge, "build", build)


def test_nvcc_works_for_the_second_build_while_it_works_for_the_first_and_while_a_trial_is_made(
    tmp_path: Path, builds: Callable[[Build], None]
) -> None:
    both, trial, seen = threading.Barrier(2, timeout=30), threading.Event(), {}

    def build(*_: object, caches: Path, scratch: Path, sandbox: Bubblewrap, calls: int = 1, **__: object) -> Compiled:
        caches.mkdir(parents=True)
        seen[calls] = (caches, scratch, sandbox.uid)
        both.wait()
        assert calls == 1 or trial.wait(30), "the second goes on when the first has ended"
        return Compiled()

    builds(build)
    ours = job(tmp_path, CUDA)
    with besides.Beside(ours, BOX) as second:
        second.start()
        kept = stages.built(ours, BOX).caches
        assert kept is not None and kept.is_dir()
        trial.set()
        again = second.finish()
        assert again is not None and again.is_dir() and again != kept
        assert seen.keys() == {1, rebuild.CALLS}  # the second is called as often as beside a profiler
        (_, place, user), (_, other_place, other_user) = seen[1], seen[rebuild.CALLS]
        assert place != other_place and (user, other_user) == (7, 8)
    assert not again.exists()


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("import triton\n", ["together", "together"]),
        ("import triton\n@triton.autotune(configs=[], key=[])\n", ["alone", "then together"]),
    ],
)
def test_what_is_not_tuned_is_built_twice_at_once_and_beside_the_builds_of_others(
    tmp_path: Path, builds: Callable[[Build], None], monkeypatch: pytest.MonkeyPatch, text: str, order: list[str]
) -> None:
    monkeypatch.setattr(stages, "alone", lambda *_, **__: nullcontext("alone"))
    monkeypatch.setattr(stages, "together", lambda *_, **__: nullcontext("together"))
    seen: list[str] = []
    begun = threading.Barrier(2, timeout=30)

    def build(*_: object, caches: Path, held: Callable[[], Any], **__: object) -> Compiled:
        caches.mkdir(parents=True)
        with held() as how:
            if how == "together" and not first.is_set():
                begun.wait()  # both are at work
            seen.append(f"then {how}" if first.is_set() else how)
        return Compiled()

    builds(build)
    first = threading.Event()
    ours = job(tmp_path, text)
    with besides.Beside(ours, BOX) as second:
        second.start()
        stages.built(ours, BOX)
        if "alone" in order:
            first.set()
        second.start_late()
        assert second.finish() is not None
    assert seen == order


def test_a_build_for_which_memory_was_missing_beside_others_is_made_alone(
    tmp_path: Path, builds: Callable[[Build], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "alone", lambda *_, **__: nullcontext("alone"))
    monkeypatch.setattr(stages, "together", lambda *_, **__: nullcontext("together"))
    seen: list[str] = []

    def build(*_: object, caches: Path, held: Callable[[], Any], **__: object) -> Compiled:
        with held() as how:
            seen.append(how)
            if how == "together":
                raise CheckError("memory for the state cannot be had: out of memory")
        caches.mkdir(parents=True)
        return Compiled()

    builds(build)
    assert stages.built(job(tmp_path, "import triton\n"), BOX).caches is not None
    assert seen == ["together", "alone"]


def test_a_build_from_an_earlier_grading_is_taken_and_the_second_is_made_all_the_same(
    tmp_path: Path, builds: Callable[[Build], None]
) -> None:
    begun: list[int] = []

    def build(*_: object, caches: Path, calls: int = 1, **__: object) -> Compiled:
        caches.mkdir(parents=True)
        begun.append(calls)
        return Compiled()

    builds(build)
    for _ in range(2):
        ours = job(tmp_path, CUDA)
        with besides.Beside(ours, BOX) as second:
            second.start()
            stages.built(ours, BOX)
            assert second.finish() is not None
    assert sorted(begun) == [1, rebuild.CALLS, rebuild.CALLS]


@pytest.mark.parametrize("said", [Compiled(ended="it crashed"), Compiled(refused="no GPU"), OSError("no room")])
def test_a_second_build_that_ends_early_leaves_nothing_and_the_first_goes_on(
    tmp_path: Path, builds: Callable[[Build], None], said: Compiled | OSError
) -> None:
    def build(*_: object, caches: Path, calls: int = 1, **__: object) -> Compiled:
        caches.mkdir(parents=True)
        if calls > 1 and isinstance(said, OSError):
            raise said
        return said if calls > 1 and isinstance(said, Compiled) else Compiled()

    builds(build)
    ours = job(tmp_path, CUDA)
    with besides.Beside(ours, BOX) as second:
        second.start()
        assert stages.built(ours, BOX).caches is not None
        assert second.finish() is None
    assert not (tmp_path / "again").exists()


def test_a_second_build_that_nobody_wants_any_more_is_ended(
    tmp_path: Path, builds: Callable[[Build], None]
) -> None:  # fmt: skip
    opened, ended = threading.Event(), threading.Event()

    def build(*_: object, opened: Callable[[Any], None], **__: object) -> Compiled:
        opened(SimpleNamespace(end=ended.set))
        begun.set()
        assert ended.wait(30)
        return Compiled(ended="it was killed")

    begun = opened
    builds(build)
    with besides.Beside(job(tmp_path, CUDA), BOX) as second:
        second.start()
        assert begun.wait(30)
    assert ended.is_set() and second.finish() is None


@pytest.mark.parametrize(
    ("text", "cpus", "box"), [("import triton\ntriton.autotune\n", True, BOX), (CUDA, False, BOX), (CUDA, True, None)]
)
def test_one_process_builds_what_is_tuned_or_where_two_are_too_many_or_cannot_be_kept_apart(
    tmp_path: Path, builds: Callable[[Build], None], monkeypatch: pytest.MonkeyPatch, text: str, cpus: bool,
    box: Bubblewrap | None,
) -> None:  # fmt: skip
    begun: list[int] = []

    def build(*_: object, calls: int = 1, **__: object) -> Compiled:
        begun.append(calls)
        return Compiled()

    builds(build)
    monkeypatch.setattr(besides, "enough", lambda: cpus)
    if box is None:
        monkeypatch.setattr(besides, "second", lambda *_: None)
    ours = job(tmp_path, text)
    with besides.Beside(ours, BOX) as second:
        second.start()
        stages.built(ours, BOX)
        assert second.finish() is None
    assert begun == [1]


def test_the_second_build_keeps_off_the_processors_of_what_is_timed(
    tmp_path: Path, builds: Callable[[Build], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    def build(*_: object, **__: object) -> Compiled:
        seen.append(os.sched_getaffinity(0))
        return Compiled()

    builds(build)
    monkeypatch.setattr(cores, "LEAST_CPUS", 1)
    monkeypatch.setattr(cores, "_every", lambda: tuple(sorted(here)))
    with besides.Beside(job(tmp_path, CUDA), BOX) as second:
        second.start()
        second.finish()
    assert seen == [set(sorted(here)[len(here) // 2 :])] and os.sched_getaffinity(0) == here


def bench(folder: Path) -> Any:
    return SimpleNamespace(known={},
        problem=None, snapshot=Snapshot(Path("solution.py"), "", ""), device="cuda", scale="full", options=None,
        sandbox=BOX, say=lambda _: None, held=nullcontext,
    )  # fmt: skip


def test_what_was_compiled_beside_the_first_build_is_read_and_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def collect(folder: Path, arch: str, box: object, known: object) -> MachineCode:
        read.append(folder)
        return MachineCode((), (), arch)

    built: list[Path] = []

    def build(*_: object, caches: Path, **__: object) -> Compiled:
        caches.mkdir(parents=True)
        built.append(caches)
        return Compiled()

    monkeypatch.setattr(rebuild, "collect", collect)
    monkeypatch.setattr(judge, "build", build)
    made = tmp_path / "made"
    made.mkdir()
    rebuild.compiled_again(bench(tmp_path), "sm_90a", lambda: tmp_path / "run", lambda: made)
    assert read == [made] and not built and not made.exists()
    rebuild.compiled_again(bench(tmp_path), "sm_90a", lambda: tmp_path / "run")
    assert read[1:] == built != [] and not built[0].exists()


def test_a_second_build_that_does_not_come_to_its_end_is_told_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "build", lambda *_, **__: Compiled(ended="the submission was killed by SIGKILL"))
    with pytest.raises(ProfilerError, match="did not come to its end: the submission was killed by SIGKILL"):
        rebuild.compiled_again(bench(tmp_path), "sm_90a", lambda: tmp_path / "run")


def test_two_processes_at_a_time_are_two_users_in_namespaces_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "leased_uid", lambda place: 100 + place)
    other = sandbox.second(BOX)
    assert isinstance(other, Bubblewrap) and other.uid == other.record.uid == 101 and other.first is not BOX.first
    monkeypatch.setattr(bubblewrap, "leased_uid", lambda place: None)  # each has a user namespace then
    assert sandbox.second(BOX) is BOX
    shared = SimpleNamespace(record=SandboxRecord("landlock", 7, False))
    assert sandbox.second(shared) is None  # type: ignore[arg-type]


def test_who_was_kept_away_may_be_let_run_everywhere_again(monkeypatch: pytest.MonkeyPatch) -> None:
    every = os.sched_getaffinity(0)
    if len(every) < 2:
        pytest.skip("there is one processor")
    process = subprocess.Popen(["sleep", "60"])
    try:
        os.sched_setaffinity(process.pid, {min(every)})
        monkeypatch.setattr(cores, "shared", lambda: True)
        cores.set_free([process.pid])
        assert os.sched_getaffinity(process.pid) == {min(every)}, "others are timed meanwhile"
        monkeypatch.setattr(cores, "shared", lambda: False)
        cores.set_free([process.pid, 1 << 22])
        assert os.sched_getaffinity(process.pid) == every
    finally:
        process.kill()
        process.wait()


def test_what_is_timed_beside_other_gradings_has_processors_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = list[tuple[int, set[int]]]()
    monkeypatch.setattr(cores, "_OTHERS", False)
    monkeypatch.setattr(cores, "_ON_GPUS", False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda number, where: moved.append((number, set(where))))
    monkeypatch.setattr(os, "sched_getaffinity", lambda number: {2, 3})
    monkeypatch.setattr(os, "listdir", lambda folder: ["7", "8"] if folder == "/proc/7/task" else [])
    for every, quiet in ((range(8), {0, 1}), (range(16), {0, 1, 2, 3})):
        monkeypatch.setattr(cores, "_every", lambda every=every: tuple(every))
        with cores.timed(lambda: [7]):
            assert not moved, "it is the only one"
        assert cores.apart() == set(every[len(every) // 2 :])
        cores.share(on_gpus=True)
        assert moved == [(0, set(every) - quiet)] == [(0, cores.apart())], "all else of this process"
        moved.clear()
        with cores.timed(lambda: [7]):
            assert moved == [(0, quiet), (7, quiet), (8, quiet)]
        assert moved[3:] == [(0, {2, 3})]
        moved.clear()
        cores.share(on_gpus=False)
        assert not moved and cores.apart() == set(every[len(every) // 2 :]), "a CPU is timed with all that it has"
    monkeypatch.setattr(cores, "_every", lambda: tuple(range(6)))
    cores.share(on_gpus=True)
    with cores.timed(lambda: [7]):
        assert not moved and cores.apart() == {3, 4, 5}, "there are too few to give some away"


def test_code_that_was_compiled_in_a_folder_of_the_submission_s_own_is_read_too(tmp_path: Path) -> None:
    """`load_inline(build_directory=...)` below its temporary folder: the caches hold nothing of it."""
    scratch, kept = tmp_path / "scratch", tmp_path / "kept"
    for name in ("work/tmp/mine/mine.so", "work/tmp/mine/mine.o", "work/home/a/b.cubin", "caches/extensions/x/x.so"):
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_text(name)
    (scratch / "work" / "tmp" / "passwd.so").symlink_to("/etc/passwd")
    judge._kept(scratch, kept, Compiled())
    found = sorted(file.read_text() for file in (kept / judge.ELSEWHERE).iterdir())
    assert found == ["work/home/a/b.cubin", "work/tmp/mine/mine.so"]
    assert (kept / "extensions" / "x" / "x.so").is_file()


@pytest.mark.parametrize("taken", ["elsewhere", "elsewhere/0.so/deep"], ids=["a file", "a folder"])
def test_a_cache_of_that_name_is_in_nobody_s_way(tmp_path: Path, taken: str) -> None:
    scratch, kept = tmp_path / "scratch", tmp_path / "kept"
    for name in ("work/tmp/mine.so", f"caches/{taken}"):
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_text(name)
    judge._kept(scratch, kept, Compiled())
    assert [file.read_text() for file in (kept / judge.ELSEWHERE).iterdir()] == ["work/tmp/mine.so"]


def test_no_more_of_it_is_read_than_a_compiler_makes(tmp_path: Path) -> None:
    folders.gather_code(tmp_path / "work", tmp_path / "code")  # which a submission may have taken away
    assert not (tmp_path / "code").exists()
    deep = tmp_path / "work" / "/".join("d" * (folders.MOST_CACHE_DEPTH + 2))
    deep.mkdir(parents=True)
    (deep / "deep.so").write_text("left out")
    for number in range(folders.MOST_GATHERED + 5):
        (tmp_path / "work" / f"{number}.so").write_text("code")
    folders.gather_code(tmp_path / "work", tmp_path / "code")
    assert {file.read_text() for file in (tmp_path / "code").iterdir()} == {"code"}
    assert len(list((tmp_path / "code").iterdir())) == folders.MOST_GATHERED
