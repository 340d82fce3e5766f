"""`--check`: the matrices of rewrites and verdicts, on a small seeded sample and on made-up losses."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from kbh_lint.base import paths
from kbh_lint.rewrite import matrix as m
from kbh_lint.rewrite.cli import evade, leakify
from kbh_lint.rewrite.leaks.all_leaks import leaks
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.service.one_file import Options

OPTIONS = Options(str(paths.rules_dir()), str(paths.problems_dir()))
CASES = {case.name: case for case in m.rule_cases(paths.rules_dir())}
LEAK, HONEST = CASES["KBH101/cast-before-dot"], CASES["KBH101/dot-on-fp8"]


def made(name: str, old: str, new: str, kinds: frozenset[str] = frozenset()) -> Rewrite:
    def apply(program: Program, rng: Random) -> Program:
        return program.with_main(program.main.replace(old, new))

    return Rewrite(name, "a rewrite of this test", apply, kinds)


def one(case: m.Case, rewrite: Rewrite, judge: m.Judge = m.evaded, wanted: m.Filter | None = None) -> m.Cell:
    (cell,) = m.check([case], m.columns([rewrite], 0, 0), OPTIONS, 1, judge, wanted).cells
    return cell


def test_a_rewrite_that_removes_the_leak_is_a_lost_verdict() -> None:
    cell = one(LEAK, made("honest-again", ".to(tl.bfloat16), b.to(tl.bfloat16)", ", b"))
    assert cell.state == "lost"
    assert cell.why.startswith("the verdict rubric_leak became clean")


def test_a_rewrite_that_breaks_a_promise_is_a_lost_verdict() -> None:
    cell = one(HONEST, made("widened", "tl.dot(a, b", "tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16)"))
    assert (cell.state, cell.verdict) == ("lost", "rubric_leak")


def test_the_ban_on_an_operation_is_one_whether_or_not_it_is_called_by_its_name() -> None:
    case = CASES["KBH502/softmax-called"]
    cell = one(case, made("method", "torch.softmax(x, dim=-1)", "x.softmax(dim=-1)"))
    assert (cell.state, cell.why) == ("kept", "")


def test_a_rewrite_that_leaves_an_honest_program_honest_is_a_missed_leak() -> None:
    cell = one(HONEST, made("renamed", "total", "amount"), m.unchanged, m.honest)
    assert cell.state == "lost"
    assert "every promise kept" in cell.why


def test_a_program_that_is_not_honest_is_not_made_to_leak() -> None:
    cell = one(LEAK, made("renamed", "total", "amount"), m.unchanged, m.honest)
    assert (cell.state, cell.why) == ("skipped", "the original does not keep every promise")


def test_a_leak_against_another_promise_is_not_tried() -> None:
    cell = one(HONEST, made("no-sum", "total", "amount", frozenset({"compensated-sum"})), m.unchanged, m.honest)
    assert (cell.state, cell.why) == ("skipped", "its problem makes no such promise")


def test_a_rewrite_that_raises_fails_its_cell_and_no_other() -> None:
    def broken(program: Program, rng: Random) -> Program:
        raise ZeroDivisionError("on purpose")

    columns = m.columns([Rewrite("broken", "", broken), made("renamed", "total", "amount")], 0, 0)
    cells = m.check([HONEST], columns, OPTIONS, 1, m.evaded).cells
    assert [(cell.column, cell.state) for cell in cells] == [("broken", "failed"), ("renamed", "kept")]
    assert "ZeroDivisionError" in cells[0].why


def test_a_text_that_python_refuses_fails_its_cell() -> None:
    assert one(HONEST, made("torn", "def forward", "def forward(")).state == "failed"


def test_a_rewrite_that_changes_nothing_is_left_out() -> None:
    cell = one(HONEST, made("nothing", "no such text", "x"))
    assert (cell.state, cell.why) == ("skipped", "it changes nothing here")


def test_a_seeded_sample_of_rewrites_keeps_the_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cells.json"
    assert evade(["--check", "--sample", "12", "--each", "5", "--seed", "20", "--goal", "1", "--json", str(out)]) == 0
    said = json.loads(out.read_text())
    assert said["share"] == 1
    assert sum(cell["state"] == "kept" for cell in said["cells"]) > 20
    assert "verdicts kept (1.0000)" in capsys.readouterr().out


def test_a_seeded_sample_of_leaks_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert leakify(["--check", "--sample", "10", "--each", "6", "--seed", "3"]) == 0
    assert "verdicts changed" in capsys.readouterr().out


@pytest.mark.parametrize("rewrite", leaks().values(), ids=lambda rewrite: rewrite.name)
def test_every_leak_can_be_made_of_some_honest_program(rewrite: Rewrite) -> None:
    from dataclasses import replace

    deck = [
        case for case in m.path_cases([str(paths.problems_dir())], None, paths.problems_dir()) if "honest" in str(case)
    ]
    tests = Path(__file__).parents[1]
    idioms = m.path_cases([str(tests / "idioms/fp8")], "01_fp8_gemm", paths.problems_dir())
    for case in (*CASES.values(), *deck, *idioms):
        assert isinstance(case, m.Case)
        try:
            new = rewrite.apply(replace(case.program, problem=case.problem), Random(1))
        except NotApplicable:
            continue
        if new.main == case.program.main and new.sidecars == case.program.sidecars:
            continue
        compile(new.main, "solution.py", "exec", dont_inherit=True)
        return
    pytest.fail("it applies to none")
