"""Between which ends the whole numbers of a tensor lie: those of legal inputs, and what operations make of them.

A content whose ends are one number holds that number, whatever it was computed from. What is compared with a number
keeps that it was: where one side of a choice is the tensor that was compared, it lies on that side of the number.

The first and the last offset are known of each legal input. The differences of neighbours add up to the last less the
first, so their sum is a number, as is the last of their running sums, and a tensor with each number repeated by such
counts has a known length.

Of lengths the two before the one that is drawn are followed through operations, too: where those come to one number, it
is the same for either. So is the one that is drawn for each, as long as all elements are alike: it says which way a
branch on lengths goes in the runs that are timed (`alike`).

Balanced offsets are drawn row by row, each into a random group, so a group's rows are those of a binomial draw: of n
rows and g groups they lie within eight deviations of n / g, as surely as a normal input lies within eight of its mean
(`explore.loading.value_range`). A test of rows that comes out one way for all of these is no open branch: what runs for
groups of another size runs on no graded input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, sqrt
from operator import ge, gt, le, lt
from typing import Any

from kbh_lint.base.dtypes import INTS, STORED
from kbh_lint.base.values import Value
from kbh_lint.host.values.tensors import Content, Tensor, Unknown
from kbh_lint.kernels.core.ranges import arithmetic

Ends = tuple[int, int]  # both included
Interval = tuple[float, float]
ENDS, COMPARED = "whole", "compared"  # notes of a content
APART = "apart"  # what neighbouring offsets are apart, as they are drawn
DEVIATIONS = 8
FIXED, TOTAL = "fixed", "total"  # elements that are known, and what all come to
_DIFFERENCES = ("sub", "subtract")
_COMPARISONS = {"lt": "<", "less": "<", "le": "<=", "less_equal": "<=", "gt": ">", "greater": ">", "ge": ">=",
                "greater_equal": ">="}  # fmt: skip
_OTHERWISE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
NEAR, ALIKE = "near", "alike"
_ORDER: dict[str, Callable[[int, int], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_EQUAL, _UNEQUAL = ("eq", "__eq__"), ("ne", "not_equal", "__ne__")
_ONE_OF = frozenset(("max", "min", "amax", "amin", "median", "mode", "unique", "unique_consecutive"))
_TRUTHS: dict[str, Callable[[int, int], bool]] = {
    "logical_and": lambda a, b: bool(a and b), "logical_or": lambda a, b: bool(a or b),
    "logical_xor": lambda a, b: bool(a) is not bool(b),
}  # fmt: skip
_ARITHMETIC = {
    "add": "+", "sub": "-", "subtract": "-", "mul": "*", "multiply": "*", "floor_divide": "//", "div": "//",
    "divide": "//", "remainder": "%", "bitwise_and": "&", "bitwise_right_shift": ">>", "bitwise_left_shift": "<<",
    "minimum": "min", "maximum": "max", "clamp_max": "min", "clamp_min": "max",
}  # fmt: skip
_LARGER, _SMALLER = ("maximum", "clamp_min"), ("minimum", "clamp_max")


def source(content: Content) -> Content:
    """Returns the content that `content` is a copy or a conversion of; itself where it is neither."""
    while content.event is not None and content.event.kind == "copy" and len(content.event.reads) == 1:
        if content.previous is not None:
            break
        content = content.event.reads[0][0]
    return content


def ends_of(value: object) -> Ends | None:
    """Returns the range of a number, or of the whole numbers in a tensor; None where not known."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value
    if isinstance(value, Tensor) and value.dtype in INTS:
        known: Ends | None = source(value.storage.content).notes.get(ENDS)
        return known
    return None


def note(name: str, args: Sequence[Value], kwargs: Mapping[str, Value], made: Tensor) -> None:
    """Notes what is known of the numbers in the result `made` of an operation."""
    content = made.storage.content
    if content.previous is not None:
        return
    _note_total(name, args, kwargs, made)
    _note_comparison(name, args, content)
    if (made.dtype in INTS or made.dtype == "bool") and (one := _one(name, args, kwargs)) is not None:
        content.notes[ALIKE] = one
    near = _near(name, args, kwargs) if made.dtype in INTS and name in _ARITHMETIC else None
    if near is not None:
        content.notes[NEAR] = near
    ends = _ends(name, args, kwargs) if made.dtype in INTS else None
    if ends is not None and ends[0] <= ends[1]:
        content.notes[ENDS] = ends


def _note_total(name: str, args: Sequence[Value], kwargs: Mapping[str, Value], made: Tensor) -> None:
    """What the elements come to, or the last of running sums."""
    content = made.storage.content
    counts = between_neighbours(name, args, made) if made.dtype in INTS else None
    if counts is not None:
        content.notes[TOTAL] = counts
    summed = total(args[0]) if name in ("sum", "cumsum") and args else None
    if summed is not None and name == "sum" and len(args) == 1 and not {"dim", "axis"} & kwargs.keys():
        made.attrs["value"] = summed
        content.notes[ENDS] = summed, summed
    elif summed is not None and name == "cumsum" and made.shape is not None and len(made.shape) == 1:
        made.attrs["known"] = content.notes[FIXED] = {-1: summed}


def neighbours(content: Content) -> Ends | None:
    """Returns the two lengths before the one that is drawn, or the range of what operations computed from them; None
    for other contents."""
    origin = source(content)
    most, given = origin.notes.get("drawn"), origin.notes.get(ENDS)
    if most is None or given is None or not origin.label.startswith("input:"):
        made: Ends | None = origin.notes.get(NEAR)
        return made
    return (most - 2, most - 1) if most - 2 >= given[0] else None


def alike(content: Content) -> int | None:
    """Returns the number that all elements of a content are, a truth as 0 or 1, where lengths are as they are drawn;
    None where that is not known."""
    origin = source(content)
    known: int | None = origin.notes.get("drawn" if origin.label.startswith("input:") else ALIKE)
    ends: Ends | None = origin.notes.get(ENDS)
    return ends[0] if known is None and ends is not None and ends[0] == ends[1] else known


def _one(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> int | None:
    """What an operation makes of tensors whose elements are all alike, and of numbers."""
    sides = [_each(side) for side in (*args[:2], *([kwargs["other"]] if "other" in kwargs else ()))]
    if not sides or None in sides or not any(isinstance(side, Tensor) for side in args[:2]):
        return None
    if {"alpha", "out", "dtype"} & kwargs.keys():
        return None
    first, *others = (side for side in sides if side is not None)
    if len(args) == 1 and not others:
        return _of_one(name, first)
    return _of_two(name, first, others[0], kwargs) if len(others) == 1 else None


def _each(side: Value) -> int | None:
    return alike(side.storage.content) if isinstance(side, Tensor) else side if isinstance(side, int) else None


def _of_one(name: str, number: int) -> int | None:
    if name in ("all", "any", "logical_not"):
        return bool(number) is (name != "logical_not")
    return 0 if name == "diff" else number if name in _ONE_OF else None


def _of_two(name: str, a: int, b: int, kwargs: Mapping[str, Value]) -> int | None:
    if name in _EQUAL or name in _UNEQUAL:
        return (a == b) is (name in _EQUAL)
    if name in _COMPARISONS:
        return _ORDER[_COMPARISONS[name]](a, b)
    if name in _TRUTHS:
        return _TRUTHS[name](a, b)
    if name not in _ARITHMETIC or name in ("div", "divide") and kwargs.get("rounding_mode") not in ("floor", "trunc"):
        return None
    op = _ARITHMETIC[name]
    if op in ("//", "%"):  # of negative numbers operations differ
        return (a // b if op == "//" else a % b) if a >= 0 and b > 0 else None
    made = extremes(op, (a, a), (b, b)) if op in ("min", "max") else arithmetic(op, (a, a), (b, b))
    return made[0] if made is not None and made[0] == made[1] else None


def _near(name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Ends | None:
    """What an operation makes of neighbouring lengths, where it works on nothing else but numbers."""
    sides = [
        neighbours(side.storage.content) if isinstance(side, Tensor) and side.dtype in INTS else ends_of(side)
        for side in (*args[:2], *([kwargs["other"]] if "other" in kwargs else ()))
    ]
    tensors = any(isinstance(side, Tensor) for side in args[:2])
    rounded = name not in ("div", "divide") or kwargs.get("rounding_mode") in ("floor", "trunc")
    known = [side for side in sides if side is not None]
    if not tensors or not rounded or len(known) != 2 or len(sides) != 2 or {"alpha", "out"} & kwargs.keys():
        return None
    op = _ARITHMETIC[name]
    return extremes(op, *known) if op in ("min", "max") else arithmetic(op, *known)


def extremes(op: str, a: Ends, b: Ends) -> Ends:
    """Returns the range of the minimum or maximum of two numbers, given their ranges."""
    return _both(min if op == "min" else max, a, b)


def _note_comparison(name: str, args: Sequence[Value], content: Content) -> None:
    if name in _COMPARISONS and len(args) > 1 and isinstance(args[0], Tensor) and type(args[1]) is int:
        content.notes[COMPARED] = _COMPARISONS[name], source(args[0].storage.content), args[1]


def _ends(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Ends | None:
    choice = _choice(name, args, kwargs)
    if choice is not None:
        return _chosen(*choice)
    first = ends_of(args[0]) if args else None
    if name in ("clamp", "clip"):
        low, high = _given(args, kwargs, 1, "min"), _given(args, kwargs, 2, "max")
        for bound, pick in ((low, max), (high, min)):
            known = ends_of(bound) if bound is not None else None
            if bound is not None and known is None:
                return None
            first = None if first is None else first if known is None else _both(pick, first, known)
        return first
    second = ends_of(_given(args, kwargs, 1, "other" if name in ("maximum", "minimum") else name[6:]))
    if first is None or second is None:
        return None
    if name in _LARGER:
        return _both(max, first, second)
    return _both(min, first, second) if name in _SMALLER else None


def _given(args: Sequence[Value], kwargs: Mapping[str, Value], at: int, name: str) -> Value:
    return args[at] if len(args) > at else kwargs.get(name)


def _both(pick: Callable[[int, int], int], a: Ends, b: Ends) -> Ends:
    return pick(a[0], b[0]), pick(a[1], b[1])


def _choice(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> tuple[Any, Any, Any] | None:
    """(test, where it holds, elsewhere) of `where` and `masked_fill`."""
    if name == "where" and len(args) == 3:
        test, yes, no = args if isinstance(args[0], Tensor) and args[0].dtype == "bool" else (args[1], args[0], args[2])
        return test, yes, no
    if name == "masked_fill" and len(args) == 3:
        return args[1], args[2], args[0]
    return None


def _chosen(test: Value, yes: Value, no: Value) -> Ends | None:
    told = source(test.storage.content).notes.get(COMPARED) if isinstance(test, Tensor) else None
    sides: list[Ends] = []
    for value, holds in ((yes, True), (no, False)):
        ends = ends_of(value)
        if ends is None:
            return None
        if told is not None and isinstance(value, Tensor) and source(value.storage.content) is told[1]:
            ends = _beside(ends, told[0] if holds else _OTHERWISE[told[0]], told[2])
        if ends[0] <= ends[1]:  # else there are no such numbers
            sides.append(ends)
    return (min(low for low, _ in sides), max(high for _, high in sides)) if sides else None


def _beside(ends: Ends, op: str, number: int) -> Ends:
    """The part of what lies between two ends for which a comparison holds."""
    low, high = ends
    if op in ("<", "<="):
        return low, min(high, number - (op == "<"))
    return max(low, number + (op == ">")), high


def between_neighbours(name: str, args: Sequence[Value], made: Tensor) -> int | None:
    """Returns the sum of a result's elements where it holds the differences of neighbouring offsets; None otherwise."""
    if name in _DIFFERENCES and len(args) == 2:
        return _between_ends(args[0], args[1], made)
    return _between_ends(args[0], args[0], made) if name == "diff" and len(args) == 1 else None


def total(value: object) -> int | None:
    """Returns the sum of a tensor's elements; None where it is not known."""
    if not isinstance(value, Tensor) or value.numel() is None or value.numel() != held(value.storage.content):
        return None
    known: int | None = whole(value.storage.content).notes.get(TOTAL)
    return known


def held(content: Content) -> int | None:
    """Returns how many elements a content has; None where not known."""
    size = content.storage.size
    return None if size is None else size * 8 // STORED.get(content.dtype, 8)


def whole(content: Content) -> Content:
    """Returns the content that `content` is a full copy of, in the same order; itself where it is none."""
    while content.event is not None and content.event.kind == "copy" and len(content.event.reads) == 1:
        if "from" not in content.event.attrs:  # in another order, or with more beside it
            break
        before = content.event.reads[0][0]
        if content.previous is not None or held(before) != held(content):
            break
        content = before
    return content


def _between_ends(later: object, earlier: object, made: Tensor) -> int | None:
    """The last of some offsets less the first, where one tensor holds all but the first and the other all but the last;
    or both are all of them."""
    if not isinstance(later, Tensor) or not isinstance(earlier, Tensor):
        return None
    count, shape, origin = held(later.storage.content), made.shape, whole(later.storage.content)
    known: dict[int, int] = origin.notes.get(FIXED, {})
    if count is None or shape != (count - 1,) or later.dtype not in INTS or not {0, -1} <= known.keys():
        return None
    apart = later is earlier or (later.offset, earlier.offset, later.shape, earlier.shape) == (1, 0, shape, shape)
    plain = all(view.strides in (None, (1,)) for view in (later, earlier))
    same = origin is whole(earlier.storage.content) and held(earlier.storage.content) == count
    return known[-1] - known[0] if apart and plain and same else None


class Element(Unknown):
    """The value of one element of an offsets array: the content that it was read from, and its index."""

    __slots__ = ("at", "of")
    of: Content
    at: int


def drawn(domain: Mapping[str, Value], count: int, total: int | None) -> tuple[int, int] | None:
    """Returns the range of the number of rows in each group, where `count` balanced offsets are drawn; None for other
    domains."""
    if domain.get("kind") != "balanced-offsets" or total is None or count < 2:
        return None
    mean = total / (count - 1)
    room = DEVIATIONS * sqrt(mean * (1 - 1 / (count - 1)))
    return max(0, floor(mean - room)), min(total, ceil(mean + room))


def element(value: Unknown, tensor: Tensor, at: int | None) -> Unknown:
    """Returns the value read from a tensor at the index `at`; an element of an offsets array remembers its place."""
    content = whole(tensor.storage.content)
    if at is None or APART not in content.notes:
        return value
    made = Element(value.contents, value.why, value.range, value.made, value.taint, value.likely, value.sort,
                   value.reading, value.origin)  # fmt: skip
    made.of, made.at = content, at
    return made


def apart(later: Value, earlier: Value) -> Interval | None:
    """Returns the range of the difference of two elements of the same offsets array; None for other values."""
    known = next((side for side in (later, earlier) if isinstance(side, Element)), None)
    if known is None:
        return None
    places = [_place(side, known.of) for side in (later, earlier)]
    if places[0] is None or places[1] is None:
        return None
    steps = places[0] - places[1]
    low, high = known.of.notes[APART]
    return (steps * low, steps * high) if steps >= 0 else (steps * high, steps * low)


def _place(value: Value, of: Content) -> int | None:
    """Which element of offsets a value is; the first and the last are numbers that are known."""
    if isinstance(value, Element):
        return value.at if value.of is of else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    ends: dict[int, int] = of.notes.get(FIXED, {})
    count = held(of)
    if value == ends.get(-1) and count is not None:
        return count - 1
    return 0 if value == ends.get(0) else None


def differences(name: str, args: Sequence[Value], made: Tensor) -> Interval | None:
    """Returns the range of all elements of a tensor of differences of neighbouring offsets; None for other tensors."""
    if not args or not isinstance(args[0], Tensor) or between_neighbours(name, args, made) is None:
        return None
    ends: Interval | None = whole(args[0].storage.content).notes.get(APART)
    return ends


def extreme(name: str, values: Sequence[Value]) -> Interval | None:
    """Returns the range of the largest or the smallest of several numbers; None where the range of one is not known."""
    pick = max if name.endswith("max") else min
    known = [value.range if isinstance(value, Unknown) else _alone(value) for value in values]
    ends = [one for one in known if one is not None]
    if not ends or len(ends) < len(known):
        return None
    return pick(low for low, _ in ends), pick(high for _, high in ends)


def _alone(value: Value) -> Interval | None:
    return (value, value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
