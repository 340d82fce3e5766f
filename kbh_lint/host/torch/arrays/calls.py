"""Functions, methods and attributes of arrays in device memory with numpy's names, by what torch does.

An array is a tensor with a mark, which views of it and what is computed from it have, too: its methods have numpy's
names and parameters. It may lie in the memory of a tensor of torch, and a tensor in that of an array (`lent`,
`plain`). What is recorded names the function as the program calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import DType, Sym, Value
from kbh_lint.host.torch import (
    tensor_attributes,
    tensor_copies,
    tensor_makers,
    tensor_views,
    torchlib,
)
from kbh_lint.host.torch.arrays import names
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.modelled import Modelled
from kbh_lint.host.values.tensors import Tensor, Unknown, row_major

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MARK = tensor_views.ARRAY
MAKERS = frozenset(
    "empty zeros ones full arange linspace eye identity empty_like zeros_like ones_like full_like logspace".split()
)
_LENDERS = frozenset("asarray asanyarray from_dlpack fromDlpack".split())
_ON_THE_HOST = frozenset("get item tolist asnumpy tobytes".split())
_IN_PLACE = {"sort": "msort", "partition": "partition"}
_FIRST_OF = frozenset(("msort", "median", "nanmedian"))  # of which numpy has the first result alone
_AS_GIVEN = {"partition": "", "argpartition": "i64"}  # results of the shape of what is given, and their types
_OPERANDS = ("condition", "tensors", "input", "other")  # that are given without their names
_FORMATS = {"f": "f", "i": "i", "u": "u", "b": "i"}


class Memory(Modelled):
    """`array.data`, which has the address."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__("cupy.cuda.MemoryPointer", {"device_id": 0})
        self.tensor = tensor

    def attribute(self, interp: Run, name: str, loc: ir.Loc | None) -> Value:
        """Returns the address, or the memory around it."""
        if name == "ptr":
            return torchlib.asked(interp, self.tensor, "data_ptr", [], loc)
        return self if name == "mem" else super().attribute(interp, name, loc)


def is_array(value: Value) -> bool:
    """Whether a value is an array of such a package."""
    return isinstance(value, Tensor) and MARK in value.attrs


def lent(tensor: Tensor) -> Tensor:
    """Returns an array in the memory of a tensor."""
    made = tensor_views.alias(tensor, tensor.shape, tensor.strides)
    made.attrs[MARK] = True
    return made


def dtype_of(value: Value) -> str | None:
    """Returns the element type that an argument names, `cupy.float32`, `numpy.int8`, `"f4"`; None for others."""
    if isinstance(value, DType):
        return value.name
    text = value.path.rpartition(".")[2] if isinstance(value, Sym) else value if isinstance(value, str) else ""
    text = text.lstrip("<>=|")
    if len(text) == 2 and text[0] in _FORMATS and text[1].isdigit():
        return f"{_FORMATS[text[0]]}{8 * int(text[1])}"
    return _PYTHON.get(text) or dtypes.from_torch(text)


_PYTHON = {
    "float": "f64", "double": "f64", "single": "f32", "int": "i64", "intp": "i64", "intc": "i32", "uintp": "u64",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool", "bool_": "bool",
}  # fmt: skip


def call(interp: Run, path: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Calls a function by its full path, `cupy.linalg.solve`; NotImplemented for one that is no operation of torch."""
    *_, outer, name = ("", *path.split("."))
    if name in MAKERS:
        return _made(interp, name, args, kwargs, loc)
    if name in _LENDERS or name == "array":
        return _of_values(interp, name, args, kwargs, loc)
    if name in _ON_THE_HOST:
        return tensor_attributes.scalar(interp, "item" if name == "item" else "numpy", list(args), kwargs, loc)
    if name in ("at", "scatter_add") and len(args) > 2 and isinstance(args[0], Tensor):
        return torchlib.compute(interp, path, "index_put", list(args), {"accumulate": True}, loc, True)
    if name in names.UFUNCS and path.count(".") > 1:  # of a function on elements, `cupy.add.reduce`
        name = names.UFUNCS[name].get(outer, "")
    if name == "einsum":
        return _computed(interp, path, name, list(args), dict(kwargs), loc)
    if name == "transpose":
        return _transposed(interp, args, kwargs, loc)
    row = names.row_of(name)
    given = names.bind(name, row, args, kwargs) if row is not None else None
    if row is None or given is None:
        return NotImplemented
    return _called(interp, path, row, given, loc)


def _called(interp: Run, path: str, row: names.Row, given: dict[str, Value], loc: ir.Loc | None) -> Value:
    """Calls an operation of torch by its row."""
    operand = given.get("input")
    if type(given.get("sizes")) is int:
        given["sizes"] = (given["sizes"],)
    if row.flat and "dim" not in given and isinstance(operand, Tensor):
        given["dim"] = 0
        if operand.shape is None or len(operand.shape) > 1:
            given["input"] = tensor_views.view(interp, "ravel", [operand], {}, loc)
    if isinstance(given.get("dtype"), (Sym, str)):
        found = dtype_of(given["dtype"])
        given["dtype"] = DType(found) if found is not None else None
    first = [given.pop(word) for word in _OPERANDS if word in given]
    return _computed(interp, path, row.torch, first, given, loc)


def _computed(
    interp: Run, path: str, name: str, args: list[Value], kwargs: dict[str, Value], loc: ir.Loc | None
) -> Value:
    """Calls torch's operation; what it computes is recorded under the path by which the program calls it."""
    views = name in tensor_views.VIEWS or name in torchlib.SPECIAL
    brought = kwargs.get("out")
    if brought is not None and not isinstance(brought, Tensor):
        kwargs = {word: value for word, value in kwargs.items() if word != "out"}
    if views and brought is None:
        made = torchlib.call(interp, f"torch.{name}", args, kwargs, loc)
    else:
        made = torchlib.compute(interp, path, name, args, kwargs, loc, False)
    if name in _FIRST_OF and isinstance(made, tuple):
        made = made[0]
    given = tensor_arguments.tensors_in(args)
    if name in _AS_GIVEN and isinstance(made, Tensor) and given:  # which torch does not have
        made.shape, made.strides = given[0].shape, row_major(given[0].shape)
        made.dtype = made.storage.content.dtype = _AS_GIVEN[name] or given[0].dtype
    if isinstance(made, Tensor) and made.dtype == "f32" and all(one.dtype in dtypes.INTS for one in given):
        made.dtype = made.storage.content.dtype = "f64"  # torch has whole numbers become fractions of half the size
    return _marked(made, args)


def _marked(made: Value, args: Sequence[Value]) -> Value:
    """What is made, as arrays; a tensor that was given stays what it is."""
    if isinstance(made, (tuple, list)):
        return tuple(_marked(one, args) for one in made)
    if isinstance(made, Tensor):
        if any(made is one for one in tensor_arguments.tensors_in(args)) and not is_array(made):
            return lent(made)
        made.attrs[MARK] = True
    return made


def _made(interp: Run, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """An array of a size, `cupy.zeros((2, 3), cupy.float32)`."""
    rest = list(args)
    named = next((found for one in [*args, *kwargs.values()] if (found := _type_among(one)) is not None), None)
    rest = [one for one in rest if _type_among(one) is None]
    given: dict[str, Value] = {}
    like = name.endswith("_like")
    if named is not None:
        given["dtype"] = DType(named)
    elif not like and name not in ("full", "arange"):
        given["dtype"] = DType("f64")
    if "fill_value" in kwargs:
        given["fill_value"] = kwargs["fill_value"]
    size = kwargs.get("shape", kwargs.get("a"))
    if size is not None:
        rest.insert(0, size)
    torch = "eye" if name == "identity" else name
    return _marked(torchlib.call(interp, f"torch.{torch}", rest, given, loc), ())


def _type_among(value: Value) -> str | None:
    return dtype_of(value) if isinstance(value, (DType, Sym, str)) else None


def _of_values(interp: Run, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """An array of values, or in the memory of what has some: of a tensor that is asked for in its own type."""
    data = args[0] if args else kwargs.get("a", kwargs.get("object", kwargs.get("obj")))
    wanted = next((found for one in [*args[1:], *kwargs.values()] if (found := _type_among(one)) is not None), None)
    copies = name == "array" and kwargs.get("copy", True) is not False
    given = {"dtype": DType(wanted)} if wanted is not None else {}
    if not isinstance(data, Tensor):
        return _marked(tensor_makers.from_values(interp, [data], given, "cuda", loc), ())
    if copies or wanted not in (None, data.dtype):
        data = tensor_copies.convert(interp, data, wanted or data.dtype, loc, name)
    return data if is_array(data) else lent(data)


def _transposed(interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """`transpose(a, axes)`, and as a method with the axes one by one: all are turned round where none is given."""
    array, *order = args
    axes = kwargs.get("axes")
    axes = axes if axes is not None else order[0] if len(order) == 1 else tuple(order)
    if not isinstance(array, Tensor):
        return Unknown(interp.contents_of(array), "transpose")
    if not isinstance(axes, (tuple, list)) or not axes:
        axes = tuple(reversed(range(len(array.shape)))) if array.shape is not None else ()
    return _marked(tensor_views.view(interp, "permute", [array, tuple(axes)], {}, loc), args)


def method(
    interp: Run, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], loc: ir.Loc | None
) -> Value:
    """Calls a method of an array; NotImplemented for one that is no operation of torch."""
    if name in ("astype", "view"):
        return _typed(interp, owner, name, args, kwargs, loc)
    if name in ("reshape", "transpose") and len(args) > 1:
        args = [tuple(args)]
    if name in _IN_PLACE:
        torchlib.compute(interp, f"cupy.ndarray.{name}", _IN_PLACE[name], [owner, *args], {}, loc, True)
        return None
    if name == "fill":
        tensor_copies.fill(interp, "fill", [owner, *args], {}, loc)
        return None
    if name == "flatten":
        return call(interp, "cupy.ravel", [call(interp, "cupy.copy", [owner], {}, loc)], {}, loc)
    if name == "set" and args:
        tensor_copies.copy_(interp, "copy", [owner, args[0]], {}, loc)
        return None
    return call(interp, f"cupy.ndarray.{name}", [owner, *args], kwargs, loc)


def _typed(
    interp: Run, owner: Tensor, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None
) -> Value:
    """`array.astype(type)`, which copies where nothing is said, and `array.view(type)` of the same bytes."""
    wanted = dtype_of(next(iter([*args, *(kwargs[word] for word in ("dtype",) if word in kwargs)]), None))
    if name == "view":
        if not args and not kwargs:
            return _marked(tensor_views.alias(owner, owner.shape, owner.strides), ())
        return _marked(tensor_views.view(interp, "view", [owner, DType(wanted or "?")], {}, loc), ())
    if wanted == owner.dtype and kwargs.get("copy", True) is False:
        return owner
    return _marked(tensor_copies.convert(interp, owner, wanted or "?", loc, "astype"), ())


def attribute(interp: Run, owner: Tensor, name: str, loc: ir.Loc | None) -> Value:
    """Returns an attribute of an array where it is another than that of a tensor; None for all others."""
    if name == "size":
        count = owner.numel()
        return count if count is not None else Unknown((), "a size")
    if name == "strides":
        found = owner.strides if owner.strides is not None else row_major(owner.shape)
        width = dtypes.STORED.get(owner.dtype, 32) // 8
        return tuple(s * width if isinstance(s, int) else Unknown((), "a stride") for s in found or ())
    if name == "data":
        return Memory(owner)
    if name == "T":
        return _transposed(interp, [owner], {}, loc)
    if name in ("flags", "flat", "base", "cstruct"):
        return Unknown((), name)
    return None
