"""The FLOP formula of a problem held against a count of what its reference really computes.

The count is torch's own FlopCounterMode on the reference `Model`, run on small real CPU tensors at the reduced shapes.
FlopCounterMode knows matrix products, convolutions and attention. What it does not know is dealt with in the open:

- `linalg_solve_triangular` of an n x n triangle against m columns counts n*n*m operations (n*(n-1)/2 multiplications
  and as many additions a column, and the n divisions that a unit triangle saves), added by us;
- other decompositions and transforms have no agreed count: a reference that calls one is reported, not guessed;
- elementwise work is not counted. A problem that has nothing else says `work: elementwise`, and its formula is a
  declaration; here it is only made sure that its reference runs no tensor operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from grader.deck import cases
from grader.deck.code import Code
from kbh_lint.base.formulas import Value, evaluate
from kbh_lint.problems import Contract, Problem, Shape

SIZES = 3  # at how many different sizes a formula is held against the count, at least
TOLERANCE = 1e-6  # relative; both are exact whole numbers well below 2**53
MAX_ELEMENTS = 50_000_000  # of all tensors of one size: the count must stay a matter of seconds
_KEY = b"kbh flops: the values do not matter"
_UNCOUNTED = ("linalg_", "lu_", "fft_", "cholesky", "triangular_solve", "svd", "_cdist", "unfold_backward")


@dataclass(frozen=True)
class Count:
    """One size: operations that torch counted, those of triangular solves, and the formula's value."""

    shape: str
    symbols: Mapping[str, Value]
    counted: float
    solves: float
    declared: float

    @property
    def total(self) -> float:
        """All tensor operations."""
        return self.counted + self.solves

    @property
    def agrees(self) -> bool:
        """Whether formula and count are the same number."""
        return abs(self.total - self.declared) <= TOLERANCE * max(self.total, self.declared)


@dataclass(frozen=True)
class Fit:
    """A formula against the counts. `uncounted` are operations that nobody counts; `reason`: why there is no result."""

    problem: str
    formula: str
    work_kind: str
    form: str
    counts: tuple[Count, ...]
    uncounted: tuple[str, ...] = ()
    reason: str = ""

    @property
    def state(self) -> str:
        """`agrees`, `differs`, `not-elementwise`, `uncounted`, or `unknown` with a reason."""
        if self.reason:
            return "unknown"
        if self.work_kind == "elementwise":
            return "not-elementwise" if any(count.total for count in self.counts) else "agrees"
        if self.uncounted:
            return "uncounted"
        return "agrees" if all(count.agrees for count in self.counts) else "differs"

    @property
    def hint(self) -> str:
        """The one factor by which the counts differ from the formula, in words; empty when it is not one factor."""
        ratios = [count.total / count.declared for count in self.counts if count.declared]
        if not ratios or self.state != "differs":
            return ""
        if max(ratios) - min(ratios) <= TOLERANCE * max(ratios):
            return f"the count is {ratios[0]:.4g} times the formula at every size"
        for name in self.counts[0].symbols:
            values = [count.symbols[name] for count in self.counts]
            if all(type(v) is int and abs(v - r) <= TOLERANCE * r for v, r in zip(values, ratios, strict=True)):
                return f"the formula leaves out the factor {name}"
        return ""


def count(problem: Problem, code: Code) -> Fit:
    """Counts the reference at every reduced shape, and at enlarged ones until there are SIZES different sizes.

    Never raises for a reference that fails: the fit then has a `reason`.
    """
    contract = next(iter(problem.contracts.values()))
    counts: list[Count] = []
    uncounted: dict[str, None] = {}
    reason = ""
    for shape in _sizes(problem):
        if len(counts) >= max(SIZES, len(problem.reduced)):
            break
        grown = shape.label.startswith("grown")
        if grown and reason:
            break
        try:
            counted, solves, names = run(problem, contract, code, shape)
            declared = evaluate(problem.flops, shape.symbols)
        except Exception as error:  # a reference may fail in any way; a size that was made up here may not fit it
            reason = reason or ("" if grown else f"at {shape.label}: {type(error).__name__}: {_first_line(error)}")
            continue
        uncounted.update(dict.fromkeys(names))
        counts.append(Count(shape.label, shape.symbols, counted, solves, float(declared or 0)))  # type: ignore[arg-type]
    if not reason and len({tuple(item.symbols.items()) for item in counts}) < SIZES:
        reason = f"the reference ran at {len(counts)} sizes and {SIZES} are needed: add reduced shapes"
    return Fit(
        problem.id, problem.flops, problem.work_kind, problem.form, tuple(counts), tuple(uncounted), reason
    )  # fmt: skip


def run(problem: Problem, contract: Contract, code: Code, shape: Shape) -> tuple[float, float, list[str]]:
    """(operations counted by torch, those of triangular solves, names of uncounted ones) of one forward."""
    binding = contract.bind(shape)
    elements = sum(torch.Size(spec.shape).numel() for spec in (*binding.inputs, *binding.state.values()))
    if elements > MAX_ELEMENTS:
        raise ValueError(f"{elements:,} elements are too many for a count; reduce the shape")
    spec = cases.plan_cases(problem, shape, _KEY, nominal=1, structures=0, code=code)[0]
    case = cases.materialise(problem, shape, spec, _KEY, device="cpu", code=code)
    model = code.Model(*binding.init.values())
    model.load_state_dict(case.state, strict=True)
    watch = _Watch()
    with torch.no_grad(), FlopCounterMode(display=False) as counter, watch:
        model(*case.inputs.values())
    return float(counter.get_total_flops()), float(watch.solves), list(watch.uncounted)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up triangular solves, and names operations that neither we nor torch count."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.solves = 0
        self.uncounted: dict[str, None] = {}

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = func.overloadpacket.__name__
        if name == "linalg_solve_triangular":
            triangle, columns = args[0], args[1]
            left = (kwargs or {}).get("left", True)
            self.solves += columns.numel() * triangle.shape[-1 if left else -2]
        elif name.startswith(_UNCOUNTED):
            self.uncounted[name] = None
        return func(*args, **(kwargs or {}))


def _sizes(problem: Problem) -> list[Shape]:
    """The reduced shapes, then the first of them with one size doubled at a time."""
    found = list(problem.reduced)
    for base in problem.reduced[:1]:
        for name, value in base.symbols.items():
            if type(value) is int and value > 1:
                symbols = {**base.symbols, name: 2 * value}
                found.append(Shape(f"grown {name}", symbols, base.regime))
    return found


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no message"])[0][:200]


def table(fit: Fit) -> str:
    """The fit as text: one line a size."""
    lines = [f"{fit.problem}: flops = {fit.formula}" + (f"  ({fit.form})" if fit.form else "")]
    for item in fit.counts:
        mark = "-" if fit.work_kind == "elementwise" else "=" if item.agrees else "!"
        solves = f" of them {item.solves:,.0f} in triangular solves" if item.solves else ""
        lines.append(f"  {mark} {item.shape}: declared {item.declared:,.0f}, counted {item.total:,.0f}{solves}")
    if fit.work_kind == "elementwise" and fit.state == "agrees":
        lines.append("  elementwise work: declared, not counted; the reference runs no tensor operation")
    lines += [f"  {text}" for text in (fit.reason, fit.hint) if text]
    if fit.uncounted:
        lines.append(f"  nobody counts {', '.join(fit.uncounted)}")
    return "\n".join(lines) + "\n"
