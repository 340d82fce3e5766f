"""The mutation score: what counts as dead, as equivalent, as evidence, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grader.authoring import mutation
from grader.authoring.mutation import Mutant, Report, generic, run, table
from grader.deck.code import Code, DeckError
from kbh_lint.problems import Problem, load_problem

Forward = Callable[[Tensor, Tensor, Tensor], Any]


class Wrong(nn.Module):
    """The sample's interface around one function of x, lengths and the table."""

    def __init__(self, forward: Forward, n: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(n, dtype=torch.bfloat16))
        self.function = forward

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        return self.function(x, lengths, self.table)


def mutant(name: str, forward: Forward, **extra: Any) -> Mutant:
    def make(init: Mapping[str, Any]) -> nn.Module:
        return Wrong(forward, init["n"])

    return Mutant(name, f"It is {name}.", make, **extra)


def right(x: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
    keep = torch.arange(x.shape[1]) < lengths[:, None]
    return torch.where(keep, x.double() * weights.double(), 0.0).to(torch.bfloat16)


def off_by(share: float) -> Forward:
    """Every element too large by a share; bf16 rounding comes on top of it."""
    return lambda x, lengths, weights: (right(x, lengths, weights).double() * (1 + share)).to(torch.bfloat16)


def one_shape(problem: Problem) -> Problem:
    return replace(problem, reduced=problem.reduced[:1])


def report(problem: Problem, code: Code, *mutants: Mutant, seed: int = 1, **options: Any) -> Report:
    return run(problem, seed=seed, code=replace(code, mutants=mutants), **options)


def states(found: Report) -> dict[str, str]:
    return {row.mutant.id: row.state for row in found.rows}


def test_a_mutant_that_errs_everywhere_is_killed_at_every_shape_and_seed(sample: Problem, sample_code: Code) -> None:
    found = report(sample, sample_code, mutant("twice", off_by(1.0)))
    assert states(found) == {"twice": "killed"} and found.score == 1 and found.ok
    assert [(cell.killed, cell.killer) for cell in found.rows[0].cells] == [(5, "nominal"), (5, "nominal")]


def test_a_right_submission_among_the_mutants_survives_and_is_told_in_full(sample: Problem, sample_code: Code) -> None:
    found = report(sample, sample_code, mutant("right", right), mutant("twice", off_by(1.0)))
    assert states(found) == {"right": "survived", "twice": "killed"} and found.score == 0.5 and not found.ok
    text = table(found)
    assert "right survives: It is right." in text and "structure/ragged/1" in text and "score 50%" in text


def test_the_case_that_kills_is_named_when_only_one_can(sample: Problem, sample_code: Code) -> None:
    def blind(x: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        flat = bool((weights == weights[0]).all())
        return right(x, lengths, weights) * (2 if flat else 1)

    found = report(sample, sample_code, mutant("blind", blind))
    assert [(cell.killed, dict(cell.by)) for cell in found.rows[0].cells] == [(5, {"flat-table": 5})] * 2


def test_surviving_one_hidden_seed_is_surviving(sample: Problem, sample_code: Code) -> None:
    made = []

    def make(init: Mapping[str, Any]) -> nn.Module:
        made.append(init)
        return Wrong(off_by(1.0) if len(made) > 5 else right, init["n"])

    found = report(sample, sample_code, Mutant("late", "It is right on the first seed.", make))
    cells = found.rows[0].cells
    assert states(found) == {"late": "survived"} and [cell.killed for cell in cells] == [4, 5]
    assert {attempt.seed for attempt in cells[0].survived} == {0}


def test_surviving_at_one_shape_is_surviving(sample: Problem, sample_code: Code) -> None:
    def wide(x: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        return right(x, lengths, weights) * (2 if x.shape[1] == 24 else 1)

    found = report(sample, sample_code, mutant("wide", wide))
    assert states(found) == {"wide": "survived"} and [cell.killed for cell in found.rows[0].cells] == [0, 5]


def test_an_answer_to_the_call_before_is_killed_though_the_first_one_is_right(
    sample: Problem, sample_code: Code
) -> None:
    found = report(sample, sample_code, *generic(sample_code.Model))
    assert set(states(found).values()) == {"killed"} and "previous-output" in states(found)


@pytest.mark.parametrize(
    ("forward", "told"),
    [
        (lambda x, lengths, weights: x[:, :3] @ weights, "fails on"),
        (lambda x, lengths, weights: right(x, lengths, weights).float(), "breaks the contract"),
        (lambda x, lengths, weights: right(x, lengths, weights)[:1], "breaks the contract"),
        (lambda x, lengths, weights: right(x.mul_(2), lengths, weights), "changes its inputs"),
    ],
    ids=["crash", "type", "shape", "input"],
)
def test_a_mutant_that_would_die_without_being_judged_is_refused(
    sample: Problem, sample_code: Code, forward: Forward, told: str
) -> None:
    with pytest.raises(DeckError, match=told):
        report(sample, sample_code, mutant("broken", forward))


def many(count: int) -> list[Mutant]:
    return [mutant(f"off-{i}", off_by(1.0 + i)) for i in range(count)]


def test_an_equivalent_mutant_is_shown_to_be_one_on_two_hundred_cases(sample: Problem, sample_code: Code) -> None:
    claim = mutant("same", right, equivalent="It is the same sum.")
    found = report(one_shape(sample), sample_code, *many(19), claim)
    assert states(found)["same"] == "equivalent" and found.score == 1 and found.ok
    assert "It is the same sum. Within the legal model's error on 200 cases." in table(found)


# The tolerance is 0.01 and the legal model's error half of that; rounding to bf16 is within 0.004.
@pytest.mark.parametrize("share", [0.5, 0.007])
def test_a_claim_to_be_equivalent_that_errs_more_than_the_legal_model_is_no_claim(
    sample: Problem, sample_code: Code, share: float
) -> None:
    found = report(one_shape(sample), sample_code, *many(19), mutant("near", off_by(share), equivalent="Close enough."))
    assert states(found)["near"] == "not-equivalent" and found.score == 0.95 and not found.ok
    assert "it says it is equivalent, but errs by" in table(found)


def test_more_than_one_equivalent_in_twenty_is_too_many(sample: Problem, sample_code: Code) -> None:
    found = report(one_shape(sample), sample_code, *many(18), mutant("same", right, equivalent="It is the same sum."))
    assert states(found)["same"] == "equivalent" and found.too_many_equivalents and not found.ok
    assert "More than 5% of the mutants" in table(found)


def test_a_mutant_that_needs_graded_shapes_is_left_out_and_not_counted_as_killed(
    sample: Problem, sample_code: Code
) -> None:
    found = report(sample, sample_code, mutant("deep", off_by(1.0), full=True), mutant("twice", off_by(1.0)))
    assert states(found) == {"deep": "left-out", "twice": "killed"} and not found.ok
    assert "1 left out, 1 of them without evidence" in table(found)


@pytest.mark.parametrize(
    ("change", "state", "ok", "told"),
    [
        (None, "killed", True, "killed on h200"),
        (None, "survived", False, "survived on h200"),
        ("cases.py", "killed", False, "the evidence of h200 is out of date"),
    ],
)
def test_evidence_counts_while_the_files_it_was_made_from_are_the_same(
    sample_folder: Path, tmp_path: Path, sample_code: Code, change: str | None, state: str, ok: bool, told: str
) -> None:
    folder = tmp_path / "99_sample"
    (folder / "evidence").mkdir(parents=True)
    for file in sample_folder.glob("*.*"):
        (folder / file.name).write_bytes(file.read_bytes())
    problem = load_problem(folder / "problem.yaml")
    deep = mutant("deep", off_by(1.0), full=True)
    stored = report(problem, sample_code, deep).to_json()
    stored["mutants"]["deep"]["state"] = state
    (folder / "evidence" / "h200.json").write_text(json.dumps({"mutants": stored}))
    if change:
        (folder / change).write_text((folder / change).read_text() + "\n")
    found = report(problem, sample_code, deep, mutant("twice", off_by(1.0)))
    assert found.ok == ok and told in found.rows[0].note


def test_evidence_that_is_no_evidence_is_passed_over(sample_folder: Path, tmp_path: Path, sample_code: Code) -> None:
    folder = tmp_path / "99_sample"
    (folder / "evidence").mkdir(parents=True)
    (folder / "problem.yaml").write_bytes((sample_folder / "problem.yaml").read_bytes())
    for i, text in enumerate(["{", "[]", '{"mutants": []}', '{"mutants": {"sources": {}, "mutants": {"deep": 1}}}']):
        (folder / "evidence" / f"target{i}.json").write_text(text)
    assert mutation.evidence(load_problem(folder / "problem.yaml")) == {}


def test_a_seed_repeats_a_run_and_without_one_each_run_has_its_own(sample: Problem, sample_code: Code) -> None:
    def told(found: Report) -> dict[str, Any]:
        return {**found.to_json(), "seconds": 0}

    sample = one_shape(sample)
    code = replace(sample_code, mutants=(mutant("right", right),))
    one, again, other = (told(run(sample, seed=seed, code=code)) for seed in (3, 3, 4))
    assert one == again and one["mutants"] != other["mutants"]
    quick = replace(sample_code, mutants=tuple(many(1)))
    assert run(sample, code=quick).seed != run(sample, code=quick).seed


def test_a_report_is_plain_data(sample: Problem, sample_code: Code) -> None:
    stored = report(sample, sample_code, mutant("right", right), *many(2)).to_json()
    assert json.loads(json.dumps(stored, allow_nan=False)) == stored
    assert stored["mutants"]["off-1"]["shapes"][sample.reduced[0].label]["by"] == {"nominal": 5}


@pytest.mark.parametrize(
    ("mutants", "options", "told"),
    [
        ([], {}, "has no mutants"),
        (many(2), {"only": ["gone"]}, "has no mutant `gone`; it has off-0, off-1"),
        (many(1) * 2, {}, "have the same id"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_sentence(
    sample: Problem, sample_code: Code, mutants: list[Mutant], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(DeckError, match=told):
        report(sample, sample_code, *mutants, **options)


def test_the_number_of_threads_is_given_back(sample: Problem, sample_code: Code) -> None:
    torch.set_num_threads(2)
    report(sample, sample_code, *many(1))
    assert torch.get_num_threads() == 2
