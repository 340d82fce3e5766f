"""Functions of kernel languages that were compiled for their compile-time arguments: calls and methods of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.values import Func, Value
from kbh_lint.host.effects import foreign
from kbh_lint.host.gpu.kernel_cache import identity
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.objects import Bound, Instance, LibObject, Memo, Specialized, find_method
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


class Arguments(LibObject):
    """The arguments of a call in two steps, held between the steps."""

    def __init__(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        super().__init__("compiled.arguments", {"args": args, "kwargs": kwargs})
        self.given, self.named = args, kwargs


def call(interp: Run, made: Specialized, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Calls a compiled function: a launch, in languages where it is a kernel; otherwise it runs on the host like any
    other function."""
    func = function(made.func)
    row = registry.of_function(func.language) if func is not None else None
    if row is not None:
        own = row.library.launch(Site(interp, "", loc, args, kwargs), made)
        if own is not NotImplemented:
            return own
    if func is not None and identity(func) != made.scope:
        inputs = tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs)
        return foreign.unread_call(interp, "a compiled function whose names mean something else now", inputs, loc)
    names = parameters(func, made.func) if func is not None else []
    if len(args) != len(names):
        names = [name for name in names if name not in made.fixed]
    bound = {**made.fixed, **dict(zip(names, args, strict=False)), **kwargs}
    return interp.call(made.func, [], bound, loc)


def method(
    interp: Run, made: Specialized, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """Models methods of a compiled function: moving it to a device, or calling it in two steps."""
    if name == "to":
        return made
    if name == "generate_execution_args":
        return (Arguments(list(args), kwargs), None)
    if name == "run_compiled_program" and args and isinstance(args[0], Arguments):
        return call(interp, made, args[0].given, args[0].named, loc)
    if name in ("__call__", "run_compiled_program"):
        return call(interp, made, args, kwargs, loc)
    return Unknown(interp.contents_of(args), f"a compiled function's {name}")


def function(value: Value) -> Func | None:
    """Returns the function that is compiled: of a method, or of an object its `__call__`; None for other values."""
    if isinstance(value, Instance):
        value = find_method(value, "__call__")
    while isinstance(value, (Bound, Memo)):
        value = value.func
    return value if isinstance(value, Func) else None


def parameters(func: Func, value: Value) -> list[str]:
    """Returns the parameter names of `func`, without `self` where `value` is bound to an object."""
    names = [p.name for p in func.node.params]
    return names[1:] if isinstance(value, (Instance, Bound)) else names
