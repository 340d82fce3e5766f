"""cuda.core: devices, streams, programs of CUDA C++, launches and graphs of NVIDIA's Python interface to CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import artifacts, foreign
from kbh_lint.host.gpu import graphs, images
from kbh_lint.host.gpu.launch_settings import Settings
from kbh_lint.host.libs.launching import raw_kernels
from kbh_lint.host.python import lanes
from kbh_lint.host.torch import recording, tensor_copies
from kbh_lint.host.values import device
from kbh_lint.host.values.library_objects import UnreadKernel
from kbh_lint.host.values.modelled import Library, Modelled, Site, models
from kbh_lint.host.values.named_objects import GpuEvent, RawKernel, Stream
from kbh_lint.host.values.objects import Blob, Graph, Instance, LibObject, NamedTuple, find_method
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

REFUSED = "cuda.core._utils.cuda_utils.CUDAError"  # what it raises where the driver refuses a launch
_TEXTS = ("c++",)
_IMAGES = ("from_cubin", "from_fatbin", "from_object", "from_library", "from_ltoir")


class CoreDevice(Modelled):
    """`Device()`."""

    def __init__(self) -> None:
        super().__init__("cuda.core.Device", {"device_id": 0})

    def attribute(self, interp: Run, name: str, loc: ir.Loc | None) -> Value:
        """Returns what the device says of itself."""
        found = interp.session.device
        if name in ("compute_capability", "arch", "properties", "name"):
            interp.note("capability-read", {}, loc)
        if name == "compute_capability":
            return NamedTuple({"major": found.major, "minor": found.minor})
        if name == "arch":
            return f"{found.major}{found.minor}"
        if name == "properties":
            return _Properties()
        if name == "name":
            return found.name
        return lanes.current(interp) if name == "default_stream" else super().attribute(interp, name, loc)

    @models("set_current", "sync", "synchronize", "close")
    def current(self, site: Site, ctx: Value = None) -> None:
        """Models `device.set_current()` and `device.sync()`, which waits for the whole device."""
        if site.name.startswith("sync"):
            site.run.lanes.wait_all()

    @models("create_stream")
    def create_stream(self, site: Site, obj: Value = None, options: Value = None) -> Value:
        """Models `device.create_stream(obj)`: the stream of an object of another library, or a new one."""
        return Stream("cpp.stream") if obj is None else stream_of(site.run, obj, site.loc)

    @models("create_event")
    def create_event(self, site: Site, options: Value = None) -> Value:
        """Models `device.create_event()`."""
        return GpuEvent("torch.cuda.Event")

    @models("create_graph_builder")
    def build_graph(self, site: Site) -> Value:
        """Models `device.create_graph_builder()`."""
        return GraphBuilder(Graph())

    @models("allocate")
    def allocate(self, site: Site, size: Value, stream: Value = None, **options: Value) -> Value:
        """Models `device.allocate(size)`: bytes in device memory."""
        count = size if isinstance(size, int) else None
        return Buffer(recording.make(site.run, (count,), "u8", "empty"))


class _Properties(Modelled):
    """`device.properties`."""

    def __init__(self) -> None:
        super().__init__("cuda.core.DeviceProperties")

    def attribute(self, interp: Run, name: str, loc: ir.Loc | None) -> Value:
        """Returns a property by its name, `multiprocessor_count`."""
        return device.attribute(interp.session.device, name)


class Buffer(Modelled):
    """Device memory that cuda.core allocated, or a view of memory of another library."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__("cuda.core.Buffer", {"tensor": tensor})
        self.tensor = tensor

    def attribute(self, interp: Run, name: str, loc: ir.Loc | None) -> Value:
        """Returns its address, or its size in bytes."""
        if name in ("handle", "ptr"):
            return self.tensor.address
        if name in ("size", "nbytes"):
            return self.tensor.storage.size if self.tensor.storage.size is not None else Unknown((), name)
        return interp.get_attr(self.tensor, name, loc) if name in ("shape", "dtype") else super().attribute(
            interp, name, loc
        )  # fmt: skip

    @models("copy_to")
    def copy_to(self, site: Site, dst: Value = None, **options: Value) -> Value:
        """Models `buffer.copy_to(dst, stream=...)`."""
        target = dst if isinstance(dst, Buffer) else Buffer(_like(site.run, self.tensor))
        tensor_copies.copy_(site.run, "copy", [target.tensor, self.tensor], {}, site.loc)
        return target

    @models("copy_from")
    def copy_from(self, site: Site, src: Value, **options: Value) -> None:
        """Models `buffer.copy_from(src, stream=...)`."""
        source = src.tensor if isinstance(src, Buffer) else src
        tensor_copies.copy_(site.run, "copy", [self.tensor, source], {}, site.loc)

    @models("close")
    def close(self, site: Site, stream: Value = None) -> None:
        """Models `buffer.close()`."""


class Program(Modelled):
    """`Program(code, code_type, options)`."""

    def __init__(self, code: Value, kind: str, flags: list[str]) -> None:
        super().__init__("cuda.core.Program")
        self.code, self.kind, self.flags = code, kind, flags

    @models("compile")
    def compile(
        self, site: Site, target_type: Value = "cubin", name_expressions: Value = (), logs: Value = None,
        **options: Value,
    ) -> Value:  # fmt: skip
        """Models `program.compile("cubin")`."""
        if self.kind not in _TEXTS:
            site.run.miss(f"a program in {self.kind or 'a language that is not known'} is not read", site.loc)
            return UnreadKernel("run-time compiled")
        return raw_kernels.module(site.run, self.code, site.loc, self.flags, REFUSED)


class GraphBuilder(Modelled):
    """`device.create_graph_builder()`: what is launched on it becomes a graph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__("cuda.core.GraphBuilder")
        self.graph = graph

    @models("begin_building", "end_building", "join")
    def building(self, site: Site, *mode: Value, **options: Value) -> Value:
        """Models the beginning and the end of what is built, and the joining of branches."""
        return self

    @models("split")
    def split(self, site: Site, count: Value) -> Value:
        """Models `builder.split(count)`: branches of one graph."""
        return (self,) * count if isinstance(count, int) and count < 64 else Unknown((), "branches of a graph")

    @models("complete")
    def complete(self, site: Site, options: Value = None) -> Value:
        """Models `builder.complete()`."""
        return _CoreGraph(self.graph)

    @models("close")
    def close(self, site: Site) -> None:
        """Models `builder.close()`."""

    def other(self, site: Site) -> Value:
        """Answers a call of any other method, as those that make conditional nodes: a builder that nobody follows."""
        return _Unfollowed(site.path)


class _Unfollowed(Modelled):
    """A builder of which nobody knows what becomes of it, and all that it gives."""

    def other(self, site: Site) -> Value:
        """Answers a call of any method."""
        return self


class _CoreGraph(Modelled):
    """A graph that is built."""

    def __init__(self, graph: Graph) -> None:
        super().__init__("cuda.core.Graph")
        self.graph = graph

    @models("launch")
    def launch(self, site: Site, stream: Value = None) -> None:
        """Models `graph.launch(stream)`: what was captured happens again."""
        with lanes.on(site.run, stream):
            graphs.replay(site.run, self.graph, site.loc)

    @models("upload", "close")
    def nothing(self, site: Site, stream: Value = None) -> None:
        """Models `graph.upload(stream)` and `graph.close()`."""


class Core(Library):
    """The package `cuda.core`."""

    @models("Device")
    def device(self, site: Site, device_id: Value = None) -> Value:
        """Models `Device(device_id)`."""
        return CoreDevice()

    @models("cuda.core.Stream.from_handle", "cuda.core.experimental.Stream.from_handle")
    def from_handle(self, site: Site, handle: Value, *more: Value, **named: Value) -> Value:
        """Models `Stream.from_handle(handle)`."""
        return stream_of(site.run, handle, site.loc)

    @models("Program")
    def program(self, site: Site, code: Value, code_type: Value = "c++", options: Value = None) -> Value:
        """Models `Program(code, code_type, options)`."""
        given = options.attrs if isinstance(options, LibObject) else options if isinstance(options, dict) else {}
        kind = shown.show(code_type).lower() if isinstance(code_type, str) else ""
        arch = given.get("arch")
        return Program(code, kind, [f"-arch={arch}"] if isinstance(arch, str) else [])

    @models("ProgramOptions", "StreamOptions", "LinkerOptions", "EventOptions")
    def options(self, site: Site, *given: Value, **options: Value) -> Value:
        """Models options of a program, of a stream and the like."""
        return LibObject(site.path, dict(options))

    @models("Linker")
    def linker(self, site: Site, *object_codes: Value, options: Value = None) -> Value:
        """Models `Linker(code, options=...)` of what was compiled from one text."""
        return _Linker(object_codes[0]) if len(object_codes) == 1 else UnreadKernel(site.path)

    @models(*_IMAGES, "from_ptx")
    def image(self, site: Site, module: Value, *more: Value, **named: Value) -> Value:
        """Models `ObjectCode.from_cubin(bytes)` and the like: machine code without source."""
        if site.name == "from_ptx":
            site.run.miss("a program in ptx is not read", site.loc)
            return UnreadKernel("run-time compiled")
        path = shown.show(module) if isinstance(module, str) and not images.is_image(module) else images.NAME
        return raw_kernels.Image(artifacts.without_source(site.run, path, site.loc), site.loc)

    @models("LaunchConfig")
    def config(
        self, site: Site, grid: Value = None, cluster: Value = None, block: Value = None, shmem_size: Value = None,
        cooperative_launch: Value = None, stream: Value = None, **more: Value,
    ) -> Value:  # fmt: skip
        """Models `LaunchConfig(grid=..., cluster=..., block=...)`: with clusters, the grid counts these."""
        shared = 0 if shmem_size is None else shmem_size
        attrs = {"grid": grid, "block": block, "cluster": cluster, "shmem_size": shared, "stream": stream}
        return LibObject("cuda.core.LaunchConfig", attrs)

    @models("launch")
    def launch(self, site: Site, *given: Value) -> Value:
        """Models `launch(stream, config, kernel, *arguments)`, and `launch(kernel, config, *arguments)` of the first
        versions."""
        if len(given) < 2:
            return self.other(site)
        first, config, *rest = given
        stream: Value = first
        kernel: Value = None
        if isinstance(first, (RawKernel, Blob)):
            kernel = first
        elif rest:
            kernel, *rest = rest
        values = [value.tensor if isinstance(value, Buffer) else value for value in rest]
        if isinstance(first, (UnreadKernel, _Unfollowed)) or not isinstance(config, LibObject):
            return raw_kernels.by_anything(site, None, values, Settings())
        if kernel is first:
            stream = config.attrs.get("stream")
        settings = _settings(site, config, stream)
        if not isinstance(first, GraphBuilder):
            return raw_kernels.by_anything(site, kernel, values, settings)
        site.run.capturing.append(first.graph)
        try:
            return raw_kernels.by_anything(site, kernel, values, settings)
        finally:
            site.run.capturing.remove(first.graph)

    @models("StridedMemoryView")
    def view(self, site: Site, obj: Value = None, stream_ptr: Value = None) -> Value:
        """Models `StridedMemoryView(tensor, stream_ptr)`."""
        return Buffer(obj) if isinstance(obj, Tensor) else self.other(site)

    @models("args_viewable_as_strided_memory")
    def same(self, site: Site, arg_indices: Value = ()) -> Value:
        """Models a decorator that hands on what is given."""
        return LibObject(site.path)

    def other(self, site: Site) -> Value:
        """Answers a call of anything else (`Library.other`): an object, or what nobody read where it is given
        addresses."""
        foreign.addressed(site.run, site.path, [*site.args, *site.kwargs.values()], site.loc)
        return super().other(site)


class _Linker(Modelled):
    """`Linker(code)`."""

    def __init__(self, code: Value) -> None:
        super().__init__("cuda.core.Linker")
        self.code = code

    @models("link")
    def link(self, site: Site, target_type: Value = "cubin") -> Value:
        """Models `linker.link("cubin")`: the same kernels."""
        return self.code


def stream_of(run: Run, given: Value, loc: ir.Loc | None) -> Value:
    """Returns the stream of a handle, or of an object that tells its handle by `__cuda_stream__` or `cuda_stream`; zero
    is the caller's."""
    if isinstance(given, Instance) and find_method(given, "__cuda_stream__") is not None:
        told = run.call(run.get_attr(given, "__cuda_stream__", loc), [], {}, loc)
        given = told[1] if isinstance(told, (tuple, list)) and len(told) == 2 else Unknown((), "a stream")
    if isinstance(given, LibObject):
        return given
    return lanes.current(run) if type(given) is int and given == 0 else Stream("torch.cuda.ExternalStream")


def _settings(site: Site, config: LibObject, stream: Value) -> Settings:
    """What a configuration says, on a stream."""
    grid, cluster = (_sides(config.attrs.get(name)) for name in ("grid", "cluster"))
    if cluster is not None and grid is not None:
        grid = tuple(
            a * b if isinstance(a, int) and isinstance(b, int) else None for a, b in zip(grid, cluster, strict=True)
        )
    block = config.attrs.get("block")
    held = None if stream is None or isinstance(stream, GraphBuilder) else stream
    return Settings(grid, _sides(block), config.attrs.get("shmem_size", 0), held)


def _sides(size: Value) -> tuple[Value, ...] | None:
    """A size in three dimensions."""
    if isinstance(size, (tuple, list)):
        return (*size, 1, 1)[:3]
    return None if size is None else (size, 1, 1)


def _like(run: Run, tensor: Tensor) -> Tensor:
    return recording.make(run, tensor.shape, tensor.dtype, "empty")
