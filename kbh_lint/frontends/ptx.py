"""A tokenizer for PTX text: `opcode(.modifier)* operands`. It never raises."""

from __future__ import annotations

import re
import struct
from typing import Union

from kbh_lint.base.records import dataclass
from kbh_lint.base.regexes import regex


@dataclass(frozen=True, slots=True)
class Reg:
    """A register or any other name: `%r1`, `p`, `%tid.x`, a label or a symbol. `offset` counts characters."""

    name: str
    offset: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Imm:
    """A number; `0f3F800000` and `0d...` are given as the float they stand for."""

    value: int | float
    offset: int


@dataclass(frozen=True, slots=True)
class AsmOperand:
    """`%0` or `%[name]` of inline asm: its number, or its name."""

    index: int | None
    offset: int
    name: str = ""
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Vec:
    """`{a, b, c, d}`."""

    items: tuple[Operand, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Mem:
    """`[address]`, `[address + 16]`, `[descriptor, {x, y}]`; the parts in order, sums as separate parts."""

    items: tuple[Operand, ...]
    offset: int


Operand = Union[Reg, Imm, AsmOperand, Vec, Mem]


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction, directive (`.reg`: opcode `.reg`, its types as modifiers) or label (opcode `label`).

    `guard` is the predicate of `@p` or `@!p` (negated). `offset` and `length` give the place in the text. Text
    that is not understood has the opcode `?`.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Operand | None
    offset: int
    length: int = 0


_LEX = regex(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?(?:\*/|\Z))"
    r"|(?P<asm>%\d+|%\[\w+\])"
    r"|(?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|\d+\.\d*(?:[eE][-+]?\d+)?|\d+U?)"
    r"|(?P<name>[%$]?[A-Za-z_$][\w$]*(?:(?:\.|::)[A-Za-z0-9_$]+)*(?:%=)?|%%[A-Za-z_]\w*(?:\.\w+)*|%=)"
    r"|(?P<directive>\.[A-Za-z_]\w*(?:(?:\.|::)\w+)*)"
    r"|(?P<string>\"[^\"\n]*\"?)"
    r"|(?P<mark>.)",
    re.S,
)
MAX_INSTRUCTIONS = 50_000
_MAX_DEPTH = 8

_Token = tuple[str, str, int]


def parse(text: str) -> list[Instr]:
    """The instructions of PTX text, in order, also those inside braces. Their number is bounded; the rest of a longer
    text becomes one instruction `?`."""
    found: list[Instr] = []
    start: list[_Token] = []
    depth = 0
    for match in _LEX.finditer(text):
        kind = match.lastgroup or "mark"
        if kind == "skip":
            continue
        token = (kind, match.group(), match.start())
        mark = token[1] if kind == "mark" else ""
        if len(found) >= MAX_INSTRUCTIONS:
            found.append(Instr("?", (), (), None, match.start(), len(text) - match.start()))
            return found
        if mark == ";" and depth == 0:
            _finish(found, start)
            start = []
        elif mark in ("{", "}") and not start:
            continue  # a block's brace
        elif depth == 0 and (mark == "}" or (mark == "{" and _opens_block(start))):
            _finish(found, start)
            start = []
        elif mark == ":" and depth == 0 and len(start) == 1 and start[0][0] == "name":
            name, at = start[0][1], start[0][2]
            found.append(Instr("label", (), (Reg(name, at),), None, at, match.end() - at))
            start = []
        else:
            if mark and mark in "([{":
                depth += 1
            elif mark and mark in ")]}":
                depth = max(depth - 1, 0)
            start.append(token)
    _finish(found, start)
    return found


def _opens_block(tokens: list[_Token]) -> bool:
    """Whether a brace after these tokens opens a function body: `.entry name (...) {`."""
    return any(kind == "directive" and text.split(".")[1] in ("entry", "func") for kind, text, _ in tokens)


def _finish(found: list[Instr], tokens: list[_Token]) -> None:
    if not tokens:
        return
    first = tokens[0][2]
    length = tokens[-1][2] + len(tokens[-1][1]) - first
    guard: Operand | None = None
    at = 0
    if tokens[0][1] == "@":
        at = 1
        negated = len(tokens) > 1 and tokens[1][1] == "!"
        at += negated
        if at < len(tokens):
            guard = _single(tokens[at], negated)
            at += 1
    if at >= len(tokens) or tokens[at][0] not in ("name", "directive"):
        found.append(Instr("?", (), (), guard, first, length))
        return
    kind, text, _ = tokens[at]
    words = text.split(".")
    opcode, modifiers = (words[0], words[1:]) if kind == "name" else ("." + words[1], words[2:])
    at += 1
    while at < len(tokens) and tokens[at][0] == "directive":
        modifiers += tokens[at][1].split(".")[1:]
        at += 1
    items, _ = _operands(tokens, at, "", 0)
    found.append(Instr(opcode, tuple(modifiers), items, guard, first, length))


def _operands(tokens: list[_Token], at: int, close: str, depth: int) -> tuple[tuple[Operand, ...], int]:
    """Operands up to a closing mark, and where they end; a sign before a number belongs to it."""
    items: list[Operand] = []
    negated = minus = False
    while at < len(tokens):
        token = tokens[at]
        kind, text, offset = token
        at += 1
        if kind == "mark":
            if text == close:
                return tuple(items), at
            if text in "{[(" and depth < _MAX_DEPTH:
                inner, at = _operands(tokens, at, {"{": "}", "[": "]", "(": ")"}[text], depth + 1)
                items.append(Mem(inner, offset) if text == "[" else Vec(inner, offset))
            negated, minus = text == "!", text == "-"
            continue
        single = _single(token, negated)
        if single is not None:
            items.append(Imm(-single.value, single.offset) if minus and isinstance(single, Imm) else single)
        negated = minus = False
    return tuple(items), at


def _single(token: _Token, negated: bool = False) -> Reg | Imm | AsmOperand | None:
    kind, text, offset = token
    if kind == "asm":
        inner = text[1:]
        if inner.isdecimal():
            return AsmOperand(int(inner[:6]), offset, "", negated)
        return AsmOperand(None, offset, inner.strip("[]"), negated)
    if kind == "number":
        return Imm(_number(text), offset)
    if kind in ("name", "directive"):
        return Reg(text.replace("%%", "%"), offset, negated)
    return None


def _number(text: str) -> int | float:
    """PTX spells floats by their bits: 0f3F800000 is 1.0."""
    prefix = text[:2].lower()
    if prefix == "0f" and len(text) == 10:
        return float(struct.unpack(">f", bytes.fromhex(text[2:]))[0])
    if prefix == "0d" and len(text) == 18:
        return float(struct.unpack(">d", bytes.fromhex(text[2:]))[0])
    digits = text[:400].rstrip("U")
    if prefix == "0x":
        return int(digits[2:], 16)
    if "." in digits:
        return float(digits)
    return int(digits, 8) if digits[0] == "0" and digits.strip("01234567") == "" else int(digits)
