"""Classes of the submission: making an object, calling it, and what a method is bound to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Func, Sym, Value
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.host.datamodel import c_structs, enums
from kbh_lint.host.python import class_making, lifetimes, module_calls
from kbh_lint.host.values import records
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.library_objects import ClassMethod, Property, StaticMethod, Super
from kbh_lint.host.values.objects import (
    Bound,
    ClassV,
    Compiled,
    Instance,
    LibObject,
    Memo,
    Method,
    find_method,
    is_module,
    meta_method,
)
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

ABSTRACT = "__isabstractmethod__"
DICTS = ("OrderedDict", "UserDict", "defaultdict")


def instantiate(
    interp: Run, cls: ClassV, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None, plainly: bool = False
) -> Any:
    """Evaluates `cls(...)`; with `plainly`, ignores the `__call__` of its metaclass."""
    bases = cls.external_bases()
    called = None if plainly else meta_method(cls, "__call__")
    if called is not None:
        return interp.call(called, args, kwargs, loc)
    if "builtins.type" in bases or interp.builtins["type"] in [base for c in cls.mro() for base in c.bases]:
        return class_making.of_call(interp, args, kwargs, loc, cls)
    if interp.trying and "abc.ABC" in bases and _is_abstract(cls):
        interp.may_fail("TypeError", loc)
    if enums.is_enum(cls):
        return enums.look_up(interp, cls, args, loc)
    if "typing.TypedDict" in bases:
        return interp.call(interp.builtins["dict"], args, kwargs, loc)
    instance = Instance(cls)
    whole = records.is_record(cls)
    for base in cls.mro():
        maker = base.env.vars.get("__new__")
        if isinstance(maker, Func):  # a singleton, say
            made = interp.call(maker, [cls, *args], kwargs, loc)
            if not isinstance(made, Instance) or cls not in made.cls.mro():
                return made  # of another class: its own __init__ is all that ran
            instance, whole = made, whole and cls.dataclass
            break
    lifetimes.made(interp, instance)
    if holds_items(interp, cls):
        instance.items = {} if cls.has("__init__") else interp.call(interp.builtins["dict"], args, kwargs, loc)
    if is_exception(cls):
        instance.attrs.update({"args": tuple(args), "__cause__": None, "__context__": None, "__traceback__": None})
    c_structs.begin(instance, args, kwargs)
    init = find_method(instance, "__init__")
    if init is not None:
        interp.call(init, args, kwargs, loc)
        if is_module(cls) and not any(map(_begins, cls.mro())):
            interp.fails("builtins.AttributeError", loc, f"{cls.name} does not call the constructor of torch.nn.Module")
        return instance
    if whole:
        records.fill(interp, instance, args, kwargs, loc)
    if is_module(cls):
        interp.call(Method(instance, "__init__"), args, kwargs, loc)
    return instance


def _begins(cls: ClassV) -> bool:
    """Whether a class may call the constructors of its bases: somewhere in it, or as one that is made otherwise."""
    init = cls.env.vars.get("__init__")
    others = any(not isinstance(base, (ClassV, Sym)) for base in cls.bases)
    if others or cls.dataclass or init is None and cls.env.vars.get("__new__") is not None:
        return True
    named = (value.node for value in cls.env.vars.values() if isinstance(value, Func))
    return init is not None and (
        not isinstance(init, Func) or bool(init.node.decorators) or any(map(_names_init, named))
    )


@by_node
def _names_init(node: ir.FuncDef) -> bool:
    words = (each.value if isinstance(each, ir.Const) else getattr(each, "name", "") for each in walk(node.body or ()))
    return any(word == "__init__" for word in words)


def holds_items(interp: Run, cls: ClassV) -> bool:
    """Whether objects of a class are dicts."""
    direct = [base for c in cls.mro() for base in c.bases]
    return interp.builtins["dict"] in direct or any(b.rpartition(".")[2] in DICTS for b in cls.external_bases())


def is_exception(cls: ClassV) -> bool:
    """Whether a class derives from one of Python's exceptions."""
    return any(base.endswith(("Exception", "Error", "Warning")) for base in cls.external_bases())


def _is_abstract(cls: ClassV) -> bool:
    """Whether a class leaves an abstract method to those that derive from it."""
    names = {name: value for base in reversed(cls.mro()) for name, value in base.env.vars.items()}
    return any(isinstance(value, Func) and ABSTRACT in value.attrs for value in names.values())


def call_instance(interp: Run, owner: Instance, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Calls an object of the submission: its `__call__`, torch's call of a module's `forward`, or the `forward` of a
    class that is no module."""
    called = owner.cls.has("__call__")
    if is_module(owner.cls) and not called:
        return module_calls.call(interp, owner, args, kwargs, loc)
    own = None if called else owner.attrs.get("forward")
    if own is not None:
        return interp.call(own, args, kwargs, loc)
    if called or owner.cls.has("forward"):
        found = owner.cls.find("__call__" if called else "forward")
        return interp.call(bind(interp, owner, found, loc), args, kwargs, loc)
    interp.lost("an object without __call__ was called", loc)
    return Unknown()


def bind(interp: Run, owner: Instance | ClassV, found: Value, loc: ir.Loc | None) -> Any:
    """Returns what `owner.name` is for the class member `found`: a bound method, or what a descriptor returns."""
    if isinstance(found, Property):
        return interp.call(Bound(owner, found.getter), [], {}, loc)
    if isinstance(found, StaticMethod):
        return found.func
    if isinstance(found, ClassMethod):
        return Bound(owner.cls if isinstance(owner, Instance) else owner, found.func)
    if isinstance(found, (Func, Memo, Compiled)) or hasattr(found, "__kbh_method__"):
        return Bound(owner, found)
    getter = find_method(found, "__get__") if isinstance(found, Instance) else None
    kind = owner.cls if isinstance(owner, Instance) else owner.meta
    return interp.call(getter, [owner, kind], {}, loc) if getter is not None else found


def super_(interp: Run, args: Sequence[Value], frame: Frame) -> Value:
    """Evaluates `super()` or `super(cls, owner)`."""
    owner = args[1] if len(args) > 1 else frame.env.vars.get("self", next(iter(frame.env.vars.values()), None))
    cls = args[0] if args else frame.cls
    return Super(owner, cls)


def data_descriptor(cls: ClassV, name: str) -> Value:
    """Returns the class member that takes precedence over an object's own attribute `name`: a property, or an object
    with `__set__`; None without one."""
    for base in cls.mro():
        if name in base.env.vars:
            found = base.env.vars[name]
            if isinstance(found, LibObject):
                return found if isinstance(found, Property) and not found.cached else None
            return found if isinstance(found, Instance) and find_method(found, "__set__") is not None else None
    return None


def deleter(cls: ClassV, name: str) -> Value:
    """Returns what runs for `del owner.name`, where the class has an object with `__delete__` there; None otherwise."""
    found = cls.get(name)
    return find_method(found, "__delete__") if isinstance(found, Instance) else None


def is_slotted(cls: ClassV, name: str) -> bool:
    """Whether `__slots__` of a class forbid an attribute of this name."""
    slots = [base.env.vars.get("__slots__") for base in cls.mro()]
    if None in slots or cls.external_bases() or name.startswith("__"):
        return False
    return not any(name == slot if isinstance(slot, str) else name in (slot or ()) for slot in slots)
