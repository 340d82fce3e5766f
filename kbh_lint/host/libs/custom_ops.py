"""Operators of the submission under names of their own, `ns::name`, with what runs where their tensors lie on a GPU."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Func, JitFunction, Value
from kbh_lint.host.datamodel import modules, shown
from kbh_lint.host.values.modelled import Library, Methods, Owner, Rows, Site, models
from kbh_lint.host.values.named_objects import CustomOperator, OperatorLibrary
from kbh_lint.host.values.objects import Bound, LibObject, Partial

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

TORCHS = ("aten", "prims", "quantized")  # namespaces of torch's own operators: another way to run one replaces it
WAY = "torch.library.decorator"
# What torch asks first comes last; a key that is not here is not asked for tensors on a GPU.
_KEYS = ("composite", "cuda", "autograd")


@dataclass(slots=True, eq=False)
class Operator:
    """An operator of the submission: its implementations by dispatch rank (`_KEYS`). A call from inside an
    implementation goes to the next lower rank."""

    ways: dict[int, Any] = field(default_factory=dict)
    below: int = len(_KEYS)

    def call(self, interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        """Calls the implementation of the operator that the dispatcher picks for a GPU's tensors; a call from inside it
        goes to the next one below."""
        rank = max((r for r in self.ways if r < self.below), default=max(self.ways))
        before, self.below = self.below, rank
        try:
            return interp.call(self.ways[rank], args, kwargs, loc)
        finally:
            self.below = before


def register(interp: Run, label: str, key: Value, function: Value, loc: ir.Loc | None) -> None:
    """Registers `function` as the implementation of the operator `label` for a dispatch key or device types; keys for
    devices other than a GPU are ignored."""
    keys = key if isinstance(key, (list, tuple)) else [key]
    for each in keys:
        name = shown.show(each).lower() if each is not None else ""
        rank = next((i for i, known in enumerate(_KEYS) if name.startswith(known)), None if name else 0)
        rank = 0 if name == "default" else rank
        if rank is not None:
            replaced(interp, label, function, loc)
            operator = interp.custom_ops.setdefault(label, Operator())
            if isinstance(operator, Operator):
                operator.ways[rank] = function


def replaced(interp: Run, label: str, function: Value, loc: ir.Loc | None) -> None:
    """Notes that an operator of torch itself, `aten.mm`, runs another way from now on; nothing of other operators."""
    space, _, name = label.partition(".")
    if space in TORCHS:
        modules.patched(interp, f"torch.ops.{space}", name, function, loc)


class TorchLibrary(Library):
    """The package `torch.library`."""

    @models("Library")
    def library(self, site: Site, ns: Value = "", *kind: Value, **options: Value) -> Value:
        """Models `torch.library.Library(ns, ...)`."""
        return LibObject.by_path(site.path, {"namespace": shown.show(ns)})

    @models("wrap_triton", "capture_triton")
    def wrapped(self, site: Site, kernel: Value) -> Value:
        """Models `torch.library.wrap_triton(kernel)`: returns the kernel."""
        return kernel if isinstance(kernel, JitFunction) else NotImplemented

    @models("custom_op", "triton_op")
    def operator(self, site: Site, *given: Value, device_types: Value = None, **options: Value) -> Value:
        """Models `torch.library.custom_op` and `triton_op`: an operator of a function, or a decorator."""
        return self._way(site, device_types, True)

    @models("impl")
    def impl(self, site: Site, *given: Value, types: Value = None, **options: Value) -> Value:
        """Models `torch.library.impl`: registers an operator's implementation, or returns a decorator."""
        return self._way(site, types, False)

    @models("register_kernel")
    def kernel(self, site: Site, *given: Value, device_types: Value = None, **options: Value) -> Value:
        """Models `torch.library.register_kernel`: registers an operator's implementation, or returns a decorator."""
        return self._way(site, device_types, False)

    def _way(self, site: Site, types: Value, made: bool) -> Value:
        """One that names its operator, wherever it stands; types of devices may come second."""
        label = next((str(a) for a in site.args if isinstance(a, str) and "::" in a), "")
        label = label.partition("(")[0].replace("::", ".")
        if not label:
            return NotImplemented
        func = next((a for a in [*site.args, *site.kwargs.values()] if isinstance(a, (Func, Bound, Partial))), None)
        if types is None and not made and len(site.args) > 1 and site.args[1] is not func:
            types = site.args[1]
        way = LibObject.by_path(WAY, {"name": label, "key": types, "op": made})
        return way if func is None else decorate(site.run, way, func, site.loc)


def decorate(interp: Run, way: LibObject, function: Value, loc: ir.Loc | None) -> Any:
    """Applies a decorator made by `torch.library.custom_op(...)` or `op.register_kernel(...)` to a function."""
    register(interp, way.attrs["name"], way.attrs["key"], function, loc)
    if not way.attrs["op"]:
        return function
    return CustomOperator("torch.library.CustomOp", {"name": way.attrs["name"], "func": function})


class _Libraries(Methods[Owner]):
    """`torch.library.Library(namespace, kind)`."""

    @models("impl")
    def impl(self, site: Site, owner: LibObject, op_name: Value, fn: Value, dispatch_key: Value = None) -> None:
        """Models `library.impl(op_name, fn, dispatch_key)`: registers an operator's implementation."""
        label = f"{owner.attrs['namespace']}.{shown.show(op_name).rpartition('::')[2]}"
        register(site.run, label, dispatch_key, fn, site.loc)


class _Operators(Methods[Owner]):
    """Methods of an operator that `custom_op` made of a function."""

    def called(self, site: Site, owner: Owner) -> Value:
        """Calls the operator."""
        operator = site.run.custom_ops.get(owner.attrs["name"])
        if isinstance(operator, Operator):
            return operator.call(site.run, site.args, site.kwargs, site.loc)
        return site.run.call(owner.attrs["func"], site.args, site.kwargs, site.loc)

    @models("register_kernel")
    def register_kernel(self, site: Site, owner: LibObject, device_types: Value = None, func: Value = None) -> Value:
        """Models `op.register_kernel(device_types)`: registers an implementation, or returns a decorator."""
        way = LibObject.by_path(WAY, {"name": owner.attrs["name"], "key": device_types, "op": False})
        return way if func is None else decorate(site.run, way, func, site.loc)

    @models("register_fake", "register_autograd", "register_vmap", "register_torch_dispatch")
    def register(self, site: Site, owner: LibObject, *given: Value, **named: Value) -> Value:
        """Models `op.register_fake` and the like, whose functions never run on a GPU's tensors."""
        return given[0] if given else LibObject("torch.library.registered")


METHODS: Rows = {OperatorLibrary: _Libraries(), CustomOperator: _Operators()}
