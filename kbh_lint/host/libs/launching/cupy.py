"""CuPy: kernels that it compiles from texts, arrays, streams, and the runtime of CUDA by its names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import DType, Func, Sym, Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import foreign
from kbh_lint.host.libs import driver
from kbh_lint.host.libs.launching import cupy_kernels, raw_kernels
from kbh_lint.host.libs.launching.cuda_core import CoreDevice, stream_of
from kbh_lint.host.python import lanes
from kbh_lint.host.torch import tensor_views
from kbh_lint.host.torch.arrays import calls as arrays
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.modelled import Library, Modelled, Site, models
from kbh_lint.host.values.named_objects import GpuEvent, Stream
from kbh_lint.host.values.objects import Bound, LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

REFUSED = "cupy_backends.cuda.api.driver.CUDADriverError"  # what it raises where the driver refuses a launch
_NUMBERS = frozenset("int8 int16 int32 int64 intp intc uint8 uint16 uint32 uint64 float32 float64".split())
_ABOUT = ("shape", "ndim", "size")
_RUNTIME = "cupy.cuda.runtime."


class Device(CoreDevice):
    """`cupy.cuda.Device(0)`."""

    def attribute(self, interp: Run, name: str, loc: ir.Loc | None) -> Value:
        """Returns what the device says of itself: its generation as one text."""
        if name == "attributes":
            return Unknown((), "attributes of the GPU")
        return super().attribute(interp, {"compute_capability": "arch", "id": "device_id"}.get(name, name), loc)


class Place(Modelled):
    """`cupy.cuda.MemoryPointer(memory, offset)`, and memory that CuPy is told of."""

    def __init__(self, address: Value) -> None:
        super().__init__("cupy.cuda.MemoryPointer", {"ptr": address})
        self.address = address


class Cupy(Library):
    """The packages `cupy` and `cupyx`."""

    @models("cupy.RawKernel")
    def kernel(self, site: Site, code: Value = None, name: Value = None, *more: Value, **options: Value) -> Value:
        """Models `cupy.RawKernel(code, name)`."""
        return raw_kernels.kernel(site.run, code, name, site.loc, REFUSED)

    @models("cupy.RawModule")
    def module(
        self, site: Site, code: Value = None, options: Value = (), backend: Value = "", *, path: Value = None,
        **more: Value,
    ) -> Value:  # fmt: skip
        """Models `cupy.RawModule(code=...)`."""
        return raw_kernels.module(site.run, code, site.loc, (), REFUSED, path)

    @models("cupy.ElementwiseKernel")
    def elementwise(
        self, site: Site, in_params: Value, out_params: Value, operation: Value, name: Value = "kernel",
        reduce_dims: Value = True, preamble: Value = "", no_return: Value = False, return_tuple: Value = False,
        loop_prep: Value = "", after_loop: Value = "", options: Value = (), **more: Value,
    ) -> Value:  # fmt: skip
        """Models `cupy.ElementwiseKernel(inputs, outputs, operation)`."""
        texts = {"operation": operation, "preamble": preamble, "loop_prep": loop_prep, "after_loop": after_loop}
        return cupy_kernels.Expression(site.path, in_params, out_params, texts, REFUSED)

    @models("cupy.ReductionKernel")
    def reduction(
        self, site: Site, in_params: Value, out_params: Value, map_expr: Value, reduce_expr: Value,
        post_map_expr: Value, identity: Value = "0", name: Value = "kernel", reduce_type: Value = None,
        reduce_dims: Value = True, preamble: Value = "", options: Value = (), **more: Value,
    ) -> Value:  # fmt: skip
        """Models `cupy.ReductionKernel(inputs, outputs, map, reduce, post, identity)`."""
        texts = {"map_expr": map_expr, "reduce_expr": reduce_expr, "post_map_expr": post_map_expr}
        texts |= {"identity": shown.show(identity), "preamble": preamble}
        return cupy_kernels.Expression(site.path, in_params, out_params, texts, REFUSED)

    @models("cupy.fuse")
    def fuse(self, site: Site, function: Value = None, **options: Value) -> Value:
        """Models `cupy.fuse(function)`: what it computes is the same."""
        return function if isinstance(function, (Func, Bound)) else LibObject.by_path(site.path)

    @models("cupy.cuda.ExternalStream", "cupy.cuda.Stream.from_external")
    def external_stream(self, site: Site, ptr: Value, device_id: Value = -1) -> Value:
        """Models `cupy.cuda.ExternalStream(handle)`: the stream of the handle."""
        return stream_of(site.run, ptr, site.loc)

    @models("cupy.cuda.Stream", "cupy.cuda.stream.Stream")
    def stream(
        self, site: Site, null: Value = False, non_blocking: Value = False, ptds: Value = False, **more: Value
    ) -> Value:
        """Models `cupy.cuda.Stream(non_blocking=True)`; another is ordered with the caller's."""
        return lanes.current(site.run) if null is True or non_blocking is False else Stream("cpp.stream")

    @models("cupy.cuda.get_current_stream")
    def current_stream(self, site: Site, device_id: Value = -1) -> Value:
        """Models `cupy.cuda.get_current_stream()`."""
        return lanes.current(site.run)

    @models("cupy.cuda.Event")
    def event(self, site: Site, **options: Value) -> Value:
        """Models `cupy.cuda.Event()`."""
        return GpuEvent("torch.cuda.Event")

    @models("cupy.cuda.Device")
    def device(self, site: Site, device: Value = None) -> Value:
        """Models `cupy.cuda.Device(0)`."""
        return Device()

    @models("cupy.get_array_module")
    def package(self, site: Site, *args: Value) -> Value:
        """Models `cupy.get_array_module(array)`: the package of arrays on the device."""
        return Sym("cupy")

    @models("cupy.dtype")
    def dtype(self, site: Site, dtype: Value, *more: Value, **options: Value) -> Value:
        """Models `cupy.dtype(cupy.float32)`."""
        found = arrays.dtype_of(dtype)
        return self.other(site) if found is None else DType(found)

    @models("cupy.cuda.UnownedMemory")
    def memory(self, site: Site, ptr: Value, size: Value = None, owner: Value = None, **more: Value) -> Value:
        """Models `cupy.cuda.UnownedMemory(address, size, owner)`."""
        return Place(ptr)

    @models("cupy.cuda.MemoryPointer")
    def pointer(self, site: Site, mem: Value, offset: Value = 0) -> Value:
        """Models `cupy.cuda.MemoryPointer(memory, offset)`."""
        base = site.run.get_attr(mem, "ptr", site.loc)
        known = isinstance(base, int) and isinstance(offset, int)
        return Place(base + offset if known else Unknown(site.run.contents_of([base, offset]), "an address"))

    @models("cupy.ndarray")
    def array(
        self, site: Site, shape: Value, dtype: Value = float, memptr: Value = None, strides: Value = None,
        order: Value = "C",
    ) -> Value:  # fmt: skip
        """Models `cupy.ndarray(shape, dtype, memptr)`: an array at a place, or a new one."""
        if memptr is None:
            return arrays.call(site.run, "cupy.empty", [shape, dtype], {}, site.loc)
        place = site.run.get_attr(memptr, "ptr", site.loc)
        tensor = site.run.tensor_at(place)
        if tensor is None or not isinstance(place, int):
            return Unknown(site.run.contents_of(place), "an array at an address")
        found = arrays.dtype_of(dtype) or "f64"
        sizes = tensor_arguments.size_args([shape])
        whole = sizes == tensor.shape and place == tensor.address
        offset = None if not whole and place != tensor.address else 0
        return arrays.lent(tensor_views.alias(tensor, sizes, None, found, not whole, offset))

    def other(self, site: Site) -> Value:
        """Answers a call of any other function (`Library.other`): torch's of the same meaning, one of the CUDA runtime,
        or one that nobody read."""
        run, path = site.run, site.path
        if path.startswith(_RUNTIME):
            name = f"cuda{site.name[:1].upper()}{site.name[1:]}"
            return driver.call(run, name, [*site.args, *site.kwargs.values()], site.loc)
        if path.startswith(("cupy.cuda.", "cupy.testing.")):
            return foreign.foreign(site)
        if site.name in _NUMBERS and len(site.args) == 1 and isinstance(site.args[0], (int, float)):
            return run.call(Sym(f"numpy.{site.name}"), site.args, {}, site.loc)
        if site.name in _ABOUT and len(site.args) == 1 and isinstance(site.args[0], Tensor):
            return run.get_attr(site.args[0], site.name, site.loc)
        if site.name[:1].isupper() and not tensor_arguments.tensors_in(site.args):
            return foreign.foreign(site)
        made = arrays.call(run, path, site.args, site.kwargs, site.loc)
        return unknown(site) if made is NotImplemented else made


def unknown(site: Site) -> Value:
    """Calls a function of CuPy that is no operation of torch: what a package of others computes."""
    made = foreign.foreign(site)
    return arrays.lent(made) if isinstance(made, Tensor) else made
