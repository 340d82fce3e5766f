"""Objects of libraries that several parts ask for by what they are. They are made under their names, by
`LibObject.by_path`; `library_objects` has those that say more than that."""

from __future__ import annotations

from kbh_lint.host.values.objects import OF_TORCH, LibObject, of_paths


@of_paths("torch.device")
class Device(LibObject):
    """`torch.device(...)`."""


@of_paths("types.SimpleNamespace", "threading.local")
class Namespace(LibObject):
    """An object that is nothing but its attributes."""


@of_paths("builtins.")
class BuiltinObject(LibObject):
    """An object of a class of Python's own: an exception."""


@of_paths("builtins.StopIteration")
class StopIterationError(BuiltinObject):
    """The end of an iterator; `value` is what its generator returned."""


@of_paths("types.CodeType")
class Code(LibObject):
    """A code object, `function.__code__`."""


@of_paths("importlib.")
class Importer(LibObject):
    """An object that importlib makes: a loader."""


@of_paths("importlib.spec")
class ImportSpec(Importer):
    """A module spec of importlib."""


@of_paths("collections.namedtuple")
class NamedTupleClass(LibObject):
    """A class of named tuples that a library made, with its fields as attributes."""


@of_paths("ctypes.array")
class CArray(LibObject):
    """A ctypes array type, `c_int * n`."""


@of_paths("ctypes.cell")
class CCell(LibObject):
    """A ctypes variable, in which C functions leave results."""


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


@of_paths("torch.cuda.Stream", "torch.Stream", "torch.cuda.ExternalStream", "cpp.stream")
class Stream(LibObject):
    """A stream that the submission made."""


@of_paths("torch.cuda.current_stream", "torch.cuda.default_stream")
class CurrentStream(LibObject):
    """The current stream, where the submission set none."""


@of_paths("torch.cuda.Event", "torch.Event")
class GpuEvent(LibObject):
    """An event of a stream."""


@of_paths("threading.Event")
class ThreadEvent(LibObject):
    """`threading.Event()`."""


@of_paths("threading.Thread", "multiprocessing.Process", "_thread.start_new_thread")
class Thread(LibObject):
    """A thread or a process that runs beside the caller."""


@of_paths("threading.Timer")
class Timer(Thread):
    """`threading.Timer(interval, function)`."""


@of_paths("future")
class PoolFuture(Thread):
    """The future of a task in a pool of threads or processes."""


@of_paths(
    "concurrent.futures.ThreadPoolExecutor",
    "concurrent.futures.ProcessPoolExecutor",
    "concurrent.futures.thread.ThreadPoolExecutor",
    "multiprocessing.pool.ThreadPool",
)
class Pool(LibObject):
    """A pool of threads or processes."""


@of_paths("coroutine")
class Coroutine(LibObject):
    """A coroutine, made by a call of an `async def`."""


@of_paths("asyncio.")
class AsyncioObject(LibObject):
    """An object of asyncio."""


@of_paths("asyncio.waiting")
class Waiting(AsyncioObject):
    """An awaitable that a function of asyncio returns: of `asyncio.sleep`, of `asyncio.gather`."""


@of_paths("asyncio.Task")
class Task(AsyncioObject):
    """A task: a coroutine that runs when its loop gets to it."""


@of_paths("asyncio.loop", "asyncio.Runner")
class EventLoop(AsyncioObject):
    """An event loop of asyncio."""


@of_paths("asyncio.TaskGroup")
class TaskGroup(EventLoop):
    """`asyncio.TaskGroup()`: it makes tasks as a loop does, and its end waits for them."""


@of_paths("subprocess.Popen")
class ChildProcess(LibObject):
    """`subprocess.Popen(...)`."""


@of_paths("socket.socket")
class Socket(LibObject):
    """`socket.socket(...)`."""


@of_paths("torch.nn.")
class TorchLayer(LibObject):
    """A layer or a container of torch.nn."""


@of_paths("torch.utils.hooks.RemovableHandle")
class HookHandle(LibObject):
    """The handle that removes a module's hook."""


@of_paths("torch.library.CustomOp")
class CustomOperator(LibObject):
    """An operator that `torch.library.custom_op` made of a function."""


@of_paths("weakref.finalize")
class Finalizer(LibObject):
    """`weakref.finalize(object, function)`."""


@of_paths("types.UnionType")
class UnionType(LibObject):
    """`int | float`, with the classes as its arguments."""


@of_paths("functools.lru_cache.decorator")
class CacheDecorator(LibObject):
    """The decorator `functools.lru_cache(maxsize=...)`."""


@of_paths("contextlib.manager")
class GeneratorManager(LibObject):
    """The context manager that a function under `contextlib.contextmanager` makes."""


@of_paths("dataclasses.field")
class RecordField(LibObject):
    """`dataclasses.field(...)`, the default of a field."""


@of_paths("enum.auto")
class Auto(LibObject):
    """`enum.auto()`."""


@of_paths("pickle.bytes")
class Pickled(LibObject):
    """The bytes that `pickle.dumps` returns."""


@of_paths("built.bytes")
class BuiltBytes(LibObject):
    """The bytes of a binary that was built here."""


@of_paths("ctypes.system", OF_TORCH)
class SystemLibrary(LibObject):
    """A system library that was loaded, or `torch.cuda.cudart()`."""


@of_paths("timeit.Timer")
class TimeitTimer(LibObject):
    """`timeit.Timer(stmt)`."""


@of_paths("torch.utils.benchmark.Timer")
class BenchmarkTimer(TimeitTimer):
    """`torch.utils.benchmark.Timer(stmt)`, which gives measurements."""


@of_paths("queue.")
class QueueObject(LibObject):
    """An object of the module `queue` whose class is not interpreted."""


@of_paths("queue.Full")
class QueueFull(LibObject):
    """The exception of a queue that is full."""


@of_paths("contextvars.")
class ContextObject(LibObject):
    """A `contextvars.Context`, or a context variable."""


@of_paths("torch.compile.decorator")
class CompileDecorator(LibObject):
    """The decorator `torch.compile(mode=...)`."""
