"""Calls of functions of the submission: arguments to parameters, a frame, and results that a cache holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Value
from kbh_lint.host.datamodel import generators, names
from kbh_lint.host.python import contextmanagers, coroutines
from kbh_lint.host.values import keys
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import MAX_FRAMES, Frame, Returned
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.objects import Bound, ClassV, Memo
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def call_function(interp: Run, func: Func, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Calls a function in a frame of its own; functions of C++ or of a kernel language are run by their
    interpreters."""
    interp.entered += 1
    if func.node.loc[0].language == "cuda":
        return interp.cpp.call(func, args, loc)
    row = registry.of_function(func.language) if func.language else None
    if row is not None:
        made = row.library.call_function(Site(interp, func.node.name, loc, args, kwargs), func)
        if made is not NotImplemented:
            return made
    if len(interp.frames) > MAX_FRAMES:
        interp.may_fail("RecursionError", loc)
        interp.lost("calls nest too deep", loc)
        return Unknown((), "calls nest too deep")
    interp.burn(4)
    if func.node.generator and contextmanagers.MARK in func.attrs and interp.around is None:
        return contextmanagers.manager(func, args, kwargs)
    env = Env({}, func.env)
    bind(func, args, kwargs, env)
    frame = Frame(env, names.globals_of(interp, func), loc, func)
    if func.node.coroutine and not func.node.generator:
        return coroutines.make(interp, func.node.body or (), frame)
    if func.node.generator:
        made = generators.make(interp, func.node, frame) if interp.around is None else None
        if made is not None:
            return made
        env.vars["__yielded__"], interp.around = Once() if interp.around is None else interp.around, None
    interp.frames.append(frame)
    try:
        signal = interp.block(func.node.body or (), frame)
    finally:
        interp.frames.pop()
    if func.node.generator:
        return env.vars["__yielded__"]
    return signal.value if isinstance(signal, Returned) else None


def bind(func: Func, args: list[Any], kwargs: dict[str, Any], env: Env) -> None:
    """Binds the arguments of a call to parameters, as Python does; a missing argument is unknown."""
    rest = dict(kwargs)
    i = 0
    for param in func.node.params:
        if param.kind == "positional":
            if i < len(args):
                env.vars[param.name] = args[i]
                i += 1
            elif param.name in rest:
                env.vars[param.name] = rest.pop(param.name)
            elif param.name in func.defaults:
                env.vars[param.name] = func.defaults[param.name]
            else:
                env.vars[param.name] = Unknown((), f"no argument for {param.name}")
        elif param.kind == "star":
            env.vars[param.name] = tuple(args[i:])
            i = len(args)
        elif param.kind == "keyword":
            default = func.defaults.get(param.name, Unknown((), f"no argument for {param.name}"))
            env.vars[param.name] = rest.pop(param.name, default)
        else:
            env.vars[param.name] = rest
            rest = {}


def misfit(func: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether Python refuses the arguments of a call of a function or a class, because one is missing or one too
    many."""
    count, target = len(args), func
    if isinstance(target, Bound):
        count, target = count + 1, target.func
    if isinstance(target, ClassV):
        others = any(not isinstance(base, ClassV) for cls in target.mro() for base in cls.bases)
        if others or target.dataclass or target.get("__new__") is not None:
            return False
        count, target = count + 1, target.get("__init__")
        if target is None:
            return count > 1 or bool(kwargs)
    if not isinstance(target, Func) or target.language or target.node.loc[0].language != "python":
        return False
    params = target.node.params
    if not kwargs and count == len(params) and all(param.kind == "positional" for param in params):
        return False
    positional = [param.name for param in params if param.kind == "positional"]
    named = {param.name for param in params if param.kind in ("positional", "keyword")}
    kinds = {param.kind for param in params}
    given = {*positional[:count], *kwargs}
    return (
        count > len(positional)
        and "star" not in kinds
        or bool(kwargs.keys() - named)
        and kinds <= {"positional", "keyword", "star"}
        or any(name not in given and name not in target.defaults for name in named)
    )


def refuse(interp: Run, func: Value, loc: ir.Loc | None) -> None:
    """Records a call whose arguments do not fit (`misfit`). Where a decorator may have changed what is called, and of
    what classes make, it need not fail."""
    target = func.func if isinstance(func, Bound) else func
    if isinstance(target, Func) and not target.node.decorators:
        interp.fails("builtins.TypeError", loc, f"{target.node.name} is called with other arguments than it takes")
    else:
        interp.may_fail("TypeError", loc)


def call_memo(interp: Run, func: Memo, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Value:
    """Calls a function decorated by functools.cache: returns the kept result of equal arguments, or computes and keeps
    it."""
    try:
        key = (tuple(args), tuple(sorted(kwargs.items())))
        hash(keys.check_key(key))
    except (TypeError, ValueError):
        return interp.call(func.func, args, kwargs, loc)
    found = keys.find_key(interp, func.results, key)
    if found is keys.MISSING:
        found = func.results[key] = interp.call(func.func, args, kwargs, loc)
    elif func.longest is not None and key in func.results:
        func.results[key] = func.results.pop(key)  # used last, lost last
    while func.longest is not None and len(func.results) > max(func.longest, 0):
        del func.results[next(iter(func.results))]
    return found
