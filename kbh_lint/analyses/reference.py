"""What the problem's reference does: the inputs it reads, and how like its operations those of a submission are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from difflib import SequenceMatcher
from typing import Any

from kbh_lint.analyses.flow import Slice
from kbh_lint.base.records import dataclass
from kbh_lint.host.values.checksums import outside
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Event

MAX_OPERATIONS = 400
MAX_ROUNDS = 16
_ALIASES = {"max": "amax", "min": "amin", "divide": "div", "true_divide": "div", "multiply": "mul", "subtract": "sub"}
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_DUNDERS = {"__matmul__": "matmul", "__mul__": "mul", "__add__": "add", "__sub__": "sub", "__truediv__": "div"}
Step = tuple[str, frozenset[str]]  # an operation, and the inputs and weights behind what it reads


@dataclass(frozen=True, slots=True)
class Traits:
    """A reference's operations in order, the inputs and state that its result depends on, and its steps: each
    operation with those that what it reads comes from. `weights` are the elements of each weight that the result
    depends on, where weights stay as they are between calls. `functions` are the operations by their own names."""

    operations: tuple[str, ...] = ()
    reads: frozenset[str] = frozenset()
    steps: frozenset[Step] = frozenset()
    weights: Mapping[str, int] = field(default_factory=dict)
    functions: frozenset[str] = frozenset()

    def calls(self, symbol: str) -> bool:
        """Whether the reference calls the torch function `symbol`, such as `torch.matmul` or
        `torch.nn.BatchNorm2d.forward`, which a submission replaces."""
        owner, _, name = symbol.rpartition(".")
        if owner.partition(".")[0] != "torch":
            return False
        if name in ("forward", "__call__"):
            name = _CAMEL.sub("_", owner.rpartition(".")[2]).lower()
        name = _DUNDERS.get(name, name)
        return name in self.functions or name.rstrip("123d") in self.functions


def traits(found: Slice) -> Traits:
    """The traits of a reference, from the backward slice of its result."""
    reads = frozenset(c.label.partition(":")[2] for c in found.outside)
    functions = frozenset(_own_name(e) for e in found.events if e.kind in ("op", "library"))
    return Traits(operations(found), reads, steps(found), functions=functions)


def weights_read(run: ShapeRun, found: Slice) -> frozenset[str]:
    """The names of the weights that a result depends on, directly or through tensors that a constructor computed from
    them."""
    storages = {content.storage.ident for event in found.events for content, _ in event.reads}
    storages |= {content.storage.ident for content in found.outside}
    return frozenset(name for name, tensor in run.weights.items() if tensor.storage.ident in storages)


def live_weights(run: ShapeRun, found: Slice) -> dict[str, int]:
    """How many elements each weight has that the reference's result depends on, by name.

    Left out are biases that a norm cancels: those of convolutions and products right before an instance norm, or before
    a batch norm that uses the statistics of the batch.
    """
    names = {tensor.storage.ident: name for name, tensor in run.weights.items()}
    dead: set[str] = set()
    uses: Counter[str] = Counter()
    for event in found.events:
        vectors = [
            c.storage.ident for c, tensor in event.reads if c.storage.ident in names and len(tensor.shape or ()) == 1
        ]
        uses.update(names[ident] for ident in vectors)
        before = event.reads[0][0].event if event.reads else None
        if _name(event) in ("batch_norm", "instance_norm") and len(vectors) <= 2 and before is not None:
            if _name(before) == "product" or _name(before).startswith("conv"):
                dead |= {
                    names[c.storage.ident]
                    for c, tensor in before.reads
                    if c.storage.ident in names and len(tensor.shape or ()) == 1
                }
    dead = {name for name in dead if uses[name] == 1}
    return {name: run.weights[name].numel() or 0 for name in sorted(weights_read(run, found) - dead)}


def operations(found: Slice) -> tuple[str, ...]:
    """The names of the operations that a result comes from, in order, with one name for equal operations: `mm`, `bmm`
    and `@` are products.

    Repeated executions of one place in the code count once, so that a loop over chunks equals its body.
    """
    steps = (e for e in found.events if e.kind in ("op", "library", "copy"))
    places: dict[Any, str] = {}
    for index, event in enumerate(steps):
        place = index if event.loc is None else (_name(event), event.loc, *event.stack)
        places.setdefault(place, _name(event))
    return tuple(places.values())[:MAX_OPERATIONS]


def steps(found: Slice, most: frozenset[Step] | None = None) -> frozenset[Step]:
    """The steps of a result: each operation with the inputs that its operands come from; conversions and copies are
    left out.

    With `most`, stops at the first step that is not in `most`, which is enough to tell that the sets differ.
    """
    made: set[Step] = set()
    times: Counter[Any] = Counter()
    for event in found.events:
        if event.kind in ("op", "library") and _name(event) != "convert" and len(made) < MAX_OPERATIONS:
            times[event.loc] += 1
            if times[event.loc] <= MAX_ROUNDS:  # of a loop
                step = _name(event), frozenset(outside([read for read, _ in event.reads]))
                made.add(step)
                if most is not None and step not in most:
                    break
    return frozenset(made)


def share(known: Traits, found: Slice) -> float:
    """The share of the reference's steps that a result has too, from 0 to 1, in any order and whatever other steps it
    has."""
    names = {_name(event) for event in found.events}
    if not known.steps or any(name not in names for name, _ in known.steps):
        return 0.0
    return len(known.steps & steps(found)) / len(known.steps)


def _own_name(event: Event) -> str:
    return event.name.rsplit(".", 1)[-1].rsplit("::", 1)[-1]


def _name(event: Event) -> str:
    name = _own_name(event)
    if name in ("mm", "bmm", "matmul", "linear", "einsum", "addmm", "baddbmm"):
        return "product"
    if name in ("to", "float", "double", "half", "bfloat16", "type", "copy_", "clone", "contiguous"):
        return "convert"
    return _ALIASES.get(name.rstrip("_"), name.rstrip("_"))


def likeness(known: Traits, found: Slice) -> float:
    """How similar a result's operations are to the reference's, from 0 to 1: 1 for the same list in order, or for the
    same steps in another order."""
    ordered = SequenceMatcher(None, known.operations, operations(found), autojunk=False).ratio()
    mine = steps(found, known.steps) if len(known.steps) > 1 and ordered < 1 else frozenset()
    return 1.0 if mine and mine == known.steps else ordered
