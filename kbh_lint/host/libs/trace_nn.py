"""torch.nn on abstract tensors: modules of the submission, and the library's own layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.dtypes import FLOATS
from kbh_lint.base.values import DType, Value
from kbh_lint.host.libs import nn_layers
from kbh_lint.host.python import class_making, module_calls
from kbh_lint.host.torch import tensor_copies
from kbh_lint.host.values import records
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.modelled import Methods, Owner, Rows, Site, models
from kbh_lint.host.values.named_objects import TorchLayer
from kbh_lint.host.values.objects import Bound, ClassV, Instance, LibObject, Method, find_method
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_DEEPEST = 32  # modules in modules
_RUNNING = ("running_mean", "running_var", "num_batches_tracked")
STATE_HOOKS = "hooks of the state"  # no name that a program can write as an attribute


class OfModules(Methods[Owner]):
    """Methods that modules of torch.nn and modules of the submission have in common."""

    @models("eval")
    def eval(self, site: Site, owner: Owner) -> Value:
        """Models `module.eval()`."""
        own = find_method(owner, "train") if isinstance(owner, Instance) else None
        if own is not None:
            site.run.call(own, [False], {}, site.loc)
            return owner
        nn_layers.set_mode(site.run, owner, False)
        return owner

    @models("train")
    def train(self, site: Site, owner: Owner, mode: Value = True) -> Value:
        """Models `module.train(mode)`."""
        nn_layers.set_mode(site.run, owner, mode)
        return owner

    @models("_call_impl", "_wrapped_call_impl")
    def whole(self, site: Site, owner: Owner, /, *args: Value, **kwargs: Value) -> Value:
        """Models `module._call_impl(...)`: `forward` with its hooks."""
        return module_calls.call_whole(site.run, owner, list(args), kwargs, site.loc)

    @models(*module_calls.REGISTERS)
    def hook(self, site: Site, owner: Owner, *args: Value, **kwargs: Value) -> Value:
        """Models `module.register_forward_hook(hook)` and the like."""
        return module_calls.register(owner.attrs, module_calls.REGISTERS[site.name], list(args), kwargs)

    @models("compile")
    def compile(self, site: Site, owner: Owner, *args: Value, **kwargs: Value) -> None:
        """Models `module.compile()`: later calls go through torch.compile."""
        module_calls.compile_in_place(site.run, owner, kwargs, site.loc)


class _Layers(OfModules):
    """Layers and containers of torch.nn."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns `layer.name`."""
        return nn_layers.attribute(run, owner, name) if isinstance(owner, LibObject) else NotImplemented

    def called(self, site: Site, owner: Owner) -> Value:
        """Calls a layer, with its hooks."""
        return module_calls.call(site.run, owner, site.args, site.kwargs, site.loc)

    @models("cuda", "cpu", "to", "half", "bfloat16", "float", "double", "type")
    def convert(self, site: Site, owner: LibObject, *args: Value, **kwargs: Value) -> Value:
        """Models `layer.to(...)`, `layer.half()` and the like: converts or moves its weights."""
        for key, value in nn_layers.children(owner):
            items: Any = owner.attrs if key in owner.attrs else owner.attrs.get("items", {})
            if isinstance(value, Tensor):
                at = int(key) if isinstance(items, list) else key
                items[at] = _converted(site.run, site.name, value, list(args), kwargs, site.loc)
            elif isinstance(value, LibObject):
                LAYERS.call(site, value)
        return owner

    @models("requires_grad_", "apply")
    def same(self, site: Site, owner: LibObject, *given: Value, **named: Value) -> Value:
        """Models `layer.requires_grad_()` and `layer.apply(...)`, which change no value computed here; returns the
        layer."""
        return owner

    @models("forward")
    def forward(self, site: Site, owner: LibObject, *args: Value, **kwargs: Value) -> Value:
        """Models `layer.forward(...)`."""
        return nn_layers.apply(site.run, owner, list(args), kwargs, site.loc)

    @models("append", "extend", "insert")
    def add(self, site: Site, owner: LibObject, *args: Value, **kwargs: Value) -> Value:
        """Models `module_list.append(module)`, `extend` and `insert`."""
        if not isinstance(owner.attrs.get("items"), list):
            return NotImplemented
        site.run.call(Method(owner.attrs["items"], site.name), list(args), kwargs, site.loc)
        return owner

    @models("add_module", "register_module", "register_parameter", "register_buffer")
    def put(self, site: Site, owner: LibObject, name: Value, value: Value, *more: Value, **options: Value) -> None:
        """Models `layer.register_buffer(name, value)`, `add_module` and the like."""
        _put(owner, str(name), value)

    @models("keys", "values", "items", "get", "pop", "update", "clear")
    def of_dict(self, site: Site, owner: LibObject, *args: Value, **kwargs: Value) -> Value:
        """Models the dict methods of a ModuleDict or ParameterDict."""
        items = owner.attrs.get("items")
        called = isinstance(items, dict)
        return site.run.call(Method(items, site.name), list(args), kwargs, site.loc) if called else NotImplemented

    def other(self, site: Site, owner: Owner) -> Value:
        """Answers a call of a method without a model (`Methods.other`): a listing of modules and weights. Hooks of a
        layer's state may run."""
        if site.name.lstrip("_").startswith("register_"):
            site.run.may_call(site.path, site.args, site.kwargs, site.loc)
        return listed(owner, site.name)


LAYERS = _Layers()
METHODS: Rows = {TorchLayer: LAYERS}


def _converted(
    interp: Run, name: str, tensor: Tensor, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None
) -> Value:
    """A weight after `module.to(...)`: whole numbers keep their type."""
    if tensor.dtype not in FLOATS:
        args = [arg for arg in args if not isinstance(arg, DType)]
        name = name if name in ("cuda", "cpu") else "to"
    made = tensor_copies.to(interp, name, [tensor, *args], kwargs, loc)
    if isinstance(made, Tensor):
        made.parameter = tensor.parameter
    return made


def _put(owner: LibObject, name: str, value: object) -> None:
    """A module or a weight under a name: in a container, one more item."""
    items = owner.attrs.get("items")
    if isinstance(items, list) and items == [] and not name.isdigit():
        items = owner.attrs["items"] = {}
    if isinstance(items, list):
        items.append(value)
    elif isinstance(items, dict):
        items[name] = value
    else:
        owner.attrs[name] = value


def listed(owner: Instance | LibObject, name: str) -> Value:
    """Models `owner.parameters()`, `named_modules()` and the other listings of a module; None for any other `name`."""
    base = name.removeprefix("named_")
    found: list[tuple[str, Any]]
    if base in ("parameters", "buffers"):
        held = state_of(owner).items()
        found = [(key, t) for key, t in held if isinstance(owner, Instance) or t.parameter is (base == "parameters")]
    elif base in ("children", "modules"):
        found = _modules(owner, "") if base == "modules" else [c for c in nn_layers.children(owner) if _holds(c[1])]
        found = [("", owner), *found] if base == "modules" else found
    else:
        return None
    return found if base != name else [value for _, value in found]


def _holds(value: object) -> bool:
    return not isinstance(value, Tensor)


def _modules(owner: object, prefix: str) -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    for name, value in nn_layers.children(owner):
        if _holds(value) and len(out) < 4096:
            out += [(prefix + name, value), *_modules(value, f"{prefix}{name}.")]
    return out


def super_attr(interp: Run, owner: Owner, name: str) -> Any:
    """Returns `super().name`."""
    instance, cls = owner.attrs["self"], owner.attrs["cls"]
    if name == "__new__" and isinstance(cls, ClassV) and _is_meta(interp, cls):
        return builtin(lambda i, a, k, where: class_making.of_call(i, a[1:], k, where, a[0]))
    if isinstance(instance, ClassV) and instance.meta is not None:
        order = instance.meta.mro()
        for base in order[order.index(cls) + 1 :] if cls in order else ():
            if name in base.env.vars:
                return Bound(instance, base.env.vars[name])
        return class_making.inherited(interp, instance, name, None)
    if name == "__new__":
        return builtin(_made)
    if not isinstance(instance, Instance):
        return Unknown((), f"super().{name}")
    own = next((base.env.vars[name] for base in _after(instance, cls) if name in base.env.vars), NotImplemented)
    if name == "__init__" and (own is None or own is NotImplemented):
        if instance.items is not None:
            return builtin(lambda i, a, k, where: instance.items.update(i.call(i.builtins["dict"], a, k, where)))  # type: ignore[union-attr]
        if "args" in instance.attrs and "__cause__" in instance.attrs:
            return builtin(lambda i, a, k, where: instance.attrs.update(args=tuple(a)))
    if own is not NotImplemented:
        return Bound(instance, own)
    if instance.items is not None and name != "__init__":
        return Method(instance.items, name)
    return Method(instance, f"super:{name}")


def _after(instance: Instance, cls: Value) -> list[ClassV]:
    """The classes that come after one in the order of an object's class."""
    order = instance.cls.mro()
    return order[order.index(cls) + 1 :] if cls in order else order[1:]


def _made(interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """`super().__new__(cls, ...)`: an object, of a named tuple with its fields."""
    if not args or not isinstance(args[0], ClassV):
        return Unknown()
    made = Instance(args[0])
    if args[0].field_names() and not args[0].dataclass:
        records.fill(interp, made, args[1:], kwargs, loc)
    return made


def _is_meta(interp: Run, cls: ClassV) -> bool:
    return interp.builtins["type"] in [base for c in cls.mro() for base in c.bases]


def state_of(instance: object, prefix: str = "", depth: int = 0) -> dict[str, Tensor]:
    """Returns the state_dict of a module: parameters and persistent buffers by dotted name."""
    out: dict[str, Tensor] = {}
    buffers = instance.buffers if isinstance(instance, Instance) else {}
    for name, value in nn_layers.children(instance):
        if isinstance(value, Tensor):
            if value.parameter or buffers.get(name) or isinstance(instance, LibObject) or _of_layer(instance, name):
                out[prefix + name] = value
        elif depth < _DEEPEST:
            out.update(state_of(value, f"{prefix}{name}.", depth + 1))
    return out


def _of_layer(instance: object, name: str) -> bool:
    """Whether a tensor of an object is the layer's that its class derives from."""
    return isinstance(instance, Instance) and bool(layer_base(instance)) and name in ("weight", "bias", *_RUNNING)


def state_hooks(owner: Instance) -> list[tuple[str, Any]]:
    """The hooks that run when a module's state is saved or loaded, each with the method that registered it."""
    found = owner.attrs.get(STATE_HOOKS)
    return found if isinstance(found, list) else []


def layer_base(owner: Instance) -> str:
    """Returns the path of the torch.nn layer that an object's class derives from; empty without one."""
    for path in owner.cls.external_bases():
        if nn_layers.is_known(path):
            return path
    return ""
