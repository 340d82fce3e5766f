"""Decorators: what one makes of a function or a class, told by its path."""

from __future__ import annotations

import sys
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
    """`@decorator` over a function or class."""
    path = getattr(decorator, "path", "")
    row = registry.of_path(path)
    if row is not None:
        return row.library.decorate(Site(interp, path, loc), decorator, target)
    if path.partition(".")[0] in ("pallas", "jax"):
        interp.miss(f"a kernel in a language that is not read yet ({path})", loc)
        return UnreadKernel(path, target)
    if path in ("torch.compile", "torch.compile.decorator", "torch.jit.script", "torch.jit.trace"):
        interp.note("torch-compile", {}, loc)
        return Compiled(target, loc)
    if path in ("property", "builtins.property", "functools.cached_property"):
        return Property(target, cached=path == "functools.cached_property")
    if isinstance(decorator, LibObject) and contextmanagers.is_manager(decorator):
        again = Partial(decorator.attrs["func"], tuple(decorator.attrs["args"]), decorator.attrs["kwargs"])
        return interp.call(prelude.value(interp, "contextlib.decorated"), [again, target], {}, loc)
    if isinstance(decorator, Unknown) or _is_foreign(path):
        interp.miss(f"what {path or 'a decorator that is not known'} makes of a function is not followed", loc)
        return Unknown((), "a decorated function")
    if path in ("contextlib.contextmanager", "contextlib.asynccontextmanager") and isinstance(target, Func):
        target.attrs[contextmanagers.MARK] = True
        return target
    if path == "abc.abstractmethod" and isinstance(target, Func):
        target.attrs["__isabstractmethod__"] = True
        return target
    if path in ("builtins.staticmethod", "builtins.classmethod"):
        return StaticMethod(target) if path == "builtins.staticmethod" else ClassMethod(target)
    if isinstance(decorator, Method) and isinstance(decorator.self, Property):
        decorator.self.attrs["fset" if decorator.name == "setter" else decorator.name] = target
        return decorator.self
    if path in ("functools.lru_cache", "functools.cache", "functools.lru_cache.decorator"):
        longest = getattr(decorator, "attrs", {}).get("maxsize")
        return Memo(target, longest=longest if isinstance(longest, int) else None)
    if path.startswith("dataclasses.dataclass") and isinstance(target, ClassV):
        target.dataclass = True
        given = getattr(decorator, "kwargs", {})
        target.by_identity, target.frozen = given.get("eq") is False, given.get("frozen") is True
        target.ordered = given.get("order") is True
        return target
    known = hasattr(decorator, "__kbh_builtin__")  # as functools.wraps(f)
    if known or isinstance(decorator, (Func, Bound, Partial, Memo, Instance, ClassV)):
        return interp.call(decorator, [target], {}, loc)
    if isinstance(decorator, LibObject) and path == custom_ops.WAY:
        return custom_ops.decorate(interp, decorator, target, loc)
    return target


def _is_foreign(path: str) -> bool:
    """Whether a decorator is of a package of which nothing is known: it may put any function in the place of one."""
    root = path.partition(".")[0]
    return bool(root) and root not in KNOWN and root not in sys.stdlib_module_names
