"""Tolerances derived from a problem's legal-precision models: how far a result that keeps the rules can be off.

For public keys, every legal model is held against the fp64 oracle on the problem's own cases. A tolerance is MARGIN
times the QUANTILE of a model's errors, the largest over models, architectures, shapes and the cases that use it,
rounded up to two digits. A stress or a case has a tolerance of its own when problem.yaml gives it one; the others share
the contract's.

A case must judge the kernel and not itself: its sensitivity, the same quantile of what the oracle's answer moves by
when inputs and state move by half a unit in the last place, up or down, must not exceed its tolerance. The unit is that
of the type an input may be rounded to before it is used: `INPUTS` of legal.py, or the input's own.

Errors of a product depend on the length of its sums far more than on rows and columns, so `SHAPES` in legal.py may list
shapes to sample: full in K, smaller elsewhere. Without it the reduced shapes are sampled. Where a case has fewer than
1e6 elements its quantile is its largest error.

`tolerance.json`, beside problem.yaml, keeps what was found:

    {"problem", "command", "quantile", "margin", "draws", "device", "torch",
     "tolerances": {PLACE: {DTYPE: number}},       # PLACE: nominal, stress/ID or structure/ID; as problem.yaml has it
     "rows": [{"place", "case", "shape", "architectures", "dtype", "elements", "quantile", "largest",
               "variant": the model whose quantile that is, "variants": {MODEL: quantile}, "sensitivity"}],
     "measured": {...}}                            # kept when the file is written again: measurements on hardware
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from grader.deck import keys
from grader.deck.cases import Bound, Case, CaseSpec, materialise, plan_cases
from grader.deck.code import Code, DeckError, load_code, problems_dir
from grader.deck.correctness import compare, error
from grader.deck.precision import architectures, half_ulp, resolve
from kbh_lint.problems import Problem, Shape, load_targets

__all__ = [
    "MARGIN", "QUANTILE", "Derivation", "Row", "check", "derive", "ill_conditioned", "moved", "read", "round_up",
    "stored_differences", "table", "write",
]  # fmt: skip

QUANTILE = 1 - 1e-6
MARGIN = 2.0
DRAWS = 4
MAX_DRAWS = 1000
FILE = "tolerance.json"
DRIFT = 0.05
"""How far a fresh derivation may be from the stored one: fp32 sums differ a little from one CPU to another."""

Scale = Literal["sample", "reduced", "full"]


@dataclass(frozen=True, slots=True)
class Row:
    """Errors of one case, output type and shape, on the architectures that allow the same precision.

    `quantile` and `largest` are each the largest of all `variants`, and `variant` is the one that has this quantile.
    """

    place: str
    case: str
    shape: str
    architectures: tuple[str, ...]
    dtype: str
    elements: int
    quantile: float
    largest: float
    variant: str = "legal"
    variants: Mapping[str, float] = field(default_factory=dict)
    sensitivity: float = 0.0


@dataclass(frozen=True, slots=True)
class Derivation:
    """What one run found; `tolerances` are place -> element type -> number, rounded up as problem.yaml has them."""

    problem: str
    scale: str
    draws: int
    device: str
    rows: tuple[Row, ...]
    tolerances: Mapping[str, Mapping[str, float]]


@dataclass
class _Pool:
    """The largest errors seen and how many there were: all that a quantile near 1 needs."""

    elements: int = 0
    top: list[float] = field(default_factory=list)

    def add(self, errors: Tensor) -> None:
        """Adds elementwise errors; only the largest ones are kept, enough for `quantile`."""
        keep = min(errors.numel(), 64 + errors.numel() // 500_000)
        self.elements += errors.numel()
        room = 64 + self.elements // 500_000
        self.top = sorted(self.top + errors.topk(keep).values.tolist(), reverse=True)[:room]

    def quantile(self) -> float:
        """The error that at most one in a million elements exceeds."""
        return self.top[int(self.elements * (1 - QUANTILE))]


_Key = tuple[str, str, str, tuple[str, ...], str]
_MOVED = ""
"""Stands for a variant's name where the errors are those of the oracle on inputs that were moved."""


def derive(
    problem: Problem,
    *,
    device: str = "cpu",
    scale: Scale = "sample",
    draws: int = DRAWS,
    progress: Callable[[str], None] | None = None,
) -> Derivation:
    """Run the legal models on `draws` public keys, at the shapes of legal.py, the reduced or the graded ones.

    Raises DeckError when the problem has no legal model, or one is not finite or breaks an exact comparison.
    """
    if not 1 <= draws <= MAX_DRAWS:
        raise DeckError(f"the number of draws must be 1 to {MAX_DRAWS}, not {draws}")
    code = load_code(problem)
    if code.legal is None:
        raise DeckError(f"{problem.id} has no legal.py, so no tolerance can be derived")
    pools: dict[_Key, dict[str, _Pool]] = {}
    with torch.no_grad():
        for shape in _shapes(problem, code, scale):
            for draw in range(draws):
                if progress:
                    progress(f"{problem.id}: {shape.label}, draw {draw + 1} of {draws}")
                for key, source, errors in _errors(problem, code, shape, _master(draw), device):
                    pools.setdefault(key, {}).setdefault(source, _Pool()).add(errors)
    rows = tuple(_row(key, by) for key, by in pools.items())
    return Derivation(problem.id, scale, draws, device, rows, _tolerances(rows))


def round_up(value: float) -> float:
    """The next number of two significant digits."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.2g}")


def check(problem: Problem, found: Derivation) -> list[str]:
    """What is wrong with the problem's tolerances and cases by a fresh derivation; one sentence each, or none."""
    faults = []
    for place, dtype, number in _written(problem):
        wanted = found.tolerances.get(place, {}).get(dtype)
        if wanted is None:
            faults.append(f"{problem.id}: nothing derives the {dtype} tolerance of {place}")
        elif not wanted * (1 - DRIFT) <= number <= wanted * (1 + DRIFT):
            faults.append(f"{problem.id}: the {dtype} tolerance of {place} is {number:g}, and {wanted:g} is derived")
    return faults + ill_conditioned(problem, [_plain(row) for row in found.rows])


def ill_conditioned(problem: Problem, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The cases whose answer moves by more than their tolerance with the inputs' last bits; one sentence each.

    `rows` are those of a derivation as tolerance.json has them; a row without a sensitivity is told too.
    """
    written = {(place, dtype): number for place, dtype, number in _written(problem)}
    faults = []
    for row in rows:
        if row.get("dtype") == "exact":
            continue
        case, found = f"{problem.id}: {row.get('case')} at {row.get('shape')}", row.get("sensitivity")
        limit = written.get((str(row.get("place")), str(row.get("dtype"))), 0.0)
        if not isinstance(found, (int, float)):
            faults.append(f"{case} has no sensitivity: run `kbh problems tolerance {problem.id} --write`")
        elif not found <= limit:
            told = f"moves by {found:.3g} with the inputs' last bits, and its tolerance is {limit:g}"
            faults.append(f"{case} {told}: it would judge its inputs, not the kernel")
    return list(dict.fromkeys(faults))


def stored_differences(problem: Problem) -> list[str]:
    """Where the numbers of problem.yaml are not those that tolerance.json keeps; one sentence each."""
    kept = {place: dict(by) for place, by in read(problem)["tolerances"].items()}
    given: dict[str, dict[str, float]] = {}
    for place, dtype, number in _written(problem):
        given.setdefault(place, {})[dtype] = number
    if given == kept:
        return []
    return [f"{problem.id}: problem.yaml has the tolerances {given} and {FILE} has {kept}"]


def read(problem: Problem) -> dict[str, Any]:
    """The stored derivation. Raises DeckError when there is none or it is not one."""
    path = Path(problem.path).parent / FILE
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise DeckError(f"{problem.id} has no {FILE}: run `kbh problems tolerance {problem.id} --write`") from None
    except (OSError, ValueError) as fault:
        raise DeckError(f"{FILE} of {problem.id} cannot be read: {fault}") from None
    if not isinstance(data, dict) or not isinstance(data.get("tolerances"), dict):
        raise DeckError(f"{FILE} of {problem.id} has no `tolerances`")
    return data


def write(problem: Problem, found: Derivation) -> Path:
    """Store a derivation beside problem.yaml; the old file's canary and measurements are kept."""
    path = Path(problem.path).parent / FILE
    old = read(problem) if path.is_file() else {}
    data: dict[str, Any] = {
        **({"canary": old["canary"]} if "canary" in old else {}),
        "problem": problem.id,
        "command": f"kbh problems tolerance {problem.id} --write",
        "quantile": QUANTILE, "margin": MARGIN, "draws": found.draws, "device": found.device,
        "torch": torch.__version__.partition("+")[0],
        "tolerances": found.tolerances,
        "rows": [_plain(row) for row in found.rows],
    }  # fmt: skip
    rows = ",\n    ".join(json.dumps(row) for row in data["rows"])
    text = json.dumps({**data, "rows": []}, indent=2).replace('"rows": []', f'"rows": [\n    {rows}\n  ]')
    if "measured" in old:
        text = f'{text.removesuffix("}").rstrip()},\n  "measured": {json.dumps(old["measured"])}\n}}'
    path.write_text(text + "\n")
    return path


def table(found: Derivation) -> str:
    """The derivation for people: the rows that set each tolerance first, then the tolerances."""
    head = ("case", "shape", "architectures", "type", "elements", "quantile", "largest", "sensitivity", "variant")
    lines = [head]
    for row in sorted(found.rows, key=lambda row: (row.place, -row.quantile)):
        numbers = (f"{row.elements:,}", f"{row.quantile:.3g}", f"{row.largest:.3g}", f"{row.sensitivity:.3g}")
        lines.append((row.case, row.shape, " ".join(row.architectures), row.dtype, *numbers, row.variant))
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text.append(f"tolerance = {MARGIN:g} x the quantile {QUANTILE:.6f}, rounded up:")
    text += [f"  {place}: {dtype} {number:g}" for place, by in found.tolerances.items() for dtype, number in by.items()]
    return "\n".join(text)


def _errors(
    problem: Problem, code: Code, shape: Shape, master: bytes, device: str
) -> Iterator[tuple[_Key, str, Tensor]]:
    """(place, case, shape, architectures, element type), the variant or _MOVED, the errors of each compared element."""
    for spec in plan_cases(problem, shape, master, code=code):
        case = materialise(problem, shape, spec, master, device=device, code=code)
        want = code.oracle(case.binding.init, case.inputs, case.state)
        for precision, where in _precisions(problem):
            for variant, model in code.variants.items():
                got = model(case.binding.init, case.inputs, case.state, dict(precision))
                for place, dtype, found in _held(problem, spec, case, got, want, variant):
                    yield (place, _name(spec), shape.label, where, dtype), variant, found
            if case.bounds[0].metric == "selection":
                continue
            seed = keys.derive(master, problem.id, shape.label, "sensitivity", spec.id)
            inputs, state = moved(case, code.inputs_format, seed)
            got = code.oracle(case.binding.init, inputs, state)
            for place, dtype, found in _held(problem, spec, case, got, want, "oracle"):
                yield (place, _name(spec), shape.label, where, dtype), _MOVED, found


def _held(
    problem: Problem, spec: CaseSpec, case: Case, got: Sequence[Tensor], want: Sequence[Tensor], model: str
) -> Iterator[tuple[str, str, Tensor]]:
    """(place, element type, errors) of each output."""
    if case.bounds[0].metric == "selection":
        if not (told := compare(got, want, case)).ok:
            raise DeckError(f"the legal model `{model}` of {problem.id} is not exact: {told.message}")
        yield "nominal", "exact", torch.zeros(want[0].numel())
        return
    for y, r, bound, output in zip(got, want, case.bounds, case.binding.outputs, strict=True):
        found = _compared(y, r, bound)
        if not bool(torch.isfinite(found).all()):
            where = f"{spec.id} at {case.shape.label}"
            raise DeckError(f"the legal model `{model}` of {problem.id} is not finite: {where}")
        yield _place(problem, spec, output.dtype), output.dtype, found


def moved(case: Case, fmt: str | None, seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """A case's inputs and state in f64, each value moved by half a unit in the last place, up or down at random.

    The unit is that of `fmt` or of the tensor's own type, whichever is finer. Zeros and whole numbers stay.
    """
    generators: dict[torch.device, torch.Generator] = {}

    def move(tensor: Tensor, dtype: str) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        at = generators.setdefault(tensor.device, torch.Generator(tensor.device).manual_seed(seed))
        half = half_ulp(tensor, dtype)
        if fmt is not None:
            half = torch.minimum(half, half_ulp(tensor, fmt))
        up = torch.rand(tensor.shape, generator=at, device=tensor.device) < 0.5
        return tensor.double() + torch.where(up, half, -half)

    inputs = {spec.name: move(case.inputs[spec.name], spec.dtype) for spec in case.binding.inputs}
    return inputs, {name: move(case.state[name], spec.dtype) for name, spec in case.binding.state.items()}


def _row(key: _Key, by: Mapping[str, _Pool]) -> Row:
    found = {name: pool.quantile() for name, pool in by.items() if name != _MOVED}
    largest = max(pool.top[0] for name, pool in by.items() if name != _MOVED)
    variant = max(found, key=lambda name: found[name])
    sensitivity = by[_MOVED].quantile() if _MOVED in by else 0.0
    elements = by[variant].elements
    return Row(*key, elements, found[variant], largest, variant, found if len(found) > 1 else {}, sensitivity)


def _compared(got: Tensor, want: Tensor, bound: Bound) -> Tensor:
    """The errors of the elements that the bound compares, flat."""
    errors = error(got, want, bound)
    return errors.flatten() if bound.region is None else errors[bound.region.mask]


def _precisions(problem: Problem) -> list[tuple[tuple[tuple[str, str], ...], tuple[str, ...]]]:
    """What is legal, and the architectures where it is: those that allow the same are one."""
    targets = load_targets(problems_dir() / "hardware.yaml")
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for sm in architectures(problem, targets):
        found.setdefault(tuple(resolve(problem, sm).items()), []).append(sm)
    return [(precision, tuple(where)) for precision, where in found.items()]


def _shapes(problem: Problem, code: Code, scale: Scale) -> Sequence[Shape]:
    own = getattr(sys.modules[code.legal.__module__], "SHAPES", ()) if code.legal else ()
    if scale == "full":
        return problem.shapes
    if scale == "reduced" or not own:
        return problem.reduced or problem.shapes
    return [Shape("x".join(str(v) for v in symbols.values()), symbols) for symbols in own]


def _master(draw: int) -> bytes:
    """Public keys: a rerun draws the same values. Grading never uses them."""
    return hashlib.sha256(f"kbh tolerance derivation, draw {draw}".encode()).digest()


def _name(spec: CaseSpec) -> str:
    """The case without its number: `nominal`, `stress/ID`, `structure/ID`."""
    return spec.id if spec.kind == "stress" else spec.id.rpartition("/")[0]


def _place(problem: Problem, spec: CaseSpec, dtype: str) -> str:
    """Where problem.yaml has the tolerance that a case is held to."""
    name = _name(spec)
    own = {f"stress/{stress.id}": stress.tolerance for stress in problem.stress}
    own |= {f"structure/{case.id}": case.tolerance for case in problem.cases}
    return name if dtype in own.get(name, {}) else "nominal"


def _written(problem: Problem) -> Iterator[tuple[str, str, float]]:
    """(place, element type, number) for every tolerance of the graded contract, its stresses and its cases."""
    entries = [("nominal", next(iter(problem.contracts.values())).tolerance)]
    entries += [(f"stress/{stress.id}", stress.tolerance) for stress in problem.stress]
    entries += [(f"structure/{case.id}", case.tolerance) for case in problem.cases]
    for place, tolerance in entries:
        for dtype, number in tolerance.items():
            yield place, dtype, number


def _tolerances(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    worst: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.dtype != "exact":
            by = worst.setdefault(row.place, {})
            by[row.dtype] = max(by.get(row.dtype, 0.0), row.quantile)
    return {place: {dtype: round_up(MARGIN * value) for dtype, value in by.items()} for place, by in worst.items()}


def _plain(row: Row) -> dict[str, Any]:
    """A row as JSON holds it: numbers rounded to four digits, and no `variants` where there is one model alone."""
    data = asdict(row)
    data |= {name: _four(data[name]) for name in ("quantile", "largest", "sensitivity")}
    data["variants"] = {name: _four(value) for name, value in row.variants.items()}
    return data if row.variants else {name: value for name, value in data.items() if name != "variants"}


def _four(value: float) -> float:
    return float(f"{value:.4g}")
