"""A check that is cut and gone on with, alone or in shards: no cell is tried twice, none is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kbh_lint.base import paths
from kbh_lint.rewrite import matrix as m
from kbh_lint.rewrite.cli import evade, leakify
from kbh_lint.rewrite.compose import evasions
from kbh_lint.rewrite.program import Program, Rewrite
from kbh_lint.rewrite.results import Results, ResultsError, key, shard
from kbh_lint.service.one_file import Options

OPTIONS = Options(str(paths.rules_dir()), str(paths.problems_dir()))
CASE = m.Case("here/a.py", "here", Program("import torch\n\nx = torch.zeros(3)\n"), None)


def counted(name: str, tried: list[str]) -> Rewrite:
    def apply(program: Program, rng: Random) -> Program:
        tried.append(name)
        if name == "broken":
            raise ZeroDivisionError
        return program.with_main(f"{program.main}# {name}\n")

    return Rewrite(name, "a rewrite of this test", apply)


def checked(
    path: Path,
    names: list[str],
    tried: list[str],
    *,
    case: m.Case = CASE,
    version: str = "one",
    again: bool = False,
    seconds: float | None = None,
) -> m.Matrix:
    columns = m.columns([counted(name, tried) for name in names], 0, 0)
    with Results([str(path)], version, again=again) as results:
        return m.check([case], columns, OPTIONS, 1, m.evaded, results=results, seconds=seconds)


def test_a_cell_that_stands_in_the_file_is_not_tried_again_wherever_the_program_lies(tmp_path: Path) -> None:
    tried: list[str] = []
    checked(tmp_path / "a.jsonl", ["first"], tried)
    moved = replace(CASE, name="there/b.py", group="there")
    matrix = checked(tmp_path / "a.jsonl", ["first", "second"], tried, case=moved, version="two")
    assert tried == ["first", "second"]
    assert [(cell.case, cell.group, cell.column) for cell in matrix.cells] == [
        ("there/b.py", "there", "first"),
        ("there/b.py", "there", "second"),
    ]
    assert matrix.versions == {"one": 1, "two": 1}
    assert matrix.verdicts.keys() == {"there/b.py"}


def test_another_text_seed_or_problem_is_another_cell() -> None:
    column = m.columns([evasions()["rename-locals"]], 0, 0)[0]
    others = [
        (replace(CASE, program=Program("x = 1\n")), column),
        (replace(CASE, program=CASE.program.with_sidecar("a.cu", "")), column),
        (replace(CASE, problem="01_fp8_gemm"), column),
        (CASE, replace(column, seed=1)),
        (CASE, m.columns([evasions()["rename-globals"]], 0, 0)[0]),
    ]
    assert len({key(CASE, column), *(key(*other) for other in others)}) == 6


def test_what_failed_is_tried_again_when_asked_for(tmp_path: Path) -> None:
    tried: list[str] = []
    checked(tmp_path / "a.jsonl", ["broken", "fine"], tried)
    assert checked(tmp_path / "a.jsonl", ["broken", "fine"], tried).cells[0].state == "failed"
    assert tried == ["broken", "fine"]
    checked(tmp_path / "a.jsonl", ["broken", "fine"], tried, again=True)
    assert tried == ["broken", "fine", "broken"]


def test_when_the_time_is_up_the_rest_is_left_and_said_so(tmp_path: Path) -> None:
    tried: list[str] = []
    matrix = checked(tmp_path / "a.jsonl", ["first"], tried, seconds=0)
    assert (tried, matrix.left, matrix.cells) == ([], 1, ())


def test_one_text_made_by_two_rewrites_is_linted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    linted = []
    lint = m.run

    def watched(submissions, options, jobs):  # type: ignore[no-untyped-def]
        linted.extend(submissions)
        return lint(submissions, options, jobs)

    monkeypatch.setattr(m, "run", watched)
    twins = [replace(counted("same", []), name=name) for name in ("a", "b")]
    matrix = m.check([CASE], m.columns(twins, 0, 0), OPTIONS, 1, m.evaded)
    assert [cell.state for cell in matrix.cells] == ["kept", "kept"]
    assert len(linted) == 2


def test_a_line_that_was_cut_costs_one_cell_and_not_the_next(tmp_path: Path) -> None:
    path, tried = tmp_path / "a.jsonl", list[str]()
    checked(path, ["first", "second"], tried)
    path.write_bytes(path.read_bytes()[:-20])
    checked(path, ["first", "second", "third"], tried)
    assert tried == ["first", "second", "second", "third"]
    with Results([str(path)], "one") as results:
        assert results.strange == 1
    assert len(checked(path, ["first", "second", "third"], tried).cells) == 3
    assert len(tried) == 4


@pytest.mark.parametrize("line", ["[]", "{}", "[" * 60_000, '{"key": 1}', "x" * 200_000, "\udcff"])
def test_a_line_that_is_no_cell_is_counted_and_left_out(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line.encode("utf-8", "surrogateescape") + b"\n")
    with Results([str(path)], "one") as results:
        assert results.strange >= 1
        assert results.known(CASE, m.columns([counted("first", [])], 0, 0)[0]) is None


def test_a_state_that_does_not_exist_is_no_cell(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    checked(path, ["first"], [])
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "perfect"}) + "\n")
    with Results([str(path)], "one") as results:
        assert results.strange == 1


def test_a_file_that_is_only_read_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="b.jsonl: does not exist"):
        Results([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], "one")


def test_shards_hold_every_program_once_and_do_not_depend_on_where_it_lies() -> None:
    cases = [replace(CASE, name=f"{at}.py", program=Program("x = 1\n" * at)) for at in range(7)]
    moved = [replace(case, name=f"/elsewhere/{case.name}") for case in reversed(cases)]
    parts = [shard(cases, at, 3) for at in (1, 2, 3)]
    assert sorted(case.name for part in parts for case in part) == sorted(case.name for case in cases)
    assert [case.program for case in shard(moved, 2, 3)] == [case.program for case in parts[1]]


def test_the_tables_of_two_shards_are_those_of_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--check", "--no-rules", "--only", "patch-clock", "--only", "no-launch", str(tmp_path)]
    text = (paths.problems_dir() / "05_topk_bitonic/honest/triton.py").read_text()
    for name in ("a", "b"):
        (tmp_path / f"{name}_05_topk_bitonic.py").write_text(f"{text}# {name}\n")
    files = [str(tmp_path / name) for name in ("1.jsonl", "2.jsonl")]
    common += ["--problem", "05_topk_bitonic"]
    for at, file in enumerate(files, 1):
        assert leakify([*common, "--shard", f"{at}/2", "--results", file]) == 0
    capsys.readouterr()
    # No time is left, so that all of it is from the files.
    assert leakify([*common, "--minutes", "0", "--results", files[0], "--results", files[1]]) == 0
    assert "4 of 4 verdicts changed (1.0000), on 2 programs" in capsys.readouterr().out
    assert leakify([*common, "--minutes", "0", "--results", files[0]]) == 1
    assert "not tried in time: 2 cells" in capsys.readouterr().out


def test_a_shard_without_programs_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "solution.py").write_text(CASE.program.main)
    assert evade(["--check", "--no-rules", "--shard", "2/2", str(tmp_path)]) == 0
    assert "verdicts on rewritten programs: none" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "a/b", "1/", "1/100001"])
def test_a_part_that_cannot_be_is_refused(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert evade(["--check", "--shard", part]) == 2
    assert "is not a part I/N" in capsys.readouterr().err


def test_trying_again_needs_a_file_and_a_file_must_be_writable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "solution.py").write_text(CASE.program.main)
    common = ["--check", "--no-rules", "--only", "print-anew", str(tmp_path)]
    assert evade([*common, "--again"]) == 2
    assert "--again needs --results" in capsys.readouterr().err
    assert evade([*common, "--results", str(tmp_path)]) == 2
    assert "cannot be" in capsys.readouterr().err
