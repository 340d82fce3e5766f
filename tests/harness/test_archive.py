"""The archive of a run: what is written comes back, a cut leaves whole lines, and the linter and the grader read it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import kbh_lint
from grader.sandbox.snapshot import snapshot
from harness.record.archive import ArchiveError, RunFolder, is_run, new_run_id
from harness.record.events import Finding, Note, ToolCall
from harness.record.exchange import ModelCall
from harness.record.run import RunRecord
from harness.record.usage import Usage, total

ROOT = Path(__file__).resolve().parents[2]
HONEST = ROOT / "problems" / "07_w4a16_gemm" / "honest" / "triton.py"


def record(problem: str = "07_w4a16_gemm") -> RunRecord:
    return RunRecord(
        new_run_id("claude", "anthropic/some model", problem), "claude", "claude 2.1", "anthropic/m", problem, "h200",
        "high", 60.0, 1, "running",
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, record())


def test_a_record_comes_back_as_it_was(folder: RunFolder) -> None:
    assert folder.load().problem == "07_w4a16_gemm" and is_run(folder.path)
    assert folder.load().state == "running"


def test_events_are_numbered_and_come_back_also_for_another_process(folder: RunFolder) -> None:
    folder.append(Note("one"), step=0, seen="run", elapsed=0.0)
    RunFolder(folder.path).append(ToolCall("a", "bash", "{}"), step=1, seen="proxy", elapsed=1.5)
    found = list(folder.events())
    assert [(event.seq, event.kind, event.step) for event in found] == [(1, "note", 0), (2, "tool_call", 1)]


def test_a_line_that_a_crash_cut_is_left_out_and_the_next_one_is_whole(folder: RunFolder) -> None:
    folder.append(Note("one"), step=0, seen="run", elapsed=0.0)
    lines = folder.path / "record" / "trajectory.jsonl"
    lines.write_bytes(lines.read_bytes() + b'{"seq":2,"time":1')
    again = RunFolder(folder.path)
    again.append(Note("three"), step=0, seen="run", elapsed=0.0)
    assert [event.data for event in again.events()] == [Note("one"), Note("three")]


def test_a_call_comes_back_as_it_was(folder: RunFolder) -> None:
    call = ModelCall(
        1, 1.0, 0.5, 2.0, "openai-chat", "/v1/chat/completions", True, "ok", 200, "m", "m", "", Usage(1, 2), "stop",
        "", "", 10, 20,
    )  # fmt: skip
    folder.append_call(call)
    assert list(folder.calls()) == [call]


def test_an_object_is_what_its_name_says_or_an_error(folder: RunFolder) -> None:
    name = folder.put(b"abc")
    assert folder.get(name) == b"abc" and folder.put(b"abc") == name
    place = folder.path / "record" / "objects" / name[:2] / name
    place.write_bytes(b"no gzip")
    with pytest.raises(ArchiveError, match="cannot be read"):
        folder.get(name)
    for bad in ("", "../../run.json", "x" * 64):
        with pytest.raises(ArchiveError):
            folder.get(bad)


def test_only_one_process_at_a_time_works_on_a_run(folder: RunFolder) -> None:
    assert not RunFolder(folder.path).take()
    folder.release()
    other = RunFolder(folder.path)
    assert other.take()
    other.release()


def test_the_linter_and_the_grader_read_a_run_and_not_what_is_kept_about_it(folder: RunFolder) -> None:
    shutil.copy(HONEST, folder.path / "solution.py")
    (folder.path / "helper.cuh").write_text("// of the solution\n")
    (folder.path / "record" / "agent" / "notes.txt").write_text("not of the solution")
    (folder.path / "record" / "cells" / "x.json").write_text("{}")
    folder.save(record())
    report = kbh_lint.lint([str(folder.path)])
    assert [(file.problem, file.target) for file in report.files] == [("07_w4a16_gemm", "h200")]
    taken = snapshot(folder.path, folder.path.parent / "copy")
    assert [name for name, _ in taken.files] == ["helper.cuh", "solution.py"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 1}', "\x00"])
def test_a_broken_record_is_one_sentence(folder: RunFolder, text: str) -> None:
    (folder.path / "run.json").write_text(text)
    with pytest.raises(ArchiveError, match="no record of a run"):
        folder.load()


def test_a_record_is_replaced_as_a_whole_and_leaves_nothing_beside_it(folder: RunFolder) -> None:
    folder.save(record())
    assert sorted(os.listdir(folder.path)) == ["record", "run.json"]
    assert json.loads((folder.path / "run.json").read_text())["findings"] == []


def test_a_record_of_before_a_field_was_there_is_still_read(folder: RunFolder) -> None:
    folder.append(Finding("limit", "x", "y"), step=0, seen="run", elapsed=0.0)
    lines = folder.path / "record" / "trajectory.jsonl"
    lines.write_text(lines.read_text().replace(',"decisive":false,"step":0', ""))
    assert [event.data for event in folder.events()] == [Finding("limit", "x", "y")]


def test_usage_adds_up_and_a_cost_that_is_unknown_stays_unknown() -> None:
    assert total([Usage(1, 2, cost_usd=0.5), Usage(3, 4, 5, cost_usd=0.25)]) == Usage(4, 6, 5, cost_usd=0.75)
    assert total([Usage(1, 2), Usage(3, cost_usd=1.0)]).cost_usd is None
    assert total([]).cost_usd == 0.0


def test_no_two_runs_have_one_name_and_a_name_is_no_path() -> None:
    names = {new_run_id("a/../b", "x/y:z", "01_fp8_gemm") for _ in range(50)}
    assert len(names) == 50 and not any("/" in name or ":" in name for name in names)
