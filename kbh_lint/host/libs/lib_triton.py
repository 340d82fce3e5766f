"""triton on the host: decorators, configurations, descriptors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kbh_lint import ir, registry
from kbh_lint.host.datamodel import prelude
from kbh_lint.host.libs import custom_ops
from kbh_lint.host.python import around
from kbh_lint.host.values import tensor_arguments, unknowns
from kbh_lint.host.values.library_objects import ClassMethod, Property, StaticMethod, UnreadKernel
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.objects import (
    Bound,
    ClassV,
    Compiled,
    Config,
    HostDescriptor,
    Instance,
    LibObject,
    Memo,
    Method,
    Partial,
)
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.values import Func, JitFunction, Sym

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

JIT = ("triton.jit", "triton.experimental.gluon.jit")

# Packages whose decorators are told apart by name, or change nothing of what a function computes.
KNOWN = frozenset("torch triton tvm cuda numpy typing_extensions einops".split())


def triton_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    numbers = [a for a in args if isinstance(a, int)]
    if name == "cdiv" and len(numbers) == 2 and numbers[1]:
        return -(-numbers[0] // numbers[1])
    if name == "next_power_of_2" and numbers:
        return 1 << max(numbers[0] - 1, 0).bit_length()
    if name in ("Config",):
        return Config(dict(args[0]) if args and isinstance(args[0], dict) else dict(kwargs.get("kwargs", {})))
    if name == "jit":  # of Gluon too: its kernels are launched and read like Triton's
        if args:
            return decorate(interp, Sym("triton.jit"), args[0], loc)
        return LibObject("triton.decorator", {"kind": "jit"})
    if name == "autotune":
        configs = kwargs.get("configs", args[0] if args else [])
        return LibObject("triton.decorator", {"kind": "autotune", "configs": configs})
    if name == "heuristics":
        return LibObject(
            "triton.decorator", {"kind": "heuristics", "values": args[0] if args else kwargs.get("values", {})}
        )
    if name == "from_tensor":
        return HostDescriptor(args[0], args[1] if len(args) > 1 else kwargs.get("block_shape"))
    if name == "TensorDescriptor" or path.startswith("triton.tools."):
        tensors = tensor_arguments.tensors_in(args) or tensor_arguments.tensors_in(kwargs)
        if tensors:
            return HostDescriptor(tensors[0], kwargs.get("block_shape", args[-1] if args else None))
        pointer = interp.tensor_at(args[0]) if args else None
        return HostDescriptor(pointer) if pointer is not None else Unknown((), "a descriptor")
    if name == "constexpr" and args:
        return args[0]
    if name in ("cdiv", "next_power_of_2"):
        return unknowns.merged(interp, *args)
    return LibObject(path, {}, tuple(args), kwargs)


def decorate(interp: Run, decorator: Any, target: Any, loc: ir.Loc | None) -> Any:
    """`@decorator` over a function or class."""
    path = getattr(decorator, "path", "")
    if path in JIT or path == "triton.decorator" and decorator.attrs["kind"] == "jit":
        if not isinstance(target, Func):
            return target
        made = JitFunction(target)
        interp.authored.append(made)
        return made
    if path == "triton.decorator":
        return _triton_decorator(interp, decorator, target)
    if path == "triton.experimental.gluon.constexpr_function":
        return target
    row = registry.of_path(path)
    if row is not None:
        return row.library.decorate(Site(interp, path, loc), decorator, target)
    if path.startswith(("triton.experimental.", "pallas", "jax")):
        interp.miss(f"a kernel in a language that is not read yet ({path})", loc)
        return UnreadKernel(path, target)
    if path in ("torch.compile", "torch.compile.decorator", "torch.jit.script", "torch.jit.trace"):
        interp.note("torch-compile", {}, loc)
        return Compiled(target, loc)
    if path in ("property", "builtins.property", "functools.cached_property"):
        return Property(target, cached=path == "functools.cached_property")
    if around.is_manager(decorator):
        again = Partial(decorator.attrs["func"], tuple(decorator.attrs["args"]), decorator.attrs["kwargs"])
        return interp.call(prelude.value(interp, "contextlib.decorated"), [again, target], {}, loc)
    if isinstance(decorator, Unknown) or _is_foreign(path):
        interp.miss(f"what {path or 'a decorator that is not known'} makes of a function is not followed", loc)
        return Unknown((), "a decorated function")
    if path in ("contextlib.contextmanager", "contextlib.asynccontextmanager") and isinstance(target, Func):
        target.attrs[around.MARK] = True
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
    if path == custom_ops.WAY:
        return custom_ops.decorate(interp, decorator, target, loc)
    return target


def _is_foreign(path: str) -> bool:
    """Whether a decorator is of a package of which nothing is known: it may put any function in the place of one."""
    root = path.partition(".")[0]
    return bool(root) and root not in KNOWN and root not in sys.stdlib_module_names


def _triton_decorator(interp: Run, decorator: LibObject, target: Any) -> Any:
    if not isinstance(target, JitFunction):
        return target
    made = JitFunction(target.func, list(target.configs), dict(target.heuristics))
    if decorator.attrs["kind"] == "autotune":
        configs = decorator.attrs["configs"]
        made.configs = [c.kwargs for c in configs if isinstance(c, Config)] if isinstance(configs, list) else []
    else:
        values = decorator.attrs["values"]
        made.heuristics.update(values if isinstance(values, dict) else {})
    return made
