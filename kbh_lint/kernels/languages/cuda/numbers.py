"""Operators of CUDA C++, where pointers and structs are operands too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp import integers
from kbh_lint.kernels.core import guards
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.numbers import Numbers
from kbh_lint.kernels.core.value import LITERAL, NOTHING, CType, Struct, V, constant
from kbh_lint.kernels.languages.cuda.types import is_pointer

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun


_NAMES = (CType, values.Sym)


class CudaNumbers(Numbers):
    """Operators with the promotions of C++."""

    run: CudaRun
    c_rules = True

    def augmented(self, op: str, old: V, value: V, loc: ir.Loc) -> V:
        if is_struct(old):
            made = self.run.expressions.operator(op, old, value, loc)
            return made if made is not None else mix([old, value])
        return super().augmented(op, old, value, loc)

    def promote(self, op: str, a: V, b: V) -> str:
        one, other = _whole_type(a), _whole_type(b)
        if not one or not other or a.dtype == b.dtype == LITERAL:
            return super().promote(op, a, b)
        return integers.promotion(one) if op in ("<<", ">>") else integers.common_type(one, other)

    def folded(self, op: str, a: V, b: V) -> object:
        one, other = _whole(a), _whole(b)
        if one is None or other is None or op not in integers.OPERATORS:
            return super().folded(op, a, b)
        found = integers.binary(op, one, other)
        return NOTHING if found is None else int(found)

    def compare(self, op: str, a: V, b: V) -> V:
        given = a, b
        if isinstance(a.const, _NAMES) != isinstance(b.const, _NAMES):  # a name that was not resolved is no value
            a, b = a.with_(const=NOTHING), b.with_(const=NOTHING)
        if a.const is None and type(b.const) is int:  # a null pointer
            a = a.with_(const=0)
        elif b.const is None and type(a.const) is int:
            b = b.with_(const=0)
        left, right = _whole(a), _whole(b)
        if left is not None and right is not None:
            left, right = integers.alike(left, right)
            a, b = a.with_(const=int(left)), b.with_(const=int(right))
        for one, other in ((a, b), (b, a)):
            if op in ("==", "!=") and other.const in (None, 0) and one.const is NOTHING and is_pointer(one.ct):
                deps = one.deps.union(cell.name for cell in one.cells)
                return constant(op == "!=", deps) if _leads_somewhere(one) else V("bool", "bool", deps=deps)
        return guards.made(super().compare(op, a, b), "compare", op, *given)

    def truth(self, value: V) -> bool | None:
        if not _leads_somewhere(value):
            return super().truth(value)
        self.run.facts.decide(value.with_(deps=value.deps.union(cell.name for cell in value.cells)))
        return True

    def unary(self, op: str, value: V, loc: ir.Loc) -> V:
        if op == "not" and (value.const is None or _leads_somewhere(value)):
            return constant(value.const is None, value.deps.union(cell.name for cell in value.cells))
        number = _whole(value)
        if number is not None and op in ("-", "~") and value.dtype != LITERAL:
            negated = value.with_(const=int(integers.negated(number, op)), dtype=integers.promotion(_whole_type(value)))
            return guards.made(negated, "unary", op, value)
        return super().unary(op, value, loc)


def _whole_type(value: V) -> str:
    """The type of a value that is a whole number; empty for others."""
    if value.dtype == LITERAL:
        return "i32" if type(value.const) is int else ""
    plain = not value.cells and (value.ct is None or value.ct.lanes == 1 and not is_pointer(value.ct))
    return value.dtype if value.dtype in dtypes.INTS and plain else ""


def _whole(value: V) -> int | None:
    """A known whole number, as its type has it."""
    kind = _whole_type(value)
    if not kind or not isinstance(value.const, int):
        return None
    number = int(value.const)
    return number if value.dtype in (LITERAL, "bool") else integers.typed(number, kind)


def _leads_somewhere(value: V) -> bool:
    """Whether a value is an address of memory that is known, which is not null."""
    if value.const is not NOTHING or not value.cells or not is_pointer(value.ct):
        return False
    return all(cell.kind != "param" or cell.storage >= 0 for cell in value.cells)


def is_struct(value: V) -> bool:
    """Whether a value is a struct that the file defines, itself and no pointer to it."""
    return isinstance(value.x, Struct) or (
        value.ct is not None and value.ct.decl is not None and not is_pointer(value.ct) and value.const is NOTHING
    )
