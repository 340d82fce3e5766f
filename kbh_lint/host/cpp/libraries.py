"""C++ functions outside the text: at:: and torch::, the CUDA runtime and driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import Env, Func, Overloads, Sym, TypeValue, Value
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.cpp import construction as cpp_construction
from kbh_lint.host.cpp import copies as cpp_copies
from kbh_lint.host.cpp import graphs as cpp_graphs
from kbh_lint.host.cpp import lambdas as cpp_lambdas
from kbh_lint.host.cpp import library_work
from kbh_lint.host.cpp import names as cpp_names
from kbh_lint.host.cpp import python_objects as cpp_python
from kbh_lint.host.cpp import std as cpp_std
from kbh_lint.host.cpp import streams as cpp_streams
from kbh_lint.host.cpp import texts as cpp_texts
from kbh_lint.host.effects import outside
from kbh_lint.host.gpu import images, l2
from kbh_lint.host.torch import recording, tensor_attributes, torchlib
from kbh_lint.host.values import device
from kbh_lint.host.values.cpp_objects import Dim3, Pointer, Slot, Template, TensorOptions
from kbh_lint.host.values.objects import Blob, Extension, HostDescriptor, LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.cpp import Cpp

C_FUNCTIONS = frozenset(
    "abort calloc ceil ceilf clock_gettime close exit exp expf fabs fabsf floor fmod fprintf free getenv gettimeofday "
    "log logf malloc memcmp memcpy memmove memset open posix_memalign pow powf printf rand read realloc sleep snprintf "
    "sprintf sqrt sqrtf srand strcmp strlen strncmp time usleep write".split()
)
_QUIET = ("CHECK", "ASSERT", "TORCH_", "AT_", "C10_", "LOG", "VLOG", "GLOG", "DCHECK", "NVTX", "PYBIND11_")
_DEVICE_QUERIES = frozenset(
    "cudaGetDeviceProperties cudaDeviceGetAttribute cuDeviceGetAttribute getCurrentDeviceProperties "
    "getDeviceProperties".split()
)


def library(run: Cpp, name: str, given: tuple[Any, ...] | list[Any], args: list[Any], loc: ir.Loc | None) -> Any:
    """A function outside the text, by its C++ name."""
    interp = run.interp
    short = name.rpartition("::")[2]
    l2.noticed(interp, short, args, loc)
    told = outside.native(interp, short, [a.get() if isinstance(a, Slot) else a for a in args], loc)
    if told is not None:
        return told
    ordered = cpp_streams.call(run, short, args)
    if ordered is not NotImplemented:
        return ordered
    standard = cpp_lambdas.standard(run, name, args, loc)
    standard = cpp_std.call(run, name, args, loc) if standard is NotImplemented else standard
    if standard is not NotImplemented:
        return standard
    python = cpp_python.imported(run, name, args, loc)
    if python is not NotImplemented:
        return python
    if short.startswith(("cu", "cuda")) and images.call(interp, short, args, loc):
        return Sym("cudaSuccess")
    if short in _DEVICE_QUERIES:
        return _device_query(run, short, args, loc)
    if "llocator::raw_alloc" in name and args:
        return cpp_copies.allocated(run, args[0])
    if name.startswith(("at::cuda::", "c10::cuda::", "at::get", "torch::cuda")):
        return LibObject.by_path(name)
    if name.startswith(("at::", "torch::", "c10::", "aten::")):
        return _aten(run, name, args, loc)
    plain = _standard(run, name, given, args)
    if plain is not NotImplemented:
        return plain
    if short.startswith(("cudaMemcpy", "cuMemcpy")):
        return cpp_copies.copied(run, short, args, loc)
    if short.startswith("cuTensorMapEncode"):
        return tensor_map(args)
    if short.startswith("make_") and (dtypes.vector_from_cpp(short[5:]) or ("", 1))[1] > 1:
        return cpp_construction.vector(short[5:], args)
    if short in ("make_tensor", "make_gmem_ptr") and args and isinstance(args[0], Pointer):  # of CuTe
        return args[0]
    if short in ("make_tma_copy", "make_tma_atom") and len(args) > 1 and isinstance(args[1], Pointer):
        return HostDescriptor(args[1].tensor)
    if short in ("dlopen", "dlmopen"):
        return interp.load_library(short, args[short == "dlmopen" :], {}, loc)
    if short.startswith(("cudaGetDriverEntryPoint", "cuGetProcAddress", "dlsym")):
        return _entry_point(short, args)
    if short == "dim3":
        sizes = [tensor_attributes.scalar(interp, "item", [a], {}, loc) if isinstance(a, Tensor) else a for a in args]
        return Dim3("dim3", dict(zip("xyz", [*sizes, 1, 1, 1], strict=False)))
    if short.startswith(("cudaLaunch", "cuLaunchKernel", "cudaLaunchKernelEx", "launch_kernel_on_cluster")):
        return _launch_call(run, short, args, loc)
    if short in ("cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cuMemAlloc", "cuMemAlloc_v2"):
        return cpp_copies.allocate(run, args)
    if short in ("cudaGetFuncBySymbol", "cuModuleGetFunction", "cudaGetKernel"):
        return _function(run, args)
    if "Graph" in short or "Capture" in short:
        return cpp_graphs.call(run, short, args, loc)
    if short.startswith(("THPVariable_", "Py")):
        return _python_interface(short, args)
    if short.startswith("nvrtcCreateProgram"):
        return _program(run, args, loc)
    if short.startswith("cudaOccupancyMaxActiveBlocksPerMultiprocessor"):
        if args and isinstance(args[0], Slot):
            args[0].set(1)
        return Sym("cudaSuccess")
    if name.startswith(cpp_names.SOLID) or short.startswith(("cublas", "cudnn")):
        return library_work.solid(run, name, args, loc)
    if short in ("cudaGetLastError", "cudaPeekAtLastError") and run.refused_launch:
        run.refused_launch, run.failed = short.startswith("cudaPeek"), True
        return cpp_names.FAILURE
    if short in cpp_names.STATUS:
        return Sym("cudaSuccess")
    if short.startswith(("cuda", "cu", "nvrtc")) and not cpp_arguments.pointers(args):
        return LibObject.by_path(name)
    if not cpp_arguments.pointers(args):
        return _pure(name, args)
    if short.startswith(
        ("cudaFree", "cudaMalloc", "cudaStream", "cudaEvent", "cudaFunc", "cudaGet", "cudaMemset", "cuMem", "make_")
    ):
        return LibObject.by_path(name, {"pointers": cpp_arguments.pointers(args)})
    cpp_arguments.given(run.interp, name, args, loc)
    return LibObject.by_path(name, {"pointers": cpp_arguments.pointers(args), "items": args, "called": True})


def _aten(run: Cpp, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """A function or a type of torch's C++ interface."""
    last = name.endswith("_outf")
    if "::_ops::" in name:  # `at::_ops::topk::call`, and `redispatch` with the keys before what is given
        args = args[name.endswith("::redispatch") :]
        name = f"at::{_without_overload(name.partition('::_ops::')[2].partition('::')[0])}"
        last = name.endswith("_out")
    if last and len(args) > 1:  # in the order of the schema: what is written comes last, and not first
        args, name = [args[-1], *args[:-1]], name.removesuffix("f") if name.endswith("_outf") else name
    short = name.rpartition("::")[2]
    if short in ("dtype", "TensorOptions", "device"):
        return cpp_arguments.tensor_options(TensorOptions("TensorOptions"), args)
    if name.endswith("indexing::Slice"):
        return cpp_arguments.part(args)
    if name == "c10::Dispatcher::singleton":
        return LibObject(name)
    if short in ("kCUDA", "kCPU", "None", "nullopt", "optional", "Device", "getCurrentCUDAStream"):
        return LibObject.by_path(name)
    if short.endswith("_out") and len(args) > 1:
        plain, kwargs = cpp_arguments.torch_args(args[1:])
        return torchlib.call(run.interp, f"at::{short.removesuffix('_out')}", plain, {**kwargs, "out": args[0]}, loc)
    if short in ("borrowed", "owned") and args:  # of a MaybeOwned
        return args[0]
    if short == "from_blob" and args and isinstance(args[0], (list, Pointer)):
        return cpp_copies.from_blob(run, args, loc)
    plain, kwargs = cpp_arguments.torch_args(args)
    if short in ("empty_cuda", "zeros_cuda", "empty_strided_cuda", "empty_generic"):
        name = f"at::{short.rpartition('_')[0]}"
    return torchlib.call(run.interp, name, plain, kwargs, loc)


def _without_overload(name: str) -> str:
    """`sum` of `sum_dim_IntList`, `sum_out` of `sum_IntList_out`: the operation, where torch has one of that name."""
    base = name.removesuffix("_out")
    end = name[len(base) :]
    while "_" in base.strip("_") and not cpp_names.is_operation(base):
        base = base.rpartition("_")[0]
    return base + end if cpp_names.is_operation(base) else name


def _standard(run: Cpp, name: str, given: tuple[Any, ...] | list[Any], args: list[Any]) -> Any:
    """Minima, moves and tuples of the standard library; NotImplemented for anything else."""
    if name in ("std::min", "min", "std::max", "max", "fmin", "fmax"):
        known = [a for a in args if isinstance(a, (int, float))]
        return (min if "min" in name else max)(known) if len(known) == len(args) and known else Unknown((), name)
    if name in ("std::get", "std::any_cast", "std::get_if") and args and given:
        return _item(run, args[0], given[0])
    if name == "std::holds_alternative" and args and given and (is_one := _is_of(run, args[0], given[0])) is not None:
        return is_one
    if name == "std::tuple_cat":
        plain = all(isinstance(a, (tuple, list)) for a in args)
        return tuple(item for a in args for item in a) if plain else Unknown((), name)
    if name in ("__builtin_expect", "__builtin_expect_with_probability", "C10_LIKELY", "C10_UNLIKELY") and args:
        return args[0]  # a branch is said to be likely
    if name in ("std::move", "std::forward", "std::launder", "std::to_address") and args:
        return args[0]
    if name in ("std::make_tuple", "std::make_pair", "std::tie", "std::get", "std::forward_as_tuple"):
        return tuple(args)
    if name in ("std::ref", "std::cref", "std::as_const") and args:
        return args[0]
    return NotImplemented


def _item(run: Cpp, held: Value, wanted: ir.Expr) -> Any:
    """`std::get<0>(tuple)`, `std::get<T>(tuple)` and the value of a variant or std::any."""
    index = wanted.value if isinstance(wanted, ir.Const) else run.eval(wanted, Env())
    if not isinstance(held, (tuple, list)):
        return held
    if isinstance(index, int):
        item = held[index] if index < len(held) else Unknown((), "std::get")
    else:
        item = next((item for item in held if _is_of(run, item, wanted)), Unknown((), "std::get"))
    return item.get() if isinstance(item, Slot) else item


def _is_of(run: Cpp, value: Value, wanted: ir.Expr) -> bool | None:
    """Whether a value is of a type that is written; None where that is not known."""
    value = value.get() if isinstance(value, Slot) else value
    own = run.types.key(run.types.type_of(value))
    kind = run.types.key(TypeValue(wanted, Env())) if isinstance(wanted, ir.TypeRef) else None
    return None if own is None or kind is None else own == kind


def _pure(name: str, args: list[Any]) -> Any:
    return args[0] if name in ("static_cast", "int", "round", "std::round") and args else Unknown((), name)


def tensor_map(args: list[Any]) -> Any:
    """cuTensorMapEncodeTiled(&map, type, rank, base, ...): the map is a descriptor of base."""
    base = next(
        (
            a.get() if isinstance(a, Slot) else a
            for a in args[1:]
            if isinstance(a, Pointer) or (isinstance(a, Slot) and isinstance(a.get(), Pointer))
        ),
        None,
    )
    if args and isinstance(args[0], Slot) and base is not None:
        args[0].set(HostDescriptor(base.tensor))
    return Sym("CUDA_SUCCESS")


def _entry_point(name: str, args: list[Any]) -> Any:
    """A function found by its name, of the driver through an address, of a library that was loaded by dlsym."""
    symbol = next((Sym(str(a)) for a in args if isinstance(a, str)), None)
    if name.startswith("dlsym") and args and symbol is not None and isinstance(args[0], (Blob, Extension)):
        owner, own = args[0], symbol.path
        return Blob(f"{owner.path}:{own}", owner.loc) if isinstance(owner, Blob) else owner.env.vars.get(own)
    if name.startswith("dlsym"):
        return symbol if symbol is not None else Unknown((), name)
    place = next((a for a in args if isinstance(a, Slot)), None)
    if place is not None and symbol is not None:
        place.set(symbol)
    return Sym("cudaSuccess")


def _launch_call(run: Cpp, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """cudaLaunchKernelEx(&config, kernel, args...) and cudaLaunchKernel(kernel, grid, block, array, ...)."""
    plain = [a.get() if isinstance(a, Slot) else a for a in args]
    at = next(
        (i for i, a in enumerate(plain) if isinstance(a, (Overloads, Func, Template))),
        None,
    )
    if at is None:
        return opaque(run, name, plain, loc)
    rest = plain[at + 1 :]
    packed = next((a for a in rest if isinstance(a, list)), None)
    if packed is not None and ("Ex" not in name or name.endswith("ExC")):
        rest = [a.get() if isinstance(a, Slot) else a for a in packed]
    run.launch_value(plain[at], rest, _launch_shape(name, plain, at), loc)
    return Sym("cudaSuccess")


def _launch_shape(name: str, args: list[Any], at: int) -> Any:
    """[grid, block] where the call spells them out: six numbers for the driver, two dim3 for the runtime."""
    if name == "cuLaunchKernel" and len(args) > at + 6:
        return [tuple(args[at + 1 : at + 4]), tuple(args[at + 4 : at + 7])]
    return args[at + 1 : at + 3] if name == "cudaLaunchKernel" and len(args) > at + 3 else None


class PyTuple(list[Any]):
    """A tuple of Python while C++ fills it."""


def _python_interface(name: str, args: list[Any]) -> Any:
    """Python's own C interface: objects pass through, and tuples can be written to until Python gets them."""
    if name.endswith(("_Check", "_CheckExact")):
        return True
    if name == "PyTuple_New":
        return PyTuple([None] * (args[0] if args and isinstance(args[0], int) and args[0] < 64 else 0))
    if (
        name in ("PyTuple_SET_ITEM", "PyTuple_SetItem", "PyList_SetItem")
        and len(args) > 2
        and isinstance(args[0], list)
    ):
        if isinstance(args[1], int) and args[1] < len(args[0]):
            args[0][args[1]] = args[2]
        return 0
    if name == "PyTuple_Pack":
        return PyTuple(args[1:])
    if name in ("PyTuple_GET_ITEM", "PyTuple_GetItem") and len(args) > 1 and isinstance(args[0], (list, tuple)):
        return args[0][args[1]] if isinstance(args[1], int) and args[1] < len(args[0]) else Unknown()
    return args[0] if args else None


def _function(run: Cpp, args: list[Any]) -> Any:
    """A kernel by its symbol, or by name out of the texts that were compiled at run time."""
    plain = [a.get() if isinstance(a, Slot) else a for a in args[1:]]
    name = next((a for a in plain if isinstance(a, str)), None)
    found = next(
        (a for a in plain if isinstance(a, (Overloads, Func, Template))),
        None,
    )
    if found is None and name is not None:
        for env in reversed(run.programs):
            found = env.vars.get(name)
            if isinstance(found, Overloads):
                break
    if found is not None and args and isinstance(args[0], Slot):
        args[0].set(found)
    return Sym("cudaSuccess")


def _program(run: Cpp, args: list[Any], loc: ir.Loc | None) -> Any:
    """nvrtcCreateProgram(&program, text, ...): the text is lowered like any other."""
    text = next((a for a in (x.get() if isinstance(x, Slot) else x for x in args[1:]) if isinstance(a, str)), None)
    if text is None:
        run.interp.miss("the text of a kernel compiled at run time is not known", loc)
        return Sym("NVRTC_SUCCESS")
    run.programs.append(cpp_texts.build_env(run.interp, [text], [], None)[0])
    return Sym("NVRTC_SUCCESS")


def _device_query(run: Cpp, short: str, args: list[Any], loc: ir.Loc | None) -> Any:
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
    """A function that the text declares and does not define: the system's, or one of what it is linked with."""
    if name.startswith(("cu", "nv", "nccl", "std::", "at::", "torch::", "c10::")) or name in C_FUNCTIONS:
        return library(run, name, [], args, loc)
    run.interp.ran_unread(f"{name} is declared here and defined nowhere that could be read", loc)
    return opaque(run, name, args, loc)


def for_its_effect(run: Cpp, func: ir.Expr, value: object, env: Env, loc: ir.Loc | None) -> None:
    """A call whose value nobody takes, of a function or macro that neither the text nor a known library defines: it may
    do anything with what it was given, and a macro with any name around it. (Where the value is taken, nothing says
    that it is no type.)"""
    if isinstance(value, LibObject) and value.attrs.get("called"):
        name, given = value.path, value.attrs["items"]
    elif isinstance(value, Unknown) and isinstance(func, ir.Name) and not _is_bound(func.id, env):
        name, given = func.id, []
    else:
        return
    if name in C_FUNCTIONS or name.startswith(_QUIET):
        return
    if not given and name.isupper():
        run.interp.ran_unread(f"{name} is used here and defined nowhere that could be read", loc)
    opaque(run, name, given, loc)


def _is_bound(name: str, env: Env) -> bool:
    try:
        env.lookup(name)
    except KeyError:
        return False
    return True


def opaque(run: Cpp, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """Something that could not be read was given pointers."""
    found = cpp_arguments.pointers(args)
    if found:
        run.interp.miss(f"C++ could not be followed into {name}", loc)
        event = recording.record(run.interp, "unread", name, loc, [p.tensor for p in found])
        for pointer in found:
            if pointer.tensor.storage.content.label in ("empty", "constant"):  # it waits for what will fill it
                recording.write(run.interp, pointer.tensor, event)
    return Unknown((), name)


def dim(value: Value) -> Any:
    """A grid as a tuple."""
    if isinstance(value, Slot):
        value = value.get()
    if isinstance(value, Dim3):
        return (value.attrs["x"], value.attrs["y"], value.attrs["z"])
    return value
