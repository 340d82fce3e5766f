"""Methods of strings, lists, dicts and sets, and the Python built-in functions."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from kbh_lint import ir
from kbh_lint.host import bounds, operators
from kbh_lint.host.objects import CALLABLES, Bound, ClassV, Instance, LibObject, Method
from kbh_lint.host.tensors import Tensor, Unknown
from kbh_lint.source import embedded
from kbh_lint.source.embedded import Text, concat, cut
from kbh_lint.values import DType, Func, JitFunction, Sym

MAX_RANGE = bounds.MAX_ITEMS

_SAFE_STR = frozenset(
    "startswith endswith lower upper split rsplit splitlines find rfind index count isdigit isalpha isidentifier "
    "title capitalize zfill ljust rjust center partition rpartition encode isspace isupper islower removeprefix "
    "removesuffix isnumeric isalnum expandtabs swapcase casefold".split()
)


def show(value: Any) -> str:
    """What str() gives; a made-up but stable text for objects."""
    if isinstance(value, (str, int, float, bool, type(None), bytes)):
        return str(value)
    if isinstance(value, (list, tuple, set, dict)) and bounds.is_small(value):
        try:
            return str(value)[:10_000]
        except Exception:
            return type(value).__name__
    if isinstance(value, DType):
        return f"torch.{value.name}"
    if isinstance(value, LibObject) and "path" in value.attrs:
        return str(value.attrs["path"])
    if isinstance(value, LibObject) and value.path == "torch.device":
        return str(value.attrs.get("type", "cuda"))
    return f"<{type(value).__name__}>"


def string_method(interp: Any, text: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method of str; places survive in those that build code."""
    if any(isinstance(a, Unknown) for a in args) and name not in ("format", "join"):
        return operators.merged(interp, *args)
    if name == "join":
        if isinstance(args[0], Unknown) and args[0].why.startswith("sniff:"):
            return operators.merged(interp, *args)
        parts = operators.iterate(interp, args[0], None)
        flat: list[str] = []
        for i, part in enumerate(parts):
            if i:
                flat.append(text)
            flat.append(part if isinstance(part, str) else show(part))
        return concat(flat)
    if name == "replace":
        new = args[1] if isinstance(args[1], str) else show(args[1])
        bounds.items(interp, str.count(text, str(args[0])))
        if len(new) * (str.count(text, str(args[0])) or 1) > embedded.MAX_TEXT:
            raise bounds.TooLarge("a text grew past the bound")
        return embedded.replace(text, str(args[0]), new, args[2] if len(args) > 2 else -1)
    if name == "format":
        return format_text(text, args, kwargs)
    if name == "encode":
        return text  # bytes of a text are followed as the text
    if name == "format_map":
        return format_text(text, [], args[0] if isinstance(args[0], dict) else {})
    if name in ("strip", "lstrip", "rstrip"):
        chars = str(args[0]) if args and args[0] is not None else None
        return embedded.strip(text, chars, name != "rstrip", name != "lstrip")
    if name == "splitlines" and isinstance(text, Text):
        keep = bool(args and args[0]) or bool(kwargs.get("keepends"))
        lines = embedded.split_lines(text)
        return lines if keep else [embedded.strip(line, "\r\n", False, True) for line in lines]
    if name == "split" and isinstance(text, Text) and args and isinstance(args[0], str):
        out: list[str] = []
        at = 0
        for plain in str(text).split(args[0]):
            out.append(cut(text, at, at + len(plain)))
            at += len(plain) + len(args[0])
        return out
    if name == "translate":
        return text
    if name in _SAFE_STR:
        plain_args = [str(a) if isinstance(a, Text) else a for a in args]
        for arg in (*args, *kwargs.values()):
            bounds.width(arg)
        return getattr(str, name)(str(text), *plain_args)
    return Unknown((), f"str.{name}")


def format_text(text: str, args: list[Any], kwargs: dict[str, Any]) -> str:
    """`text.format(...)`, with places; fields of the forms {}, {0}, {name} and {name:spec}."""
    parts: list[str] = []
    plain = str(text)
    i = start = auto = 0
    while i < len(plain):
        pair = plain[i : i + 2]
        if pair in ("{{", "}}"):
            parts += [cut(text, start, i), pair[0]]
            i += 2
            start = i
        elif plain[i] == "{":
            end = plain.find("}", i)
            if end < 0:
                break
            field, _, spec = plain[i + 1 : end].partition(":")
            field = field.partition("!")[0]
            parts.append(cut(text, start, i))
            if field == "":
                value: Any = args[auto] if auto < len(args) else ""
                auto += 1
            elif field.isdigit():
                value = args[int(field)] if int(field) < len(args) else ""
            else:
                value = kwargs.get(field, f"{{{field}}}")
            if isinstance(value, str) and not spec:
                parts.append(value)
            else:
                try:
                    bounds.format_spec(spec)
                    parts.append(format(value, spec) if isinstance(value, (int, float, str)) else show(value))
                except (ValueError, TypeError):
                    parts.append(show(value))
            i = start = end + 1
        else:
            i += 1
    parts.append(cut(text, start, len(text)))
    return concat(parts)


def list_method(
    interp: Any, owner: list[Any], name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method of list."""
    interp.burn()
    if name not in ("append", "pop"):
        bounds.visited(interp, owner)
    if name == "append":
        owner.append(args[0])
    elif name == "extend":
        more = operators.iterate(interp, args[0], loc)
        bounds.items(interp, len(owner) + len(more))
        owner.extend(more)
    elif name == "insert":
        owner.insert(args[0] if isinstance(args[0], int) else 0, args[1])
    elif name == "pop":
        return owner.pop(*[a for a in args if isinstance(a, int)]) if owner else Unknown()
    elif name == "clear":
        owner.clear()
    elif name == "copy":
        return list(owner)
    elif name == "reverse":
        owner.reverse()
    elif name == "remove":
        if bounds.is_small(args[0]) and args[0] in owner:
            owner.remove(args[0])
    elif name == "sort":
        _sort(interp, owner, kwargs)
    elif name == "index":
        return owner.index(args[0]) if bounds.is_small(args[0]) and args[0] in owner else Unknown()
    elif name == "count":
        return sum(1 for x in owner if operators.same(interp, x, args[0]) is True)
    else:
        return Unknown((), f"list.{name}")
    return None


def _sort(interp: Any, items: list[Any], kwargs: dict[str, Any]) -> None:
    key = kwargs.get("key")
    if not all(map(bounds.is_small, items)):
        return
    try:
        items.sort(
            key=(lambda x: interp.call(key, [x], {}, None)) if key is not None else None,
            reverse=bool(kwargs.get("reverse", False)),
        )
    except Exception:
        return


def dict_method(
    interp: Any, owner: dict[Any, Any], name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method of dict."""
    if name == "__getitem__":
        return operators.get_item(interp, owner, args[0], loc)
    if name == "__setitem__":
        return operators.set_item(interp, owner, args[0], args[1], loc)
    if name == "__contains__":
        return operators.contains(interp, owner, args[0])
    if name == "get":
        found = operators.find_key(interp, owner, args[0])
        return (args[1] if len(args) > 1 else kwargs.get("default")) if found is operators.MISSING else found
    if name == "setdefault":
        found = operators.find_key(interp, owner, args[0])
        if found is operators.MISSING:
            owner[args[0]] = args[1] if len(args) > 1 else None
            return owner[args[0]]
        return found
    if name not in ("pop", "popitem"):
        bounds.visited(interp, owner)
    if name == "items":
        return [(k, v) for k, v in owner.items() if k != "__default_factory__"]
    if name == "keys":
        return [k for k in owner if k != "__default_factory__"]
    if name == "values":
        return [v for k, v in owner.items() if k != "__default_factory__"]
    if name == "update":
        for arg in args:
            if isinstance(arg, dict):
                owner.update(arg)
            elif isinstance(arg, (list, tuple)):
                owner.update(
                    {operators.check_key(p[0]): p[1] for p in arg if isinstance(p, (tuple, list)) and len(p) == 2}
                )
        owner.update(kwargs)
        return None
    if name == "pop":
        return owner.pop(operators.check_key(args[0]), args[1] if len(args) > 1 else Unknown())
    if name == "popitem":
        if not owner:
            return Unknown()
        key = next(iter(owner)) if kwargs.get("last") is False else next(reversed(owner))
        return key, owner.pop(key)
    if name == "clear":
        owner.clear()
        return None
    if name == "copy":
        return dict(owner)
    if name == "move_to_end":
        if operators.check_key(args[0]) in owner:
            owner[args[0]] = owner.pop(args[0])
        return None
    return Unknown((), f"dict.{name}")


def set_method(interp: Any, owner: set[Any], name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """A method of set."""
    if name == "add":
        owner.add(operators.check_key(args[0]))
        return None
    if name in ("discard", "remove"):
        owner.discard(operators.check_key(args[0]))
        return None
    if name == "update":
        for arg in args:
            owner.update(map(operators.check_key, operators.materialise(interp, arg, loc)))
        return None
    if name in ("union", "intersection", "difference", "issubset", "issuperset", "copy"):
        return getattr(owner, name)(
            *[set(map(operators.check_key, operators.materialise(interp, a, loc))) for a in args]
        )
    return Unknown((), f"set.{name}")


# --- built-in functions ------------------------------------------------------------------------------------


def builtin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a Python function as a built-in of the interpreted program: it gets (interp, args, kwargs, loc)."""
    function.__kbh_builtin__ = True  # type: ignore[attr-defined]
    return function


def _numbers(name: str) -> Callable[..., Any]:
    """int, float, abs, round, pow, divmod ... on known numbers; an unknown stays one."""
    real = getattr(builtins, name)

    @builtin
    def run(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        if args and isinstance(args[0], Tensor):
            if name in ("int", "float", "bool"):
                from kbh_lint.host import torchlib

                got = torchlib.scalar(interp, "item", [args[0]], {}, loc)
                return got
            from kbh_lint.host import torchlib

            return torchlib.call(interp, f"torch.{name}", args, kwargs, loc)
        if any(isinstance(a, Unknown) for a in args):
            if name in ("float", "abs") and args[0].range is not None:
                low, high = args[0].range
                return Unknown(
                    args[0].contents, name, (low, high) if name == "float" else (0.0, max(abs(low), abs(high)))
                )
            return operators.merged(interp, *args)
        try:
            _check_numbers(name, args)
            return real(*[str(a) if isinstance(a, Text) else a for a in args], **kwargs)
        except Exception:
            return operators.merged(interp, *args, why=name)

    return run


def _check_numbers(name: str, args: list[Any]) -> None:
    """Refuses what would make a number or a text without end."""
    if name == "pow" and len(args) == 2:
        bounds.power(args[0], args[1])
    elif name == "round" and len(args) == 2 or name in ("bytes", "bytearray"):
        bounds.width(args[-1] if args else 0)
    elif name == "hash" and args:
        operators.check_key(args[0])


@builtin
def _range(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if not all(isinstance(a, int) for a in args):
        return operators.merged(interp, *args, why="a range")
    try:
        made = range(*args)
    except (TypeError, ValueError):
        return Unknown((), "a range")
    return made if len(made) <= MAX_RANGE else operators.merged(interp, *args, why="a range past the bound")


@builtin
def _len(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    value = args[0]
    if isinstance(value, Tensor):
        return value.shape[0] if value.shape else Unknown()
    if isinstance(value, Instance):
        found = interp.world.find_method(value, "__len__")
        if found is None and value.items is not None:
            return len(value.items)
        return interp.call(found, [], {}, loc) if found is not None else Unknown()
    if isinstance(value, LibObject) and isinstance(value.attrs.get("items"), (list, dict)):
        return len(value.attrs["items"])
    return len(value) if hasattr(value, "__len__") else operators.merged(interp, value)


def _extreme(name: str) -> Callable[..., Any]:
    @builtin
    def run(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        items = list(operators.materialise(interp, args[0], loc)) if len(args) == 1 else list(args)
        if not items:
            return kwargs.get("default", Unknown())
        if not all(map(bounds.is_small, items)):
            return operators.merged(interp, *items[:2], why=name)
        if any(isinstance(i, (Unknown, Tensor)) for i in items):
            return operators.merged(interp, *items, why=name)
        key = kwargs.get("key")
        try:
            return getattr(builtins, name)(
                items, key=(lambda x: interp.call(key, [x], {}, loc)) if key is not None else None
            )
        except Exception:
            return items[0]

    return run


@builtin
def _sum(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    total: Any = args[1] if len(args) > 1 else kwargs.get("start", 0)
    items = operators.materialise(interp, args[0], loc)
    bounds.steps(interp, len(items))
    for item in items:
        total = operators.binary(interp, "+", total, item, loc)
    return total


def _truths(every: bool) -> Callable[..., Any]:
    @builtin
    def run(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        items = operators.materialise(interp, args[0], loc)
        bounds.steps(interp, len(items))
        for item in items:
            if interp.truth(item, loc) != every:
                return not every
        return every

    return run


@builtin
def _isinstance(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    value, kinds = args[0], args[1] if len(args) > 1 else ()
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    if isinstance(value, Unknown):
        return operators.merged(interp, value, why="a type test")
    return any(_is_a(value, k) for k in kinds)


def _is_a(value: Any, kind: Any) -> bool:
    if isinstance(kind, ClassV):
        return isinstance(value, Instance) and kind in value.cls.mro()
    path = getattr(kind, "path", "") or getattr(kind, "__kbh_name__", "")
    name = path.rsplit(".", 1)[-1]
    if name in ("Tensor", "Parameter"):
        return isinstance(value, Tensor) and (name == "Tensor" or value.parameter)
    if name == "dtype":
        return isinstance(value, DType)
    if name == "Module":
        return isinstance(value, Instance)
    if isinstance(value, LibObject):
        return value.path.rsplit(".", 1)[-1] == name
    real = getattr(builtins, name, None)
    return isinstance(real, type) and isinstance(value, real)


@builtin
def _getattr(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    owner, name = args[0], args[1]
    if isinstance(name, Unknown):
        return operators.merged(interp, owner, name, why="an attribute by unknown name")
    if len(args) > 2 and not has_attr(interp, owner, str(name)):
        return args[2]
    return interp.world.get_attr(interp, owner, str(name), loc)


def has_attr(interp: Any, owner: Any, name: str) -> bool:
    """hasattr in the assumed world: libraries have what is asked of them."""
    if isinstance(owner, Instance):
        if name in owner.attrs:
            return True
        try:
            owner.cls.find(name)
            return True
        except KeyError:
            return False
    if isinstance(owner, Func):
        return name in owner.attrs
    if isinstance(owner, ClassV):
        return any(name in c.env.vars for c in owner.mro())
    if isinstance(owner, Tensor):
        from kbh_lint.host import torchlib

        return name in owner.attrs or torchlib.has_attribute(name)
    if isinstance(owner, LibObject) and owner.path == "module":
        return name in owner.attrs
    if isinstance(owner, (int, float, str, list, dict, tuple)):
        return hasattr(owner, name)
    return owner is not None


@builtin
def _hasattr(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return has_attr(interp, args[0], str(args[1]))


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
    return Sym(f"builtins.{type(value).__name__}")


@builtin
def _callable(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return isinstance(args[0], (*CALLABLES, Sym, Bound, Method, JitFunction))


@builtin
def _str(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if not args:
        return ""
    if isinstance(args[0], int):
        interp.burn(args[0].bit_length() // 64)  # quadratic in the digits
    return args[0] if isinstance(args[0], (str, Unknown)) else show(args[0])


def _collect(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    @builtin
    def run(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        if args and isinstance(args[0], Unknown):
            return args[0]
        items = operators.materialise(interp, args[0], loc) if args else []
        return kind(map(operators.check_key, items)) if kind in (set, frozenset) else kind(items)

    return run


@builtin
def _dict(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    out: dict[Any, Any] = {}
    if args:
        if isinstance(args[0], dict):
            out.update(bounds.visited(interp, args[0]))
        else:
            out.update(
                {
                    operators.check_key(p[0]): p[1]
                    for p in operators.materialise(interp, args[0], loc)
                    if isinstance(p, (tuple, list)) and len(p) == 2
                }
            )
    out.update(kwargs)
    return out


@builtin
def _enumerate(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    start = args[1] if len(args) > 1 else kwargs.get("start", 0)
    return [
        (i, item)
        for i, item in enumerate(operators.materialise(interp, args[0], loc), start if isinstance(start, int) else 0)
    ]


@builtin
def _zip(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return list(zip(*[operators.materialise(interp, a, loc) for a in args], strict=False))


@builtin
def _map(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    rows = zip(*[operators.materialise(interp, a, loc) for a in args[1:]], strict=False)
    return [interp.call(args[0], list(row), {}, loc) for row in rows]


@builtin
def _filter(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    items = operators.materialise(interp, args[1], loc)
    return [i for i in items if interp.truth(interp.call(args[0], [i], {}, loc) if args[0] is not None else i, loc)]


@builtin
def _sorted(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    items = list(operators.materialise(interp, args[0], loc))
    _sort(interp, items, kwargs)
    return items


@builtin
def _reversed(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return list(reversed(list(operators.materialise(interp, args[0], loc))))


@builtin
def _iter(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return list(operators.materialise(interp, args[0], loc)) if args else []


@builtin
def _next(interp: Any, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    items = operators.iterate(interp, args[0], loc)
    if isinstance(items, list) and items:
        return items.pop(0)
    return items[0] if items else (args[1] if len(args) > 1 else Unknown())


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
        any=_truths(False), isinstance=_isinstance, issubclass=_isinstance, getattr=_getattr, hasattr=_hasattr,
        setattr=_setattr, type=_type, callable=_callable, str=_str, repr=_str, list=_collect(list),
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


def math_call(interp: Any, name: str, args: list[Any]) -> Any:
    """math.NAME on known numbers."""
    if any(isinstance(a, (Unknown, Tensor)) for a in args):
        return operators.merged(interp, *args)
    if name == "prod" and args:
        total: Any = 1
        for item in operators.materialise(interp, args[0], None):
            interp.burn()
            total = operators.binary(interp, "*", total, item, None)
        return total
    try:
        if name in ("factorial", "comb", "perm"):
            bounds.argument(*args)
        elif name == "lcm":
            bounds.argument(16 * len(args))
        return getattr(math, name)(*args)
    except Exception:
        return operators.merged(interp, *args, why=f"math.{name}")
