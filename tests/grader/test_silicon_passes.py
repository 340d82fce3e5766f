"""How a profiler is put around a submission's process, and how what it left is read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import pytest

from grader.record.cell import SandboxRecord
from grader.sandbox import Jail
from grader.silicon import ncu, passes
from grader.silicon.ncu import Ncu, Profiled, ProfilerError, Unavailable, find_ncu
from grader.wire.frames import Frame, Kind
from kbh_lint.problems import load_problem

GEMM = load_problem(Path(__file__).parents[2] / "problems/01_fp8_gemm/problem.yaml")


class Recorder:
    """A sandbox that only remembers what it was asked to start."""

    record = SandboxRecord("bubblewrap", 1000, False)

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, fds: Sequence[int], jail: Jail,
        output: BinaryIO, report: int | None = None,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        self.argv, self.env, self.jail, self.fds = list(argv), dict(env), jail, list(fds)
        return subprocess.Popen(["true"])

    def end(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()


def started(profiled: Profiled) -> None:
    with open(os.devnull, "wb") as nothing:
        jail = Jail((Path("/snapshot"),), (Path("/scratch/work"),), gpu=True)
        process = profiled.spawn(
            ["python", "-c", "boot"], env={"A": "b"}, cwd=Path("/"), fds=[7], jail=jail, output=nothing
        )
        profiled.end(process)


def test_the_counters_program_starts_the_same_command_in_the_same_sandbox_with_the_profilers_nodes() -> None:
    inner = Recorder()
    started(
        Profiled(inner, "counters", Ncu(Path("/opt/ncu/ncu"), "2025.3"), ("a.sum", "b.sum"), Path("/scratch/x.csv"))
    )
    place = inner.argv.index("python")
    assert inner.argv[0] == "/opt/ncu/ncu" and inner.argv[place:] == ["python", "-c", "boot", "--profile", "counters"]
    prefix = " ".join(inner.argv[:place])
    for wanted in ("--metrics a.sum,b.sum", "--clock-control none", "--cache-control all", "--log-file /scratch/x.csv"):
        assert wanted in prefix
    assert inner.jail.profiler and inner.jail.gpu and inner.jail.write == (Path("/scratch/work"),)
    assert inner.jail.read == (Path("/snapshot"), Path("/opt/ncu")) and inner.fds == [7]
    assert inner.env == {"A": "b", "LC_ALL": "C"}  # numbers with points


def test_the_tracer_needs_no_program_around_the_process() -> None:
    inner = Recorder()
    started(Profiled(inner, "trace"))
    assert inner.argv == ["python", "-c", "boot", "--profile", "trace"] and inner.jail.read == (Path("/snapshot"),)


def test_the_newest_program_that_says_its_version_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, says in (("2024.1", "echo Version 2024.1.9"), ("2025.10", "echo Version 2025.10.1"), ("2026", "exit 1")):
        program = tmp_path / name / "ncu"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{says}\n")
        program.chmod(0o755)
    monkeypatch.setattr(ncu, "INSTALLED", (str(tmp_path / "*" / "ncu"),))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    find_ncu.cache_clear()
    try:
        assert find_ncu() == Ncu(tmp_path / "2025.10" / "ncu", "2025.10.1")
        monkeypatch.setattr(ncu, "INSTALLED", ())
        monkeypatch.setenv("PATH", str(tmp_path))
        find_ncu.cache_clear()
        with pytest.raises(Unavailable, match="not installed"):
            find_ncu()
    finally:
        find_ncu.cache_clear()


def test_only_a_plain_file_of_a_bounded_size_is_read_from_where_the_submission_could_write(tmp_path: Path) -> None:
    plain, link, pipe = tmp_path / "plain", tmp_path / "link", tmp_path / "pipe"
    plain.write_bytes(b"12345\xff")
    link.symlink_to(plain)
    os.mkfifo(pipe)
    assert passes._text(plain, 6) == "12345\ufffd"
    for path, said in ((tmp_path / "none", "wrote no none"), (link, "wrote no link"), (pipe, "pipe is not a file")):
        with pytest.raises(ProfilerError, match=said):
            passes._text(path, 6)
    with pytest.raises(ProfilerError, match="more than 5 bytes"):
        passes._text(plain, 5)


@pytest.mark.parametrize(
    ("marks", "right", "same"),
    [
        (["a", "a", "a", "a"], True, True),
        (["b", "b", "a", "a"], True, True),  # what was warm-up does not matter
        (["b", "c", "d", "e"], True, True),  # a sum whose order is left to chance
        (["b", "c", "d", "e"], False, False),
        (["a", "a", "b", "b"], True, False),  # it saw the marks
        (["a", "a", "a", "b"], True, False),
        (["b", "b", "b", "b"], True, False),  # tuned anew
    ],
)
def test_marked_calls_must_give_the_trials_bits_unless_unmarked_ones_vary_too(
    marks: list[str], right: bool, same: bool
) -> None:
    assert passes.same_results(set(marks[:2]), marks[2:], "a", right) == same


@pytest.mark.parametrize(
    ("given", "found", "loads"),
    [
        (["aab"], None, 1),
        (["aac", "aab"], None, 2),
        (["aac", "abd"], None, 2),  # by now it is seen that bits are left to chance
        (["aac", "bbd"], None, 2),
        (["aac"] * 9, True, passes.MOST_LOADS),
        (["aax", "abd"], False, 1),
    ],
)
def test_bits_that_are_seldom_left_to_chance_are_asked_for_in_further_models(
    monkeypatch: pytest.MonkeyPatch, given: list[str], found: bool | None, loads: int
) -> None:
    """Each text is what the calls of one model give, the last one marked; `b` is the trial's result and `x` wrong. All
    calls of all models but the first find empty caches."""
    answers = iter(given)
    session = SimpleNamespace(count=0, left="", cold=0)

    def load(*_: object, **__: object) -> Frame:
        session.count += 1
        session.left = next(answers)
        return Frame(Kind.DONE, 0)

    def outputs(_: int) -> str:
        one, session.left = session.left[0], session.left[1:]
        return one

    def flush() -> None:
        session.cold += 1

    session.load, session.outputs, session.flush = load, outputs, flush
    session.call = lambda *_: SimpleNamespace(answer=Frame(Kind.DONE, 0))
    shape = GEMM.shapes[0]
    case = SimpleNamespace(binding=None, state=None, shape=shape, inputs=())
    seen = SimpleNamespace(case=0, model=0, digest="b")
    bench = SimpleNamespace(
        case=lambda _: seen, trial=SimpleNamespace(master="00"), problem=GEMM, device="cpu", copied=frozenset()
    )
    monkeypatch.setattr(passes, "materialise", lambda *_, **__: case)
    monkeypatch.setattr(passes, "digest_of", lambda outputs, _: outputs)
    monkeypatch.setattr(passes, "hold", lambda *given: SimpleNamespace(result=SimpleNamespace(ok=given[3] != "x")))
    assert passes._again(bench, None, session, shape, 1) is found  # type: ignore[arg-type]
    assert session.count == loads and session.cold == (loads - 1) * len(given[0])
