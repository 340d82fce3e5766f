"""Where a whole oracle is too dear, rows are drawn late: boundaries always, others by lot, and one call whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from deck_cases import drawn, eager, loaded, oracle
from toy import HONEST, solution, toy_problem

from grader.deck import against
from grader.deck.against import drawn_rows, hold, missed, too_dear
from grader.deck.cases import Bound, Case
from grader.deck.code import Code, DeckError, load_code
from grader.deck.structure import Region
from grader.judge.judging import TrialOptions, run_trial
from grader.sandbox import choose
from grader.sandbox.snapshot import snapshot

ID = "06_sonic_moe_swiglu"
PROBLEM, CODE = loaded(ID)
ROWS = 24
KEYS = [bytes([number]) * 32 for number in range(60)]


@pytest.fixture
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even the smallest shapes are too dear."""
    monkeypatch.setattr(against, "MOST_FLOPS", 0.0)
    monkeypatch.setattr(against, "ROWS", ROWS)
    monkeypatch.setattr(against, "BEYOND", 1)


@pytest.fixture(scope="module")
def case() -> Case:
    return next(drawn(ID, PROBLEM.reduced[1], ("structure/unbalanced",)))


@pytest.fixture(scope="module")
def right(case: Case) -> torch.Tensor:
    return oracle(ID, case)[0].to(torch.bfloat16)


def spoiled(right: torch.Tensor, rows: list[int]) -> tuple[torch.Tensor, ...]:
    wrong = right.clone()
    wrong[rows] += 1.0
    return (wrong,)


@pytest.mark.parametrize("kind", ["nominal/0", "structure/unbalanced/0", "structure/empty", "structure/mixed"])
def test_the_oracle_at_rows_is_the_oracle_at_these_rows(kind: str) -> None:
    for case in drawn(ID, PROBLEM.reduced[1], (kind,)):
        rows = torch.tensor([0, 1, 5, 40, 41, 100, 254, 255])
        assert CODE.oracle_rows is not None
        (found,) = CODE.oracle_rows(case.binding.init, case.inputs, case.state, rows)
        torch.testing.assert_close(found, oracle(ID, case)[0][rows], rtol=1e-12, atol=1e-15)


def test_small_shapes_are_compared_whole_and_so_is_a_problem_without_an_oracle_at_rows(
    case: Case, right: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = PROBLEM.shapes[1], PROBLEM.shapes[0]
    assert not too_dear(PROBLEM, case, CODE)
    shaped = {shape.label: replace(case, shape=shape, binding=_bound(shape)) for shape in (small, large)}
    assert too_dear(PROBLEM, shaped[large.label], CODE) and not too_dear(PROBLEM, shaped[small.label], CODE)
    assert not too_dear(PROBLEM, shaped[large.label], replace(CODE, oracle_rows=None, boundary_rows=None))
    held = hold(PROBLEM, CODE, case, (right,), KEYS[0])
    assert held.result.ok and (held.rows, held.of_rows) == (0, 0) and held.result.total == right.numel()


def _bound(shape: object) -> object:
    return next(iter(PROBLEM.contracts.values())).bind(shape)  # type: ignore[arg-type]


def test_a_right_output_is_right_on_every_draw_and_says_how_many_rows_were_looked_at(
    case: Case, right: torch.Tensor, dear: None
) -> None:
    boundaries = len(set(CODE.boundary_rows(case.binding.init, case.inputs)))  # type: ignore[misc]
    for key in KEYS[:5]:
        held = hold(PROBLEM, CODE, case, (right,), key)
        assert held.result.ok and held.of_rows == 256 and ROWS <= held.rows <= ROWS + boundaries
        assert held.result.total == held.rows * right.shape[1]
    assert not torch.equal(*(drawn_rows(PROBLEM, CODE, case, key) for key in KEYS[:2]))
    assert torch.equal(*(drawn_rows(PROBLEM, CODE, case, KEYS[0]) for _ in range(2)))


def test_a_wrong_row_at_the_boundary_of_an_expert_is_always_found_and_named(
    case: Case, right: torch.Tensor, dear: None
) -> None:
    bounds = case.inputs["expert_offsets"].tolist()
    edges = {row for first, last in zip(bounds, bounds[1:], strict=False) if first < last for row in (first, last - 1)}
    assert set(CODE.boundary_rows(case.binding.init, case.inputs)) == edges  # type: ignore[misc]
    for row in edges:
        for key in KEYS[:6]:
            held = hold(PROBLEM, CODE, case, spoiled(right, [row]), key)
            assert not held.result.ok and held.result.worst is not None and held.result.worst.index[0] == row
            assert f"y[{row}, " in held.result.message


def test_wrong_rows_elsewhere_are_found_as_often_as_the_formula_says(
    case: Case, right: torch.Tensor, dear: None
) -> None:
    edges = set(CODE.boundary_rows(case.binding.init, case.inputs))  # type: ignore[misc]
    wrong = [row for row in range(10, 250, 31) if row not in edges]
    outputs = spoiled(right, wrong)
    escaped = sum(hold(PROBLEM, CODE, case, outputs, key).result.ok for key in KEYS)
    chance = missed(len(wrong), 256, ROWS)
    assert 0.2 < chance < 0.8
    assert abs(escaped - len(KEYS) * chance) < 4 * (len(KEYS) * chance * (1 - chance)) ** 0.5


@pytest.mark.parametrize(
    ("wrong", "total", "rows", "chance"), [(0, 100, 10, 1.0), (1, 4, 1, 0.75), (2, 4, 2, 1 / 6), (3, 4, 2, 0.0)]
)
def test_the_chance_to_miss_wrong_rows_is_that_of_a_draw_without_order(
    wrong: int, total: int, rows: int, chance: float
) -> None:
    assert missed(wrong, total, rows) == pytest.approx(chance)


def test_the_probabilities_in_the_documentation_are_those_of_the_formula() -> None:
    text = (Path(__file__).parents[2] / "docs" / "grading.md").read_text()
    rows = int(PROBLEM.shapes[0].symbols["T_total"]) * int(PROBLEM.shapes[0].symbols["K"])  # type: ignore[arg-type]
    once = {wrong: missed(wrong, rows, 4096) for wrong in (1, 16, 128)}
    assert f"Of the {rows:,} rows" in text
    assert f"| 1 | {1 / rows:.4%} | {once[1]:.1%} | {once[1] ** 34:.1%} |".replace("%", " %") in text
    assert f"| 16 | {16 / rows:.3%} | {once[16]:.1%} | {once[16] ** 34:.2%} |".replace("%", " %") in text
    assert f"| 128 (one tile) | {128 / rows:.2%} | {once[128]:.1%} |".replace("%", " %") in text
    assert once[128] ** 34 < 1e-29 and missed(1024, rows, 4096) < 1e-7


def test_a_region_is_cut_to_the_rows_that_are_compared(case: Case, right: torch.Tensor, dear: None) -> None:
    mask = torch.zeros(right.shape, dtype=torch.bool)
    mask[:128] = True
    bound = case.bounds[0]
    below = replace(case, bounds=(Bound(bound.metric, bound.over, bound.tolerance, Region(mask, "allclose", 0.05)),))
    assert hold(PROBLEM, CODE, below, spoiled(right, list(range(128, 256))), KEYS[0]).result.ok
    assert not hold(PROBLEM, CODE, below, spoiled(right, list(range(128))), KEYS[0]).result.ok


def test_a_problem_whose_rows_hang_together_cannot_be_compared_on_some(
    case: Case, right: torch.Tensor, dear: None
) -> None:
    across = replace(case, bounds=(replace(case.bounds[0], over=(-2,)),))
    with pytest.raises(DeckError, match="not compared row by row"):
        hold(PROBLEM, CODE, across, (right,), KEYS[0])
    with pytest.raises(DeckError, match="lies outside of its output"):
        hold(PROBLEM, replace(CODE, boundary_rows=lambda init, inputs: [256]), case, (right,), KEYS[0])


ON_ROWS = """
from .reference import oracle

def oracle_rows(init, inputs, state, rows):
    return (oracle(init, inputs, state)[0][rows],)

def boundary_rows(init, inputs):
    used = int(inputs["used"])
    return [0, used - 1]
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A trial of the toy problem, whose oracle can be had at rows."""
    monkeypatch.setattr(against, "MOST_FLOPS", 0.0)
    monkeypatch.setattr(against, "ROWS", 3)
    monkeypatch.setattr(against, "BEYOND", 1)
    problem = toy_problem(tmp_path)
    (tmp_path / "toy" / "rows.py").write_text(ON_ROWS)
    taken = snapshot(solution(tmp_path, HONEST), tmp_path / "scratch" / "submission")
    options = TrialOptions(4, 2, 1, 60.0, 20.0, None, 2)
    result = run_trial(
        problem, taken, index=0, device="cpu", scale="reduced", master=KEYS[3], options=options,
        sandbox=choose(device="cpu", wanted="plain"), scratch=tmp_path / "scratch", caches=None,
        keep_log=lambda text: "", progress=lambda text: None,
    )  # fmt: skip
    yield SimpleNamespace(result=result, code=load_code(problem))


def test_a_trial_says_how_many_rows_it_compared_and_compares_one_call_whole(asked: SimpleNamespace) -> None:
    code: Code = asked.code
    assert code.oracle_rows is not None and asked.result.status == "right"
    cases = asked.result.shapes[0].cases
    whole = [case for case in cases if not case.rows]
    assert len(whole) == 1 and all(3 <= case.rows <= 5 and case.of_rows == 8 for case in cases if case not in whole)
    least = min(case.rows for case in cases if case.rows)
    said = f"{len(cases)} compared calls are right, {len(cases) - 1} of them on drawn rows, at least {least} of 8"
    assert asked.result.message == said


def test_a_file_for_rows_defines_both_functions(tmp_path: Path) -> None:
    problem = toy_problem(tmp_path)
    (tmp_path / "toy" / "rows.py").write_text(ON_ROWS.partition("def boundary_rows")[0])
    with pytest.raises(DeckError, match="rows.py of toy does not define `boundary_rows`"):
        load_code(problem)


def test_the_reference_is_right_on_rows_too(dear: None) -> None:
    for case in drawn(ID, PROBLEM.reduced[0], ("nominal", "structure")):
        module = eager(ID, case)
        module.load_state_dict(case.state, strict=True)
        with torch.no_grad():
            outputs = (module(*case.inputs.values()),)
        assert hold(PROBLEM, CODE, case, outputs, KEYS[1]).result.ok, case.spec.id
