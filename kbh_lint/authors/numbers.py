"""Facts about the numbers of `problem.yaml`: tolerances, compulsory bytes, regimes, reduced shapes."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from math import gcd
from pathlib import Path

from kbh_lint.authors.floors import MIXED, floors, regime_of
from kbh_lint.authors.folder import Folder, at, line_of, read_text
from kbh_lint.authors.traffic import compulsory_bytes
from kbh_lint.base import dtypes
from kbh_lint.base.folder_facts import Reduced, Regime, Tolerance, ToleranceKey, Traffic
from kbh_lint.base.formulas import Formula, FormulaError, Value, evaluate, names
from kbh_lint.findings import Fact, fact_of
from kbh_lint.marked import Items, Map
from kbh_lint.problems import Contract, Shape

BELOW, ABOVE = 0.97, 1.30  # shares of the compulsory bytes that a formula may say
TOLERANCES = "tolerance.json"
ALIGNMENT = 16  # elements: what a 16-byte or 32-byte load needs


def tolerance_keys(path: Path, data: Map) -> Iterator[Fact]:
    """Yields `tolerance-key` facts: a tolerance for an element type that no output has. Needs no valid problem."""
    contracts = data.get("contracts")
    if not isinstance(contracts, Map):
        return
    for name, entry in contracts.items():
        if not isinstance(entry, Map) or not isinstance(entry.get("tolerance"), Map):
            continue
        outputs = entry.get("output")
        given = (
            {item.get("dtype") for item in outputs if isinstance(item, Map)} if isinstance(outputs, Items) else set()
        )
        for dtype in entry["tolerance"]:
            if dtype not in given:
                line = line_of(data, "contracts", name, "tolerance", dtype)
                fact = ToleranceKey(contract=name, dtype=dtype, outputs=tuple(sorted(map(str, given))))
                yield fact_of(fact, at(path, line))


def traffic(folder: Folder) -> Iterator[Fact]:
    """Yields `traffic` facts: the byte formula beside the bytes of the tensors, on the shapes where they disagree."""
    problem = folder.problem
    contract = next(iter(problem.contracts.values()))
    found: dict[str, list[tuple[str, float]]] = {"below": [], "above": []}
    for shape in problem.shapes:
        try:
            needed = compulsory_bytes(contract, shape)
            share = problem.work(shape)[1] / needed if needed else 1.0
        except FormulaError:
            continue
        if share < BELOW or share > ABOVE:
            found["below" if share < BELOW else "above"].append((shape.label, share))
    for side, shapes in found.items():
        if shapes:
            worst = (min if side == "below" else max)(share for _, share in shapes)
            labels = tuple(label for label, _ in shapes)
            yield folder.fact(Traffic(side=side, share=f"{worst:.3g}", formula=problem.bytes), "bytes", shapes=labels)


def regimes(folder: Folder) -> Iterator[Fact]:
    """Yields `regime` facts: a shape whose declared regime is not the binding one."""
    problem = folder.problem
    known = floors(problem, folder.targets)
    for index, shape in enumerate(problem.shapes):
        here = [item for item in known if item.shape == shape.label]
        if not here:
            continue
        declared, binding = shape.regime or problem.regime, regime_of(here)
        if declared == binding:
            continue
        targets = sorted(item.target for item in here if declared == MIXED or item.binding != declared)
        yield folder.fact(
            Regime(declared=declared, binding=binding, targets=tuple(targets)), "shapes", index, shapes=(shape.label,)
        )


def reduced(folder: Folder) -> Iterator[Fact]:
    """Yields `reduced` facts: a guard of the graded shapes that the reduced ones lose, or that there are no reduced
    shapes."""
    problem = folder.problem
    if not problem.reduced:
        yield folder.fact(Reduced(state="missing", what="reduced shapes", full="", reduced=""))
        return
    for index, (full, small) in enumerate(zip(problem.shapes, problem.reduced, strict=True)):
        for state, what, big, little in _lost(folder, full, small):
            yield folder.fact(
                Reduced(state=state, what=what, full=str(big), reduced=str(little)),
                "reduced",
                index,
                shapes=(full.label,),
            )


def _lost(folder: Folder, full: Shape, small: Shape) -> Iterator[tuple[str, str, Value, Value]]:
    contract = next(iter(folder.problem.contracts.values()))
    for name, value in full.symbols.items():
        little = small.symbols.get(name)
        one = type(value) is int and value > 1 and type(little) is int and little < 2
        if one or (type(value) is bool and value is not little):
            yield "collapsed", name, value, little
    for divided, divisor in _divisions(folder, contract):
        try:
            (pieces, tail), (few, rest) = (divmod(_whole(divided, s), _whole(divisor, s)) for s in (full, small))
        except (FormulaError, ZeroDivisionError):
            continue
        if pieces >= 2 > few:
            yield "pieces", f"{divided} // {divisor}", pieces, few
        elif bool(tail) is not bool(rest):
            yield "tail", f"{divided} % {divisor}", tail, rest
    yield from _alignment(contract, full, small)


def _alignment(contract: Contract, full: Shape, small: Shape) -> Iterator[tuple[str, str, Value, Value]]:
    """Innermost sizes of what is loaded in bulk: a kernel's vector loads and their guards depend on them."""
    big, little = contract.bind(full), contract.bind(small)
    tensors = zip((*big.inputs, *big.state.values()), (*little.inputs, *little.state.values()), strict=True)
    for one, other in tensors:
        if not one.shape or one.dtype in ("i32", "i64") or one.shape[-1] < ALIGNMENT:
            continue
        if gcd(one.shape[-1], ALIGNMENT) != gcd(other.shape[-1], ALIGNMENT):
            yield "alignment", f"the innermost size of {one.name}", one.shape[-1], other.shape[-1]


def _divisions(folder: Folder, contract: Contract) -> Iterator[tuple[str, str]]:
    """What the formulas divide by what, and the longest size by each blocking symbol (one that is no tensor's size)."""
    sizes: list[Formula] = [size for arg in contract.forward for size in arg.shape]
    sizes += [size for entry in contract.state for size in entry.shape]
    seen: dict[tuple[str, str], None] = {}
    for formula in (*sizes, folder.problem.bytes, folder.problem.flops):
        if not isinstance(formula, str):
            continue
        for node in ast.walk(ast.parse(formula.strip(), mode="eval")):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
                # (n + size - 1) // size counts the pieces that n is cut into, with a ragged last one
                top = ast.unparse(node.left).removesuffix(f" + {ast.unparse(node.right)} - 1")
                seen[top, ast.unparse(node.right)] = None
    dimensions = {name for size in sizes for name in names(size)}
    first = folder.problem.shapes[0].symbols
    longest = max((n for n in dimensions if type(first.get(n)) is int), key=lambda n: first[n], default=None)  # type: ignore[arg-type,return-value]
    blocking = {name for formula in (folder.problem.flops,) for name in names(formula)} - dimensions
    for name in sorted(blocking):
        if longest is not None and type(first.get(name)) is int:
            seen[longest, name] = None
    yield from seen


def _whole(formula: str, shape: Shape) -> int:
    value = evaluate(formula, shape.symbols)
    if not isinstance(value, int):
        raise FormulaError(f"`{formula}` is not a whole number")
    return value


# --- derived tolerances ------------------------------------------------------------------------------------


def tolerances(folder: Folder) -> Iterator[Fact]:
    """Yields `tolerance` facts: a number in the yaml that is not the one that `tolerance.json` derives."""
    written = list(_written(folder))
    if read_text(folder.path / TOLERANCES) is None:
        if written:
            yield _tolerance(folder, written[0], "underived", f"no number: there is no {TOLERANCES}")
        return
    derived = _derived(folder)
    if derived is None:
        yield folder.fact_in(
            Tolerance(state="unreadable", place="every case", written="", derived="no number"), TOLERANCES, 1
        )
        return
    for entry in written:
        wanted = derived.get(entry[:2])
        if wanted is None:
            yield _tolerance(folder, entry, "underived", "no number")
        elif _differ(entry[2], wanted):
            yield _tolerance(folder, entry, "different", f"{wanted:g}")


def stale_tolerances(folder: Folder) -> Iterator[tuple[tuple[str | int, ...], float]]:
    """Yields the path of keys of every tolerance in `problem.yaml` that differs from the derived one, with the
    derived number."""
    derived = _derived(folder) or {}
    for place, dtype, number, keys in _written(folder):
        wanted = derived.get((place, dtype))
        if wanted is not None and _differ(number, wanted):
            yield keys, wanted


def _differ(number: float, wanted: float) -> bool:
    return abs(number - wanted) > 1e-9 * max(number, wanted)


def _derived(folder: Folder) -> dict[tuple[str, str], float] | None:
    """The derived tolerances by (place, element type); None when they cannot be read."""
    try:
        data = json.loads(read_text(folder.path / TOLERANCES) or "")["tolerances"]
        return {(place, dtype): float(number) for place, by in data.items() for dtype, number in by.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _tolerance(folder: Folder, entry: tuple[str, str, float, tuple[str | int, ...]], state: str, derived: str) -> Fact:
    place, dtype, number, keys = entry
    return folder.fact(
        Tolerance(state=state, place=f"{place} ({dtype})", written=f"{number:g}", derived=derived), *keys
    )


def _written(folder: Folder) -> Iterator[tuple[str, str, float, tuple[str | int, ...]]]:
    """(place, element type, number, keys) of every tolerance; places are `nominal`, `stress/ID`, `structure/ID`."""
    problem = folder.problem
    contract = next(iter(problem.contracts.values()))
    for dtype, number in contract.tolerance.items():
        if dtype in dtypes.FLOATS and contract.compare.metric != "selection":
            yield "nominal", dtype, number, ("contracts", contract.id, "tolerance", dtype)
    own = [("stress", "stress", index, item.id, item.tolerance) for index, item in enumerate(problem.stress)]
    own += [("structure", "cases", index, item.id, item.tolerance) for index, item in enumerate(problem.cases)]
    for kind, key, index, name, tolerance in own:
        for dtype, number in tolerance.items():
            yield f"{kind}/{name}", dtype, number, (key, index, "tolerance", dtype)
