"""cuTile on the host: what makes a kernel of a function, and the launch."""

from __future__ import annotations

from kbh_lint.base.values import Func
from kbh_lint.dsl.cutile.types import element
from kbh_lint.host.effects import foreign
from kbh_lint.host.gpu import launches
from kbh_lint.host.values import tensor_arguments, unknowns
from kbh_lint.host.values.modelled import Library, Modelled, Site, Value, models

LANGUAGE = "cutile.kernel"


class Decorator(Modelled):
    """`ct.kernel(occupancy=2)`, which is called with a function."""

    def __init__(self) -> None:
        super().__init__("cuda.tile.kernel")

    def called(self, site: Site) -> Value:
        """The kernel that the decorator makes of a function."""
        return site.run.decorate(self, site.args[0], site.loc) if site.args else super().called(site)


class CuTile(Library):
    """The package `cuda.tile`."""

    @models("kernel")
    def kernel(self, site: Site, function: Value = None, **hints: Value) -> Value:
        """The kernel made of `function`, or for a call with hints alone a decorator."""
        return Decorator() if function is None else _kernel(function)

    @models("function")
    def function(self, site: Site, func: Value = None, **options: Value) -> Value:
        """The function unchanged, for decorators of functions that kernels call."""
        return func if func is not None else super().other(site)

    @models("launch")
    def queue(self, site: Site, stream: Value, grid: Value, kernel: Value, kernel_args: Value) -> Value:
        """Records the launch `ct.launch(stream, grid, kernel, arguments)`; arguments are matched by position."""
        if not (isinstance(kernel, Func) and kernel.language == LANGUAGE and isinstance(kernel_args, (tuple, list))):
            return NotImplemented
        names = [param.name for param in kernel.node.params]
        if len(kernel_args) > len(names):
            return NotImplemented
        launches.launch_of_dsl(site.run, kernel, dict(zip(names, kernel_args, strict=False)), grid, site.loc)
        return None

    @models("cdiv")
    def ceil_div(self, site: Site, x: Value, y: Value) -> Value:
        """The value of `cdiv(x, y)`."""
        if isinstance(x, int) and isinstance(y, int) and y:
            return -(-x // y)
        return unknowns.merged(site.run, x, y)

    def decorate(self, site: Site, decorator: Value, target: Value) -> Value:
        """The kernel for `@ct.kernel` and `@ct.kernel(...)`; other decorators return the function unchanged."""
        return _kernel(target) if site.name == "kernel" or isinstance(decorator, Decorator) else target

    def other(self, site: Site) -> Value:
        """Records any other function as unread if it is given tensors or functions, as a search for the fastest tiles
        is."""
        inputs = tensor_arguments.tensors_in([*site.args, *site.kwargs.values()])
        called = any(isinstance(value, Func) for value in (*site.args, *site.kwargs.values()))
        if inputs or called:
            return foreign.unread_call(site.run, site.path, inputs, site.loc)
        return super().other(site)

    def element_type(self, path: str) -> str | None:
        """The element type that a path such as `ct.bfloat16` names; None for other paths."""
        return element(path.rpartition(".")[2])


def _kernel(target: Value) -> Value:
    if isinstance(target, Func):
        target.language = LANGUAGE
    return target


LIBRARY = CuTile()
