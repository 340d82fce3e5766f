"""What a problem asks and promises: the data of `problems/<id>/problem.yaml`, and how it binds to a graded shape.

docs/problem-format.md describes the file. Everything here is plain frozen data; reading is in `problems.files`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Literal

from kbh_lint.base.formulas import Formula, FormulaError, Value, evaluate, evaluate_int
from kbh_lint.base.records import dataclass
from kbh_lint.problems.promise_kinds import PromiseKind

Quantifier = Literal["every", "some"]


@dataclass(frozen=True, slots=True)
class Shape:
    """One graded shape: a label that is unique in its problem, and the values of the symbols (sizes, flags, lists).

    `regime` says which peak binds there: compute, memory, or mixed when that differs by target.
    """

    label: str
    symbols: Mapping[str, Value]
    regime: str = "compute"


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """A tensor that `forward` takes: element type, sizes as formulas, and how its values are drawn (`domain`)."""

    name: str
    dtype: str
    shape: tuple[Formula, ...]
    domain: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateSpec:
    """An entry of the reference's `state_dict`, which a submission must register under the same name."""

    name: str
    dtype: str
    shape: tuple[Formula, ...]
    domain: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """A tensor that `forward` returns; two or more make a tuple."""

    dtype: str
    shape: tuple[Formula, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor with its sizes worked out for one shape. `value` is the one value all elements have, where fixed."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    value: Value = None


@dataclass(frozen=True, slots=True)
class Binding:
    """A contract at one shape: constructor arguments in order, inputs in order, state by name, outputs in order.

    `values` are arguments of `forward` that are no tensors, by their position among all arguments.
    """

    shape: Shape
    init: Mapping[str, Value]
    inputs: tuple[TensorSpec, ...]
    state: Mapping[str, TensorSpec]
    outputs: tuple[TensorSpec, ...]
    values: Mapping[int, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Compare:
    """How outputs are compared with the reference's: `y` against `r`, with the tolerance `tol`.

    allclose: |y-r| <= tol + tol*|r|. element: |y-r| <= tol*|r|. scaled: |y-r| <= tol*(|r|+s), where s is the root mean
    square of r over the dimensions `over`. selection: values equal to the reference's, in descending order, with
    indices that are unique, in range and gather to the values.
    """

    metric: str = "allclose"
    over: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an entry point. `kind` is tensor, list, dict, value or model; `tensors` has the names of its
    tensors, which are inputs of the contract, by their places or keys; `cls` names the class of a model."""

    name: str
    kind: str
    tensors: Mapping[Any, str] = field(default_factory=dict)
    value: Formula = 0
    cls: str = ""


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """What is called where that is not `Model(...)(...)`: a function, or `Class.method`, with its arguments in order.

    `state` are the arguments that carry state from call to call: none is carried beside them."""

    name: str
    arguments: tuple[Argument, ...]
    state: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contract:
    """One version of what a submission is called with. `tolerance` is by output element type; `compare` gives it its
    meaning. `entry` are the names of the class to construct, the first that is there.

    `made` is set for a contract that was read from a problem file: its arguments as they are. Weights are `loaded` into
    a model by their names before it is called, and change between calls; or they are those that its constructor `drawn`
    and stay. So it is where `call` names another entry point than a model's `forward`. `training`: the model is called
    in training mode. `converts`: the element type that drawn weights of floating point are converted to, if any.
    """

    id: str
    init: Mapping[str, Formula]
    forward: tuple[ArgSpec, ...]
    state: tuple[StateSpec, ...]
    output: tuple[OutputSpec, ...]
    tolerance: Mapping[str, float]
    compare: Compare = field(default_factory=Compare)
    note: str = ""
    entry: tuple[str, ...] = ("Model",)
    made: Binding | None = None
    call: EntryPoint | None = None
    weights: Literal["loaded", "drawn"] = "loaded"
    training: bool = False
    converts: str = ""

    def bind(self, shape: Shape) -> Binding:
        """Concrete arguments for one shape. Raises FormulaError when a formula has no value there."""
        if self.made is not None:
            return replace(self.made, shape=shape)
        init = {name: evaluate(formula, shape.symbols) for name, formula in self.init.items()}
        inputs, state, outputs = self._tensors(shape)
        return Binding(shape, init, inputs, {spec.name: spec for spec in state}, outputs)

    def _tensors(self, shape: Shape) -> _Tensors:
        """The tensors of a shape, worked out once for all runs of all files at it; nothing changes them."""
        known = _BOUND.get((id(self), id(shape)))
        if known is None or known[0] is not self or known[1] is not shape:
            inputs, state, outputs = (
                tuple(_concrete(spec.name, spec, shape) for spec in specs)
                for specs in (self.forward, self.state, self.output)
            )
            if len(_BOUND) >= MAX_BOUND:
                _BOUND.clear()
            known = _BOUND[id(self), id(shape)] = self, shape, (inputs, state, outputs)
        return known[2]


_Tensors = tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...], tuple[TensorSpec, ...]]  # inputs, state, outputs
MAX_BOUND = 256
_BOUND: dict[tuple[int, int], tuple[Contract, Shape, _Tensors]] = {}  # by what keeps its id while it is here


@dataclass(frozen=True, slots=True)
class Exemption:
    """A state of a promise that strict takes on some targets, and there at some shapes, by their labels; and why."""

    state: str
    targets: tuple[str, ...]
    shapes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Promise:
    """What the problem's name promises. `kind` picks the analysis and `params` tell it about this problem.

    `quantifier` says on how many graded shapes it must hold, `accepts` which states count as fulfilled, `settled_by`
    which layers of evidence can settle it, in rising order of strength. No `contracts` means all of them. `also` are
    further states that count where hardware leaves nothing better.
    """

    id: str
    kind: PromiseKind
    text: str
    quantifier: Quantifier
    accepts: tuple[str, ...]
    settled_by: tuple[str, ...]
    contracts: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[Exemption, ...] = ()

    def accepted_at(self, target: str, label: str) -> tuple[str, ...]:
        """The states that count as fulfilled at a shape on a target."""
        return self.accepts + tuple(e.state for e in self.also if target in e.targets and label in e.shapes)


@dataclass(frozen=True, slots=True)
class Ban:
    """Something a submission may not reach: full path, the other paths to the same thing, and why."""

    symbol: str
    aliases: tuple[str, ...] = ()
    reason: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The banned symbol and its aliases."""
        return (self.symbol, *self.aliases)


@dataclass(frozen=True, slots=True)
class Stress:
    """A second check with some inputs or state scaled. Without a `tolerance` of its own the contract's holds."""

    id: str
    scale: Mapping[str, float]
    tolerance: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StructureCase:
    """A check whose inputs have a drawn structure (ragged lengths, clustered maxima), implemented in cases.py."""

    id: str
    text: str
    tolerance: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Legal:
    """An intermediate that may be less precise than the exact result: its format by architecture, with `default`."""

    intermediate: str
    allows: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Target:
    """A GPU model: architecture (`sm_90a`), dense peaks in TFLOP/s by precision, DRAM GB/s; L2 MiB, memory GiB and the
    number of multiprocessors (None: unknown).

    `names` are product names and other spellings by which a run may call it, lower case. A problem that is offered on
    the GPU `offered_with` is offered on this one, too.
    """

    id: str
    sm: str
    product: str
    dram_gbps: float
    peaks: Mapping[str, float]
    l2_mib: float | None = None
    names: tuple[str, ...] = ()
    memory_gib: float | None = None
    sms: int | None = None
    offered_with: str = ""

    @property
    def capability(self) -> int | None:
        """`sm_120a` -> 120; None for a target that is not an NVIDIA GPU."""
        digits = self.sm.removeprefix("sm_").rstrip("af")
        return int(digits) if self.sm.startswith("sm_") and digits.isdigit() else None


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of the deck. The first contract is the one a file is held to when nothing tells them apart.

    `reduced` holds a smaller stand-in for each graded shape, in the same order and under the same label, for machines
    without a GPU. `work_kind` is `tensor` when `flops` counts tensor operations, else `elementwise`; `form` names the
    form of the operation that it counts, where there are several. Unless `whole`, some operations may be left to a
    library as long as an authored kernel computes others. `narrowest` has the element type that the `operands` and the
    `accumulators` of products, and `sums`, may not be narrower than.
    """

    id: str
    title: str
    status: str
    regime: str
    precision: str
    operation: str
    shapes: tuple[Shape, ...] = ()
    reduced: tuple[Shape, ...] = ()
    contracts: Mapping[str, Contract] = field(default_factory=dict)
    promises: tuple[Promise, ...] = ()
    bans: tuple[Ban, ...] = ()
    targets: tuple[str, ...] = ()
    flops: str = ""
    bytes: str = ""
    stress: tuple[Stress, ...] = ()
    cases: tuple[StructureCase, ...] = ()
    legal: tuple[Legal, ...] = ()
    narrowest: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True
    work_kind: str = "tensor"
    form: str = ""
    reason: str = ""
    path: str = ""

    def promises_for(self, contract: str) -> tuple[Promise, ...]:
        """The promises that hold under one contract."""
        return tuple(p for p in self.promises if not p.contracts or contract in p.contracts)

    def match(self, registered: Mapping[str, str | None]) -> Contract | None:
        """The contract whose state a model's registered tensors fit (name -> element type, None when unknown).

        Missing names and wrong element types count against a contract, names it does not know count less. Ties go to
        the one listed first, and so does a model that registers none of the names. None only when the problem has no
        contract.
        """

        def cost(contract: Contract) -> int:
            wanted = {entry.name: entry.dtype for entry in contract.state}
            wrong = sum(1 for name, dtype in wanted.items() if registered.get(name, "") not in (dtype, None))
            return 4 * wrong + sum(1 for name in registered if name not in wanted)

        known = {entry.name for contract in self.contracts.values() for entry in contract.state}
        if not known & registered.keys():
            return next(iter(self.contracts.values()), None)
        return min(self.contracts.values(), key=cost)

    def work(self, shape: Shape) -> tuple[float, float]:
        """(floating point operations, compulsory bytes) of one shape. Raises FormulaError."""
        flops, moved = (evaluate(formula, shape.symbols) for formula in (self.flops, self.bytes))
        if not isinstance(flops, (int, float)) or not isinstance(moved, (int, float)):
            raise FormulaError(f"the work of {self.id} at {shape.label} is not a number")
        return float(flops), float(moved)


def _concrete(name: str, spec: ArgSpec | StateSpec | OutputSpec, shape: Shape) -> TensorSpec:
    sizes = tuple(evaluate_int(size, shape.symbols) for size in spec.shape)
    value: Value = None
    if not isinstance(spec, OutputSpec) and spec.domain.get("kind") == "constant":
        value = evaluate(spec.domain["value"], shape.symbols)
    return TensorSpec(name, spec.dtype, sizes, value)
