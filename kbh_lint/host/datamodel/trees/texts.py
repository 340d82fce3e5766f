"""Texts to trees and back, as the module `ast` does it: parse, unparse, dump, literal_eval, and code of trees."""

from __future__ import annotations

import ast
import builtins
import inspect
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import exceptions
from kbh_lint.host.datamodel.trees.nodes import NotKnown, Reader, Source, Writer, placed, span_in, table, unknown_of
from kbh_lint.host.values import unknowns
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.objects import Instance
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source.embedded import Here, Piece, Text, cut, doubts, pieces_of

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_SOURCE = 1_000_000
OWN = "library"  # the language of places in `interpreted/ast.py`

Loc = ir.Loc | None
Given = list[Value]
Named = dict[str, Value]


def place(run: Run, loc: Loc) -> Loc:
    """Returns the place in the submission of a call, which the library's text hands on."""
    if loc is not None and loc[0].language != OWN:
        return loc
    stack = run.stack()
    return stack[-1] if stack else None


def here(run: Run, loc: Loc) -> Here | None:
    """Returns the place of a call as one of characters."""
    found = place(run, loc)
    span = None if found is None else found[0].span(found)
    return None if span is None else Here(span.path, span.line, span.column)


def raise_(run: Run, error: Exception, loc: Loc) -> NoReturn:
    """Raises in the program what the real function raised, of the built-in class that it is of."""
    name = next(kind.__name__ for kind in type(error).__mro__ if hasattr(builtins, kind.__name__))
    exceptions.raise_(name, [str(getattr(error, "msg", "") or error)], place(run, loc))


@lru_cache(maxsize=16)
def _parsed(text: str, mode: str, comments: bool) -> ast.AST:
    """The tree of a text, which nobody changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, mode=mode, type_comments=comments)


def parse(run: Run, source: Value, mode: Value, comments: Value, loc: Loc) -> Value:
    """Models `ast.parse(source, mode=mode)`: the tree of a known text; a tree is given back."""
    if table(run).is_node(source):
        return source
    if isinstance(source, bytes):
        source = source.decode("utf-8", "replace")
    if not isinstance(source, str) or doubts(source) or not isinstance(mode, str) or len(source) > MAX_SOURCE:
        return unknowns.merged(run, source, mode, why="a tree of a text that is not known")
    run.burn(len(source) // 16)
    spot = here(run, loc)
    if not pieces_of(source) and spot is not None:
        source = Text(source, (Piece(0, len(source), spot, 0),))
    reader = Reader(table(run), Source(source if isinstance(source, Text) else Text(source)))
    try:
        made = reader.node(_parsed(str(source), str(mode), comments is True))
    except (SyntaxError, ValueError) as error:
        raise_(run, error, loc)
    except (RecursionError, MemoryError):
        return Unknown((), "a tree that nests too deep, or is too large")
    run.burn(reader.made // 2)
    return made


def _written(run: Run, node: Value) -> ast.AST:
    """The real tree of a node; raises NotKnown."""
    writer = Writer(table(run))
    real = writer.tree(node)
    run.burn(writer.made // 2)
    return real


def unparse(run: Run, node: Value, loc: Loc) -> Value:
    """Models `ast.unparse(node)`: a text that remembers where the statements in it stood."""
    try:
        real = _written(run, node)
        return placed(real, ast.unparse(real), here(run, loc))
    except NotKnown as error:
        return unknown_of(run, error, "a text of a tree that is not known")
    except (AttributeError, ValueError) as error:
        raise_(run, error, loc)
    except (RecursionError, MemoryError, TypeError, KeyError):
        return Unknown((), "a text of a tree that cannot be written")


_MODES = {"exec": "Module", "eval": "Expression", "single": "Interactive"}


def code_of(run: Run, node: Instance, mode: Value, loc: Loc) -> Value:
    """Models `compile(tree, name, mode)`: the text of the tree stands for the code. Raises TypeError in the program for
    a tree of another kind than `mode` asks for, or one that lacks something."""
    wanted = _MODES.get(mode) if isinstance(mode, str) else None
    try:
        real = _written(run, node)
    except NotKnown as error:
        return unknown_of(run, error, "code of a tree that is not known")
    except RecursionError:
        return Unknown((), "code of a tree that nests too deep")
    if wanted is not None and type(real).__name__ != wanted:
        raise_(run, TypeError(f"expected {wanted} node, got {type(real).__name__}"), loc)
    lacking = next(filter(None, map(_lacking, ast.walk(real))), "")
    if lacking:
        raise_(run, TypeError(lacking), loc)
    return unparse(run, node, loc)


def _lacking(real: ast.AST) -> str:
    """What Python says of a node without something that code needs."""
    for name in (*(each for each in ("lineno", "col_offset") if each in real._attributes), *real._fields):
        if not hasattr(real, name):
            bases = [base for base in ast.AST.__subclasses__() if isinstance(real, base)]
            kind = type(real) if name in real._fields else bases[0]
            return f'required field "{name}" missing from {kind.__name__}'
    return ""


@builtin
def _parse(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    source, mode, comments = args
    return parse(run, source, mode, comments, loc)


@builtin
def _unparse(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    return unparse(run, args[0], loc)


@builtin
def _dump(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    node, annotate, attributes, indent = args
    if isinstance(annotate, Unknown) or isinstance(attributes, Unknown) or isinstance(indent, Unknown):
        return unknowns.merged(run, *args, why="ast.dump")
    indent = indent if type(indent) is int else str(indent) if isinstance(indent, str) else None
    try:
        real = _written(run, node)
        return ast.dump(real, bool(annotate), bool(attributes), indent=indent)
    except NotKnown as error:
        return unknown_of(run, error, "ast.dump")
    except (RecursionError, MemoryError):
        return Unknown((), "ast.dump")


@builtin
def _literal(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    """ast.literal_eval, of a text or a node."""
    given = args[0]
    try:
        if isinstance(given, str):
            if doubts(given) or len(given) > MAX_SOURCE:
                raise NotKnown(given)
            run.burn(len(given) // 16)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = ast.literal_eval(str(given))
        else:
            made = ast.literal_eval(_written(run, given))
    except NotKnown as error:
        return unknown_of(run, error, "ast.literal_eval")
    except (RecursionError, MemoryError):
        return Unknown((), "ast.literal_eval")
    except (ValueError, SyntaxError, TypeError) as error:
        raise_(run, error, loc)
    spot = here(run, loc)
    return made if spot is None else _with_places(made, spot)


def _with_places(value: Value, here: Here) -> Value:
    if isinstance(value, str):
        return Text(value, (Piece(0, len(value), here, 0),))
    if isinstance(value, list):
        return [_with_places(item, here) for item in value]
    if isinstance(value, tuple):
        return tuple(_with_places(item, here) for item in value)
    if isinstance(value, dict):
        return {key: _with_places(item, here) for key, item in value.items()}
    return value


@builtin
def _cleaned(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    """inspect.cleandoc."""
    text = args[0]
    known = isinstance(text, str) and not doubts(text)
    return inspect.cleandoc(str(text)) if known else unknowns.merged(run, text, why="inspect.cleandoc")


@builtin
def _segment(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    """The characters of a text between two places, which are lines from 1 and columns in bytes."""
    text, line, column, end_line, end_column = args
    places = [place for place in (line, column, end_line, end_column) if isinstance(place, int)]
    if not isinstance(text, str) or doubts(text) or len(places) < 4:
        return unknowns.merged(run, *args, why="ast.get_source_segment")
    return cut(text, span_in(str(text), places[0], places[1]), span_in(str(text), places[2], places[3]))


NATIVE: dict[str, Value] = {
    "__parsed__": _parse, "__unparsed__": _unparse, "__dumped__": _dump, "__literal__": _literal,
    "__cleaned__": _cleaned, "__segment__": _segment,
}  # fmt: skip
