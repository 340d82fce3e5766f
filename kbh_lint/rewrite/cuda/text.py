"""CUDA text in a program: string constants of the Python file, and files beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import libcst as cst

from kbh_lint.base.records import dataclass
from kbh_lint.rewrite.nodes import expression, string_value
from kbh_lint.rewrite.program import NotApplicable, Program
from kbh_lint.rewrite.tree import Source

_CUDA = re.compile(r"__global__|__device__|#\s*include\s*[<\"]|PYBIND11_MODULE|torch::Tensor|at::Tensor")
SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp")

_TOKEN = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)|(?P<raw>R"(?P<fence>[^\s()\\]{0,16})\(.*?\)(?P=fence)")"""
    r"""|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')|(?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)"""
    r"""|(?P<word>[A-Za-z_]\w*)|(?P<number>\d(?:[\w.']|[eEpP][+-])*)|(?P<space>\s*\n|[^\S\n]+)|(?P<other>.)""",
    re.S | re.M,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of C++ text. `kind`: comment, raw, string, directive, word, number, space or other."""

    kind: str
    text: str


def tokens(text: str) -> list[Token]:
    """The whole text in pieces; joined they give it back."""
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        found.append(Token("raw" if kind == "fence" else kind, match[0]))
    return found


def join(pieces: list[Token]) -> str:
    """The text of some tokens."""
    return "".join(piece.text for piece in pieces)


def words_in(parts: Iterable[list[Token]], *kinds: str) -> set[str]:
    """The words in those tokens of some texts that are of these kinds."""
    return {word for pieces in parts for p in pieces if p.kind in kinds for word in re.findall(r"[A-Za-z_]\w*", p.text)}


def is_cuda(text: str) -> bool:
    """Whether a string is C++ or CUDA source: more than a line of it, with a declaration or a directive."""
    return text.count("\n") > 1 and _CUDA.search(text) is not None


def literal(text: str) -> str:
    """A Python literal of a text, over several lines where that is exact."""
    if "\\" not in text and '"""' not in text and not text.endswith('"') and text.isprintable() is False:
        if all(c.isprintable() or c == "\n" for c in text):
            return f'"""{text}"""'
    if '"""' not in text and not text.endswith(('"', "\\")) and all(c.isprintable() or c == "\n" for c in text):
        return f'r"""{text}"""'
    return repr(text)


def cuda_strings(source: Source) -> list[cst.BaseExpression]:
    """The string constants of a file that are CUDA text, outermost ones, in order. f-strings are left out."""
    found: list[cst.BaseExpression] = []

    class Strings(cst.CSTVisitor):
        def visit_ConcatenatedString(self, node: cst.ConcatenatedString) -> bool:
            self._take(node)
            return False

        def visit_SimpleString(self, node: cst.SimpleString) -> None:
            self._take(node)

        def _take(self, node: cst.BaseExpression) -> None:
            value = string_value(node)
            if value is not None and is_cuda(value):
                found.append(node)

    source.module.visit(Strings())
    return found


def texts(program: Program, source: Source) -> list[str]:
    """All CUDA text of a program, strings first."""
    values = [string_value(node) or "" for node in cuda_strings(source)]
    return values + [text for name, text in program.sidecars.items() if name.endswith(SUFFIXES)]


def change_texts(program: Program, source: Source, change: Callable[[str], str]) -> Program:
    """The program with every CUDA text changed; raises NotApplicable when there is none or none becomes another."""
    nodes = {id(node): string_value(node) or "" for node in cuda_strings(source)}
    sidecars = {name: change(text) if name.endswith(SUFFIXES) else text for name, text in program.sidecars.items()}
    work = _Replace({key: change(value) for key, value in nodes.items()}, nodes)
    module = source.module.visit(work)
    if not nodes and not any(name.endswith(SUFFIXES) for name in program.sidecars):
        raise NotApplicable("the file holds no CUDA text as a constant")
    if not work.count and sidecars == dict(program.sidecars):
        raise NotApplicable("the CUDA text has no place for it")
    return replace(program, main=module.code, sidecars=sidecars)


class _Replace(cst.CSTTransformer):
    def __init__(self, new: dict[int, str], old: dict[int, str]) -> None:
        super().__init__()
        self.new, self.old = new, old
        self.count = 0

    def _other(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        new = self.new.get(id(original))
        if new is None or new == self.old[id(original)]:
            return updated
        self.count += 1
        return expression(literal(new))

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        return self._other(original_node, updated_node)

    def leave_ConcatenatedString(
        self, original_node: cst.ConcatenatedString, updated_node: cst.ConcatenatedString
    ) -> cst.BaseExpression:
        return self._other(original_node, updated_node)
