"""The built-in functions that ask objects for their attributes and for what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Func, JitFunction, Sym, Value
from kbh_lint.host.datamodel import exceptions, modules, typetests
from kbh_lint.host.python import class_making
from kbh_lint.host.torch import torchlib
from kbh_lint.host.values import keys, taint, unbound, unknowns
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import Raised, builtin
from kbh_lint.host.values.library_objects import OwnModule
from kbh_lint.host.values.named_objects import Namespace
from kbh_lint.host.values.objects import ClassV, Instance, LibObject, find_method, is_module, meta_method
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


@builtin
def _isinstance(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return typetests.is_instance(interp, args[0], args[1] if len(args) > 1 else ())


@builtin
def _issubclass(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return typetests.is_subclass(interp, args[0], args[1] if len(args) > 1 else ())


@builtin
def _getattr(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    owner, name = args[0], args[1]
    if not isinstance(name, str):
        return unknowns.merged(interp, owner, name, why="an attribute by unknown name")
    if len(args) > 2 and isinstance(owner, Sym) and _may_lack(interp, owner, name):
        has = has_library_attr(interp, f"{owner.path}.{name}")
        return interp.get_attr(owner, str(name), loc) if interp.truth(has, loc) else args[2]
    if len(args) > 2 and not has_attr(interp, owner, str(name)):
        made = find_method(owner, "__getattr__") if isinstance(owner, Instance) else None
        return args[2] if made is None else _made_attribute(interp, made, str(name), args[2], loc)
    return interp.get_attr(owner, str(name), loc)


_OF_MODULES = frozenset(
    ("training", "to", "eval", "train", "parameters", "buffers", "state_dict", "load_state_dict", "named_parameters")
)


def _made_attribute(interp: Run, made: Value, name: str, default: Value, loc: ir.Loc | None) -> Any:
    """What `__getattr__` gives, or the default when it says that there is no such attribute."""
    try:
        return interp.call(made, [name], {}, loc)
    except Raised as error:
        if exceptions.catches(interp, Sym("builtins.AttributeError"), error.value):
            return default
        raise


def has_attr(interp: Run, owner: Value, name: str) -> bool:
    """hasattr in the assumed world: libraries have what is asked of them."""
    if isinstance(owner, Instance):
        return name in owner.attrs or owner.cls.has(name) or name in _OF_MODULES and is_module(owner.cls)
    if isinstance(owner, Func):
        return name in owner.attrs
    if isinstance(owner, ClassV):
        return owner.has(name) or meta_method(owner, name) is not None
    if isinstance(owner, Tensor):
        return name in owner.attrs or torchlib.has_attribute(name)
    if isinstance(owner, (OwnModule, Namespace)):
        return name in owner.attrs
    if isinstance(owner, Once):
        return name in ("__iter__", "__next__", "send", "close", "throw")
    if isinstance(owner, (int, float, str, list, dict, tuple)):
        return hasattr(owner, name)
    if isinstance(owner, JitFunction) and name in unbound.given_names(interp.session):
        return name in owner.func.attrs
    return owner is not None


@builtin
def _hasattr(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if taint.symbol_of(args[0]):
        return args[0]
    root = args[0].path.partition(".")[0] if isinstance(args[0], Sym) else ""
    if root == "__main__":
        return taint.asked(interp, f"__main__.{args[1]}", taint.COMMAND, loc)
    if isinstance(args[0], Sym) and _may_lack(interp, args[0], str(args[1])):
        return has_library_attr(interp, f"{args[0].path}.{args[1]}")
    if has_attr(interp, args[0], str(args[1])):
        return True
    made = find_method(args[0], "__getattr__") if isinstance(args[0], Instance) else None
    return made is not None and _made_attribute(interp, made, str(args[1]), keys.MISSING, loc) is not keys.MISSING


def _may_lack(interp: Run, owner: Sym, name: str) -> bool:
    """Whether a library may not have a name: torch, of which there are many releases, or what the submission gives."""
    return owner.path.partition(".")[0] == "torch" or name in unbound.given_names(interp.session)


def has_library_attr(interp: Run, path: str) -> Any:
    """hasattr of a library: known of what is known here, else a decision that is likely to hold."""
    value = modules.resolve(interp, path)
    return True if not isinstance(value, Sym) else Unknown((), "likely: the library has it", likely=True)


@builtin
def _setattr(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    interp.set_attr(args[0], str(args[1]), args[2], loc)


@builtin
def _type(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    value = args[0]
    if len(args) == 3:
        return class_making.of_call(interp, args, kwargs, loc)
    if isinstance(value, Instance):
        return value.cls
    if isinstance(value, ClassV):
        return value.meta or interp.builtins["type"]
    if isinstance(value, Tensor):
        return Sym("torch.Tensor")
    if isinstance(value, LibObject):
        return Sym(value.path)
    if taint.symbol_of(value):
        return value
    name = "str" if isinstance(value, str) else type(value).__name__
    known = interp.builtins.get(name)
    return known if hasattr(known, "__kbh_name__") else Sym(f"builtins.{name}")


@builtin
def _callable(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return typetests.is_callable(interp, args[0])


@builtin
def _vars(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if args and isinstance(args[0], Sym):
        return Sym(f"{args[0].path}.__dict__")
    if args and isinstance(args[0], (ClassV, LibObject, Unknown)):
        return interp.get_attr(args[0], "__dict__", loc)
    return args[0].attrs if args and isinstance(args[0], (Instance, Tensor)) else {}


ATTRIBUTES: dict[str, Any] = {
    "isinstance": _isinstance, "issubclass": _issubclass, "getattr": _getattr, "hasattr": _hasattr,
    "setattr": _setattr, "type": _type, "callable": _callable, "vars": _vars,
}  # fmt: skip
