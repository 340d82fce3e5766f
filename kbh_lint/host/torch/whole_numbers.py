"""Between which ends the whole numbers of a tensor lie: those of legal inputs, and what operations make of them.

A content whose ends are one number holds that number, whatever it was computed from. What is compared with a number
keeps that it was: where one side of a choice is the tensor that was compared, it lies on that side of the number.

The first and the last offset are known of each legal input. The differences of neighbours add up to the last less the
first, so their sum is a number, as is the last of their running sums, and a tensor with each number repeated by such
counts has a known length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbh_lint.base.dtypes import INTS, STORED
from kbh_lint.base.values import Value
from kbh_lint.host.values.tensors import Content, Tensor

Ends = tuple[int, int]  # both included
ENDS, COMPARED = "whole", "compared"  # notes of a content
FIXED, TOTAL = "fixed", "total"  # elements that are known, and what all come to
_DIFFERENCES = ("sub", "subtract")
_COMPARISONS = {"lt": "<", "less": "<", "le": "<=", "less_equal": "<=", "gt": ">", "greater": ">", "ge": ">=",
                "greater_equal": ">="}  # fmt: skip
_OTHERWISE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_LARGER, _SMALLER = ("maximum", "clamp_min"), ("minimum", "clamp_max")


def source(content: Content) -> Content:
    """What a content is a copy of, or a conversion; itself where it is neither."""
    while content.event is not None and content.event.kind == "copy" and len(content.event.reads) == 1:
        if content.previous is not None:
            break
        content = content.event.reads[0][0]
    return content


def ends_of(value: object) -> Ends | None:
    """The ends of a number, or of a tensor of whole numbers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value
    if isinstance(value, Tensor) and value.dtype in INTS:
        known: Ends | None = source(value.storage.content).notes.get(ENDS)
        return known
    return None


def note(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], made: Tensor) -> None:
    """Keeps what is known of the numbers that an operation made."""
    content = made.storage.content
    if content.previous is not None:
        return
    counts = _total(name, args, made) if made.dtype in INTS else None
    if counts is not None:
        content.notes[TOTAL] = counts
    summed = total(args[0]) if name in ("sum", "cumsum") and args else None
    if summed is not None and name == "sum" and len(args) == 1 and not {"dim", "axis"} & kwargs.keys():
        made.attrs["value"] = summed
        content.notes[ENDS] = summed, summed
    elif summed is not None and name == "cumsum" and made.shape is not None and len(made.shape) == 1:
        made.attrs["known"] = content.notes[FIXED] = {-1: summed}
    if name in _COMPARISONS and len(args) > 1 and isinstance(args[0], Tensor) and type(args[1]) is int:
        content.notes[COMPARED] = _COMPARISONS[name], source(args[0].storage.content), args[1]
    ends = _ends(name, args, kwargs) if made.dtype in INTS else None
    if ends is not None and ends[0] <= ends[1]:
        content.notes[ENDS] = ends


def _ends(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Ends | None:
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


def _given(args: Sequence[Any], kwargs: Mapping[str, Any], at: int, name: str) -> Any:
    return args[at] if len(args) > at else kwargs.get(name)


def _both(pick: Callable[[int, int], int], a: Ends, b: Ends) -> Ends:
    return pick(a[0], b[0]), pick(a[1], b[1])


def _choice(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any, Any] | None:
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


def _total(name: str, args: Sequence[Any], made: Tensor) -> int | None:
    if name in _DIFFERENCES and len(args) == 2:
        return _between_ends(args[0], args[1], made)
    return _between_ends(args[0], args[0], made) if name == "diff" and len(args) == 1 else None


def total(value: object) -> int | None:
    """What the numbers of a tensor come to, where that is known."""
    if not isinstance(value, Tensor) or value.numel() is None or value.numel() != held(value.storage.content):
        return None
    known: int | None = whole(value.storage.content).notes.get(TOTAL)
    return known


def held(content: Content) -> int | None:
    """How many elements of a content there are."""
    size = content.storage.size
    return None if size is None else size * 8 // STORED.get(content.dtype, 8)


def whole(content: Content) -> Content:
    """What a content is a copy of as a whole, in the same order; itself where it is none."""
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
