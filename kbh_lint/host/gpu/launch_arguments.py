"""What a launch is given: one tree for each argument, whatever language launches, and all that is asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base.records import dataclass
from kbh_lint.base.values import (
    UNKNOWN,
    Buffer,
    Descriptor,
    DType,
    Func,
    JitFunction,
    Made,
    Overloads,
    Scalar,
    StructArg,
    Sym,
    Value,
)
from kbh_lint.cpp.domain import Type
from kbh_lint.host.datamodel import c_structs
from kbh_lint.host.gpu import lambdas, pointer_tables
from kbh_lint.host.torch.recording import ADDRESSES
from kbh_lint.host.values import bounds
from kbh_lint.host.values.cpp_objects import CStruct, Pointer, Slot
from kbh_lint.host.values.objects import HostDescriptor, Instance, LibObject
from kbh_lint.host.values.tensors import ADDRESS_BITS, Placed, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_DEPTH = 5
MAX_ITEMS = 64
_AS_THEY_ARE = (DType, Func, JitFunction, Sym, Overloads, Made, Scalar, type(None), str)
_NUMBERS = frozenset((int, float, bool))
_ALONE = frozenset((bool, float, str, type(None), DType))  # arguments that have no parts and lead nowhere
_FIRST = 1 << ADDRESS_BITS  # the first number that is an address


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, or one part of another.

    A leaf that leads to memory has the `tensor` behind it, and as pointer the element type that it is seen as.
    `parts` are the fields of a struct (`struct`), what a lambda holds, the items of a tuple, by name or position.
    """

    value: Any
    tensor: Tensor | None = None
    dtype: str = "?"
    parts: tuple[tuple[str, Argument], ...] = ()
    struct: bool = False
    leads: tuple[tuple[str, Tensor], ...] = ()  # the tensors that addresses in the memory lead to, by field

    def leaves(self, path: str) -> list[tuple[str, Argument]]:
        """Returns all leaves of the tree with their paths: `args.x` is a field of a struct, `args.0` an item of a
        tuple."""
        if not self.parts:
            return [(path, self)]
        return [leaf for name, part in self.parts for leaf in part.leaves(f"{path}.{name}")]


def tree(interp: Run, value: Value, depth: int = 0) -> Argument:
    """Converts a value of the host to an argument tree of a launch."""
    if type(value) in _ALONE or type(value) is int and value < _FIRST:
        return Argument(value)
    value = value.get() if isinstance(value, Slot) else value
    if isinstance(value, Tensor):
        return Argument(value, value, value.dtype)
    if isinstance(value, Pointer):
        described = value.tensor.storage.content.notes.get("descriptor")  # a map that was copied to the device
        if not isinstance(described, HostDescriptor):
            return Argument(value, value.tensor, value.dtype)
        value = described
    if isinstance(value, HostDescriptor):
        return Argument(value, value.tensor, value.tensor.dtype)
    if isinstance(value, int) and not isinstance(value, bool):
        tensor = interp.tensor_at(value)
        return Argument(value, tensor, tensor.dtype if tensor is not None else "?")
    if depth >= MAX_DEPTH:
        return Argument(value)
    value = lambda_opened(interp, value)
    if isinstance(value, CStruct) and not isinstance(_kind(value), Type):
        return Argument(value, parts=_parts(interp, value.attrs.items(), depth), struct=True)
    if isinstance(value, Instance) and c_structs.is_struct(value.cls):
        return Argument(value, parts=_parts(interp, value.attrs.items(), depth), struct=True)
    if isinstance(value, (tuple, list)):
        return Argument(value, parts=_parts(interp, enumerate(value[:MAX_ITEMS]), depth))
    if isinstance(value, dict):
        return Argument(value, parts=_parts(interp, list(value.items())[:MAX_ITEMS], depth))
    return Argument(value)


def _kind(value: LibObject) -> object:
    """The type of an object of C++: a `Type` of a vector, whose lanes are numbers, and no fields."""
    return value.kwargs.get("type")


def trees(interp: Run, values: Mapping[str, Value]) -> dict[str, Argument]:
    """Converts the values given to one launch to argument trees, and follows tables of pointers among them to the
    tensors."""
    made = {name: tree(interp, value) for name, value in values.items()}
    leaves = [leaf for argument in made.values() for _, leaf in argument.leaves("") if leaf.tensor is not None]
    if not any(_may_lead(leaf.tensor) for leaf in leaves):
        return made
    places: dict[int, list[int]] = {}
    for leaf in leaves:
        start = _start(leaf)
        if leaf.tensor is not None and start is not None:
            places.setdefault(leaf.tensor.storage.ident, []).append(start)
    return {name: _leading(argument, places) for name, argument in made.items()}


def _may_lead(tensor: Tensor | None) -> bool:
    """Whether addresses may lie in a tensor's memory: any that were noted there, or that were copied or computed."""
    content = None if tensor is None else tensor.storage.content
    if content is None:
        return False
    return ADDRESSES in content.notes or not content.label and content.dtype in pointer_tables.WIDE


def _leading(argument: Argument, places: Mapping[int, list[int]]) -> Argument:
    """An argument with the tensors that addresses behind it lead to: in the part of the memory that it shows, or up to
    where another argument begins."""
    if argument.parts:
        parts = tuple((name, _leading(part, places)) for name, part in argument.parts)
        return argument if parts == argument.parts else replace(argument, parts=parts)
    tensor = argument.tensor
    if tensor is None or not _may_lead(tensor):
        return argument
    start, stop = _start(argument), None
    if isinstance(argument.value, Tensor) and tensor.place is not None:
        stop = tensor.place.stop
    elif start is not None:
        stop = min((at for at in places.get(tensor.storage.ident, ()) if at > start), default=None)
    found = pointer_tables.leads(tensor.storage.content, start, stop)
    return replace(argument, leads=found) if found else argument


def _parts(interp: Run, items: Iterable[tuple[Any, Any]], depth: int) -> tuple[tuple[str, Argument], ...]:
    return tuple((str(name), tree(interp, item, depth + 1)) for name, item in items)


def lambda_opened(interp: Run, value: Value) -> Value:
    """Returns an argument of a launch, a lambda as an object with its captures as fields."""
    return lambdas.as_object(interp, value) if lambdas.is_lambda(value) else value


# --- what is asked of the tree --------------------------------------------------------------------------------


def given(argument: Argument, constexpr: bool = False, seen_as: str = "") -> Any:
    """Converts an argument tree to the form that kernel analyses take; a pointer gets the element type `seen_as` that
    the kernel declares."""
    value, tensor = argument.value, argument.tensor
    if tensor is None and type(value) in _NUMBERS:  # as most are
        return value if constexpr else Scalar(value)
    if tensor is not None:
        content = tensor.storage.content_at(tensor.start).dtype
        if isinstance(value, HostDescriptor):
            block = value.block if isinstance(value.block, (list, tuple)) else None
            sizes = None if block is None else tuple(b for b in block if isinstance(b, int))
            shape, strides = _whole(value.shape), _whole(value.strides)
            return Descriptor(tensor.dtype, tensor.storage.ident, content, sizes, shape, strides)
        leads = tuple([(name, _led(found)) for name, found in argument.leads])
        return Buffer(seen_as or argument.dtype, tensor.storage.ident, content, leads)
    if argument.struct:
        return StructArg(tuple((name, given(part)) for name, part in argument.parts if _says_something(part)))
    if isinstance(value, _AS_THEY_ARE):
        return value
    if isinstance(value, (tuple, list)) and len(argument.parts) == len(value) and bounds.is_small(value):
        return tuple(given(part, constexpr) for _, part in argument.parts)
    if isinstance(value, (Unknown, tuple, list)):
        return UNKNOWN if constexpr else Scalar(UNKNOWN)
    if isinstance(value, (int, float, bool)):
        return value if constexpr else Scalar(value)
    return value if constexpr else Scalar(UNKNOWN)


def _led(tensor: Tensor) -> Buffer:
    """The memory that an address in a table leads to."""
    content = tensor.storage.content_at(tensor.start)
    fresh = content.label == "empty" and content.event is None
    role = "empty" if fresh else "given" if content.label.startswith(("input:", "state:")) else ""
    return Buffer(tensor.dtype, tensor.storage.ident, content.dtype, role=role)


def _whole(sizes: object) -> tuple[int, ...]:
    """Sizes of which each is known; else none."""
    if not isinstance(sizes, (list, tuple)):
        return ()
    known = tuple(size for size in sizes if isinstance(size, int))
    return known if len(known) == len(sizes) else ()


def of(interp: Run, value: Value, constexpr: bool) -> Value:
    """Converts a value of the host to the form that kernel analyses take."""
    if type(value) is bool or type(value) is str or type(value) is int and interp.tensor_at(value) is None:
        return given(Argument(value), constexpr)
    return given(trees(interp, {"": value})[""], constexpr)


def _says_something(argument: Argument) -> bool:
    """Whether a field tells the kernel more than its type does."""
    if argument.parts:
        return any(_says_something(part) for _, part in argument.parts)
    value = argument.value
    return argument.tensor is not None or value is None or isinstance(value, (int, float, Func, Overloads))


def tensors(arguments: Iterable[Argument]) -> dict[int, Tensor]:
    """Returns the tensors that the arguments point to, by the ident of their storage."""
    found: dict[int, Tensor] = {}
    for argument in arguments:
        for _, leaf in argument.leaves("") if argument.parts else ((None, argument),):
            if leaf.tensor is not None:
                found.setdefault(leaf.tensor.storage.ident, leaf.tensor)
            for _, tensor in leaf.leads:
                found.setdefault(tensor.storage.ident, tensor)
    return found


def unread_class(arguments: Iterable[Argument]) -> str:
    """Returns the name of an argument's class, or that of a part, whose source is not known and which holds pointers;
    empty without one. What a kernel does through such pointers is not known."""
    for argument in arguments:
        for _, leaf in argument.leaves(""):
            if leaf.tensor is None and isinstance(leaf.value, LibObject) and leaf.value.attrs.get("pointers"):
                return leaf.value.path.removeprefix("cpp:")
    return ""


def starts(arguments: Mapping[str, Argument]) -> dict[str, int | None]:
    """Returns the offset in bytes at which each pointer among the arguments begins in its storage; None where it is not
    known."""
    found: dict[str, int | None] = {}
    for name, argument in arguments.items():
        for path, leaf in argument.leaves(name) if argument.parts else ((name, argument),):
            if leaf.tensor is not None:
                found[path] = _start(leaf)
    return found


def _start(leaf: Argument) -> int | None:
    value = leaf.value
    if isinstance(value, Placed):
        return None
    if isinstance(value, int) and leaf.tensor is not None:
        return value - leaf.tensor.storage.address
    start: int | None = value.tensor.start if isinstance(value, HostDescriptor) else value.start
    return start
