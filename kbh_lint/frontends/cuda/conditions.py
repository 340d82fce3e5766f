"""The value of a preprocessor condition, and the macros that a CUDA build defines before the first line."""

from __future__ import annotations

import re
from collections.abc import Callable

from kbh_lint.base.architectures import DECK
from kbh_lint.frontends.cuda.literals import integer

# What nvcc 13 and a host compiler of today predefine, and the CUDA headers' version numbers.
PREDEFINED = {
    "__CUDACC__": "1", "__NVCC__": "1", "__CUDACC_VER_MAJOR__": "13", "__CUDACC_VER_MINOR__": "0",
    "CUDA_VERSION": "13000", "CUDART_VERSION": "13000", "__cplusplus": "201703L", "__GNUC__": "12",
    "__linux__": "1", "__x86_64__": "1", "__CUDACC_RTC_INT128__": "0", "__SIZEOF_INT128__": "16",
}  # fmt: skip

# Without a target, conditions are read as for a recent GPU.
RECENT_ARCH = 100 * DECK[0][0] + 10 * DECK[0][1]

_FEATURE = re.compile(r"(?:__CUDA_ARCH_FEAT_SM(\d+)_ALL|CUTLASS_ARCH_MMA_SM(\d+)A?_(?:SUPPORTED|ENABLED))\Z")
_TOKEN = re.compile(
    r"\s+|(?P<number>\d[\w.']*)|(?P<name>[A-Za-z_]\w*)|(?P<char>'(?:[^'\\\n]|\\.)+')"
    r"|(?P<op>&&|\|\||[=!<>]=|<<|>>|.)",
    re.S,
)
_LEVELS: dict[str, int] = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_MAX_TOKENS = 4000
_MAX_DEPTH = 60


class ConditionError(ValueError):
    """The condition is not an integer expression."""


def feature(name: str, arch: int | None) -> bool | None:
    """Whether a feature macro that CUDA's headers define per architecture is defined for `arch`; None for other
    macros."""
    if name in ("__CUDA_ARCH_SPECIFIC__", "__CUDA_ARCH_FAMILY_SPECIFIC__"):
        return arch is None or arch >= 900
    match = _FEATURE.match(name)
    if match is None:
        return None
    wanted = int(match.group(1) or match.group(2)) * 10
    if arch is None:
        return True
    return arch == wanted if match.group(1) else arch >= wanted


def evaluate(text: str) -> int:
    """The value of a preprocessor condition whose macros are expanded; an undefined name is 0, as in C. Raises
    ConditionError."""
    tokens: list[tuple[str, str]] = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup is not None:
            tokens.append((match.lastgroup, match.group()))
            if len(tokens) > _MAX_TOKENS:
                raise ConditionError("the condition is too long")
    parser = _Parser(tokens)
    value = parser.ternary(0)
    if parser.at < len(tokens):
        raise ConditionError(f"unexpected {tokens[parser.at][1]!r}")
    return value


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self) -> str:
        """The next token; empty at the end."""
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def ternary(self, depth: int) -> int:
        """Parses and evaluates a conditional expression."""
        test = self.binary(1, depth + 1)
        if self.peek() != "?":
            return test
        self.at += 1
        yes = self.ternary(depth + 1)
        if self.peek() != ":":
            raise ConditionError("missing ':'")
        self.at += 1
        no = self.ternary(depth + 1)
        return yes if test else no

    def binary(self, level: int, depth: int) -> int:
        """Parses and evaluates operators that bind at least as tightly as `level`."""
        left = self.unary(depth + 1)
        while True:
            op = self.peek()
            own = _LEVELS.get(op, 0)
            if own < level or not own:
                return left
            self.at += 1
            left = _apply(op, left, self.binary(own + 1, depth + 1))

    def unary(self, depth: int) -> int:
        """Parses and evaluates a prefix operator, a number, a name or an expression in parentheses."""
        if depth > _MAX_DEPTH:
            raise ConditionError("the condition is nested too deeply")
        if self.at >= len(self.tokens):
            raise ConditionError("the condition ends too early")
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            value = integer(text)
            if value is None:
                raise ConditionError(f"{text!r} is not an integer")
            return value
        if kind == "name":
            return self._name(text)
        if kind == "char":
            return ord(text[1])
        if text == "(":
            value = self.ternary(depth + 1)
            if self.peek() != ")":
                raise ConditionError("missing ')'")
            self.at += 1
            return value
        if text in "!-+~":
            value = self.unary(depth + 1)
            return {"!": int(not value), "-": -value, "+": value, "~": ~value}[text]
        raise ConditionError(f"unexpected {text!r}")

    def _name(self, text: str) -> int:
        if text == "true":
            return 1
        if self.peek() == "(":  # __has_include(...), __has_builtin(...): a build that works has it
            depth = 0
            while self.at < len(self.tokens):
                depth += {"(": 1, ")": -1}.get(self.peek(), 0)
                self.at += 1
                if depth == 0:
                    break
            return int(text.startswith("__has_"))
        return 0


def _shift(left: int, right: int) -> int:
    return left << right if 0 <= right < 64 else 0


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "<<": _shift,
    ">>": lambda a, b: a >> min(max(b, 0), 64),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0,
    "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1) if b else 0,
}


def _apply(op: str, left: int, right: int) -> int:
    value = _OPERATORS[op](left, right)
    return (value + 2**63) % 2**64 - 2**63
