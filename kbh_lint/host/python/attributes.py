"""Attributes of interpreted values: what `owner.name` is, its assignment and its deletion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint import registry
from kbh_lint.base import dtypes, ir
from kbh_lint.base.by_class import ByClass
from kbh_lint.base.values import DType, Func, Made, Sym, Value
from kbh_lint.host.datamodel import c_structs, enums, exceptions, modules
from kbh_lint.host.effects import foreign, modes, saved, tampering
from kbh_lint.host.python import class_attributes, classes, function_attributes, lanes, module_calls, module_tables
from kbh_lint.host.torch import recording, subclasses, tensor_attributes
from kbh_lint.host.torch.arrays import calls
from kbh_lint.host.torch.aten_names import family
from kbh_lint.host.values import equality
from kbh_lint.host.values.containers import Defaults
from kbh_lint.host.values.cpp_objects import Pointer
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.library_objects import Cell, Property
from kbh_lint.host.values.named_objects import Thread
from kbh_lint.host.values.objects import (
    Blob,
    Bound,
    ClassV,
    Config,
    Extension,
    Graph,
    HostDescriptor,
    Instance,
    LibObject,
    Method,
    Partial,
    class_of,
    find_method,
    is_module,
    is_named_tuple,
)
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

Reader = Callable[["Run", Any, str, "ir.Loc | None"], Value]  # (run, owner, name, place)


def _of_symbol(interp: Run, owner: Sym, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of something outside the submission."""
    last = owner.path.rpartition(".")[2]
    if name == "value" and (number := equality.status(owner)) is not None:
        return number
    if name == "__get__":  # a function of a library's class, as a method of an object
        return builtin(lambda i, a, k, where: owner if a[0] is None else Partial(owner, (a[0],), {}))
    if name in ("__name__", "__qualname__") and (last[:1].isupper() or owner.path.startswith("builtins.")):
        return last  # of a class
    return modules.resolve(interp, f"{owner.path}.{name}", loc)


def _of_unknown(interp: Run, owner: Unknown, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of what nobody knows."""
    if owner.contents and family(name) == "selection":  # of an array of numpy
        made = recording.ordered(interp, name, owner, loc)
        return owner if made is None else made
    method = tampering.method_of(owner, name) or saved.method_of(owner, name)
    return method or owner.like(owner.contents, owner.made)


def _of_made(interp: Run, owner: Made, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of what a kernel language made for a kernel."""
    row = registry.of_object(owner.path)
    return _of_any(interp, owner, name, loc) if row is None else row.library.made_attribute(owner, name)


def tensor_attr(interp: Run, owner: Tensor, name: str, loc: ir.Loc | None) -> Value:
    """Returns `tensor.name`: an attribute of torch's, or one that another package adds to tensors."""
    part = calls.attribute(interp, owner, name, loc) if calls.is_array(owner) else subclasses.part(owner, name)
    value = tensor_attributes.attribute(interp, owner, name, loc) if part is None else part
    row = registry.of_tensor(name) if value is NotImplemented else None
    value = value if row is None else row.library.tensor_attribute(owner, name)
    if value is NotImplemented and interp.trying and row is None:
        exceptions.no_tensor_attribute(interp, owner, name, loc)
    return Method(owner, name) if value is NotImplemented else value


# Attributes of a host's TMA descriptor, as Triton names them; a hook of a configuration sets the block's shape.
_OF_A_DESCRIPTOR = {"base": "tensor", "shape": "shape", "strides": "strides", "block_shape": "block"}


def _of_type(interp: Run, owner: DType, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of an element type."""
    return {
        "itemsize": dtypes.STORED.get(owner.name, 8) // 8,
        "is_floating_point": owner.name in dtypes.FLOATS,
        "width": dtypes.BITS.get(owner.name, 32),
    }.get(name, Method(owner, name))


def _of_descriptor(interp: Run, owner: HostDescriptor, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of a host's TMA descriptor."""
    if name == "shape" and owner.shape is None:
        return owner.tensor.shape
    return getattr(owner, _OF_A_DESCRIPTOR[name]) if name in _OF_A_DESCRIPTOR else Method(owner, name)


def _of_config(interp: Run, owner: Config, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of a configuration of a kernel."""
    if name == "all_kwargs":
        return Method(owner, name)
    own = {"kwargs": owner.kwargs, "pre_hook": owner.hook, **owner.options}
    return own[name] if name in own else owner.kwargs.get(name, Unknown())


def _of_blob(interp: Run, owner: Blob, name: str, loc: ir.Loc | None) -> Value:
    """A part of foreign code."""
    return foreign.part_of(owner, name)


def _of_pointer(interp: Run, owner: Pointer, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of a pointer."""
    return DType(owner.dtype) if name in ("value_type", "dtype", "element_type") else Method(owner, name)


def instance_attr(interp: Run, owner: Instance, name: str, loc: ir.Loc | None) -> Value:
    """Returns `owner.name` of an object of the submission, by its own `__getattribute__` where it has one."""
    own = find_method(owner, "__getattribute__")
    return plain_attr(interp, owner, name, loc) if own is None else interp.call(own, [name], {}, loc)


def plain_attr(interp: Run, owner: Instance, name: str, loc: ir.Loc | None) -> Value:
    """Returns `owner.name` as `object.__getattribute__` finds it."""
    if name in owner.attrs:
        first = classes.data_descriptor(owner.cls, name)
        return owner.attrs[name] if first is None else classes.bind(interp, owner, first, loc)
    if name == "__dict__":
        return owner.attrs
    if name == "__class__":
        return owner.cls
    if name in module_calls.SET and is_module(owner.cls) and classes.data_descriptor(owner.cls, name) is None:
        return _of_module(interp, owner, name, loc)
    try:
        found = owner.cls.find(name)
        value = classes.bind(interp, owner, found, loc)
        if isinstance(found, LibObject) and found.attrs.get("cached"):
            owner.attrs[name] = value  # functools.cached_property: from here on, it hides the property
        return value
    except KeyError:
        pass
    if is_module(owner.cls):
        return _of_module(interp, owner, name, loc)
    value = _inherited(interp, owner, name, loc)
    return _missing(interp, owner, name, loc) if value is NotImplemented else value


def _of_module(interp: Run, owner: Instance, name: str, loc: ir.Loc | None) -> Value:
    """What `torch.nn.Module` has."""
    if name == "training":
        return interp.training
    if name in module_calls.TABLES:
        return module_calls.table(owner.attrs, name)
    if name in module_tables.NAMES:
        return module_tables.Table(owner, name)
    if name in module_calls.SET:
        return owner.attrs.setdefault(name, module_calls.SET[name]())
    own = find_method(owner, "__getattr__") if name not in module_calls.NAMES and name[:2] != "__" else None
    return Method(owner, name) if own is None else interp.call(own, [name], {}, loc)


def _inherited(interp: Run, owner: Instance, name: str, loc: ir.Loc | None) -> Value:
    """What other classes of libraries, or a tuple with names for its fields, have; NotImplemented for other names."""
    if owner.cls.external_bases() and name in ("apply", "save_for_backward"):
        return Method(owner, name)
    if name in ("value", "contents") and c_structs.is_struct(owner.cls):
        return owner  # a pointer to it
    if name in modes.METHODS and modes.is_mode(owner.cls):
        return modes.method(owner, name)
    if owner.items is not None and (hasattr(dict, name) or name in ("data", "move_to_end")):
        return owner.items if name == "data" else Method(owner.items, name)
    if name in ("_replace", "_asdict", "index", "count") and is_named_tuple(owner):
        return Method(owner, name)
    if name in ("_fields", "_make") and is_named_tuple(owner):
        return class_attributes.attribute(interp, owner.cls, name, loc)
    if any(issubclass(class_of(path), Thread) for path in owner.cls.external_bases()):
        return Method(lanes.of_object(owner), name)
    return NotImplemented


def _missing(interp: Run, owner: Instance, name: str, loc: ir.Loc | None) -> Value:
    """What `__getattr__` of a class makes of a name that nothing has."""
    try:
        fallback = owner.cls.find("__getattr__")
    except KeyError:
        if any(hasattr(base, "__kbh_name__") for cls in owner.cls.mro() for base in cls.bases):
            interp.miss("what a class inherits from a list, a text or a number is not followed", loc)
            return Unknown((), name)
        exceptions.raise_("AttributeError", [name], loc)
    return interp.call(Bound(owner, fallback), [name], {}, loc)


def extension_attr(interp: Run, owner: Extension, name: str, loc: ir.Loc | None) -> Value:
    """Returns a function or attribute of a module that was built from C++."""
    if name in owner.attrs:
        return owner.attrs[name]
    found = interp.cpp.exported(owner, name)
    if found is None and name in ("__getattr__", "__getattribute__", "__dict__"):
        return Method(owner, name)
    if found is None:
        interp.miss(f"extension {owner.name} has no readable function {name}", loc)
        return Unknown((), "extension function")
    return found


# --- plain values


def _of_any(interp: Run, owner: Value, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of a value of Python: a method, where its class has one of the name."""
    if name in ("__name__", "__qualname__") and hasattr(owner, "__kbh_name__"):
        return owner.__kbh_name__.rpartition(".")[2]
    exceptions.no_attribute(interp, owner, name, loc)
    return Method(owner, name)


def _of_number(interp: Run, owner: complex, name: str, loc: ir.Loc | None) -> Value:
    """A part of a number, or its value, where it is one of ctypes."""
    if name in class_attributes.PARTS:
        return getattr(owner, name, Unknown())
    return owner if name == "value" and isinstance(owner, (int, float)) else _of_any(interp, owner, name, loc)


def _of_member(interp: Run, owner: enums.Number | enums.Word, name: str, loc: ir.Loc | None) -> Value:
    """An attribute of a member of an enumeration that is a number or a text."""
    made = class_attributes.of_member(interp, owner, name, loc)
    if made is not NotImplemented:
        return made
    return _of_number(interp, owner, name, loc) if isinstance(owner, int) else _of_any(interp, owner, name, loc)


def _of_dict(interp: Run, owner: dict[Any, Any], name: str, loc: ir.Loc | None) -> Value:
    """An attribute of a dict: what a namespace holds, or what makes missing entries."""
    if name == "default_factory" and isinstance(owner, Defaults):
        return owner.factory
    return owner.get(name, Unknown()) if owner.get("__namespace__") else _of_any(interp, owner, name, loc)


def _of_tuple(interp: Run, owner: tuple[Value, ...], name: str, loc: ir.Loc | None) -> Value:
    """One of the results of an operation, by its name."""
    at = tensor_attributes.RESULTS.get(name, len(owner))
    return owner[at] if at < len(owner) else _of_any(interp, owner, name, loc)


def _of_method(interp: Run, owner: Method, name: str, loc: ir.Loc | None) -> Value:
    """What is no method of a tensor after all is a field of what an operation gave."""
    if isinstance(owner.self, Tensor):
        return Unknown(interp.contents_of(owner.self), f"{owner.name}.{name}", made=interp.trace.round)
    return _of_any(interp, owner, name, loc)


# What `owner.name` is, by the class of the owner; libraries add what they make.
READERS = ByClass[Reader](
    {
        Sym: _of_symbol,
        Tensor: tensor_attr,
        Instance: instance_attr,
        ClassV: class_attributes.attribute,
        Unknown: _of_unknown,
        Made: _of_made,
        Extension: extension_attr,
        **function_attributes.READERS,
        DType: _of_type,
        HostDescriptor: _of_descriptor,
        Config: _of_config,
        Blob: _of_blob,
        Pointer: _of_pointer,
        **dict.fromkeys((int, float, complex), _of_number),
        **dict.fromkeys((enums.Number, enums.Word), _of_member),
        dict: _of_dict,
        tuple: _of_tuple,
        Method: _of_method,
    },
    _of_any,
)


def set_attr(interp: Run, owner: Value, name: str, value: Value, loc: ir.Loc | None) -> None:
    """Evaluates `owner.name = value`."""
    own = find_method(owner, "__setattr__") if isinstance(owner, Instance) else None
    if own is not None:
        interp.call(own, [name, value], {}, loc)
    else:
        if isinstance(owner, Instance) and owner.cls.frozen:
            interp.may_fail("FrozenInstanceError", loc)
        if isinstance(owner, Instance) and isinstance(value, Tensor) and value.parameter:
            module_tables.check_free(interp, owner, name, loc)
        set_plain(interp, owner, name, value, loc)


def set_plain(interp: Run, owner: Value, name: str, value: Value, loc: ir.Loc | None) -> None:
    """Evaluates `object.__setattr__(owner, name, value)`."""
    _WRITERS[type(owner)](interp, owner, name, value, loc)


def _put_in_instance(interp: Run, owner: Instance, name: str, value: Value, loc: ir.Loc | None) -> None:
    """An attribute of an object of the submission; a property or an object with `__set__` comes before it."""
    found = owner.cls.get(name)
    setter = find_method(found, "__set__") if isinstance(found, Instance) else None
    if isinstance(found, Property) and not found.cached:
        if found.setter is not None:
            interp.call(Bound(owner, found.setter), [value], {}, loc)
            return
        interp.may_fail("AttributeError", loc)
    if setter is not None:
        interp.call(setter, [owner, value], {}, loc)
        return
    if interp.trying and classes.is_slotted(owner.cls, name):
        interp.may_fail("AttributeError", loc)
    if name == "__class__" and isinstance(value, ClassV):
        owner.cls = value
    elif name == "__dict__" and isinstance(value, dict):
        owner.attrs = value
    else:
        if isinstance(value, Tensor) and value.parameter:
            owner.buffers.setdefault(name, True)
        owner.attrs[name] = value


def _put_in_cell(interp: Run, owner: Cell, name: str, value: Value, loc: ir.Loc | None) -> None:
    """What a variable of a closure holds."""
    if name == "cell_contents":
        owner.env.vars[owner.name] = value
    else:
        owner.attrs[name] = value


def _put_in_object(
    interp: Run, owner: LibObject | Extension | Graph, name: str, value: Value, loc: ir.Loc | None
) -> None:
    """An attribute of an object of a library."""
    owner.attrs[name] = value


def _put_in_descriptor(interp: Run, owner: HostDescriptor, name: str, value: Value, loc: ir.Loc | None) -> None:
    """An attribute of a TMA descriptor."""
    if name in _OF_A_DESCRIPTOR:
        setattr(owner, _OF_A_DESCRIPTOR[name], value)


def _put_in_tensor(interp: Run, owner: Tensor, name: str, value: Value, loc: ir.Loc | None) -> None:
    """`tensor.data = other`, what a kernel language adds, or an attribute of its own."""
    if name == "data" and isinstance(value, Tensor):
        owner.storage, owner.shape, owner.dtype, owner.strides = value.storage, value.shape, value.dtype, value.strides
    elif (row := registry.of_tensor(name)) is None or not row.library.set_tensor_attribute(owner, name, value):
        owner.attrs[tensor_attributes.added(name)] = value


def _put_in_library(interp: Run, owner: Sym, name: str, value: Value, loc: ir.Loc | None) -> None:
    """Something of a library is replaced."""
    modules.patched(interp, owner.path, name, value, loc)


def _put_in_unknown(interp: Run, owner: Unknown, name: str, value: Value, loc: ir.Loc | None) -> None:
    """Something of what nobody knows is replaced."""
    tampering.attribute_set(interp, owner, name, loc)


_WRITERS = ByClass[Callable[["Run", Any, str, Value, "ir.Loc | None"], None]](
    {
        Instance: _put_in_instance,
        ClassV: class_attributes.put,
        Cell: _put_in_cell,
        **dict.fromkeys((LibObject, Extension, Graph), _put_in_object),
        HostDescriptor: _put_in_descriptor,
        Tensor: _put_in_tensor,
        Sym: _put_in_library,
        Unknown: _put_in_unknown,
        **function_attributes.WRITERS,
    },
    function_attributes.put_nowhere,
)


def del_attr(interp: Run, owner: Value, name: str, loc: ir.Loc | None) -> None:
    """Evaluates `del owner.name`, by the class's own `__delattr__` where it has one."""
    own = find_method(owner, "__delattr__") if isinstance(owner, Instance) else None
    if own is not None:
        interp.call(own, [name], {}, loc)
    elif isinstance(owner, Instance) and isinstance(gone := classes.data_descriptor(owner.cls, name), LibObject):
        if gone.attrs.get("deleter") is not None:
            interp.call(Bound(owner, gone.attrs["deleter"]), [], {}, loc)
    elif isinstance(owner, Instance) and (gone := classes.deleter(owner.cls, name)) is not None:
        interp.call(gone, [owner], {}, loc)
    elif isinstance(owner, (Instance, LibObject, Func, Tensor)):
        owner.attrs.pop(tensor_attributes.added(name) if isinstance(owner, Tensor) else name, None)
    elif isinstance(owner, ClassV):
        owner.env.vars.pop(name, None)
    elif isinstance(owner, Sym):
        modules.patched(interp, owner.path, name, Unknown((), "nothing"), loc)
