"""FLOP formulas against counts of the references."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from grader.authoring import author_facts, flops
from grader.deck.code import load_code
from kbh_lint.base import paths
from kbh_lint.problems import Problem, load_deck, load_problem

DECK = load_deck(paths.problems_dir())
GRADED = [name for name in DECK.ids if DECK[name].contracts]
BASE = Path(__file__).parents[1] / "authors" / "base" / "11_bf16_gemm"


def changed(folder: Path, old: str, new: str, file: str = "problem.yaml") -> Problem:
    """The base problem with one text replaced."""
    target = folder / BASE.name
    shutil.copytree(BASE, target, ignore=shutil.ignore_patterns("__pycache__"))
    text = (target / file).read_text()
    assert old in text
    (target / file).write_text(text.replace(old, new))
    return load_problem(target / "problem.yaml")


@pytest.mark.parametrize("name", GRADED)
def test_a_problem_of_the_deck_counts_what_its_reference_does(name: str) -> None:
    fit = flops.count(DECK[name], load_code(DECK[name]))
    assert fit.state == "agrees", flops.table(fit)
    assert len(fit.counts) >= flops.SIZES


def test_a_factor_that_is_left_out_is_named(tmp_path: Path) -> None:
    problem = changed(tmp_path, "flops: 2*M*N*K", "flops: 2*M*N")
    fit = flops.count(problem, load_code(problem))
    assert (fit.state, fit.hint) == ("differs", "the formula leaves out the factor K")


def test_a_constant_factor_is_told_as_a_ratio(tmp_path: Path) -> None:
    problem = changed(tmp_path, "flops: 2*M*N*K", "flops: M*N*K")
    fit = flops.count(problem, load_code(problem))
    assert fit.hint == "the count is 2 times the formula at every size"


def test_triangular_solves_are_added_and_said() -> None:
    watch = flops._Watch()
    with watch:
        torch.linalg.solve_triangular(torch.eye(8).expand(3, 8, 8), torch.ones(3, 8, 5), upper=False)
    assert watch.solves == 3 * 8 * 8 * 5


def test_an_operation_that_nobody_counts_is_reported_and_not_guessed(tmp_path: Path) -> None:
    problem = changed(tmp_path, "return x @", "torch.linalg.inv(torch.eye(2))\n        return x @", "reference.py")
    fit = flops.count(problem, load_code(problem))
    assert fit.state == "uncounted" and fit.uncounted


def test_fewer_than_three_reduced_shapes_are_grown(tmp_path: Path) -> None:
    problem = load_problem(BASE / "problem.yaml")
    one = replace(problem, shapes=problem.shapes[:1], reduced=problem.reduced[:1])
    fit = flops.count(one, load_code(problem))
    assert fit.state == "agrees" and len(fit.counts) == flops.SIZES


def test_a_reference_that_fails_is_a_reason_and_no_traceback(tmp_path: Path) -> None:
    problem = changed(tmp_path, "return x @ self.weight.T", "raise RuntimeError('no such kernel')", "reference.py")
    fit = flops.count(problem, load_code(problem))
    assert fit.state == "unknown" and "no such kernel" in fit.reason


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("torch.matmul", True), ("torch.Tensor.matmul", True), ("torch.ops.aten.topk", True), ("torch.matmull", False),
        ("tl.sort", True), ("triton.language.nothing", False), ("at::mm", True), ("cub::DeviceRadixSort", None),
        ("some_missing_package.gemm", None), ("sorted", True),
    ],
)  # fmt: skip
def test_a_banned_name_is_looked_up_where_that_can_be_done(path: str, found: bool | None) -> None:
    pytest.importorskip("triton")
    assert author_facts.exists(path) is found
