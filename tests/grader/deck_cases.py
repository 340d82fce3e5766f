"""Cases of the deck's own problems for tests: materialised at reduced or given shapes, and judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch

from grader.deck.cases import Case, materialise, plan_cases
from grader.deck.code import Code, load_code
from grader.deck.correctness import Comparison, compare, contract_faults
from grader.deck.precision import resolve
from kbh_lint.base import paths
from kbh_lint.problems import Problem, Shape, load_deck

MASTER = b"the deck's own tests use this key"


@cache
def loaded(problem_id: str) -> tuple[Problem, Code]:
    """A problem of the deck and its code."""
    problem = load_deck(paths.problems_dir())[problem_id]
    return problem, load_code(problem)


def shape_of(**symbols: Any) -> Shape:
    return Shape("x".join(str(value) for value in symbols.values()), symbols)


def drawn(problem_id: str, shape: Shape, kinds: tuple[str, ...] = ()) -> Iterator[Case]:
    """All cases of a shape, or those whose id starts with one of `kinds`."""
    problem, code = loaded(problem_id)
    for spec in plan_cases(problem, shape, MASTER, code=code):
        if not kinds or spec.id.startswith(kinds):
            yield materialise(problem, shape, spec, MASTER, device="cpu", code=code)


def oracle(problem_id: str, case: Case) -> tuple[torch.Tensor, ...]:
    return loaded(problem_id)[1].oracle(case.binding.init, case.inputs, case.state)


def legal(problem_id: str, case: Case) -> tuple[torch.Tensor, ...]:
    problem, code = loaded(problem_id)
    assert code.legal is not None
    return code.legal(case.binding.init, case.inputs, case.state, resolve(problem, "sm_90a"))


def judged(problem_id: str, module: torch.nn.Module, case: Case) -> Comparison:
    """A module with a submission's interface, called and compared as a submission is."""
    module.load_state_dict(case.state, strict=True)
    with torch.no_grad():
        outputs = module.eval().requires_grad_(False)(*case.inputs.values())
    assert contract_faults(outputs, case) == []
    return compare(outputs if isinstance(outputs, tuple) else (outputs,), oracle(problem_id, case), case)


def eager(problem_id: str, case: Case) -> torch.nn.Module:
    """The reference."""
    return loaded(problem_id)[1].Model(**case.binding.init)


def mutant(problem_id: str, name: str, init: Mapping[str, Any]) -> torch.nn.Module:
    return next(m for m in loaded(problem_id)[1].mutants if m.id == name).make(init)


def faultless(problem_id: str, example: str, init: Mapping[str, Any]) -> torch.nn.Module:
    """The module that a mutant is made of, without its fault: what shows that the fault alone is what kills it."""
    module = mutant(problem_id, example, init)
    module.fault = ""
    return module
