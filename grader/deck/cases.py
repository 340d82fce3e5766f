# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""The cases that a submission is checked on: planned as plain data before it is imported, then made into tensors.

Every problem has nominal cases, every `stress` and every structure of its problem.yaml. All values come from keys: the
same master gives the same bits on the same kind of device, another master changes every input that is not constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from grader.deck import keys
from grader.deck.code import TORCH_DTYPES, Code, DeckError
from grader.deck.draw import draw, rescale
from grader.deck.structure import Region, Regions, Structure, plans
from kbh_lint.problems import Binding, Contract, Problem, Shape, Stress, StructureCase, TensorSpec

__all__ = ["Bound", "Case", "CaseSpec", "Kind", "materialise", "model_group", "plan_cases", "state_group"]

Kind = Literal["nominal", "stress", "structure"]
BASE = "base"


@dataclass(frozen=True, slots=True)
class CaseSpec:
    """A planned case without tensors; JSON can hold it. `state` names the state that it is called with."""

    id: str
    kind: Kind
    index: int = 0
    scale: Mapping[str, float] = field(default_factory=dict)
    structure: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)
    state: str = BASE


@dataclass(frozen=True, slots=True)
class Bound:
    """How one output is compared: metric, the dimensions of its scale, tolerance, and where, if not everywhere."""

    metric: str
    over: tuple[int, ...]
    tolerance: float
    region: Region | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A case with its tensors: inputs in the order of forward, state by name, one bound an output."""

    spec: CaseSpec
    shape: Shape
    binding: Binding
    inputs: dict[str, Tensor]
    state: dict[str, Tensor]
    bounds: tuple[Bound, ...]


def plan_cases(
    problem: Problem, shape: Shape, master: bytes, *, nominal: int = 2, structures: int = 2, code: Code
) -> list[CaseSpec]:
    """The cases of one shape: `nominal` plain ones, every stress, and `structures` plans of every structure.

    Raises DeckError when problem.yaml names a structure that cases.py lacks.
    """
    state = {entry.name for entry in _contract(problem).state}
    specs = [CaseSpec(f"nominal/{i}", "nominal", i) for i in range(nominal)]
    for stress in problem.stress:
        case_id = f"stress/{stress.id}"
        group = case_id if state & stress.scale.keys() else BASE
        specs.append(CaseSpec(case_id, "stress", scale=dict(stress.scale), state=group))
    for case in problem.cases:
        structure = _structure(problem, code, case.id)
        seed = keys.derive(master, problem.id, shape.label, "plan", case.id)
        for i, plan in enumerate(plans(structure, shape.symbols, seed, structures)):
            case_id = f"structure/{case.id}/{i}"
            group = case_id if structure.changes_state else BASE
            specs.append(CaseSpec(case_id, "structure", i, structure=case.id, plan=plan, state=group))
    return specs


def state_group(spec: CaseSpec) -> str:
    """The name of the state that a case is called with: cases of one group share it, so that one model does for all."""
    return spec.state


def model_group(model: int) -> str:
    """The state of one of several models that take turns on the plain cases; the first has the plain state."""
    return f"{BASE}/{model}" if model else BASE


def materialise(
    problem: Problem, shape: Shape, spec: CaseSpec, master: bytes, *, device: str | torch.device, code: Code,
    state: Mapping[str, Tensor] | None = None, binding: Binding | None = None,
) -> Case:  # fmt: skip
    """Draw a case's tensors on `device`, rounded to their element types. Raises DeckError for faults of the problem.

    `state` is the one of an earlier case of the group BASE, which saves drawing it again, and `binding` that of an
    earlier case of the shape.
    """
    contract = _contract(problem)
    binding = binding or contract.bind(shape)
    where = torch.device(device)

    def seeds(*path: str | int) -> Callable[[str], int]:
        return lambda name: keys.derive(master, problem.id, shape.label, *path, name)

    inputs = draw(contract.forward, binding.inputs, shape.symbols, seeds("input", spec.id), where)
    if state is None:
        state = draw(contract.state, tuple(binding.state.values()), shape.symbols, seeds("state", spec.state), where)
    state = dict(state)
    for name, factor in spec.scale.items():
        holder = inputs if name in inputs else state
        holder[name] = rescale(holder[name], factor, f"{spec.id} of {problem.id}")
    regions: tuple[Region | None, ...] = (None,) * len(binding.outputs)
    if spec.structure:
        structure = _structure(problem, code, spec.structure)
        generator = torch.Generator(where).manual_seed(seeds("structure", spec.id)(spec.structure))
        found = _apply(problem, structure, spec, shape, inputs, state, generator)
        regions = _regions(problem, spec, binding, found)
        _check(problem, spec, binding, inputs, state, where)
    return Case(spec, shape, binding, inputs, state, _bounds(problem, contract, spec, binding, regions))


def _contract(problem: Problem) -> Contract:
    contract = next(iter(problem.contracts.values()), None)
    if contract is None:
        raise DeckError(f"{problem.id} is {problem.status}: it has no contract to check")
    return contract


def _structure(problem: Problem, code: Code, case_id: str) -> Structure:
    if case_id not in code.structures:
        raise DeckError(f"problem.yaml of {problem.id} names the case `{case_id}`, which its cases.py does not have")
    return code.structures[case_id]


def _apply(
    problem: Problem,
    structure: Structure,
    spec: CaseSpec,
    shape: Shape,
    inputs: dict[str, Tensor],
    state: dict[str, Tensor],
    generator: torch.Generator,
) -> Regions:
    """Run a structure, and hold it to what it says about state: other cases share that."""
    before = {name: (tensor, tensor._version) for name, tensor in state.items()}
    found = structure.apply(dict(spec.plan), shape.symbols, inputs, state, generator)
    for name, (tensor, version) in before.items():
        same = state.get(name) is tensor and tensor._version == version
        if not same and not structure.changes_state:
            raise DeckError(
                f"the case `{spec.structure}` of {problem.id} changes state; it must say changes_state=True"
            )
    return found


def _regions(problem: Problem, spec: CaseSpec, binding: Binding, found: Regions) -> tuple[Region | None, ...]:
    """One region or None for each output, with masks of the right shape."""
    regions = found if isinstance(found, tuple) else (found,) * len(binding.outputs)
    if len(regions) != len(binding.outputs) or (isinstance(found, Region) and len(regions) != 1):
        raise DeckError(f"the case `{spec.structure}` of {problem.id} must return one region (or None) for each output")
    for region, output in zip(regions, binding.outputs, strict=True):
        if region is not None and (region.mask.dtype != torch.bool or tuple(region.mask.shape) != output.shape):
            raise DeckError(f"the region of `{spec.structure}` of {problem.id} is not a mask of the output's shape")
        if region is not None and not bool(region.mask.any()):
            raise DeckError(f"the region of `{spec.structure}` of {problem.id} is empty, so nothing is compared")
    return regions


def _check(
    problem: Problem,
    spec: CaseSpec,
    binding: Binding,
    inputs: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
    device: torch.device,
) -> None:
    """The tensors are still those of the contract after a structure has had its way with them."""
    for wanted, found in ((binding.inputs, inputs), (tuple(binding.state.values()), state)):
        if list(found) != [tensor.name for tensor in wanted]:
            raise DeckError(f"{spec.id} of {problem.id} adds, drops or reorders tensors of the contract")
        for tensor in wanted:
            have = found[tensor.name]
            fits = tuple(have.shape) == tensor.shape and have.dtype == TORCH_DTYPES[tensor.dtype]
            if not fits or have.device.type != device.type or not have.is_contiguous():
                raise DeckError(f"{spec.id} of {problem.id}: `{tensor.name}` is not the contract's tensor")


def _bounds(
    problem: Problem, contract: Contract, spec: CaseSpec, binding: Binding, regions: Sequence[Region | None]
) -> tuple[Bound, ...]:
    own = _own_tolerance(problem, spec)
    bounds = []
    for output, region in zip(binding.outputs, regions, strict=True):
        tolerance = own.get(output.dtype, contract.tolerance.get(output.dtype, 0.0))
        if region is not None and not region.tolerance:
            region = replace(region, tolerance=tolerance)
        bounds.append(Bound(contract.compare.metric, _last(contract.compare.over, output), tolerance, region))
    return tuple(bounds)


def _own_tolerance(problem: Problem, spec: CaseSpec) -> Mapping[str, float]:
    if spec.kind == "nominal":
        return {}
    entries: Sequence[Stress | StructureCase] = problem.stress if spec.kind == "stress" else problem.cases
    name = spec.structure or spec.id.partition("/")[2]
    return next((entry.tolerance for entry in entries if entry.id == name), {})


def _last(over: tuple[int, ...], output: TensorSpec) -> tuple[int, ...]:
    """Dimensions counted from the last one, which is how they stay right when leading ones are cut into chunks."""
    return tuple(axis if axis < 0 else axis - len(output.shape) for axis in over)
