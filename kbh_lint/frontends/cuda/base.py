"""What the lowering of types, expressions, statements and declarations shares."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version

import tree_sitter
import tree_sitter_cpp
from tree_sitter import Node

from kbh_lint.base import dtypes, ir
from kbh_lint.frontends.cuda.blank import Blanked
from kbh_lint.frontends.cuda.unit import CudaUnit

# Nesting of expressions and statements that is lowered; each level takes a few Python frames.
MAX_DEPTH = 120
MAX_STEPS = 50_000
MAX_STEPS_AT_ONCE = 25_000
_CHUNK = 1 << 16

# After blanking, tree-sitter-cpp 0.23 and tree-sitter-cuda 0.21 read the same texts without an error: all 59 CUDA
# texts of the development submissions, 170 of 250 headers of CUTLASS and CUB, at 0.21 ms a KB both. One is enough.
# Before 0.26.1 it hands the parser's progress to Python under the format "Ip" of Py_BuildValue. Python knows `p` there
# from 3.14 on; before, nothing comes of it, and the binding takes the truth of a null pointer.
LEAST_TREE_SITTER = (0, 26, 1)


def check_version(found: str) -> None:
    """Raises ImportError for a version of tree-sitter that crashes on CUDA text."""
    if tuple(int(part) for part in re.findall(r"\d+", found)[:3]) < LEAST_TREE_SITTER:
        least = ".".join(map(str, LEAST_TREE_SITTER))
        raise ImportError(f"tree-sitter {found} crashes on CUDA text; kbh-lint needs {least} or newer: pip install -U")


check_version(version("tree-sitter"))
_LANGUAGE = tree_sitter.Language(tree_sitter_cpp.language())
_TYPE_NAMES = re.compile(
    r"\b(?:struct|class|union|typename|enum(?:\s+class|\s+struct)?)\s+(?:\.\.\.\s*)?([A-Za-z_]\w*)"
    r"|\busing\s+([A-Za-z_]\w*)\s*=|\btypedef\b[^;{}]{0,300}?([A-Za-z_]\w*)\s*;"
)
_SPACES = re.compile(r"\s+")


class Parser:
    """Parses texts until a budget is spent, in steps of the parser: 9 a KB are usual, ambiguous text takes 200.

    The bound also keeps trees small enough for the parser's own recursion.
    """

    def __init__(self) -> None:
        self.left = MAX_STEPS
        self._parser = tree_sitter.Parser(_LANGUAGE)

    def parse(self, text: str) -> Node | None:
        """The root of the syntax tree of `text`, whose byte offsets are character offsets of `text`; None when the
        budget is spent."""
        data = text.encode("ascii", "replace")
        budget = min(self.left, MAX_STEPS_AT_ONCE)

        def stop(offset: int, error: bool) -> bool:
            nonlocal budget
            budget -= 1
            self.left -= 1
            return budget <= 0

        try:
            self.left -= 1
            return self._parser.parse(lambda at, _: data[at : at + _CHUNK], progress_callback=stop).root_node
        except ValueError:
            self._parser.reset()
            return None


def type_names(text: str) -> set[str]:
    """The names that a text declares as types, anywhere."""
    return {name for match in _TYPE_NAMES.finditer(text) for name in match.groups() if name}


class Base:
    """The state of one lowering. `shift` is added to a node's offsets: a fragment may be parsed on its own."""

    def __init__(self, unit: CudaUnit, blanked: Blanked) -> None:
        self.unit = unit
        self.blanked = blanked
        self.text = blanked.text
        self.shift = 0
        self.erroneous = False  # whether the last parse met a syntax error
        self.depth = 0
        self.unread: list[tuple[str, ir.Loc]] = []
        self.parser = Parser()
        self.outermost: list[ir.Name] = []  # `::n`
        self.pending: list[ir.Stmt] = []  # classes defined inside a declaration: `struct {...} x;`

    def parse(self, start: int, end: int, before: str = "", after: str = "") -> tuple[Node, ...]:
        """Parses the text from `start` to `end` on its own, with `before` and `after` around it, and returns the top
        nodes; sets `shift` so that their offsets are those of the whole text."""
        self.shift = start - len(before)
        root = self.parser.parse(before + self.text[start:end] + after)
        if root is None:
            reason = "the text is too ambiguous to be parsed"
            if not any(entry[0] == reason for entry in self.unread):
                self.unread.append((reason, (self.unit, start, end)))
            self.erroneous = True
            return ()
        self.erroneous = root.has_error
        return tuple(root.named_children)

    # --- places and text ---

    def loc(self, node: Node) -> ir.Loc:
        """The location of a node."""
        return (self.unit, node.start_byte + self.shift, node.end_byte + self.shift)

    def source(self, node: Node) -> str:
        """The source text of a node."""
        return self.text[node.start_byte + self.shift : node.end_byte + self.shift]

    def compact(self, node: Node) -> str:
        """The source text of a node, with each run of white space as one space."""
        text = self.source(node)
        return text if text.isidentifier() else _SPACES.sub(" ", text).strip()

    def is_type(self, name: str) -> bool:
        """Whether a name is known to be a type: one that the text declares, or a scalar or vector type."""
        if name in self.unit.known_types:
            return True
        return dtypes.from_cpp(name) is not None or dtypes.vector_from_cpp(name) is not None

    # --- depth ---

    def too_deep(self, node: Node) -> ir.Opaque:
        """Records that the text nests too deeply here; returns the Opaque to use in place of the node."""
        where = self.loc(node)
        reason = f"nested more than {MAX_DEPTH} deep"
        if not any(entry[0] == reason for entry in self.unread):
            self.unread.append((reason, where))
        return ir.Opaque(reason, (), where)

    def chain_room(self) -> int:
        """How many links of a chain (`a + b + c`, `else if`) may still be nested at this depth."""
        return MAX_DEPTH - self.depth

    # --- what the parts offer one another ---

    def expr(self, node: Node) -> ir.Expr:
        """Lowers an expression."""
        raise NotImplementedError

    def maybe(self, node: Node | None) -> ir.Expr | None:
        """Lowers an expression; None for None."""
        return None if node is None else self.expr(node)

    def exprs(self, nodes: Iterable[Node]) -> tuple[ir.Expr, ...]:
        """Lowers several expressions."""
        return tuple([self.expr(node) for node in nodes])

    def statement(self, node: Node) -> list[ir.Stmt]:
        """Lowers a statement, to any number of statements."""
        raise NotImplementedError

    def block(self, node: Node | None) -> tuple[ir.Stmt, ...]:
        """Lowers the body of a function or statement."""
        raise NotImplementedError

    def type_of(self, node: Node | None) -> ir.TypeRef:
        """Lowers a type."""
        raise NotImplementedError

    def template_params(self, node: Node | None) -> tuple[ir.TemplateParam, ...]:
        """Lowers a list of template parameters."""
        raise NotImplementedError

    def declared(self, node: Node | None, of: ir.TypeRef) -> tuple[Node | None, ir.TypeRef]:
        """The name node inside a declarator, and the type of what is declared, `of` being the type in front of it."""
        raise NotImplementedError

    def parameters(self, node: Node | None) -> tuple[ir.Param, ...]:
        """Lowers a list of parameters."""
        raise NotImplementedError

    def class_def(self, node: Node, name: str | None = None) -> list[ir.Stmt]:
        """Lowers a class or enumeration with a body."""
        raise NotImplementedError

    def opaque(self, node: Node, reason: str | None = None) -> ir.Opaque:
        """An Opaque for a node that is not understood, with the lowered nodes inside it."""
        if reason is None:
            reason = "syntax error" if node.type == "ERROR" else node.type.replace("_", " ")
        return ir.Opaque(reason, tuple(self.anything(node.named_children)), self.loc(node))

    def anything(self, nodes: Iterable[Node]) -> list[object]:
        """Lowers nodes of any kind, expressions and statements."""
        raise NotImplementedError
