"""copy and pickle: other objects like those that there are, as their classes say."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.torch import tensor_copies
from kbh_lint.host.values import bounds, unknowns
from kbh_lint.host.values.objects import Instance, find_method, is_module
from kbh_lint.host.values.tensors import Tensor

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def shallow(interp: Run, value: Value, loc: ir.Loc | None) -> Value:
    """Models `copy.copy(value)`."""
    if isinstance(value, Instance):
        own = find_method(value, "__copy__")
        return interp.call(own, [], {}, loc) if own is not None else _beside(interp, value, None, loc)
    if isinstance(value, (list, dict, set)):
        return copy.copy(bounds.visited(interp, value))
    if isinstance(value, Tensor):
        return tensor_copies.contiguous(interp, "clone", [value], {}, loc)
    return value


def deep(interp: Run, value: object, loc: ir.Loc | None) -> Value:
    """Models `copy.deepcopy(value)`: a copy with containers, objects and tensors of its own."""
    return _deep(interp, value, {}, loc)


def _beside(interp: Run, value: Instance, done: dict[int, Any] | None, loc: ir.Loc | None) -> Value:
    """Another object of the same class with the same state, or with copies of it where `done` has those made so far."""

    def part(item: Value) -> Any:
        return item if done is None else _deep(interp, item, done, loc)

    reduced = find_method(value, "__reduce_ex__") or find_method(value, "__reduce__")
    if reduced is not None:
        said = interp.call(reduced, [4] if reduced.func.node.name == "__reduce_ex__" else [], {}, loc)
        if not isinstance(said, tuple) or len(said) < 2 or not isinstance(said[1], tuple):
            return unknowns.merged(interp, said, why="an object that is made again")
        made = interp.call(said[0], [part(item) for item in said[1]], {}, loc)
        state = part(said[2]) if len(said) > 2 else None
    else:
        items = None if value.items is None else dict(value.items)
        made = Instance(value.cls, {}, dict(value.buffers), items)
        if done is not None:
            done[id(value)] = made
            made.items = part(items)
        own = find_method(value, "__getstate__")
        state = part(dict(value.attrs)) if own is None else part(interp.call(own, [], {}, loc))
    setter = find_method(made, "__setstate__") if isinstance(made, Instance) else None
    if setter is not None and state is not None:
        interp.call(setter, [state], {}, loc)
    elif isinstance(made, Instance) and isinstance(state, dict):
        made.attrs.update(state)
    return made


def _deep(interp: Run, value: Value, done: dict[int, Any], loc: ir.Loc | None) -> Value:
    """copy.deepcopy: containers, objects and tensors of their own. Modules stay what they are: their weights are loaded
    like those of the first."""
    if id(value) in done or len(done) > bounds.MAX_NODES:
        return done.get(id(value), value)
    interp.burn()
    made: Any = value
    own = find_method(value, "__deepcopy__") if isinstance(value, Instance) else None
    if own is not None:
        made = interp.call(own, [{}], {}, loc)
    elif isinstance(value, Tensor):
        made = tensor_copies.contiguous(interp, "clone", [value], {}, loc)
    elif isinstance(value, (list, set)):
        made = done[id(value)] = copy.copy(value)
        parts = [_deep(interp, item, done, loc) for item in value]
        made.clear()
        made.extend(parts) if isinstance(made, list) else made.update(parts)
    elif isinstance(value, tuple):
        made = tuple(_deep(interp, item, done, loc) for item in value)
    elif isinstance(value, dict):
        made = done[id(value)] = copy.copy(value)
        made.update((key, _deep(interp, item, done, loc)) for key, item in value.items())
    elif isinstance(value, Instance) and not is_module(value.cls):
        made = _beside(interp, value, done, loc)
    done[id(value)] = made
    return made
