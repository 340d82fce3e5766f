"""The built-in functions that make containers and iterators, or go through them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import containers, enums, exceptions, iteration, operators, ordering, subscripts
from kbh_lint.host.torch import whole_numbers
from kbh_lint.host.values import bounds, equality, keys, taint, unknowns
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import OutOfFuel, Raised, builtin
from kbh_lint.host.values.named_objects import Counting, Cycle
from kbh_lint.host.values.objects import ClassV, Instance, LibObject, Method, find_method, is_named_tuple, meta_method
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.source.embedded import doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


@builtin
def _range(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    args = [unknowns.of_process(a) for a in args]
    if not all(isinstance(a, int) for a in args):
        if any(a is None or isinstance(a, (float, str, list, tuple)) for a in args):
            interp.may_fail("TypeError", loc)
        return unknowns.merged(interp, *args, why="a range")
    try:
        made = range(*args)
    except (TypeError, ValueError):
        return Unknown((), "a range")
    return made if len(made) <= containers.MAX_RANGE else unknowns.merged(interp, *args, why="a range past the bound")


@builtin
def _len(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    value = args[0]
    if isinstance(value, Tensor):
        return value.shape[0] if value.shape else Unknown()
    if isinstance(value, Instance):
        found = find_method(value, "__len__")
        if found is None and value.items is not None:
            return len(value.items)
        if found is None and is_named_tuple(value):
            return len(value.cls.field_names())
        return interp.call(found, [], {}, loc) if found is not None else Unknown()
    if isinstance(value, ClassV):
        own = meta_method(value, "__len__")
        if own is not None:
            return interp.call(own, [], {}, loc)
        return len(enums.members(value)) if enums.is_enum(value) else unknowns.merged(interp, value)
    if isinstance(value, LibObject) and isinstance(value.attrs.get("items"), (list, dict)):
        return len(value.attrs["items"])
    if exceptions.plain(value) or isinstance(value, Once):
        interp.may_fail("TypeError", loc)
    return len(value) if hasattr(value, "__len__") and not doubts(value) else unknowns.merged(interp, value)


def _extreme(name: str) -> Callable[..., Any]:
    @builtin
    def run(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        items = list(iteration.materialise(interp, args[0], loc)) if len(args) == 1 else list(args)
        if not items:
            if "default" not in kwargs:
                interp.may_fail("ValueError", loc)
            return kwargs.get("default", Unknown())
        if not all(map(bounds.is_small, items)):
            return unknowns.merged(interp, *items[:2], why=name)
        if any(isinstance(i, (Unknown, Tensor)) for i in items):
            return unknowns.merged(
                interp, *items, why=name, ends=None if kwargs else whole_numbers.extreme(name, items)
            )
        key = kwargs.get("key")
        try:
            return getattr(builtins, name)(
                items, key=lambda x: ordering.key_of(interp, x if key is None else interp.call(key, [x], {}, loc), loc)
            )
        except (Raised, OutOfFuel, MemoryError):
            raise
        except Exception:  # keys without an order: one of them stands for the answer
            return items[0]

    return run


@builtin
def _sum(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    total: Any = args[1] if len(args) > 1 else kwargs.get("start", 0)
    items = iteration.materialise(interp, args[0], loc)
    bounds.steps(interp, len(items))
    for item in items:
        total = operators.binary(interp, "+", total, item, loc)
    return total


def _until(interp: Run, value: Value, every: bool, loc: ir.Loc | None) -> Sequence[Any]:
    """The items that any() or all() looks at: of an iterator, those up to the first that decides."""
    if not isinstance(value, Once):
        return iteration.materialise(interp, value, loc)
    items: list[Any] = []
    for item in iteration.in_turn(value):
        interp.burn()
        items.append(item)
        if type(item) in (bool, int, str, type(None)) and bool(item) is not every:
            break
    return items


def _truths(every: bool) -> Callable[..., Any]:
    @builtin
    def run(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        items = _until(interp, args[0], every, loc)
        bounds.steps(interp, len(items))
        read = [item for item in items if isinstance(item, Unknown) and item.contents]
        if len(read) > 1 and all(isinstance(item, Unknown) or bool(item) is every for item in items):
            return unknowns.merged(
                interp, *read, why="all of many" if every else "likely: one of many", likely=not every
            )
        for item in items:
            if taint.symbol_of(item):
                return item
            if interp.truth(item, loc) != every:
                return not every
        return every

    return run


def _collect(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    @builtin
    def run(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        if args and isinstance(args[0], Unknown):
            return args[0]
        items = iteration.materialise(interp, args[0], loc) if args else []
        return kind(keys.distinct(interp, items)) if kind in (set, frozenset) else kind(items)

    return run


@builtin
def _dict(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    out: dict[Any, Any] = {}
    if args:
        held = subscripts.mapping(interp, args[0], loc)
        if held is not None:
            out.update(bounds.visited(interp, held))
        else:
            out.update(
                {
                    keys.check_key(p[0]): p[1]
                    for p in iteration.materialise(interp, args[0], loc)
                    if isinstance(p, (tuple, list)) and len(p) == 2
                }
            )
    out.update(kwargs)
    return out


@builtin
def _enumerate(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    given = args[1] if len(args) > 1 else kwargs.get("start", 0)
    start = given if isinstance(given, int) else 0
    if isinstance(args[0], Once):
        return _lazy(enumerate(iteration.in_turn(args[0]), start))
    return Once(enumerate(iteration.materialise(interp, args[0], loc), start))


def _lazy(source: Iterator[Any]) -> Once:
    made = Once()
    made.source = source
    return made


def _columns(interp: Run, args: list[Any], loc: ir.Loc | None) -> list[Any]:
    """The items of several iterables, of an iterator as they are asked for."""
    return [iteration.in_turn(a) if isinstance(a, Once) else iteration.materialise(interp, a, loc) for a in args]


@builtin
def _zip(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if any(isinstance(a, Once) for a in args):
        return _lazy(zip(*_columns(interp, args, loc), strict=False))
    columns = [iteration.materialise(interp, a, loc) for a in args]
    if kwargs.get("strict") is True and len({len(column) for column in columns}) > 1:
        interp.may_fail("ValueError", loc)
    return Once(zip(*columns, strict=False))


@builtin
def _map(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    rows = zip(*_columns(interp, args[1:], loc), strict=False)
    return _lazy(interp.call(args[0], list(row), {}, loc) for row in rows)


@builtin
def _filter(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    (items,) = _columns(interp, args[1:2], loc)
    return _lazy(i for i in items if interp.truth(i if args[0] is None else interp.call(args[0], [i], {}, loc), loc))


@builtin
def _sorted(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    items = list(iteration.materialise(interp, args[0], loc))
    containers.sort_items(interp, items, kwargs.get("key"), kwargs.get("reverse", False))
    return items


@builtin
def _reversed(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    own = find_method(args[0], "__reversed__") if isinstance(args[0], Instance) else None
    if own is not None:
        return interp.call(own, [], {}, loc)
    return Once(reversed(list(iteration.materialise(interp, args[0], loc))))


@builtin
def _iter(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if len(args) == 2:
        return _lazy(_calls_until(interp, args[0], args[1], loc))
    if not args or isinstance(args[0], Once):
        return args[0] if args else []
    items = iteration.materialise(interp, args[0], loc)
    return list(items) if isinstance(args[0], (Unknown, Tensor)) else Once(items)


def _calls_until(interp: Run, func: Value, end: Value, loc: ir.Loc | None) -> Iterator[Any]:
    """iter(function, sentinel): what calls give, until one gives the sentinel."""
    while True:
        interp.burn()
        try:
            item = interp.call(func, [], {}, loc)
        except Raised as error:
            if not exceptions.catches(interp, Sym("builtins.StopIteration"), error.value):
                raise
            return
        if interp.truth(equality.same(interp, item, end), loc):
            return
        yield item


@builtin
def _next(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if isinstance(args[0], (Counting, Cycle)):
        return interp.call(Method(args[0], "__next__"), [], {}, loc)
    if isinstance(args[0], Instance):
        found = find_method(args[0], "__next__")
        if found is not None:
            return interp.call(found, [], {}, loc)
    if isinstance(args[0], Once) and not len(args[0]):
        args[0].more()
    items = args[0] if isinstance(args[0], Once) else iteration.iterate(interp, args[0], loc)
    if isinstance(items, list) and len(items):
        return items.pop(0)
    if not len(items) and len(args) < 2:
        iteration.ended(interp, items, loc)
    return items[0] if len(items) else (args[1] if len(args) > 1 else Unknown())


ITERABLES: dict[str, Any] = {
    "range": _range, "len": _len, "max": _extreme("max"), "min": _extreme("min"), "sum": _sum, "all": _truths(True),
    "any": _truths(False), "list": _collect(list), "tuple": _collect(tuple), "set": _collect(set),
    "frozenset": _collect(frozenset), "dict": _dict, "enumerate": _enumerate, "zip": _zip, "map": _map,
    "filter": _filter, "sorted": _sorted, "reversed": _reversed, "iter": _iter, "next": _next,
}  # fmt: skip
