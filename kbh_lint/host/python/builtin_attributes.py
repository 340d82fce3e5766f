"""The built-in functions that ask objects for their attributes and for what they are."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Func, JitFunction, Sym, Value
from kbh_lint.host.datamodel import exceptions, modules, schemas, typetests
from kbh_lint.host.python import class_making, function_attributes, module_calls
from kbh_lint.host.torch import tensor_attributes, torchlib
from kbh_lint.host.values import keys, taint, unbound, unknowns
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import Raised
from kbh_lint.host.values.library_objects import OwnModule, Property
from kbh_lint.host.values.modelled import Builtin, Site, models
from kbh_lint.host.values.named_objects import Namespace
from kbh_lint.host.values.objects import (
    Bound,
    ClassV,
    Compiled,
    Instance,
    LibObject,
    Memo,
    find_method,
    is_module,
    meta_method,
)
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.source.embedded import doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


_NOTHING = object()
OPERATORS = frozenset(
    "aten prims prim quantized quantized_decomposed _quantized mkldnn mkldnn_prepacked mkl onednn c10d _c10d_functional"
    " _c10d_functional_autograd c10d_functional profiler inductor fsdp rngprims debugprims sparse symm_mem streams cuda"
    " higher_order static_runtime xnnpack cudnn linalg export inference dtensor _dtensor _inductor_test image"
    " _native _test debug_mode_ops flex_lib inductor_prims onnx onnx_symbolic quantization".split()
)  # the namespaces of operators that torch fills


class Attributes(Builtin):
    """The built-in functions that ask objects for their attributes and for what they are."""

    @models("isinstance")
    def isinstance(self, site: Site, object: Value, classes: Value = (), /) -> Value:
        """Models `isinstance(value, kinds)`."""
        return typetests.is_instance(site.run, object, classes)

    @models("issubclass")
    def issubclass(self, site: Site, cls: Value, classes: Value = (), /) -> Value:
        """Models `issubclass(cls, kinds)`."""
        return typetests.is_subclass(site.run, cls, classes)

    @models("callable")
    def callable(self, site: Site, object: Value, /) -> Value:
        """Models `callable(value)`."""
        return typetests.is_callable(site.run, object)

    @models("getattr")
    def getattr(self, site: Site, owner: Value, name: Value, default: Value = _NOTHING, /) -> Value:
        """Models `getattr(owner, name, default)`."""
        run = site.run
        if isinstance(owner, Sym) and (not isinstance(name, str) or doubts(name)):
            return modules.member(run, owner.path, name, site.loc)
        if not isinstance(name, str):
            return unknowns.merged(run, owner, name, why="an attribute by unknown name")
        if default is not _NOTHING and isinstance(owner, Sym) and _may_lack(run, owner, name):
            has = has_library_attr(run, f"{owner.path}.{name}")
            return run.get_attr(owner, str(name), site.loc) if run.truth(has, site.loc) else default
        if default is not _NOTHING and not has_attr(run, owner, str(name)):
            made = find_method(owner, "__getattr__") if isinstance(owner, Instance) else None
            return default if made is None else _made_attribute(run, made, (str(name),), default, site.loc)
        return run.get_attr(owner, str(name), site.loc)

    @models("hasattr")
    def hasattr(self, site: Site, owner: Value, name: Value, /) -> Value:
        """Models `hasattr(owner, name)`."""
        run = site.run
        if taint.symbol_of(owner):
            return owner
        if isinstance(owner, Sym) and owner.path.partition(".")[0] == "__main__":
            return taint.asked(run, f"__main__.{name}", taint.COMMAND, site.loc)
        if isinstance(owner, Sym) and _may_lack(run, owner, str(name)):
            return has_library_attr(run, f"{owner.path}.{name}")
        if has_attr(run, owner, str(name)):
            own = owner.cls.get(str(name)) if isinstance(owner, Instance) else None
            read = own.getter if isinstance(own, Property) else None
            return read is None or _made_attribute(run, Bound(owner, read), (), _NOTHING, site.loc) is not _NOTHING
        made = find_method(owner, "__getattr__") if isinstance(owner, Instance) else None
        return made is not None and _made_attribute(run, made, (str(name),), keys.MISSING, site.loc) is not keys.MISSING

    @models("setattr")
    def setattr(self, site: Site, owner: Value, name: Value, value: Value, /) -> None:
        """Models `setattr(owner, name, value)`."""
        site.run.set_attr(owner, str(name), value, site.loc)

    @models("type")
    def type(self, site: Site, value: Value, /, *rest: Value, **named: Value) -> Value:
        """Models `type(value)` and `type(name, bases, namespace)`."""
        if len(rest) == 2:
            return class_making.of_call(site.run, site.args, site.kwargs, site.loc)
        return _class_of(site.run, value)

    @models("dir")
    def dir(self, site: Site, owner: Value = _NOTHING, /) -> Value:
        """Models `dir(value)` of a library."""
        return (modules.members(owner.path) if isinstance(owner, Sym) else None) or NotImplemented

    @models("vars")
    def vars(self, site: Site, owner: Value = None, /) -> Value:
        """Models `vars(value)`: attributes by name."""
        if isinstance(owner, Sym):
            return Sym(f"{owner.path}.__dict__")
        if isinstance(owner, (ClassV, LibObject, Unknown)):
            return site.run.get_attr(owner, "__dict__", site.loc)
        return owner.attrs if isinstance(owner, (Instance, Tensor)) else {}


def _class_of(run: Run, value: Value) -> Value:
    if isinstance(value, Instance):
        return value.cls
    if isinstance(value, ClassV):
        return value.meta or run.builtins["type"]
    if isinstance(value, Tensor):
        return Sym("torch.Tensor")
    if isinstance(value, LibObject):
        return Sym(value.path)
    if taint.symbol_of(value):
        return value
    name = "str" if isinstance(value, str) else type(value).__name__
    known = run.builtins.get(name)
    return known if hasattr(known, "__kbh_name__") else Sym(f"builtins.{name}")


def _made_attribute(interp: Run, made: Value, given: tuple[str, ...], default: Value, loc: ir.Loc | None) -> Value:
    """What `__getattr__`, or the function of a property, gives, or the default when it says that there is no such
    attribute."""
    try:
        return interp.call(made, list(given), {}, loc)
    except Raised as error:
        if exceptions.catches(interp, Sym("builtins.AttributeError"), error.value):
            return default
        raise


def has_attr(interp: Run, owner: Value, name: str) -> bool:
    """Models `hasattr(owner, name)`, where library objects are taken to have what is asked of them."""
    if isinstance(owner, Instance):
        of_torch = name in module_calls.NAMES or name in module_calls.SET
        return name in owner.attrs or owner.cls.has(name) or of_torch and is_module(owner.cls)
    if isinstance(owner, Func):
        return name in owner.attrs or hasattr(FunctionType, name)
    if isinstance(owner, (Memo, Compiled)) and name not in function_attributes.OF_CACHES:
        return has_attr(interp, owner.func, name)
    if isinstance(owner, ClassV):
        return owner.has(name) or meta_method(owner, name) is not None
    if isinstance(owner, Tensor):
        return tensor_attributes.added(name) in owner.attrs or torchlib.has_attribute(name)
    if isinstance(owner, (OwnModule, Namespace)):
        return name in owner.attrs
    if isinstance(owner, Once):
        return name in ("__iter__", "__next__", "send", "close", "throw")
    if isinstance(owner, (int, float, str, list, dict, tuple)):
        return hasattr(owner, name)
    if isinstance(owner, JitFunction) and name in unbound.given_names(interp.session):
        return name in owner.func.attrs
    return owner is not None


def _may_lack(interp: Run, owner: Sym, name: str) -> bool:
    """Whether a library may not have a name: torch, of which there are many releases, or what the submission gives."""
    return owner.path.partition(".")[0] == "torch" or name in unbound.given_names(interp.session)


def _of_others(interp: Run) -> bool:
    """Whether others may have registered operators: packages that the submission imports, or what it builds or loads
    and cannot be read."""
    noted = {kind for kind, _, _ in interp.trace.notes}
    return interp.files.unread_build or not noted.isdisjoint(("binary", "import", "star-import"))


def has_library_attr(interp: Run, path: str) -> Value:
    """Models `hasattr` of a library: True for names modelled here and operators that torch has had for long, what was
    registered by now for the namespace of operators that a submission fills, else an unknown that is likely true."""
    owner, _, name = path.rpartition(".")
    space = owner.removeprefix("torch.ops.")
    if space != owner and space not in OPERATORS and not _of_others(interp):
        return any(label in interp.custom_ops for label in (f"{space}.{name}", name))
    if not isinstance(modules.resolve(interp, path), Sym) or name in schemas.names_in(owner):
        return True
    return Unknown((), "likely: the library has it", likely=True)
