"""Visitors of syntax trees: `NodeVisitor` and `NodeTransformer` of the module `ast`.

They go down here, without a call of the program's own for each node, so that a tree may be as deep as Python lets it
be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbh_lint.base.values import Env, Value
from kbh_lint.host.datamodel import exceptions, iteration
from kbh_lint.host.datamodel.trees.nodes import held, open_fields, part, table
from kbh_lint.host.datamodel.trees.texts import Given, Loc, Named, place
from kbh_lint.host.values import unknowns
from kbh_lint.host.values.frames import builtin, method
from kbh_lint.host.values.objects import ClassV, Instance
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_OLD: dict[str, tuple[type, ...]] = {
    "Num": (int, float, complex), "Str": (str,), "Bytes": (bytes,), "NameConstant": (type(None), bool),
    "Ellipsis": (type(...),),
}  # fmt: skip


def _old_name(value: Value) -> str:
    """The name that the class of a constant once had."""
    kinds = (name for name, types in _OLD.items() if isinstance(value, types))
    return "NameConstant" if isinstance(value, bool) else next(kinds, "")


@builtin
def _is_old(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    """Whether a node is a constant of a class as there was one for each kind."""
    name, node = args
    if not isinstance(node, Instance) or table(run).classes["Constant"] not in node.cls.mro():
        return False
    value = part(node, "value", None)
    return unknowns.merged(run, value, why="a type test") if isinstance(value, Unknown) else _old_name(value) == name


def unseen(run: Run, node: Value, loc: Loc) -> Value:
    """What comes of going through something that is no node: where it is not known, nobody knows what is done to it."""
    if isinstance(node, Unknown):
        run.miss("a part of a syntax tree that is not known was gone through", place(run, loc))
        return unknowns.merged(run, node, why="a tree that is not known")
    name = "NoneType" if node is None else type(node).__name__
    exceptions.raise_("AttributeError", [f"{name!r} object has no attribute '_fields'"], place(run, loc))


def _visited(run: Run, owner: Instance, node: Value, loc: Loc) -> Value:
    """`visitor.visit(node)` of a class that does not define it anew."""
    run.burn(2)
    if not isinstance(node, Instance):
        return unseen(run, node, loc)
    found = _handler(run, owner, f"visit_{node.cls.name}", loc)
    if found is not None:
        return run.call(found, [node], {}, loc)
    if node.cls.name == "Constant" and owner.cls.get("visit_Constant") is _constant:
        return _of_constant(run, owner, node, loc)
    return _gone_on(run, owner, node, loc)


def _handler(run: Run, owner: Instance, name: str, loc: Loc) -> Value:
    """The method for nodes of one class; None where a visitor has none of its own."""
    if name in owner.attrs or owner.cls.has(name):
        return None if owner.cls.get(name) is _constant and name not in owner.attrs else run.get_attr(owner, name, loc)
    if owner.cls.has("__getattr__") or owner.cls.has("__getattribute__"):
        return run.call(run.builtins["getattr"], [owner, name, None], {}, loc)
    return None


def _of_constant(run: Run, owner: Instance, node: Instance, loc: Loc) -> Value:
    """A constant: methods by the names of the classes that there were, else nothing of its own."""
    value = part(node, "value", None)
    if isinstance(value, Unknown):
        if any(_handler(run, owner, f"visit_{name}", loc) is not None for name in _OLD):
            return unseen(run, value, loc)
        return _gone_on(run, owner, node, loc)
    name = _old_name(value)
    found = _handler(run, owner, f"visit_{name}", loc) if name else None
    return _gone_on(run, owner, node, loc) if found is None else run.call(found, [node], {}, loc)


def _gone_on(run: Run, owner: Instance, node: Instance, loc: Loc) -> Value:
    """`visitor.generic_visit(node)`."""
    found = _OWN.get(id(owner.cls.get("generic_visit")))
    if found is None or "generic_visit" in owner.attrs:
        return run.call(run.get_attr(owner, "generic_visit", loc), [node], {}, loc)
    return found(run, owner, node, loc)


def _again(run: Run, owner: Instance, node: Value, loc: Loc) -> Value:
    """`visitor.visit(node)`."""
    if owner.cls.get("visit") is _visit and "visit" not in owner.attrs:
        return _visited(run, owner, node, loc)
    return run.call(run.get_attr(owner, "visit", loc), [node], {}, loc)


def _read(run: Run, owner: Instance, node: Instance, loc: Loc) -> Value:
    """`NodeVisitor.generic_visit(node)`: all that is below it is visited."""
    nodes, open_ = table(run), open_fields(node)
    for name, value in held(node):
        for item in value if type(value) is list else (value,):
            run.burn()
            if nodes.is_node(item):
                _again(run, owner, item, loc)
            elif isinstance(item, Unknown) and name in open_:
                unseen(run, item, loc)
    return None


def _changed(run: Run, owner: Instance, node: Instance, loc: Loc) -> Value:
    """`NodeTransformer.generic_visit(node)`: what its visits give takes the place of what is below it."""
    nodes, open_ = table(run), open_fields(node)
    for name, value in held(node):
        if type(value) is list:
            value[:] = _replaced(run, owner, value, name in open_, loc)
        elif nodes.is_node(value):
            made = _again(run, owner, value, loc)
            if made is None:
                node.attrs.pop(name, None)
            else:
                run.set_attr(node, name, made, loc)
        elif isinstance(value, Unknown) and name in open_:
            unseen(run, value, loc)
    return node


def _replaced(run: Run, owner: Instance, items: list[Value], open_: bool, loc: Loc) -> list[Value]:
    """What stands in a list of nodes after each was visited."""
    nodes = table(run)
    out: list[Value] = []
    for item in items:
        run.burn()
        if nodes.is_node(item):
            made = _again(run, owner, item, loc)
            if nodes.is_node(made) or isinstance(made, Unknown):
                out.append(made)
            elif made is not None:
                out.extend(iteration.materialise(run, made, loc))
        else:
            if isinstance(item, Unknown) and open_:
                unseen(run, item, loc)
            out.append(item)
    return out


Going = Callable[["Run", Instance, Value, Loc], Value]


def _of_visitor(run: Run, args: Given, kwargs: Named, loc: Loc, going: Going) -> Value:
    """A method of a visitor, with the node by position or by name."""
    owner, *rest = args
    node = rest[0] if rest else kwargs.get("node")
    if not isinstance(owner, Instance):
        run.miss("a visitor of syntax trees that is not known", place(run, loc))
        return unknowns.merged(run, owner, node, why="a visitor that is not known")
    return going(run, owner, node, loc)


def _on_nodes(going: Callable[[Run, Instance, Instance, Loc], Value]) -> Going:
    return lambda run, owner, node, loc: (
        going(run, owner, node, loc) if isinstance(node, Instance) else unseen(run, node, loc)
    )


@method
def _visit(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    return _of_visitor(run, args, kwargs, place(run, loc), _visited)


@method
def _constant(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    return _of_visitor(run, args, kwargs, place(run, loc), _on_nodes(_of_constant))


@method
def _generic(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    return _of_visitor(run, args, kwargs, place(run, loc), _on_nodes(_read))


@method
def _transform(run: Run, args: Given, kwargs: Named, loc: Loc) -> Value:
    return _of_visitor(run, args, kwargs, place(run, loc), _on_nodes(_changed))


_OWN: dict[int, Callable[[Run, Instance, Instance, Loc], Value]] = {id(_generic): _read, id(_transform): _changed}


NAMES = ("NodeVisitor", "NodeTransformer")


def classes() -> dict[str, Value]:
    """Returns the classes of visitors, for one run."""
    plain = {"visit": _visit, "generic_visit": _generic, "visit_Constant": _constant, "__module__": "ast"}
    reads = ClassV("NodeVisitor", (), Env(dict(plain)), None)
    changes = ClassV("NodeTransformer", (reads,), Env({"generic_visit": _transform, "__module__": "ast"}), None)
    reads.derived.append(changes)
    return dict(zip(NAMES, (reads, changes), strict=True))


NATIVE: dict[str, Value] = {"__is_old__": _is_old}
