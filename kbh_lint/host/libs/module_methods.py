"""Methods that objects of the submission inherit: from torch.nn.Module, from a layer of torch, from a named tuple."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


from kbh_lint.base.values import Value
from kbh_lint.host.libs import nn_layers
from kbh_lint.host.libs.trace_nn import (
    LAYERS,
    STATE_HOOKS,
    OfModules,
    layer_base,
    listed,
    state_hooks,
    state_of,
    super_attr,
)
from kbh_lint.host.python import module_calls, module_tables
from kbh_lint.host.torch import tensor_copies
from kbh_lint.host.values.library_objects import Super
from kbh_lint.host.values.modelled import Methods, Owner, Rows, Site, models
from kbh_lint.host.values.objects import Instance, LibObject, Method, is_module, is_named_tuple
from kbh_lint.host.values.tensors import Tensor, Unknown

_OF_CONTAINERS = frozenset("append extend insert keys values items get pop update clear".split())


class _Modules(OfModules):
    """Methods that an object of the submission inherits from torch.nn.Module, from a layer or from a named tuple."""

    @models("_replace")
    def replace(self, site: Site, owner: Instance, /, **fields: Value) -> Value:
        """Models `named_tuple._replace(**fields)`."""
        return Instance(owner.cls, {**_fields(owner), **fields}) if is_named_tuple(owner) else NotImplemented

    @models("_asdict")
    def asdict(self, site: Site, owner: Instance) -> Value:
        """Models `named_tuple._asdict()`."""
        return _fields(owner) if is_named_tuple(owner) else NotImplemented

    @models("get_parameter", "get_buffer", "get_submodule")
    def held(self, site: Site, owner: Instance, target: Value) -> Value:
        """Models `module.get_parameter(target)` and the like: the attribute at a dotted name."""
        found: Value = owner
        for part in str(target).split("."):
            found = site.run.get_attr(found, part, site.loc)
        return found

    @models("__init__")
    def init(self, site: Site, owner: Instance, /, *args: Value, **kwargs: Value) -> None:
        """Models `super().__init__(...)` in a module, and in a subclass of a torch layer: the object gets the layer's
        weights."""
        base = layer_base(owner)
        if is_module(owner.cls):
            module_tables.begin(site.run, owner, site.loc)
        if base:
            owner.attrs.update(nn_layers.module(Site(site.run, base, site.loc, list(args), kwargs)).attrs)

    @models("forward")
    def forward(self, site: Site, owner: Instance, /, *args: Value, **kwargs: Value) -> Value:
        """Models `super().forward(...)` in a subclass of a torch layer."""
        base = layer_base(owner)
        layer = LibObject.by_path(base, owner.attrs)
        return nn_layers.apply(site.run, layer, list(args), kwargs, site.loc) if base else NotImplemented

    @models("_conv_forward")
    def convolve(self, site: Site, owner: Instance, input: Value, *weights: Value, **named: Value) -> Value:
        """Models `self._conv_forward(input, ...)` in a subclass of a convolution."""
        return self.forward(site, owner, input, **named)

    @models("register_buffer")
    def register_buffer(
        self, site: Site, owner: Instance, name: Value, tensor: Value = None, persistent: Value = True
    ) -> None:
        """Models `module.register_buffer(name, tensor)`."""
        module_tables.check_free(site.run, owner, str(name), site.loc)
        owner.attrs[str(name)] = tensor
        owner.buffers[str(name)] = persistent is not False

    @models("register_parameter")
    def register_parameter(self, site: Site, owner: Instance, name: Value, param: Value) -> None:
        """Models `module.register_parameter(name, param)`."""
        module_tables.check_free(site.run, owner, str(name), site.loc)
        owner.attrs[str(name)] = param
        owner.buffers[str(name)] = True

    @models("add_module", "register_module")
    def add_module(self, site: Site, owner: Instance, name: Value, module: Value) -> None:
        """Models `module.add_module(name, module)`."""
        module_tables.check_free(site.run, owner, str(name), site.loc)
        owner.attrs[str(name)] = module

    @models("__setattr__")
    def setattr(self, site: Site, owner: Instance, name: Value, value: Value) -> None:
        """Models `super().__setattr__(name, value)`."""
        site.run.set_plain(owner, str(name), value, site.loc)

    @models("__getattribute__")
    def getattribute(self, site: Site, owner: Instance, name: Value) -> Value:
        """Models `super().__getattribute__(name)`."""
        return site.run.plain_attr(owner, str(name), site.loc)

    @models("__getattr__")
    def getattr(self, site: Site, owner: Instance, name: Value) -> Value:
        """Models `super().__getattr__(name)`: a registered tensor or module."""
        return owner.attrs.get(str(name), Unknown())

    @models("__call__")
    def call_module(self, site: Site, owner: Instance, /, *args: Value, **kwargs: Value) -> Value:
        """Models `super().__call__(...)` of a module."""
        return module_calls.call(site.run, owner, list(args), kwargs, site.loc)

    @models(
        "register_load_state_dict_post_hook",
        "register_load_state_dict_pre_hook",
        "_register_load_state_dict_pre_hook",
        "register_state_dict_post_hook",
    )
    def state_hook(self, site: Site, owner: Instance, hook: Value = None, *more: Value, **options: Value) -> None:
        """Models registering a hook that runs when a module's state is saved or loaded."""
        owner.attrs[STATE_HOOKS] = [*state_hooks(owner), (site.name, hook)]

    @models("apply")
    def apply(self, site: Site, owner: Instance, fn: Value) -> Value:
        """Models `module.apply(fn)`: calls the function with each module below, then with the module itself."""
        for below in list(owner.attrs.values()):
            if isinstance(below, Instance) and is_module(below.cls):
                site.run.call(Method(below, "apply"), [fn], {}, site.loc)
        site.run.call(fn, [owner], {}, site.loc)
        return owner

    @models("_apply")
    def _apply(self, site: Site, owner: Instance, fn: Value, *options: Value, **named: Value) -> Value:
        """Models `module._apply(fn)`, which gives the function each weight; the module stays as it is."""
        site.run.may_call(site.path, [fn, *owner.attrs.values()], {}, site.loc)
        return owner

    @models("to", "cuda", "half", "bfloat16", "float", "cpu", "requires_grad_")
    def same(self, site: Site, owner: Instance, *given: Value, **named: Value) -> Value:
        """Models `module.to(...)`, `module.cuda()` and the like, which change no value computed here; returns the
        module. The `_apply` of its class, or of modules below, runs."""
        if site.name != "requires_grad_" and is_module(owner.cls):
            module_calls.moved(site.run, owner, site.loc)
        return owner

    @models("state_dict")
    def state_dict(self, site: Site, owner: Instance, *given: Value, **named: Value) -> Value:
        """Models `module.state_dict()`: weights and persistent buffers by dotted name."""
        return dict(state_of(owner))

    @models("load_state_dict", "_load_from_state_dict")
    def load_state_dict(
        self, site: Site, owner: Instance, state_dict: Value = None, *more: Value, **options: Value
    ) -> None:
        """Models `module.load_state_dict(state_dict)`: copies the given tensors into the module's."""
        for key, tensor in state_of(owner).items():
            source = state_dict.get(key) if isinstance(state_dict, dict) else None
            if isinstance(source, Tensor):
                tensor_copies.copy_(site.run, "copy", [tensor, source], {}, site.loc)

    def other(self, site: Site, owner: Owner) -> Value:
        """Answers a call of a method without a model (`Methods.other`): a method of the container that the class
        derives from, or a listing of modules and weights."""
        if isinstance(owner, Instance) and not is_module(owner.cls):  # it may call what the class puts over its own
            site.run.may_call(site.path, [owner, *site.args], site.kwargs, site.loc)
        if site.name == "items" and "items" not in owner.attrs:
            return list(state_of(owner).items())
        base = layer_base(owner) if site.name in _OF_CONTAINERS and isinstance(owner, Instance) else ""
        return LAYERS.call(site, LibObject.by_path(base, owner.attrs)) if base else listed(owner, site.name)


_MODULES = _Modules()


def instance_method(site: Site, owner: Value) -> Value:
    """Calls a method that an object of the submission inherits from a library class."""
    return _MODULES.call(site, owner) if isinstance(owner, Instance) else Unknown((), site.name)


def _fields(owner: Instance) -> dict[str, Value]:
    return {field: owner.attrs.get(field) for field in owner.cls.field_names()}


class _Supers(Methods[Owner]):
    """Methods of `super()` where the base class is torch's."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns `super().name`: what the classes after its own define."""
        return super_attr(run, owner, name)

    def other(self, site: Site, owner: Owner) -> Value:
        """Calls the method `super().name(...)` of a library class (`Methods.other`)."""
        return instance_method(site, owner.attrs["self"])


METHODS: Rows = {Super: _Supers()}
