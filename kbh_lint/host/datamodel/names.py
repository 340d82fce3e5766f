"""What a name means where it is read, and what assignment binds: names, attributes, items, and several at once.

Scopes are those of Python: the function's own, those around it, the module's, then built-ins.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Sym, Value
from kbh_lint.host.datamodel import iteration, subscripts
from kbh_lint.host.values import bounds
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.run_state import HoleKind
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.host.values.unbound import nowhere_bound

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def load(interp: Run, name: str, frame: Frame, loc: ir.Loc | None) -> Any:
    """Returns the value of a name, as read in a frame."""
    env: Env | None = frame.outer.get(name, frame.env)
    while env is not None:
        if name in env.vars:
            return env.vars[name]
        env = env.parent
    if name in frame.globals.vars:
        return frame.globals.vars[name]
    if name in interp.builtins:
        return interp.builtins[name]
    return _missing(interp, name, loc)


def globals_of(interp: Run, func: Func) -> Env:
    """Returns the scope of the module in which a function is defined."""
    env: Env | None = func.env
    while env is not None and env.parent is not None:
        env = env.parent
    return env or interp.scopes.main


def frame_of(interp: Run, env: Env) -> Frame:
    """Returns a frame in which code runs in the scope `env`."""
    return Frame(env, interp.scopes.main, None, None)


def _missing(interp: Run, name: str, loc: ir.Loc | None) -> Value:
    if name.startswith("__") and name != "__import__":
        return {"__file__": "/submission/solution.py", "__name__": "solution", "__doc__": None}.get(name, Unknown())
    if hasattr(builtins, name):
        return Sym(f"builtins.{name}")
    if loc is not None and loc[0] is interp.session.module.unit and nowhere_bound(interp.session, name):
        interp.fails("builtins.NameError", loc)
    interp.may_fail("NameError", loc)
    interp.miss(f"name {name} is not defined", loc, HoleKind.UNDEFINED)
    return Unknown((), f"undefined {name}")


def store(name: str, value: Value, frame: Frame) -> None:
    """Binds a name in the scope that `global` and `nonlocal` statements say, or else the frame's own."""
    frame.outer.get(name, frame.env).vars[name] = value


def assign(interp: Run, target: ir.Expr, value: Value, frame: Frame) -> None:
    """Binds the target of an assignment, a loop, a `with` or an import to a value."""
    if isinstance(target, ir.Name):
        frame.outer.get(target.id, frame.env).vars[target.id] = value
    elif isinstance(target, ir.Attr):
        interp.set_attr(interp.eval(target.value, frame), target.name, value, target.loc)
    elif isinstance(target, ir.Index):
        owner = interp.eval(target.value, frame)
        subscripts.set_item(interp, owner, interp.eval(target.index, frame), value, target.loc)
    elif isinstance(target, ir.Seq):
        _unpack(interp, target.items, value, frame, target.loc)
    elif isinstance(target, ir.Star):
        assign(interp, target.value, value, frame)


def _unpack(interp: Run, targets: tuple[ir.Expr, ...], value: Value, frame: Frame, loc: ir.Loc) -> None:
    items = iteration.iterate(interp, value, loc, len(targets))
    items = list(bounds.visited(interp, items)) if not isinstance(items, list) else items
    if isinstance(value, (list, tuple)) and (
        len(items) < len(targets) - 1 or len(items) != len(targets) and not any(isinstance(t, ir.Star) for t in targets)
    ):
        interp.may_fail("ValueError", loc)
    star = next((i for i, t in enumerate(targets) if isinstance(t, ir.Star)), None)
    if star is not None:
        after = len(targets) - star - 1
        middle = items[star : len(items) - after]
        items = [*items[:star], middle, *items[len(items) - after :]]
    for i, target in enumerate(targets):
        assign(interp, target, items[i] if i < len(items) else Unknown((), "not enough values"), frame)


def make_function(interp: Run, node: ir.FuncDef, frame: Frame) -> Func:
    """Returns the function that a definition makes, with its scope and its defaults, which are evaluated now."""
    env = frame.env
    if "__class_fields__" in env.vars and env.parent is not None:
        func = Func(node, env.parent)  # a class body is no scope of its methods
    else:
        func = Func(node, env)
    for param in node.params:
        if param.default is not None:
            func.defaults[param.name] = interp.eval(param.default, frame)
    return func
