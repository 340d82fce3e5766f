"""What the host reads of a tensor: its attributes, its numbers, and the devices it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import DType, Sym, Value
from kbh_lint.host.torch import recording, tensor_views, whole_numbers
from kbh_lint.host.values import checksums, tensor_arguments
from kbh_lint.host.values.escapes import Version
from kbh_lint.host.values.library_objects import Storage
from kbh_lint.host.values.named_objects import Device
from kbh_lint.host.values.objects import LibObject, ProcessNumber
from kbh_lint.host.values.tensors import Content, Placed, Tensor, Unknown, row_major, traced

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_ELEMENTS = 4096  # of a list that a tensor becomes
# Where the named results of operations with several stand: torch.sort(x).values.
RESULTS = {"values": 0, "indices": 1, "Q": 0, "R": 1, "U": 0, "S": 1, "Vh": 2, "V": 2, "LU": 0, "pivots": 1, "L": 0,
           "atom": 0, "tma_tensor": 1}  # fmt: skip


@lru_cache(maxsize=64)
def device(kind: str) -> LibObject:
    """Returns the torch.device of a kind, always the same object, so that it can be a dict key."""
    return Device("torch.device", {"type": kind, "index": 0})


def scalar(interp: Run, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Any:
    """Models `item`, `tolist`, `equal` and `allclose`, by which the host reads a tensor's content."""
    inputs = tensor_arguments.tensors_in(args)
    first = inputs[0] if inputs else None
    if name == "item" and first is not None:
        known = first.attrs.get("value")
        known = checksums.comparison(interp, first.storage.content) if known is None else known
        if known is not None:
            return known
    contents = tuple(t.storage.content for t in inputs)
    drawn = [as_drawn(interp, tensor) for tensor in inputs]
    if drawn and None not in drawn and name in ("item", "tolist", "equal"):
        return _drawn(name, inputs, drawn)
    if name in ("allclose", "equal"):
        return _compared(interp, inputs, contents, loc)
    if name == "item" and first is not None:
        return _item(interp, first, contents, loc)
    if name == "tolist" and first is not None and first.shape and len(first.shape) == 1:
        if isinstance(first.shape[0], int):
            return _elements(interp, first, min(first.shape[0], MAX_ELEMENTS), contents)
    return Unknown(contents, f"a tensor's {name}", None, interp.trace.round, reading=name if name == "numpy" else "")


def as_drawn(interp: Run, tensor: Tensor) -> int | None:
    """Returns the number that each element of a tensor is, where a run takes lengths as they are drawn for timed runs;
    None where it does not, or elements differ."""
    return whole_numbers.alike(tensor.storage.content) if interp.decisions.as_drawn else None


def _compared(interp: Run, inputs: Sequence[Tensor], contents: tuple[Content, ...], loc: ir.Loc | None) -> Value:
    """Whether tensors are equal. A check against a reference passes, in the assumed world; a copy kept to notice
    changes notices them; and what an input of integers holds is for each call to say."""
    known = checksums.same_tensors(interp, inputs[0], inputs[1]) if len(inputs) > 1 else None
    if known is not None:
        return known
    if _of_integers(contents):
        return Unknown(contents, "likely: equal integers", None, interp.trace.round, likely=True)
    return interp.assume(loc, True, contents)


def _of_integers(contents: Sequence[Content]) -> bool:
    """Whether contents come from inputs of integers, and from nothing else but numbers of the program."""
    inputs = others = False
    for current in traced(contents):
        given = current.label.startswith("input:") and current.dtype in dtypes.INTS
        made = current.event is not None and current.event.kind in ("op", "copy")
        inputs, others = inputs or given, others or not given and not made and current.label != "constant"
    return inputs and not others


def _drawn(name: str, inputs: Sequence[Tensor], numbers: Sequence[int | None]) -> Value:
    """What the host reads of tensors of which each holds one number."""
    first = inputs[0]
    number = bool(numbers[0]) if first.dtype == "bool" else numbers[0]
    if name == "equal":
        return len(inputs) > 1 and first.shape == inputs[1].shape and numbers[0] == numbers[1]
    made: Value = number
    for size in reversed(first.shape or ()) if name == "tolist" else ():
        made = [made] * min(size, MAX_ELEMENTS) if isinstance(size, int) else Unknown((), "a list of unknown length")
    return made


def _item(interp: Run, tensor: Tensor, contents: tuple[Content, ...], loc: ir.Loc | None) -> Value:
    """The number of a tensor of one."""
    if "holds" in tensor.attrs:
        return interp.assume(loc, tensor.attrs["holds"], contents)
    value = Unknown(contents, "a tensor's item", tensor.attrs.get("range"), interp.trace.round, reading="")
    return whole_numbers.element(value, tensor, _start(tensor)) if tensor.shape in ((), (1,)) else value


def _elements(interp: Run, tensor: Tensor, count: int, contents: tuple[Content, ...]) -> list[Value]:
    start, known_range = _start(tensor), tensor.attrs.get("range")
    made = [Unknown(contents, "an element", known_range, interp.trace.round, reading="element") for _ in range(count)]
    at = [None if start is None else start + i for i in range(count)]
    return [whole_numbers.element(one, tensor, i) for one, i in zip(made, at, strict=True)]


def _start(tensor: Tensor) -> int | None:
    """Which element of its storage a view begins with, where its own follow it one by one."""
    return tensor.offset if tensor.strides in (None, (1,), ()) else None


def attribute(interp: Run, tensor: Tensor, name: str, loc: ir.Loc | None) -> Any:
    """Returns an attribute of a tensor that is a value; NotImplemented when `name` is a method."""
    if name == "shape" and tensor.shape is not None and None not in tensor.shape:  # as most that is asked for
        return tuple(tensor.shape)
    row = _ATTRIBUTES.get(name)
    if row is not None:
        return row(interp, tensor, loc)
    if name in _KNOWN:
        return tensor.attrs.get(added(name), NotImplemented)
    return tensor.attrs.get(name, NotImplemented)


_KNOWN = frozenset("range known value holds lengths steer subclass lazy lazy_loc complex array".split())


def added(name: str) -> str:
    """Under which name an attribute that a submission adds to a tensor stands beside what is known of the tensor."""
    return f"added:{name}" if name in _KNOWN else name


def _shape(tensor: Tensor) -> Value:
    if tensor.shape is None:
        return Unknown((), "a shape")
    known: dict[int, Unknown] = tensor.attrs.get(tensor_views.LENGTHS, {})
    sizes = enumerate(tensor.shape)
    return tuple(d if d is not None else known.get(axis, Unknown((), "a dimension")) for axis, d in sizes)


def _version(interp: Run, tensor: Tensor) -> Version:
    interp.memory.versions = True
    version = Version(tensor.storage.version)
    version.storage = tensor.storage
    return version


def _element_size(tensor: Tensor) -> int:
    return dtypes.STORED.get(tensor.dtype, 32) // 8


_Attribute = Callable[["Run", Tensor, "ir.Loc | None"], Value]
_ATTRIBUTES: dict[str, _Attribute] = {
    "shape": lambda interp, tensor, loc: _shape(tensor),
    "dtype": lambda interp, tensor, loc: DType(tensor.dtype),
    "device": lambda interp, tensor, loc: device(tensor.device),
    "is_cuda": lambda interp, tensor, loc: tensor.device != "cpu",
    "is_cpu": lambda interp, tensor, loc: tensor.device == "cpu",
    **dict.fromkeys(("T", "H"), lambda interp, tensor, loc: tensor_views.view(interp, "t", [tensor], {}, loc)),
    **dict.fromkeys(
        ("mT", "mH"), lambda interp, tensor, loc: tensor_views.view(interp, "transpose", [tensor, -1, -2], {}, loc)
    ),
    **dict.fromkeys(("data", "real"), lambda interp, tensor, loc: tensor),
    "grad": lambda interp, tensor, loc: tensor.attrs.get("grad"),
    "grad_fn": lambda interp, tensor, loc: tensor.attrs.get("grad_fn"),
    "_base": lambda interp, tensor, loc: tensor.attrs.get("_base", NotImplemented) if tensor.is_slice else None,
    "is_leaf": lambda interp, tensor, loc: True,
    "ndim": lambda interp, tensor, loc: len(tensor.shape) if tensor.shape is not None else Unknown((), "a rank"),
    "_version": lambda interp, tensor, loc: _version(interp, tensor),
    "_cdata": lambda interp, tensor, loc: ProcessNumber(interp.memory.identity(tensor)),
    "itemsize": lambda interp, tensor, loc: _element_size(tensor),
    "nbytes": lambda interp, tensor, loc: (tensor.numel() or 0) * dtypes.STORED.get(tensor.dtype, 32) // 8,
    **dict.fromkeys(
        "requires_grad retains_grad is_sparse is_sparse_csr is_quantized is_nested is_mkldnn is_meta is_mps is_xpu "
        "is_xla is_hpu is_ipu is_maia is_mtia is_vulkan".split(),
        lambda interp, tensor, loc: False,
    ),
    "layout": lambda interp, tensor, loc: Sym("torch.strided"),
    "__dict__": lambda interp, tensor, loc: tensor.attrs,
    "__cuda_array_interface__": lambda interp, tensor, loc: _interface(interp, tensor, loc),
}


def meta(name: str) -> Callable[..., Any]:
    """Returns the model of a tensor method that asks for metadata, with the signature of an operation of torch."""
    row = _ANSWERS.get(name)

    def answer(interp: Run, _: str, args: list[Any], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
        tensor = args[0]
        if not isinstance(tensor, Tensor):
            return Unknown((), name)
        return Unknown((), name) if row is None else row(interp, tensor, args[1:], loc)

    return answer


def _stride(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    strides = tensor.strides if tensor.strides is not None else row_major(tensor.shape)
    if strides is None:
        return Unknown((), "strides")
    values = tuple(s if s is not None else Unknown((), "a stride") for s in strides)
    return values[given[0]] if given and isinstance(given[0], int) else values


def _size(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    shape = _shape(tensor)
    if not given or not isinstance(shape, tuple):
        return shape
    return shape[given[0]] if isinstance(given[0], int) else Unknown((), "a dimension")


def _count(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    count = tensor.numel()
    return count if count is not None else Unknown((), "a size")


def _pointer(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    interp.note("pointer-read", {"storage": tensor.storage.ident, "call": interp.trace.call_index}, loc)
    placed = Placed(tensor.address)
    placed.contents = recording.steered_by([tensor])
    return placed if placed.contents else tensor.address


def _interface(interp: Run, tensor: Tensor, loc: ir.Loc | None) -> Value:
    """What numba, CuPy and others take tensors by: address, shape, distances of elements in bytes."""
    if tensor.device == "cpu":
        return NotImplemented
    strides = None if tensor.is_contiguous() else Unknown((), "distances of elements")
    data = (_pointer(interp, tensor, (), loc), False)
    typestr = Unknown((), "a type as text")
    return {"shape": _shape(tensor), "typestr": typestr, "data": data, "strides": strides, "version": 2}


def _is_set_to(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    other = given[0] if given else None
    if not isinstance(other, Tensor):
        return Unknown((), "is_set_to")
    same = (tensor.address, tensor.shape, tensor.strides) == (other.address, other.shape, other.strides)
    return same and tensor.storage is other.storage


def _offset(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    return Unknown((), "storage_offset") if tensor.offset is None else tensor.offset


def _is_inference(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    """What a caller gives was made outside of `torch.inference_mode`."""
    return False if tensor.storage.ident in interp.memory.given else Unknown((), "is_inference")


def _is_signed(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    return Unknown((), "is_signed") if tensor.dtype == "?" else not tensor.dtype.startswith(("u", "bool"))


def _is_lazy(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    """Whether numbers are conjugated, or turned round, when they are read: of what is not complex, they are not."""
    return Unknown((), "a view that computes") if {"lazy", "complex"} & set(tensor.attrs) else False


def _is_dense(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    return tensor.is_contiguous() or Unknown((), "whether elements lie close")


def _is_same_size(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    shapes = [one.shape for one in (tensor, *given) if isinstance(one, Tensor)]
    known = len(shapes) == 2 and all(shape is not None and None not in shape for shape in shapes)
    return shapes[0] == shapes[1] if known else Unknown((), "is_same_size")


def _is_alias_of(interp: Run, tensor: Tensor, given: Sequence[Value], loc: ir.Loc | None) -> Value:
    other = given[0] if given else None
    return tensor.storage is other.storage if isinstance(other, Tensor) else Unknown((), "is_alias_of")


def _on_the_host(answer: bool) -> _Answer:
    """The answer for a tensor of the GPU to what only memory of the host may be asked."""
    return lambda interp, tensor, given, loc: answer if tensor.device != "cpu" else Unknown((), "memory of the host")


_Answer = Callable[["Run", Tensor, Sequence[Value], "ir.Loc | None"], Value]  # `given` are the further arguments
_ANSWERS: dict[str, _Answer] = {
    "stride": _stride,
    "size": _size,
    **dict.fromkeys(("dim", "ndimension"), lambda interp, tensor, given, loc: attribute(interp, tensor, "ndim", loc)),
    **dict.fromkeys(("numel", "nelement"), _count),
    "__len__": lambda interp, tensor, given, loc: tensor.shape[0] if tensor.shape else 0,
    "data_ptr": _pointer,
    "is_set_to": _is_set_to,
    "element_size": lambda interp, tensor, given, loc: _element_size(tensor),
    "is_contiguous": lambda interp, tensor, given, loc: tensor.is_contiguous(),
    "storage_offset": _offset,
    **dict.fromkeys(
        ("untyped_storage", "storage", "_typed_storage"), lambda interp, tensor, given, loc: Storage(tensor)
    ),
    "is_floating_point": lambda interp, tensor, given, loc: tensor.dtype in dtypes.FLOATS,
    "get_device": lambda interp, tensor, given, loc: 0,
    "is_inference": _is_inference,
    "is_complex": lambda interp, tensor, given, loc: bool(tensor.attrs.get("complex")),
    "is_signed": _is_signed,
    **dict.fromkeys(("is_conj", "is_neg", "_is_zerotensor"), _is_lazy),
    "is_non_overlapping_and_dense": _is_dense,
    "is_same_size": _is_same_size,
    "is_alias_of": _is_alias_of,
    **dict.fromkeys(("has_names", "is_distributed", "is_coalesced"), lambda interp, tensor, given, loc: False),
    "is_shared": _on_the_host(True),
    "is_pinned": _on_the_host(False),
}
