"""Decorators: what one makes of a function or a class, told by its path."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.values import Func, Value
from kbh_lint.host.datamodel import prelude
from kbh_lint.host.libs import custom_ops
from kbh_lint.host.python import contextmanagers
from kbh_lint.host.values.library_objects import ClassMethod, Property, StaticMethod, UnreadKernel
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.objects import (
    Bound,
    ClassV,
    Compiled,
    Instance,
    LibObject,
    Memo,
    Method,
    Partial,
)
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

# Packages whose decorators are told apart by name, or change nothing of what a function computes.
KNOWN = frozenset("torch tvm cuda numpy typing_extensions einops".split())


def decorate(interp: Run, decorator: Value, target: Value, loc: ir.Loc | None) -> Any:
    """Applies the decorator `decorator` to a function or class; returns the decorated value."""
    path = getattr(decorator, "path", "")
    row = registry.of_path(path)
    if row is not None:
        return row.library.decorate(Site(interp, path, loc), decorator, target)
    if path.partition(".")[0] in ("pallas", "jax"):
        interp.miss(f"a kernel in a language that is not read yet ({path})", loc)
        return UnreadKernel(path, target)
    named = _NAMED.get(path)
    made = named(interp, decorator, target, loc) if named is not None else NotImplemented
    if made is not NotImplemented:
        return made
    if isinstance(decorator, LibObject) and contextmanagers.is_manager(decorator):
        again = Partial(decorator.attrs["func"], tuple(decorator.attrs["args"]), decorator.attrs["kwargs"])
        return interp.call(prelude.value(interp, "contextlib.decorated"), [again, target], {}, loc)
    if isinstance(decorator, Unknown) or _is_foreign(path):
        interp.miss(f"what {path or 'a decorator that is not known'} makes of a function is not followed", loc)
        return Unknown((), "a decorated function")
    if isinstance(decorator, Method) and isinstance(decorator.self, Property):
        decorator.self.attrs["fset" if decorator.name == "setter" else decorator.name] = target
        return decorator.self
    if path.startswith("dataclasses.dataclass") and isinstance(target, ClassV):
        return _dataclass(decorator, target)
    known = hasattr(decorator, "__kbh_builtin__")  # as functools.wraps(f)
    if known or isinstance(decorator, (Func, Bound, Partial, Memo, Instance, ClassV)):
        return interp.call(decorator, [target], {}, loc)
    if isinstance(decorator, LibObject) and path == custom_ops.WAY:
        return custom_ops.decorate(interp, decorator, target, loc)
    return target


def _compiled(interp: Run, decorator: Value, target: Value, loc: ir.Loc | None) -> Value:
    return Compiled(target, loc)


def _marked(mark: str) -> _Named:
    """A decorator that only notes on a function what it is."""

    def noted(interp: Run, decorator: Value, target: Value, loc: ir.Loc | None) -> Value:
        if not isinstance(target, Func):
            return NotImplemented
        target.attrs[mark] = True
        return target

    return noted


def _memo(interp: Run, decorator: Value, target: Value, loc: ir.Loc | None) -> Value:
    longest = getattr(decorator, "attrs", {}).get("maxsize")
    return Memo(target, longest=longest if isinstance(longest, int) else None)


def _dataclass(decorator: Value, target: ClassV) -> ClassV:
    target.dataclass = True
    given = getattr(decorator, "kwargs", {})
    target.by_identity, target.frozen = given.get("eq") is False, given.get("frozen") is True
    target.ordered = given.get("order") is True
    return target


_Named = Callable[["Run", Value, Value, "ir.Loc | None"], Value]  # of a decorator and what it stands over
_NAMED: dict[str, _Named] = {
    **dict.fromkeys(("torch.compile", "torch.compile.decorator", "torch.jit.script", "torch.jit.trace"), _compiled),
    **dict.fromkeys(
        ("property", "builtins.property"), lambda interp, decorator, target, loc: Property(target, cached=False)
    ),
    "functools.cached_property": lambda interp, decorator, target, loc: Property(target, cached=True),
    **dict.fromkeys(("contextlib.contextmanager", "contextlib.asynccontextmanager"), _marked(contextmanagers.MARK)),
    "abc.abstractmethod": _marked("__isabstractmethod__"),
    "builtins.staticmethod": lambda interp, decorator, target, loc: StaticMethod(target),
    "builtins.classmethod": lambda interp, decorator, target, loc: ClassMethod(target),
    "cupy.fuse": lambda interp, decorator, target, loc: target,
    "cupy.memoize": _memo,
    **dict.fromkeys(("functools.lru_cache", "functools.cache", "functools.lru_cache.decorator"), _memo),
}


def _is_foreign(path: str) -> bool:
    """Whether a decorator is of a package of which nothing is known: it may put any function in the place of one."""
    root = path.partition(".")[0]
    return bool(root) and root not in KNOWN and root not in sys.stdlib_module_names
