"""Comparisons of the interpreted program: real on plain values, abstract on tensors and unknowns."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import DType, Sym, Value
from kbh_lint.host.datamodel import elapsed, operators, subscripts
from kbh_lint.host.torch import torchlib
from kbh_lint.host.values import bounds, equality, taint, unknowns
from kbh_lint.host.values.objects import Instance, ProcessNumber, ordered_as
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.source.embedded import doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ORDER = {"<": ("__lt__", "__gt__"), "<=": ("__le__", "__ge__"), ">": ("__gt__", "__lt__"), ">=": ("__ge__", "__le__")}
_NUMBERS = frozenset((int, float, bool))
_COUNTED = (Tensor, int, float, Unknown)


def compare(interp: Run, op: str, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """Evaluates `left op right` for one comparison operator, `is` and `in` included."""
    if right is None and op in ("==", "!=") and taint.symbol_of(left):
        op = "is" if op == "==" else "is not"
    if op in ("is", "is not"):
        return _identity(interp, left, right, op == "is")
    if op in ("in", "not in"):
        answer = subscripts.contains(interp, right, left, loc)
        return answer if isinstance(answer, Unknown) or op == "in" else not answer
    if op in ("==", "!="):
        return _equality(interp, op, left, right, loc)
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return _COMPARE[op](left, right)
    if isinstance(left, Instance) or isinstance(right, Instance):
        own, reflected = _ORDER[op]
        answer = operators.by_methods(interp, ((left, own, right), (right, reflected, left)), loc)
        if answer is not NotImplemented:
            return answer
        left, right = ordered_as(left), ordered_as(right)
    for kind in _KINDS:
        answer = kind(interp, op, left, right, loc)
        if answer is not NotImplemented:
            return answer
    return _plain(interp, op, left, right, loc)


def _identity(interp: Run, left: Value, right: Value, wanted: bool) -> Value:
    """`is`, and where it is not `wanted`, `is not`."""
    found = left is right or (isinstance(left, (DType, Sym, int, str)) and left == right and type(left) is type(right))
    if taint.symbol_of(left):  # with nobody looking on there is nothing: no tracer, no caller further up
        made = unknowns.merged(interp, left)
        return Unknown(made.contents, made.why, made=made.made, taint=made.taint, likely=wanted and right is None)
    if not found and any(isinstance(side, Unknown) and not side.contents for side in (left, right)):
        return taint.presumed(not wanted)
    return found if wanted else not found


def _equality(interp: Run, op: str, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """`==` and `!=`."""
    made = _of_tensors(interp, op, left, right, loc)
    if made is not NotImplemented:
        return made
    answer = equality.same(interp, left, right)
    if isinstance(answer, Unknown):
        return taint.opposite(answer) if op == "!=" else answer
    return answer if op == "==" else not answer


def _in_range(interp: Run, op: str, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """A number that a tensor holds, of which a range is known, beside a plain one."""
    if not isinstance(left, Tensor) or left.shape != () or not isinstance(right, (int, float)):
        return NotImplemented
    settled = unknowns.by_range(op, Unknown((), "", left.attrs.get("range")), right)
    if settled is None:
        return NotImplemented
    answer = torchlib.call(interp, f"torch.{operators.TENSOR[op]}", [left, right], {}, loc)
    answer.attrs["holds"] = settled
    return answer


def _of_tensors(interp: Run, op: str, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """Tensors, element by element."""
    if not isinstance(left, Tensor) and not isinstance(right, Tensor):
        return NotImplemented
    if isinstance(left, _COUNTED) and isinstance(right, _COUNTED):
        return torchlib.call(interp, f"torch.{operators.TENSOR[op]}", [left, right], {}, loc)
    nameless = any(isinstance(one, Tensor) and one.is_nameless() for one in (left, right))
    if nameless and left is not None and right is not None:
        return unknowns.merged(interp, why="a comparison")  # of what may be no tensor
    return op == "!="


def _of_unknowns(interp: Run, op: str, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """What nobody knows, but perhaps within bounds."""
    if not (isinstance(left, Unknown) or isinstance(right, Unknown) or doubts(left) or doubts(right)):
        return NotImplemented
    settled = unknowns.by_range(op, left, right)
    unknown = unknowns.merged(interp, left, right, why="a comparison")
    return unknown if settled is None else interp.assume(loc, settled, unknown.contents)


def _by_chance(interp: Run, op: str, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """A number of this process, which is above zero."""
    if type(left) is not ProcessNumber and type(right) is not ProcessNumber:
        return NotImplemented
    if unknowns.by_chance(left, right) is not None or not isinstance(right, int) or right > 0:
        return unknowns.merged(interp, why="a number of this process")
    return NotImplemented


def _of_times(interp: Run, op: str, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """A time beside a fixed number of seconds."""
    return Unknown((), "a time") if elapsed.against_seconds(left, right) else NotImplemented


_KINDS = (_in_range, _of_tensors, _of_unknowns, _by_chance, _of_times)


def _plain(interp: Run, op: str, left: Value, right: Value, loc: ir.Loc | None) -> Value:
    """What Python itself says of two values, within bounds."""
    try:
        if not bounds.is_small(left):
            return unknowns.merged(interp, left, right, why="a comparison past the bound")
        return _COMPARE[op](left, right)
    except Exception as error:
        operators.failed(interp, error, loc)
        return unknowns.merged(interp, left, right, why="a comparison")
