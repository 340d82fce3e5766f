"""Numba on the host: what makes a kernel of a function, what is in the brackets, launches, arrays, streams."""

from __future__ import annotations

from collections.abc import Sequence

from kbh_lint.base.values import UNKNOWN, DType, Func, JitFunction, Scalar, Single, Sym
from kbh_lint.dsl.numba.types import element, in_signature
from kbh_lint.dsl.tensors import kinds
from kbh_lint.host.effects import foreign
from kbh_lint.host.gpu import launches
from kbh_lint.host.torch import recording
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.library_objects import UnreadKernel
from kbh_lint.host.values.modelled import Library, Modelled, Site, Value, models
from kbh_lint.host.values.tensors import Tensor, Unknown

KERNEL, DEVICE = "numba.kernel", "numba.device"
JIT = "numba.cuda.jit"
TYPES = ".types"  # the attribute of a kernel with the types of its arguments: no name of Python
_ON_THE_CPU = frozenset(("numba.jit", "numba.njit", "numba.extending.register_jitable", "numba.generated_jit"))
_MOST = 4  # of what is in the brackets


class Decorator(Modelled):
    """`cuda.jit("void(float32[:])", device=True)`, `njit(parallel=True)`, which are called with a function."""

    def __init__(self, path: str, signature: Value = None, options: dict[str, Value] | None = None) -> None:
        super().__init__(path, {"signature": signature, **(options or {})})
        self.signature, self.options = signature, options or {}

    def called(self, site: Site) -> Value:
        """The decorated function."""
        return site.run.decorate(self, site.args[0], site.loc) if site.args else super().called(site)


class Launcher(Modelled):
    """`kernel[grid, block]`, which is called with the arguments."""

    def __init__(self, kernel: JitFunction, grid: Value, block: Value, shared: Value = 0) -> None:
        super().__init__("numba.cuda.launcher", {"kernel": kernel, "grid": grid, "block": block})
        self.kernel, self.grid, self.block, self.shared = kernel, grid, block, shared

    def called(self, site: Site) -> Value:
        """Records the launch; arguments are matched by position."""
        func = self.kernel.func
        names = [param.name for param in func.node.params]
        if len(site.args) > len(names) or site.kwargs:
            inputs = tensor_arguments.tensors_in([*site.args, *site.kwargs.values()])
            return foreign.unread_call(site.run, "a launch with arguments that do not fit", inputs, site.loc)
        told = func.attrs.get(TYPES, ())
        types = [*told, *[""] * len(names)]
        bound = {name: _number(value, dt) for name, value, dt in zip(names, site.args, types, strict=False)}
        outer = site.run.session.outer = _outer
        event = launches.launch_of_dsl(
            site.run, func, bound, _dims(self.grid), site.loc, _dims(self.block), self.shared
        )
        event.attrs["outer"] = outer
        return None


class Stream(Modelled):
    """`cuda.stream()`, or one that another library has made."""

    def __init__(self) -> None:
        super().__init__("numba.cuda.stream")

    @models("synchronize")
    def synchronize(self, site: Site) -> Value:
        """Models `stream.synchronize()`: the host waits for the GPU."""
        return _of_torch(site, "torch.cuda.synchronize", [])


class Numba(Library):
    """The package `numba`."""

    @models(JIT)
    def jit(
        self, site: Site, func_or_sig: Value = None, device: Value = False, inline: Value = False, **options: Value
    ) -> Value:
        """The kernel made of a function, or for a call without one a decorator."""
        if isinstance(func_or_sig, Func):
            return _kernel(site, func_or_sig, None, device)
        return Decorator(JIT, func_or_sig, {"device": device, **options})

    @models(*sorted(_ON_THE_CPU))
    def compiled(self, site: Site, signature_or_function: Value = None, *rest: Value, **options: Value) -> Value:
        """The host function unchanged, or for a call without one a decorator."""
        return signature_or_function if isinstance(signature_or_function, Func) else Decorator(site.path)

    @models("prange")
    def prange(self, site: Site, *bounds: Value) -> Value:
        """The value of `prange(...)`: a range."""
        return site.run.call(Sym("builtins.range"), list(bounds), {}, site.loc)

    @models("void")
    def signature(self, site: Site, *types: Value) -> Value:
        """The types in a signature such as `void(float32[:], int32)`."""
        return tuple(types)

    @models("as_cuda_array")
    def as_cuda_array(self, site: Site, obj: Value, sync: Value = True) -> Value:
        """The array `obj` with the same memory."""
        return obj if isinstance(obj, Tensor) else self.other(site)

    @models("is_cuda_array", "is_available")
    def yes(self, site: Site, obj: Value = None) -> Value:
        """The value True: there is a device, and arrays are in its memory."""
        return True

    @models("to_device")
    def to_device(self, site: Site, obj: Value, stream: Value = 0, copy: Value = True, to: Value = None) -> Value:
        """A copy of `obj` on the device, in the array `to` if that is given."""
        if isinstance(to, Tensor):
            return _of_torch(site, "torch.Tensor.copy_", [to, obj])
        return _of_torch(site, "torch.as_tensor", [obj], device="cuda")

    @models("device_array", "pinned_array", "managed_array", "mapped_array")
    def device_array(self, site: Site, shape: Value, dtype: Value = None, *rest: Value, **options: Value) -> Value:
        """A new uninitialised array on the device."""
        if dtype is None:
            dtype = DType("f64")
        named = str(getattr(dtype, "path", dtype)).rpartition(".")[2]  # `np.float32`, "float32"
        known = dtype.name if isinstance(dtype, DType) else element("numpy", named)
        sizes = shape if isinstance(shape, (tuple, list)) else [shape]
        return recording.make(site.run, tuple(n if isinstance(n, int) else None for n in sizes), known or "?", "empty")

    @models("device_array_like", "pinned_array_like", "mapped_array_like")
    def device_array_like(self, site: Site, ary: Value, stream: Value = 0) -> Value:
        """A new uninitialised array on the device, with the shape and type of `ary`."""
        return _of_torch(site, "torch.empty_like", [ary])

    @models("stream", "default_stream", "legacy_default_stream", "per_thread_default_stream", "external_stream")
    def stream(self, site: Site, ptr: Value = 0) -> Value:
        """A new stream object."""
        return Stream()

    @models("numba.cuda.synchronize")
    def synchronize(self, site: Site) -> Value:
        """Models `cuda.synchronize()`: the host waits for the GPU."""
        return _of_torch(site, "torch.cuda.synchronize", [])

    def kernel_method(self, site: Site, kernel: JitFunction) -> Value:
        """The result of `kernel[grid, block, stream, shared]`, `kernel.configure(...)` or `kernel.forall(tasks)`: a
        launcher."""
        args = site.args
        if site.name == "__getitem__":
            args = list(args[0]) if isinstance(args[0], (tuple, list)) else []
        if site.name == "forall":
            block = site.args[1] if len(site.args) > 1 else site.kwargs.get("tpb")
            tasks = site.args[0] if site.args else site.kwargs.get("ntasks")
            if isinstance(tasks, int) and isinstance(block, int) and block > 0:
                return Launcher(kernel, -(-tasks // block), block)
            return Launcher(kernel, None, None)
        if site.name in ("__getitem__", "configure"):
            if 2 <= len(args) <= _MOST:
                return Launcher(kernel, args[0], args[1], args[3] if len(args) > 3 else site.kwargs.get("sharedmem", 0))
            return Unknown((), "a kernel with what is no configuration")
        return kernel if site.name in ("specialize", "compile") else NotImplemented

    def decorate(self, site: Site, decorator: Value, target: Value) -> Value:
        """The kernel for `@cuda.jit` and `@cuda.jit(...)`, the function itself for `@njit`; other decorators are
        recorded as unread."""
        if site.path == JIT:
            given = decorator if isinstance(decorator, Decorator) else Decorator(JIT)
            return _kernel(site, target, given.signature, given.options.get("device", False))
        if site.path in _ON_THE_CPU:
            return target
        site.run.miss(f"what {site.path} makes of a function is not followed", site.loc)
        return UnreadKernel(site.path, target)

    def other(self, site: Site) -> Value:
        """Records any other function as unread if it is given tensors or functions."""
        given = [*site.args, *site.kwargs.values()]
        inputs = tensor_arguments.tensors_in(given)
        if inputs:
            return foreign.unread_call(site.run, site.path, inputs, site.loc)
        return UnreadKernel(site.path) if any(isinstance(value, Func) for value in given) else super().other(site)

    def element_type(self, path: str) -> str | None:
        """The element type that a path such as `numba.float32` or `numba.types.int8` names; None for other paths."""
        return element(*path.rpartition(".")[::2])

    def tensor_method(self, tensor: Tensor, name: str) -> Value:
        """The value of `array.copy_to_host()` and the like: the same array."""
        return tensor


def _kernel(site: Site, target: Value, signature: Value, device: Value) -> Value:
    if not isinstance(target, Func):
        return target
    if device is True:
        target.language = DEVICE
        return target
    target.language = KERNEL
    one = signature[0] if isinstance(signature, list) and signature else signature
    types = in_signature(one)
    if types:
        target.attrs[TYPES] = types
    made = JitFunction(target)
    site.run.authored.append(made)
    return made


def _outer(value: Value) -> Value:
    """What a kernel sees of the host beside numbers and functions: an array of constants, whose numbers it has."""
    if isinstance(value, Unknown) and value.origin == "numpy.array" and not value.contents:
        return kinds.Constants(fields=(("dtype", "f32"),))  # numbers of the host, of one type or another
    if isinstance(value, Tensor) and value.storage.content.label == "constant":
        return kinds.Constants(fields=(("dtype", value.dtype),))
    return UNKNOWN


def _number(value: Value, declared: str) -> Value:
    """An argument that is a number with its type: as it is declared, else a float has 64 bits."""
    if isinstance(value, Single):
        return Scalar(float(value), declared or value.dtype)
    if type(value) is float or type(value) is int and declared.startswith("f"):
        return Scalar(float(value), declared or "f64")
    return value


def _dims(size: Value) -> Value:
    """A grid, or the threads of a block, in three dimensions; what is not known stays so."""
    if isinstance(size, (tuple, list)):
        return (*size, 1, 1)[:3]
    return (size, 1, 1) if isinstance(size, int) else size


def _of_torch(site: Site, path: str, args: Sequence[Value], **named: Value) -> Value:
    """What a function of torch does."""
    return site.run.call(Sym(path), list(args), dict(named), site.loc)


LIBRARY = Numba()
