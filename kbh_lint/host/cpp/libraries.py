"""C++ functions outside the text: at:: and torch::, the CUDA runtime and driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Env, Func, Overloads, Sym, Value
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.cpp import construction as cpp_construction
from kbh_lint.host.cpp import copies as cpp_copies
from kbh_lint.host.cpp import graphs as cpp_graphs
from kbh_lint.host.cpp import lambdas as cpp_lambdas
from kbh_lint.host.cpp import library_work
from kbh_lint.host.cpp import names as cpp_names
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp import python_objects as cpp_python
from kbh_lint.host.cpp import streams as cpp_streams
from kbh_lint.host.cpp import texts as cpp_texts
from kbh_lint.host.cpp.std import functions as cpp_std
from kbh_lint.host.cpp.std import outputs as cpp_outputs
from kbh_lint.host.cpp.std import passing
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import foreign, outside
from kbh_lint.host.gpu import device_wide, images, l2, launch_limits, launch_settings
from kbh_lint.host.torch import recording, tensor_attributes
from kbh_lint.host.values import device
from kbh_lint.host.values.cpp_objects import Dim3, Pointer, Slot, Template
from kbh_lint.host.values.objects import Blob, Extension, HostDescriptor, LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

_QUIET = ("CHECK", "ASSERT", "TORCH_", "AT_", "C10_", "LOG", "VLOG", "GLOG", "DCHECK", "NVTX", "PYBIND11_", "RECORD_")
_TELLING = ("log", "print", "warn", "trace", "debug", "profile", "range", "nvtx", "check", "assert", "unused")
_DEVICE_QUERIES = frozenset(
    "cudaGetDeviceProperties cudaDeviceGetAttribute cuDeviceGetAttribute getCurrentDeviceProperties "
    "getDeviceProperties".split()
)


@dataclass(slots=True)
class Asked:
    """A call of a function that the submission does not define: its full name, its name without namespaces, template
    arguments, arguments, and place."""

    name: str
    short: str
    given: tuple[Any, ...] | list[Any]
    args: list[Any]
    loc: ir.Loc | None


def library(run: Cpp, name: str, given: tuple[Any, ...] | list[Any], args: list[Any], loc: ir.Loc | None) -> Any:
    """Calls a function that the submission does not define, by its C++ name: the first model of `_PARTS`, then of
    `_NAMES`, that accepts the call returns its result."""
    call = Asked(name, name.rpartition("::")[2], given, args, loc)
    l2.noticed(run.interp, call.short, args, loc)
    for part in _PARTS:
        found = part(run, call)
        if found is not NotImplemented:
            return found
    for names, beginnings, handler in _NAMES:
        if call.short in names or call.short.startswith(beginnings):
            found = handler(run, call)
            if found is not NotImplemented:
                return found
    return _other(run, call)


def _native(run: Cpp, call: Asked) -> Value:
    told = outside.native(run.interp, call.short, [a.get() if isinstance(a, Slot) else a for a in call.args], call.loc)
    return NotImplemented if told is None else cpp_outputs.answered(call.short, told, call.args)


def _of_torch(run: Cpp, call: Asked) -> Value:
    """torch's C++ interface; of what it says of the GPU and its streams, an object."""
    name = call.name
    if call.short in _DEVICE_QUERIES:
        return _device_query(run, call.short, call.args, call.loc)
    if "llocator::raw_alloc" in name and call.args:
        return cpp_copies.allocated(run, call.args[0])
    of_device = name.startswith(("at::cuda::", "c10::cuda::", "at::get", "torch::cuda"))
    if of_device and not device_wide.does(name) and not cpp_names.of_backend(name):
        return LibObject.by_path(name)
    if name.startswith(("at::", "torch::", "c10::", "aten::")):
        return library_work.aten(run, name, call.args, call.loc)
    return NotImplemented


def _module_of_code(run: Cpp, call: Asked) -> Value:
    """Functions that load machine code, where they are given any."""
    loads = call.short.startswith(("cu", "cuda")) and images.call(run.interp, call.short, call.args, call.loc)
    return Sym("cudaSuccess") if loads else NotImplemented


def _vector(run: Cpp, call: Asked) -> Value:
    """`make_float4(...)`."""
    lanes = (dtypes.vector_from_cpp(call.short[5:]) or ("", 1))[1]
    return cpp_construction.vector(call.short[5:], call.args) if lanes > 1 else NotImplemented


def _the_pointer(run: Cpp, call: Asked) -> Value:
    """CuTe's `make_tensor(pointer, layout)`, thrust's `device_pointer_cast(pointer)`."""
    return call.args[0] if call.args and isinstance(call.args[0], Pointer) else NotImplemented


def _cute_copy(run: Cpp, call: Asked) -> Value:
    """CuTe's `make_tma_copy(operation, tensor, ...)`."""
    held = call.args[1] if len(call.args) > 1 else None
    return HostDescriptor(held.tensor) if isinstance(held, Pointer) else NotImplemented


def _load_library(run: Cpp, call: Asked) -> Value:
    return run.interp.load_library(shown.show(next(iter(call.args[call.short == "dlmopen" :]), "")), call.loc)


def _dim3(run: Cpp, call: Asked) -> Value:
    sizes = [
        tensor_attributes.scalar(run.interp, "item", [a], {}, call.loc) if isinstance(a, Tensor) else a
        for a in call.args
    ]
    return Dim3("dim3", dict(zip("xyz", [*sizes, 1, 1, 1], strict=False)))


def _active_blocks(run: Cpp, call: Asked) -> Value:
    if call.args and isinstance(call.args[0], Slot):
        call.args[0].set(1)
    return Sym("cudaSuccess")


def _last_error(run: Cpp, call: Asked) -> Value:
    """Of a launch that was refused; without one all went well."""
    if not run.refused_launch:
        return NotImplemented
    run.refused_launch, run.failed = call.short.startswith("cudaPeek"), True
    return cpp_names.FAILURE


def _graph(run: Cpp, call: Asked) -> Value:
    asked = "Graph" in call.short or "Capture" in call.short
    return cpp_graphs.call(run, call.short, call.args, call.loc) if asked else NotImplemented


def _library_work(run: Cpp, call: Asked) -> Value:
    """cuBLAS and what is like it."""
    known = call.name.startswith(cpp_names.SOLID) or call.short.startswith(("cublas", "cudnn"))
    return library_work.solid(run, call.name, call.args, call.loc) if known else NotImplemented


def _other(run: Cpp, call: Asked) -> Value:
    """What is known by the way in which its name begins, and what is not known at all."""
    name, short, found = call.name, call.short, cpp_arguments.pointers(call.args)
    if short in cpp_names.STATUS:
        return _status(run, short, call.args)
    if not found:
        if short.startswith(("cuda", "cu", "nvrtc")):
            return cpp_outputs.of_cuda(run, name, call.args)
        casts = call.args and name in ("static_cast", "int", "round", "std::round")
        run.unread = Unknown((), name)
        return call.args[0] if casts else run.unread
    if short.startswith(_OF_THE_RUNTIME):
        return LibObject.by_path(name, {"pointers": found})
    cpp_arguments.note_fresh(run.interp, name, call.args, call.loc)
    return LibObject.by_path(name, {"pointers": cpp_arguments.pointers(call.args), "items": call.args, "called": True})


def _status(run: Cpp, name: str, args: list[Value]) -> Value:
    """What a function answers that only answers: success, but where more shared memory is asked for than there is."""
    given = [cpp_numbers.plain(arg.get() if isinstance(arg, Slot) else arg) for arg in args]
    if "FuncSetAttribute" in name and len(given) == 3 and launch_limits.asked_in_vain(given[1], given[2]):
        run.refused_launch = run.failed = True
        return cpp_names.FAILURE
    return Sym("cudaSuccess")


Handler = Callable[["Cpp", Asked], Value]
_PARTS: tuple[Handler, ...] = (
    _native,
    lambda run, call: cpp_outputs.call(run, call.name, call.args, call.loc),
    lambda run, call: cpp_streams.call(run, call.short, call.args),
    lambda run, call: cpp_lambdas.standard(run, call.name, call.args, call.loc),
    lambda run, call: cpp_std.call(run, call.name, call.args, call.loc),
    lambda run, call: cpp_python.imported(run, call.name, call.args, call.loc),
    _module_of_code,
    lambda run, call: library_work.stack_call(call.name, call.args),
    _of_torch,
    lambda run, call: passing.call(run, call.name, call.given, call.args),
)


def _row(names: str, handler: Handler) -> tuple[frozenset[str], tuple[str, ...], Handler]:
    words = names.split()
    begin = tuple(word.removesuffix("*") for word in words if word.endswith("*"))
    return frozenset(word for word in words if not word.endswith("*")), begin, handler


# By names without namespaces, `*` for what begins so; a row that answers NotImplemented leaves it to those after it.
_NAMES = (
    _row("cudaMemcpy* cuMemcpy*", lambda run, call: cpp_copies.copied(run, call.short, call.args, call.loc)),
    _row("cudaMemset* cuMemset*", lambda run, call: cpp_copies.filled(run, call.short, call.args)),
    _row("cuTensorMapEncode*", lambda run, call: tensor_map(call.args)),
    _row("make_*", _vector),
    _row("make_tensor make_gmem_ptr device_pointer_cast raw_pointer_cast", _the_pointer),
    _row("make_tma_copy make_tma_atom", _cute_copy),
    _row("dlopen dlmopen", _load_library),
    _row("cudaGetDriverEntryPoint* cuGetProcAddress* dlsym*", lambda run, call: _entry_point(call.short, call.args)),
    _row("dim3", _dim3),
    _row(
        "cudaLaunchHostFunc* cuLaunchHostFunc* cudaStreamAddCallback* cuStreamAddCallback*",
        lambda run, call: cpp_lambdas.on_stream(run, call.short, call.args, call.loc),
    ),
    _row(
        "cudaLaunch* cuLaunchKernel* launch_kernel_on_cluster*",
        lambda run, call: _launch_call(run, call.short, call.args, call.loc),
    ),
    _row(
        "cudaMalloc cudaMallocAsync cudaMallocManaged cuMemAlloc cuMemAlloc_v2 "
        "cudaMallocHost cudaHostAlloc cuMemHostAlloc cuMemAllocHost cuMemAllocHost_v2",
        lambda run, call: cpp_copies.allocate(run, call.args),
    ),
    _row("cudaHostGetDevicePointer cuMemHostGetDevicePointer*", lambda run, call: cpp_copies.seen_by_device(call.args)),
    _row("cudaGetFuncBySymbol cuModuleGetFunction cudaGetKernel", lambda run, call: _function(run, call.args)),
    _row("*", _graph),
    _row("THPVariable_* Py*", lambda run, call: cpp_python.interface(call.short, call.args)),
    _row("nvrtcCreateProgram*", lambda run, call: _program(run, call.args, call.loc)),
    _row("cudaOccupancyMaxActiveBlocksPerMultiprocessor*", _active_blocks),
    _row("*", _library_work),
    _row("cudaGetLastError cudaPeekAtLastError", _last_error),
)
_OF_THE_RUNTIME = tuple("cudaFree cudaMalloc cudaStream cudaEvent cudaFunc cudaGet cudaMemset cuMem make_".split())


def tensor_map(args: list[Value]) -> Value:
    """Models `cuTensorMapEncodeTiled(&map, type, rank, base, ...)`: the map becomes a descriptor of the tensor at
    `base`."""
    given = [a.get() if isinstance(a, Slot) else a for a in args[1:]]
    base = next((a for a in given if isinstance(a, Pointer)), None)
    if args and isinstance(args[0], Slot) and base is not None:
        args[0].set(HostDescriptor(base.tensor))
    return Sym("CUDA_SUCCESS")


def _entry_point(name: str, args: list[Value]) -> Value:
    """A function found by its name, of the driver through an address, of a library that was loaded by dlsym."""
    symbol = next((Sym(str(a)) for a in args if isinstance(a, str)), None)
    if name.startswith("dlsym") and args and symbol is not None and isinstance(args[0], (Blob, Extension)):
        owner, own = args[0], symbol.path
        ours = owner.env.vars.get(own) if isinstance(owner, Extension) else None
        if own.startswith(foreign.VENDORS) and ours is None and type(owner) is not Blob:
            return symbol  # of nobody knows which library
        return Blob(f"{owner.path}:{own}", owner.loc) if isinstance(owner, Blob) else ours
    if name.startswith("dlsym"):
        return symbol if symbol is not None else Unknown((), name)
    places = [a for a in args if isinstance(a, Slot)]
    for place, found in zip(places, (symbol, Sym("cudaDriverEntryPointSuccess")), strict=False):
        if symbol is not None:
            place.set(found)
    return Sym("cudaSuccess")


def _launch_call(run: Cpp, name: str, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """cudaLaunchKernelEx(&config, kernel, args...) and cudaLaunchKernel(kernel, grid, block, array, ...)."""
    plain = [a.get() if isinstance(a, Slot) else a for a in args]
    at = next((i for i, a in enumerate(plain) if isinstance(a, (Overloads, Func, Template))), None)
    called = None if at is None else launch_settings.of_call(name, plain, at)
    if at is None or called is None or called.arguments is None:
        return opaque(run, name, plain, loc)
    before, run.refused_launch = run.refused_launch, False
    run.launch_value(plain[at], called.arguments, called.settings, loc)
    refused, run.refused_launch = run.refused_launch, run.refused_launch or before
    run.failed = run.failed or refused
    return cpp_names.FAILURE if refused else Sym("cudaSuccess")


def _function(run: Cpp, args: Sequence[Value]) -> Value:
    """A kernel by its symbol, or by name out of the texts that were compiled at run time."""
    plain = [a.get() if isinstance(a, Slot) else a for a in args[1:]]
    name = next((a for a in plain if isinstance(a, str)), None)
    found = next((a for a in plain if isinstance(a, (Overloads, Func, Template))), None)
    if found is None and name is not None:
        for env in reversed(run.programs):
            found = env.vars.get(name)
            if isinstance(found, Overloads):
                break
    if found is not None and args and isinstance(args[0], Slot):
        args[0].set(found)
    return Sym("cudaSuccess")


def _program(run: Cpp, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """nvrtcCreateProgram(&program, text, ...): the text is lowered like any other."""
    text = next((a for a in (x.get() if isinstance(x, Slot) else x for x in args[1:]) if isinstance(a, str)), None)
    if text is None:
        run.interp.miss("the text of a kernel compiled at run time is not known", loc)
        return Sym("NVRTC_SUCCESS")
    run.programs.append(cpp_texts.build_env(run.interp, [text], [], None)[0])
    return Sym("NVRTC_SUCCESS")


def _device_query(run: Cpp, short: str, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """What the runtime and the driver say of the GPU."""
    found = run.interp.session.device
    attribute = getattr(args[1], "path", "") if len(args) > 1 else ""
    if "Attribute" not in short or "apability" in attribute or "CAPABILITY" in attribute:
        run.interp.note("capability-read", {}, loc)
    if short == "getCurrentDeviceProperties" or short == "getDeviceProperties":
        return LibObject("cudaDeviceProp", device.cpp_properties(found))
    if args and isinstance(args[0], Slot):
        old = args[0].get()
        if short.endswith("DeviceGetAttribute"):
            args[0].set(device.attribute(found, attribute.rpartition("::")[2]))
        elif isinstance(old, LibObject):
            old.attrs.update(device.cpp_properties(found))
        else:
            args[0].set(LibObject("cudaDeviceProp", device.cpp_properties(found)))
    return Sym("cudaSuccess")


def declared(run: Cpp, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """Calls a function that the submission declares and does not define: one of a known library by its model, any other
    as unread code."""
    if name.startswith(("cu", "nv", "nccl", "std::", "at::", "torch::", "c10::")) or cpp_outputs.leaves(name):
        return library(run, name, [], args, loc)
    run.interp.ran_unread(f"{name} is declared here and defined nowhere that could be read", loc)
    return opaque(run, name, args, loc)


def for_its_effect(run: Cpp, node: ir.Call, value: object, env: Env, loc: ir.Loc | None) -> None:
    """Records a call in statement position, of a function or macro that neither the submission nor a known library
    defines: it may do anything to its arguments, and a macro to any name in scope. (Where the value is used, the name
    may be that of a type.)"""
    func = node.func
    if isinstance(value, LibObject) and value.attrs.get("called"):
        name, given = value.path, value.attrs["items"]
    elif isinstance(value, Unknown) and isinstance(func, ir.Name) and not _is_bound(func.id, env):
        name, given = func.id, []
    else:
        return
    if cpp_outputs.leaves(name) or name.startswith(_QUIET):
        return
    if not given and name.isupper():
        run.interp.ran_unread(f"{name} is used here and defined nowhere that could be read", loc)
    places = any(isinstance(arg, (ir.Name, ir.Attr, ir.Index)) or is_address(arg) for arg in node.args)
    if places and not given:
        changed(run, name, loc)
    opaque(run, name, given, loc)


def changed(run: Cpp, name: str, loc: ir.Loc | None) -> None:
    """Records that a function which is not followed may have changed the variables that it was given."""
    known = (
        cpp_outputs.leaves(name)
        or name.startswith(("std::", *_QUIET, *cpp_names.SOLID))
        or any(word in name.lower() for word in _TELLING)
    )
    if not known:
        run.interp.lost(f"what {name} does to what it is given is not known", loc)


def is_address(node: ir.Expr) -> bool:
    """Whether an expression is `&place`."""
    return isinstance(node, ir.Unary) and node.op == "&"


def _is_bound(name: str, env: Env) -> bool:
    try:
        env.lookup(name)
    except KeyError:
        return False
    return True


def opaque(run: Cpp, name: str, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """Records that something unreadable was given pointers; returns an unknown value."""
    found = cpp_arguments.pointers(args)
    if found:
        run.interp.miss(f"C++ could not be followed into {name}", loc)
        event = recording.record(run.interp, "unread", name, loc, [p.tensor for p in found])
        recording.may_fill(run.interp, [pointer.tensor for pointer in found], event, over_work=False)
    return Unknown((), name)


def dim(value: Value) -> Value:
    """Returns a `dim3` as a tuple (x, y, z), any other grid as it is."""
    if isinstance(value, Slot):
        value = value.get()
    if isinstance(value, Dim3):
        return (value.attrs["x"], value.attrs["y"], value.attrs["z"])
    return value
