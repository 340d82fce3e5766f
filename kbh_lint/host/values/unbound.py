"""Names that a submission uses and that nothing in it can bind."""

from __future__ import annotations

import builtins

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.frontends.walk import walk
from kbh_lint.host.values.session import Session

# What binds names that are nowhere written as names.
_DYNAMIC = frozenset(
    "exec eval compile globals locals vars setattr __dict__ __builtins__ builtins __import__ __globals__ modules "
    "import_module update_globals".split()
)
_ANY = "<any>"
_OF_PYTHON = frozenset((*dir(builtins), *dir(type(builtins))))  # what an attribute of that module may be called


def nowhere_bound(session: Session, name: str) -> bool:
    """Whether neither a statement of the submission, in any scope or branch, nor Python binds a name. False where names
    may come from elsewhere: through a star import, a file beside it, or code made at run time."""
    if name in _OF_PYTHON:
        return False
    if session.bound is None:
        session.bound = _bound(session.module.body, bool(session.sidecars))
    return name not in session.bound and _ANY not in session.bound


def given_names(session: Session) -> frozenset[str]:
    """Returns the names of attributes that the submission sets on anything but `self`."""
    if session.given is None:
        found: set[str] = set()
        for node in walk(session.module.body):
            targets = node.targets if isinstance(node, ir.Assign) else ()
            found |= {one.name for one in targets if isinstance(one, ir.Attr) and not _is_own(one.value)}
            if isinstance(node, ir.Call) and isinstance(node.func, ir.Name) and node.func.id == "setattr":
                found |= {str(a.value) for a in node.args[1:2] if isinstance(a, ir.Const) and isinstance(a.value, str)}
        session.given = frozenset(found)
    return session.given


def _is_own(node: ir.Expr) -> bool:
    return isinstance(node, ir.Name) and node.id == "self"


def _bound(body: tuple[ir.Stmt, ...], beside: bool) -> frozenset[str]:
    """All names that are bound anywhere; `_ANY` among them where others may be."""
    found: set[str] = {_ANY} if beside else set()
    for node in walk(body):
        if isinstance(node, ir.Name):
            if node.id in _DYNAMIC:
                found.add(_ANY)
            continue
        star = isinstance(node, ir.Import) and node.name == "*"
        if star or isinstance(node, ir.Opaque) or isinstance(node, ir.Attr) and node.name in _DYNAMIC:
            found.add(_ANY)
        found |= {one.id for one in walk(_targets(node)) if isinstance(one, ir.Name)}
        for field in () if isinstance(node, ir.Const) else type(node).__dataclass_fields__:
            if field not in ("loc", "unit"):
                found |= _words(getattr(node, field))
    return frozenset(found)


def _targets(node: object) -> tuple[Value, ...]:
    """What a statement or an expression binds."""
    if isinstance(node, ir.With):
        return tuple(target for _, target in node.items if target is not None)
    if isinstance(node, ir.Comp):
        return tuple(target for target, _, _ in node.clauses)
    if isinstance(node, ir.Assign):
        return node.targets
    target = getattr(node, "target", None)
    return () if target is None or isinstance(target, (str, tuple)) else (target,)


def _words(value: object) -> set[str]:
    """The texts in a field: names of functions, parameters, classes, modules and handlers."""
    if isinstance(value, str):
        return set(value.split("."))
    if isinstance(value, (tuple, list)):
        return {word for item in value for word in _words(item)}
    return set()
