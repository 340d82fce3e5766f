"""Further calls of `forward` after the two of every run, made when something survives: under which key is it found?

- `same`: nothing changed. What is computed then is computed on every call.
- `doubted`: the same, and what only calls after the second one ask and nobody can tell is answered the other way.
- `fresh`: other tensors in other memory. What still comes from the first ones is found by nothing that tells tensors
  apart.
- `one`: only one input is another tensor.
- `alone`: only one input changes in place, where versions of tensors were asked for.
- `reused`: other tensors where dead ones lay, with the address, the id() and the version count that those had.
- `collision`: contents change in place, and every sum or sample of them stays what it was.
- `later`: counters of calls stand where they stand after a long time, and contents change in place.
- `undecided`: the same, with the other answers of `doubted`.

The calls come after everything else that is looked at; what they do to the model touches no other fact.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Value
from kbh_lint.host.explore import ageing
from kbh_lint.host.python.lanes import Lanes
from kbh_lint.host.torch import recording
from kbh_lint.host.values import escapes, path_runs, tensor_arguments
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.cpp_objects import Pointer
from kbh_lint.host.values.decisions import FOUND, Later
from kbh_lint.host.values.escapes import CODE, EscapedState
from kbh_lint.host.values.frames import OutOfFuel, Raised
from kbh_lint.host.values.objects import Graph, HostDescriptor, Instance, LibObject, NamedTuple, is_named_tuple
from kbh_lint.host.values.tensors import Content, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

FUEL = 200_000
MAX_KEPT = 100
_LEGAL = ("whole", "drawn", "fixed", "rising", "apart")  # notes that hold of every legal, or drawn, value of an input
MAX_ANSWERS = 3  # calls in a row that answer otherwise, each what the one before has asked
ROLES = frozenset(
    ("graph", "held-input", "derived", "output", "value", "descriptor", "reference")
)  # that tell of inputs


def probe(
    interp: Run, run: path_runs.ShapeRun, model: Value, seen: list[list[EscapedState]], holder: object = None
) -> None:
    """Calls `forward` again with other inputs or addresses, where state has outlived a call, to see when it is reused.
    `seen` are the places that hold state (attributes, globals, cache entries) before the first call and after each
    call, as found in `holder`: the model, unless an entry point is called."""
    before, first, second = seen
    for slot in changed(before, second):
        said = role(interp, run, slot, first)
        if said and len(run.survived) < MAX_KEPT:
            content = slot.value.storage.content if isinstance(slot.value, Tensor) else None
            event = content.event if content is not None else None
            keys = escapes.key_kinds(slot.value) if said == "reference" else slot.keys
            run.survived.append(path_runs.Kept(slot.path, said, keys, event.loc if event is not None else None))
    counters = ageing.counters(before, first, second)
    telling = any(k.role in ROLES for k in run.survived)
    last = run.calls[-1]
    foreign = any(c.storage.ident in interp.memory.given - last.given.keys() for e in last.events for c, _ in e.reads)
    telling = telling or foreign or interp.memory.cut  # a graph or a pointer of an earlier model's calls is in use
    telling = telling or not counters and _other_numbers(run.calls)  # which else may be what is counted
    results = tensor_arguments.tensors_in(last.result) if interp.memory.versions else ()
    telling = telling or any(escapes.holds(first, tensor) for tensor in results)  # weights changed between calls, too
    if not telling and not counters:
        return
    kept = _Kept(interp)
    interp.refuel(FUEL)
    interp.trace.unread, interp.lanes = [], Lanes()
    try:
        _calls(interp, run, model, telling, counters, model if holder is None else holder)
    except (Raised, OutOfFuel, RecursionError):
        pass  # what was seen until then holds
    finally:
        for counter in counters:
            counter.put(counter.now)
        kept.put_back()


def _other_numbers(calls: Sequence[path_runs.Call]) -> bool:
    """Whether a launch is given another number in the second call than in the first, such as a version."""
    launches = [[event for event in call.events if event.kind == "launch"] for call in calls[-2:]]
    return len(launches) > 1 and any(
        one.name == other.name and one.given_numbers() != other.given_numbers()
        for one, other in zip(*launches, strict=False)
    )


class _Kept:
    """The state of an interpreter before the probes, to be restored after them."""

    def __init__(self, interp: Run) -> None:
        self.interp = interp
        self.memory = [
            (view.storage, view.storage.content, view.storage.version) for view in interp.memory.views.values()
        ]
        self.unread, self.lanes = interp.trace.unread, interp.lanes
        self.lengths = [(items, len(items)) for items in (interp.trace.notes, interp.process.children)]
        decided = interp.decisions
        self.sites, self.mixed = dict(decided.sites), set(decided.mixed)
        self.settled, self.places = dict(decided.settled), dict(decided.places)
        self.hooks = {name: list(values) for name, values in interp.process.hooks.items()}

    def put_back(self) -> None:
        """Restores the run's state as it was before the probe."""
        self.interp.memory.colliding = False
        self.interp.process.hooks = self.hooks
        self.interp.trace.unread, self.interp.lanes = self.unread, self.lanes
        decided = self.interp.decisions
        decided.sites, decided.mixed = self.sites, self.mixed
        decided.settled, decided.places = self.settled, self.places
        for items, length in self.lengths:
            del items[length:]
        for storage, content, version in self.memory:
            storage.content, storage.version = content, version


def changed(before: list[EscapedState], after: list[EscapedState]) -> list[EscapedState]:
    """Returns the places in which calls stored something."""
    after = [s for s in after if not isinstance(s.value, escapes.Length)]
    objects = {id(s.value) for s in before if not isinstance(s.value, (int, float))}
    numbers = {(s.path, s.value) for s in before if isinstance(s.value, (int, float))}
    return [
        s
        for s in after
        if (
            (s.path, s.value) not in numbers
            if isinstance(s.value, (int, float))
            else id(s.value) not in objects or isinstance(s.value, Tensor) and s.value.storage.content.call > 0
        )
    ]


def role(interp: Run, run: path_runs.ShapeRun, slot: EscapedState, first: list[EscapedState]) -> str:
    """Returns what a place is kept for ("code", "graph", "value" and others); empty for the weights themselves."""
    value = slot.value
    given = {t.storage.ident for t in run.inputs.values()}
    if isinstance(value, CODE):
        return "code"
    if isinstance(value, Graph):
        return "graph"
    if isinstance(value, Tensor):
        return _role_of(run, value, given, first)
    if isinstance(value, Unknown):
        return "value" if _of_inputs(value.contents) else "number"
    if isinstance(value, (HostDescriptor, Pointer)):
        return "descriptor" if value.tensor.storage.ident in given else "code"
    tensor = escapes.refers(interp, value)
    return "reference" if tensor is not None and tensor.storage.ident in given else "number"


def _role_of(run: path_runs.ShapeRun, tensor: Tensor, given: set[int], first: list[EscapedState]) -> str:
    content = tensor.storage.content
    if tensor.storage.ident in given:
        return "held-input"
    if any(tensor.storage is t.storage for t in run.state.values()):
        return ""
    known = outside([content])
    if not known:
        return "workspace"
    if not _of_inputs([content]):
        return "layout"
    if content.call == 2 and any(isinstance(s.value, Tensor) and s.value.storage is tensor.storage for s in first):
        return "workspace"
    return (
        "output"
        if tensor.storage in [t.storage for t in tensor_arguments.tensors_in(run.calls[-1].result)]
        else "derived"
    )


def _of_inputs(contents: Sequence[Content]) -> bool:
    return any(label.startswith("input:") for label in outside(contents, until="input:"))


def _calls(
    interp: Run, run: path_runs.ShapeRun, model: Value, telling: bool, counters: list[ageing.Counter], holder: object
) -> None:
    inputs = dict(run.inputs)
    call = _Caller(interp, run, model, counters)
    decisions = interp.decisions
    before = decisions.decided.keys() - decisions.late
    if telling:
        call("same", inputs)
        asked = decisions.decided.keys() - before
        _alone(interp, call, inputs)
        inputs = {name: fresh(interp, name, old) for name, old in inputs.items()}
        call("fresh", inputs)
        if any("version" in kept.keys for kept in run.survived):  # new tensors all start at the same version
            inputs = {name: fresh(interp, name, old) for name, old in inputs.items()}
            call("fresh", inputs)
        for name in inputs if len(inputs) > 1 else ():
            inputs[name] = fresh(interp, name, inputs[name])
            call("one", inputs, (name,))
        held = escapes.slots(interp, holder)
        if run.layout is not None:
            run.layout.release(slot.table for slot in held)
        reused = {n: reuse(interp, n, old) for n, old in inputs.items() if not escapes.holds(held, old)}
        if reused:
            inputs |= reused
            call("reused", inputs, tuple(reused))
        if interp.memory.compared:
            change(interp, inputs.items(), "input")
            interp.memory.colliding = True
            call("collision", inputs)
            interp.memory.colliding = False
        _otherwise(call, dict(run.inputs), asked, before)
    if counters:
        inputs = dict(run.inputs)  # a counter may stand under a key that is made of them
        change(interp, inputs.items(), "input")
        places = tuple(c.slot.path for c in counters)
        call("later", inputs, places)
        decisions.late |= decisions.decided.keys() - before
        if decisions.late:
            decided = dict(decisions.decided)
            decisions.decided = {key: side for key, side in decided.items() if key not in decisions.late}
            with suppress(Exception):  # where the other way raises, nothing is returned
                call("undecided", inputs, places)
            decisions.decided = decided


def _otherwise(call: _Caller, inputs: dict[str, Tensor], asked: set[Hashable], before: set[Hashable]) -> None:
    """Where a call with unchanged inputs `asked` what calls `before` it did not: the same, answered otherwise."""
    decisions = call.interp.decisions
    asked = asked | {key.key for key in decisions.forced if isinstance(key, Later)} | decisions.decided.keys() & {FOUND}
    if asked:
        call("same", inputs)
    for _ in range(MAX_ANSWERS):
        if not asked - decisions.late:
            break
        decisions.late |= asked
        with suppress(Exception):  # where the other way raises, nothing is returned
            call("doubted", inputs)
        asked = decisions.decided.keys() - before


def _alone(interp: Run, call: _Caller, inputs: dict[str, Tensor]) -> None:
    for name in inputs if interp.memory.versions and len(inputs) > 1 else ():
        change(interp, [(name, inputs[name])], "input")
        call("alone", inputs, (name,))


@dataclass(slots=True, eq=False)
class _Caller:
    """Calls `forward` with counters of calls set to their value after the second call, or to one long after it."""

    interp: Run
    run: path_runs.ShapeRun
    model: Any
    counters: list[ageing.Counter]

    def __call__(self, kind: str, inputs: dict[str, Tensor], names: tuple[str, ...] = ()) -> None:
        for counter in self.counters:
            counter.age() if kind in ("later", "undecided") else counter.reset()
        self.interp.aged = kind in ("later", "undecided")
        self.interp.decisions.contrary = kind in ("undecided", "doubted")
        try:
            forward(self.interp, self.run, self.model, kind, inputs, names)
        finally:
            self.interp.aged = self.interp.decisions.contrary = False


def forward(
    interp: Run,
    run: path_runs.ShapeRun,
    model: Value,
    kind: str,
    inputs: dict[str, Tensor],
    names: tuple[str, ...] = (),
) -> None:
    """Calls `forward` once more and records the call: its events, its result, and what its inputs and weights held."""
    interp.trace.call_index += 1
    interp.trace.round += 1
    interp.decisions.asked = {}
    given = holding(interp, (*inputs.values(), *run.state.values()))
    start = len(interp.trace.events)
    result = called(interp, run, model, inputs, kind, names)
    contents = result_contents(result)
    run.probes.append(
        path_runs.Call(interp.trace.events[start:], result, given, kind, names, interp.trace.call_index, contents)
    )


def returned(value: Value) -> Value:
    """Returns a result of `forward`, a named tuple as a plain tuple."""
    if isinstance(value, Instance) and is_named_tuple(value):
        return tuple(value.attrs.get(name) for name in value.cls.field_names())
    return tuple(value.attrs["items"]) if isinstance(value, NamedTuple) else value


def called(
    interp: Run,
    run: path_runs.ShapeRun,
    model: Value,
    inputs: dict[str, Tensor],
    kind: str = "in place",
    names: tuple[str, ...] = (),
) -> Any:
    """Calls the model or entry point once and returns its result; for an entry point also the tensors that it was given
    and wrote. Where `kind` makes new tensors, the containers around them are new, too, unless these reuse the place of
    dead ones."""
    if run.layout is None:
        return returned(interp.call(model, arguments(run, inputs), {}, None))
    others = set(names) if kind == "one" else set(inputs) if kind == "fresh" else set()
    args, kwargs = run.layout.build(inputs, lambda inside: bool(inside & others))
    result = returned(interp.call(model, args, kwargs, None))
    if isinstance(result, Instance):
        result = list(result.attrs.values())
    now = interp.trace.call_index
    written = [t for t in inputs.values() if t.storage.content.event is not None and t.storage.content.call == now]
    untouched = {t.storage.ident for t in inputs.values() if t.storage.content.label.startswith("input:")}
    kept = _without(result, untouched)
    return (kept, *written) if written else kept


def _without(value: Value, storages: set[int], depth: int = 0) -> Value:
    """A result without the tensors that went through as they were given: nothing was made of them."""
    if isinstance(value, Tensor):
        return None if value.storage.ident in storages else value
    if isinstance(value, dict) and depth < 4:
        return {key: _without(item, storages, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and depth < 4:
        return tuple(_without(item, storages, depth + 1) for item in value)
    return value


def arguments(run: path_runs.ShapeRun, inputs: dict[str, Tensor]) -> list[Any]:
    """Returns the arguments of `forward`: the tensors, with the problem's plain values at their positions."""
    given: list[Any] = list(inputs.values())
    values = run.binding.values if run.binding is not None else {}
    for position in sorted(values):
        given.insert(position, values[position])
    return given


def holding(interp: Run, tensors: tuple[Tensor, ...]) -> dict[int, int | None]:
    """Returns the ident of the content of each storage that a call is given; None for one that the submission itself
    wrote."""
    found: dict[int, int | None] = {}
    for tensor in tensors:
        content = tensor.storage.content
        interp.memory.given.add(tensor.storage.ident)
        found[tensor.storage.ident] = content.ident if content.label.startswith(("input:", "state:")) else None
    return found


def result_contents(value: Value, depth: int = 0) -> list[Content]:
    """Returns the contents of a returned tensor, tuple, list or dict, at any depth."""
    if isinstance(value, Tensor):
        return [value.storage.content]
    if isinstance(value, Content):
        return [value]
    if isinstance(value, Unknown):
        return list(value.contents)
    if isinstance(value, LibObject):
        return result_contents(value.attrs.get("items"), depth + 1)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and depth < 4:
        return [c for v in value for c in result_contents(v, depth + 1)]
    return []


def fresh(interp: Run, name: str, old: Tensor) -> Tensor:
    """Returns a new tensor of the same shape and type as `old`, in memory of its own."""
    made = recording.make(interp, old.shape, old.dtype, f"input:{name}", strides=old.strides, device=old.device)
    made.attrs.update({key: old.attrs[key] for key in ("known", "range") if key in old.attrs})
    return made


def reuse(interp: Run, name: str, old: Tensor) -> Tensor:
    """Returns a new tensor at the address of the dead one `old`: same memory, same id(), and a version count that
    starts over."""
    storage = old.storage
    made = Tensor(storage, old.dtype, old.shape, old.strides, device=old.device)
    made.attrs.update({key: old.attrs[key] for key in ("known", "range") if key in old.attrs})
    storage.content = Content(storage, storage.content.dtype, interp.trace.call_index, f"input:{name}")
    storage.version = 0
    interp.memory.views[storage.ident] = made
    if id(old) in interp.memory.ids:
        interp.memory.ids[id(made)] = (interp.memory.ids[id(old)][0], made)
    return made


def change(interp: Run, tensors: Iterable[tuple[str, Tensor]], group: str) -> None:
    """Overwrites tensors in place with other values, as an optimizer or a tester does."""
    for name, tensor in tensors:
        storage = tensor.storage
        if storage.content.label.startswith(("input:", "state:")):
            legal = {key: note for key, note in storage.content.notes.items() if key in _LEGAL}
            label = f"{group}:{name}"
            storage.content = Content(storage, storage.content.dtype, interp.trace.call_index, label, notes=legal)
            storage.version += 1
