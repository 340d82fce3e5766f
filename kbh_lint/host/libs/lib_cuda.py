"""torch.cuda: the device, its streams and graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import operators
from kbh_lint.host.libs.launching import raw_kernels
from kbh_lint.host.libs.wrappers import OfTorch
from kbh_lint.host.python import lanes
from kbh_lint.host.values import device, objects
from kbh_lint.host.values.modelled import Site, models
from kbh_lint.host.values.named_objects import Stream
from kbh_lint.host.values.objects import Graph, LibObject, Method
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_STATE = {
    "is_available": True, "current_device": 0, "device_count": 1, "is_bf16_supported": True, "is_initialized": True,
    "is_current_stream_capturing": True, "empty_cache": None, "set_device": None, "init": None,
}  # fmt: skip


class Cuda(OfTorch):
    """The package `torch.cuda`."""

    def call(self, site: Site) -> Value:
        """Calls a function of torch.cuda; `CUDAGraph.name(graph, ...)` calls the method of the graph."""
        if site.args and isinstance(site.args[0], Graph):
            return site.run.call(Method(site.args[0], site.name), site.args[1:], site.kwargs, site.loc)
        return super().call(site)

    @models(*_STATE)
    def state(self, site: Site, *given: Value, **named: Value) -> Value:
        """Models functions such as `torch.cuda.is_available()`, whose result is the same on every benchmark machine."""
        return _STATE[site.name]

    @models("get_device_capability", "get_device_properties", "get_device_name", "mem_get_info", "get_arch_list")
    def about(self, site: Site, *given: Value, **named: Value) -> Value:
        """Models functions that describe the GPU, such as `get_device_properties`."""
        return _about_device(site.run, site.name, site.loc)

    @models("synchronize")
    def synchronize(self, site: Site, device: Value = None) -> None:
        """Models `torch.cuda.synchronize()`: the caller waits for the whole device."""
        site.run.lanes.wait_all()

    @models("current_stream")
    def current_stream(self, site: Site, device: Value = None) -> Value:
        """Models `torch.cuda.current_stream()`."""
        return lanes.current(site.run)

    @models("ExternalStream")
    def external_stream(self, site: Site, stream_ptr: Value, device: Value = None, **named: Value) -> Value:
        """Models `torch.cuda.ExternalStream(handle)`: the stream of the handle, which is the caller's for zero."""
        if lanes.is_stream(stream_ptr):
            return stream_ptr
        return lanes.current(site.run) if stream_ptr == 0 else Stream("torch.cuda.ExternalStream")

    @models("set_stream")
    def set_stream(self, site: Site, stream: Value = None) -> Value:
        """Models `torch.cuda.set_stream(stream)`."""
        lanes.set_stream(site.run, stream)
        return self.other(site)

    @models("CUDAGraph")
    def graph(self, site: Site, *given: Value, **named: Value) -> Value:
        """Models `torch.cuda.CUDAGraph()`: an empty graph."""
        return Graph()

    @models("cudart")
    def cudart(self, site: Site) -> Value:
        """Models `torch.cuda.cudart()`: torch's bindings of the CUDA runtime."""
        return LibObject.by_path(objects.OF_TORCH)

    @models("_compile_kernel")
    def compile_kernel(
        self, site: Site, kernel_source: Value = None, kernel_name: Value = None, *more: Value, **options: Value
    ) -> Value:
        """Models `torch.cuda._compile_kernel(source, name)`."""
        return raw_kernels.kernel(site.run, kernel_source, kernel_name, site.loc)

    @models("make_graphed_callables")
    def graphed(self, site: Site, callables: Value, *more: Value, **options: Value) -> Value:
        """Models `torch.cuda.make_graphed_callables`: returns the same functions."""
        return callables

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): amounts of memory are unknown, anything else is an
        object."""
        if "memory" in site.name and site.name.rpartition("_")[2] in ("allocated", "reserved", "cached"):
            return Unknown((), site.path)
        return super().other(site)


def _about_device(interp: Run, name: str, loc: ir.Loc | None) -> Value:
    """What torch says of the GPU."""
    found = interp.session.device
    if name == "mem_get_info":
        return operators.binary(interp, "-", found.memory, 8 << 30, loc), found.memory
    if name == "get_arch_list":
        return [f"sm_{found.major}{found.minor}"]
    interp.note("capability-read", {}, loc)
    if name == "get_device_capability":
        return found.major, found.minor
    return found.name if name == "get_device_name" else device.torch_properties(found)
