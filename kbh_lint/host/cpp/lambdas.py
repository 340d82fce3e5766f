"""Lambdas of C++ host code: what they capture, by value, by reference and with a value of their own.

What a launch that is given one finds in it is `host.gpu.lambdas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env
from kbh_lint.host.cpp.std import copied

if TYPE_CHECKING:
    from kbh_lint.host.cpp.cpp import Cpp


def captured(run: Cpp, func: ir.FuncDef, env: Env) -> Env:
    """The scope of a lambda: copies of what it captures by value over the scope around it."""
    own: dict[str, Any] = {}
    for capture in func.captures:
        if capture.init is not None:
            place = run.place(capture.init, env) if capture.reference else None
            own[capture.name] = place if place is not None else copied(run.interp, run.eval(capture.init, env))
        elif not capture.reference and capture.name != "this":
            held = _local(env, capture.name)
            if held is not None:
                own[capture.name] = copied(run.interp, held.vars[capture.name])
    return Env(own, env) if own else env


def _local(env: Env, name: str) -> Env | None:
    """The scope below that of the file which has a name."""
    inner: Env | None = env
    while inner is not None and not inner.outermost:
        if name in inner.vars:
            return inner
        inner = inner.parent
    return None
