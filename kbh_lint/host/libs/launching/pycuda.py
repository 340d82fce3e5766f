"""PyCUDA: modules that it compiles from texts, its kernels, and what it launches them with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.gpu.launch_settings import Settings
from kbh_lint.host.libs.launching import raw_kernels
from kbh_lint.host.libs.launching.cuda_core import stream_of
from kbh_lint.host.libs.plain import Foreign
from kbh_lint.host.values.modelled import Modelled, Site, models
from kbh_lint.host.values.named_objects import RawModule
from kbh_lint.host.values.objects import Instance, LibObject, find_method
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

REFUSED = "pycuda._driver.LaunchError"  # what it raises where the driver refuses a launch
_PASSED = ("In", "Out", "InOut")


class Kernel(Modelled):
    """A kernel of a module: called with its arguments and `block=`, `grid=`, or prepared with the types of these."""

    def __init__(self, kernel: Value) -> None:
        super().__init__("pycuda.driver.Function")
        self.kernel, self.shared = kernel, 0

    def called(self, site: Site) -> Value:
        """Launches the kernel, `kernel(a, n, block=(256, 1, 1), grid=(n, 1))`."""
        named = site.kwargs
        settings = Settings(named.get("grid", (1, 1)), named.get("block"), named.get("shared", 0))
        return _launch(site, self, site.args, settings, named.get("stream"))

    @models("prepare")
    def prepare(self, site: Site, *types: Value, **options: Value) -> Value:
        """Models `kernel.prepare("PPi")`."""
        return self

    @models("prepared_call", "prepared_timed_call")
    def prepared_call(self, site: Site, grid: Value, block: Value, *args: Value, shared_size: Value = 0) -> Value:
        """Models `kernel.prepared_call(grid, block, *arguments)`."""
        return _launch(site, self, args, Settings(grid, block, shared_size), None)

    @models("prepared_async_call")
    def prepared_async_call(
        self, site: Site, grid: Value, block: Value, stream: Value, *args: Value, shared_size: Value = 0
    ) -> Value:
        """Models `kernel.prepared_async_call(grid, block, stream, *arguments)`."""
        return _launch(site, self, args, Settings(grid, block, shared_size), stream)

    @models("set_attribute", "set_cache_config")
    def setting(self, site: Site, *given: Value) -> None:
        """Models settings of a kernel."""


class Module(Modelled):
    """`SourceModule(text)`."""

    def __init__(self, module: Value) -> None:
        super().__init__("pycuda.compiler.SourceModule")
        self.module = module

    @models("get_function")
    def get_function(self, site: Site, name: Value) -> Value:
        """Models `module.get_function(name)`."""
        if not isinstance(self.module, RawModule):
            return Kernel(None)
        return Kernel(site.run.call(site.run.get_attr(self.module, "get_function", site.loc), [name], {}, site.loc))


class Pycuda(Foreign):
    """The package `pycuda`."""

    @models("SourceModule", "DynamicSourceModule")
    def module(self, site: Site, source: Value, *more: Value, **options: Value) -> Value:
        """Models `SourceModule(text)`. Without `no_extern_c` its functions have the names that they have in C."""
        return Module(raw_kernels.module(site.run, source, site.loc, (), REFUSED))

    @models(*_PASSED)
    def passed(self, site: Site, array: Value) -> Value:
        """Models `drv.Out(array)`: an array of the host that is copied there and back; not followed."""
        return self.other(site)

    @models("Stream", "Event")
    def stream(self, site: Site, *options: Value, **named: Value) -> Value:
        """Models `drv.Stream()` and `drv.Event()`."""
        path = "cpp.stream" if site.name == "Stream" else "torch.cuda.Event"
        return LibObject.by_path(path)


def _launch(site: Site, owner: Kernel, args: object, settings: Settings, stream: Value) -> Value:
    """Launches a kernel, on a stream of PyCUDA or on the default one."""
    given = [_address(site.run, value, site.loc) for value in args] if isinstance(args, (list, tuple)) else []
    held = None if stream is None else stream_of(site.run, stream, site.loc)
    whole = Settings(settings.grid, settings.block, settings.shared, held)
    return raw_kernels.by_anything(site, owner.kernel, given, whole)


def _address(run: Run, value: Value, loc: ir.Loc | None) -> Value:
    """An argument: what an object that holds a pointer says of it."""
    if not isinstance(value, Instance) or find_method(value, "get_pointer") is None:
        held = value.attrs.get("gpudata") if isinstance(value, (Instance, LibObject)) else None
        return value if held is None or isinstance(held, Unknown) else held
    return run.call(run.get_attr(value, "get_pointer", loc), [], {}, loc)
