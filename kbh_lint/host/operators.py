"""Operators of the interpreted program: real on numbers, strings and containers, abstract on tensors and unknowns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from kbh_lint import ir
from kbh_lint.host import asking, bounds, remembered, torchlib
from kbh_lint.host.modules import GRADER_NAMES
from kbh_lint.host.objects import ClassV, Configured, Defaults, Instance, LibObject, Tally, compared_as
from kbh_lint.host.tensors import Tensor, Unknown
from kbh_lint.source.embedded import Text, concat, cut, doubted, doubts, replace
from kbh_lint.values import DType, JitFunction, Sym

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor,
}  # fmt: skip
UNION = "types.UnionType"  # `int | float`, with the classes as its arguments
_UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "~": operator.invert, "+": operator.pos}
MAX_ANY = 64  # values that are compared to find those that differ
MAX_CHOICES = 4
_SEQUENCES = (str, bytes, bytearray, list, tuple)
_TENSOR = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "%": "remainder", "**": "pow",
    "<<": "bitwise_left_shift", ">>": "bitwise_right_shift", "&": "bitwise_and", "|": "bitwise_or",
    "^": "bitwise_xor", "@": "matmul", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
DUNDERS = {
    f"__{kind}{name}__": (op, kind)
    for kind in ("", "r", "i")
    for name, op in (
        ("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%"), ("pow", "**"),
        ("matmul", "@"), ("lshift", "<<"), ("rshift", ">>"), ("and", "&"), ("or", "|"), ("xor", "^"),
    )
}  # fmt: skip
_SPECIAL = {"+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "@": "__matmul__", "%": "__mod__"}


def merged(interp: Any, *values: Any, why: str = "") -> Unknown:
    """An unknown computed from all of `values`."""
    contents: list[Any] = []
    why = asking.source(*values) or why
    made = 0
    for value in values:
        if isinstance(value, Unknown):
            made = max(made, value.made)
        elif isinstance(value, Tensor):
            made = interp.round
        for content in interp.contents_of(value):
            if content not in contents:
                contents.append(content)
    return Unknown(tuple(contents), why, made=made)


def binary(interp: Any, op: str, left: Any, right: Any, loc: ir.Loc | None) -> Any:
    """`left op right`."""
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        asking.flows(interp, left, right, loc)
        return torchlib.call(interp, f"torch.{_TENSOR.get(op, 'add')}", [left, right], {}, loc, spelled=op)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return merged(interp, left, right)
    if isinstance(left, Instance) and op in _SPECIAL:
        found = interp.world.find_method(left, _SPECIAL[op])
        if found is not None:
            return interp.call(found, [right], {}, loc)
    if isinstance(left, str) and op == "%":
        bounds.text(interp, left)
        shown = percent(left, right)
        parts = right if isinstance(right, tuple) else right.values() if isinstance(right, dict) else (right,)
        unknown = [part for part in parts if isinstance(part, Unknown) or doubts(part)]
        return doubted(shown, merged(interp, *unknown)) if unknown else shown
    if isinstance(left, str) and isinstance(right, str) and op == "+":
        bounds.text(interp, left, right)
        return concat((left, right))
    if op == "|" and _is_type(left) and _is_type(right):
        return LibObject(UNION, {}, (left, right))
    if op == "*" and isinstance(left, Sym) and left.path.startswith("ctypes."):
        return LibObject("ctypes.array", {"count": right if isinstance(right, int) else 0})
    if op == "*" and (isinstance(left, _SEQUENCES) or isinstance(right, _SEQUENCES)):
        seq, times = (left, right) if isinstance(left, _SEQUENCES) else (right, left)
        if not isinstance(times, int) or len(seq) * times > bounds.MAX_ITEMS:
            return merged(interp, left, right, why="a repetition past the bound")
        made: Any = seq * times
        if isinstance(seq, (list, tuple)):
            bounds.items(interp, len(made))
        else:
            bounds.text(interp, made)
        return made
    if op == "+" and isinstance(left, _SEQUENCES) and isinstance(right, _SEQUENCES):
        bounds.items(interp, len(left) + len(right))
    if op == "/" and isinstance(left, LibObject) and left.path == "pathlib.Path":
        return interp.world.path(interp.world.join_path(left.attrs["path"], _path_text(right)))
    try:
        if op in ("**", "<<"):
            bounds.power(left, right)
        elif op == "*":
            bounds.product(left, right)
        return _BINARY[op](left, right)
    except Exception as error:
        failed(interp, error, loc)
        return merged(interp, left, right, why=f"{type(left).__name__} {op} {type(right).__name__}")


def _is_type(value: Any) -> bool:
    """Whether a value may stand in `int | None`."""
    if isinstance(value, LibObject):
        return value.path == UNION
    return value is None or isinstance(value, (ClassV, Sym)) or hasattr(value, "__kbh_name__")


def _path_text(value: Any) -> str:
    return str(value.attrs["path"]) if isinstance(value, LibObject) and "path" in value.attrs else str(value)


def percent(template: str, values: Any) -> Any:
    """`template % values`, keeping places where each conversion is a plain %s or %d."""
    args = list(values) if isinstance(values, tuple) else [values]
    for value in values.values() if isinstance(values, dict) else args:
        if not bounds.is_small(value):
            raise bounds.TooLarge("a text grew past the bound")
    if isinstance(values, dict):
        out: str = template
        for key, value in values.items():
            for conv in ("s", "d"):
                out = replace(out, f"%({key}){conv}", value if isinstance(value, str) else str(value))
        return replace(out, "%%", "%")
    parts: list[str] = []
    i = start = used = 0
    while i < len(template):
        if str.__getitem__(template, i) != "%" or i + 1 >= len(template):
            i += 1
            continue
        parts.append(cut(template, start, i))
        conv = str.__getitem__(template, i + 1)
        if conv == "%":
            parts.append("%")
        elif conv in "sdr" and used < len(args):
            value = args[used]
            parts.append(value if isinstance(value, str) else str(value))
            used += 1
        else:
            if "*" in template:
                return template
            try:
                return str(bounds.format_spec(template)) % tuple(args)
            except Exception:
                return template
        i += 2
        start = i
    parts.append(cut(template, start, len(template)))
    return concat(parts)


def failed(interp: Any, error: Exception, loc: ir.Loc | None) -> None:
    """An operation on known values raised what Python raises, unless a bound of ours was met."""
    if not isinstance(error, bounds.TooLarge):
        interp.world.may_fail(interp, type(error).__name__, loc)


def unary(interp: Any, op: str, value: Any, loc: ir.Loc | None) -> Any:
    """`op value`."""
    if isinstance(value, Tensor):
        name = {"-": "neg", "~": "bitwise_not", "+": "positive"}[op]
        return torchlib.call(interp, f"torch.{name}", [value], {}, loc)
    if isinstance(value, Unknown):
        return merged(interp, value)
    try:
        return _UNARY[op](value)
    except Exception as error:
        failed(interp, error, loc)
        return merged(interp, value)


def inplace(interp: Any, op: str, old: Any, value: Any, loc: ir.Loc | None) -> Any:
    """`old op= value`: tensors and lists change in place."""
    if isinstance(old, Tensor):
        if op == "@":
            return binary(interp, op, old, value, loc)
        return torchlib.call(interp, f"torch.{_TENSOR[op]}_", [old, value], {}, loc)
    if isinstance(old, list) and op == "+":
        more = iterate(interp, value, loc)
        bounds.items(interp, len(old) + len(more))
        old.extend(more)
        return old
    if isinstance(old, dict) and op == "|" and isinstance(value, dict):
        old.update(value)
        return old
    return binary(interp, op, old, value, loc)


SUCCESS = Sym("CUDA_SUCCESS")
SUCCESSES = frozenset({"CUDA_SUCCESS", "cudaSuccess", "NVRTC_SUCCESS", "CUBLAS_STATUS_SUCCESS"})


def is_success(value: Any) -> bool:
    """The status of a CUDA call, all of which succeed."""
    return isinstance(value, Sym) and value.path.replace("::", ".").rpartition(".")[2] in SUCCESSES


def dunder(interp: Any, owner: Any, name: str, other: Any, loc: ir.Loc | None) -> Any:
    """`owner.__add__(other)` and its reflected and in-place forms."""
    op, kind = DUNDERS[name]
    if kind == "i":
        return inplace(interp, op, owner, other, loc)
    return binary(interp, op, other, owner, loc) if kind == "r" else binary(interp, op, owner, other, loc)


def same(interp: Any, left: Any, right: Any) -> Any:
    """`left == right`: True, False or an Unknown."""
    if left is right:
        return True
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return same_unknown(interp, left, right)
    if isinstance(left, str) and isinstance(right, str) and (doubts(left) or doubts(right)):
        return _same_text(interp, left, right)
    for one, other in ((left, right), (right, left)):
        own = interp.world.find_method(one, "__eq__") if isinstance(one, Instance) else None
        if own is not None:
            answer = interp.call(own, [other], {}, None)
            if isinstance(answer, Unknown) and answer.why == "NotImplemented":
                continue
            return answer if isinstance(answer, Unknown) else interp.truth(answer, None)
    if is_success(left) or is_success(right):
        return is_success(left) and is_success(right) or left == 0 or right == 0
    if isinstance(left, (Instance, LibObject)) or isinstance(right, (Instance, LibObject)):
        one, other = compared_as(left), compared_as(right)
        if one is not left or other is not right:
            interp.burn()
            return same(interp, one, other)
    sequences = isinstance(left, (list, tuple)) and isinstance(right, (list, tuple))
    if sequences and (type(left) is not type(right) or len(left) != len(right)):
        return False
    if not bounds.is_small(left) or not bounds.is_small(right):
        return merged(interp, left, right, why="a comparison past the bound")
    if sequences:
        doubt: Any = True
        for a, b in zip(left, right, strict=True):
            verdict = same(interp, a, b)
            if verdict is False:
                return False
            if verdict is not True:
                doubt = verdict
        return doubt
    if asking.of_library(left) or asking.of_library(right):
        return asking.presumed(_same_objects(interp, left, right) is True)
    return _same_objects(interp, left, right)


def _same_objects(interp: Any, left: Any, right: Any) -> Any:
    if isinstance(left, LibObject) and isinstance(right, LibObject):
        if not bounds.is_small(left.attrs) or not bounds.is_small(right.attrs):
            return merged(interp, left, right, why="a comparison past the bound")
        return left.path == right.path and left.attrs == right.attrs
    if isinstance(left, LibObject) and left.path == "torch.device" or isinstance(right, LibObject):
        return torchlib.same_device(left, right)
    if isinstance(left, (bytes, bytearray)) != isinstance(right, (bytes, bytearray)):  # bytes of a text are the text
        text, data = (right, left) if isinstance(left, (bytes, bytearray)) else (left, right)
        if isinstance(text, str) and str(text).encode("utf-8", "replace") == data:
            return merged(interp, left, right, why="a comparison of a text and bytes")
    try:
        return bool(left == right)
    except Exception:
        return False


def _same_text(interp: Any, left: str, right: str) -> Any:
    """Whether texts are equal that were made of unknown values. A number that is no content of a tensor and was not
    asked for is taken to be the same each time, as the name of a device is."""
    values, others = doubts(left), doubts(right)
    if str(left) != str(right) or len(values) != len(others):
        return merged(interp, left, right, why="a comparison")
    for a, b in zip(values, others, strict=True):
        fixed = not (a.contents or b.contents or asking.source(a, b)) and a.why == b.why
        verdict = fixed or same(interp, a, b)
        if verdict is not True:
            return verdict
    return True


def same_unknown(interp: Any, left: Any, right: Any) -> Any:
    """Two values read from one storage before and after it changed are taken to differ: that is what a key is for."""
    if isinstance(left, Unknown) and isinstance(right, Unknown):
        known = remembered.same_value(interp, left, right)
        if known is not None:
            return known
        for a in left.contents:
            for b in right.contents:
                if a is not b and a.storage is b.storage:
                    return False
    if left is None or right is None:
        return False
    return merged(interp, left, right, why="a comparison")


def compare(interp: Any, op: str, left: Any, right: Any, loc: ir.Loc | None) -> Any:
    """`left op right` for one comparison operator."""
    if op in ("is", "is not"):
        found = left is right or (
            isinstance(left, (DType, Sym, int, str)) and left == right and type(left) is type(right)
        )
        if isinstance(left, Unknown) and left.why.startswith(asking.MARK):
            return merged(interp, left)
        if not found and any(isinstance(side, Unknown) and not side.contents for side in (left, right)):
            return asking.presumed(op == "is not")
        return found if op == "is" else not found
    if op in ("in", "not in"):
        answer = contains(interp, right, left, loc)
        if isinstance(answer, Unknown):
            return answer
        return answer if op == "in" else not answer
    if isinstance(left, Tensor) and left.shape == () and isinstance(right, (int, float)) and op in _COMPARE:
        settled = by_range(op, Unknown((), "", left.attrs.get("range")), right)
        if settled is not None:
            answer = torchlib.call(interp, f"torch.{_TENSOR[op]}", [left, right], {}, loc)
            answer.attrs["holds"] = settled
            return answer
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        if isinstance(left, (Tensor, int, float, Unknown)) and isinstance(right, (Tensor, int, float, Unknown)):
            return torchlib.call(interp, f"torch.{_TENSOR[op]}", [left, right], {}, loc)
        return op == "!="
    if op in ("==", "!="):
        answer = same(interp, left, right)
        if isinstance(answer, Unknown):
            return asking.opposite(answer) if op == "!=" else answer
        return answer if op == "==" else not answer
    if isinstance(left, Unknown) or isinstance(right, Unknown) or doubts(left) or doubts(right):
        settled = by_range(op, left, right)
        unknown = merged(interp, left, right, why="a comparison")
        return unknown if settled is None else interp.world.settle(interp, loc, settled, unknown.contents)
    try:
        if not bounds.is_small(left):
            return merged(interp, left, right, why="a comparison past the bound")
        return _COMPARE[op](left, right)
    except Exception as error:
        failed(interp, error, loc)
        return merged(interp, left, right, why="a comparison")


def by_range(op: str, left: Any, right: Any) -> bool | None:
    """An order that holds for every legal input, else None."""
    ends = []
    for value in (left, right):
        if isinstance(value, Unknown):
            ends.append(value.range)
        else:
            ends.append((value, value) if isinstance(value, (int, float)) else None)
    a, b = ends
    if a is None or b is None:
        return None
    if op in ("<", "<="):
        return True if a[1] < b[0] else False if a[0] > b[1] else None
    return True if a[0] > b[1] else False if a[1] < b[0] else None


def contains(interp: Any, owner: Any, item: Any, loc: ir.Loc | None = None) -> Any:
    """`item in owner`."""
    if isinstance(owner, Unknown) or doubts(owner) or isinstance(owner, str) and doubts(item):
        return merged(interp, owner, item, why="membership")
    if isinstance(owner, dict):
        return find_key(interp, owner, item) is not MISSING
    if isinstance(owner, (list, tuple, set, frozenset)):
        doubt: Any = False
        bounds.steps(interp, len(owner))
        for other in owner:
            verdict = same(interp, other, item)
            if verdict is True:
                return True
            if verdict is not False:
                doubt = verdict
        return doubt
    if isinstance(owner, Instance):
        found = interp.world.find_method(owner, "__contains__")
        if found is None and owner.items is not None:
            return contains(interp, owner.items, item)
        return interp.call(found, [item], {}, None) if found is not None else merged(interp, owner, item)
    if isinstance(owner, LibObject) and owner.path == "os.environ":
        return interp.call(interp.world.get_attr(interp, owner, "__contains__", loc), [item], {}, loc)
    try:
        return item in owner
    except Exception:
        return merged(interp, owner, item, why="membership")


MISSING = object()


def check_key(key: Any) -> Any:
    """`key`, fit to be hashed; raises TooLarge when that would not come to an end."""
    if type(key) is tuple and not bounds.is_small(key):
        raise bounds.TooLarge("a key past the bound")
    return key


def find_key(interp: Any, owner: dict[Any, Any], key: Any) -> Any:
    """The value under `key`, or MISSING."""
    found = held_key(interp, owner, key)
    return MISSING if found is MISSING else owner[found]


def held_key(interp: Any, owner: dict[Any, Any], key: Any) -> Any:
    """The key of `owner` that `key` finds, or MISSING. Keys that hold unknowns match when these are known to be equal,
    objects by what their class says of equality."""
    check_key(key)
    try:
        if key in owner and not doubts(key):
            return key
    except TypeError:
        return MISSING
    if _is_walked(interp, key):
        bounds.steps(interp, len(owner))
        for other in owner:
            if type(other) is type(key) and same(interp, other, key) is True:
                return other
    return MISSING


def _is_walked(interp: Any, key: Any) -> bool:
    """Whether hashing alone does not find a key: it holds unknowns, or objects that are equal by their fields."""
    if isinstance(key, tuple):
        nested = [part for part in key if isinstance(part, tuple)]
        if sum(map(len, nested)) > MAX_ANY:  # the values of whole tensors, say: too much to compare part by part
            return any(isinstance(part, Unknown) for part in key)
        return any(_is_walked(interp, part) for part in key)
    if isinstance(key, Instance) and interp.world.find_method(key, "__eq__") is not None:
        return True
    return isinstance(key, Unknown) or bool(doubts(key)) or compared_as(key) is not key


def get_item(interp: Any, owner: Any, key: Any, loc: ir.Loc | None) -> Any:
    """`owner[key]`."""
    if isinstance(owner, JitFunction):
        return Configured(owner, key)
    if isinstance(owner, Configured):
        return Configured(owner.jit, key, owner.bound)
    if isinstance(owner, Tensor):
        return torchlib.index(interp, owner, key, loc)
    if isinstance(owner, Unknown):
        if owner.why == "sniff:sys.modules" and isinstance(key, str) and GRADER_NAMES & set(key.split(".")):
            return Sym(str(key))  # the grader's own module, taken from the loaded ones
        return merged(interp, owner, key)
    if isinstance(owner, dict):
        found = find_key(interp, owner, key)
        if found is not MISSING:
            return found
        if isinstance(owner, Tally):
            return 0
        factory = owner.factory if isinstance(owner, Defaults) else None
        if factory is not None:
            value = interp.call(factory, [], {}, loc)
            owner[key] = value
            return value
        if isinstance(key, Unknown):
            return _any_of(interp, list(owner.values()), key, loc) if len(owner) == 2 else merged(interp, key)
        interp.world.raise_(interp, "KeyError", [key], loc)
    if isinstance(owner, (list, tuple, range)) and isinstance(key, Unknown):
        return _any_of(interp, owner, key, loc) if owner else merged(interp, key)
    if isinstance(owner, str):
        if isinstance(key, slice) and key.step in (None, 1) and isinstance(owner, Text):
            start, stop, _ = key.indices(len(owner))
            bounds.text(interp, owner)
            part, before = cut(owner, start, max(stop, start)), cut(owner, 0, start)
            return doubted(part, merged(interp, before)) if doubts(before) else part
        bounds.text(interp, owner if isinstance(key, slice) else "")
        if doubts(owner) and not (type(key) is int and key >= 0 and not doubts(cut(owner, 0, key + 1))):
            return merged(interp, owner, key, why="a character")
        return str.__getitem__(owner, key)
    if isinstance(owner, Instance):
        found = interp.world.find_method(owner, "__getitem__")
        if found is not None:
            return interp.call(found, [key], {}, loc)
        if owner.items is not None:
            return item_of(interp, owner, key, loc)
    if isinstance(owner, (list, tuple, range)):
        try:
            return owner[key] if isinstance(key, int) else bounds.visited(interp, owner[key])
        except (IndexError, TypeError):
            if isinstance(key, int):
                interp.world.raise_(interp, "IndexError", [key], loc)
            return merged(interp, key)
    return interp.world.get_item(interp, owner, key, loc)


def item_of(interp: Any, owner: Instance, key: Any, loc: ir.Loc | None) -> Any:
    """`owner[key]` of an object of a subclass of dict, whose `__missing__` makes what is not there."""
    assert owner.items is not None
    missing = interp.world.find_method(owner, "__missing__")
    if missing is not None and find_key(interp, owner.items, key) is MISSING:
        return interp.call(missing, [key], {}, loc)
    return get_item(interp, owner.items, key, loc)


def _any_of(interp: Any, items: Any, key: Unknown, loc: ir.Loc | None) -> Any:
    """One of several values, chosen by an unknown index: the first, and in further runs each of the others."""
    apart: list[Any] = []
    for item in items[:MAX_ANY]:
        if not any(same(interp, item, other) is True for other in apart):
            apart.append(item)
    if len(apart) > MAX_CHOICES or len(items) > MAX_ANY:
        return merged(interp, key, why="one of many")
    for i in range(1, len(apart)):
        place = interp.place(loc), i
        interp.world.places.setdefault(place, loc)
        if interp.decide(place, key):
            return apart[i]
    return apart[0]


def set_item(interp: Any, owner: Any, key: Any, value: Any, loc: ir.Loc | None) -> None:
    """`owner[key] = value`."""
    if isinstance(owner, Tensor):
        torchlib.assign_index(interp, owner, key, value, loc)
    elif isinstance(owner, dict):
        store(interp, owner, key, value)
    elif isinstance(owner, list) and isinstance(key, int):
        owner[key] = value
    elif isinstance(owner, list) and isinstance(key, slice):
        more = iterate(interp, value, loc)
        bounds.items(interp, len(owner) + len(more))
        owner[key] = list(more)
    elif isinstance(owner, Instance):
        found = interp.world.find_method(owner, "__setitem__")
        if found is not None:
            interp.call(found, [key, value], {}, loc)
        elif owner.items is not None:
            store(interp, owner.items, key, value)
    else:
        interp.world.set_item(interp, owner, key, value, loc)


def store(interp: Any, owner: dict[Any, Any], key: Any, value: Any) -> None:
    """`owner[key] = value` of a dict: an equal object that is a key already stays the key."""
    held = held_key(interp, owner, key) if isinstance(key, (tuple, Instance, LibObject, Text)) else MISSING
    if held is MISSING and doubts(key):
        owner.pop(key, None)  # a text that only looks the same
    owner[check_key(key) if held is MISSING else held] = value


def materialise(interp: Any, value: Any, loc: ir.Loc | None) -> Sequence[Any]:
    """The items of an iterable that is gone through at once, paid for by their number."""
    found = iterate(interp, value, loc)
    bounds.items(interp, len(found))
    return found


def iterate(interp: Any, value: Any, loc: ir.Loc | None, want: int | None = None) -> Sequence[Any]:
    """The items a `for`, an unpacking or `*` sees. Of an unknown iterable: one unknown item (or `want` of them)."""
    if isinstance(value, (list, tuple, range)):
        return value
    if isinstance(value, (bytes, bytearray)):
        bounds.items(interp, len(value))
        return list(value)
    if isinstance(value, str):
        bounds.items(interp, len(value))
        return [cut(value, i, i + 1) for i in range(len(value))] if len(value) < 10_000 else []
    if isinstance(value, dict):
        return list(bounds.visited(interp, value))
    if isinstance(value, (set, frozenset)):
        return sorted(bounds.visited(interp, value), key=repr)
    if isinstance(value, Tensor):
        return torchlib.rows(interp, value, loc, want)
    if isinstance(value, Unknown):
        why = value.why if value.why.startswith("sniff:") else "an item of an unknown"
        return [Unknown(value.contents, why, made=value.made) for _ in range(want or 1)]
    items = interp.world.iterate(interp, value, loc)
    if items is not None:
        return items if isinstance(items, range) else list(items)
    return [merged(interp, value) for _ in range(want or 1)]
