"""Items of interpreted containers: `owner[key]`, its assignment, and `item in owner`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import JitFunction, Sym, Value
from kbh_lint.host.datamodel import exceptions, iteration, loaded
from kbh_lint.host.datamodel.enums import Number
from kbh_lint.host.datamodel.modules import GRADER_NAMES
from kbh_lint.host.torch import tensor_views
from kbh_lint.host.values import bounds, equality, keys, modelled, taint, unknowns
from kbh_lint.host.values.containers import Defaults, Once, Some, Tally
from kbh_lint.host.values.library_objects import Environment, OwnModule
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.named_objects import SystemLibrary
from kbh_lint.host.values.objects import (
    Blob,
    ClassV,
    Configured,
    Extension,
    Instance,
    Partial,
    ProcessNumber,
    find_method,
    is_named_tuple,
    meta_method,
)
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.source.embedded import Text, cut, doubted, doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

# Triton's class of what is launched, `kernel[grid](...)`: a class of the submission's own below it has a `run`.
LAUNCHERS = ("triton.KernelInterface", "triton.runtime.KernelInterface", "triton.runtime.jit.KernelInterface")

OWN_NAME = "solution"  # of the module that a submission is
MAX_CHOICES = 4  # different values of which an unknown index may pick each, in runs of their own


def contains(interp: Run, owner: Value, item: Value, loc: ir.Loc | None = None) -> Any:
    """Evaluates `item in owner`."""
    if isinstance(owner, Unknown) or doubts(owner) or isinstance(owner, str) and doubts(item):
        kept = loaded.find(interp, item) if loaded.is_table(owner) else NotImplemented
        if kept is not NotImplemented:
            return kept is not loaded.MISSING
        if taint.mapped(owner, item):
            return Unknown((), "likely: the library is loaded", likely=True)
        return unknowns.merged(interp, owner, item, why="membership")
    if isinstance(owner, dict):
        found = keys.find_key(interp, owner, item) is not keys.MISSING
        if not found and isinstance(item, Unknown) and item.contents and _is_table(interp, owner):
            return unknowns.merged(interp, item, why="membership")
        return found
    if isinstance(owner, range) and isinstance(item, Unknown):
        return unknowns.merged(interp, item, why="membership")
    if isinstance(owner, (list, tuple, set, frozenset)):
        return _is_among(interp, owner, item)
    if isinstance(owner, Instance):
        own = find_method(owner, "__contains__")
        if own is None and owner.items is not None:
            return contains(interp, owner.items, item)
        return interp.call(own, [item], {}, None) if own is not None else unknowns.merged(interp, owner, item)
    own = meta_method(owner, "__contains__")
    if own is not None:
        return interp.call(own, [item], {}, loc)
    if isinstance(owner, ClassV):
        return contains(interp, iteration.iterate(interp, owner, loc), item)
    if type(owner) is int and isinstance(item, int) and type(item) in (int, Number):
        return owner & item == item  # flags
    if isinstance(owner, Environment):
        return interp.call(interp.get_attr(owner, "__contains__", loc), [item], {}, loc)
    held: Any = owner
    try:
        return item in held
    except Exception:
        return unknowns.merged(interp, owner, item, why="membership")


def _is_among(
    interp: Run, owner: list[Value] | tuple[Value, ...] | set[Value] | frozenset[Value], item: Value
) -> Value:
    """Whether one of some items is equal to another; what may be is an unknown."""
    doubt: Value = False
    bounds.steps(interp, len(owner))
    for other in iteration.in_turn(owner) if isinstance(owner, Once) else owner:
        verdict = equality.same(interp, other, item)
        if verdict is True:
            return True
        if verdict is not False:
            doubt = verdict
    return doubt


def _is_table(interp: Run, owner: dict[Any, Any]) -> bool:
    """Whether the keys of a dict are all numbers and texts of the program: not what earlier calls left there."""
    bounds.steps(interp, len(owner))
    return bool(owner) and all(isinstance(key, (int, float, str)) and type(key) is not ProcessNumber for key in owner)


def get_item(interp: Run, owner: Value, key: Value, loc: ir.Loc | None) -> Value:
    """Evaluates `owner[key]`, by the row in `_ITEMS` of the owner's class or its nearest base that has one."""
    if type(key) is ProcessNumber:
        made = _by_chance(interp, owner, key, loc)
        if made is not NotImplemented:
            return made
    for cls in type(owner).__mro__:
        if cls in _ITEMS:
            made = _ITEMS[cls](interp, owner, key, loc)
            if made is not NotImplemented:
                return made
            break
    if exceptions.plain(owner):
        interp.may_fail("TypeError", loc)
    return interp.get_item(owner, key, loc)


def _by_chance(interp: Run, owner: Value, key: ProcessNumber, loc: ir.Loc | None) -> Value:
    """An item that a number of this process picks: any of them."""
    items: Sequence[Value] = owner if isinstance(owner, (list, tuple)) else ()
    if isinstance(owner, dict) and _is_table(interp, owner):
        items = list(owner.values())
    unknown = unknowns.by_chance(key) if items else None
    return NotImplemented if unknown is None else _any_of(interp, items, unknown, loc)


def _of_unknown(interp: Run, owner: Unknown, key: Value, loc: ir.Loc | None) -> Value:
    """An item of what nobody knows; of `sys.modules` the submission itself, or the grader."""
    if isinstance(key, str) and loaded.is_table(owner):
        kept = loaded.find(interp, key)
        if kept is loaded.MISSING:
            exceptions.raise_("KeyError", [key], loc)
        if kept is not NotImplemented:
            return kept
        if key == OWN_NAME:
            return OwnModule(interp.scopes.main.vars)
        if GRADER_NAMES & set(key.split(".")):
            return Sym(str(key))  # the grader's own module, taken from the loaded ones
    return unknowns.merged(interp, owner, key)


def _of_dict(interp: Run, owner: dict[Value, Value], key: Value, loc: ir.Loc | None) -> Value:
    """What a dict has under a key, or makes of one that it lacks."""
    found = keys.find_key(interp, owner, key)
    if found is not keys.MISSING:
        return found
    if isinstance(owner, Tally):
        return 0
    factory = owner.factory if isinstance(owner, Defaults) else None
    if factory is not None:
        value = interp.call(factory, [], {}, loc)
        owner[key] = value
        return value
    if isinstance(key, Unknown):
        return _any_of(interp, list(owner.values()), key, loc) if len(owner) == 2 else unknowns.merged(interp, key)
    exceptions.raise_("KeyError", [key], loc)


def _of_text(interp: Run, owner: str, key: Value, loc: ir.Loc | None) -> Value:
    """A part of a text, which knows where it was written, or a character."""
    if isinstance(key, slice) and key.step in (None, 1) and isinstance(owner, Text):
        start, stop, _ = key.indices(len(owner))
        bounds.text(interp, owner)
        part, before = cut(owner, start, max(stop, start)), cut(owner, 0, start)
        return doubted(part, unknowns.merged(interp, before)) if doubts(before) else part
    bounds.text(interp, owner if isinstance(key, slice) else "")
    if doubts(owner) and not (type(key) is int and key >= 0 and not doubts(cut(owner, 0, key + 1))):
        return unknowns.merged(interp, owner, key, why="a character")
    at: Any = key
    return str.__getitem__(owner, at)


def _of_object(interp: Run, owner: Instance, key: Value, loc: ir.Loc | None) -> Value:
    """An item of an object, as its class or the one that it derives from says."""
    found = find_method(owner, "__getitem__")
    if found is not None:
        return interp.call(found, [key], {}, loc)
    if owner.items is not None:
        return item_of(interp, owner, key, loc)
    if any(path in LAUNCHERS for path in owner.cls.external_bases()):
        return Partial(interp.get_attr(owner, "run", loc), (), {"grid": key, "warmup": False})
    if is_named_tuple(owner):
        return get_item(interp, tuple(owner.attrs.get(name) for name in owner.cls.field_names()), key, loc)
    return NotImplemented


def _of_sequence(interp: Run, owner: Sequence[Value], key: Value, loc: ir.Loc | None) -> Value:
    """An item of a list, a tuple or a range, or a part of one."""
    if isinstance(key, (Instance, slice)):
        key = _as_index(interp, key, loc)
    if isinstance(key, Unknown):
        return _any_of(interp, owner, key, loc) if owner else unknowns.merged(interp, key)
    place: Any = key
    try:
        return owner[place] if isinstance(key, int) else bounds.visited(interp, owner[place])
    except (IndexError, TypeError):
        if isinstance(owner, Some):
            return unknowns.merged(interp, key, why="one of many")
        if isinstance(key, int):
            exceptions.raise_("IndexError", [key], loc)
        return unknowns.merged(interp, key)


def _as_index(interp: Run, key: Value, loc: ir.Loc | None) -> Value:
    """The number that an object says it is, by itself or as a bound of a slice."""
    if isinstance(key, slice):
        ends = (key.start, key.stop, key.step)
        whole = not any(isinstance(end, Instance) for end in ends)
        return key if whole else slice(*(_as_index(interp, end, loc) for end in ends))
    own = find_method(key, "__index__") if isinstance(key, Instance) else None
    return interp.call(own, [], {}, loc) if own is not None else key


def _of_bytes(interp: Run, owner: bytes | bytearray, key: Value, loc: ir.Loc | None) -> Value:
    """A number of bytes, or a part of them."""
    at: Any = key
    return NotImplemented if isinstance(key, Unknown) else bounds.visited(interp, owner)[at]


def _of_kernel(interp: Run, owner: JitFunction, key: Value, loc: ir.Loc | None) -> Value:
    """`kernel[grid]`, or what else a language has in the brackets."""
    made = modelled.of_kernel(Site(interp, "__getitem__", loc, [key]), owner)
    return Configured(owner, key) if made is NotImplemented else made


def _of_library(interp: Run, owner: SystemLibrary | Extension | Blob, key: Value, loc: ir.Loc | None) -> Value:
    """`library["name"]`, a function of what ctypes loaded."""
    return interp.get_attr(owner, key, loc) if type(key) is str else NotImplemented


# What an item is, by the class of what it is of.
_ITEMS: dict[type, Callable[[Run, Any, Value, ir.Loc | None], Value]] = {
    JitFunction: _of_kernel,
    Configured: lambda interp, owner, key, loc: Configured(owner.jit, key, owner.bound),
    Tensor: tensor_views.index,
    Unknown: _of_unknown,
    dict: _of_dict,
    str: _of_text,
    Instance: _of_object,
    **dict.fromkeys((SystemLibrary, Extension, Blob), _of_library),
    **dict.fromkeys((list, tuple, range), _of_sequence),
    **dict.fromkeys((bytes, bytearray), _of_bytes),
}


def mapping(interp: Run, value: Value, loc: ir.Loc | None) -> dict[Any, Any] | None:
    """Returns a dict, or an object that has `keys`, as a dict; None for anything else."""
    if isinstance(value, Instance):
        if value.items is not None:
            return value.items
        found = find_method(value, "keys")
        if found is not None:
            names = iteration.materialise(interp, interp.call(found, [], {}, loc), loc)
            return {keys.check_key(name): get_item(interp, value, name, loc) for name in names}
    return value if isinstance(value, dict) else None


def item_of(interp: Run, owner: Instance, key: Value, loc: ir.Loc | None) -> Value:
    """Evaluates `owner[key]` of an object of a dict subclass, calling its `__missing__` where the key is absent."""
    assert owner.items is not None
    missing = find_method(owner, "__missing__")
    if missing is not None and keys.find_key(interp, owner.items, key) is keys.MISSING:
        return interp.call(missing, [key], {}, loc)
    return get_item(interp, owner.items, key, loc)


def _any_of(interp: Run, items: Sequence[Value], key: Unknown, loc: ir.Loc | None) -> Value:
    """One of several values, chosen by an unknown index: the first, and in further runs each of the others."""
    apart: list[Any] = []
    for item in items[: keys.MAX_ANY]:
        if not any(equality.same(interp, item, other) is True for other in apart):
            apart.append(item)
    if len(apart) > MAX_CHOICES or len(items) > keys.MAX_ANY:
        return unknowns.merged(interp, key, why="one of many")
    for i in range(1, len(apart)):
        place = interp.place(loc), i
        interp.decisions.places.setdefault(place, loc)
        if interp.decide(place, key):
            return apart[i]
    return apart[0]


def set_item(interp: Run, owner: Value, key: Value, value: Value, loc: ir.Loc | None) -> None:
    """Evaluates `owner[key] = value`."""
    if isinstance(owner, Tensor):
        tensor_views.assign_index(interp, owner, key, value, loc)
    elif isinstance(owner, dict) and owner is interp.scopes.main.vars and not isinstance(key, str):
        interp.ran_unread("a name that is not known is bound at module level", loc)
    elif isinstance(owner, dict):
        keys.store(interp, owner, key, value)
    elif isinstance(owner, list) and isinstance(key, int):
        owner[key] = value
    elif isinstance(owner, list) and isinstance(key, slice):
        more = iteration.iterate(interp, value, loc)
        bounds.items(interp, len(owner) + len(more))
        owner[key] = list(more)
    elif isinstance(owner, Instance):
        found = find_method(owner, "__setitem__")
        if found is not None:
            interp.call(found, [key, value], {}, loc)
        elif owner.items is not None:
            keys.store(interp, owner.items, key, value)
    elif isinstance(owner, bytearray):
        _set_bytes(interp, owner, key, value, loc)
    else:
        if exceptions.plain(owner) or isinstance(owner, (tuple, str)):
            interp.may_fail("TypeError", loc)
        interp.set_item(owner, key, value, loc)


def _set_bytes(interp: Run, owner: bytearray, key: object, value: object, loc: ir.Loc | None) -> None:
    """`data[key] = value`; bytes that are not known make everything that is made of the data unknown."""
    try:
        if isinstance(key, slice) and isinstance(value, (bytes, bytearray)):
            bounds.items(interp, len(owner) + len(value))
            owner[key] = value
        elif isinstance(key, int) and isinstance(value, int):
            owner[key] = value
        else:
            interp.ran_unread("bytes that are not known, kept in a bytearray", loc)
    except (IndexError, ValueError) as error:
        interp.may_fail(type(error).__name__, loc)
