"""KernelBench problems: a file with `Model`, `get_inputs` and `get_init_inputs`, read and never run.

The host interpreter calls the two functions, constructs `Model` and follows `forward`: shapes, element types,
constructor arguments and what the reference does come from that. What it cannot follow leaves the problem without a
contract, and a submission unproven. A YAML of the same name beside the file, or given in its place, adds bans and
promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from kbh_lint.analyses.flow import Slice, last_call, reach
from kbh_lint.analyses.outputs import tensors
from kbh_lint.analyses.products import effective_bits
from kbh_lint.analyses.reference import Traits, live_weights, traits
from kbh_lint.analyses.work import category, on_inputs
from kbh_lint.base import ir
from kbh_lint.base.dtypes import BITS, FLOATS, TYPES
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Func
from kbh_lint.findings import State
from kbh_lint.frontends import python
from kbh_lint.host.explore.exploration import exception, run_path
from kbh_lint.host.libs import trace_nn
from kbh_lint.host.run import Run
from kbh_lint.host.values.frames import Frame, OutOfFuel, Raised
from kbh_lint.host.values.objects import ClassV, Instance
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import Tensor
from kbh_lint.marked import Fields, Map
from kbh_lint.problems import ArgSpec, Binding, Contract, Problem, Promise, Shape, StateSpec, TensorSpec
from kbh_lint.problems.files import entry_contract, parts_of, read_map
from kbh_lint.problems.promise_kinds import PromiseKind
from kbh_lint.source.profiles import KERNELBENCH, PRECISIONS, PROFILES, Profile

MAX_BYTES = 1_000_000
CONTRACT = LABEL = "get_inputs"
CAPABILITY = (9, 0)
_KEPT: tuple[State, ...] = ("kept",)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A problem file: the problem, without shapes when there is a `hole` (a sentence), and what its reference does."""

    path: Path
    problem: Problem
    reference: Traits
    hole: str = ""


class _Hole(Exception):
    """Something that could not be read; the text is one sentence."""


def load(path: Path, profile: Profile = KERNELBENCH, precision: str = "") -> Loaded:
    """The problem of a `.py` file or of the `.yaml` beside it, as a benchmark runs it, which may convert inputs and
    weights to a `precision` (fp32, fp16, bf16). Raises DataError for a malformed YAML."""
    source, extra = path.with_suffix(".py"), path.with_suffix(".yaml")
    stamps = tuple(
        (file.stat().st_mtime_ns, file.stat().st_size) if file.is_file() else None for file in (source, extra)
    )
    return _load(source, extra, profile.id, PRECISIONS.get(precision, ""), stamps)


@lru_cache(maxsize=8)
def _load(source: Path, extra: Path, profile: str, dtype: str, stamps: object) -> Loaded:
    fields = Fields(read_map(extra) if extra.is_file() else Map(1), str(extra), "the problem's YAML")
    try:
        entry = _entry_problem(fields, extra) if "entry" in fields.data else None
        problem, reference = (entry, Traits()) if entry is not None else _read(source, PROFILES[profile], dtype)
        hole = ""
    except _Hole as error:
        problem, reference, hole = _empty(source), Traits(), str(error)
    return Loaded(source, _with_extra(problem, fields, extra, not hole), reference, hole)


def _with_extra(problem: Problem, fields: Fields, extra: Path, readable: bool) -> Problem:
    """The problem with the YAML's keys: authored, promises, bans, narrowest, precision."""
    whole = problem.whole
    if "authored" in fields.data:
        whole = fields.choice("authored", ("every", "some")) == "every"
    if not readable:
        fields = Fields(Map(1), str(extra), "the problem's YAML")  # its names cannot be checked against anything
    promises, bans, said = parts_of(fields, extra, problem.contracts)
    narrowest = {**problem.narrowest, **said}
    precision = fields.text("precision", problem.precision)
    fields.done()
    if not any(promise.kind == PromiseKind.AUTHORED_COMPUTE for promise in promises):
        promises = (_authored(whole), *promises)
    kept = (*problem.promises, *promises) if readable else ()
    return replace(problem, whole=whole, promises=kept, bans=bans, narrowest=narrowest, precision=precision)


def _entry_problem(fields: Fields, path: Path) -> Problem:
    """The problem of a deck that names an entry point of its own, from the YAML alone."""
    shapes, contract, flops = entry_contract(fields)
    known = {contract.id: contract}
    problem = replace(_empty(path), shapes=shapes, contracts=known, precision=_precision(contract), flops=flops)
    return replace(problem, whole=False, promises=_state_promises(contract))


def _state_promises(contract: Contract) -> tuple[Promise, ...]:
    """That the result depends on the state that a caller hands in."""
    call = contract.call
    handed = [given for given in call.arguments if given.name in call.state] if call is not None else []
    read = [name for given in handed for name in given.tensors.values()]
    if not read:
        return ()
    text = "The state that is handed in decides the result."
    return (
        Promise(
            "reads-state", PromiseKind.RAGGED_OFFSETS, text, "every", _KEPT, ("source",), params={"must_read": read}
        ),
    )


def _authored(whole: bool) -> Promise:
    text = (
        "The operation runs in kernels of the submission."
        if whole
        else "Kernels of the submission do some of the work."
    )
    return Promise(
        "authored-compute", PromiseKind.AUTHORED_COMPUTE, text, "every", _KEPT, ("source",),
        params={} if whole else {"work": "some"},
    )  # fmt: skip


def _empty(source: Path) -> Problem:
    return Problem(source.stem, source.stem, "graded", "mixed", "", "", path=str(source))


# --- reading -----------------------------------------------------------------------------------------------


def _read(source: Path, profile: Profile, dtype: str) -> tuple[Problem, Traits]:
    session = Session(_lowered(source), {}, CAPABILITY)
    try:
        contract = _contract(session, profile, dtype)
    except Raised as raised:
        raise _Hole(f"it raises {exception(raised.value)}") from None
    except (OutOfFuel, RecursionError):
        raise _Hole("it does not come to an end within the bounds") from None
    problem = replace(
        _empty(source),
        shapes=(Shape(LABEL, {}, "mixed"),),
        contracts={CONTRACT: contract},
        precision=_precision(contract),
    )
    own = replace(problem, contracts={CONTRACT: replace(contract, entry=("Model",))})
    run = run_path(session, own, None, {})
    if not run.shapes or not run.shapes[0].calls:
        why = run.failed or (run.shapes[0].stopped if run.shapes else "")
        raise _Hole(f"Model.forward cannot be followed ({why or 'for no known reason'})")
    found = reach(last_call(run.shapes[0]))
    if not found.events:
        raise _Hole("nothing that makes Model's result could be followed")
    steps = [e for e in found.events if e.kind in ("op", "library") and on_inputs(e)]
    assert contract.made is not None
    made = replace(contract.made, outputs=_outputs(last_call(run.shapes[0])))
    contracts = {CONTRACT: replace(contract, made=made)}
    narrowest = _narrowest(contract, found, profile)
    known = replace(problem, contracts=contracts, flops=_operations(found), whole=len(steps) == 1, narrowest=narrowest)
    return known, replace(traits(found), weights=live_weights(run.shapes[0], found))


def _lowered(source: Path) -> ir.Module:
    """A file's Python; what is wrong with it is a hole."""
    try:
        if source.stat().st_size > MAX_BYTES:
            raise _Hole(f"it is larger than {MAX_BYTES // 1_000_000} MB")
        return python.lower(source.read_text(encoding="utf-8"), str(source))
    except OSError as error:
        raise _Hole(f"the file cannot be opened ({(error.strerror or 'unknown error').lower()})") from None
    except (SyntaxError, ValueError) as error:
        raise _Hole(f"line {getattr(error, 'lineno', None) or 1} is not Python") from None
    except (python.TooDeep, RecursionError, MemoryError):
        raise _Hole("it nests too deeply") from None


def _operations(found: Slice) -> str:
    """How many operations the library calls on inputs take, as a formula; empty where none is known."""
    heavy = [e for e in found.events if e.kind == "library" and on_inputs(e) and category(e) != "other"]
    counts = [(event.attrs.get("flops"), event.weight) for event in heavy]
    total = sum(count * weight for count, weight in counts if isinstance(count, int))
    return str(total) if total else ""


def _outputs(result: object) -> tuple[TensorSpec, ...]:
    """What the reference returns; nothing when any of it is not known."""
    try:
        return tuple(_tensor("the result", "", value) for value in tensors(result) if isinstance(value, Tensor))
    except _Hole:
        return ()


def _narrowest(contract: Contract, found: Slice, profile: Profile) -> dict[str, str]:
    """What products may not be narrower than: the narrowest that stands for a type that the reference is given or
    converts to. Nothing where one of these has eight bits or fewer: how quantised numbers multiply is the answer's.
    """
    given = {spec.dtype for specs in (contract.forward, contract.state) for spec in specs}
    given |= {content.dtype for event in found.events for content in event.writes}
    known = [profile.operands[dtype] for dtype in given & profile.operands.keys()]
    if not known or any(BITS.get(dtype, 32) <= 8 and dtype != "bool" for dtype in given):
        return {}
    return {"operands": min(known, key=lambda dtype: effective_bits(dtype) or 0)}


def _contract(session: Session, profile: Profile, dtype: str) -> Contract:
    """Constructor arguments, inputs and state, from `get_init_inputs`, `get_inputs` and `Model`."""
    interp = Run(session, {})
    interp.training = profile.training
    frame = Frame(interp.scopes.main, interp.scopes.main, None, None)
    interp.block(session.module.body, frame)
    known = interp.scopes.main.vars
    cls = known.get("Model")
    if not isinstance(cls, ClassV):
        raise _Hole("it has no class Model")
    init = _called(interp, known, "get_init_inputs", required=False)
    for position, value in enumerate(init):
        if not _plain(value):
            raise _Hole(f"argument {position + 1} of get_init_inputs is not a plain value")
    given = _called(interp, known, "get_inputs", required=True)
    names = _parameters(cls, len(given))
    inputs: list[TensorSpec] = []
    values: dict[int, Any] = {}
    for position, (name, value) in enumerate(zip(names, given, strict=True)):
        if isinstance(value, Tensor):
            inputs.append(_converted(_tensor(f"argument {position + 1} of get_inputs", name, value), dtype))
        elif _plain(value):
            values[position] = value
        else:
            raise _Hole(f"argument {position + 1} of get_inputs is neither a tensor nor a plain value")
    model = interp.call(cls, list(init), {}, None)
    if not isinstance(model, Instance):
        raise _Hole("Model(...) does not make an object that can be followed")
    held = trace_nn.state_of(model)
    state = [_converted(_tensor(f"the state {name}", name, tensor), dtype) for name, tensor in held.items()]
    shape = Shape(LABEL, {}, "mixed")
    return Contract(
        id=CONTRACT,
        init={},
        forward=tuple(ArgSpec(spec.name, spec.dtype, spec.shape) for spec in inputs),
        state=tuple(StateSpec(spec.name, spec.dtype, spec.shape) for spec in state),
        output=(),
        tolerance={},
        entry=profile.entry,
        weights=profile.weights,
        training=profile.training,
        converts=dtype,
        made=Binding(
            shape, {f"argument {i}": value for i, value in enumerate(init)}, tuple(inputs),
            {spec.name: spec for spec in state}, (), values,
        ),
    )  # fmt: skip


def _converted(spec: TensorSpec, dtype: str) -> TensorSpec:
    """A tensor in the precision of the run, where it is of floating point."""
    return replace(spec, dtype=dtype) if dtype and spec.dtype in FLOATS else spec


def _called(interp: Run, known: Mapping[str, object], name: str, *, required: bool) -> list[Any]:
    """What one of the two functions returns."""
    func = known.get(name)
    if not isinstance(func, Func):
        if required:
            raise _Hole(f"it has no function {name}")
        return []
    found = interp.call(func, [], {}, None)
    if not isinstance(found, (list, tuple)):
        raise _Hole(f"{name} does not return a list that can be read")
    return list(found)


def _parameters(cls: ClassV, count: int) -> list[str]:
    """Names for the arguments of `forward`, from its signature as far as it goes."""
    try:
        forward = cls.find("forward")
    except KeyError:
        raise _Hole("its class Model has no forward") from None
    params = forward.node.params[1:] if isinstance(forward, Func) else ()
    names = [param.name for param in params if param.kind == "positional"][:count]
    return names + [f"input{position}" for position in range(len(names), count)]


def _tensor(what: str, name: str, tensor: Tensor) -> TensorSpec:
    sizes = tensor.shape
    if sizes is None or not all(type(size) is int for size in sizes):
        raise _Hole(f"the sizes of {what} are not known")
    if tensor.dtype not in BITS:
        raise _Hole(f"the element type of {what} is not known")
    return TensorSpec(name, tensor.dtype, tuple(sizes))


def _plain(value: object, depth: int = 0) -> bool:
    """Whether a value is one of Python's own, all the way down."""
    if isinstance(value, (list, tuple)):
        return depth < 6 and all(_plain(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return depth < 6 and all(_plain(item, depth + 1) for pair in value.items() for item in pair)
    return value is None or type(value) in (bool, int, float) or isinstance(value, str)


def _precision(contract: Contract) -> str:
    """The problem's precision as people call it: that of the first input of floating point."""
    for dtype in [spec.dtype for spec in contract.forward] + [spec.dtype for spec in contract.state]:
        if dtype in FLOATS and TYPES[dtype].group:
            return TYPES[dtype].group
    return "fp32"
