"""Attributes, calls and items of objects that a library made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.values import CppType, DType, Func, JitFunction, Sym, Value
from kbh_lint.host.datamodel import enums, modules, operators, subscripts
from kbh_lint.host.effects import environ, foreign, tampering
from kbh_lint.host.gpu import compiled, graphs, launches
from kbh_lint.host.libs import (
    module_methods,
    object_methods,
)
from kbh_lint.host.libs.launching import cupy
from kbh_lint.host.libs.stdlib import itertools
from kbh_lint.host.python import (
    attributes,
    lanes,
    plain_methods,
)
from kbh_lint.host.torch import subclasses, tensor_views, torchlib
from kbh_lint.host.torch.arrays import calls as arrays
from kbh_lint.host.values import tensor_arguments, unknowns
from kbh_lint.host.values.cpp_objects import library_field
from kbh_lint.host.values.library_objects import (
    Environment,
    UnreadKernel,
)
from kbh_lint.host.values.modelled import Modelled, Site
from kbh_lint.host.values.named_objects import (
    Counting,
    CurrentStream,
    Stream,
)
from kbh_lint.host.values.objects import (
    Bound,
    ClassV,
    Configured,
    Extension,
    Graph,
    HostDescriptor,
    Instance,
    LibObject,
    Memo,
    Method,
    Specialized,
    function_of,
    meta_method,
)
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def object_attr(interp: Run, owner: LibObject, name: str, loc: ir.Loc | None) -> Value:
    """Returns `owner.name` of an object that a library made."""
    if isinstance(owner, Modelled):
        return owner.attribute(interp, name, loc)
    if isinstance(owner.kwargs.get("kind"), CppType):  # an object of a class of C++
        found = interp.cpp.of_object(owner, name, loc)
        if found is not NotImplemented:
            return found
    if name in owner.attrs:
        return owner.attrs[name]
    made = object_methods.of(owner).attribute(interp, owner, name, loc)
    if made is not NotImplemented:
        return made
    made = library_field(owner, name)
    if made is not NotImplemented:
        return made
    held = isinstance(owner, (Stream, CurrentStream)) and name in ("handle", "ptr")
    if name == "cuda_stream" or held:  # the handle of one of the submission's own is followed as that stream
        return owner if lanes.is_stream(owner) else 0
    return Method(owner, name)


def call_object(site: Site, owner: LibObject) -> Any:
    """Calls an object that a library made."""
    if isinstance(owner, Modelled):
        return owner.called(site)
    if isinstance(owner.kwargs.get("kind"), CppType):
        bound = site.run.cpp.of_object(owner, "__call__", site.loc)
        if bound is not NotImplemented:
            return site.run.call(bound, site.args, site.kwargs, site.loc)
    made = object_methods.of(owner).called(site, owner)
    if made is not NotImplemented:
        return made
    if site.args and isinstance(site.args[0], (Func, Bound, ClassV)) and not tensor_arguments.tensors_in(site.args):
        return site.run.decorate(owner, site.args[0], site.loc)
    return foreign.foreign(site)


def call_method(
    interp: Run, owner: Value, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """Calls a method of a value that is not an object of the submission's classes."""
    if type(owner) is Tensor and name in torchlib.METADATA:
        return _tensor_method(interp, owner, name, args, kwargs, loc)
    if name in operators.DUNDERS and args and not isinstance(owner, (Instance, LibObject)):
        return operators.dunder(interp, owner, name, args[0], loc)
    if name in ("__setattr__", "__delattr__") and args and isinstance(args[0], Sym):
        tampering.called(Site(interp, f"builtins.type.{name}", loc, args, kwargs))
        return None
    if name in ("__getattr__", "__getattribute__") and args and not isinstance(owner, (Instance, LibObject)):
        return interp.get_attr(owner, str(args[0]), loc)
    if isinstance(owner, Tensor):
        return _tensor_method(interp, owner, name, args, kwargs, loc)
    made = plain_methods.call(interp, owner, name, args, kwargs, loc)
    if made is not NotImplemented:
        return made
    if isinstance(owner, (JitFunction, Configured)):
        return launches.method(interp, owner, name, args, kwargs, loc)
    if isinstance(owner, Specialized):
        return compiled.method(interp, owner, name, args, kwargs, loc)
    if isinstance(owner, Graph):
        return graphs.method(interp, owner, name, loc)
    if isinstance(owner, Memo) and name == "cache_clear":
        return owner.results.clear()
    if isinstance(owner, Instance):
        path = f"{owner.cls.name}.{name.removeprefix('super:')}"
        return module_methods.instance_method(Site(interp, path, loc, args, kwargs), owner)
    if isinstance(owner, LibObject):
        return object_methods.call(Site(interp, f"{owner.path}.{name}", loc, args, kwargs), owner)
    if isinstance(owner, DType) and name == "to":
        return owner
    if isinstance(owner, HostDescriptor):
        return owner
    return unknowns.merged(interp, owner, *args, why=f"{type(owner).__name__}.{name}")


def _tensor_method(
    interp: Run, owner: Tensor, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """Call a method of a tensor."""
    interp.may_call(f"torch.Tensor.{name}", args, kwargs, loc)
    if tensor_views.ARRAY in owner.attrs and not name.startswith("__"):
        found = arrays.method(interp, owner, name, args, kwargs, loc)
        site = Site(interp, f"cupy.ndarray.{name}", loc, [owner, *args], kwargs)
        return cupy.unknown(site) if found is NotImplemented else found
    if name in torchlib.METADATA and not kwargs:
        return torchlib.asked(interp, owner, name, args, loc)
    if name == "__getitem__":
        return tensor_views.index(interp, owner, args[0], loc)
    if name == "__setitem__" and len(args) == 2:
        return subscripts.set_item(interp, owner, args[0], args[1], loc)
    if name in ("backward", "retain_grad", "register_hook", "share_memory_", "pin_memory", "record_stream"):
        return owner if name == "pin_memory" else None
    if name in ("__dlpack__", "__cuda_array_interface__"):
        return owner
    if name in subclasses.SUBCLASSING:
        return subclasses.subclass(interp, name, [owner, *args], kwargs, loc)
    row = registry.of_tensor(name)
    made = row.library.tensor_method(owner, name) if row is not None else NotImplemented
    if made is not NotImplemented:
        return made
    made = torchlib.call(interp, f"torch.Tensor.{name}", [owner, *args], kwargs, loc)
    return subclasses.viewed(name, owner, made, loc)


def items_of(value: LibObject) -> Sequence[Any] | None:
    """Returns the items of a library's container object; None for other objects."""
    if isinstance(value, Counting):
        return itertools.count_range(value)
    items = value.attrs.get("items")
    return list(items) if isinstance(items, (list, dict, tuple)) else None


def get_item(interp: Run, owner: Value, key: Value, loc: ir.Loc | None) -> Value:
    """Evaluates `owner[key]` of an object that a library made."""
    if isinstance(owner, LibObject):
        if isinstance(owner, Environment):
            return environ.item(interp, key, loc)
        items = owner.attrs.get("items")
        if isinstance(items, (list, dict)):
            return subscripts.get_item(interp, items, key, loc)
        if isinstance(owner, UnreadKernel):
            return owner
        made = owner.item(interp, key, loc) if isinstance(owner, Modelled) else NotImplemented
        if made is not NotImplemented:
            return made
    if isinstance(owner, Extension):
        return interp.get_attr(owner, str(key), loc)
    if isinstance(owner, Sym) and owner.path.endswith(".__dict__"):
        return modules.member(interp, owner.path.removesuffix(".__dict__"), key, loc)
    if isinstance(owner, ClassV) and enums.is_enum(owner) and isinstance(key, str):
        return interp.get_attr(owner, str(key), loc)
    own = meta_method(owner, "__getitem__") or _subscripted(owner)
    if own is not None:
        return interp.call(own, [key], {}, loc)
    if isinstance(owner, (Sym, ClassV, LibObject)):
        return owner  # a subscripted type
    return unknowns.merged(interp, owner, key)


def _subscripted(owner: Value) -> Bound | None:
    """`__class_getitem__` of a class, which is a class method."""
    func = function_of(owner.get("__class_getitem__")) if isinstance(owner, ClassV) else None
    return Bound(owner, func) if isinstance(func, Func) else None


def set_item(interp: Run, owner: Value, key: Value, value: Value, loc: ir.Loc | None) -> None:
    """Evaluates `owner[key] = value` of an object that a library made."""
    if isinstance(owner, Environment):
        environ.put(interp, key, value)
    if isinstance(owner, (Unknown, Sym)):
        tampering.item_set(interp, owner, key, value, loc)
    if isinstance(owner, LibObject) and isinstance(owner.attrs.get("items"), (list, dict)):
        owner.attrs["items"][key] = value


attributes.READERS[LibObject] = object_attr
