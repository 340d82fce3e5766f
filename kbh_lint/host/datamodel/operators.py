"""Operators of the interpreted program: real on plain values, abstract on tensors and unknowns."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import c_structs, elapsed, iteration, texts
from kbh_lint.host.torch import torchlib, whole_numbers
from kbh_lint.host.values import bounds, taint, unknowns
from kbh_lint.host.values.containers import Keys, Tally
from kbh_lint.host.values.library_objects import FilePath, joined_path
from kbh_lint.host.values.named_objects import CArray, UnionType
from kbh_lint.host.values.objects import (
    ClassV,
    Instance,
    LibObject,
    ProcessNumber,
    compared_as,
    find_method,
    is_named_tuple,
    kind_of,
    of_chance,
)
from kbh_lint.host.values.tensors import Placed, Sort, Tensor, Unknown
from kbh_lint.source.embedded import concat, cut, doubted, doubts, replace

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor,
}  # fmt: skip
_WIDE = re.compile(r"%\([^)]*\)[^sd%]")  # a conversion of a name that says more than that
_UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "~": operator.invert, "+": operator.pos}
_SEQUENCES = (str, bytes, bytearray, list, tuple)
TENSOR = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "%": "remainder", "**": "pow",
    "<<": "bitwise_left_shift", ">>": "bitwise_right_shift", "&": "bitwise_and", "|": "bitwise_or",
    "^": "bitwise_xor", "@": "matmul", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
_PLAIN = (set, frozenset)
_NUMBERS = frozenset((int, float, bool))
_Kind = Callable[["Run", Value, Value, "ir.Loc | None"], Value]
_SETS = {"|": "update", "&": "intersection_update", "-": "difference_update", "^": "symmetric_difference_update"}
DUNDERS = {
    f"__{kind}{name}__": (op, kind)
    for kind in ("", "r", "i")
    for name, op in (
        ("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%"), ("pow", "**"),
        ("matmul", "@"), ("lshift", "<<"), ("rshift", ">>"), ("and", "&"), ("or", "|"), ("xor", "^"),
    )
}  # fmt: skip
_SPECIAL = {op: name.strip("_") for name, (op, kind) in DUNDERS.items() if not kind}
_OF_ONE = {"-": "__neg__", "~": "__invert__", "+": "__pos__"}


def _placed(interp: Run, op: str, left: Value, right: Value) -> Placed | None:
    """The sum or difference of an address of a tensor and an offset that is not known: an address in the same memory.

    None for other operands, and for the distance of two addresses.
    """
    if not any(isinstance(side, (Unknown, Placed)) for side in (left, right)):
        return None
    base, offset = (left, right) if interp.tensor_at(left) is not None else (right, left)
    if interp.tensor_at(base) is None or op == "-" and base is right or not isinstance(offset, (int, Unknown)):
        return None
    if not isinstance(base, int) or interp.tensor_at(offset) is not None:  # the distance of two addresses
        return None
    step = offset if isinstance(offset, int) else 0
    made = Placed(base + step if op == "+" else base - step)
    made.contents = tuple(dict.fromkeys((*interp.contents_of(base), *interp.contents_of(offset))))
    return made


def binary(interp: Run, op: str, left: Value, right: Value, loc: ir.Loc | None) -> Any:
    """Evaluates `left op right`, by the rule of the first kind of operands that applies."""
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return _plain(interp, op, left, right, loc)
    if isinstance(left, Instance) or isinstance(right, Instance):
        name = _SPECIAL[op]
        answer = by_methods(interp, ((left, f"__{name}__", right), (right, f"__r{name}__", left)), loc)
        if answer is not NotImplemented:
            return answer
        if op in "+*":
            left, right = (compared_as(side) if is_tuple(side) else side for side in (left, right))
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        taint.flows(interp, left, right, loc)
        return torchlib.call(interp, f"torch.{TENSOR.get(op, 'add')}", [left, right], {}, loc)
    if op in "+-" and (placed := _placed(interp, op, left, right)) is not None:
        return placed
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return _of_unknowns(interp, op, left, right)
    for kind in _KINDS.get(op, ()):
        made = kind(interp, left, right, loc)
        if made is not NotImplemented:
            return made
    return _plain(interp, op, left, right, loc)


def _of_unknowns(interp: Run, op: str, left: Value, right: Value) -> Value:
    """An unknown value made of two, of a difference with its bounds; of two clocks the time between them."""
    if op != "-":
        return unknowns.merged(interp, left, right)
    time = elapsed.between(interp, left, right)
    if time is not NotImplemented:
        return time
    return unknowns.merged(interp, left, right, ends=whole_numbers.apart(left, right))


def _formatted(interp: Run, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """`template % values`."""
    if not isinstance(left, str):
        return NotImplemented
    bounds.text(interp, left)
    right = _as_texts(interp, left, right, loc)
    shown = percent(left, right)
    parts = right if isinstance(right, tuple) else right.values() if isinstance(right, dict) else (right,)
    unknown = [part for part in parts if isinstance(part, Unknown) or doubts(part)]
    return doubted(shown, unknowns.merged(interp, *unknown)) if unknown else shown


def _joined(interp: Run, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """Texts and sequences after one another, within bounds."""
    if isinstance(left, str) and isinstance(right, str):
        bounds.text(interp, left, right)
        return concat((left, right))
    if isinstance(left, _SEQUENCES) and isinstance(right, _SEQUENCES):
        bounds.items(interp, len(left) + len(right))
    return NotImplemented


def _union(interp: Run, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """`int | None`."""
    return UnionType("types.UnionType", {}, (left, right)) if _is_type(left) and _is_type(right) else NotImplemented


def _array(interp: Run, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """`c_int * n`."""
    of_a_struct = isinstance(left, ClassV) and c_structs.is_struct(left)
    if not of_a_struct and not (isinstance(left, Sym) and left.path.startswith("ctypes.")):
        return NotImplemented
    return CArray("ctypes.array", {"count": right if isinstance(right, int) else 0, "item": left})


def _repeated(interp: Run, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """A sequence several times, within bounds."""
    if not isinstance(left, _SEQUENCES) and not isinstance(right, _SEQUENCES):
        return NotImplemented
    sequence, times = (left, right) if isinstance(left, _SEQUENCES) else (right, left)
    seq: Any = sequence
    if not isinstance(times, int) or len(seq) * times > bounds.MAX_ITEMS:
        return unknowns.merged(interp, left, right, why="a repetition past the bound")
    made: Any = seq * times
    if isinstance(seq, (list, tuple)):
        bounds.items(interp, len(made))
    else:
        bounds.text(interp, made)
    return made


def _of_counters(op: str) -> _Kind:
    """An operator of two `collections.Counter`."""
    real = getattr(Counter, f"__{_SPECIAL[op]}__")

    def kind(interp: Run, left: Value, right: Value, loc: ir.Loc | None) -> Value:
        if not isinstance(left, Tally) or not isinstance(right, Tally):
            return NotImplemented
        bounds.visited(interp, left)
        return Tally(real(Counter(left), Counter(right)))

    return kind


def _of_sets(op: str) -> _Kind:
    """An operator of sets, or of the keys of dicts; of dicts `|` alone."""

    def kind(interp: Run, left: Value, right: Value, loc: ir.Loc | None) -> Value:
        if isinstance(left, Keys) and isinstance(right, (set, frozenset, Keys)):
            left, right = set(left), set(right)
        if not isinstance(left, (set, frozenset, dict)):
            return NotImplemented
        bounds.visited(interp, left)
        bounds.visited(interp, right)
        others: Any = right
        if op != "|" and any(isinstance(item, Unknown) for item in (*left, *(others if type(right) in _PLAIN else ()))):
            return unknowns.merged(interp, list(left), list(others), why="a set of what nobody knows")
        return _plain(interp, op, left, right, loc)

    return kind


def _below(interp: Run, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """`path / name`."""
    return FilePath(joined_path(left.text, _path_text(right))) if isinstance(left, FilePath) else NotImplemented


# What operators have a meaning of their own for, beside numbers: the kinds of operands in the order they are asked.
_KINDS: dict[str, tuple[_Kind, ...]] = {
    "+": (_of_counters("+"), _joined),
    "-": (_of_counters("-"), _of_sets("-")),
    "*": (_array, _repeated),
    "/": (_below,),
    "%": (_formatted,),
    "&": (_of_counters("&"), _of_sets("&")),
    "|": (_union, _of_counters("|"), _of_sets("|")),
    "^": (_of_sets("^"),),
}


def _plain(interp: Run, op: str, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """What Python itself makes of two values, within bounds; a number of this process makes another one."""
    try:
        if op in ("**", "<<"):
            bounds.power(left, right)
        elif op == "*":
            bounds.product(left, right)
        made = _BINARY[op](left, right)
        if type(left) is ProcessNumber or type(right) is ProcessNumber:
            return of_chance(made) if type(made) is int else unknowns.merged(interp, why="a number of this process")
        return made
    except Exception as error:
        failed(interp, error, loc)
        return unknowns.merged(interp, left, right, why=f"{kind_of(left)} {op} {kind_of(right)}")


def _as_texts(interp: Run, template: str, values: Value, loc: ir.Loc | None) -> Any:
    """The values of `template % values`, with objects of the submission as the texts that they make."""
    objects = values if isinstance(values, tuple) else (values,)
    if not any(isinstance(part, Instance) for part in objects):
        return values
    way = "repr" if "%r" in template else "str"
    made = tuple(texts.of(interp, part, loc, way) if isinstance(part, Instance) else part for part in objects)
    return made if isinstance(values, tuple) else made[0]


def by_methods(interp: Run, ways: tuple[tuple[Any, str, Any], ...], loc: ir.Loc | None) -> Value:
    """Calls operator methods such as `__add__` in the order of `ways`, each (owner, name, operand), until one returns a
    result; NotImplemented when none does."""
    for owner, name, other in ways:
        found = find_method(owner, name) if isinstance(owner, Instance) else None
        if found is not None:
            answer = interp.call(found, [other], {}, loc)
            if not (isinstance(answer, Unknown) and answer.sort is Sort.NOT_IMPLEMENTED):
                return answer
    return NotImplemented


def is_tuple(value: Value) -> bool:
    """Whether a value is an object of a named tuple class of the submission."""
    return isinstance(value, Instance) and is_named_tuple(value)


def _is_type(value: Value) -> bool:
    """Whether a value may stand in `int | None`."""
    if isinstance(value, LibObject):
        return isinstance(value, UnionType)
    return value is None or isinstance(value, (ClassV, Sym)) or hasattr(value, "__kbh_name__")


def _path_text(value: Value) -> str:
    return str(value.attrs["path"]) if isinstance(value, LibObject) and "path" in value.attrs else str(value)


def percent(template: str, values: Value) -> Any:
    """Evaluates `template % values`; for plain %s and %d the result remembers where its parts were written."""
    args = list(values) if isinstance(values, tuple) else [values]
    for value in values.values() if isinstance(values, dict) else args:
        if not bounds.is_small(value):
            raise bounds.TooLarge("a text grew past the bound")
    if isinstance(values, dict):
        out: str = template
        for key, value in values.items():
            for conv in ("s", "d"):
                out = replace(out, f"%({key}){conv}", value if isinstance(value, str) else str(value))
        if _WIDE.search(out):
            return str(bounds.format_spec(template)) % values
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
            if conv == "d" and isinstance(value, (bool, float)):
                value = int(value)
            shown = repr(str(value)) if conv == "r" and isinstance(value, str) and not doubts(value) else value
            parts.append(shown if isinstance(shown, str) else str(shown))
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


def failed(interp: Run, error: Exception, loc: ir.Loc | None) -> None:
    """Records that an operation on known values may raise the type of `error`; ignores `TooLarge`, a bound of the
    analysis."""
    if not isinstance(error, bounds.TooLarge):
        interp.may_fail(type(error).__name__, loc)


def unary(interp: Run, op: str, value: Value, loc: ir.Loc | None) -> Value:
    """Evaluates `op value`."""
    if isinstance(value, Tensor):
        name = {"-": "neg", "~": "bitwise_not", "+": "positive"}[op]
        return torchlib.call(interp, f"torch.{name}", [value], {}, loc)
    if isinstance(value, Unknown):
        return unknowns.merged(interp, value)
    own = find_method(value, _OF_ONE[op]) if isinstance(value, Instance) else None
    if own is not None:
        return interp.call(own, [], {}, loc)
    try:
        return _UNARY[op](value)
    except Exception as error:
        failed(interp, error, loc)
        return unknowns.merged(interp, value)


def inplace(interp: Run, op: str, old: Value, value: Value, loc: ir.Loc | None) -> Value:
    """Evaluates `old op= value`; tensors and lists change in place."""
    if isinstance(old, Tensor):
        if op == "@":
            return binary(interp, op, old, value, loc)
        return torchlib.call(interp, f"torch.{TENSOR[op]}_", [old, value], {}, loc)
    if isinstance(old, list) and op == "+":
        more = iteration.iterate(interp, value, loc)
        bounds.items(interp, len(old) + len(more))
        old.extend(more)
        return old
    if isinstance(old, list) and op == "*" and isinstance(value, int):
        old[:] = binary(interp, op, old, value, loc)
        return old
    if isinstance(old, dict) and op == "|" and isinstance(value, dict):
        old.update(bounds.visited(interp, value))
        return old
    if isinstance(old, set) and op in _SETS and isinstance(value, (set, frozenset)):
        getattr(old, _SETS[op])(bounds.visited(interp, value))
        return old
    if isinstance(old, Instance):
        answer = by_methods(interp, ((old, f"__i{_SPECIAL[op]}__", value),), loc)
        if answer is not NotImplemented:
            return answer
    return binary(interp, op, old, value, loc)


def dunder(interp: Run, owner: Value, name: str, other: Value, loc: ir.Loc | None) -> Value:
    """Evaluates `owner.__add__(other)` and the like, with reflected and in-place forms."""
    op, kind = DUNDERS[name]
    if kind == "i":
        return inplace(interp, op, owner, other, loc)
    return binary(interp, op, other, owner, loc) if kind == "r" else binary(interp, op, owner, other, loc)
