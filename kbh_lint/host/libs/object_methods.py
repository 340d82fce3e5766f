"""What a method of an object that a library made does: a row for each class of objects."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import builds, decoding, environ, foreign, outside
from kbh_lint.host.libs import autotuning, custom_ops, driver, module_methods, trace_nn
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
from kbh_lint.host.values.modelled import Methods, Modelled, Owner, Rows, Site, models, row_of
from kbh_lint.host.values.named_objects import (
    ContextObject,
    FunctionContext,
    GeneratorManager,
    HookHandle,
    Importer,
    QueueObject,
    RawKernel,
    RawModule,
    SystemLibrary,
)
from kbh_lint.host.values.objects import LibObject, Method, NamedTuple
from kbh_lint.host.values.tensors import Unknown


def call(site: Site, owner: LibObject) -> Value:
    """`owner.name(...)`, whose effects outside of the submission are told first. Of what has no row, or whose row says
    nothing of the method, another object comes, or what a library unknown to us makes of tensors."""
    if isinstance(owner, Modelled):
        return owner.method(site)
    outside.method(site, owner)
    row = row_of(_ROWS, owner)
    made = row.call(site, owner) if row is not None else NotImplemented
    if made is not NotImplemented:
        return made
    inputs = tensor_arguments.tensors_in(site.args) + tensor_arguments.tensors_in(site.kwargs)
    if inputs and not owner.path.startswith(("torch.cuda", "torch.Stream")):
        return foreign.foreign(site)
    return LibObject.by_path(site.path, {}, tuple(site.args), site.kwargs)


class _Managers(Methods):
    """What a function under `contextlib.contextmanager` made."""

    @models("__enter__")
    def enter(self, site: Site, owner: LibObject) -> Value:
        """It runs to its `yield`."""
        return contextmanagers.enter(site.run, owner, owner.attrs.setdefault("exits", []), site.loc)

    @models("__exit__")
    def leave(self, site: Site, owner: LibObject, *raised: Value) -> Value:
        """It runs to its end."""
        exits = owner.attrs.setdefault("exits", [])
        return exits and exits.pop()(None)


class _Queues(Methods):
    """Queues that are not interpreted."""

    @models("get", "get_nowait")
    def get(self, site: Site, owner: LibObject, *given: Value, **named: Value) -> Value:
        """There may be nothing in one."""
        site.run.may_fail("Empty", site.loc)
        return NotImplemented


class _NamedTuples(Methods):
    """Named tuples."""

    @models("_replace")
    def replace(self, site: Site, owner: NamedTuple, /, **fields: Value) -> Value:
        """One with other values in some fields."""
        return NamedTuple({**owner.fields, **fields})

    @models("_asdict")
    def asdict(self, site: Site, owner: NamedTuple) -> Value:
        """Its values by the names of the fields."""
        return owner.fields


class _Storages(Methods):
    """`torch.UntypedStorage`."""

    @models("copy_", "fill_")
    def fill(self, site: Site, owner: LibObject, source: Value, *options: Value, **named: Value) -> Value:
        """Writes what its tensor holds."""
        given = [one.attrs["tensor"] if isinstance(one, Storage) else one for one in (source, *options)]
        site.run.call(Method(owner.attrs["tensor"], site.name), given, named, site.loc)
        return owner

    @models("data_ptr")
    def data_ptr(self, site: Site, owner: LibObject) -> Value:
        """Its address."""
        return owner.attrs["tensor"].storage.address

    def other(self, site: Site, owner: Owner) -> Value:
        """What is not followed."""
        return Unknown((), site.name)


class _System(Methods):
    """Libraries of CUDA and of the system, and torch's own way to the CUDA runtime."""

    def other(self, site: Site, owner: Owner) -> Value:
        """A function of one."""
        return driver.call(site.run, site.name, site.args, site.loc)


class _FunctionContexts(Methods):
    """`ctx` of a `torch.autograd.Function`."""

    def other(self, site: Site, owner: Owner) -> None:
        """It keeps tensors and marks them."""


class _Contexts(Methods):
    """contextvars."""

    @models("run")
    def run(self, site: Site, owner: LibObject, callable: Value, /, *args: Value, **kwargs: Value) -> Value:
        """`context.run(f, *args)`."""
        return site.run.call(callable, list(args), kwargs, site.loc)


class _Handles(Methods):
    """Handles of hooks."""

    @models("remove")
    def remove(self, site: Site, owner: LibObject) -> None:
        """The hook runs no more."""
        module_calls.remove(owner)


class _Properties(Methods):
    """`property(...)`."""

    @models("setter")
    def setter(self, site: Site, owner: LibObject, *func: Value) -> Value:
        """What makes a property with a setter of a function."""
        return Method(owner, "setter")


class _Importers(Methods):
    """What importlib makes."""

    @models("load_module")
    def load_module(self, site: Site, owner: LibObject, *name: Value) -> Value:
        """The module in the file of a loader."""
        file = shown.show(owner.args[1]) if len(owner.args) > 1 else ""
        return decoding.load_module(site.run, file, site.loc)

    def other(self, site: Site, owner: Owner) -> Value:
        """What does nothing of its own."""
        return None


class _RawModules(Methods):
    """`cupy.RawModule`."""

    @models("get_function", "get_kernel")
    def kernel(self, site: Site, owner: LibObject, name: Value) -> Value:
        """A kernel of the text."""
        return RawKernel("raw.kernel", {"extension": owner.attrs["extension"], "name": str(name)})


_ROWS: Rows = {
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
    RawModule: _RawModules(),
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
}
