"""What a submission can learn about who runs it: the caller, the clock, profilers, the process it lives in.

A value that was asked for in this way is an `Unknown` with a `Taint` that has a symbol, and so is what is computed from
it. Runs take both sides of a branch on one; what differs between the sides is what was decided by asking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.values.cpp_objects import LibraryField, LibraryMethod
from kbh_lint.host.values.decisions import Asked
from kbh_lint.host.values.objects import LibObject, Method, ProcessNumber
from kbh_lint.host.values.tensors import Sort, Taint, Tensor, Unknown
from kbh_lint.source.embedded import Text, doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_LOOKED_AT = 64

STACK, LOADED, PROFILER = "the call stack", "the loaded modules", "whether something profiles or traces"
CAPTURE, PARENT, OBJECTS = "whether a graph is captured", "the process that started it", "all objects of the process"
COMMAND, RANDOM, ENVIRONMENT = "the command line", "a number that each process draws anew", "the environment"
PROCESS, GAP, MEMORY = "files about the process", "the time between calls", "memory that nothing has written"
THREADS, REFERENCES, ALLOCATOR = "the threads of the process", "who holds an object", "what the allocator has given out"
CLOCK_TIME, PROCESS_ID = "the time of day", "the number of the process"
QUEUE = "whether work is still queued on the device"
CALLERS = frozenset(  # what only tells who runs a submission
    (STACK, LOADED, PROFILER, PARENT, OBJECTS, COMMAND, THREADS, REFERENCES, ALLOCATOR)
)

CALLED = {
    "inspect.stack": STACK, "inspect.currentframe": STACK, "inspect.getouterframes": STACK, "inspect.trace": STACK,
    "sys._getframe": STACK, "sys._current_frames": STACK, "sys._getframemodulename": STACK,
    "traceback.extract_stack": STACK, "traceback.format_stack": STACK, "traceback.walk_stack": STACK,
    "sys.gettrace": PROFILER, "sys.getprofile": PROFILER, "threading.gettrace": PROFILER,
    "threading.getprofile": PROFILER, "torch._C._autograd._profiler_enabled": PROFILER,
    "torch.autograd._profiler_enabled": PROFILER, "torch._C._profiler_enabled": PROFILER,
    "torch._C._profiler._profiler_enabled": PROFILER, "torch._C._autograd._profiler_type": PROFILER,
    "torch.autograd.profiler._profiler_type": PROFILER, "sys.monitoring.get_tool": PROFILER,
    "torch.cuda.is_current_stream_capturing": CAPTURE, "torch._C._cuda_isCurrentStreamCapturing": CAPTURE,
    "torch.cuda.graphs.is_current_stream_capturing": CAPTURE,
    "os.getppid": PARENT, "os.getlogin": PARENT, "psutil.Process": PARENT, "psutil.process_iter": PARENT,
    "psutil.pids": PARENT, "gc.get_objects": OBJECTS, "gc.get_referrers": OBJECTS, "os.urandom": RANDOM,
    "secrets.token_bytes": RANDOM, "secrets.randbelow": RANDOM, "secrets.randbits": RANDOM,
    "sys.getrefcount": REFERENCES, "threading.active_count": THREADS, "threading.enumerate": THREADS,
    "threading.current_thread": THREADS, "threading.main_thread": THREADS,
    "multiprocessing.current_process": PARENT, "multiprocessing.parent_process": PARENT,
    "multiprocessing.active_children": PARENT,
    **{
        f"torch.cuda.{module}{name}": ALLOCATOR
        for module in ("", "memory.")
        for name in (
            "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_stats",
            "memory_stats_as_nested_dict", "memory_snapshot", "memory_summary", "list_gpu_processes",
        )
    },
}  # fmt: skip

READ = {
    "sys.argv": COMMAND, "sys.orig_argv": COMMAND, "sys.modules": LOADED, "__main__.__file__": COMMAND,
    "__name__": COMMAND,
    "torch.autograd.profiler._is_profiler_enabled": PROFILER, "torch.profiler.profiler._is_profiler_enabled": PROFILER,
}  # fmt: skip

CLOCKS = frozenset(
    f"time.{name}{unit}"
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time")
    for unit in ("", "_ns")
) | {"timeit.default_timer"}

# Variables that profilers, test runners and harnesses set for what they start.
_SET_BY_OTHERS = ("CUDA_INJECTION", "NVTX_INJECTION", "NV_COMPUTE_PROFILER", "NSYS_", "NSIGHT", "CUPTI_", "KINETO_",
                  "PYTEST_", "POPCORN_", "GITHUB_ACTIONS", "COMPUTE_PROFILE", "CUDA_VISIBLE_DEVICES", "LD_PRELOAD",
                  "SLURM_JOB")  # fmt: skip
_WORDS = frozenset(
    "BENCH BENCHMARK GRADER GRADING JUDGE EVAL EVALUATION EVALUATOR PROFILER PYTEST HARNESS CI TIMED TIMING".split()
)


def asked_variable(name: str) -> bool:
    """Whether an environment variable tells who runs a program, rather than how to build or tune it."""
    return name.startswith(_SET_BY_OTHERS) or bool(_WORDS & set(name.upper().split("_")))


_MAPS = re.compile(r"/proc/(?:self|\d+)/s?maps")
_RUNTIME = (
    "libcuda.so.1", "libcudart.so.12", "libnvrtc.so.12", "libnvJitLink.so.12", "libcublas.so.12", "libcublasLt.so.12",
    "libcudnn.so.9", "libnccl.so.2", "libtorch.so", "libtorch_cuda.so", "libtorch_python.so", "libc10.so",
    "libc10_cuda.so", "libpython3.so", "libstdc++.so.6",
)  # fmt: skip
MAPPED = "".join(f"7f0000000000-7f0000001000 r-xp 00000000 00:00 0   /usr/lib/{name}\n" for name in _RUNTIME)
_LOADED = re.compile("|".join(re.escape(name.partition(".")[0]) + "(?![A-Za-z])" for name in _RUNTIME))


def about_process(path: str) -> bool:
    """Whether a file describes processes: the maps and descriptors of this process, or those of others."""
    return path.startswith(("/proc/", "/proc", "/sys/class/drm", "/dev/pts"))


def mapped(value: Value, wanted: Value) -> str:
    """Returns what is mapped into this process, as far as programs for GPUs load it, where that is searched for a
    library of these, `wanted`: it is there whoever runs them. Empty where something else is searched, or searched for,
    be it beside them.
    """
    searched = _MAPS.fullmatch(symbol_of(value)) and isinstance(wanted, str) and not doubts(wanted)
    return MAPPED if searched and all(map(_LOADED.search, str(wanted).split("|"))) else ""


def asked(interp: Run, symbol: str, what: str, loc: ir.Loc | None, likely: bool = False) -> Unknown:
    """Notes that the program asked who runs it, by calling or reading `symbol`; returns the tainted result, which a
    branch takes for `likely`."""
    interp.note("sniff", {"symbol": symbol, "what": what}, loc)
    return of_symbol(symbol, likely)


def of_symbol(symbol: str, likely: bool = False) -> Unknown:
    """Returns the result of `symbol`, tainted since it tells who runs the submission."""
    return tainted(Taint(symbol), likely)


def tainted(taint: Taint, likely: bool = False) -> Unknown:
    """Returns an unknown value with a taint."""
    return Unknown((), str(taint), taint=taint, likely=likely)


def clock(interp: Run) -> Unknown:
    """Returns the reading of a clock, tainted with its call: the time between calls tells checking from timing, the
    time within one does not."""
    return tainted(Taint(clock=interp.trace.call_index))


_UNTAINTED = frozenset((Tensor, int, float, bool, str, type(None)))  # most of what is looked at


def source(*values: Value) -> Taint | None:
    """Returns the first taint found among values, also inside lists and tuples; for two clock readings of different
    calls, that of the gap; None without any."""
    found: Taint | None = None
    stack, seen = list(values), 0
    while stack and seen < MAX_LOOKED_AT:
        value = stack.pop()
        seen += 1
        if type(value) in _UNTAINTED:
            continue
        if isinstance(value, (list, tuple)):
            stack.extend(value[:8])
        elif isinstance(value, Text):
            stack.extend(doubts(value))
        elif isinstance(value, Unknown) and value.taint is not None:
            if value.taint.symbol:
                return value.taint
            if found is not None and found != value.taint:
                return Taint("time")
            found = value.taint
    return found


def symbol_of(value: object) -> str:
    """Returns the symbol that a tainted value came from; empty where it tells nothing about the caller, as a clock
    alone."""
    return value.taint.symbol if isinstance(value, Unknown) and value.taint is not None else ""


# Objects that the interpreter itself makes: they are there, and are equal to no number and no text.
_OWN = (
    "cpp.", "cpp:", "struct:", "raw.", "unread.", "compiled.", "cutlass_library.", "ctypes.", "importlib.",
    "collections.", "functools.", "types.", "torch.cuda.graph", "torch.cuda.stream", "torch.cuda.current_stream",
    "torch.nn.", "torch.compile.", "builtins.", "torch.device", "torch.layout", "pathlib.",
    "subprocess.", "unittest.", "os.environ", "dataclasses.", "enum.", "re.",
)  # fmt: skip
_LIBRARY = "a value of a library"
_LIKELY = f"likely: {_LIBRARY}"


def of_library(value: Value) -> bool:
    """Whether a value came from a library and is not known: a flag, a field of a structure, the result of a call.
    Modules, classes, functions called by name and objects of classes do not count."""
    if isinstance(value, Method):
        return not (isinstance(value.self, LibObject) and _own(value.self.path))
    if isinstance(value, LibObject):
        if isinstance(value, (LibraryField, LibraryMethod)):  # a member that is not called
            return True
        name = value.path.replace("::", ".")
        return "." in name and not _own(value.path) and name.rpartition(".")[2][:1].islower()
    owner, _, name = value.path.rpartition(".") if isinstance(value, Sym) else ("", "", "")
    return bool(owner) and "::" not in owner + name and (name[:1].islower() or name.startswith("__"))


def _own(path: str) -> bool:
    """Whether an object of this path is made here; what Triton's runtime says of the device is not."""
    return (path.startswith(_OWN) or registry.of_path(path) is not None) and not path.startswith("triton.runtime.")


def presumed(answer: bool, sort: Sort = Sort.LIBRARY) -> Unknown:
    """Returns a truth value that is presumed of a library's value; another run takes the opposite."""
    return Unknown((), _LIKELY if answer else _LIBRARY, likely=answer, sort=sort)


def opposite(answer: Unknown) -> Unknown:
    """Returns the presumed truth value of `!=`, given that of `==`."""
    return presumed(not answer.likely, answer.sort) if answer.sort in (Sort.LIBRARY, Sort.ALIKE) else answer


def flows(interp: Run, left: Value, right: Value, loc: ir.Loc | None) -> None:
    """Notes that an operation combines a tensor with a tainted number, so that its result depends on who runs it."""
    taint = source(left, right)
    if taint is not None and taint.symbol:
        interp.note("sniffed-value", {"symbol": taint.symbol}, loc)


def handed(interp: Run, values: Iterable[Value], loc: ir.Loc | None) -> None:
    """Notes that a launch is given a number that tells who runs the program: a tainted one, a time or a process id."""
    values = list(values)
    taint = source(*values)
    symbol, what = taint.symbol if taint is not None else "", ""
    if taint is not None and not symbol:
        symbol, what = "time", CLOCK_TIME
    elif taint is None and any(type(value) is ProcessNumber for value in values):
        symbol, what = "os.getpid", PROCESS_ID
    if what:
        interp.note("sniff", {"symbol": symbol, "what": what}, loc)
    if symbol:
        interp.note("sniffed-value", {"symbol": symbol}, loc)


def question(value: Unknown) -> Asked | None:
    """Returns what a branch on `value` asks: a symbol that tells who runs the program, or memory that nothing has
    written; None for other values."""
    symbol = symbol_of(value)
    return Asked(symbol) if symbol else Asked(value.why, "memory") if _unwritten(value) else None


def _unwritten(value: Unknown) -> bool:
    """Whether a truth was read from fresh memory: through torch's own operations only, and from nothing else."""
    seen: set[int] = set()
    stack = list(value.contents)
    found = False
    while stack and len(seen) < MAX_LOOKED_AT:
        content = stack.pop()
        if content.ident in seen:
            continue
        seen.add(content.ident)
        if content.event is None:
            if content.label != "empty":
                return False
            found = True
        elif content.event.kind not in ("op", "copy"):
            return False
        else:
            stack.extend(read for read, _ in content.event.reads)
    return found


def either_way(asked: Asked) -> bool:
    """Whether nothing can be said about the answer in a graded run: who calls, by which command, what is loaded. The
    usual answer to other questions is known: no profiler, no capture, no variable of a harness."""
    known = asked.about == "caller" and (CALLED.get(asked.symbol) or READ.get(asked.symbol))
    return known in (STACK, COMMAND, LOADED)
