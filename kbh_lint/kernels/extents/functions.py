"""Functions of a submission that a kernel calls: which one a call means, and what its names stand for there.

In C++ it is one that no other of its name could be meant for. What its template parameters are is known where the call
writes numbers for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kbh_lint.base import ir, values
from kbh_lint.cpp.overloads import arity
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.kernels.core.parameters import matched
from kbh_lint.kernels.extents.values import Env, Frame

if TYPE_CHECKING:
    from kbh_lint.kernels.extents.follow import Follow
    from kbh_lint.kernels.extents.types import Types


class Entered(NamedTuple):
    """A function with what it is given, and its template parameters that are types."""

    frame: Frame
    kinds: dict[str, object]


@contextmanager
def within(types: Types | None, found: Entered) -> Iterator[None]:
    """Names of types mean what they do in a function, as long as it runs."""
    if types is None:
        yield
        return
    around, types.here = types.here, values.Env(found.kinds, found.frame.kernel.env)
    try:
        yield
    finally:
        types.here = around


def called(run: Follow, node: ir.Call) -> values.Func | None:
    """The function of the submission that a call runs; None where it is not known."""
    return _in_cpp(run, node) if run.cpp else _in_python(run, node)


def entered(run: Follow, node: ir.Call, func: values.Func) -> Entered | None:
    """A function that a call runs, with what it is given there; None where it is not followed."""
    if not can_be_followed(func.node.body or ()):
        return None
    keywords = {name: value for name, value in node.keywords if name is not None}
    if any(isinstance(arg, ir.Star) for arg in node.args) or len(keywords) < len(node.keywords):
        return None
    given, collected, missing = matched(func.node.params, node.args, keywords)
    if collected:
        return None
    inner: Env = {name: run.value(value) for name, value in given.items()}
    for param in func.node.params if run.cpp else ():
        if param.name in inner:
            inner[param.name] = run.statements.held(inner[param.name], param.type)
    for param in missing:
        inner[param.name] = run.argument(func.defaults.get(param.name, values.UNKNOWN))
    kinds: dict[str, object] = {}
    written = node.func.args if isinstance(node.func, ir.TypeRef) else ()
    for at, place in enumerate(func.node.template):
        told = written[at] if at < len(written) else None
        if place.kind == "value":
            inner[place.name] = run.value(told) if told is not None else run.unknown()
        else:
            kinds[place.name] = values.UNKNOWN
    return Entered(Frame(func, inner), kinds)


def _in_python(run: Follow, node: ir.Call) -> values.Func | None:
    try:
        found = run.frame.kernel.env.lookup(node.func.id) if isinstance(node.func, ir.Name) else None
    except KeyError:
        return None
    func = found.func if isinstance(found, values.JitFunction) else None
    return None if func is None or func.node.body is None else func


def _in_cpp(run: Follow, node: ir.Call) -> values.Func | None:
    func = node.func
    if isinstance(func, ir.TypeRef):
        name = "" if func.member or func.pointers or func.dims else func.name
    else:
        name = func.id if isinstance(func, ir.Name) else ""
    found = run.frame.kernel.env.get(name) if name and name not in run.env else None
    funcs = found.funcs if isinstance(found, values.Overloads) else [found] if isinstance(found, values.Func) else []
    if any(one.node.explicit or one.node.template and any(t.pack for t in one.node.template) for one in funcs):
        return None
    fitting = [one for one in funcs if arity(one.node, len(node.args))]
    known = len(fitting) == 1 and fitting[0].node.kind == "device" and fitting[0].node.body is not None
    return fitting[0] if known else None


@by_node
def can_be_followed(body: tuple[object, ...]) -> bool:
    """Whether a kernel has nothing in it that addresses are not followed through."""
    return not any(_unfollowed(node) for node in walk(body))


@by_node
def computes(body: tuple[object, ...]) -> bool:
    """Whether a function is a few assignments and what it returns."""
    *steps, last = body or (None,)
    plain = all(
        isinstance(step, (ir.Assign, ir.Decl)) or isinstance(step, ir.ExprS) and isinstance(step.value, ir.Const)
        for step in steps
    )
    return plain and isinstance(last, ir.Return) and last.value is not None


def _unfollowed(node: object) -> bool:
    """Whether a kernel with such a node in it is left alone."""
    jumps = isinstance(node, ir.Jump) and node.kind == "goto"
    return jumps or isinstance(node, (ir.Lambda, ir.FuncDef)) or isinstance(node, ir.Decl) and _is_reference(node)


def _is_reference(node: ir.Decl) -> bool:
    return node.type is not None and node.type.reference
