"""Cases: planned as plain data, made into the same tensors by the same key."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from toy import toy_problem

from grader.deck.cases import Case, CaseSpec, materialise, plan_cases, state_group
from grader.deck.code import Code, DeckError, load_code
from grader.deck.structure import Region, Structure
from kbh_lint.base import paths
from kbh_lint.problems import Problem, load_deck, load_problem

MASTER = b"m" * 32
OTHER = b"o" * 32


def made(problem: Problem, code: Code, wanted: str, master: bytes = MASTER, shape: int = 0) -> Case:
    at = problem.reduced[shape]
    spec = next(spec for spec in plan_cases(problem, at, MASTER, code=code) if spec.id == wanted)
    return materialise(problem, at, spec, master, device="cpu", code=code)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def test_every_stress_and_every_structure_is_planned(sample: Problem, sample_code: Code) -> None:
    specs = plan_cases(sample, sample.reduced[0], MASTER, nominal=1, structures=2, code=sample_code)
    assert [spec.id for spec in specs] == [
        "nominal/0", "stress/large", "stress/small-table", "structure/ragged/0", "structure/ragged/1",
        "structure/late/0", "structure/late/1", "structure/flat-table/0", "structure/flat-table/1",
    ]  # fmt: skip


def test_a_plan_is_plain_data_that_survives_json(sample: Problem, sample_code: Code) -> None:
    for spec in plan_cases(sample, sample.reduced[1], MASTER, code=sample_code):
        assert CaseSpec(**json.loads(json.dumps(asdict(spec)))) == spec


def test_plans_differ_by_master_and_by_shape(sample: Problem, sample_code: Code) -> None:
    told = {
        json.dumps([asdict(spec) for spec in plan_cases(sample, shape, master, code=sample_code)])
        for shape in sample.reduced
        for master in (MASTER, OTHER)
    }
    assert len(told) == 4


def test_the_same_key_gives_the_same_bits(sample: Problem, sample_code: Code) -> None:
    for spec in plan_cases(sample, sample.reduced[0], MASTER, code=sample_code):
        one, again = (
            materialise(sample, sample.reduced[0], spec, MASTER, device="cpu", code=sample_code) for _ in range(2)
        )
        tensors, others = {**one.inputs, **one.state}, {**again.inputs, **again.state}
        assert all(same_bits(tensors[name], others[name]) for name in tensors)


def test_another_key_another_case_or_another_shape_changes_every_input_that_is_drawn(
    sample: Problem, sample_code: Code
) -> None:
    first = made(sample, sample_code, "nominal/0")
    for other in (
        made(sample, sample_code, "nominal/0", OTHER),
        made(sample, sample_code, "nominal/1"),
        made(sample, sample_code, "nominal/0", shape=1),
    ):
        assert not torch.equal(first.inputs["x"].flatten()[:90], other.inputs["x"].flatten()[:90])
        assert (other.inputs["lengths"] == other.shape.symbols["n"]).all()


def test_cases_of_one_group_share_their_state_and_others_do_not(sample: Problem, sample_code: Code) -> None:
    groups: dict[str, list[Case]] = {}
    for spec in plan_cases(sample, sample.reduced[0], MASTER, code=sample_code):
        case = materialise(sample, sample.reduced[0], spec, MASTER, device="cpu", code=sample_code)
        groups.setdefault(state_group(spec), []).append(case)
    assert set(groups) == {"base", "stress/small-table", "structure/flat-table/0", "structure/flat-table/1"}
    base = groups["base"][0].state["table"]
    assert all(same_bits(case.state["table"], base) for case in groups["base"])
    assert not any(same_bits(group[0].state["table"], base) for name, group in groups.items() if name != "base")


def test_a_stress_scales_and_rounds_again(sample: Problem, sample_code: Code) -> None:
    case = made(sample, sample_code, "stress/small-table")
    table = case.state["table"]
    assert table.dtype == torch.bfloat16
    assert table.min() > 0.0099 and table.max() < 0.0201
    assert made(sample, sample_code, "stress/large").inputs["x"].float().std() > 40


def test_bounds_come_from_the_case_or_from_the_contract(sample: Problem, sample_code: Code) -> None:
    def bound(wanted: str) -> tuple[str, tuple[int, ...], float]:
        bounds = made(sample, sample_code, wanted).bounds
        return bounds[0].metric, bounds[0].over, bounds[0].tolerance

    assert bound("nominal/0") == ("scaled", (-1,), 0.01)
    assert bound("stress/large") == ("scaled", (-1,), 0.01)
    assert bound("stress/small-table") == ("scaled", (-1,), 0.02)
    ragged = made(sample, sample_code, "structure/ragged/0").bounds[0]
    assert ragged.region is not None
    assert (ragged.region.metric, ragged.region.tolerance) == ("element", 0.5)
    assert made(sample, sample_code, "structure/late/0").bounds[0].region is None


def replaced(code: Code, name: str, apply: Any, changes_state: bool = False) -> Code:
    structure = Structure(lambda symbols: st.just({"a": 1}), apply, changes_state)
    return replace(code, structures={**code.structures, name: structure})


@pytest.mark.parametrize(
    ("apply", "told"),
    [
        (lambda p, s, inputs, state, g: state["table"].mul_(2) and None, "changes_state=True"),
        (lambda p, s, inputs, state, g: state.update(table=state["table"].clone()), "changes_state=True"),
        (lambda p, s, inputs, state, g: inputs.update(x=inputs["x"].float()), "not the contract's tensor"),
        (lambda p, s, inputs, state, g: inputs.update(x=inputs["x"][:2]), "not the contract's tensor"),
        (lambda p, s, inputs, state, g: inputs.update(x=inputs["x"].t().contiguous().t()), "not the contract's tensor"),
        (lambda p, s, inputs, state, g: inputs.update(extra=inputs["x"]), "adds, drops or reorders"),
        (lambda p, s, inputs, state, g: Region(torch.ones(3, dtype=torch.bool)), "not a mask of the output's shape"),
        (lambda p, s, inputs, state, g: Region(torch.zeros(6, 16, dtype=torch.bool)), "nothing is compared"),
        (lambda p, s, inputs, state, g: (None, None), "for each output"),
    ],
)
def test_a_structure_that_breaks_the_contract_is_a_fault_of_the_problem(
    sample: Problem, sample_code: Code, apply: Any, told: str
) -> None:
    def careful(*args: Any) -> Any:
        # `mul_` gives a tensor, which has no truth value; only its effect matters here.
        try:
            return apply(*args)
        except RuntimeError:
            return None

    with pytest.raises(DeckError, match=told):
        made(sample, replaced(sample_code, "late", careful), "structure/late/0")


def test_a_case_without_an_implementation_is_told(sample: Problem, sample_code: Code) -> None:
    with pytest.raises(DeckError, match="names the case `ragged`, which its cases.py does not have"):
        plan_cases(sample, sample.reduced[0], MASTER, code=replace(sample_code, structures={}))


def test_a_deferred_problem_has_no_cases() -> None:
    deferred = load_deck(paths.problems_dir())["08_metal_lightning_attention"]
    with pytest.raises(DeckError, match="no reference.py"):
        load_code(deferred)


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("reference.py", "x = 1\n", "must define the module `Model` and the function `oracle`"),
        ("reference.py", "import nowhere_at_all\n", "cannot be imported: ModuleNotFoundError: No module named"),
        ("cases.py", "x = 1\n", "cases.py of 99_sample does not define `STRUCTURES`"),
        ("legal.py", "def (:\n", "legal.py of 99_sample cannot be imported: SyntaxError"),
    ],
)
def test_files_that_cannot_be_used_are_told_in_one_sentence(
    sample_folder: Path, tmp_path: Path, file: str, text: str, told: str
) -> None:
    folder = tmp_path / "99_sample"
    folder.mkdir()
    for source in sample_folder.glob("*.*"):
        (folder / source.name).write_text(source.read_text())
    (folder / file).write_text(text)
    with pytest.raises(DeckError, match=told) as caught:
        load_code(load_problem(folder / "problem.yaml"))
    assert "\n" not in str(caught.value)


GRADED = [problem_id for problem_id, problem in load_deck(paths.problems_dir()).items() if problem.status == "graded"]


@pytest.mark.share(3)
@pytest.mark.parametrize("problem_id", GRADED)
def test_every_case_of_the_deck_is_drawn_and_depends_on_its_key(problem_id: str) -> None:
    problem = load_deck(paths.problems_dir())[problem_id]
    code = load_code(problem)
    constant = {"seq_lens", "_dummy"}
    for shape in problem.reduced:
        for spec in plan_cases(problem, shape, MASTER, nominal=1, structures=1, code=code):
            case = materialise(problem, shape, spec, MASTER, device="cpu", code=code)
            for tensor in (*case.inputs.values(), *case.state.values()):
                assert bool(torch.isfinite(tensor.double()).all())
            if spec.kind != "structure":
                other = materialise(problem, shape, spec, OTHER, device="cpu", code=code)
                for name, tensor in {**case.inputs, **case.state}.items():
                    changed = not same_bits(tensor, {**other.inputs, **other.state}[name])
                    assert changed or name in constant, f"{spec.id}: {name} ignores the key"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("problem_id", GRADED)
def test_full_shapes_are_drawn_on_a_gpu_and_again_to_the_same_bits(problem_id: str) -> None:
    problem = load_deck(paths.problems_dir())[problem_id]
    code = load_code(problem)
    for shape in problem.shapes:
        for spec in plan_cases(problem, shape, MASTER, nominal=1, structures=1, code=code):
            one, again = (materialise(problem, shape, spec, MASTER, device="cuda", code=code) for _ in range(2))
            tensors, others = {**one.inputs, **one.state}, {**again.inputs, **again.state}
            assert all(same_bits(tensors[name], others[name]) for name in tensors)
            del one, again, tensors, others


def test_threads_that_ask_for_a_problems_code_at_once_all_get_the_whole_of_it(tmp_path: Path) -> None:
    problem = toy_problem(tmp_path)
    start = threading.Barrier(6)

    def ask(_: int) -> Code:
        start.wait()
        return load_code(problem)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ask, range(6)))
    assert all(code.Model is found[0].Model and set(code.structures) == {"ragged"} for code in found)
