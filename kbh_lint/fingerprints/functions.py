"""The functions of a Python or CUDA C++ text as token streams that renaming, layout and literals do not change.

A token is two bytes: a hash of the word for keywords, operators, attributes and intrinsics; for any other name the
distance to its last occurrence (0 when that is far or nowhere); one value each for all numbers and all strings.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from zlib import crc32

from kbh_lint.base.records import dataclass
from kbh_lint.base.regexes import regex
from kbh_lint.base.syntax import tree_of

DISTANCE = 16  # names further back than this many tokens count as new
MAX_TOKENS = 400_000  # of one text
TOKEN_BYTES = 2
CPP_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp")


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its name, its lines in the text (from 1), and its body as tokens of TOKEN_BYTES each.

    `start` is the offset of a C++ body's first bracket.
    """

    name: str
    line: int
    end_line: int
    code: bytes
    start: int = 0

    @property
    def tokens(self) -> int:
        """How many tokens the body has."""
        return len(self.code) // TOKEN_BYTES


# --- tokens ------------------------------------------------------------------------------------------------

# What is skipped is in no group, so that `findall` gives it as empty texts, and tokens as they are.
_PYTHON = re.compile(
    r"#[^\n]*"
    r"|([rRbBuUfF]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")"
    r"|\.?\d[\w.]*|[^\W\d]\w*|\*\*|//|<<|>>|[-+*/%@&|^<>=!]=|->|[^\s\\])",
    re.S,
)
_CPP = regex(
    r"(?://(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|(?:^|(?<=\n))[ \t]*#(?:\\\n|[^\n])*)"
    # a text that is not closed goes to the end of its line: every character is looked at once, whatever the text
    r"|(\"(?:\\.|[^\"\\\n])*(?:\"|(?=\n)|\\?\Z)|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|\\?\Z)"
    r"|\.?\d(?:[\w.']|(?<=[eE])[-+])*|[^\W\d]\w*"
    r"|<<<|>>>|::|->|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||\+\+|--|[^\s\\])",
    re.S,
)
_PYTHON_WORDS = frozenset(keyword.kwlist) | {name for name in dir(builtins) if name.islower()}
_CPP_WORDS = frozenset(
    "alignas auto bool break case char class const constexpr continue default do double else enum explicit extern"
    " false float for half if inline int long namespace new nullptr operator return short signed sizeof static struct"
    " switch template this true typedef typename uint16_t uint32_t uint64_t uint8_t int16_t int32_t int64_t int8_t"
    " union unsigned using void volatile while asm std cute cutlass threadIdx blockIdx blockDim gridDim size_t bf16"
    " nv_bfloat16 nv_bfloat162 half2 float2 float4 int2 int4 uint2 uint4".split()
)
_USING = regex(r"\busing\s+(\w+)\s*=\s*(\w+)\s*;")  # another name for a type of one word
_TYPEDEF = regex(r"\btypedef\s+(\w+)\s+(\w+)\s*;")
_OPCODE = regex(r"[a-z]\w*(?:\.\w+)+")  # a PTX instruction inside a string


def _tokens(text: str) -> list[str]:
    """The tokens of a C++ text, without comments and directives. What each is its first character says."""
    return list(filter(None, _CPP.findall(text)[: 2 * MAX_TOKENS]))[:MAX_TOKENS]


def _places(text: str) -> list[int]:
    """Where the tokens of a C++ text begin."""
    every = islice(_CPP.finditer(text), 2 * MAX_TOKENS)
    return [match.start() for match in every if match[1]][:MAX_TOKENS]


def _is_name(token: str) -> bool:
    return token[0] == "_" or token[0].isalnum() and not token[0].isdecimal()


def _python_tokens(text: str) -> list[str]:
    """The tokens of a Python text, without comments; what each is its first and last characters say."""
    return list(filter(None, _PYTHON.findall(text)[: 2 * MAX_TOKENS]))[:MAX_TOKENS]


_DISTANCES = [bytes((1, distance)) for distance in range(DISTANCE + 1)]
_LONG = 40  # characters of a token that is not seen again
MAX_CODES = 16_384  # tokens of which it is kept what stands for them
_PYTHON_CODES: dict[str, bytes | None] = {}
_CPP_CODES: dict[str, bytes | None] = {}
_CLOSING = frozenset(")]}")


def encode(tokens: Sequence[str], *, cpp: bool) -> bytes:
    """The tokens as two bytes each; a comma before a closing bracket counts as layout and is left out."""
    out: list[bytes] = []
    last: dict[str, int] = {}
    before, position = "", 0
    known, joint = (_CPP_CODES, "::") if cpp else (_PYTHON_CODES, ".")
    for index, text in enumerate(tokens, 1):
        code = known.get(text, b"")  # a token of no bytes is none that is known
        if code == b"":
            code = _coded(text, known, cpp)
        if code is None:
            if before != joint:
                distance = position - last.get(text, -DISTANCE - 1)
                last[text] = position
                code = _DISTANCES[distance if distance <= DISTANCE else 0]
            else:
                code = _word(text)
        elif text == "," and index < len(tokens) and tokens[index] in _CLOSING:
            code = b""
        out.append(code)
        position += len(code) // TOKEN_BYTES
        before = text
    return b"".join(out)


def _coded(text: str, known: dict[str, bytes | None], cpp: bool) -> bytes | None:
    """What stands for a token wherever it is, kept for the next one; None for a name that may be any."""
    code = _cpp_code(text) if cpp else _python_code(text)
    if len(text) < _LONG:
        if len(known) >= MAX_CODES:
            known.clear()
        known[text] = code
    return code


def _python_code(text: str) -> bytes | None:
    """What stands for a token of Python wherever it is; None for a name that may be any."""
    if len(text) > 1 and text[-1] in "'\"":
        return _STRING
    return _code(text, _PYTHON_WORDS)


def _cpp_code(text: str) -> bytes | None:
    """The same of a token of C++. Of a string the PTX instructions in it count."""
    if text[0] in "'\"":
        return b"".join(map(_word, _OPCODE.findall(text))) or _STRING
    return _word(text) if text.startswith("__") else _code(text, _CPP_WORDS)


_NUMBER, _STRING = b"\2\0", b"\3\0"


def _code(text: str, words: frozenset[str]) -> bytes | None:
    first = text[0]
    if first.isdecimal() or first == "." and len(text) > 1:
        return _NUMBER
    named = first == "_" or first.isalnum()
    return None if named and text not in words else _word(text)


@lru_cache(maxsize=4096)
def _word(text: str) -> bytes:
    return (crc32(text.encode("utf-8", "surrogatepass")) % 0xFB00 + 0x0400).to_bytes(TOKEN_BYTES, "big")


# --- functions ---------------------------------------------------------------------------------------------


def python_functions(text: str, *, placed: bool = True) -> list[Function]:
    """The outermost functions of a Python text and the methods of its classes, without signature, decorators and
    docstring, and those of C++ texts in its strings; none when it is not Python. Those of C++ have no places where they
    are not to be `placed`."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = _outermost(tree, text)
    if "__global__" in text or "__device__" in text:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "{" in node.value:
                inside = cpp_functions(node.value, placed=placed)
                before = node.lineno - 1
                found += [replace(f, line=f.line + before, end_line=f.end_line + before) for f in inside]
    return found


def _outermost(tree: ast.Module, text: str) -> list[Function]:
    starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
    found: list[Function] = []
    pending: list[ast.stmt] = list(reversed(tree.body))
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            if body:
                end = body[-1].end_lineno or node.lineno
                code = text[starts[body[0].lineno - 1] : starts[end]]
                found.append(Function(node.name, node.lineno, end, encode(_python_tokens(code), cpp=False)))
        elif isinstance(node, (ast.ClassDef, ast.If, ast.Try, ast.With)):
            pending.extend(reversed(node.body))
    return found


def cpp_functions(text: str, *, placed: bool = True) -> list[Function]:
    """The function bodies of a C++ or CUDA text, found by their brackets; it need not be whole or correct. Where they
    are takes as long as what they are, and is left out where they are not to be `placed`."""
    tokens = _tokens(text)
    other = {match[1]: match[2] for match in _USING.finditer(text)} if "using" in text else {}
    other |= {match[2]: match[1] for match in _TYPEDEF.finditer(text)} if "typedef" in text else {}
    other = {name: meant for name, meant in other.items() if _is_name(name)}
    if other:
        tokens = [other.get(word, word) for word in tokens]
    places = _places(text) if placed else []
    starts = [0, *(match.end() for match in re.finditer("\n", text))] if placed else []
    pairs = _pairs(tokens)
    found: list[Function] = []
    index = 0
    while index < len(tokens):
        if tokens[index] == "{":
            name = _named(tokens, index, pairs)
            if name:
                end = pairs.get(index, len(tokens))
                code = encode(tokens[index + 1 : end], cpp=True)
                first = last = start = 0
                if placed:
                    start = places[index]
                    first, last = (bisect_right(starts, places[at]) for at in (index, min(end, len(tokens) - 1)))
                found.append(Function(name, first, last, code, start))
                index = end
        index += 1
    return found


def _pairs(tokens: list[str]) -> dict[int, int]:
    """The index of the bracket that belongs to the one at an index: of `(` for `)`, of `}` for `{`."""
    found: dict[int, int] = {}
    round_, curly = [], []
    for index, text in enumerate(tokens):
        if text == "(":
            round_.append(index)
        elif text == ")" and round_:
            found[index] = round_.pop()
        elif text == "{":
            curly.append(index)
        elif text == "}" and curly:
            found[curly.pop()] = index
    return found


_AFTER_PARAMETERS = frozenset(("const", "noexcept", "override", "final", "mutable"))
_NO_FUNCTIONS = frozenset("if for while switch catch sizeof alignas decltype __launch_bounds__ __align__".split())


def _named(tokens: list[str], brace: int, pairs: dict[int, int]) -> str:
    """The name of the function whose body opens at `brace`: what stands before the parameters; empty for others."""
    index = brace - 1
    while index >= 0 and tokens[index] in _AFTER_PARAMETERS:
        index -= 1
    if index not in pairs or tokens[index] != ")":
        return ""
    before = tokens[pairs[index] - 1] if pairs[index] > 0 else ""
    return before if before and _is_name(before) and before not in _NO_FUNCTIONS else ""
