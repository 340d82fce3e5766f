"""Attributes of interpreted values: what `owner.name` is, its assignment and its deletion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint import registry
from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import DType, Env, Func, JitFunction, Made, Sym, Value
from kbh_lint.frontends.walk import walk
from kbh_lint.host.datamodel import enums, exceptions, modules, names
from kbh_lint.host.effects import saved, tampering
from kbh_lint.host.python import class_attributes, classes, lanes, module_calls, module_tables
from kbh_lint.host.torch import subclasses, tensor_attributes
from kbh_lint.host.values import equality
from kbh_lint.host.values.containers import Defaults
from kbh_lint.host.values.cpp_objects import Pointer
from kbh_lint.host.values.frames import Frame, builtin
from kbh_lint.host.values.library_objects import Cell, Property
from kbh_lint.host.values.named_objects import Code, Thread
from kbh_lint.host.values.objects import (
    Blob,
    Bound,
    ClassV,
    Compiled,
    Config,
    Configured,
    Extension,
    Graph,
    HostDescriptor,
    Instance,
    LibObject,
    Memo,
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

CODE = "types.CodeType"

Reader = Callable[["Run", Any, str, "ir.Loc | None"], Any]  # (run, owner, name, place)
OF_LIBRARIES: dict[type, Reader] = {}  # attributes of what libraries make; filled where a library is modelled


def get_attr(interp: Run, owner: Value, name: str, loc: ir.Loc | None) -> Any:
    """`owner.name`."""
    if isinstance(owner, Sym):
        last = owner.path.rpartition(".")[2]
        if name == "value" and equality.is_success(owner):
            return 0
        if name == "__get__":  # a function of a library's class, as a method of an object
            return builtin(lambda i, a, k, where: owner if a[0] is None else Partial(owner, (a[0],), {}))
        if name in ("__name__", "__qualname__") and (last[:1].isupper() or owner.path.startswith("builtins.")):
            return last  # of a class
        return modules.resolve(interp, f"{owner.path}.{name}", loc)
    if isinstance(owner, Tensor):
        return tensor_attr(interp, owner, name, loc)
    if isinstance(owner, Instance):
        return instance_attr(interp, owner, name, loc)
    if isinstance(owner, ClassV):
        return class_attributes.attribute(interp, owner, name, loc)
    if isinstance(owner, Unknown):
        method = tampering.method_of(owner, name) or saved.method_of(owner, name)
        return method or owner.like(owner.contents, owner.made)
    row = registry.of_object(owner.path) if isinstance(owner, Made) else None
    if row is not None:
        return row.library.made_attribute(owner, name)
    reader = OF_LIBRARIES.get(LibObject if isinstance(owner, LibObject) else type(owner))
    if reader is not None:
        return reader(interp, owner, name, loc)
    if isinstance(owner, Extension):
        return extension_attr(interp, owner, name, loc)
    if isinstance(owner, (JitFunction, Configured, Graph, Compiled, Func, Partial, Memo, Bound)):
        return callable_attr(interp, owner, name, loc)
    if isinstance(owner, (DType, HostDescriptor, Config, Blob, Pointer)):
        return description_attr(owner, name)
    if name in ("__name__", "__qualname__") and hasattr(owner, "__kbh_name__"):
        return owner.__kbh_name__.rpartition(".")[2]
    if name in ("real", "imag", "numerator", "denominator") and isinstance(owner, (int, float, complex)):
        return getattr(owner, name, Unknown())
    if isinstance(owner, (enums.Number, enums.Word)):
        if name in ("name", "value", "_name_", "_value_"):
            return enums.member_attr(owner, name)
        if owner.cls.has(name):
            return class_attributes.of_member(interp, owner, owner.cls.find(name), loc)
    if name == "value" and isinstance(owner, (int, float)):
        return owner  # a ctypes number
    if name == "default_factory" and isinstance(owner, Defaults):
        return owner.factory
    if isinstance(owner, dict) and owner.get("__namespace__"):
        return owner.get(name, Unknown())
    if isinstance(owner, tuple) and tensor_attributes.RESULTS.get(name, len(owner)) < len(owner):
        return owner[tensor_attributes.RESULTS[name]]
    if isinstance(owner, Method) and isinstance(owner.self, Tensor):  # no method: a field of what an operation gave
        return Unknown(interp.contents_of(owner.self), f"{owner.name}.{name}", made=interp.trace.round)
    exceptions.no_attribute(interp, owner, name, loc)
    return Method(owner, name)


def tensor_attr(interp: Run, owner: Tensor, name: str, loc: ir.Loc | None) -> Any:
    """An attribute of a tensor, of torch or of what else adds one."""
    part = subclasses.part(owner, name)
    value = tensor_attributes.attribute(interp, owner, name, loc) if part is None else part
    row = registry.of_tensor(name) if value is NotImplemented else None
    if row is not None:
        value = row.library.tensor_attribute(owner, name)
    return Method(owner, name) if value is NotImplemented else value


def callable_attr(interp: Run, owner: Value, name: str, loc: ir.Loc | None) -> Any:
    """Looks an attribute up on a function, a kernel, or what wraps one (a partial, a bound method, a cache)."""
    if isinstance(owner, JitFunction) and name in ("fn", "__wrapped__"):
        return owner if owner.configs else owner.func
    if isinstance(owner, JitFunction) and name == "arg_names":
        return [p.name for p in owner.func.node.params]
    if isinstance(owner, JitFunction) and name in owner.func.attrs:
        return owner.func.attrs[name]
    if isinstance(owner, Func):
        if name in owner.attrs:
            return owner.attrs[name]
        if name == "__annotations__":
            return owner.attrs.setdefault(name, _annotations(interp, owner))
        if name == "__get__":
            return builtin(lambda i, a, k, where: owner if a[0] is None else Bound(a[0], owner))
        if name == "__code__":
            return owner.attrs.setdefault(name, Code(CODE, {"func": owner}))
        if name == "__closure__":
            return _closure(owner)
        if name == "__defaults__":
            given = [param.name for param in owner.node.params if param.kind == "positional"]
            return tuple(owner.defaults[each] for each in given if each in owner.defaults) or None
        return {
            "__name__": owner.node.name,
            "__qualname__": owner.node.name,
            "__doc__": owner.node.doc,
            "__wrapped__": owner,
        }.get(name, Unknown())
    if isinstance(owner, Partial):
        return {"func": owner.func, "args": owner.args, "keywords": owner.kwargs}.get(name, Unknown())
    if isinstance(owner, Memo) and name == "__wrapped__":
        return owner.func
    if isinstance(owner, Compiled) or isinstance(owner, Bound) and isinstance(owner.func, Memo):
        return get_attr(interp, owner.func, name, loc)
    if isinstance(owner, Bound) and name in ("__func__", "__self__"):
        return owner.func if name == "__func__" else owner.self
    return Method(owner, name)


def _closure(func: Func) -> tuple[Cell, ...] | None:
    """The cells of a function, in the order of their names."""
    cells = []
    for name in sorted({node.id for node in walk(func.node.body) if isinstance(node, ir.Name)}):
        env: Env | None = func.env
        while env is not None and name not in env.vars:
            env = env.parent
        if env is not None and env.parent is not None:
            cells.append(Cell(env, name))
    return tuple(cells) or None


def _annotations(interp: Run, func: Func) -> dict[str, Any]:
    """What the parameters of a function, and its result, are said to be."""
    frame = Frame(func.env, names.globals_of(interp, func), None, None)
    said = [(param.name, param.type) for param in func.node.params] + [("return", func.node.returns)]
    return {name: interp.eval(node, frame) for name, node in said if node is not None}


# Attributes of a host's TMA descriptor, as Triton names them; a hook of a configuration sets the block's shape.
_OF_A_DESCRIPTOR = {"base": "tensor", "shape": "shape", "strides": "strides", "block_shape": "block"}


def description_attr(owner: DType | HostDescriptor | Config | Blob | Pointer, name: str) -> Any:
    """An attribute of an element type, a descriptor, a configuration, foreign code or a pointer."""
    if isinstance(owner, DType):
        return {
            "itemsize": dtypes.STORED.get(owner.name, 8) // 8,
            "is_floating_point": owner.name in dtypes.FLOATS,
            "width": dtypes.BITS.get(owner.name, 32),
        }.get(name, Method(owner, name))
    if isinstance(owner, HostDescriptor):
        if name == "shape" and owner.shape is None:
            return owner.tensor.shape
        return getattr(owner, _OF_A_DESCRIPTOR[name]) if name in _OF_A_DESCRIPTOR else Method(owner, name)
    if isinstance(owner, Config):
        if name == "all_kwargs":
            return Method(owner, name)
        own = {"kwargs": owner.kwargs, "pre_hook": owner.hook, **owner.options}
        return own[name] if name in own else owner.kwargs.get(name, Unknown())
    if isinstance(owner, Blob):
        return Blob(f"{owner.path}:{name}", owner.loc)
    return DType(owner.dtype) if name in ("value_type", "dtype", "element_type") else Method(owner, name)


def instance_attr(interp: Run, owner: Instance, name: str, loc: ir.Loc | None) -> Any:
    """An attribute of an object of the submission, by its own `__getattribute__` where it has one."""
    own = find_method(owner, "__getattribute__")
    if own is not None:
        return interp.call(own, [name], {}, loc)
    return plain_attr(interp, owner, name, loc)


def plain_attr(interp: Run, owner: Instance, name: str, loc: ir.Loc | None) -> Any:
    """An attribute as `object.__getattribute__` finds it."""
    if name in owner.attrs:
        first = data_descriptor(owner.cls, name)
        return owner.attrs[name] if first is None else classes.bind(interp, owner, first, loc)
    if name == "__dict__":
        return owner.attrs
    if name == "__class__":
        return owner.cls
    try:
        found = owner.cls.find(name)
        value = classes.bind(interp, owner, found, loc)
        if isinstance(found, LibObject) and found.attrs.get("cached"):
            owner.attrs[name] = value  # functools.cached_property: from here on, it hides the property
        return value
    except KeyError:
        pass
    if is_module(owner.cls):
        if name == "training":
            return interp.training
        if name in module_calls.TABLES:
            return module_calls.table(owner.attrs, name)
        if name in module_tables.NAMES:
            return module_tables.Table(owner, name)
        own = find_method(owner, "__getattr__") if name not in module_calls.NAMES and name[:2] != "__" else None
        return Method(owner, name) if own is None else interp.call(own, [name], {}, loc)
    if owner.cls.external_bases() and name in ("apply", "save_for_backward"):
        return Method(owner, name)
    if owner.items is not None and (hasattr(dict, name) or name in ("data", "move_to_end")):
        return owner.items if name == "data" else Method(owner.items, name)
    if name in ("_replace", "_asdict", "index", "count") and is_named_tuple(owner):
        return Method(owner, name)
    if name in ("_fields", "_make") and is_named_tuple(owner):
        return class_attributes.attribute(interp, owner.cls, name, loc)
    if any(issubclass(class_of(path), Thread) for path in owner.cls.external_bases()):
        return Method(lanes.of_object(owner), name)
    try:
        fallback = owner.cls.find("__getattr__")
    except KeyError:
        if any(hasattr(base, "__kbh_name__") for cls in owner.cls.mro() for base in cls.bases):
            interp.miss("what a class inherits from a list, a text or a number is not followed", loc)
            return Unknown((), name)
        exceptions.raise_("AttributeError", [name], loc)
    return interp.call(Bound(owner, fallback), [name], {}, loc)


def data_descriptor(cls: ClassV, name: str) -> Any:
    """The member of a class that comes before what an object holds under its name: a property, or an object that
    has `__set__`; None where there is no such member."""
    for base in cls.mro():
        if name in base.env.vars:
            found = base.env.vars[name]
            if isinstance(found, LibObject):
                return found if isinstance(found, Property) and not found.cached else None
            return found if isinstance(found, Instance) and find_method(found, "__set__") is not None else None
    return None


def extension_attr(interp: Run, owner: Extension, name: str, loc: ir.Loc | None) -> Any:
    """A function or attribute of a module that was built from C++."""
    if name in owner.attrs:
        return owner.attrs[name]
    found = interp.cpp.exported(owner, name)
    if found is None and name in ("__getattr__", "__getattribute__", "__dict__"):
        return Method(owner, name)
    if found is None:
        interp.miss(f"extension {owner.name} has no readable function {name}", loc)
        return Unknown((), "extension function")
    return found


def set_attr(interp: Run, owner: Value, name: str, value: Value, loc: ir.Loc | None) -> None:
    """`owner.name = value`."""
    own = find_method(owner, "__setattr__") if isinstance(owner, Instance) else None
    if own is not None:
        interp.call(own, [name, value], {}, loc)
    else:
        if isinstance(owner, Instance) and owner.cls.frozen:
            interp.may_fail("FrozenInstanceError", loc)
        set_plain(interp, owner, name, value, loc)


def set_plain(interp: Run, owner: Value, name: str, value: Value, loc: ir.Loc | None) -> None:
    """The same, as `object.__setattr__` does it."""
    if isinstance(owner, Instance):
        found = owner.cls.get(name)
        if isinstance(found, Property) and not found.cached:
            if found.setter is None:
                interp.may_fail("AttributeError", loc)
            else:
                interp.call(Bound(owner, found.setter), [value], {}, loc)
                return
        setter = find_method(found, "__set__") if isinstance(found, Instance) else None
        if setter is not None:
            interp.call(setter, [owner, value], {}, loc)
            return
        if interp.trying and _is_slotted(owner.cls, name):
            interp.may_fail("AttributeError", loc)
        if name == "__class__" and isinstance(value, ClassV):
            owner.cls = value
            return
        if name == "__dict__" and isinstance(value, dict):
            owner.attrs = value
            return
        if isinstance(value, Tensor) and value.parameter:
            owner.buffers.setdefault(name, True)
        owner.attrs[name] = value
    elif isinstance(owner, ClassV):
        if isinstance(value, Func) and value.cls is None:
            value.cls = owner
        owner.env.vars[name] = value
    elif isinstance(owner, Cell) and name == "cell_contents":
        owner.env.vars[owner.name] = value
    elif isinstance(owner, (LibObject, Extension, Graph)):
        owner.attrs[name] = value
    elif isinstance(owner, HostDescriptor):
        if name in _OF_A_DESCRIPTOR:
            setattr(owner, _OF_A_DESCRIPTOR[name], value)
    elif isinstance(owner, Tensor):
        if name == "data" and isinstance(value, Tensor):
            owner.storage, owner.shape, owner.dtype, owner.strides = (
                value.storage,
                value.shape,
                value.dtype,
                value.strides,
            )
        elif (row := registry.of_tensor(name)) is None or not row.library.set_tensor_attribute(owner, name, value):
            owner.attrs[name] = value
    elif isinstance(owner, Sym):
        modules.patched(interp, owner.path, name, value, loc)
    elif isinstance(owner, Unknown):
        tampering.attribute_set(interp, owner, name, loc)
    elif isinstance(owner, Func):
        _set_of_function(owner, name, value)
    elif isinstance(owner, JitFunction):
        owner.func.attrs[name] = value


def _is_slotted(cls: ClassV, name: str) -> bool:
    """Whether the slots of a class leave no room for an attribute."""
    slots = [base.env.vars.get("__slots__") for base in cls.mro()]
    if None in slots or cls.external_bases() or name.startswith("__"):
        return False
    return not any(name == slot if isinstance(slot, str) else name in (slot or ()) for slot in slots)


def _set_of_function(owner: Func, name: str, value: Value) -> None:
    """`function.name = value`; its code and its defaults are what a call uses from then on."""
    code = value.attrs.get("func") if isinstance(value, Code) else None
    params = [param.name for param in owner.node.params if param.kind == "positional"]
    if name == "__code__" and isinstance(code, Func):
        owner.node, owner.attrs[name] = code.node, value
    elif name == "__defaults__" and (value is None or isinstance(value, tuple)):
        given = value or ()
        for param in params:
            owner.defaults.pop(param, None)
        owner.defaults.update(zip(params[len(params) - len(given) :], given, strict=False))
    elif name == "__kwdefaults__" and isinstance(value, dict):
        owner.defaults.update(value)
    else:
        owner.attrs[name] = value


def del_attr(interp: Run, owner: Value, name: str, loc: ir.Loc | None) -> None:
    """`del owner.name`, by the class's own `__delattr__` where it has one."""
    own = find_method(owner, "__delattr__") if isinstance(owner, Instance) else None
    if own is not None:
        interp.call(own, [name], {}, loc)
    elif isinstance(owner, Instance) and isinstance(gone := data_descriptor(owner.cls, name), LibObject):
        if gone.attrs.get("deleter") is not None:
            interp.call(Bound(owner, gone.attrs["deleter"]), [], {}, loc)
    elif isinstance(owner, (Instance, LibObject, Func)):
        owner.attrs.pop(name, None)
    elif isinstance(owner, ClassV):
        owner.env.vars.pop(name, None)
    elif isinstance(owner, Sym):
        modules.patched(interp, owner.path, name, Unknown((), "nothing"), loc)
