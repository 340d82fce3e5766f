"""What a submission compiles is compiled once in a grading, and once more beside it; a compiler that counts says so."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from grading import few_calls, measured_before, toy_request

from grader import sandbox as sandboxes
from grader.grading import beside as besides
from grader.grading import stages
from grader.grading.grade import grade
from grader.grading.progress import Progress
from grader.judge import compiling, turns
from grader.judge import judging as judge
from grader.judge.compiling import Compiled
from grader.record.cell import Cell, SandboxRecord
from grader.report.view import load_view
from grader.sandbox import Sandbox
from grader.sandbox.base import SEEN
from grader.sandbox.builds import Builds, hand_out
from grader.sandbox.folders import CachesError, restore_caches
from grader.sandbox.kinds.supervised import Supervised
from grader.sandbox.supervise import Child
from grader.sandbox.users import leased_uid

pytestmark = pytest.mark.skipif(not shutil.which("ninja"), reason="needs ninja")

COMPILER = """#!/bin/sh
echo "$HOME $3" >> {count}
{does}
cat "$1" > "$2"
"""
# Builds as torch.utils.cpp_extension does: a baton, a source that is written when it changes, and ninja.
PROGRAM = """\
import os, subprocess, time
import torch
from torch import nn

COMPILER = "{compiler}"  # for nvcc


def built():
    folder = os.path.join(os.environ["TORCH_EXTENSIONS_DIR"], "mine")
    os.makedirs(folder, exist_ok=True)
    baton = os.path.join(folder, "lock")
    while True:
        try:
            os.close(os.open(baton, os.O_CREAT | os.O_EXCL))
            break
        except FileExistsError:
            time.sleep(0.1)
    source = os.path.join(folder, "main.cu")
    for name, text in ((source, "kernel"), (os.path.join(folder, "build.ninja"),
            "rule cc\\n  command = " + COMPILER + " $in $out\\nbuild main.o: cc " + source + "\\n")):
        if not os.path.exists(name) or open(name).read() != text:
            open(name, "w").write(text)
    subprocess.run(["ninja", "-C", folder], check=True, stdout=subprocess.DEVNULL)
    os.remove(baton)


{eager}


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        {lazy}
        return (x @ self.w) * (torch.arange(len(x)) < used)[:, None]
"""


@dataclass
class Bench:
    """A place with a compiler that counts its work, where two processes are kept apart and CPU gradings build."""

    folder: Path
    shared: Path

    def program(self, *, eager: str = "built()", lazy: str = "pass", does: str = "") -> str:
        compiler = self.shared / "nvcc"
        compiler.write_text(COMPILER.format(count=self.shared / "count", does=does))
        compiler.chmod(0o755)
        return PROGRAM.format(compiler=compiler, eager=eager, lazy=lazy)

    def graded(self, text: str, **options: Any) -> Cell:
        return grade(toy_request(self.folder, text, promises="[]", **options), self.told.append)[0]

    @property
    def compiled(self) -> int:
        """How often the compiler worked."""
        count = self.shared / "count"
        return len(count.read_text().splitlines()) if count.exists() else 0

    def __post_init__(self) -> None:
        self.told: list[Progress] = []


def _apart(box: Sandbox, place: int) -> Sandbox:
    """The same kind of sandbox as another user: nothing of it is bubblewrap's here."""
    assert isinstance(box, Supervised)
    uid = leased_uid(place)
    return replace(box, uid=uid, marks={}) if uid is not None else box


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    few_calls(monkeypatch)
    for name, value in (("XDG_CACHE_HOME", tmp_path / "cache"), ("KBH_LOCK_DIR", tmp_path), ("TMPDIR", tmp_path)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    measured_before()
    monkeypatch.setattr(judge, "cannot_run", lambda *_: "")
    for module in (stages, besides):
        monkeypatch.setattr(module, "compiles", lambda _: True)
    monkeypatch.setattr(besides, "enough", lambda: True)
    monkeypatch.setattr(besides, "second", _apart)
    over = besides.Beside.__exit__
    monkeypatch.setattr(besides.Beside, "__exit__", lambda self, *rest: (self.finish(), over(self, *rest))[1])
    monkeypatch.setattr(besides, "remove", lambda folder: None)
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        Path(shared).chmod(0o777)
        (Path(shared) / "count").touch()
        (Path(shared) / "count").chmod(0o666)
        yield Bench(tmp_path, Path(shared))


@pytest.mark.slow
@pytest.mark.parametrize("lazy", [False, True])
def test_a_grading_compiles_once_and_a_second_time_beside_and_a_later_one_only_beside(bench: Bench, lazy: bool) -> None:
    text = bench.program(eager="pass", lazy="built()") if lazy else bench.program()
    cell = bench.graded(text, trials=2)
    assert [trial.status for trial in cell.trials] == ["right", "right"], cell.reason
    assert bench.compiled == 2
    assert bench.graded(text, fresh=True, evidence=False).trials[0].status == "right"
    assert bench.compiled == 2, "no evidence, no second build"
    assert bench.graded(text, fresh=True).trials[0].status == "right"
    assert bench.compiled == 3


WORKS = """
import os, shutil, subprocess
nvcc = os.path.join(os.environ["HOME"], "nvcc")
shutil.copy("/bin/sleep", nvcc)  # multi-call binaries would go by their name
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "bubblewrap"])
def test_a_compiler_that_works_in_a_call_has_the_turn_lent_and_the_process_stands_still(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    try:
        sandboxes.choose(device="cpu", wanted=kind)  # type: ignore[arg-type]
    except sandboxes.SandboxError as error:
        pytest.skip(str(error))
    events: list[str] = []
    stop, go_on, given = Child.stop, Child.go_on, compiling._Lender._give

    def held() -> str:
        with turns.lock_path("cpu").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return "held"
        return "free"

    def stopped(self: Child) -> bool:
        done, until = stop(self), time.monotonic() + 5
        while (state := _state(self._main)) != "T" and time.monotonic() < until:
            time.sleep(0.01)
        events.append(f"stop {done} {state} {held()}")
        return done

    def goes_on(self: Child) -> None:
        events.append(f"go on {_state(self._main)} {held()}")
        go_on(self)

    monkeypatch.setattr(Child, "stop", stopped)
    monkeypatch.setattr(Child, "go_on", goes_on)
    monkeypatch.setattr(compiling, "LENT_AFTER", 2)
    monkeypatch.setattr(compiling._Lender, "_give", lambda self: (given(self), events.append("given"))[0])
    lazy = 'os.path.exists(nvcc + "-ran") or subprocess.run([nvcc, "2"]); open(nvcc + "-ran", "w").close()'
    text = WORKS + bench.program(eager="pass", lazy=lazy)
    cell = bench.graded(text, evidence=False, build_timeout=60.0, sandbox=kind)
    assert cell.trials[0].status == "right", cell.reason
    assert events == ["stop True T held", "given", "go on T held", "given"]


def _state(number: int) -> str:
    return Path(f"/proc/{number}/status").read_text().partition("State:\t")[2][:1]


def test_a_build_that_was_killed_is_made_anew_and_nobody_waits_for_its_baton(bench: Bench) -> None:
    mark = bench.shared / "killed"
    mark.touch()
    mark.chmod(0o666)
    text = bench.program(
        does=f"[ -s {mark} ] || {{ echo x > {mark}; kill -9 $(awk '{{print $4}}' /proc/$PPID/stat); }}"
    )
    cell = bench.graded(text, evidence=False)
    assert cell.trials[0].status == "right", cell.reason
    assert bench.compiled == 2
    assert any("SIGKILL" in step.text for step in bench.told if step.stage == "build" and step.state == "done")
    assert not list((bench.folder / "cache" / "kbh" / "builds").glob("*/extensions")), "it is kept for nobody else"


def test_a_build_that_takes_too_long_ends_the_grading_and_is_not_tried_again(bench: Bench) -> None:
    cell = bench.graded(bench.program(does="sleep 60"), build_timeout=2.0, evidence=False)
    assert cell.outcome == "wrong" and cell.reason.startswith("the submission did not finish building within 2 s")
    assert bench.compiled == 1 and cell.trials[0].shapes[0].status == "not-run"


# --- the store --------------------------------------------------------------------------------------------


def job(folder: Path, text: str, told: Callable[[Progress], None] = lambda _: None) -> Any:
    """A grading on a GPU of a file with this text, in a scratch folder of its own."""
    folder.mkdir()
    record = SimpleNamespace(id="h200", product="H200", scale="full")
    return SimpleNamespace(
        device="cuda", snapshot=SimpleNamespace(sha256=text, tunes=True, calls_nvcc=False, apart=False),
        problem=SimpleNamespace(id="01"),
        options=SimpleNamespace(build_timeout=10.0), chosen=SimpleNamespace(record=record), versions={},
        scratch=folder, tell=told, workplace=lambda: folder / "run",
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(stages, "compiles", lambda _: True)
    monkeypatch.setattr(stages, "held", lambda *_: nullcontext)
    monkeypatch.setattr(stages, "seen_at", lambda _: SEEN)
    return tmp_path / "cache" / "kbh" / "builds"


def test_of_two_gradings_of_one_file_at_once_the_second_waits_for_the_build_of_the_first(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Progress] = []
    begun, waits, made = threading.Event(), threading.Event(), list[Path]()

    def tell(step: Progress) -> None:
        told.append(step)
        if step.state == "wait":
            waits.set()

    def build(*_: object, caches: Path, **__: object) -> Compiled:
        made.append(caches)
        caches.mkdir(parents=True)
        (caches / "kernel").write_text("cubin")
        begun.set()
        assert waits.wait(20)
        return Compiled()

    monkeypatch.setattr(judge, "build", build)
    box: Any = SimpleNamespace(record=SandboxRecord("plain", 0, False))
    found: list[stages.Built] = []
    first = threading.Thread(target=lambda: found.append(stages.built(job(tmp_path / "a", "x"), box)))
    first.start()
    assert begun.wait(20)
    found.append(stages.built(job(tmp_path / "b", "x", tell), box))
    first.join()
    assert len(made) == 1 and found[0].caches == found[1].caches is not None
    said = [(step.state, step.text) for step in told]
    assert said == [
        ("begin", ""), ("wait", "another grading builds this file; waiting for what it makes"),
        ("done", "from an earlier grading"),
    ]  # fmt: skip


def test_a_build_that_does_not_come_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    builds, told = Builds(tmp_path / "store", tmp_path / "spare"), list[str]()
    with builds.making("k" * 64, told.append, 1.0), builds.making("k" * 64, told.append, 0.3):
        assert told[-1] == "the other grading still builds it; building it here too"
    with builds.making("k" * 64, told.append, 1.0):
        assert len(told) == 2


def test_a_kept_build_is_read_only_and_what_was_changed_is_found_and_taken_away(tmp_path: Path) -> None:
    builds = Builds(tmp_path / "store", tmp_path / "spare")
    for number, change in enumerate(("other bytes", "a file more", "a file less", "no change")):
        key = str(number) * 64
        made = builds.begin(key)
        (made / "triton").mkdir(parents=True)
        for name in ("kernel.cubin", "kernel.json"):
            (made / "triton" / name).write_text(name)
        kept = builds.keep(key, made)
        cubin = kept / "triton" / "kernel.cubin"
        assert stat.S_IMODE(cubin.stat().st_mode) == 0o444
        hand_out(kept, tmp_path / "copy")
        copied = tmp_path / "copy" / "triton" / "kernel.cubin"
        assert stat.S_IMODE(copied.stat().st_mode) == 0o644, "each process may write to its copy"
        copied.write_text("what one process writes reaches no other")
        if change == "no change":
            assert builds.find(key) == kept
            continue
        cubin.chmod(0o600)
        if change == "a file less":
            cubin.unlink()
        else:
            (cubin if change == "other bytes" else kept / "more").write_text("KERNEL.cubin")
        again = tmp_path / "changed"
        restore_caches(kept, again)
        with pytest.raises(CachesError, match="was changed since"):
            hand_out(kept, tmp_path / "copy")
        assert not (tmp_path / "copy").exists() and builds.find(key) is None
        shutil.move(again, kept)
        assert builds.find(key) is None and not kept.exists(), "nor is it found by a later grading"


def test_a_submission_s_user_cannot_write_to_the_store_and_sees_nothing_of_it(bench: Bench, tmp_path: Path) -> None:
    """In bubblewrap, where every grading's processes see their folders under the same paths."""
    try:
        box = sandboxes.choose(device="cpu", wanted="bubblewrap")
    except sandboxes.SandboxError as error:
        pytest.skip(str(error))
    store = tmp_path / "cache" / "kbh" / "builds"
    look = (
        f"import os\nprint('seen', os.path.exists({str(store)!r}), os.environ['TRITON_CACHE_DIR'])\n"
        "print(__file__, os.getcwd())\n"
        "print('kept', os.path.exists(os.environ['TRITON_CACHE_DIR'] + '/kernel'))\n"
        "open(os.environ['TRITON_CACHE_DIR'] + '/kernel', 'a').write('x')\n"
    )
    request = toy_request(tmp_path, look + bench.program(eager="pass"), promises="[]")
    cell, folder = grade(replace(request, sandbox="bubblewrap", evidence=False), lambda _: None)
    assert box.record.kind == "bubblewrap" and cell.trials[0].status == "right", cell.reason
    (log,) = (load_view(folder).logs or {}).values()
    assert "seen False <scratch>/run/caches/triton\n<scratch>/submission/solution.py <scratch>/submission\n" in log
    assert "kept True" in log
    (kept,) = store.glob("*/triton/kernel")
    assert kept.read_text() == "x" and kept.stat().st_uid == os.getuid() and stat.S_IMODE(kept.stat().st_mode) == 0o444
