"""The Python built-in functions on real and abstract values."""

from __future__ import annotations

import builtins
import math
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from kbh_lint import ir
from kbh_lint.host import (
    asking,
    bounds,
    containers,
    exceptions,
    iteration,
    keys,
    operators,
    ordering,
    texts,
    typetests,
    unknowns,
)
from kbh_lint.host.frames import OutOfFuel, Raised
from kbh_lint.host.objects import (
    ClassV,
    Instance,
    LibObject,
    Method,
    Once,
    compared_as,
    find_method,
    is_module,
    is_named_tuple,
)
from kbh_lint.host.tensors import Tensor, Unknown
from kbh_lint.source.embedded import Text, doubts
from kbh_lint.values import Func, Sym


def builtin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a Python function as a built-in of the interpreted program: it gets (interp, args, kwargs, loc)."""
    function.__kbh_builtin__ = True  # type: ignore[attr-defined]
    return function


def _numbers(name: str) -> Callable[..., Any]:
    """int, float, abs, round, pow, divmod ... on known numbers; an unknown stays one."""
    real = getattr(builtins, name)

    @builtin
    def run(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        if name == "hash" and args:
            args = [compared_as(args[0]), *args[1:]]
        if name == "hash" and args and isinstance(args[0], (Tensor, Instance)):
            return interp.identity(args[0])
        if name == "hash" and args and isinstance(args[0], (str, bytes, tuple)) and _is_plain(args[0]):
            bounds.text(interp, args[0])
            return zlib.crc32(repr(args[0]).encode()) << 16  # Python's own is another in each process
        if args and isinstance(args[0], Tensor):
            if name in ("int", "float", "bool"):
                from kbh_lint.host import tensor_attributes, torchlib

                got = tensor_attributes.scalar(interp, "item", [args[0]], {}, loc)
                return got
            from kbh_lint.host import tensor_attributes, torchlib

            return torchlib.call(interp, f"torch.{name}", args, kwargs, loc)
        args = [unknowns.merged(interp, a) if doubts(a) else a for a in args]
        if args and isinstance(args[0], Once) and name.startswith("byte"):
            args = [iteration.materialise(interp, args[0], loc)]
        if name == "bool" and args and isinstance(args[0], Instance):
            return interp.truth(args[0], loc)
        if name == "bool" and args and asking.of_library(args[0]):
            return asking.presumed(True)
        if any(isinstance(a, Unknown) for a in args):
            if name in ("float", "abs") and args[0].range is not None:
                low, high = args[0].range
                ends = (low, high) if name == "float" else (0.0, max(abs(low), abs(high)))
                return Unknown(args[0].contents, name, ends, args[0].made)
            return unknowns.merged(interp, *args, why=args[0].why if name in ("int", "float") else "")
        try:
            _check_numbers(interp, name, args, kwargs)
            return real(*[str(a) if isinstance(a, Text) else a for a in args], **kwargs)
        except Exception as error:
            operators.failed(interp, error, loc)
            return unknowns.merged(interp, *args, why=name)

    return run


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value is a text or a number that is known, or a small tuple of such."""
    if isinstance(value, tuple):
        return depth < 4 and len(value) <= bounds.FREE_ITEMS and all(_is_plain(item, depth + 1) for item in value)
    return value is None or isinstance(value, (str, bytes, int, float)) and not doubts(value)


def _check_numbers(interp: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Refuses what would make a number or a text without end, and pays for what takes long."""
    given = [*args, *kwargs.values()]
    if name == "pow":
        bounds.modular(interp, *given) if len(given) > 2 else bounds.power(*given)
    elif name == "round" and len(given) > 1 or name in ("bytes", "bytearray"):
        bounds.width(given[-1] if given else 0)
    elif name in ("int", "divmod"):
        bounds.digits(*given)
    elif name == "hash" and args:
        keys.check_key(args[0])


@builtin
def _range(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if not all(isinstance(a, int) for a in args):
        if any(a is None or isinstance(a, (float, str, list, tuple)) for a in args):
            exceptions.may_fail(interp, "TypeError", loc)
        return unknowns.merged(interp, *args, why="a range")
    try:
        made = range(*args)
    except (TypeError, ValueError):
        return Unknown((), "a range")
    return made if len(made) <= containers.MAX_RANGE else unknowns.merged(interp, *args, why="a range past the bound")


@builtin
def _len(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
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
    if isinstance(value, LibObject) and isinstance(value.attrs.get("items"), (list, dict)):
        return len(value.attrs["items"])
    if exceptions.plain(value) or isinstance(value, Once):
        exceptions.may_fail(interp, "TypeError", loc)
    return len(value) if hasattr(value, "__len__") and not doubts(value) else unknowns.merged(interp, value)


def _extreme(name: str) -> Callable[..., Any]:
    @builtin
    def run(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        items = list(iteration.materialise(interp, args[0], loc)) if len(args) == 1 else list(args)
        if not items:
            if "default" not in kwargs:
                exceptions.may_fail(interp, "ValueError", loc)
            return kwargs.get("default", Unknown())
        if not all(map(bounds.is_small, items)):
            return unknowns.merged(interp, *items[:2], why=name)
        if any(isinstance(i, (Unknown, Tensor)) for i in items):
            return unknowns.merged(interp, *items, why=name)
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
def _sum(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    total: Any = args[1] if len(args) > 1 else kwargs.get("start", 0)
    items = iteration.materialise(interp, args[0], loc)
    bounds.steps(interp, len(items))
    for item in items:
        total = operators.binary(interp, "+", total, item, loc)
    return total


def _truths(every: bool) -> Callable[..., Any]:
    @builtin
    def run(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        items = iteration.materialise(interp, args[0], loc)
        bounds.steps(interp, len(items))
        read = [item for item in items if isinstance(item, Unknown) and item.contents]
        if len(read) > 1 and all(isinstance(item, Unknown) or bool(item) is every for item in items):
            return unknowns.merged(interp, *read, why="all of many" if every else "likely: one of many")
        for item in items:
            if isinstance(item, Unknown) and item.why.startswith(asking.MARK):
                return item
            if interp.truth(item, loc) != every:
                return not every
        return every

    return run


@builtin
def _isinstance(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return typetests.is_instance(interp, args[0], args[1] if len(args) > 1 else ())


@builtin
def _issubclass(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return typetests.is_subclass(interp, args[0], args[1] if len(args) > 1 else ())


@builtin
def _getattr(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    owner, name = args[0], args[1]
    if isinstance(name, Unknown):
        return unknowns.merged(interp, owner, name, why="an attribute by unknown name")
    if len(args) > 2 and isinstance(owner, Sym) and owner.path.partition(".")[0] == "torch":
        has = has_library_attr(interp, f"{owner.path}.{name}")
        return interp.world.get_attr(interp, owner, str(name), loc) if interp.truth(has, loc) else args[2]
    if len(args) > 2 and not has_attr(interp, owner, str(name)):
        made = find_method(owner, "__getattr__") if isinstance(owner, Instance) else None
        return args[2] if made is None else _made_attribute(interp, made, str(name), args[2], loc)
    return interp.world.get_attr(interp, owner, str(name), loc)


_OF_MODULES = frozenset(
    ("training", "to", "eval", "train", "parameters", "buffers", "state_dict", "load_state_dict", "named_parameters")
)


def _made_attribute(interp: Any, made: Any, name: str, default: Any, loc: ir.Loc | None) -> Any:
    """What `__getattr__` gives, or the default when it says that there is no such attribute."""
    try:
        return interp.call(made, [name], {}, loc)
    except Raised as error:
        if exceptions.catches(interp, Sym("builtins.AttributeError"), error.value):
            return default
        raise


def has_attr(interp: Any, owner: Any, name: str) -> bool:
    """hasattr in the assumed world: libraries have what is asked of them."""
    if isinstance(owner, Instance):
        if name in owner.attrs:
            return True
        try:
            owner.cls.find(name)
            return True
        except KeyError:
            return name in _OF_MODULES and is_module(owner.cls)
    if isinstance(owner, Func):
        return name in owner.attrs
    if isinstance(owner, ClassV):
        return any(name in c.env.vars for c in owner.mro())
    if isinstance(owner, Tensor):
        from kbh_lint.host import torchlib

        return name in owner.attrs or torchlib.has_attribute(name)
    if isinstance(owner, LibObject) and owner.path in ("module", "types.SimpleNamespace"):
        return name in owner.attrs
    if isinstance(owner, Once):
        return name in ("__iter__", "__next__", "send", "close", "throw")
    if isinstance(owner, (int, float, str, list, dict, tuple)):
        return hasattr(owner, name)
    return owner is not None


@builtin
def _hasattr(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if isinstance(args[0], Sym) and args[0].path.partition(".")[0] == "torch":
        return has_library_attr(interp, f"{args[0].path}.{args[1]}")
    if has_attr(interp, args[0], str(args[1])):
        return True
    made = find_method(args[0], "__getattr__") if isinstance(args[0], Instance) else None
    return made is not None and _made_attribute(interp, made, str(args[1]), keys.MISSING, loc) is not keys.MISSING


def has_library_attr(interp: Any, path: str) -> Any:
    """hasattr of torch or one of its modules: known of what is known here, else a decision that is likely to hold."""
    from kbh_lint.host import modules

    value = modules.resolve(interp, path)
    return True if not isinstance(value, Sym) else Unknown((), "likely: torch has it")


@builtin
def _setattr(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    interp.world.set_attr(interp, args[0], str(args[1]), args[2], loc)


@builtin
def _type(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    value = args[0]
    if isinstance(value, Instance):
        return value.cls
    if isinstance(value, Tensor):
        return Sym("torch.Tensor")
    if isinstance(value, LibObject):
        return Sym(value.path)
    if isinstance(value, Unknown) and value.why.startswith(asking.MARK):
        return value
    name = "str" if isinstance(value, str) else type(value).__name__
    known = interp.builtins.get(name)
    return known if hasattr(known, "__kbh_name__") else Sym(f"builtins.{name}")


@builtin
def _callable(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return typetests.is_callable(interp, args[0])


@builtin
def _str(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if not args:
        return ""
    if isinstance(args[0], int):
        interp.burn(args[0].bit_length() // 64)  # quadratic in the digits
    return args[0] if isinstance(args[0], (str, Unknown)) else texts.of(interp, args[0], loc)


@builtin
def _repr(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if args and isinstance(args[0], str) and not doubts(args[0]):
        bounds.text(interp, args[0])
        return repr(str(args[0]))
    if args and isinstance(args[0], (Instance, list, tuple, dict)):
        return texts.of(interp, args[0], loc, "repr")
    return _str(interp, args, kwargs, loc)


def _collect(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    @builtin
    def run(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        if args and isinstance(args[0], Unknown):
            return args[0]
        items = iteration.materialise(interp, args[0], loc) if args else []
        return kind(map(keys.check_key, items)) if kind in (set, frozenset) else kind(items)

    return run


@builtin
def _dict(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    out: dict[Any, Any] = {}
    if args:
        if isinstance(args[0], dict):
            out.update(bounds.visited(interp, args[0]))
        elif isinstance(args[0], Instance) and args[0].items is not None:
            out.update(bounds.visited(interp, args[0].items))
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
def _enumerate(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    given = args[1] if len(args) > 1 else kwargs.get("start", 0)
    start = given if isinstance(given, int) else 0
    if isinstance(args[0], Once):
        return _lazy(enumerate(iteration.in_turn(args[0]), start))
    return Once(enumerate(iteration.materialise(interp, args[0], loc), start))


def _lazy(source: Iterator[Any]) -> Once:
    made = Once()
    made.source = source
    return made


def _columns(interp: Any, args: list[Any], loc: ir.Loc | None) -> list[Any]:
    """The items of several iterables, of an iterator as they are asked for."""
    return [iteration.in_turn(a) if isinstance(a, Once) else iteration.materialise(interp, a, loc) for a in args]


@builtin
def _zip(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if any(isinstance(a, Once) for a in args):
        return _lazy(zip(*_columns(interp, args, loc), strict=False))
    columns = [iteration.materialise(interp, a, loc) for a in args]
    if kwargs.get("strict") is True and len({len(column) for column in columns}) > 1:
        exceptions.may_fail(interp, "ValueError", loc)
    return Once(zip(*columns, strict=False))


@builtin
def _map(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    rows = zip(*_columns(interp, args[1:], loc), strict=False)
    return _lazy(interp.call(args[0], list(row), {}, loc) for row in rows)


@builtin
def _filter(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    (items,) = _columns(interp, args[1:2], loc)
    return _lazy(i for i in items if interp.truth(i if args[0] is None else interp.call(args[0], [i], {}, loc), loc))


@builtin
def _sorted(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    items = list(iteration.materialise(interp, args[0], loc))
    containers.sort_items(interp, items, kwargs)
    return items


@builtin
def _reversed(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    own = find_method(args[0], "__reversed__") if isinstance(args[0], Instance) else None
    if own is not None:
        return interp.call(own, [], {}, loc)
    return Once(reversed(list(iteration.materialise(interp, args[0], loc))))


@builtin
def _iter(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if not args or isinstance(args[0], Once):
        return args[0] if args else []
    items = iteration.materialise(interp, args[0], loc)
    return list(items) if isinstance(args[0], (Unknown, Tensor)) else Once(items)


@builtin
def _next(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if isinstance(args[0], LibObject) and args[0].path in ("itertools.count", "itertools.cycle"):
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
        exceptions.may_fail(interp, "StopIteration", loc)
    return items[0] if len(items) else (args[1] if len(args) > 1 else Unknown())


@builtin
def _id(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return interp.identity(args[0])


@builtin
def _print(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return None


@builtin
def _exec(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return interp.run_text(args, loc)


@builtin
def _vars(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if args and isinstance(args[0], Sym):
        return Sym(f"{args[0].path}.__dict__")
    return args[0].attrs if args and isinstance(args[0], Instance) else {}


def table() -> dict[str, Any]:
    """The built-in names."""
    names: dict[str, Any] = {
        n: _numbers(n)
        for n in (
            "int",
            "float",
            "bool",
            "abs",
            "round",
            "pow",
            "divmod",
            "ord",
            "chr",
            "bin",
            "hex",
            "hash",
            "complex",
            "bytes",
            "bytearray",
        )
    }
    names.update(
        range=_range, len=_len, max=_extreme("max"), min=_extreme("min"), sum=_sum, all=_truths(True),
        any=_truths(False), isinstance=_isinstance, issubclass=_issubclass, getattr=_getattr, hasattr=_hasattr,
        setattr=_setattr, type=_type, callable=_callable, str=_str, repr=_repr, list=_collect(list),
        tuple=_collect(tuple), set=_collect(set), frozenset=_collect(frozenset), dict=_dict, enumerate=_enumerate,
        zip=_zip, map=_map, filter=_filter, sorted=_sorted, reversed=_reversed, iter=_iter, next=_next, id=_id,
        print=_print, exec=_exec, eval=_exec, super=builtin(lambda *a: Unknown()), locals=builtin(lambda *a: {}),
        globals=builtin(lambda *a: {}), vars=_vars,
        object=Sym("builtins.object"), Ellipsis=Ellipsis, NotImplemented=Unknown((), "NotImplemented"),
    )  # fmt: skip
    for name in (
        "int",
        "float",
        "bool",
        "str",
        "list",
        "tuple",
        "dict",
        "set",
        "bytes",
        "type",
        "complex",
        "frozenset",
        "range",
    ):
        names[name].__kbh_name__ = f"builtins.{name}"
    return names


def math_call(interp: Any, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """math.NAME on known numbers."""
    if any(isinstance(a, (Unknown, Tensor)) for a in args):
        return unknowns.merged(interp, *args)
    if name == "prod" and args:
        total: Any = 1
        for item in iteration.materialise(interp, args[0], None):
            interp.burn()
            total = operators.binary(interp, "*", total, item, None)
        return total
    try:
        if name in ("factorial", "comb", "perm"):
            bounds.argument(*args)
        elif name == "lcm":
            bounds.argument(16 * len(args))
        return getattr(math, name)(*args)
    except Exception as error:
        operators.failed(interp, error, loc)
        return unknowns.merged(interp, *args, why=f"math.{name}")
