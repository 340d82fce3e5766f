"""Objects of libraries that several parts ask for by what they are. They are made under their names, by
`LibObject.by_path`; `library_objects` has those that say more than that."""

from __future__ import annotations

from kbh_lint.host.values.objects import LibObject, of_paths


@of_paths("torch.device")
class Device(LibObject):
    """`torch.device(...)`."""


@of_paths("types.SimpleNamespace", "threading.local")
class Namespace(LibObject):
    """An object that is nothing but its attributes."""


@of_paths("builtins.StopIteration")
class StopIterationError(LibObject):
    """The end of an iterator; `value` is what its generator returned."""


@of_paths("types.CodeType")
class Code(LibObject):
    """`function.__code__`."""


@of_paths("importlib.spec")
class ImportSpec(LibObject):
    """What `importlib` knows of a module that it is to load."""


@of_paths("collections.namedtuple")
class NamedTupleClass(LibObject):
    """A class of named tuples whose fields are attributes of it."""


@of_paths("ctypes.array")
class CArray(LibObject):
    """`c_int * n`: the class of arrays of C."""


@of_paths("ctypes.cell")
class CCell(LibObject):
    """A C variable, in which functions of libraries leave what they make."""


@of_paths("raw.module")
class RawModule(LibObject):
    """`cupy.RawModule`."""


@of_paths("raw.kernel")
class RawKernel(LibObject):
    """`cupy.RawKernel`, or a kernel of a `RawModule`."""


@of_paths("contextlib.ExitStack")
class ExitStack(LibObject):
    """`contextlib.ExitStack()`."""


@of_paths("contextlib.suppress")
class Suppress(LibObject):
    """`contextlib.suppress(*exceptions)`."""


@of_paths("contextlib.closing")
class Closing(LibObject):
    """`contextlib.closing(thing)`."""


@of_paths("contextlib.nullcontext")
class NullContext(LibObject):
    """`contextlib.nullcontext(thing)`."""


@of_paths("unittest.mock.patcher")
class Patcher(LibObject):
    """`unittest.mock.patch(...)`."""


@of_paths("itertools.count")
class Counting(LibObject):
    """`itertools.count(start, step)`."""


@of_paths("itertools.cycle")
class Cycle(LibObject):
    """`itertools.cycle(items)`."""


@of_paths("torch.autograd.function.FunctionCtx")
class FunctionContext(LibObject):
    """`ctx` of a `torch.autograd.Function`; it keeps tensors and marks them."""


@of_paths("torch.library.Library")
class OperatorLibrary(LibObject):
    """`torch.library.Library(namespace, kind)`."""


@of_paths("torch.cuda.graph")
class GraphCapture(LibObject):
    """`torch.cuda.graph(graph)`, as a context manager."""


@of_paths("torch.cuda.stream")
class StreamContext(LibObject):
    """`torch.cuda.stream(stream)`, as a context manager."""


@of_paths("torch.cuda.current_stream", "torch.cuda.default_stream")
class CurrentStream(LibObject):
    """The stream on which work goes where none is named."""


@of_paths("torch.cuda.Event", "torch.Event")
class GpuEvent(LibObject):
    """An event of a stream."""


@of_paths("threading.Event")
class ThreadEvent(LibObject):
    """`threading.Event()`."""


@of_paths("threading.Timer")
class Timer(LibObject):
    """`threading.Timer(interval, function)`."""


@of_paths("future")
class PoolFuture(LibObject):
    """What a pool of threads or processes gives for a task."""


@of_paths("subprocess.Popen")
class ChildProcess(LibObject):
    """`subprocess.Popen(...)`."""


@of_paths("socket.socket")
class Socket(LibObject):
    """`socket.socket(...)`."""
