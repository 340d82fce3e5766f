"""Nodes of Python's syntax trees as objects of the interpreted program: classes like those of the module `ast`, made
from the real ones, and whole trees from one side to the other. The number of a line remembers in which text it counts.
"""

from __future__ import annotations

import _ast
import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from kbh_lint.base.values import Env, Value
from kbh_lint.host.values.escapes import Length
from kbh_lint.host.values.frames import MAPPED_STRING
from kbh_lint.host.values.objects import ClassV, Instance
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.host.values.unknowns import merged
from kbh_lint.source.embedded import Here, Piece, Text, doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MODULE = "ast"
MAX_NODES = 50_000
MAX_DEPTH = 150

REAL: dict[str, type[ast.AST]] = {
    name: kind for name, kind in vars(_ast).items() if isinstance(kind, type) and issubclass(kind, ast.AST)
}
FLAGS = {name: value for name, value in vars(_ast).items() if isinstance(value, int)}

_TABLE = "<classes of nodes>"  # in the scope of the library's text
_LEAVES = frozenset(("identifier", "string", "int", "constant"))
_MISSING = object()
_WHOLE = (bool, int, float, complex, bytes, type(None), type(...))


class Source:
    """A text that was parsed, and where its lines begin."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in re.finditer("\r\n|[\r\n]", str(text)))]

    def place(self, line: int, column: int) -> Here | None:
        """Where the character of a line, counted from 1, was written; None where that is not known."""
        if not 0 < line <= len(self.starts):
            return None
        found = self.text.origin(min(self.starts[line - 1] + column, max(len(self.text) - 1, 0)))
        return None if found is None else Here(*found)


class Line(int):
    """The number of a line in a tree. `row` is the line of `source` that it had when that was parsed, whatever was
    added to it since."""

    source: Source | None = None
    row: int = 0

    def moved(self, count: int) -> Line:
        """Returns the number of the same line after `count` lines were put before it."""
        made = Line(self + count)
        made.source, made.row = self.source, self.row
        return made


class Table:
    """The classes of nodes in one run, and the nodes of which there is one alone, such as `Load()`."""

    def __init__(self, construct: Value) -> None:
        self.classes: dict[str, ClassV] = {}
        for name in sorted(REAL, key=lambda name: len(REAL[name].__mro__)):
            bases = tuple(self.classes[base.__name__] for base in REAL[name].__bases__ if base is not object)
            self.classes[name] = made = ClassV(name, bases, Env(dict(_shared(name))), None)
            for base in bases:
                base.derived.append(made)
        self.root = self.classes["AST"]
        self.root.env.vars["__init__"] = construct
        self.single = {name: Instance(self.classes[name]) for name in REAL if _is_single(REAL[name])}

    def is_node(self, value: Value) -> bool:
        """Whether a value is a node of a tree."""
        return isinstance(value, Instance) and self.root in value.cls.mro()

    def real(self, node: Instance) -> type[ast.AST] | None:
        """The real class of a node; None for one of a class of the submission."""
        return REAL[node.cls.name] if self.classes.get(node.cls.name) is node.cls else None


def table(run: Run) -> Table:
    """Returns the classes of nodes of a run in which something of the module was named."""
    found = run.scopes.library[MODULE].vars[_TABLE]
    assert isinstance(found, Table)
    return found


def begin(env: Env, construct: Value) -> Table:
    """Makes the classes of nodes for a run, and binds them in the scope of the library's text."""
    made = Table(construct)
    env.vars.update({**made.classes, **FLAGS, _TABLE: made})
    return made


@cache
def _shared(name: str) -> dict[str, Value]:
    """What the class of a node holds, apart from its constructor."""
    own = vars(REAL[name])
    fields, attributes = REAL[name]._fields, REAL[name]._attributes
    held = {key: own[key] for key in ("_fields", "_attributes", "__match_args__", "__doc__") if key in own}
    return {**held, "__module__": MODULE, **{key: own[key] for key in (*fields, *attributes) if key in own}}


def _is_single(kind: type[ast.AST]) -> bool:
    return not kind._fields and not kind._attributes and not kind.__subclasses__() and kind.__base__ is not ast.mod


@cache
def given_anyway(name: str) -> dict[str, str]:
    """The fields that the constructor of a node's class sets when it is not given them: each with `list`, the name of
    the class of a node, or nothing for None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = vars(REAL[name]())
        except TypeError:
            return {}
    return {
        key: "list" if isinstance(value, list) else "" if value is None else type(value).__name__
        for key, value in made.items()
    }


@cache
def leaves(name: str) -> frozenset[str]:
    """The fields of a node's class that hold no nodes: names, texts and constants."""
    doc = REAL[name].__doc__ or ""
    return frozenset(field for kind, field in re.findall(r"(\w+)[?*]? (\w+)", doc) if kind in _LEAVES)


def fields_of(node: Instance) -> tuple[str, ...]:
    """Returns the names of a node's fields, as its class has them."""
    found = node.cls.get("_fields", ())
    return tuple(str(name) for name in found) if isinstance(found, (tuple, list)) else ()


def attributes_of(node: Instance) -> tuple[str, ...]:
    """Returns the names of a node's attributes, which say where it stands."""
    found = node.cls.get("_attributes", ())
    return tuple(str(name) for name in found) if isinstance(found, (tuple, list)) else ()


def part(node: Instance, name: str, default: Value = _MISSING) -> Value:
    """Returns what a field or an attribute of a node holds; `default` where it has none."""
    return node.attrs[name] if name in node.attrs else node.cls.get(name, default)


def has_part(node: Instance, name: str) -> bool:
    """Whether a field or an attribute of a node is there."""
    return part(node, name) is not _MISSING


def held(node: Value) -> Iterator[tuple[str, Value]]:
    """The fields of a node that are there, as they are when it is their turn."""
    if not isinstance(node, Instance):
        return
    for name in fields_of(node):
        value = part(node, name, held)
        if value is not held:
            yield name, value


def children(nodes: Table, node: Instance) -> Iterator[Value]:
    """The nodes right below one, and what may be one."""
    open_ = open_fields(node)
    for name, value in held(node):
        if type(value) is list:
            yield from (item for item in value if nodes.is_node(item) or isinstance(item, Unknown) and name in open_)
        elif nodes.is_node(value) or isinstance(value, Unknown) and name in open_:
            yield value


def open_fields(node: Instance) -> frozenset[str]:
    """The fields of a node that may hold nodes."""
    plain = leaves(node.cls.name) if node.cls.name in REAL else frozenset()
    return frozenset(fields_of(node)) - plain


# --- from real trees


class Reader:
    """Makes nodes of a real tree; `source` is the text that it was parsed from."""

    def __init__(self, table: Table, source: Source) -> None:
        self.table, self.source = table, source
        self.made = 0

    def node(self, real: ast.AST, depth: int = 0) -> Instance:
        """Returns the node that stands for a real one. Raises RecursionError where it nests too deep, and MemoryError
        where there are too many."""
        name = type(real).__name__
        if name in self.table.single:
            return self.table.single[name]
        self.made += 1
        if depth > MAX_DEPTH:
            raise RecursionError
        if self.made > MAX_NODES:
            raise MemoryError
        attrs: dict[str, object] = {}
        for field in real._fields:
            value = getattr(real, field)
            if isinstance(value, list):
                value = [self.node(item, depth + 1) if isinstance(item, ast.AST) else item for item in value]
            elif isinstance(value, ast.AST):
                value = self.node(value, depth + 1)
            elif isinstance(value, str) and len(value) >= MAPPED_STRING:
                value = self.text(value, real)
            attrs[field] = value
        for key in real._attributes:
            value = getattr(real, key)
            attrs[key] = self.line(value) if key.endswith("lineno") and value is not None else value
        return Instance(self.table.classes[name], attrs)

    def line(self, value: int) -> Line:
        """Returns the number of a line of the text."""
        made = Line(value)
        made.source, made.row = self.source, value
        return made

    def text(self, value: str, real: ast.AST) -> str:
        """Returns a text of a tree, which stands where its node does."""
        here = self.source.place(getattr(real, "lineno", 0), getattr(real, "col_offset", 0))
        return value if here is None else Text(value, (Piece(0, len(value), here, 0),))


# --- to real trees


class NotKnown(Exception):
    """Part of a tree is not known, or is nothing that a tree may hold."""

    def __init__(self, *values: Value) -> None:
        super().__init__()
        self.values = values


class Writer:
    """Makes a real tree of nodes, with what they lack lacking there, too."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.made = 0

    def tree(self, value: Value) -> ast.AST:
        """Returns the real node of a known one; raises NotKnown."""
        if not isinstance(value, Instance):
            raise NotKnown(value)
        return self._node(value, 0)

    def _node(self, node: Instance, depth: int) -> ast.AST:
        kind = self.table.real(node)
        self.made += 1
        if kind is None or depth > MAX_DEPTH or self.made > MAX_NODES:
            raise NotKnown(node)
        real = kind.__new__(kind)
        for name in kind._fields:
            value = node.attrs.get(name, _MISSING)
            if value is not _MISSING:
                setattr(real, name, self._part(value, depth))
        for name in kind._attributes:
            value = node.attrs.get(name, _MISSING)
            if value is not _MISSING:
                setattr(real, name, value if value is None or isinstance(value, int) else 1)
        return real

    def _part(self, value: Value, depth: int) -> object:
        if type(value) in _WHOLE:
            return value
        if isinstance(value, Instance):
            return self._node(value, depth + 1)
        if type(value) is list:
            return [self._part(item, depth) for item in value]
        if type(value) in (str, Text) and not doubts(value):
            return str(value)
        if type(value) in (Line, Length):
            return int(value)  # type: ignore[call-overload]
        self.made += 1
        if depth > MAX_DEPTH or self.made > MAX_NODES:
            raise NotKnown(value)
        if type(value) in (tuple, set, frozenset):
            return type(value)(self._part(item, depth + 1) for item in value)  # type: ignore[call-arg, attr-defined]
        if type(value) is dict:
            return {self._part(key, depth + 1): self._part(item, depth + 1) for key, item in value.items()}
        raise NotKnown(value)


def unknown_of(run: Run, error: NotKnown, why: str) -> Value:
    """Returns what is computed of a tree with a part that is not known."""
    return merged(run, *error.values, why=why)


# --- where the parts of a text that a tree was written as stood


def placed(real: ast.AST, text: str, here: Here | None) -> str:
    """Returns the text that a tree was written as, with each statement where its node stood in the submission; `here`
    stands for all that was nowhere."""
    marks: list[tuple[int, Here]] = []
    if isinstance(real, (ast.Module, ast.Interactive, ast.stmt)):
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            body = []
        starts = [0, *(match.end() for match in re.finditer("\n", text))]
        _pair([real] if isinstance(real, ast.stmt) else real.body, body, starts, marks)
    else:
        spot = next((spot for spot in map(_spot, ast.walk(real)) if spot is not None), None)
        marks = [] if spot is None else [(0, spot)]
    if not marks:
        return text if here is None else Text(text, (Piece(0, len(text), here, 0),))
    ends = [*(start for start, _ in marks[1:]), len(text)]
    return Text(text, (Piece(start, end, spot, 0) for (start, spot), end in zip(marks, ends, strict=True)))


def _spot(real: ast.AST) -> Here | None:
    """Where a node stood in the submission."""
    line = getattr(real, "lineno", None)
    if not isinstance(line, Line) or line.source is None:
        return None
    return line.source.place(line.row, getattr(real, "col_offset", 0))


_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")


def _pair(old: Sequence[ast.AST], new: Sequence[ast.AST], starts: list[int], marks: list[tuple[int, Here]]) -> None:
    """Notes for the statements of a text the places of those that they were written of, in the order of the text."""
    for was, now in zip(old, new, strict=False):
        spot, line = _spot(was), getattr(now, "lineno", 0)
        if spot is not None and line:
            start = starts[min([line, *(each.lineno for each in getattr(now, "decorator_list", ()))]) - 1]
            if not marks or start > marks[-1][0]:
                marks.append((start, spot))
        for block in _BLOCKS:
            below, above = getattr(was, block, None), getattr(now, block, None)
            if isinstance(below, list) and isinstance(above, list):
                _pair(below, above, starts, marks)


def span_in(text: str, line: int, column: int) -> int:
    """Returns the index of a character by its line, from 1, and its column in bytes of UTF-8."""
    starts = [0, *(match.end() for match in re.finditer("\r\n|[\r\n]", text))]
    at = starts[min(max(line - 1, 0), len(starts) - 1)]
    row = text[at : starts[line]] if line < len(starts) else text[at:]
    return at + len(row.encode()[:column].decode("utf-8", "ignore"))
