"""Rounding errors that machine code keeps: fp32 values that are zero in exact arithmetic and not in floating point.

Registers are followed as linear forms over values that are not looked into. `e = (t - s) - y` with `t = s + y` has an
empty form, although its two operands are different values: it is what rounding took, whatever the source called it
(Kahan, Neumaier, TwoSum). A compiler that may reassociate removes it, and then machine code holds none.

A product by 1 or -1, an immediate or a register that holds it, is what it multiplies or its negative: nvcc leaves
`fma(t - s, -1, y)` as `FFMA R, R, -1, R`, and that is a subtraction.

Of two values, of which a predicate picks one and then the other, the second is their sum less the first: so the larger
and the smaller of Neumaier's sum are followed, `(larger - t) + smaller`, also as minimum and maximum.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["Residuals", "written"]

MOST_TERMS = 8
MOST_REGISTERS = 4  # that one instruction writes, as far as it is followed: a load of 128 bits, a tile of a product
_SINGLE = frozenset({  # that write one register, or two where a modifier says so
    "BMSK", "BREV", "F2F", "F2FP", "F2I", "FADD", "FFMA", "FLO", "FMNMX", "FMUL", "FRND", "FSEL", "FSET", "HADD2",
    "HFMA2", "HMNMX2", "HMUL2", "HSET2", "I2F", "I2FP", "IABS", "IADD", "IADD3", "IDP", "IMAD", "IMNMX", "IMUL", "LD",
    "LDC", "LDCU", "LDG", "LDL", "LDS", "LEA", "LOP3", "MOV", "MUFU", "P2R", "POPC", "PRMT", "R2UR", "S2R", "S2UR",
    "SEL", "SGXT", "SHF", "SHFL", "UFADD", "UFFMA", "UFLO", "UFMUL", "UIADD3", "UIMAD", "ULDC", "ULEA", "ULOP3", "UMOV",
    "UPOPC", "UPRMT", "USEL", "USHF", "VIADD", "VIADDMNMX", "VIMNMX", "VOTE",
})  # fmt: skip
_SUMS = {"FADD": 3, "UFADD": 3}  # by how many operands they have
_PRODUCTS = {"FFMA": 4, "FMUL": 3, "UFFMA": 4, "UFMUL": 3}
_PAIRS = {"FADD2": 3, "FFMA2": 4, "FMUL2": 3}
_MOVES = frozenset({"IMAD.MOV.U32", "MOV", "R2UR", "UMOV"})  # R2UR: of a value that a warp shares
_WIDER = {"256": 8, "128": 4, "64": 2, "F64": 2, "WIDE": 2}
_REGISTER = re.compile(r"(-?)(U?R(?:\d{1,3}|Z))(?:\.reuse)?")
_PREDICATE = re.compile(r"(!?)(UP\d|P\d)")
_PAIR = re.compile(r"(-?)(R(?:\d{1,3}|Z))(?:\.reuse)?\.F32x2\.HI_LO(?:\.reuse)?")
_UNITS = {"1": 1, "-1": -1, "0x3f800000": 1, "0xbf800000": -1, "-0x40800000": -1}  # as tools write fp32's 1 and -1
_UNIT_HALVES: dict[tuple[str, ...], int] = {("1.875", "0"): 1, ("-1.875", "0"): -1}  # the same bits as two of fp16
_CONSTANTS = frozenset({"HFMA2", "HFMA2.MMA"})  # `HFMA2.MMA R7, -RZ, RZ, 1.875, 0` is how a constant is loaded, too
_LEAST = frozenset({"FMNMX", "FMNMX.FTZ"})
_PLAIN = frozenset({"FTZ", "RM", "RP", "RZ"})
_NOT_FOLLOWED = ("GMMA", "CALL")

Form = tuple[tuple[int, int], ...]  # (atom, coefficient), sorted, without zeros
ZERO = 0  # the value of RZ


class Residuals:
    """Follows one function, an instruction at a time; `count` is how many residuals it has found.

    A value has a number, its negative the negative number: the two are never a rounding error apart.
    """

    def __init__(self) -> None:
        self.count = 0
        self._next = 0
        self._registers: dict[str, tuple[int, Form]] = {}  # register -> (value, form)
        self._units: dict[str, int] = {}  # register -> 1 or -1, which it holds
        self._products: dict[tuple[int, int], int] = {}
        self._picked: dict[tuple[str, int, int], Form] = {}  # predicate, what it picks, the other -> what was picked

    def step(self, opcode: str, operands: Sequence[str], guarded: bool) -> None:
        """Takes in the next instruction. `operands` are texts without blanks; `guarded`: a predicate decides whether it
        runs.
        """
        name, _, modifiers = opcode.partition(".")
        self._decided(name, operands)
        plain = not guarded and _PLAIN.issuperset(filter(None, modifiers.split(".")))
        if any(part in name for part in _NOT_FOLLOWED):
            self._registers.clear()
            self._units.clear()
        elif plain and _SUMS.get(name) == len(operands):
            self._add(operands, _REGISTER, 0)
        elif plain and _PAIRS.get(name) == len(operands):
            self._pair(name, operands)
        elif plain and _PRODUCTS.get(name) == len(operands):
            self._multiply(operands, _REGISTER, 0)
        elif opcode in _MOVES and not guarded:
            self._move(operands)
        elif opcode in _CONSTANTS and not guarded and operands[1:3] == ["-RZ", "RZ"]:
            self._hold(operands[0], _UNIT_HALVES.get(tuple(operands[3:])))
        elif opcode in _LEAST and len(operands) == 4 and operands[3] in ("PT", "!PT") and not guarded:
            self._least(operands)
        elif opcode == "FSEL" and len(operands) == 4 and not guarded:
            self._pick(operands)
        elif operands:
            self._forget(operands[0], written(name, modifiers))

    def _add(self, operands: Sequence[str], form: re.Pattern[str], lane: int) -> None:
        one, two = self._read(operands[1], form, lane), self._read(operands[2], form, lane)
        self._write_sum(self._target(operands[0], lane), one, two)

    def _write_sum(self, target: str, one: tuple[int, Form] | None, two: tuple[int, Form] | None) -> None:
        """A register becomes the sum of two values."""
        if one is None or two is None:
            self._write(target, None)
            return
        if ZERO in (one[0], two[0]):
            self._set(target, two if one[0] == ZERO else one)
            return
        (first, a), (second, b) = one, two
        total = _sum(a, b)
        if total is not None and not total and a and b and first != -second:
            self.count += 1
        self._write(target, total)

    def _pair(self, name: str, operands: Sequence[str]) -> None:
        """Two operations in one instruction. Pairs begin at even registers: neither reads what the other writes."""
        if not all(_PAIR.fullmatch(text) for text in operands[1:]):
            self._forget(operands[0], 2)
            return
        for lane in range(2):
            (self._add if name == "FADD2" else self._multiply)(operands, _PAIR, lane)

    def _multiply(self, operands: Sequence[str], form: re.Pattern[str], lane: int) -> None:
        """A product is a value of its own, the same for the same factors; what is added to it is followed."""
        target = self._target(operands[0], lane)
        more = self._read(operands[3], form, lane) if len(operands) > 3 else (ZERO, ())
        for factor, other in ((operands[1], operands[2]), (operands[2], operands[1])):
            unit = self._unit(factor, form, lane)
            if unit is not None:
                self._write_sum(target, _times(self._read(other, form, lane), unit), more)
                return
        one, two = self._read(operands[1], form, lane), self._read(operands[2], form, lane)
        product: Form | None = None
        if one is not None and two is not None:
            sign = -1 if (one[0] < 0) != (two[0] < 0) else 1
            key = (min(abs(one[0]), abs(two[0])), max(abs(one[0]), abs(two[0])))
            if key not in self._products:
                self._products[key] = self._atom()
            product = ((self._products[key], sign),) if one[1] and two[1] else ()
        total = _sum(product, more[1]) if product is not None and more is not None else None
        self._write(target, total)

    def _unit(self, text: str, form: re.Pattern[str], lane: int) -> int | None:
        """1 or -1 where a factor is that: an immediate, or a register that holds it."""
        match = form.fullmatch(text)
        if match is None:
            return _UNITS.get(text)
        held = self._units.get(self._target(match.group(2), lane))
        return held if held is None or not match.group(1) else -held

    def _hold(self, register: str, unit: int | None) -> None:
        """A register is given a constant."""
        self._forget(register, 1)
        if unit is not None:
            self._units[register] = unit

    def _move(self, operands: Sequence[str]) -> None:
        if not operands:
            return
        given = operands[-1].removesuffix(".reuse")
        source, unit = self._registers.get(given), self._units.get(given, _UNITS.get(given))
        moves = set(operands[1:-1]) <= {"RZ"}
        self._hold(operands[0], unit if moves and given not in ("1", "-1") else None)
        if source is not None and moves:
            self._registers[operands[0]] = source

    def _decided(self, name: str, operands: Sequence[str]) -> None:
        """What a predicate picked counts no more when an instruction may write it: with its first operands, or all."""
        if name in ("FSEL", "SEL") or not self._picked:
            return
        if name == "R2P":
            self._picked.clear()
        for text in operands[:3]:
            if _PREDICATE.fullmatch(text):
                self._picked = {key: form for key, form in self._picked.items() if key[0] != text.lstrip("!")}

    def _pick(self, operands: Sequence[str]) -> None:
        """`FSEL target, one, other, predicate`."""
        one, other = self._read(operands[1], _REGISTER, 0), self._read(operands[2], _REGISTER, 0)
        predicate = _PREDICATE.fullmatch(operands[3])
        swapped = predicate is not None and bool(predicate.group(1))
        pair = (other, one) if swapped else (one, other)
        self._one_of(self._target(operands[0], 0), *pair, "" if predicate is None else predicate.group(2))

    def _least(self, operands: Sequence[str]) -> None:
        """`FMNMX target, one, other, PT`: the smaller, and with `!PT` the larger, which are picked by one question."""
        one, other = self._read(operands[1], _REGISTER, 0), self._read(operands[2], _REGISTER, 0)
        if one is not None and other is not None:
            one, other = sorted((one, other), reverse=operands[3] == "!PT")
        self._one_of(self._target(operands[0], 0), one, other, operands[3].lstrip("!"))

    def _one_of(
        self, target: str, one: tuple[int, Form] | None, other: tuple[int, Form] | None, predicate: str
    ) -> None:
        """A register becomes the first of two values where a predicate holds, and else the second."""
        if one is None or other is None or not predicate or ZERO in (one[0], other[0]):
            self._write(target, None)
            return
        (first, a), (second, b) = one, other
        before = self._picked.get((predicate, second, first))
        both = None if before is None else _sum(a, b)
        if both is not None and before is not None:
            self._write(target, _sum(both, _scaled(before, -1)))
            return
        self._write(target, None)
        self._picked[predicate, first, second] = self._registers[target][1]

    def _read(self, text: str, form: re.Pattern[str], lane: int) -> tuple[int, Form] | None:
        """The value of an operand and its signed form; None for what is not a plain register."""
        match = form.fullmatch(text)
        if match is None:
            return None
        register = self._target(match.group(2), lane)
        if register in ("RZ", "URZ"):
            return ZERO, ()
        if register not in self._registers:
            self._write(register, None)
        return _times(self._registers[register], -1 if match.group(1) else 1)

    def _write(self, register: str, form: Form | None) -> None:
        """A new value; one that is not looked into has a form of its own."""
        atom = self._atom()
        self._set(register, (atom, form if form is not None else ((atom, 1),)))

    def _set(self, register: str, value: tuple[int, Form]) -> None:
        self._units.pop(register, None)
        self._registers[register] = value

    def _forget(self, target: str, count: int = MOST_REGISTERS) -> None:
        """An instruction that is not followed writes its first operand and perhaps registers after it."""
        match = _REGISTER.fullmatch(target)
        if match is None or match.group(2).endswith("Z"):
            return
        for lane in range(count):
            register = self._target(match.group(2), lane)
            self._registers.pop(register, None)
            self._units.pop(register, None)

    @staticmethod
    def _target(register: str, lane: int) -> str:
        if lane == 0 or register.endswith("Z"):
            return register
        prefix = register.rstrip("0123456789")
        return f"{prefix}{int(register[len(prefix) :]) + lane}"

    def _atom(self) -> int:
        self._next += 1
        return self._next


def written(name: str, modifiers: str) -> int:
    """How many registers an instruction may write, from its first operand on."""
    wider = [_WIDER[part] for part in modifiers.split(".") if part in _WIDER]
    return max(wider, default=1) if name in _SINGLE else max([*wider, MOST_REGISTERS])


def _scaled(form: Form, unit: int) -> Form:
    return tuple((atom, unit * times) for atom, times in form)


def _times(value: tuple[int, Form] | None, unit: int) -> tuple[int, Form] | None:
    """A value, or its negative."""
    return value if value is None or unit == 1 else (-value[0], _scaled(value[1], -1))


def _sum(a: Form, b: Form) -> Form | None:
    """a + b, or None when it grows too long to be worth following."""
    terms = dict(a)
    for atom, times in b:
        terms[atom] = terms.get(atom, 0) + times
    found = tuple(sorted((atom, times) for atom, times in terms.items() if times))
    return found if len(found) <= MOST_TERMS else None
