"""Reading `problem.yaml` into the types of `problems.model`, strictly: its head, shapes and contracts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from kbh_lint import marked
from kbh_lint.base import dtypes
from kbh_lint.base.formulas import Formula, FormulaError, Value, evaluate_int
from kbh_lint.marked import DataError, Fields, Items, Map
from kbh_lint.problems.checks import (
    check_formula,
    contract_tolerance,
    entries,
    optional_items,
    read_cases,
    read_compare,
    read_domain,
    read_legal,
    read_narrowest,
    read_stress,
    read_text,
)
from kbh_lint.problems.hardware import joined
from kbh_lint.problems.model import (
    ArgSpec,
    Argument,
    Ban,
    Contract,
    EntryPoint,
    OutputSpec,
    Problem,
    Promise,
    Shape,
    StateSpec,
)
from kbh_lint.problems.promises import read_ban, read_promises

MAX_LIST = 64  # tensors in one argument of an entry point
STATUSES = ("graded", "deferred", "retired")
REGIMES = ("compute", "memory")
SHAPE_REGIMES = (*REGIMES, "mixed")
WORK_KINDS = ("tensor", "elementwise")


def read_problem(path: Path) -> Problem:
    """One problem. Raises DataError naming file and line."""
    return _problem(read_text(path), path)


@lru_cache(maxsize=64)
def _problem(text: str, path: Path) -> Problem:
    """The file is read whenever it is asked for, but the same text is parsed once in a process."""
    return problem_of(marked.load(text, str(path)), path)


def problem_of(data: Map, path: Path) -> Problem:
    """The problem that the mapping of a `problem.yaml` describes. Raises DataError naming file and line."""
    fields = Fields(data, str(path), "a problem")
    problem_id = fields.text("id")
    if problem_id != path.parent.name:
        raise fields.fail("id", f"the id `{problem_id}` is not the name of the folder, `{path.parent.name}`")
    status = fields.choice("status", STATUSES)
    reason = fields.text("reason", "" if status == "graded" else None)
    head = {key: fields.text(key) for key in ("title", "precision", "operation")}
    regime = fields.choice("regime", REGIMES)
    targets = joined(fields.texts("targets"), path.parent.parent)
    optional = status != "graded"
    shapes = _shapes(_list(fields, "shapes", optional), str(path), regime)
    reduced = _reduced(fields, shapes, regime)
    contracts = _contracts(fields, shapes + reduced, optional)
    promises = read_promises(_list(fields, "promises", optional), str(path), contracts, targets, shapes)
    work = {key: fields.text(key, "" if optional else None) for key in ("flops", "bytes")}
    for key, formula in work.items():
        if formula:
            check_formula(fields, key, formula, shapes + reduced)
    bans = tuple(read_ban(item) for item in entries(optional_items(fields, "bans"), str(path), "a ban"))
    stress, cases = read_stress(fields, contracts), read_cases(fields, contracts)
    legal, narrowest = read_legal(fields), read_narrowest(fields)
    kind, form = fields.choice("work", WORK_KINDS, "tensor"), fields.text("form", "")
    fields.done()
    return Problem(
        id=problem_id, status=status, reason=reason, regime=regime, shapes=shapes, reduced=reduced,
        contracts=contracts, promises=promises, bans=bans, targets=targets, stress=stress, cases=cases, legal=legal,
        narrowest=narrowest, whole=True,
        work_kind=kind, form=form, path=str(path), **head, **work,
    )  # fmt: skip


def parts_of(
    fields: Fields, path: Path, contracts: Mapping[str, Contract]
) -> tuple[tuple[Promise, ...], tuple[Ban, ...], dict[str, str]]:
    """`promises`, `bans` and `narrowest` of a YAML that stands beside a problem file. Raises DataError."""
    promises = read_promises(optional_items(fields, "promises"), str(path), contracts, (), ())
    bans = tuple(read_ban(item) for item in entries(optional_items(fields, "bans"), str(path), "a ban"))
    return promises, bans, read_narrowest(fields)


def entry_contract(fields: Fields) -> tuple[tuple[Shape, ...], Contract, str]:
    """Shapes, contract and `flops` (a formula, or nothing) of a deck whose graders call `entry`: a function, or
    `Class.method`. Raises DataError."""
    entry = fields.text("entry")
    if not all(part.isidentifier() for part in entry.split(".")) or entry.count(".") > 1:
        raise fields.fail("entry", f"`{entry}` must be the name of a function, or `Class.method`")
    shapes = _shapes(fields.items("shapes"), fields.path, "mixed")
    if not shapes:
        raise fields.fail("shapes", "an entry point needs a shape")
    init = fields.mapping("init") if "init" in fields.data else Map(1)
    for key, formula in init.items():
        check_formula(Fields(init, fields.path, "`init`"), key, formula, shapes)
    inputs: dict[str, ArgSpec] = {}
    given = [_argument(part, shapes, inputs) for part in entries(fields.items("arguments"), fields.path, "an argument")]
    names = [one.name for one in given]
    if len(set(names)) < len(names):
        raise fields.fail("arguments", "two arguments have the same name")
    state = fields.texts("state") if "state" in fields.data else ()
    for name in state:
        if not any(one.name == name and one.tensors for one in given):
            raise fields.fail("state", f"`state` holds `{name}`, which is no argument that has tensors")
    if init and "." not in entry and not any(one.kind == "model" for one in given):
        raise fields.fail("init", "`init` needs an `entry` that is a method, or an argument that is a `model`")
    call = EntryPoint(entry, tuple(given), state)
    contract = Contract(
        id=entry, init=dict(init), forward=tuple(inputs.values()), state=(), output=(), tolerance={}, call=call
    )
    flops = fields.text("flops", "")
    if flops:
        check_formula(fields, "flops", flops, shapes)
    return shapes, contract, flops


ARGUMENT_KINDS = ("dtype", "value", "model", "items")  # the key that says what an argument is


def _argument(fields: Fields, shapes: tuple[Shape, ...], inputs: dict[str, ArgSpec]) -> Argument:
    """One argument; its tensors are added to `inputs`."""
    name = fields.text("name")
    said = [key for key in ARGUMENT_KINDS if key in fields.data]
    if len(said) != 1:
        words = ", ".join(f"`{key}`" for key in ARGUMENT_KINDS)
        raise fields.fail("name", f"the argument `{name}` must have exactly one of {words}")
    if said == ["value"]:
        value = fields.take("value")
        check_formula(Fields(fields.data, fields.path, f"the argument `{name}`"), "value", value, shapes)
        made = Argument(name, "value", value=value)
    elif said == ["model"]:
        made = Argument(name, "model", cls=fields.text("model"))
    elif said == ["items"]:
        table = fields.mapping("items")
        if not table:
            raise fields.fail("items", f"`items` of the argument `{name}` must name a tensor")
        for key, part in table.items():
            if not isinstance(part, Map):
                raise DataError(
                    fields.path, table.lines[key], f"the item `{key}` must be a mapping with dtype and shape"
                )
            inner = Fields(part, fields.path, f"the item `{key}`")
            _add(inputs, f"{name}.{key}", inner, shapes)
            inner.done()
        made = Argument(name, "dict", {key: f"{name}.{key}" for key in table})
    else:
        count = fields.take("many")
        if count is not None and (type(count) is not int or not 1 <= count <= MAX_LIST):
            raise fields.fail("many", f"`many` must be a whole number from 1 to {MAX_LIST}")
        names = [name] if count is None else [f"{name}[{i}]" for i in range(count)]
        for one in names:
            _add(inputs, one, fields, shapes)
        made = Argument(name, "tensor" if count is None else "list", dict(enumerate(names)))
    fields.done()
    return made


def _add(inputs: dict[str, ArgSpec], name: str, fields: Fields, shapes: tuple[Shape, ...]) -> None:
    domain = read_domain(fields, name, shapes) if "domain" in fields.data else {}
    inputs[name] = ArgSpec(name, _dtype(fields), _sizes(fields, shapes), domain)


def read_map(path: Path) -> Map:
    """The mapping in a YAML file of bounded size. Raises DataError."""
    return marked.load(read_text(path), str(path))


# --- shapes ------------------------------------------------------------------------------------------------


def _list(fields: Fields, key: str, optional: bool) -> Items:
    return optional_items(fields, key) if optional else fields.items(key)


def _shapes(items: Items, path: str, regime: str) -> tuple[Shape, ...]:
    shapes: dict[str, Shape] = {}
    wanted: set[str] | None = None
    for item, line in zip(items, items.lines, strict=True):
        if not isinstance(item, Map):
            raise DataError(path, line, "a shape must be a mapping of symbols to values")
        symbols: dict[str, Value] = {}
        for key, value in item.items():
            if key not in ("label", "regime"):
                symbols[key] = _symbol(value, path, item.lines[key], key)
        wanted = wanted if wanted is not None else set(symbols)
        if set(symbols) != wanted:
            other = ", ".join(sorted(set(symbols) ^ wanted))
            raise DataError(path, line, f"this shape and the first one do not have the same symbols ({other})")
        label = item.get("label") or _label(symbols)
        if not isinstance(label, str) or label in shapes:
            raise DataError(path, line, f"the shape's label {label!r} must be text that no other shape has")
        bound = item.get("regime", regime)
        if bound not in SHAPE_REGIMES:
            raise DataError(path, line, f"the shape's regime must be one of {', '.join(SHAPE_REGIMES)}, not {bound!r}")
        shapes[label] = Shape(label, symbols, bound)
    return tuple(shapes.values())


def _reduced(fields: Fields, shapes: tuple[Shape, ...], regime: str) -> tuple[Shape, ...]:
    """The reduced shapes under the labels of the graded ones, whose order they must follow."""
    items = optional_items(fields, "reduced")
    if not items:
        return ()
    if len(items) != len(shapes):
        raise fields.fail("reduced", f"`reduced` has {len(items)} shapes; it needs one for each of the {len(shapes)}")
    found = []
    for position, (item, line, shape) in enumerate(zip(items, items.lines, shapes, strict=True)):
        if isinstance(item, Map) and {"label", "regime"} & item.keys():
            raise DataError(
                fields.path, line, "a reduced shape has neither label nor regime: it takes the graded one's"
            )
        part = Items(items.line)
        part.append(item)
        part.lines.append(line)
        symbols = _shapes(part, fields.path, regime)[0].symbols
        if set(symbols) != set(shape.symbols):
            other = ", ".join(sorted(set(symbols) ^ set(shape.symbols)))
            raise DataError(
                fields.path, line, f"reduced shape {position + 1} has not the graded shape's symbols ({other})"
            )
        found.append(Shape(shape.label, symbols, shape.regime))
    return tuple(found)


def _symbol(value: object, path: str, line: int, key: str) -> Value:
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
        check_formula(Fields(init, fields.path, "`init`"), key, formula, shapes)
    state = entries(optional_items(fields, "state"), fields.path, "a state entry")
    output = tuple(_output(f, shapes) for f in entries(fields.items("output"), fields.path, "an output"))
    compare = read_compare(fields, output)
    contract = Contract(
        id=contract_id,
        note=fields.text("note", ""),
        init=dict(init),
        forward=tuple(ArgSpec(*_tensor(f, shapes)) for f in entries(fields.items("forward"), fields.path, "an input")),
        state=tuple(StateSpec(*_tensor(entry, shapes)) for entry in state),
        output=output,
        tolerance=contract_tolerance(fields, output, compare),
        compare=compare,
    )
    fields.done()
    return contract


def _tensor(fields: Fields, shapes: tuple[Shape, ...]) -> tuple[str, str, tuple[Formula, ...], dict[str, Any]]:
    name = fields.text("name")
    dtype, sizes = _dtype(fields), _sizes(fields, shapes)
    domain = read_domain(fields, name, shapes)
    fields.done()
    return name, dtype, sizes, domain


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
