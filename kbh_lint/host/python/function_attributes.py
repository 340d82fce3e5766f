"""Attributes of functions, of kernels, and of what wraps them: partials, bound methods, caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, JitFunction, Value
from kbh_lint.frontends.walk import walk
from kbh_lint.host.datamodel import names
from kbh_lint.host.values.frames import Frame, builtin
from kbh_lint.host.values.library_objects import Cell
from kbh_lint.host.values.named_objects import Code
from kbh_lint.host.values.objects import Blob, Bound, Compiled, Configured, ExtFunction, Graph, Memo, Method, Partial
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

CODE = "types.CodeType"
OF_CACHES = frozenset(("cache_clear", "cache_info", "cache_parameters"))


def _of_function(interp: Run, owner: Func, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of a function."""
    if name in owner.attrs:
        return owner.attrs[name]
    if name == "__annotations__":
        return owner.attrs.setdefault(name, _annotations(interp, owner))
    if name == "__get__":
        return builtin(lambda i, a, k, where: owner if a[0] is None else Bound(a[0], owner))
    if name == "__code__":
        return owner.attrs.setdefault(name, Code(CODE, {"func": owner}))
    if name == "__closure__":
        return _closure(owner)
    if name == "__defaults__":
        return tuple(owner.defaults[each] for each in _positional(owner) if each in owner.defaults) or None
    return {
        "__name__": owner.node.name,
        "__qualname__": owner.node.name,
        "__doc__": owner.node.doc,
        "__wrapped__": owner,
    }.get(name, Unknown())


def _positional(func: Func) -> list[str]:
    return [param.name for param in func.node.params if param.kind == "positional"]


def _closure(func: Func) -> tuple[Cell, ...] | None:
    """The cells of a function, in the order of their names."""
    cells = []
    for name in sorted({node.id for node in walk(func.node.body) if isinstance(node, ir.Name)}):
        env: Env | None = func.env
        while env is not None and name not in env.vars:
            env = env.parent
        if env is not None and env.parent is not None:
            cells.append(Cell(env, name))
    return tuple(cells) or None


def _annotations(interp: Run, func: Func) -> dict[str, Value]:
    """What the parameters of a function, and its result, are said to be."""
    frame = Frame(func.env, names.globals_of(interp, func), None, None)
    said = [(param.name, param.type) for param in func.node.params] + [("return", func.node.returns)]
    return {name: interp.eval(node, frame) for name, node in said if node is not None}


def _of_kernel(interp: Run, owner: JitFunction, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of a kernel."""
    if name in ("fn", "__wrapped__"):
        return owner if owner.configs else owner.func
    if name == "best_config" and owner.best is not None:
        return owner.best()
    if name == "arg_names":
        return [p.name for p in owner.func.node.params]
    return owner.func.attrs[name] if name in owner.func.attrs else Method(owner, name)


def _of_partial(interp: Run, owner: Partial, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of a `functools.partial`."""
    return {"func": owner.func, "args": owner.args, "keywords": owner.kwargs}.get(name, Unknown())


def _of_memo(interp: Run, owner: Memo, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of a function under a cache: what is not the cache's is the function's."""
    if name == "__wrapped__":
        return owner.func
    return Method(owner, name) if name in OF_CACHES else interp.get_attr(owner.func, name, loc)


def _of_compiled(interp: Run, owner: Compiled, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of what torch compiles is that of the function."""
    return interp.get_attr(owner.func, name, loc)


def _of_bound(interp: Run, owner: Bound, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of a method of an object; under a cache, that of the cache."""
    if isinstance(owner.func, Memo):
        return interp.get_attr(owner.func, name, loc)
    if name in ("__func__", "__self__"):
        return owner.func if name == "__func__" else owner.self
    return Method(owner, name)


def _method(interp: Run, owner: Value, name: str, loc: ir.Loc | None) -> Value:
    """What has methods alone."""
    return Method(owner, name)


READERS: dict[type, Callable[[Run, Any, str, ir.Loc | None], Value]] = {
    Func: _of_function,
    JitFunction: _of_kernel,
    Partial: _of_partial,
    Memo: _of_memo,
    Compiled: _of_compiled,
    Bound: _of_bound,
    **dict.fromkeys((Configured, Graph), _method),
}


def _put_in_function(interp: Run, owner: Func, name: str, value: Value, loc: ir.Loc | None) -> None:
    """`function.name = value`; its code and its defaults are what a call uses from then on."""
    code = value.attrs.get("func") if isinstance(value, Code) else None
    if name == "__code__" and isinstance(code, Func):
        owner.node, owner.attrs[name] = code.node, value
    elif name == "__defaults__" and (value is None or isinstance(value, tuple)):
        given, params = value or (), _positional(owner)
        for param in params:
            owner.defaults.pop(param, None)
        owner.defaults.update(zip(params[len(params) - len(given) :], given, strict=False))
    elif name == "__kwdefaults__" and isinstance(value, dict):
        owner.defaults.update(value)
    else:
        owner.attrs[name] = value


def _put_in_kernel(interp: Run, owner: JitFunction, name: str, value: Value, loc: ir.Loc | None) -> None:
    """`kernel.name = value` is an attribute of its function."""
    owner.func.attrs[name] = value


def _put_in_wrapped(interp: Run, owner: Memo | Compiled, name: str, value: Value, loc: ir.Loc | None) -> None:
    """An attribute of a function under a cache, or of a compiled one, is kept with the function."""
    interp.set_attr(owner.func, name, value, loc)


def put_nowhere(interp: Run, owner: Value, name: str, value: Value, loc: ir.Loc | None) -> None:
    """Evaluates `owner.name = value` of values whose attributes are not followed; a function of ctypes has types."""
    if isinstance(owner, (ExtFunction, Blob, Method)):  # it may be what checks the result
        interp.may_call(f"ctypes.{name}", [value], {}, loc)
    else:
        interp.lost(f"an attribute of a {type(owner).__name__} is not followed", loc)


WRITERS: dict[type, Callable[[Run, Any, str, Value, ir.Loc | None], None]] = {
    Func: _put_in_function,
    JitFunction: _put_in_kernel,
    **dict.fromkeys((Memo, Compiled), _put_in_wrapped),
}
