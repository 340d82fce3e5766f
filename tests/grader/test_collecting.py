"""Kernels that are compiled beside one another before any of them is launched, and what a build makes of that."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from grader.candidate import serve
from grader.candidate.clock import make_clock
from grader.candidate.runner import Runner
from grader.judge import judging as judge
from grader.judge.compiling import Compiled
from grader.judge.plan import default_options
from grader.judge.session import Session
from grader.sandbox import snapshot as snapshots
from grader.sandbox.builds import untuned
from grader.sandbox.snapshot import snapshot
from grader.silicon.machine_code import MachineCode
from grader.silicon.rebuild import lacks
from grader.wire.frames import Kind

# Triton's compiler for a GPU that is not there: it needs the name of its chip alone. Launching anything would fail.
PROGRAM = """
import json, os, sys, torch, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

class Absent:
    get_current_target = lambda self: GPUTarget("cuda", 90, 32)
    get_current_device = get_current_stream = lambda self, *_: 0

    def get_benchmarker(self):
        from triton.testing import do_bench
        return do_bench

driver.set_active(Absent())
collects = sys.argv[1] == "collect"
if collects:
    from grader.candidate.collecting import Collector
    collector = Collector()

@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr, STEP: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * STEP, mask=at < n)

@triton.jit
def broken(x):
    tl.store(x, tl.arange(0, 7))

tuned = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])(scaled)
x = torch.ones(4096)
said = {}
if collects:
    said["registers"] = scaled[(1,)](x, x, 64, BLOCK=32, STEP=3).metadata.num_warps
    scaled[(1,)](x, x, 64, BLOCK=32, STEP=3)
    for step in (1, 2):
        tuned[lambda meta: (4096 // meta["BLOCK"],)](x, x, 4096, STEP=step)
    broken[(1,)](x)
    said["measured"] = triton.testing.do_bench(lambda: None), triton.testing.do_bench(lambda: None, quantiles=[.5, .2])
    said["kernels"] = collector.wait()
else:
    for block, step in ((32, 3), (64, 1), (64, 2), (128, 1)):
        scaled.warmup(x, x, 64 if block == 32 else 4096, BLOCK=block, STEP=step, grid=(1,))
print(json.dumps(said))
"""


def compiled_by(how: str, folder: Path) -> tuple[dict[str, Any], set[str]]:
    """What the program says, and the hashes of the cubins in its cache."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    file = folder.parent / "program.py"  # its name and its time are in what comes out
    if not file.exists():
        file.write_text(PROGRAM)
    program = [sys.executable, str(file), how]
    found = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    hashes = {hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*.cubin")}
    return json.loads(found.stdout.splitlines()[-1]), hashes


@pytest.mark.skipif(not snapshots._triton_collects(), reason="this Triton compiles where it launches")
def test_what_is_collected_is_what_compiling_one_by_one_gives_and_nothing_is_launched(tmp_path: Path) -> None:
    said, cubins = compiled_by("collect", tmp_path / "collected")
    assert said == {"registers": 4, "measured": [1.0, [1.0, 1.0]], "kernels": 5}  # one of which does not compile
    assert cubins == compiled_by("warm", tmp_path / "warmed")[1] and len(cubins) == 4
    assert not list(tmp_path.rglob("*.autotune.json"))  # of times that nobody took


def taken(folder: Path, text: str) -> Any:
    folder.mkdir()
    file = folder / "solution.py"
    file.write_text(text)
    return snapshot(file, folder / "copy")


def test_only_what_triton_alone_compiles_is_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_triton_collects", lambda: True)
    assert taken(tmp_path / "a", "import triton\n").collects
    assert not taken(tmp_path / "b", "import torch\n").collects
    both = taken(tmp_path / "c", "import triton\nfrom torch.utils import cpp_extension\n")
    assert not both.collects and both.apart
    monkeypatch.setattr(snapshots, "_triton_collects", lambda: False)
    old = taken(tmp_path / "d", "import triton\n")
    assert not old.collects and not old.apart


@pytest.mark.parametrize(
    ("text", "tunes"),
    [
        ("# the harness's event pair brackets the launch\n", False),
        ('"""Timed by its own clock: no autotuning."""\nimport torch\n', False),
        ('SOURCE = "// it drops the SM clock\\nint a; /* profiled */ int b;"\n', False),
        ("import torch\nDONE = torch.cuda.Event()\n", False),
        ('SOURCE = "// fast\\nlong t = clock64();"\n', True),
        ('SOURCE = "cudaEventElapsedTime(&ms, a, b);"\n', True),
        ("import torch\ndef best(a, b):\n    return a.elapsed_time(b)\n", True),
        ("from time import perf_counter_ns as now\n", True),
        ("import time as t\n", True),
        ("import torch\ntorch.backends.cudnn.benchmark = True\n", True),
        ("import torch\nf = torch.compile(g, mode='max-autotune')\n", True),
        ("import triton\n@triton.autotune(configs=[], key=[])\ndef k(): pass\n", True),
        ("# clock\ndef broken(:\n", True),
    ],
)  # fmt: skip
def test_who_tunes_is_known_by_its_code_and_not_by_what_its_comments_say(
    tmp_path: Path, text: str, tunes: bool
) -> None:
    assert taken(tmp_path / "a", text).tunes is tunes


TUNING = "import triton\n@triton.autotune(configs=[], key=[])\ndef kernel(): pass\n"


@pytest.mark.parametrize(
    ("text", "said", "how", "processes"),
    [
        ("import triton\n", Compiled(), "", ["collects"]),
        ("import triton\n", Compiled(ended="it raised"), "", ["collects", "calls"]),
        ("import triton\n", Compiled(ended="it raised"), "pristine", ["collects", "calls"]),
        ("import triton\n", Compiled(ended="no end", late=True), "", ["collects"]),
        ("import triton\n", Compiled(refused="no GPU"), "", ["collects"]),
        (TUNING, Compiled(), "", ["collects", "calls"]),
        (TUNING, Compiled(), "pristine", ["collects"]),
        ("import triton\n", Compiled(), "whole", ["calls"]),
        ("import torch\n", Compiled(), "", ["calls"]),
    ],
)
def test_a_build_calls_a_second_process_only_where_collecting_was_not_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: Compiled, how: str, processes: list[str]
) -> None:
    monkeypatch.setattr(snapshots, "_triton_collects", lambda: True)
    scratch, kept, seen = tmp_path / "run", tmp_path / "kept", list[str]()
    found: list[list[str]] = []

    def session(*_: object, collect: bool = False, **__: object) -> Any:
        seen.append("collects" if collect else "calls")
        return nullcontext(SimpleNamespace(collect=collect))

    def collected(*_: object) -> Compiled:
        for name in ("triton/key/k.cubin", "triton/key/k.autotune.json", "inductor/choice"):
            (scratch / "caches" / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch / "caches" / name).write_text(name)
        return said

    def compiled(*_: object) -> Compiled:
        caches = scratch / "caches"
        found.append(sorted(str(file.relative_to(caches)) for file in caches.rglob("*") if file.is_file()))
        caches.mkdir(parents=True, exist_ok=True)
        return Compiled()

    monkeypatch.setattr(judge, "_session", session)
    monkeypatch.setattr(judge, "collected", collected)
    monkeypatch.setattr(judge, "compiled", compiled)
    monkeypatch.setattr(judge, "load_code", lambda problem: None)
    monkeypatch.setattr(judge, "Trial", lambda *_: None)
    monkeypatch.setattr(judge.planning, "graded_shapes", lambda *_: ())
    came = judge.build(
        SimpleNamespace(), taken(tmp_path / "a", text), device="cuda", scale="full", options=default_options("cuda"),
        sandbox=SimpleNamespace(), scratch=scratch, caches=kept, progress=lambda text: None, whole=how == "whole",
        pristine=how == "pristine",
    )  # type: ignore[arg-type] # fmt: skip
    assert seen == processes
    assert came == (said if processes == ["collects"] else Compiled())
    if len(processes) == 2:
        # what was chosen by times is chosen anew, and whoever could write over what it finds finds nothing
        assert found == [[] if how == "pristine" else ["triton/key/k.cubin"]]


def test_of_a_build_that_collected_what_was_chosen_by_times_goes(tmp_path: Path) -> None:
    for name in ("triton/a/k.cubin", "triton/a/k.json", "triton/b/k.autotune.json", "extensions/x/lock", "notes"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    untuned(tmp_path)
    assert {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()} == {
        "triton/a/k.cubin", "triton/a/k.json",
    }  # fmt: skip
    untuned(tmp_path / "none")


def kernel(name: str, digest: str) -> Any:
    return SimpleNamespace(name=name, census=SimpleNamespace(kernel=name, digest=digest))


def test_a_second_build_that_did_not_come_to_a_kernel_that_ran_lacks_it() -> None:
    again = MachineCode((kernel("one", "a"),), (), "1")
    for ran, launched, lacking in (
        ([kernel("one", "a")], {"one"}, False),
        ([kernel("one", "a"), kernel("two", "b")], {"one"}, False),
        ([kernel("one", "a"), kernel("two", "b")], {"one", "two"}, True),
        ([kernel("one", "b")], {"one", "library"}, True),
    ):
        assert lacks(again, MachineCode(tuple(ran), (), "1"), launched) is lacking


def test_a_process_that_collects_is_waited_for_as_long_as_building_may_take() -> None:
    class Asked:
        def ask(self, kind: object, doing: str, *, purse: Any) -> str:
            return f"{doing} {purse.whole:g} {purse.work}"

    session = Session.__new__(Session)
    session._child = Asked()  # type: ignore[assignment]
    assert str(session.compiled(300.0)) == "compile its kernels 300 building"


def test_where_triton_cannot_compile_apart_the_process_calls_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise ImportError("a Triton of another shape")

    monkeypatch.setattr(serve, "Collector", fails)
    assert serve._collector() is None
    assert Runner(torch.device("cpu"), make_clock(torch.device("cpu"), False)).compiled() == (Kind.READY, (0.0,))
