"""Replacing what does not belong to the submission, by whatever way it was reached.

`torch.allclose = f`, `setattr(torch, ...)`, `vars(torch)[...] = f`, `sys.modules[...] = m`, `mock.patch(...)`, and
writes to objects that were found by a walk over the stack, the loaded modules or all objects of the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import exceptions, loaded, modules, shown
from kbh_lint.host.values import taint
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.named_objects import Patcher
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

READS = ("get", "pop", "setdefault")
WRITES = ("update", "__setitem__", "__ior__")  # methods of dictionaries
_OF_OBJECTS = ("__setattr__", "__delattr__")
_REACHED = (taint.STACK, taint.LOADED, taint.OBJECTS)


def attribute_set(interp: Run, owner: Unknown, name: str, loc: ir.Loc | None) -> None:
    """Notes `owner.name = value` on an object that the submission found by a walk over frames, modules or the heap."""
    found = _found_by(owner)
    if found:
        interp.note("monkeypatch", {"symbol": f"{name} of an object found by {found}", "target": "grader"}, loc)


def item_set(interp: Run, owner: Value, key: Value, value: Value, loc: ir.Loc | None) -> None:
    """Notes `owner[key] = value` where `owner` holds a frame's variables, the loaded modules or a module's
    dictionary."""
    text = shown.show(key) if isinstance(key, (str, int)) else "?"
    if isinstance(owner, Sym) and owner.path.endswith(".__dict__"):
        modules.patched(interp, owner.path.removesuffix(".__dict__"), text, value, loc)
        return
    if isinstance(owner, Sym) and owner.path.startswith("torch.") and owner.path.rpartition(".")[2].startswith("_"):
        modules.patched(interp, owner.path, text, value, loc)  # a private table, of hooks for instance
        return
    found = _found_by(owner)
    if found == "sys.modules" and loaded.put(interp, key, value):
        return
    if found == "sys.modules":
        modules.patched(interp, "sys.modules", text, value, loc)
    elif found:
        interp.note("monkeypatch", {"symbol": f"{text} in a dictionary found by {found}", "target": "grader"}, loc)


def may_assign(path: str) -> bool:
    """Whether a call of a function may assign outside the submission, as `called` notes."""
    owner, _, method = path.rpartition(".")
    return method in _OF_OBJECTS or method in WRITES and owner.endswith(".__dict__")


def called(site: Site) -> None:
    """Notes assignments outside the submission by method calls: `time.__setattr__(...)`,
    `type.__setattr__(torch.cuda.Event, ...)`, `vars(torch).update(...)`."""
    interp, args, kwargs, loc = site.run, site.args, site.kwargs, site.loc
    owner, _, method = site.path.rpartition(".")
    if method in _OF_OBJECTS and args:
        if isinstance(args[0], Sym) and len(args) > 1:  # called through a class
            owner, args = args[0].path, args[1:]
        if isinstance(args[0], str):
            modules.patched(interp, owner, args[0], args[1] if len(args) > 1 else Unknown((), "nothing"), loc)
    elif method in WRITES and owner.endswith(".__dict__"):
        for key, value in _written(method, args, kwargs):
            modules.patched(interp, owner.removesuffix(".__dict__"), shown.show(key), value, loc)


def method_of(owner: Unknown, name: str) -> Value:
    """Returns a method that writes to a dictionary found by a walk, as `sys.modules.update`, or asks `sys.modules` for
    one name; None for others."""
    if name in READS and loaded.is_table(owner):
        return _asking(owner, name)
    if name not in WRITES or not _found_by(owner):
        return None

    def write(interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
        for key, value in _written(name, args, kwargs):
            item_set(interp, owner, key, value, loc)
        return owner.like()

    return builtin(write)


def _asking(owner: Unknown, name: str) -> Value:
    """`sys.modules.get(name, default)` and its like."""

    def ask(interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
        found = loaded.find(interp, args[0]) if args else NotImplemented
        if name == "setdefault" and found is not NotImplemented and len(args) > 1:
            if found is loaded.MISSING:
                item_set(interp, owner, args[0], args[1], loc)
            return args[1] if found is loaded.MISSING else found
        if found is NotImplemented:
            return owner.like()
        if name == "pop":
            interp.process.loaded.pop(str(args[0]), None)
        if found is not loaded.MISSING:
            return found
        if name == "pop" and len(args) < 2:
            exceptions.raise_("KeyError", [args[0]], loc)
        return args[1] if len(args) > 1 else None

    return builtin(ask)


def _written(method: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> list[tuple[Any, Any]]:
    """The keys and values that a call of a method of a dictionary writes."""
    if method == "__setitem__":
        return [(args[0], args[1])] if len(args) > 1 else []
    given = dict(args[0]) if args and isinstance(args[0], dict) else {}
    return [*given.items(), *kwargs.items()]


def _found_by(owner: Value) -> str:
    """What an object was found by: sys._getframe, gc.get_objects ...; nothing when it was not."""
    symbol = taint.symbol_of(owner)
    what = taint.CALLED.get(symbol) or taint.READ.get(symbol)
    return symbol if what in _REACHED else ""


def patcher(owner: str, name: str, replacement: Value, loc: ir.Loc | None) -> Patcher:
    """Returns the object that unittest.mock.patch makes: it replaces `owner.name` once it is entered or started."""

    def start(run: Run, given: list[Any], named: dict[str, Any], where: ir.Loc | None) -> Any:
        modules.patched(run, owner, name, replacement, loc)
        return replacement

    return Patcher("unittest.mock.patcher", {"start": builtin(start), "__enter__": builtin(start)})
