"""Reading the parts of `problem.yaml` that say how results are checked: comparison, stress, cases, legal precision."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from kbh_lint.base import dtypes
from kbh_lint.base.formulas import FormulaError, evaluate, names
from kbh_lint.marked import DataError, Fields, Items, Map
from kbh_lint.problems.model import Compare, Contract, Legal, OutputSpec, Shape, Stress, StructureCase

MAX_BYTES = 256 * 1024
METRICS = ("allclose", "element", "scaled", "selection")
_ARCHITECTURE = re.compile(r"default|sm_[0-9]{2,3}[af]?")
NARROWEST = ("inputs", "operands", "accumulators", "sums")
_CASE_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


def read_text(path: Path) -> str:
    """Reads a file of a deck, which must not be large. Raises DataError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(str(path), 1, f"the file is larger than {MAX_BYTES // 1024} KB")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise DataError(str(path), 1, f"the file cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise DataError(str(path), 1, "the file is not UTF-8 text") from None


def optional_items(fields: Fields, key: str) -> Items:
    """The list under `key`, empty when there is none."""
    return fields.items(key) if key in fields.data else Items(fields.data.line)


def entries(items: Items, path: str, what: str) -> list[Fields]:
    """Readers of the mappings in a list; `what` is what an error calls one of them."""
    found = []
    for item, line in zip(items, items.lines, strict=True):
        if not isinstance(item, Map):
            raise DataError(path, line, f"{what} must be a mapping")
        found.append(Fields(item, path, what))
    return found


def number(fields: Fields, key: str) -> float:
    """The number under `key`, which is required."""
    fields.take(key)
    if key not in fields.data:
        raise DataError(fields.path, fields.data.line, f"{fields.what} needs `{key}`")
    return plain_number(fields.data, key, fields.path)


def plain_number(data: Map, key: str, path: str) -> float:
    """The number under a key that `data` has. Raises DataError for a value that is no number."""
    value = data[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        hint = " (YAML reads 1e-3 as text; write 1.0e-3)" if isinstance(value, str) else ""
        raise DataError(path, data.lines[key], f"`{key}` must be a number, not {value!r}{hint}")
    return float(value)


def check_formula(fields: Fields, key: str, formula: object, shapes: tuple[Shape, ...]) -> None:
    """Raises DataError when a formula cannot be read or has no value at one of the shapes."""
    if isinstance(formula, bool) or not isinstance(formula, (int, float, str)):
        raise fields.fail(key, f"`{key}` must be a number or a formula")
    try:
        names(formula)
        for shape in shapes:
            evaluate(formula, shape.symbols)
    except FormulaError as error:
        raise fields.fail(key, str(error)) from None


def tensor_names(contracts: Mapping[str, Contract]) -> set[str]:
    """The names of all inputs and state."""
    inputs = {spec.name for contract in contracts.values() for spec in contract.forward}
    return inputs | {spec.name for contract in contracts.values() for spec in contract.state}


# --- domains -------------------------------------------------------------------------------------------------

_DOMAIN_NUMBERS = {
    "uniform": (("low", "high"), ()),
    "normal": (("std",), ("mean",)),
    "sigmoid-normal": ((), ("std", "mean")),
    "row-amax": (("divisor",), ()),
    "packed-int4": (("std", "group"), ()),
    "rotary": (("base",), ("spread",)),
}
"""The numbers that a kind needs, and those it may have. Other kinds are free: who draws them knows them."""


def read_domain(fields: Fields, name: str, shapes: tuple[Shape, ...]) -> dict[str, object]:
    """Reads the `domain` of a tensor, and checks the values that analyses read; empty when there is none."""
    domain = fields.take("domain")
    if domain is None and "domain" not in fields.data:
        return {}
    if not isinstance(domain, Map):
        raise fields.fail("domain", f"the domain of `{name}` must be a mapping with a `kind`")
    _check_domain(domain, fields.path, name, shapes, 0)
    return dict(domain)


def _check_domain(domain: Map, path: str, name: str, shapes: tuple[Shape, ...], depth: int) -> None:
    part = Fields(domain, path, f"the domain of `{name}`")
    kind = part.text("kind")
    if kind == "constant":
        check_formula(part, "value", part.take("value"), shapes)
    needed, allowed = _DOMAIN_NUMBERS.get(kind, ((), ()))
    for key in (*needed, *(key for key in allowed if key in domain)):
        number(part, key)
    if "spikes" in domain:
        spikes = Fields(part.mapping("spikes"), path, f"the spikes of `{name}`")
        number(spikes, "value")
        number(spikes, "count")
        spikes.done()
    if kind == "when":
        symbol = part.text("symbol")
        if depth > 3 or any(not isinstance(shape.symbols.get(symbol), bool) for shape in shapes):
            raise part.fail("symbol", f"`{symbol}` must be a flag (true or false) of every shape")
        for key in ("then", "else"):
            _check_domain(part.mapping(key), path, name, shapes, depth + 1)


# --- comparison and tolerance --------------------------------------------------------------------------------


def read_compare(fields: Fields, output: tuple[OutputSpec, ...]) -> Compare:
    """Reads `compare` of a contract; without it, allclose."""
    if "compare" not in fields.data:
        return Compare()
    part = Fields(fields.mapping("compare"), fields.path, "`compare`")
    metric = part.choice("metric", METRICS)
    over = part.take("over", [])
    part.done()
    if not isinstance(over, list) or not all(type(axis) is int for axis in over):
        raise part.fail("over", "`over` must be a list of dimensions, such as [-1]")
    if bool(over) != (metric == "scaled"):
        raise part.fail("over", "`over` belongs to the metric scaled, which needs it")
    for spec in output:
        if any(not -len(spec.shape) <= axis < len(spec.shape) for axis in over):
            raise part.fail("over", f"`over` names a dimension that an output of {len(spec.shape)} has not")
    return Compare(metric, tuple(over))


def contract_tolerance(fields: Fields, output: tuple[OutputSpec, ...], compare: Compare) -> dict[str, float]:
    """Reads the `tolerance` of a contract: one for each element type of a floating-point output, and no other."""
    if compare.metric == "selection":
        if "tolerance" in fields.data:
            raise fields.fail("tolerance", "a selection is compared exactly; it has no tolerance")
        return {}
    fields.mapping("tolerance")
    tolerance = _tolerance(fields, {spec.dtype for spec in output})
    for spec in output:
        if spec.dtype in dtypes.FLOATS and spec.dtype not in tolerance:
            raise fields.fail("tolerance", f"an output is {spec.dtype}, for which there is no tolerance")
    return tolerance


def _tolerance(fields: Fields, given: set[str]) -> dict[str, float]:
    """`tolerance` where it stands: positive numbers by element type of an output."""
    if "tolerance" not in fields.data:
        return {}
    table = fields.mapping("tolerance")
    for dtype in table:
        if dtype not in given:
            raise DataError(fields.path, table.lines[dtype], f"no output is {dtype}, so this tolerance is never used")
        if not 0 < plain_number(table, dtype, fields.path) < float("inf"):
            raise DataError(fields.path, table.lines[dtype], "a tolerance must be a positive number")
    return {dtype: float(table[dtype]) for dtype in table}


# --- stress, cases, legal precision --------------------------------------------------------------------------


def read_stress(fields: Fields, contracts: Mapping[str, Contract]) -> tuple[Stress, ...]:
    """Reads `stress`: inputs or state scaled by a factor."""
    known, given = tensor_names(contracts), _output_dtypes(contracts)
    found: dict[str, Stress] = {}
    for part in entries(optional_items(fields, "stress"), fields.path, "a stress"):
        scale = part.mapping("scale")
        for name in scale:
            if name not in known:
                raise DataError(part.path, scale.lines[name], f"`{name}` is neither an input nor state")
        factors = {name: plain_number(scale, name, part.path) for name in scale}
        case_id = _case_id(part, found)
        found[case_id] = Stress(case_id, factors, _tolerance(part, given))
        part.done()
    return tuple(found.values())


def read_cases(fields: Fields, contracts: Mapping[str, Contract]) -> tuple[StructureCase, ...]:
    """Reads `cases`: structures that the problem's cases.py draws under the same ids."""
    given = _output_dtypes(contracts)
    found: dict[str, StructureCase] = {}
    for part in entries(optional_items(fields, "cases"), fields.path, "a case"):
        case_id = _case_id(part, found)
        found[case_id] = StructureCase(case_id, part.text("text"), _tolerance(part, given))
        part.done()
    return tuple(found.values())


def read_legal(fields: Fields) -> tuple[Legal, ...]:
    """Reads `legal`: which intermediates may be less precise, in which format on which architecture."""
    found: dict[str, Legal] = {}
    for part in entries(optional_items(fields, "legal"), fields.path, "a legal precision"):
        name = part.text("intermediate")
        if name in found:
            raise part.fail("intermediate", f"the intermediate `{name}` stands twice")
        allows = part.mapping("allows")
        for architecture, form in allows.items():
            line = allows.lines[architecture]
            if not _ARCHITECTURE.fullmatch(architecture):
                raise DataError(part.path, line, f"`{architecture}` is neither `default` nor an architecture (sm_90a)")
            if not isinstance(form, str) or not form.strip():
                raise DataError(part.path, line, f"the format for `{architecture}` must be text, such as bf16")
        if "default" not in allows:
            raise part.fail("allows", "`allows` needs a `default`")
        found[name] = Legal(name, dict(allows), part.text("text"))
        part.done()
    return tuple(found.values())


def read_narrowest(fields: Fields) -> dict[str, str]:
    """Reads `narrowest`: the element type that operands, accumulators and sums may not be narrower than."""
    if "narrowest" not in fields.data:
        return {}
    found = fields.mapping("narrowest")
    for name, dtype in found.items():
        line = found.lines[name]
        if name not in NARROWEST:
            raise DataError(fields.path, line, f"`{name}` is none of {', '.join(NARROWEST)}")
        if dtype not in dtypes.FLOATS:
            raise DataError(fields.path, line, f"`{dtype}` is not an element type of floating point, such as bf16")
    return dict(found)


def _case_id(part: Fields, taken: Mapping[str, object]) -> str:
    case_id = part.text("id")
    if not _CASE_ID.fullmatch(case_id):
        raise part.fail("id", f"the id `{case_id}` must be lower-case letters, digits, `-` or `_`, at most 40")
    if case_id in taken:
        raise part.fail("id", f"the id `{case_id}` stands twice")
    return case_id


def _output_dtypes(contracts: Mapping[str, Contract]) -> set[str]:
    return {spec.dtype for contract in contracts.values() for spec in contract.output}
