"""Replacing what does not belong to the submission, by whatever way it was reached.

`torch.allclose = f`, `setattr(torch, ...)`, `vars(torch)[...] = f`, `sys.modules[...] = m`, `mock.patch(...)`, and
writes to objects that were found by a walk over the stack, the loaded modules or all objects of the process.
"""

from __future__ import annotations

from typing import Any

from kbh_lint import ir
from kbh_lint.host import asking, containers, modules
from kbh_lint.host.frames import builtin
from kbh_lint.host.objects import LibObject
from kbh_lint.host.tensors import Unknown
from kbh_lint.values import Sym

_REACHED = (asking.STACK, asking.LOADED, asking.OBJECTS)


def attribute_set(interp: Any, owner: Unknown, name: str, loc: ir.Loc | None) -> None:
    """`owner.name = value` on an object that the submission went looking for."""
    found = _found_by(owner)
    if found:
        interp.note("monkeypatch", {"symbol": f"{name} of an object found by {found}", "target": "grader"}, loc)


def item_set(interp: Any, owner: Any, key: Any, value: Any, loc: ir.Loc | None) -> None:
    """`owner[key] = value`: a frame's variables, the loaded modules, a module's dictionary."""
    text = containers.show(key) if isinstance(key, (str, int)) else "?"
    if isinstance(owner, Sym) and owner.path.endswith(".__dict__"):
        modules.patched(interp, owner.path.removesuffix(".__dict__"), text, value, loc)
        return
    found = _found_by(owner)
    if found == "sys.modules":
        modules.patched(interp, "sys.modules", text, value, loc)
    elif found:
        interp.note("monkeypatch", {"symbol": f"{text} in a dictionary found by {found}", "target": "grader"}, loc)


def _found_by(owner: Any) -> str:
    """What an object was found by: sys._getframe, gc.get_objects ...; nothing when it was not."""
    if not isinstance(owner, Unknown) or not owner.why.startswith(asking.MARK):
        return ""
    symbol = owner.why.removeprefix(asking.MARK)
    what = asking.CALLED.get(symbol) or asking.READ.get(symbol)
    return symbol if what in _REACHED else ""


def mock(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """unittest.mock.patch and patch.object: in force once they are entered or started."""
    replacement = kwargs.get("new", args[-1] if len(args) > 1 else Unknown((), "a mock"))
    if path.endswith("patch.object") and len(args) > 1 and isinstance(args[0], Sym):
        owner, name = args[0].path, containers.show(args[1])
    elif args and isinstance(args[0], str):
        owner, _, name = str(args[0]).rpartition(".")
    else:
        return LibObject(path)

    def start(run: Any, given: list[Any], named: dict[str, Any], where: ir.Loc | None) -> Any:
        modules.patched(run, owner, name, replacement, loc)
        return replacement

    return LibObject("unittest.mock.patcher", {"start": builtin(start), "__enter__": builtin(start)})
