"""Objects of C++ host code, by what they are (see `named_objects`), and what its references and pointers point to."""

from __future__ import annotations

from typing import Any

from kbh_lint.base.dtypes import STORED
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Brief, Value
from kbh_lint.host.values.objects import LibObject, ProcessNumber, of_paths
from kbh_lint.host.values.tensors import Tensor, Unknown


@of_paths("struct:")
class CStruct(LibObject):
    """An object of a class of the submission's C++, or a CUDA vector; reports call it `struct:NAME`."""

    by_fields = True


class LooseStruct(CStruct):
    """A struct whose type is not known: its fields come to be as they are named."""


@of_paths("cpp.template")
class Template(LibObject):
    """A function template with some of its arguments: `f<int>`."""


@of_paths("cpp.method")
class OwnMethod(LibObject):
    """A method of an object of a class of the submission's C++: `object.f`."""


@of_paths("cpp.bound")
class LibraryMethod(LibObject):
    """A method of a library value: `tensor.f`."""


@of_paths("cpp:python")
class PythonObject(LibObject):
    """`py::object`: a module, function or other object of Python, its `value`."""


@of_paths("cpp:field")
class LibraryField(LibObject):
    """A field of a library's struct, created when it is first named."""


def library_field(owner: LibObject, name: str) -> Value:
    """Returns a field of a library's struct, which comes to be when it is first named; NotImplemented for others."""
    if not owner.path.startswith("cpp:") and not isinstance(owner, LooseStruct):
        return NotImplemented
    return owner.attrs.setdefault(name, LibraryField("cpp:field"))


@of_paths("c10::Dispatcher::singleton")
class Dispatcher(LibObject):
    """torch's dispatcher."""


@of_paths(*(f"{space}c10::OperatorName" for space in ("", "cpp:")))
class OperatorName(LibObject):
    """`c10::OperatorName`, whose `items` are the name of an operator and that of an overload."""


@of_paths("cpp.schema")
class Schema(LibObject):
    """An operator that torch's dispatcher was asked for by its `name`, without `aten::`, None where that is not known;
    `last` says that what it writes comes last."""


@of_paths("TensorOptions", *(f"cpp:{space}TensorOptions" for space in ("", "at::", "c10::", "torch::")))
class TensorOptions(LibObject):
    """`TensorOptions` of any of torch's namespaces."""


@of_paths("cpp.bind")
class Bound(LibObject):
    """The result of std::bind or std::mem_fn: a function `func` and `args`; with `more`, arguments of the call are
    appended."""


@of_paths(
    *(f"{space}::cuda::CUDACachingAllocator::get" for space in ("c10", "at")),
    "at::cuda::getCUDADeviceAllocator",
    "c10::cuda::getCUDADeviceAllocator",
)
class Allocator(LibObject):
    """torch's allocator of device memory."""


@of_paths("dim3")
class Dim3(LibObject):
    """`dim3`."""


@of_paths("cpp.future")
class Future(LibObject):
    """`std::future`, of work that was done at once."""


@of_paths("cpp.event")
class Event(LibObject):
    """`cudaEvent_t`, or torch's `CUDAEvent`, which holds one."""


@of_paths("cpp.stream_guard")
class StreamGuard(LibObject):
    """torch's `CUDAStreamGuard`: until its scope ends, the current stream is another."""


@of_paths("cutlass")
class CutlassOperator(LibObject):
    """An object of a CUTLASS device type."""


@of_paths("cublaslt.layout")
class MatrixLayout(LibObject):
    """A matrix layout of cuBLASLt: element `type`, `rows`, `cols`, and the number of matrices, `batch`."""


@of_paths("cpp:at::IntArrayRef")
class IntArrayRef(LibObject):
    """`at::IntArrayRef`."""


@dataclass(slots=True, eq=False, repr=False)
class Slot(Brief):
    """A C++ lvalue: the place of a variable that a reference or an address names."""

    env: Any
    name: Any

    def get(self) -> Any:
        """Returns the value in the place. A field not named before gives an unknown value, which a library may have
        stored."""
        try:
            return self.env[self.name]
        except KeyError:
            return Unknown((), "what a place holds that nothing was put into")

    def is_filled(self) -> bool:
        """Whether a value was stored in the place."""
        return not isinstance(self.env, dict) or self.name in self.env

    def set(self, value: Value) -> None:
        """Stores a value in the place."""
        self.env[self.name] = value


class Pack(tuple[Any, ...]):
    """The values that a C++ parameter pack is bound to."""

    __slots__ = ()


class TensorImpl(ProcessNumber):
    """The address of a tensor's `TensorImpl`: one object is told from another by it."""

    tensor: Tensor


@dataclass(slots=True, eq=False, repr=False)
class Pointer(Brief):
    """A C++ pointer into a storage: its tensor, the element type that it points to, and its offset from the tensor's
    start in such elements. Pointers to equal addresses are equal, also as dict keys."""

    tensor: Tensor
    dtype: str
    offset: Any = 0

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Pointer):
            if self.tensor.storage is not other.tensor.storage:
                return False
            start, there = self.start, other.start
            return self.offset is other.offset if start is None or there is None else start == there
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.tensor.storage.ident)

    @property
    def start(self) -> int | None:
        """The offset in bytes in its storage to which the pointer points; None where it is not known."""
        start = self.tensor.start
        known = start is not None and isinstance(self.offset, int)
        return start + self.offset * STORED.get(self.dtype, 32) // 8 if known else None

    def moved(self, by: Value) -> Pointer:
        """Returns `pointer + by`."""
        known = type(by) is int and isinstance(self.offset, int)
        if known:
            return Pointer(self.tensor, self.dtype, self.offset + by)
        sources = [n.contents for n in (self.offset, by) if isinstance(n, Unknown)]
        return Pointer(self.tensor, self.dtype, Unknown(tuple(dict.fromkeys(c for found in sources for c in found))))

    def elements(self) -> int | None:
        """Returns the offset in the storage, in elements of the pointer's type; None where it is not known."""
        start, size = self.start, STORED.get(self.dtype, 32) // 8
        return start // size if start is not None and size and start % size == 0 else None

    def seen_as(self, dtype: str) -> Pointer:
        """Returns the same address as a pointer to another element type."""
        here = self.offset * STORED.get(self.dtype, 32) if isinstance(self.offset, int) else None
        size = STORED.get(dtype, 32)
        return Pointer(self.tensor, dtype, here // size if here is not None and here % size == 0 else self.offset)
