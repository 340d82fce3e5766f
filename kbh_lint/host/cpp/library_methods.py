"""Methods of values in C++ host code that are no objects of the text: by the class of the value, then by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.by_class import ByClass
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import DType, Env, Sym, TypeValue, Value
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.cpp import copies as cpp_copies
from kbh_lint.host.cpp import libraries as cpp_libraries
from kbh_lint.host.cpp import library_work
from kbh_lint.host.cpp import names as cpp_names
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp import python_objects as cpp_python
from kbh_lint.host.cpp import streams as cpp_streams
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.cpp.std import calling, texts
from kbh_lint.host.cpp.std.containers import Heap
from kbh_lint.host.cpp.std.heaps import HEAPS
from kbh_lint.host.cpp.std.methods import LISTS, MAPS
from kbh_lint.host.datamodel import comparisons
from kbh_lint.host.gpu import graphs
from kbh_lint.host.python import lanes
from kbh_lint.host.torch import tensor_attributes, tensor_views, torchlib
from kbh_lint.host.values import unknowns
from kbh_lint.host.values.cpp_objects import (
    Allocator,
    CStruct,
    CutlassOperator,
    Dispatcher,
    Future,
    Pointer,
    PythonObject,
    Schema,
    Slot,
    TensorImpl,
    TensorOptions,
)
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.named_objects import Thread
from kbh_lint.host.values.objects import Graph, LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp


@dataclass(slots=True)
class Asked:
    """A call of a method: its name, template arguments, arguments, and the place where it is written."""

    run: Cpp
    name: str
    given: tuple[ir.Expr, ...]
    args: list[Any]
    node: ir.Call
    env: Env

    def site(self, kind: str) -> Site:
        """Returns the call as a `Site` of the method of `std::kind`, for the models of standard containers."""
        return Site(self.run.interp, f"std::{kind}.{self.name}", self.node.loc, self.args)


_Row = Callable[[Any, Asked], Value]


def call(owner: Value, asked: Asked) -> Value:
    """Calls a method of a value that is not an object of the submission's classes, by the row of the value's class."""
    if isinstance(owner, Slot):
        owner = owner.get()
    if asked.name in _OF_HOLDERS and isinstance(owner, (list, tuple, dict, CStruct)):
        return True if asked.name == "has_value" else owner
    return _ROWS[type(owner)](owner, asked)


_OF_HOLDERS = frozenset(("has_value", "value", "value_or"))  # of what holds a value, or none


def _other(owner: Value, asked: Asked) -> Value:
    """A value that nobody knows."""
    return unknowns.merged(asked.run.interp, owner, asked.args)


def _pointer(owner: Pointer, asked: Asked) -> Value:
    """Of what owns memory, the memory."""
    return owner if asked.name in ("get", "mutable_get", "data", "release") else _other(owner, asked)


def _nothing(owner: None, asked: Asked) -> Value:
    """Of a tensor that nothing was assigned to, of an empty std::optional, and of a weak pointer to nothing."""
    if asked.name in ("defined", "has_value"):
        return False
    if asked.name in ("lock", "_unsafe_get_target"):
        return None
    if asked.name in ("value", "value_or"):
        return asked.args[0] if asked.args else Unknown((), asked.name)
    return _other(owner, asked)


def _plain(owner: str | float, asked: Asked) -> Value:
    """Of a std::optional that holds a number or a text."""
    if asked.name == "has_value":
        return True
    return owner if asked.name in ("value", "value_or") else _other(owner, asked)


def _text(owner: str, asked: Asked) -> Value:
    """Of a std::string."""
    made = texts.method(asked.run, owner, asked.node, asked.args, asked.env)
    return _plain(owner, asked) if made is NotImplemented else made


def _list(owner: list[Value], asked: Asked, kind: str = "vector") -> Value:
    """Of a sequence; `sizes.equals(others)` is what an `IntArrayRef` has instead of an operator."""
    if asked.name == "equals" and asked.args and isinstance(other := asked.args[0], (list, tuple)):
        return comparisons.compare(asked.run.interp, "==", owner, list(other), asked.node.loc)
    return LISTS.call(asked.site(kind), owner)


def _stream(owner: texts.Stream, asked: Asked) -> Value:
    """Of a stream that holds a text."""
    if asked.name == "str" and asked.args:
        owner.attrs.update(texts.NEW, text=asked.args[0])
        return None
    if asked.name == "clear":
        owner.attrs.update(ended=False, failed=False)
    if asked.name in ("good", "fail", "eof") and isinstance(owner.attrs["text"], str):
        ended, failed = owner.attrs["ended"], owner.attrs["failed"]
        return {"good": not (ended or failed), "fail": failed, "eof": ended}[asked.name]
    known = asked.name == "str" and isinstance(owner.attrs["text"], str)
    return owner.attrs["text"] if known else _object(owner, asked)


def _graph(owner: Graph, asked: Asked) -> Value:
    """`at::cuda::CUDAGraph`, as a graph of Python's."""
    graphs.method(asked.run.interp, owner, asked.name, asked.node.loc)
    return None


def _symbol(owner: TypeValue | Sym, asked: Asked) -> Value:
    """A function in a type or a name of a library."""
    name = f"{getattr(owner, 'path', '')}.{asked.name}"
    return cpp_libraries.library(asked.run, name, asked.given, asked.args, asked.node.loc)


# --- objects that libraries made


def _known(owner: LibObject, asked: Asked) -> Value:
    """What any object may be asked, by its name; NotImplemented for all else."""
    ordered = cpp_streams.method(asked.run, owner, asked.name, asked.args, asked.node.loc)
    if ordered is not NotImplemented:
        return ordered
    if asked.name in ("dtype", "device", "requires_grad", "layout"):
        return _options(owner, asked)
    return asked.run.interp.session.device.sms if asked.name == "multiProcessorCount" else NotImplemented


def _object(owner: LibObject, asked: Asked) -> Value:
    """Of an object of a class that no row has."""
    made = _known(owner, asked)
    return _unread(owner, asked) if made is NotImplemented else made


def _unread(owner: LibObject, asked: Asked) -> LibObject:
    """A method of an object of an unknown type: it may keep what it is given, and give any of what it holds."""
    calling.may_call(asked.run, f"{owner.path}.{asked.name}", asked.args, asked.node.loc)
    held = [*owner.attrs.get("pointers", ()), *cpp_arguments.pointers(asked.args)]
    if len(held) > len(owner.attrs.get("pointers", ())) and owner.path.startswith("cpp:"):
        owner.attrs["pointers"] = held
    return LibObject.by_path(f"{owner.path}.{asked.name}", {"pointers": held})


def _options(owner: LibObject, asked: Asked) -> Value:
    """`TensorOptions`, and what has options: one that is asked for, or others in its place."""
    known = not asked.args and asked.name in owner.attrs
    return owner.attrs[asked.name] if known else cpp_arguments.tensor_options(owner, asked.args)


def _struct(owner: CStruct, asked: Asked) -> Value:
    """Of an object of the text that a smart pointer holds, or of one whose class has no such method that was read."""
    if asked.name in ("get", "release", "lock"):
        return owner
    made = _known(owner, asked)
    if made is not NotImplemented or not cpp_arguments.pointers(asked.args):
        return _unread(owner, asked) if made is NotImplemented else made
    name = f"{owner.path.removeprefix('struct:')}.{asked.name}"
    return cpp_libraries.opaque(asked.run, name, asked.args, asked.node.loc)


def _python(owner: PythonObject, asked: Asked) -> Value:
    """Of `py::object`."""
    made = cpp_python.method(asked.run, owner, asked.name, asked.args, asked.node.loc)
    return _object(owner, asked) if made is NotImplemented else made


def _allocator(owner: Allocator, asked: Asked) -> Value:
    """Of torch's allocator: memory of a size."""
    if asked.name in ("allocate", "raw_allocate") and asked.args:
        return cpp_copies.allocated(asked.run, asked.args[0])
    return _object(owner, asked)


def _future(owner: Future, asked: Asked) -> Value:
    """Of a std::future: the result."""
    return owner.attrs["result"] if asked.name in ("get", "wait") else _object(owner, asked)


def _thread(owner: Thread, asked: Asked) -> Value:
    """Of a std::thread, as of a thread of Python."""
    made = lanes.THREADS.call(Site(asked.run.interp, f"{owner.path}.{asked.name}", asked.node.loc, asked.args), owner)
    return None if made is NotImplemented else made


def _cutlass(owner: CutlassOperator, asked: Asked) -> Value:
    """Of an operator of CUTLASS."""
    return library_work.cutlass_method(asked.run, owner, asked.name, asked.args, asked.node.loc)


def _dispatcher(owner: Dispatcher, asked: Asked) -> Value:
    """Of torch's dispatcher."""
    made = library_work.dispatched(asked.run, asked.name, asked.args, asked.node.loc)
    return _unread(owner, asked) if made is NotImplemented else made


def _schema(owner: Schema, asked: Asked) -> Value:
    """`.typed<F>().call(...)` of an operator that the dispatcher found, or `.callBoxed(&stack)`; before `redispatch`'s
    arguments stand keys."""
    known = asked.name in library_work.CALLED | library_work.BOXED
    made = library_work.dispatched(asked.run, asked.name, [owner, *asked.args], asked.node.loc) if known else owner
    return _unread(owner, asked) if made is NotImplemented else made


# --- tensors


def _tensor(owner: Tensor, asked: Asked) -> Value:
    """Of a tensor: what C++ alone has, by its name, and then an attribute or an operation of torch."""
    name = _meant(asked)
    model = _OF_TENSORS.get(name)
    made = NotImplemented if model is None else model(owner, asked)
    if made is not NotImplemented:
        return made
    name = _OF_TORCH.get(name, name)
    made = tensor_attributes.attribute(asked.run.interp, owner, name, asked.node.loc)
    if made is not NotImplemented:
        return made
    plain, kwargs = cpp_arguments.torch_args(asked.args)
    return torchlib.call(asked.run.interp, f"at::Tensor::{name}", [owner, *plain], kwargs, asked.node.loc)


def _meant(asked: Asked) -> str:
    """The name of a method, also in `(x.*f)(...)`, where a pointer to a method is held under the name."""
    env, name = asked.env, asked.name
    named = env.get(name) is not None or env.get("this") is not None  # as few methods are
    held = asked.run.lookup(name, env) if named and name.isidentifier() else None
    return cpp_names.member_of_tensor(held.path) or name if isinstance(held, Sym) else name


def _itself(owner: Tensor, asked: Asked) -> Value:
    """A tensor that Python gave or std::ref holds, an accessor, an implementation."""
    return owner


def _yes(owner: Tensor, asked: Asked) -> Value:
    """What holds of all tensors here."""
    return True


def _memory(owner: Tensor, asked: Asked) -> Value:
    """The memory of a tensor, from the first byte."""
    size = owner.storage.size
    return Tensor(owner.storage, "u8", (size,), (1,), 0) if isinstance(size, int) else owner


def _address(owner: Tensor, asked: Asked) -> Value:
    """`data_ptr<T>()`."""
    seen = cpp_types.argument(asked.run, asked.given[0], asked.env) if asked.given else None
    return Pointer(owner, seen.name if isinstance(seen, DType) else owner.dtype)


def _options_of(owner: Tensor, asked: Asked) -> Value:
    """`options()`."""
    return TensorOptions("TensorOptions", {"dtype": DType(owner.dtype), "device": owner.device})


def _device(owner: Tensor, asked: Asked) -> Value:
    """The number of its GPU."""
    return 0


def _implementation(owner: Tensor, asked: Asked) -> Value:
    """The object behind a tensor."""
    made = TensorImpl(asked.run.interp.memory.identity(owner))
    made.tensor = owner
    return made


def _of_implementation(owner: TensorImpl, asked: Asked) -> Value:
    """Of the object behind a tensor, or of what points to it; it is asked what the tensor is."""
    if asked.name in ("get", "lock", "_unsafe_get_target"):
        return owner
    return _tensor(owner.tensor, asked)


def _same(owner: Tensor, asked: Asked) -> Value:
    """`x.is_same(y)`: whether both are one object."""
    if not asked.args:
        return NotImplemented
    return comparisons.compare(asked.run.interp, "is", owner, asked.args[0], asked.node.loc)


def _index(owner: Tensor, asked: Asked) -> Value:
    """`index({...})`; of a device without arguments, its number."""
    if not asked.args:
        return _device(owner, asked)
    return tensor_views.index(asked.run.interp, owner, cpp_arguments.indices(asked.args[0]), asked.node.loc)


def _index_put(owner: Tensor, asked: Asked) -> Value:
    """`index_put_({...}, value)`."""
    if len(asked.args) < 2:
        return NotImplemented
    at, value = cpp_arguments.indices(asked.args[0]), cpp_numbers.plain(asked.args[1])
    tensor_views.assign_index(asked.run.interp, owner, at, value, asked.node.loc)
    return owner


_ITSELF = "cast get value toTensor version_counter packed_accessor32 packed_accessor64 accessor".split()
_ADDRESSES = "data_ptr const_data_ptr mutable_data_ptr data mutable_data const_data".split()
_OF_TENSORS: dict[str, Callable[[Tensor, Asked], Value]] = {
    **dict.fromkeys(_ITSELF, _itself),
    **dict.fromkeys(_ADDRESSES, _address),
    **dict.fromkeys(("storage", "unsafeGetStorageImpl"), _memory),
    **dict.fromkeys(("defined", "is_contiguous", "has_value", "has_storage", "enabled"), _yes),
    **dict.fromkeys(("unsafeGetTensorImpl", "getIntrusivePtr"), _implementation),
    "is_same": _same,
    "options": _options_of,
    "index": _index,
    "index_put_": _index_put,
    "get_device": _device,
}
# What they are called in Python.
_OF_TORCH = {
    "sizes": "shape",
    "scalar_type": "dtype",
    "sym_size": "size",
    "sym_stride": "stride",
    "strides": "stride",
    "current_version": "_version",
}

_ROWS = ByClass[_Row](
    {
        type(None): _nothing,
        str: _text,
        **dict.fromkeys((int, float), _plain),
        TensorImpl: _of_implementation,
        Heap: lambda owner, asked: HEAPS.call(asked.site("priority_queue"), owner),
        list: _list,
        tuple: lambda owner, asked: _list(list(owner), asked, "tuple"),
        dict: lambda owner, asked: MAPS.call(asked.site("map"), owner),
        Tensor: _tensor,
        Pointer: _pointer,
        **dict.fromkeys((TypeValue, Sym), _symbol),
        Graph: _graph,
        texts.Stream: _stream,
        LibObject: _object,
        CStruct: _struct,
        PythonObject: _python,
        Allocator: _allocator,
        Future: _future,
        Thread: _thread,
        TensorOptions: _options,
        CutlassOperator: _cutlass,
        Dispatcher: _dispatcher,
        Schema: _schema,
    },
    _other,
)
