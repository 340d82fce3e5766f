"""What objects do that libraries made: their methods, attributes and calls, a row for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.host.datamodel import exceptions
from kbh_lint.host.values.library_objects import Cell, OwnModule, UnreadKernel
from kbh_lint.host.values.modelled import Owner
from kbh_lint.host.values.named_objects import (
    BuiltinObject,
    CacheDecorator,
    CArray,
    Code,
    CompileDecorator,
    Device,
    ImportSpec,
    NamedTupleClass,
    Namespace,
    StopIterationError,
    UnionType,
)

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


from kbh_lint.base.by_class import ByClass
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import c_structs, shown
from kbh_lint.host.effects import builds, decoding, environ, foreign, outside
from kbh_lint.host.libs import autotuning, custom_ops, driver, module_methods, trace_nn
from kbh_lint.host.libs.launching import raw_kernels
from kbh_lint.host.libs.stdlib import itertools
from kbh_lint.host.python import (
    contextmanagers,
    contexts,
    coroutines,
    lanes,
    lifetimes,
    module_calls,
    pools,
)
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.library_objects import Property, Storage
from kbh_lint.host.values.modelled import Methods, Modelled, Site, models
from kbh_lint.host.values.named_objects import (
    ContextObject,
    FunctionContext,
    GeneratorManager,
    HookHandle,
    Importer,
    QueueObject,
    SystemLibrary,
)
from kbh_lint.host.values.objects import LibObject, Method, NamedTuple
from kbh_lint.host.values.tensors import Unknown


def call(site: Site, owner: LibObject) -> Value:
    """Calls `owner.name(...)`, after noting its effects outside the submission. Where no row models the class or the
    method, the result is another object, or unread work on the tensors that it was given."""
    if isinstance(owner, Modelled):
        return owner.method(site)
    outside.method(site, owner)
    made = of(owner).call(site, owner)
    if made is not NotImplemented:
        return made
    site.run.may_call(site.path, site.args, site.kwargs, site.loc)
    inputs = tensor_arguments.tensors_in(site.args) + tensor_arguments.tensors_in(site.kwargs)
    if inputs and not owner.path.startswith(("torch.cuda", "torch.Stream")):
        return foreign.foreign(site)
    return LibObject.by_path(site.path, {}, tuple(site.args), site.kwargs)


def of(owner: LibObject) -> Methods[Owner]:
    """Returns the methods of an object: the row of its class, or of the nearest base that has one."""
    return _ROWS[type(owner)]


class _Managers(Methods[Owner]):
    """Methods of the context manager that a function under `contextlib.contextmanager` makes."""

    @models("__enter__")
    def enter(self, site: Site, owner: LibObject) -> Value:
        """Models `manager.__enter__()`: the function runs to its `yield`."""
        return contextmanagers.enter(site.run, owner, owner.attrs.setdefault("exits", []), site.loc)

    @models("__exit__")
    def leave(self, site: Site, owner: LibObject, *raised: Value) -> Value:
        """Models `manager.__exit__(...)`: the function runs to its end."""
        exits = owner.attrs.setdefault("exits", [])
        return exits and exits.pop()(None)


class _Queues(Methods[Owner]):
    """Methods of queues that are not interpreted."""

    @models("get", "get_nowait")
    def get(self, site: Site, owner: LibObject, *given: Value, **named: Value) -> Value:
        """Models `queue.get()` of an unknown queue, which may be empty."""
        site.run.may_fail("Empty", site.loc)
        return NotImplemented


class _NamedTuples(Methods[Owner]):
    """Methods of named tuples."""

    @models("_replace")
    def replace(self, site: Site, owner: NamedTuple, /, **fields: Value) -> Value:
        """Models `named_tuple._replace(**fields)`."""
        return NamedTuple({**owner.fields, **fields})

    @models("_asdict")
    def asdict(self, site: Site, owner: NamedTuple) -> Value:
        """Models `named_tuple._asdict()`."""
        return owner.fields


class _Storages(Methods[Owner]):
    """`torch.UntypedStorage`."""

    @models("copy_", "fill_")
    def fill(self, site: Site, owner: LibObject, source: Value, *options: Value, **named: Value) -> Value:
        """Models `storage.copy_(source)` and `storage.fill_(value)`."""
        given = [one.attrs["tensor"] if isinstance(one, Storage) else one for one in (source, *options)]
        site.run.call(Method(owner.attrs["tensor"], site.name), given, named, site.loc)
        return owner

    @models("data_ptr")
    def data_ptr(self, site: Site, owner: LibObject) -> Value:
        """Models `storage.data_ptr()`."""
        return owner.attrs["tensor"].storage.address

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns `storage._cdata`: the address of torch's object for the memory, which is another where that is."""
        held = isinstance(owner, Storage) and name == "_cdata"
        return owner.attrs["tensor"].storage.address if held else NotImplemented

    def other(self, site: Site, owner: Owner) -> Value:
        """Answers a call of a method without a model (`Methods.other`): an unknown value."""
        return Unknown((), site.name)


class _System(Methods[Owner]):
    """Functions of CUDA's and the system's libraries, and of `torch.cuda.cudart()`."""

    def other(self, site: Site, owner: Owner) -> Value:
        """Calls a function of a system library such as libcuda (`Methods.other`)."""
        return driver.call(site.run, site.name, site.args, site.loc)


class _FunctionContexts(Methods[Owner]):
    """`ctx` of a `torch.autograd.Function`."""

    def other(self, site: Site, owner: Owner) -> None:
        """Answers methods of an autograd context such as `ctx.save_for_backward` (`Methods.other`), which compute
        nothing."""


class _Contexts(Methods[Owner]):
    """contextvars."""

    @models("run")
    def run(self, site: Site, owner: LibObject, callable: Value, /, *args: Value, **kwargs: Value) -> Value:
        """Models `context.run(f, *args)`: calls the function."""
        return site.run.call(callable, list(args), kwargs, site.loc)


class _Handles(Methods[Owner]):
    """Methods of the handles that remove hooks."""

    @models("remove")
    def remove(self, site: Site, owner: LibObject) -> None:
        """Models `handle.remove()`: the hook is removed."""
        module_calls.remove(owner)


class _Cells(Methods[Owner]):
    """Attributes of closure cells."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns `cell.cell_contents`."""
        held = isinstance(owner, Cell) and name == "cell_contents"
        return owner.env.vars.get(owner.name) if held and isinstance(owner, Cell) else NotImplemented


class _Exceptions(Methods[Owner]):
    """Attributes of Python's own exceptions."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns an attribute of an exception: `__cause__` and `__context__` are unknown, a StopIteration's `value` is
        what its generator returned."""
        if name in ("__cause__", "__context__"):
            return Unknown((), name)
        if isinstance(owner, StopIterationError) and name == "value":
            return next(iter(owner.attrs.get("args", ())), None)
        return NotImplemented


class _Codes(Methods[Owner]):
    """`function.__code__`."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns an attribute of a code object: unknown."""
        return Unknown((), name)


class _Unions(Methods[Owner]):
    """`int | float`."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns `union.__args__`, the classes of a union."""
        return owner.args if isinstance(owner, LibObject) and name == "__args__" else NotImplemented


class _OwnModules(Methods[Owner]):
    """Attributes of modules of the submission."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns an attribute of a module of the submission: its dict, or what its own `__getattr__` returns."""
        if name == "__dict__":
            return owner.attrs
        own = owner.attrs.get("__getattr__")
        return NotImplemented if own is None else run.call(own, [name], {}, loc)


class _Namespaces(Methods[Owner]):
    """Attributes of objects that are nothing but their attributes."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns the `__dict__` of a namespace; raises AttributeError in the program for a name that it does not
        hold."""
        return owner.attrs if name == "__dict__" else exceptions.raise_("AttributeError", [name], loc)


class _Devices(Methods[Owner]):
    """`torch.device(...)`."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns `device.type` or `device.index`."""
        return {"type": "cuda", "index": 0}.get(name, NotImplemented)


class _Decorators(Methods[Owner]):
    """Calls of decorators that a library made, each with the function."""

    def called(self, site: Site, owner: Owner) -> Value:
        """Applies a decorator that a library made to a function."""
        return site.run.decorate(owner, site.args[0], site.loc) if site.args else NotImplemented


class _NamedTupleClasses(Methods[Owner]):
    """Classes of named tuples whose fields are attributes of them."""

    def called(self, site: Site, owner: Owner) -> Value:
        """Makes a named tuple of the class."""
        fields = owner.attrs["fields"]
        return NamedTuple({**dict.fromkeys(fields), **dict(zip(fields, site.args, strict=False)), **site.kwargs})


class _Arrays(Methods[Owner]):
    """Calls of ctypes array types, `c_int * n`."""

    def called(self, site: Site, owner: Owner) -> Value:
        """Makes an object of a ctypes array type."""
        return driver.array(owner.attrs["count"], list(site.args) or c_structs.zeros(owner.attrs))


class _UnreadKernels(Methods[Owner]):
    """Calls of kernels whose source is not read."""

    def called(self, site: Site, owner: Owner) -> Value:
        """Launches a kernel of an unread language: a hole in the trace that may write its tensors."""
        inputs = tensor_arguments.tensors_in(site.args) + tensor_arguments.tensors_in(site.kwargs)
        if not inputs:
            return owner
        return foreign.unread_call(site.run, f"a kernel in {owner.attrs['name']}", inputs, site.loc)


class _Properties(Methods[Owner]):
    """`property(...)`."""

    @models("setter")
    def setter(self, site: Site, owner: LibObject, *func: Value) -> Value:
        """Models `@property.setter`: returns the decorator."""
        return Method(owner, "setter")


class _Importers(Methods[Owner]):
    """Attributes and methods of importlib's specs and loaders."""

    def attribute(self, run: Run, owner: Owner, name: str, loc: ir.Loc | None) -> Value:
        """Returns `spec.loader` of a module spec."""
        return Importer("importlib.loader") if isinstance(owner, ImportSpec) and name == "loader" else NotImplemented

    @models("load_module")
    def load_module(self, site: Site, owner: LibObject, *name: Value) -> Value:
        """Models `loader.load_module(name)`: loads the module from the loader's file."""
        file = shown.show(owner.args[1]) if len(owner.args) > 1 else ""
        return decoding.load_module(site.run, file, site.loc)

    def other(self, site: Site, owner: Owner) -> Value:
        """Answers a call of a method without a model (`Methods.other`): None."""
        return None


_ROWS = ByClass[Methods[Any]](
    {
        Cell: _Cells(),
        BuiltinObject: _Exceptions(),
        Code: _Codes(),
        UnionType: _Unions(),
        OwnModule: _OwnModules(),
        Namespace: _Namespaces(),
        Device: _Devices(),
        CacheDecorator: _Decorators(),
        CompileDecorator: _Decorators(),
        NamedTupleClass: _NamedTupleClasses(),
        CArray: _Arrays(),
        UnreadKernel: _UnreadKernels(),
        GeneratorManager: _Managers(),
        QueueObject: _Queues(),
        NamedTuple: _NamedTuples(),
        Storage: _Storages(),
        SystemLibrary: _System(),
        FunctionContext: _FunctionContexts(),
        ContextObject: _Contexts(),
        HookHandle: _Handles(),
        Property: _Properties(),
        Importer: _Importers(),
        **lanes.METHODS,
        **pools.METHODS,
        **lifetimes.METHODS,
        **coroutines.METHODS,
        **contexts.METHODS,
        **builds.METHODS,
        **environ.METHODS,
        **autotuning.METHODS,
        **custom_ops.METHODS,
        **itertools.METHODS,
        **trace_nn.METHODS,
        **module_methods.METHODS,
        **raw_kernels.METHODS,
    },
    Methods[Owner](),
)
