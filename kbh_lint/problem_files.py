"""Reading `problem.yaml` and `hardware.yaml` into the types of `kbh_lint.problems`, strictly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from kbh_lint import dtypes, marked
from kbh_lint.formulas import Formula, FormulaError, Value, evaluate, evaluate_int, names
from kbh_lint.marked import DataError, Fields, Items, Map
from kbh_lint.problems import (
    ArgSpec,
    Ban,
    Contract,
    OutputSpec,
    Problem,
    Promise,
    Quantifier,
    Shape,
    StateSpec,
    Stress,
    Target,
)

MAX_BYTES = 256 * 1024
STATUSES = ("graded", "deferred", "retired")
REGIMES = ("compute", "memory")
STATES = ("kept", "kept-by-precision", "emulated")
LAYERS = ("source", "ptx", "sass", "run")
PROMISE_KINDS = (
    "fp8-products", "authored-compute", "compensated-sum", "int4-packed", "authored-selection",
    "paged-online-softmax", "ragged-offsets",
)  # fmt: skip


def read_problem(path: Path) -> Problem:
    """One problem. Raises DataError naming file and line."""
    data = _read(path)
    fields = Fields(data, str(path), "a problem")
    problem_id = fields.text("id")
    if problem_id != path.parent.name:
        raise fields.fail("id", f"the id `{problem_id}` is not the name of the folder, `{path.parent.name}`")
    status = fields.choice("status", STATUSES)
    reason = fields.text("reason", "" if status == "graded" else None)
    head = {key: fields.text(key) for key in ("title", "precision", "operation")}
    regime = fields.choice("regime", REGIMES)
    targets, properties = fields.texts("targets"), fields.texts("property")
    optional = status != "graded"
    shapes = _shapes(_list(fields, "shapes", optional), str(path))
    contracts = _contracts(fields, shapes, optional)
    promises = _promises(_list(fields, "promises", optional), str(path), contracts)
    work = {key: fields.text(key, "" if optional else None) for key in ("flops", "bytes")}
    for key, formula in work.items():
        if formula:
            _check_formula(fields, key, formula, shapes)
    bans = tuple(_ban(item) for item in _entries(_list(fields, "bans", True), str(path), "a ban"))
    stress = tuple(_stress(item, contracts) for item in _entries(_list(fields, "stress", True), str(path), "a stress"))
    fields.done()
    return Problem(
        id=problem_id, status=status, reason=reason, regime=regime, shapes=shapes, contracts=contracts,
        promises=promises, bans=bans, targets=targets, stress=stress, properties=properties, path=str(path),
        **head, **work,
    )  # fmt: skip


def read_targets(path: Path) -> dict[str, Target]:
    """The GPUs by id. Raises DataError naming file and line."""
    targets: dict[str, Target] = {}
    data = _read(path)
    for target_id, entry in data.items():
        if not isinstance(entry, Map):
            raise DataError(str(path), data.lines[target_id], f"the target `{target_id}` must be a mapping")
        fields = Fields(entry, str(path), f"the target `{target_id}`")
        l2 = fields.take("l2_mib")
        peaks = fields.mapping("peaks")
        targets[target_id] = Target(
            id=target_id,
            sm=fields.text("sm"),
            product=fields.text("product"),
            dram_gbps=_number(fields, "dram_gbps"),
            peaks={name: _plain_number(peaks, name, str(path)) for name in peaks},
            l2_mib=None if l2 is None else _number(fields, "l2_mib"),
            names=tuple(name.lower() for name in fields.texts("names")),
        )
        fields.done()
    return targets


def _read(path: Path) -> Map:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(str(path), 1, f"the file is larger than {MAX_BYTES // 1024} KB")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise DataError(str(path), 1, f"the file cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise DataError(str(path), 1, "the file is not UTF-8 text") from None
    return marked.load(text, str(path))


def _list(fields: Fields, key: str, optional: bool) -> Items:
    if optional and key not in fields.data:
        return Items(fields.data.line)
    return fields.items(key)


def _entries(items: Items, path: str, what: str) -> list[Fields]:
    found = []
    for item, line in zip(items, items.lines, strict=True):
        if not isinstance(item, Map):
            raise DataError(path, line, f"{what} must be a mapping")
        found.append(Fields(item, path, what))
    return found


def _number(fields: Fields, key: str) -> float:
    fields.take(key)
    if key not in fields.data:
        raise DataError(fields.path, fields.data.line, f"{fields.what} needs `{key}`")
    return _plain_number(fields.data, key, fields.path)


def _plain_number(data: Map, key: str, path: str) -> float:
    value = data[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        hint = " (YAML reads 1e-3 as text; write 1.0e-3)" if isinstance(value, str) else ""
        raise DataError(path, data.lines[key], f"`{key}` must be a number, not {value!r}{hint}")
    return float(value)


# --- shapes ------------------------------------------------------------------------------------------------


def _shapes(items: Items, path: str) -> tuple[Shape, ...]:
    shapes: dict[str, Shape] = {}
    wanted: set[str] | None = None
    for item, line in zip(items, items.lines, strict=True):
        if not isinstance(item, Map):
            raise DataError(path, line, "a shape must be a mapping of symbols to values")
        symbols: dict[str, Value] = {}
        for key, value in item.items():
            if key != "label":
                symbols[key] = _symbol(value, path, item.lines[key], key)
        wanted = wanted if wanted is not None else set(symbols)
        if set(symbols) != wanted:
            other = ", ".join(sorted(set(symbols) ^ wanted))
            raise DataError(path, line, f"this shape and the first one do not have the same symbols ({other})")
        label = item.get("label") or _label(symbols)
        if not isinstance(label, str) or label in shapes:
            raise DataError(path, line, f"the shape's label {label!r} must be text that no other shape has")
        shapes[label] = Shape(label, symbols)
    return tuple(shapes.values())


def _symbol(value: Any, path: str, line: int, key: str) -> Value:
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, list) and all(type(part) is int for part in value):
        return tuple(value)
    raise DataError(path, line, f"the symbol `{key}` must be a number, a flag or a list of whole numbers")


def _label(symbols: Mapping[str, Value]) -> str:
    sizes = "x".join(str(value) for value in symbols.values() if type(value) is int)
    return "-".join([sizes, *(name for name, value in symbols.items() if value is True)])


# --- contracts ---------------------------------------------------------------------------------------------


def _contracts(fields: Fields, shapes: tuple[Shape, ...], optional: bool) -> dict[str, Contract]:
    if optional and "contracts" not in fields.data:
        return {}
    contracts: dict[str, Contract] = {}
    table = fields.mapping("contracts")
    for contract_id, entry in table.items():
        if not isinstance(entry, Map):
            raise DataError(fields.path, table.lines[contract_id], f"the contract `{contract_id}` must be a mapping")
        part = Fields(entry, fields.path, f"the contract `{contract_id}`")
        contracts[contract_id] = _contract(contract_id, part, shapes)
    if not contracts:
        raise fields.fail("contracts", "a graded problem needs a contract")
    return contracts


def _contract(contract_id: str, fields: Fields, shapes: tuple[Shape, ...]) -> Contract:
    init = fields.mapping("init")
    for key, formula in init.items():
        _check_formula(Fields(init, fields.path, "`init`"), key, formula, shapes)
    tolerance = fields.mapping("tolerance")
    state = _entries(_list(fields, "state", True), fields.path, "a state entry")
    contract = Contract(
        id=contract_id,
        note=fields.text("note", ""),
        init=dict(init),
        forward=tuple(ArgSpec(*_tensor(f, shapes)) for f in _entries(fields.items("forward"), fields.path, "an input")),
        state=tuple(StateSpec(*_tensor(entry, shapes)) for entry in state),
        output=tuple(_output(f, shapes) for f in _entries(fields.items("output"), fields.path, "an output")),
        tolerance={dtype: _plain_number(tolerance, dtype, fields.path) for dtype in tolerance},
    )
    for spec in contract.output:
        if spec.dtype in dtypes.FLOATS and spec.dtype not in tolerance:
            raise fields.fail("tolerance", f"an output is {spec.dtype}, for which there is no tolerance")
    given = {spec.dtype for spec in contract.output}
    for dtype in tolerance:
        if dtype not in given:
            line = tolerance.lines[dtype]
            raise DataError(fields.path, line, f"no output is {dtype}, so this tolerance is never used")
    fields.done()
    return contract


def _tensor(fields: Fields, shapes: tuple[Shape, ...]) -> tuple[str, str, tuple[Formula, ...], dict[str, Any]]:
    name = fields.text("name")
    dtype, sizes = _dtype(fields), _sizes(fields, shapes)
    domain = fields.take("domain", {})
    if not isinstance(domain, dict) or (domain and not isinstance(domain.get("kind"), str)):
        raise fields.fail("domain", f"the domain of `{name}` must be a mapping with a `kind`")
    if domain.get("kind") == "constant":
        _check_formula(Fields(cast(Map, domain), fields.path, "the domain"), "value", domain.get("value"), shapes)
    fields.done()
    return name, dtype, sizes, dict(domain)


def _output(fields: Fields, shapes: tuple[Shape, ...]) -> OutputSpec:
    spec = OutputSpec(_dtype(fields), _sizes(fields, shapes), fields.text("name", ""))
    fields.done()
    return spec


def _dtype(fields: Fields) -> str:
    dtype = fields.text("dtype")
    if dtype not in dtypes.BITS:
        raise fields.fail("dtype", f"`{dtype}` is not an element type (bf16, f32, e4m3, i32, u8, ...)")
    return dtype


def _sizes(fields: Fields, shapes: tuple[Shape, ...]) -> tuple[Formula, ...]:
    sizes = fields.items("shape")
    for size, line in zip(sizes, sizes.lines, strict=True):
        if isinstance(size, bool) or not isinstance(size, (int, str)):
            raise DataError(fields.path, line, f"the size {size!r} must be a whole number or a formula")
        try:
            for shape in shapes:
                evaluate_int(size, shape.symbols)
        except FormulaError as error:
            raise DataError(fields.path, line, str(error)) from None
    return tuple(sizes)


def _check_formula(fields: Fields, key: str, formula: Any, shapes: tuple[Shape, ...]) -> None:
    if isinstance(formula, bool) or not isinstance(formula, (int, float, str)):
        raise fields.fail(key, f"`{key}` must be a number or a formula")
    try:
        names(formula)
        for shape in shapes:
            evaluate(formula, shape.symbols)
    except FormulaError as error:
        raise fields.fail(key, str(error)) from None


# --- promises, bans, stress ----------------------------------------------------------------------------------


def _promises(items: Items, path: str, contracts: Mapping[str, Contract]) -> tuple[Promise, ...]:
    promises: list[Promise] = []
    taken: set[tuple[str, str]] = set()
    for fields in _entries(items, path, "a promise"):
        promise = _promise(fields, contracts)
        for contract in promise.contracts or tuple(contracts):
            if (promise.id, contract) in taken:
                raise fields.fail("id", f"the contract `{contract}` has the promise `{promise.id}` twice")
            taken.add((promise.id, contract))
        promises.append(promise)
    return tuple(promises)


def _promise(fields: Fields, contracts: Mapping[str, Contract]) -> Promise:
    promise = Promise(
        id=fields.text("id"),
        kind=fields.choice("kind", PROMISE_KINDS),
        text=fields.text("text"),
        quantifier=cast(Quantifier, fields.choice("quantifier", ("every", "some"))),
        accepts=_words(fields, "accepts", STATES),
        settled_by=_words(fields, "settled_by", LAYERS),
        contracts=_words(fields, "contracts", tuple(contracts)) if "contracts" in fields.data else (),
        params=dict(fields.mapping("params")) if "params" in fields.data else {},
    )
    known = _tensor_names(contracts)
    for key in ("narrow", "inputs", "packed", "must_read", "scales", "over", "select_from"):
        for name in promise.params.get(key, ()):
            if name not in known:
                raise fields.fail("params", f"`{key}` names `{name}`, which is neither an input nor state")
    fields.done()
    return promise


def _tensor_names(contracts: Mapping[str, Contract]) -> set[str]:
    inputs = {spec.name for contract in contracts.values() for spec in contract.forward}
    return inputs | {spec.name for contract in contracts.values() for spec in contract.state}


def _words(fields: Fields, key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    words = fields.texts(key)
    if not words:
        raise fields.fail(key, f"{fields.what} needs `{key}`")
    for word in words:
        if word not in allowed:
            raise fields.fail(key, f"`{key}` holds `{word}`; it may hold {', '.join(allowed)}")
    return words


def _ban(fields: Fields) -> Ban:
    ban = Ban(fields.text("symbol"), fields.texts("aliases"), fields.text("reason", ""))
    fields.done()
    return ban


def _stress(fields: Fields, contracts: Mapping[str, Contract]) -> Stress:
    scale = fields.mapping("scale")
    known = _tensor_names(contracts)
    for name in scale:
        if name not in known:
            raise DataError(fields.path, scale.lines[name], f"`{name}` is neither an input nor state")
    factors = {name: _plain_number(scale, name, fields.path) for name in scale}
    stress = Stress(fields.text("id"), factors, _number(fields, "atol"), _number(fields, "rtol"))
    fields.done()
    return stress
