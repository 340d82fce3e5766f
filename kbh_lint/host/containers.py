"""Methods of strings, lists, dicts and sets."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Any

from kbh_lint import ir
from kbh_lint.dtypes import torch_name
from kbh_lint.host import bounds, equality, exceptions, iteration, keys, ordering, subscripts, unknowns
from kbh_lint.host.frames import OutOfFuel, Raised
from kbh_lint.host.objects import Keys, LibObject, Once, Ring
from kbh_lint.host.tensors import Unknown
from kbh_lint.source import embedded
from kbh_lint.source.embedded import Text, concat, cut
from kbh_lint.values import DType

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

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
    if isinstance(value, Unknown):
        return embedded.doubted(repr(value), value)
    if isinstance(value, (list, tuple, set, dict)) and bounds.is_small(value):
        try:
            shown = str(value)[:10_000]
        except Exception:
            return type(value).__name__
        return _with_doubt(shown, value.values() if isinstance(value, dict) else value)
    if isinstance(value, DType):
        return f"torch.{torch_name(value.name)}"
    if isinstance(value, LibObject) and value.path.startswith("builtins.") and "args" in value.attrs:
        given = value.attrs["args"]  # an exception
        return show(given[0]) if len(given) == 1 else show(tuple(given)) if given else ""
    if isinstance(value, LibObject) and "path" in value.attrs:
        return str(value.attrs["path"])
    if isinstance(value, LibObject) and value.path == "torch.device":
        return str(value.attrs.get("type", "cuda"))
    return f"<{type(value).__name__}>"


def _with_doubt(text: str, parts: Iterable[Any]) -> str:
    """A text that was made of `parts`, with those that are not known, some levels deep."""
    level = list(parts)
    for _ in range(4):
        for part in level:
            if isinstance(part, Unknown):
                text = embedded.doubted(text, part)
                break
        level = [item for part in level if isinstance(part, (list, tuple)) for item in part][: bounds.FREE_ITEMS]
    return text


def string_method(interp: Run, text: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method of str; places survive in those that build code."""
    if any(isinstance(a, Unknown) for a in args) and name not in ("format", "join"):
        return unknowns.merged(interp, *args)
    if name in _SAFE_STR and name != "encode" and any(map(embedded.doubts, (text, *args))):
        return unknowns.merged(interp, text, *args, why=f"str.{name}")
    if name == "join":
        if isinstance(args[0], Unknown) and args[0].why.startswith("sniff:"):
            return unknowns.merged(interp, *args)
        parts = iteration.iterate(interp, args[0], None)
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
    if name in ("format", "format_map"):
        from kbh_lint.host import lib_texts

        if name == "format_map":
            args, kwargs = [], args[0] if args and isinstance(args[0], dict) else {}
        return lib_texts.formatted(interp, text, args, kwargs, None)
    if name == "encode":
        return text  # bytes of a text are followed as the text
    if name in ("strip", "lstrip", "rstrip"):
        chars = str(args[0]) if args and args[0] is not None else None
        return embedded.strip(text, chars, name != "rstrip", name != "lstrip")
    if name == "splitlines" and isinstance(text, Text):
        keep = bool(args and args[0]) or bool(kwargs.get("keepends"))
        lines = embedded.split_lines(text)
        return lines if keep else [embedded.strip(line, "\r\n", False, True) for line in lines]
    separator = (args[0] if args else kwargs.get("sep")) if name == "split" else None
    if isinstance(text, Text) and isinstance(separator, str):
        out: list[str] = []
        at = 0
        for plain in str(text).split(str(separator), args[1] if len(args) > 1 else kwargs.get("maxsplit", -1)):
            out.append(cut(text, at, at + len(plain)))
            at += len(plain) + len(separator)
        return out
    if name == "translate":
        if not isinstance(args[0], dict) or embedded.doubts(text):
            return unknowns.merged(interp, text, *args, why="str.translate")
        made = str(text).translate({key: value for key, value in args[0].items() if not isinstance(value, Unknown)})
        return text if made == str(text) else made
    if name in _SAFE_STR:
        plain_args = [str(a) if isinstance(a, Text) else a for a in args]
        for arg in (*args, *kwargs.values()):
            bounds.width(arg)
        plain_kwargs = {key: str(value) if isinstance(value, Text) else value for key, value in kwargs.items()}
        return getattr(str, name)(str(text), *plain_args, **plain_kwargs)
    return Unknown((), f"str.{name}")


def list_method(
    interp: Run, owner: list[Any], name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method of list."""
    interp.burn()
    if name not in ("append", "pop") and not isinstance(owner, Once):
        bounds.visited(interp, owner)
    if name == "append":
        owner.append(args[0])
        _kept(owner, 0)
    elif name in ("appendleft", "extendleft"):
        more = [args[0]] if name == "appendleft" else iteration.iterate(interp, args[0], loc)
        bounds.items(interp, len(owner) + len(more))
        owner[:0] = list(more)[::-1]
        _kept(owner, -1)
    elif name == "popleft":
        if not owner:
            exceptions.may_fail(interp, "IndexError", loc)
        return owner.pop(0) if owner else Unknown()
    elif name == "rotate":
        count = args[0] if args and isinstance(args[0], int) else 1
        at = -count % len(owner) if owner else 0
        owner[:] = owner[at:] + owner[:at]
    elif name == "extend":
        more = iteration.iterate(interp, args[0], loc)
        bounds.items(interp, len(owner) + len(more))
        owner.extend(more)
        _kept(owner, 0)
    elif name == "insert":
        owner.insert(args[0] if isinstance(args[0], int) else 0, args[1])
    elif name == "pop":
        if not owner:
            exceptions.may_fail(interp, "IndexError", loc)
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
        else:
            exceptions.may_fail(interp, "ValueError", loc)
    elif name == "sort":
        sort_items(interp, owner, kwargs)
    elif name == "index":
        if bounds.is_small(args[0]) and args[0] in owner:
            return owner.index(args[0])
        exceptions.may_fail(interp, "ValueError", loc)
        return Unknown()
    elif name == "count":
        return sum(1 for x in owner if equality.same(interp, x, args[0]) is True)
    elif isinstance(owner, Once) and name in ("__next__", "send", "__iter__", "close", "throw"):
        return _iterator_method(interp, owner, name, args, loc)
    else:
        return Unknown((), f"list.{name}")
    return None


def _iterator_method(interp: Run, owner: Once, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    from kbh_lint.host import generators

    if name == "__iter__":
        return owner
    if name == "close":
        return generators.close(owner)
    if name == "throw":
        generators.throw(owner, exceptions.raised(interp, args[0], loc))
    if name == "send":
        owner.sent = args[0]
    if not len(owner) and not owner.more():
        iteration.ended(interp, owner, loc)
        return Unknown()
    return owner.pop(0)


def _kept(owner: list[Any], end: int) -> None:
    """Drops what a full deque loses at one end."""
    longest = owner.longest if isinstance(owner, Ring) else None
    while longest is not None and len(owner) > longest:
        owner.pop(end)


def sort_items(interp: Run, items: list[Any], kwargs: dict[str, Any]) -> None:
    key = kwargs.get("key")
    if not all(map(bounds.is_small, items)):
        return
    try:
        items.sort(
            key=lambda x: ordering.key_of(interp, x if key is None else interp.call(key, [x], {}, None), None),
            reverse=bool(kwargs.get("reverse", False)),
        )
    except (Raised, OutOfFuel, MemoryError):
        raise
    except Exception:  # keys without an order: unknowns, mixed types; the run goes on with the order it has
        return


def dict_method(
    interp: Run, owner: dict[Any, Any], name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method of dict."""
    if name == "__getitem__":
        return subscripts.get_item(interp, owner, args[0], loc)
    if name == "__setitem__":
        return subscripts.set_item(interp, owner, args[0], args[1], loc)
    if name == "__contains__":
        return subscripts.contains(interp, owner, args[0])
    if name == "__delitem__":
        if owner.pop(keys.check_key(args[0]), keys.MISSING) is keys.MISSING:
            exceptions.may_fail(interp, "KeyError", loc)
        return None
    if name == "get":
        found = keys.find_key(interp, owner, args[0])
        return (args[1] if len(args) > 1 else kwargs.get("default")) if found is keys.MISSING else found
    if name == "setdefault":
        found = keys.find_key(interp, owner, args[0])
        if found is keys.MISSING:
            keys.store(interp, owner, args[0], args[1] if len(args) > 1 else None)
            return args[1] if len(args) > 1 else None
        return found
    if name not in ("pop", "popitem"):
        bounds.visited(interp, owner)
    if name == "items":
        return list(owner.items())
    if name == "keys":
        return Keys(owner)
    if name == "values":
        return list(owner.values())
    if name == "update":
        for arg in args:
            if isinstance(arg, dict):
                owner.update(arg)
            elif isinstance(arg, (list, tuple)):
                owner.update({keys.check_key(p[0]): p[1] for p in arg if isinstance(p, (tuple, list)) and len(p) == 2})
        owner.update(kwargs)
        return None
    if name == "pop":
        if len(args) < 2 and keys.check_key(args[0]) not in owner:
            exceptions.may_fail(interp, "KeyError", loc)
        return owner.pop(keys.check_key(args[0]), args[1] if len(args) > 1 else Unknown())
    if name == "popitem":
        if not owner:
            exceptions.may_fail(interp, "KeyError", loc)
            return Unknown()
        key = next(iter(owner)) if (args[0] if args else kwargs.get("last")) is False else next(reversed(owner))
        return key, owner.pop(key)
    if name == "clear":
        owner.clear()
        return None
    if name == "copy":
        return copy(owner)
    if name == "move_to_end":
        if keys.check_key(args[0]) in owner:
            held = {args[0]: owner.pop(args[0])}
            rest = dict(owner) if (args[1] if len(args) > 1 else kwargs.get("last")) is False else {}
            if rest:
                owner.clear()
            owner.update(held)
            owner.update(rest)
        return None
    return Unknown((), f"dict.{name}")


def set_method(interp: Run, owner: set[Any], name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """A method of set."""
    if name == "add":
        keys.distinct(interp, args[:1], owner)
        return None
    if name in ("clear", "intersection_update", "difference_update"):
        found = [set(map(keys.check_key, iteration.materialise(interp, arg, loc))) for arg in args]
        getattr(owner, name)(*found)
        return None
    if name in ("discard", "remove"):
        if name == "remove" and keys.check_key(args[0]) not in owner:
            exceptions.may_fail(interp, "KeyError", loc)
        owner.discard(keys.check_key(args[0]))
        return None
    if name == "update":
        for arg in args:
            owner.update(map(keys.check_key, iteration.materialise(interp, arg, loc)))
        return None
    if name == "pop":
        if not owner:
            exceptions.may_fail(interp, "KeyError", loc)
            return Unknown()
        taken = min(owner, key=repr)  # which one, nobody knows; the same each time
        owner.discard(taken)
        return taken
    if name in (
        "union",
        "intersection",
        "difference",
        "symmetric_difference",
        "issubset",
        "issuperset",
        "isdisjoint",
        "copy",
    ):
        return getattr(owner, name)(*[set(map(keys.check_key, iteration.materialise(interp, a, loc))) for a in args])
    return Unknown((), f"set.{name}")
