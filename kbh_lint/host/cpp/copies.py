"""Device memory from C++: allocated, copied by the runtime and the driver, and seen as a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import DType, Sym, Value
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp.std.containers import SoMany
from kbh_lint.host.torch import recording, tensor_attributes, tensor_copies, tensor_makers, tensor_views, whole_numbers
from kbh_lint.host.values.cpp_objects import Pointer, Slot
from kbh_lint.host.values.objects import HostDescriptor, LibObject
from kbh_lint.host.values.tensors import EventAttrs, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp
    from kbh_lint.host.run import Run


MAX_READ = 4096  # elements that are read one by one


def copied(run: Cpp, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """Models a copy by the runtime or the driver (destination first, then source), each side on the device or the
    host."""
    ends = [_row(a) if isinstance(a, Slot) else a for a in args]
    found = [a for a in ends if isinstance(a, (Pointer, Tensor))]
    if len(found) >= 2:
        _on_device(run, name, found[0], found[1], args[2] if len(args) > 2 else None, loc)
    elif found and ends[0] in found:
        _to_device(run, name, found[0], ends[1] if len(ends) > 1 else None, loc)
    elif found and ends[1] in found:
        _to_host(run, args[0], ends[0], found[0], loc)
    return Sym("cudaSuccess")


def filled(run: Cpp, name: str, args: Sequence[Value]) -> Value:
    """Models `cudaMemset(to, value, bytes)` and `cuMemsetD32(to, value, words)`: memory that is filled whole holds
    nothing of what was there. Parts, and rows with gaps, are left as they were."""
    to = _row(args[0]) if args and isinstance(args[0], Slot) else next(iter(args), None)
    if isinstance(to, (Pointer, Tensor)) and "2D" not in name and "3D" not in name and len(args) > 2:
        words = cpp_numbers.plain(args[2].get() if isinstance(args[2], Slot) else args[2])
        width = next((bits // 8 for bits in (16, 32) if f"D{bits}" in name), 1)
        storage, start = _tensor(to).storage, to.start
        if type(words) is int and start == 0 and words * width >= (storage.size or words * width + 1):
            tensor_copies.overwrite(run.interp, Tensor(storage, storage.content.dtype, None), "constant")
    return Sym("cudaSuccess")


def _tensor(place: Pointer | Tensor) -> Tensor:
    return place.tensor if isinstance(place, Pointer) else place


def _on_device(
    run: Cpp, name: str, to: Pointer | Tensor, of: Pointer | Tensor, count: Value, loc: ir.Loc | None
) -> None:
    source = _tensor(of)
    event = recording.record(run.interp, "copy", name, loc, [source], {"cast": False})
    rows = "2D" in name or "3D" in name  # of which the numbers say how long and how many they are
    target, partial = _filled(to, None if rows else count)
    recording.write(run.interp, target, event, partial or rows, source.storage.content.dtype)


def _to_device(run: Cpp, name: str, to: Pointer | Tensor, of: Value, loc: ir.Loc | None) -> None:
    """Numbers of the host, a descriptor that it made, or memory of which nobody knows what it holds."""
    target = _tensor(to)
    steer: EventAttrs = {"cast": False, "steer": cpp_arguments.numbers(run.interp, of)}
    recording.write(run.interp, target, recording.record(run.interp, "copy", name, loc, [], steer))
    if isinstance(of, HostDescriptor):
        target.storage.content.notes["descriptor"] = of
    elif isinstance(of, list):
        recording.addresses(run.interp, target, of)
    elif of is None or isinstance(of, Unknown) and not steer["steer"]:
        run.interp.miss("what is copied from memory of the host is not known", loc)


def _to_host(run: Cpp, to: Value, array: Value, of: Pointer | Tensor, loc: ir.Loc | None) -> None:
    """Into an array, from the element on that is named, or into one number; `array` is what `to` points at."""
    if isinstance(array, list):
        start = to.name if isinstance(to, Slot) and to.env is array else 0
        array[start:] = _elements(run, of, len(array) - start, loc)
    elif isinstance(to, Slot) and isinstance(array, (int, float, Unknown)):
        to.set(_elements(run, of, 1, loc)[0])


def _filled(to: Pointer | Tensor, size: object) -> tuple[Tensor, bool]:
    """What a copy of so many bytes to a place writes: a view of these, and whether it is a part that is not known."""
    size = size.get() if isinstance(size, Slot) else size
    if isinstance(to, Tensor):
        return to, False
    storage, start, count = to.tensor.storage, to.start, cpp_numbers.plain(size)
    if start is None:
        return to.tensor, True
    if not isinstance(count, int) or count <= 0 or start == 0 and count >= (storage.size or 0):
        return to.tensor, start > 0
    return Tensor(storage, "u8", (count,), (1,), start, is_slice=True), False


def _row(slot: Slot) -> Value:
    """What an address points at; the array, for that of one of its elements."""
    held = slot.get()
    return slot.env if isinstance(slot.env, list) and not isinstance(held, (Pointer, Tensor, list)) else held


def _elements(run: Cpp, source: Pointer | Tensor, count: int, loc: ir.Loc | None) -> list[Value]:
    """So many numbers of a tensor, as the host has them after a copy."""
    tensor = source.tensor if isinstance(source, Pointer) else source
    first = tensor_attributes.scalar(run.interp, "item", [tensor], {}, loc)
    made = run.interp.trace.round
    more = [Unknown((tensor.storage.content,), "an element", made=made, reading="element") for _ in range(1, count)]
    return [first, *more][:count]


def allocate(run: Cpp, args: Sequence[Value]) -> Value:
    """Models `cudaMalloc(&pointer, bytes)`."""
    if args and isinstance(args[0], Slot):
        args[0].set(allocated(run, args[1] if len(args) > 1 else None))
    return Sym("cudaSuccess")


def seen_by_device(args: Sequence[Value]) -> Value:
    """Models `cudaHostGetDevicePointer(&pointer, host, flags)`: the same memory."""
    to, host = (*args[:2], None, None)[:2]
    if isinstance(to, Slot):
        to.set(host.get() if isinstance(host, Slot) else host)
    return Sym("cudaSuccess")


def allocated(run: Cpp, size: Value) -> Pointer:
    """Returns a pointer to `size` new bytes of device memory that nothing has written."""
    size = size.get() if isinstance(size, Slot) else size
    return Pointer(recording.make(run.interp, (size if isinstance(size, int) else None,), "u8", "empty"), "?")


def from_blob(run: Cpp, args: list[Any], loc: ir.Loc | None) -> Any:
    """Models `torch::from_blob` over host memory: the tensor's content is computed from the numbers in it."""
    if isinstance(args[0], Pointer):
        return _of_device(args[0], args[1:])
    items = [list(a.attrs.values()) if isinstance(a, LibObject) else a for a in args[0]]
    made = tensor_makers.from_values(run.interp, [items], {}, "cpu", loc)
    size = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
    return tensor_views.alias(made, tuple(d if isinstance(d, int) else None for d in size)) if size else made


def _of_device(pointer: Pointer, args: list[Any]) -> Tensor:
    """The tensor over memory of the GPU, of the sizes and the type that are given."""
    plain, kwargs = cpp_arguments.torch_args(args)
    sizes, kind = plain[0] if plain else None, kwargs.get("dtype")
    if not isinstance(sizes, (list, tuple)):
        return pointer.tensor
    shape = tuple(size if isinstance(size, int) else None for size in sizes)
    dtype = kind.name if isinstance(kind, DType) else pointer.dtype
    strides = tuple(plain[1]) if len(plain) > 1 and isinstance(plain[1], (list, tuple)) else None
    return tensor_views.alias(pointer.tensor, shape, strides, dtype)


def element(interp: Run, pointer: Pointer, key: Value, loc: ir.Loc | None) -> Value:
    """Reads `pointer[key]` of a tensor on the host; an element of offsets knows its place."""
    read = tensor_attributes.scalar(interp, "item", [pointer.tensor], {}, loc)
    if not isinstance(read, Unknown) or not isinstance(key, int):
        return read
    return whole_numbers.element(read, pointer.tensor, pointer.moved(key).elements())


def between(interp: Run, first: Pointer, last: Pointer, loc: ir.Loc | None) -> list[Value]:
    """Reads all elements of a tensor on the host from one pointer to another; where the distance is not known, a number
    of them that nobody knows."""
    same = first.tensor.storage is last.tensor.storage and first.dtype == last.dtype
    known = same and isinstance(first.offset, int) and isinstance(last.offset, int)
    count = last.offset - first.offset if known else -1
    if 0 <= count <= MAX_READ:
        return [element(interp, first, at, loc) for at in range(count)]
    return [SoMany(recording.steered_by([first.tensor]) or (first.tensor.storage.content,))]
