"""Functions of the submission that are handed to code which is not followed, and which it may call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.values import Func, Value
from kbh_lint.host.values import taint
from kbh_lint.host.values.frames import Raised
from kbh_lint.host.values.objects import HANDED, Bound, ClassV, Compiled, Instance, Memo, Partial, is_module
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_HANDED = 4  # functions of one call
_CALLABLE = (Func, Bound, Partial, Memo, Compiled)
_LOOKING = ("inspect", "typing", "types", "abc", "dis", "ast", "atexit", "dataclasses", "contextlib")
_CALLED = tuple(f"__{name}__" for name in "call getitem len iter next torch_dispatch torch_function".split())


def may_call(interp: Run, path: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> None:
    """Lets code that is not followed, the function `path`, call what it is given of the submission, in a run of its
    own: whether it does, and when, nobody knows. A function gets what stands behind it, where that fits."""
    given = [value for value in (*args, *kwargs.values()) if type(value) in HANDED]
    found = _handed(given) if given else []
    if not found or interp.handing or path.partition(".")[0] in _LOOKING or registry.of_path(path) is not None:
        return
    if not interp.decisions.choice(("called", interp.place(loc), path), taint.presumed(False)):
        return
    interp.handing = True
    try:
        for func, owner in found[:MAX_HANDED]:
            _call(interp, func, _behind(args, owner), loc)
    finally:
        interp.handing = False


def _call(interp: Run, func: Value, behind: Sequence[Value], loc: ir.Loc | None) -> None:
    for args in _fitting(func, behind):
        with suppress(Raised):  # whoever calls it may catch that
            interp.call(func, args, {}, loc)


def _handed(values: Iterable[Value]) -> list[tuple[Value, Value]]:
    """The functions among values, with the value that holds each: themselves, methods of objects whose classes derive
    from those of a library, which calls them, and `__call__` of any object."""
    found: list[tuple[Value, Value]] = []
    for value in values:
        if isinstance(value, _CALLABLE) or getattr(value, "__kbh_builtin__", False):
            found.append((value, value))
        elif isinstance(value, (Instance, ClassV)):
            found += [(func, value) for func in _methods(value)]
    return found


def _methods(value: Instance | ClassV) -> list[Value]:
    """What a library calls of an object, or of objects of a class, that is handed to it."""
    cls = value.cls if isinstance(value, Instance) else value
    derived = any(not path.startswith(("builtins.", "enum.", "typing.", "abc.")) for path in cls.external_bases())
    if is_module(cls) or not derived and not (isinstance(value, Instance) and cls.has("__call__")):
        return []
    owner = value if isinstance(value, Instance) else Instance(cls)
    named = [(name, func) for name, func in cls.env.vars.items() if isinstance(func, Func)]
    return [Bound(owner, func) for name, func in named if name in _CALLED or derived and not name.startswith("_")]


def _behind(args: Sequence[Value], owner: Value) -> list[Value]:
    """What stands behind a function among the arguments of a call."""
    at = next((i for i, value in enumerate(args) if value is owner), None)
    return [] if at is None else list(args[at + 1 :])


def _fitting(func: Value, behind: Sequence[Value]) -> list[list[Value]]:
    """Arguments for a function: what stands behind it, one by one, as a tuple, or the first of a list, where there are
    as many as it takes; else values that nobody knows."""
    least, most = _room(func)
    given = [list(behind), *(list(one) for one in behind if isinstance(one, (list, tuple)))]
    given += [list(one[:1]) for one in behind if isinstance(one, (list, tuple)) and len(one) > 1]
    found = [one for one in given if least <= len(one) <= most]
    return found or ([[Unknown((), "an argument")] * least] if isinstance(func, _CALLABLE) else [])


def _room(func: Value) -> tuple[int, int]:
    """How many arguments a function takes at least and at most; a built-in one, one that is handed on with it."""
    bound = 0
    while not isinstance(func, Func):
        if isinstance(func, Bound):
            bound, func = bound + 1, func.func
        elif isinstance(func, Partial):
            bound, func = bound + len(func.args) + len(func.kwargs), func.func
        elif isinstance(func, (Memo, Compiled)):
            func = func.func
        else:
            return 1, 8
    params = [param for param in func.node.params if param.kind == "positional"]
    least = sum(param.name not in func.defaults for param in params)
    more = any(param.kind == "star" for param in func.node.params)
    return max(least - bound, 0), 8 if more else len(params) - bound
