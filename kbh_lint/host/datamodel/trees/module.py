"""The module `ast` of the standard library: what its functions do to nodes, and the names that are bound for it.

The file `interpreted/ast.py` says how they are called; `texts` are trees as texts, `visitors` what goes through them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kbh_lint.base.values import Env, Value
from kbh_lint.host.datamodel import exceptions
from kbh_lint.host.datamodel.trees import texts, visitors
from kbh_lint.host.datamodel.trees.nodes import (
    FLAGS,
    REAL,
    Line,
    attributes_of,
    begin,
    children,
    fields_of,
    given_anyway,
    has_part,
    held,
    part,
    table,
)
from kbh_lint.host.datamodel.trees.texts import Given, Loc, Named, place
from kbh_lint.host.datamodel.trees.visitors import unseen
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.library_objects import Property
from kbh_lint.host.values.objects import Instance
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

NAMES = frozenset((*REAL, *FLAGS, *visitors.NAMES))  # what is bound beside what the library's text defines
code_of = texts.code_of


@builtin
def _construct(run: Run, args: Given, kwargs: Named, loc: Loc) -> None:
    """The constructor of a node: fields by position and by name, as its class has them."""
    node, given = args[0], args[1:]
    if not isinstance(node, Instance):
        return
    names = fields_of(node)
    if len(given) > len(names):
        most = f"{node.cls.name} constructor takes at most {len(names)} positional argument{'s' * (len(names) != 1)}"
        exceptions.raise_("TypeError", [most], place(run, loc))
    twice = next((name for name in names[: len(given)] if name in kwargs), None)
    if twice is not None:
        said = f"{node.cls.name} got multiple values for argument {twice!r}"
        exceptions.raise_("TypeError", [said], place(run, loc))
    node.attrs.update(zip(names, given, strict=False))
    for name, value in kwargs.items():
        run.set_attr(node, name, value, loc)
    nodes = table(run)
    for name, kind in given_anyway(node.cls.name).items() if nodes.real(node) is not None else ():
        if name not in node.attrs:
            node.attrs[name] = [] if kind == "list" else nodes.single.get(kind)


def _walk(run: Run, node: Value) -> Iterator[Value]:
    nodes = table(run)
    todo = deque([node])
    while todo:
        at = todo.popleft()
        run.burn()
        if isinstance(at, Instance):
            todo.extend(children(nodes, at))
        yield at


def _once(made: Iterator[Value]) -> Once:
    once = Once()
    once.source = made
    return once


@builtin
def _fields(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    node = args[0]
    return _once(held(node)) if isinstance(node, Instance) else unseen(run, node, loc)


@builtin
def _below(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    node = args[0]
    return _once(children(table(run), node)) if isinstance(node, Instance) else unseen(run, node, loc)


@builtin
def _walked(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    node = args[0]
    return _once(_walk(run, node)) if isinstance(node, Instance) else unseen(run, node, loc)


_PLACES = ("lineno", "end_lineno", "col_offset", "end_col_offset")  # in the order in which they are filled in


@builtin
def _fixed(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    """ast.fix_missing_locations."""
    todo: list[tuple[Value, dict[str, Value]]] = [
        (args[0], {"lineno": 1, "end_lineno": 1, "col_offset": 0, "end_col_offset": 0})
    ]
    while todo:
        node, above = todo.pop()
        if not isinstance(node, Instance):
            continue
        run.burn()
        own = dict(above)
        names = attributes_of(node)
        for name in (each for each in _PLACES if each in names):
            held = part(node, name, None)
            if held is None and (name.startswith("end_") or not has_part(node, name)):
                node.attrs[name] = own[name]
            else:
                own[name] = held
        todo.extend((child, own) for child in reversed(list(children(table(run), node))))
    return args[0]


@builtin
def _moved(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    """ast.increment_lineno."""
    root, count = args
    for node in _walk(run, root):
        if isinstance(node, Instance):
            names = ("lineno",) if node.cls.name == "TypeIgnore" else attributes_of(node)
            for name in ("lineno", "end_lineno"):
                line = part(node, name, 0) if name in names else None
                if line is None:
                    continue
                known = isinstance(line, int) and isinstance(count, int)
                moved = line.moved(count) if isinstance(line, Line) and isinstance(count, int) else None
                added = line + count if known else Unknown((), "ast.increment_lineno")  # type: ignore[operator]
                node.attrs[name] = added if moved is None else moved
    return root


@builtin
def _copied(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    """ast.copy_location."""
    new, old = args
    if isinstance(new, Instance) and isinstance(old, Instance):
        for name in (each for each in _PLACES if each in attributes_of(old) and each in attributes_of(new)):
            value = part(old, name, None)
            if value is not None or has_part(old, name) and name.startswith("end_"):
                new.attrs[name] = value
    return new


@builtin
def _value_of(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    """`constant.n` and `constant.s`."""
    return run.get_attr(args[0], "value", loc)


@builtin
def _value_set(run: Run, args: Given, kwargs: Named, loc: Loc) -> None:
    run.set_attr(args[0], "value", args[1], loc)


def fill(env: Env) -> None:
    """Binds what the library's text finds beside what it defines: the classes of nodes and of visitors."""
    nodes = begin(env, _construct)
    for name in ("n", "s"):
        if hasattr(REAL["Constant"], name):
            nodes.classes["Constant"].env.vars[name] = Property(_value_of, _value_set)
    env.vars.update(visitors.classes())


NATIVE: dict[str, Value] = {
    **texts.NATIVE, **visitors.NATIVE, "__fields__": _fields, "__below__": _below, "__walked__": _walked,
    "__fixed__": _fixed, "__moved__": _moved, "__copied__": _copied,
}  # fmt: skip
