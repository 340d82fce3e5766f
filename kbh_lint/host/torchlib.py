"""torch on abstract tensors: shapes, element types, and an event for everything that computes.

Functions and Tensor methods share one table: `x.add_(y)` is `torch.add_` with `x` first. An operation that is not in
a table still makes an event that reads its tensor arguments and returns a tensor of the first one's shape and type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from kbh_lint import dtypes, ir
from kbh_lint.host import bounds, remembered, shapes, tensor_flags
from kbh_lint.host.objects import LibObject
from kbh_lint.host.survivors import Version
from kbh_lint.host.tensors import Content, Event, Storage, Tensor, Unknown, product, row_major
from kbh_lint.values import DType

# Work a library does whole, by what it is.
PRODUCTS = frozenset(
    "matmul mm bmm addmm baddbmm addbmm mv addmv dot vdot inner linear bilinear einsum tensordot chain_matmul "
    "multi_dot _scaled_mm scaled_mm _int_mm _grouped_mm _scaled_grouped_mm grouped_mm conv1d conv2d conv3d "
    "conv_transpose2d convolution scaled_dot_product_attention _scaled_dot_product_flash_attention addmm_ baddbmm_ "
    "_weight_int4pack_mm _weight_int8pack_mm matrix_power _convert_weight_to_int4pack ger outer kron".split()
)
SOLVERS = frozenset(
    "solve_triangular solve inv inv_ex lu_factor lu_solve cholesky cholesky_solve triangular_solve inverse".split()
)
SELECTIONS = frozenset("topk sort argsort kthvalue msort median quantile unique searchsorted bucketize".split())
SOFTMAXES = frozenset("softmax log_softmax logsumexp _softmax _safe_softmax".split())
NORMALS = frozenset("layer_norm rms_norm group_norm batch_norm".split())
COMPARISONS = frozenset("eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_not isclose".split())
VIEWS = frozenset(
    "view reshape permute transpose t squeeze unsqueeze expand flatten narrow select detach unflatten swapaxes movedim "
    "view_as expand_as as_strided unbind chunk split moveaxis broadcast_to ravel unfold view_as_real adjoint "
    "alias requires_grad_ squeeze_ unsqueeze_ t_ transpose_ detach_ tensor_split split_with_sizes numpy_T".split()
)
MAKERS = frozenset(
    "empty zeros ones full rand randn randint arange linspace eye empty_strided tensor as_tensor from_numpy randperm "
    "scalar_tensor empty_like zeros_like ones_like full_like rand_like randn_like randint_like new_empty new_zeros "
    "new_ones new_full new_tensor empty_permuted new_empty_strided asarray empty_quantized logspace".split()
)
# Where the named results of operations with several stand: torch.sort(x).values.
RESULTS = {"values": 0, "indices": 1, "Q": 0, "R": 1, "U": 0, "S": 1, "Vh": 2, "V": 2, "LU": 0, "pivots": 1, "L": 0,
           "atom": 0, "tma_tensor": 1}  # fmt: skip
RANDOM = frozenset("normal rand randn randint randperm rand_like randn_like randint_like".split())


def make(
    interp: Any, shape: tuple[Any, ...] | None, dtype: str, label: str = "", event: Event | None = None,
    strides: tuple[Any, ...] | None = None, device: str = "cuda",
) -> Tensor:  # fmt: skip
    """A new tensor over a new storage; `event` made its content, or `label` says where it came from."""
    count = product(shape)
    storage = Storage(count * max(dtypes.BITS.get(dtype, 32), 8) // 8 if count is not None else None)
    storage.content = Content(storage, dtype, interp.call_index, label, event)
    if event is not None:
        event.writes.append(storage.content)
    made = Tensor(storage, dtype, shape, strides or row_major(shape), device=device)
    interp.views[storage.ident] = made
    return made


def write(interp: Any, target: Tensor, event: Event, partial: bool = False, dtype: str | None = None) -> None:
    """`event` writes `target`; a partial write keeps what else was there, unless the same place wrote it before."""
    storage = target.storage
    old = storage.content
    keep: Content | None = None
    if partial or target.is_slice:
        keep = old
        while keep is not None and keep.event is not None and keep.event.loc == event.loc:
            keep = keep.previous
        if keep is not None and keep.label in ("empty", "constant"):
            keep = None
    storage.content = Content(storage, dtype or target.dtype, interp.call_index, "", event, keep)
    storage.version += 1
    event.writes.append(storage.content)


def record(
    interp: Any,
    kind: str,
    name: str,
    loc: ir.Loc | None,
    tensors: Sequence[Tensor],
    attrs: dict[str, Any] | None = None,
) -> Event:
    """Emit an event that reads `tensors`."""
    bounds.steps(interp, 2 * len(tensors))
    event = Event(kind, name, loc, [(t.storage.content, t) for t in tensors], attrs=attrs or {})
    steer = steered_by(tensors)
    if steer:
        event.attrs["steer"] = (*event.attrs.get("steer", ()), *steer)
    interp.emit(event)
    return event


def steered_by(tensors: Sequence[Tensor]) -> tuple[Content, ...]:
    """The contents that chose which part of a storage these views show (`x[first:last]` with bounds from a tensor)."""
    return tuple(content for tensor in tensors for content in tensor.attrs.get("steer", ()))


def tensors_in(values: Any, depth: int = 0) -> list[Tensor]:
    """The tensors among arguments, also inside lists, tuples and dicts."""
    found: list[Tensor] = []
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (list, tuple)) and depth < 4:
        for value in values:
            found.extend(tensors_in(value, depth + 1))
    return found


def kind_of(name: str) -> str:
    """The kind of event a torch operation makes."""
    if name in PRODUCTS or name in SOLVERS or name in SELECTIONS or name in SOFTMAXES or name in NORMALS:
        return "library"
    if name in ("copy", "to", "clone", "contiguous", "cat", "stack", "pad", "gather", "index_select", "repeat"):
        return "copy"
    return "op"


def call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None, spelled: str = "") -> Any:
    """Call `torch.NAME`, `torch.nn.functional.NAME`, `torch.Tensor.NAME` or `aten::NAME` with abstract arguments."""
    name = path.rsplit(".", 1)[-1].rsplit("::", 1)[-1]
    layer = "c++" if "::" in path else "python"
    interp.note("symbol", {"symbol": path, "spelled": spelled or "call", "layer": layer}, loc)
    inplace = name.endswith("_") and not name.endswith("__") and name not in VIEWS
    base = name[:-1] if inplace else name
    if base in MAKERS or base == "normal" and not inplace and not tensors_in(args):
        made = maker(interp, base, args, kwargs, loc)
        tensor_flags.noticed(interp, base, args, kwargs, made)
        return made
    special = SPECIAL.get(base)
    if special is not None and not (inplace and base not in ("copy", "zero", "fill", "normal", "uniform")):
        made = special(interp, base, args, kwargs, loc)
        if inplace:
            tensor_flags.noticed(interp, base, args, kwargs, made)
        return made
    if base in VIEWS:
        return view(interp, base, args, kwargs, loc)
    counts = inplace and base in ("add", "sub") and len(args) > 1 and type(args[1]) is int
    counts = counts and tensor_flags.known(interp, args[0]) is not None
    made = compute(interp, path, base, args, kwargs, loc, inplace)
    if counts:
        tensor_flags.stepped(interp, base, args)
    return made


def compute(
    interp: Any, path: str, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None, inplace: bool
) -> Any:
    """An operation that makes new values."""
    out = kwargs.get("out")
    inputs = tensors_in(args) + tensors_in({k: v for k, v in kwargs.items() if k != "out"})
    if not inputs and not isinstance(out, Tensor):
        return Unknown(tuple(interp.contents_of(args)), name)
    attrs: dict[str, Any] = {"symbol": path, "operands": tuple(t.dtype for t in inputs)}
    if name in PRODUCTS or name in SOLVERS:
        attrs["flops"] = shapes.product_flops(name, args, inputs)
    event = record(interp, kind_of(name), name, loc, inputs, attrs)
    shape, dtype = shapes.result(name, args, kwargs, inputs)
    if inplace and isinstance(args[0], Tensor):
        write(interp, args[0], event)
        return args[0]
    if isinstance(out, Tensor):
        write(interp, out, event)
        return out
    if isinstance(out, (list, tuple)):
        for target in tensors_in(out):
            write(interp, target, event)
        return out
    count = shapes.results(name, args, kwargs)
    if count == 1:
        made = make(interp, shape, dtype, event=event)
        made.attrs["range"] = _range(name, inputs)
        return made
    second = {"topk": "i64", "sort": "i64", "kthvalue": "i64", "max": "i64", "min": "i64", "median": "i64"}
    return tuple(make(interp, shape, second.get(name, dtype) if i else dtype, event=event) for i in range(count))


def _range(name: str, inputs: Sequence[Tensor]) -> tuple[float, float] | None:
    """The interval of a result whose values come from one input with a known interval."""
    known: tuple[float, float] | None = inputs[0].attrs.get("range") if inputs else None
    if known is None or len(inputs) != 1:
        return None
    if name == "abs":
        return 0.0, max(abs(known[0]), abs(known[1]))
    return known if name in ("max", "amax", "min", "amin", "mean", "median") else None


# --- makers ------------------------------------------------------------------------------------------------


def dtype_of(value: Any, default: str) -> str:
    return value.name if isinstance(value, DType) else default


def device_of(value: Any, default: str = "cuda") -> str:
    """`cpu` or `cuda` of a device argument."""
    if isinstance(value, LibObject) and value.path == "torch.device":
        return str(value.attrs.get("type", default))
    if isinstance(value, str):
        return value.split(":")[0]
    return default


def same_device(left: Any, right: Any) -> bool:
    return device_of(left, "?") == device_of(right, "?")


def size_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """(2, 3) or ((2, 3),) -> (2, 3); unknown dimensions are None."""
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        args = args[0]
    return tuple(int(a) if isinstance(a, (int, float)) else None for a in args)


def maker(interp: Any, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Operations that allocate."""
    args = list(args)
    like: Tensor | None = None
    if name.startswith("new_") or name.endswith("_like"):
        if args and isinstance(args[0], Tensor):
            like = args.pop(0)
        elif isinstance(kwargs.get("input"), Tensor):
            like = kwargs["input"]
    device = device_of(kwargs.get("device"), like.device if like is not None else "cuda")
    dtype = dtype_of(kwargs.get("dtype"), like.dtype if like is not None else "f32")
    if name in ("tensor", "as_tensor", "from_numpy", "new_tensor", "scalar_tensor", "asarray"):
        return from_values(interp, args, kwargs, device, loc)
    if name.endswith("_like"):
        shape = like.shape if like is not None else None
    elif name in ("full", "new_full"):
        size = args[0] if args else kwargs.get("size", kwargs.get("fill_value"))
        shape = size_args([size])
    elif name in ("arange", "randperm", "linspace"):
        default = "i64" if all(isinstance(a, int) for a in args) and name != "linspace" else "f32"
        dtype = dtype_of(kwargs.get("dtype"), default)
        shape = (shapes.arange_length(name, args, kwargs),)
    elif name == "eye":
        n = args[0] if args and isinstance(args[0], int) else None
        shape = (n, args[1] if len(args) > 1 and isinstance(args[1], int) else n)
    elif name == "normal":
        shape = size_args([kwargs.get("size", args[-1] if args else ())])
    elif name == "randint":
        size = kwargs.get("size", args[-1] if args else ())
        shape = size_args([size])
        dtype = dtype_of(kwargs.get("dtype"), "i64")
    else:
        dtype = next((a.name for a in args if isinstance(a, DType)), dtype)
        sizes = [a for a in args if not isinstance(a, DType)] or [kwargs.get("size", ())]
        if name in ("empty_strided", "empty_permuted", "new_empty_strided"):
            sizes = sizes[:1]
        shape = size_args(sizes)
    label = "empty" if "empty" in name else "random" if name in RANDOM else "constant"
    tensor = make(interp, shape, dtype, label, device=device)
    out = kwargs.get("out")
    return out if isinstance(out, Tensor) else tensor


def from_values(interp: Any, args: list[Any], kwargs: dict[str, Any], device: str, loc: ir.Loc | None) -> Tensor:
    """torch.tensor and its kin: the data's own type, and what unknowns in it were computed from."""
    data = args[0] if args else kwargs.get("data")
    if isinstance(data, Tensor):
        dtype = dtype_of(kwargs.get("dtype"), data.dtype)
        return convert(interp, data, dtype, loc) if dtype != data.dtype else data
    sample: Any = data
    shape: list[Any] = []
    while isinstance(sample, (list, tuple)) and len(shape) < 8:
        shape.append(len(sample))
        sample = sample[0] if sample else 0.0
    if isinstance(sample, Tensor) and sample.shape:
        shape.extend(sample.shape)
    guess = "f32" if isinstance(sample, float) else "bool" if isinstance(sample, bool) else "i64"
    dtype = dtype_of(kwargs.get("dtype"), sample.dtype if isinstance(sample, Tensor) else guess)
    contents = interp.contents_of(data)
    size: tuple[Any, ...] | None = None if isinstance(data, Unknown) else tuple(shape)
    if not contents:
        return make(interp, size, dtype, "constant", device=device)
    event = Event("copy", "tensor", loc, [(c, Tensor(c.storage, c.dtype, None)) for c in contents])
    interp.emit(event)
    return make(interp, size, dtype, event=event, device=device)


# --- copies and conversions --------------------------------------------------------------------------------


def convert(interp: Any, tensor: Tensor, dtype: str, loc: ir.Loc | None, name: str = "to") -> Tensor:
    """A copy of `tensor` as another element type."""
    event = record(
        interp, "copy", name, loc, [tensor], {"from": tensor.dtype, "to": dtype, "cast": tensor.dtype != dtype}
    )
    made = make(interp, tensor.shape, dtype, event=event, device=tensor.device)
    made.attrs["range"] = tensor.attrs.get("range")
    return made


def to(interp: Any, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """`.to(...)`, `.type(...)`, `.cuda()`, `.cpu()`, `.float()` and the like."""
    tensor = args[0] if args else None
    if isinstance(tensor, LibObject) or not isinstance(tensor, Tensor):
        return tensor
    dtype, device, copy = tensor.dtype, tensor.device, bool(kwargs.get("copy", False) is True)
    direct = dtypes.from_torch({"type": ""}.get(name, name))
    if direct is not None:
        dtype = direct
    for value in [*args[1:], *kwargs.values()]:
        if isinstance(value, DType):
            dtype = value.name
        elif isinstance(value, Tensor):
            dtype, device = value.dtype, value.device
        elif isinstance(value, (str, LibObject)):
            device = device_of(value, device)
            if isinstance(value, str) and name == "type":
                dtype = dtypes.from_torch(value.rsplit(".", 1)[-1]) or dtype
    if name in ("cpu", "cuda"):
        device = name
    if dtype == tensor.dtype and device == tensor.device and not copy:
        return tensor
    if dtype == tensor.dtype:
        moved = convert(interp, tensor, dtype, loc, name)
        moved.device = device
        moved.attrs = dict(tensor.attrs)
        return moved
    made = convert(interp, tensor, dtype, loc, name)
    made.device = device
    return made


def copy_(interp: Any, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """`target.copy_(source)`: converts to the target's element type."""
    target = args[0]
    source = args[1] if len(args) > 1 else kwargs.get("src")
    if not isinstance(target, Tensor):
        return target
    inputs = tensors_in([source])
    attrs: dict[str, Any] = {}
    if inputs:
        attrs = {"from": inputs[0].dtype, "to": target.dtype, "cast": inputs[0].dtype != target.dtype}
    event = record(interp, "copy", "copy_", loc, inputs, attrs)
    byte_copy = inputs and target.dtype in ("u8", "i8") and inputs[0].dtype in ("u8", "i8")
    write(interp, target, event, dtype=inputs[0].storage.content.dtype if byte_copy else None)
    return target


def fill(interp: Any, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """zero_, fill_, normal_, uniform_: nothing of the old content is left."""
    target = args[0]
    if isinstance(target, Tensor):
        storage = target.storage
        if target.is_slice:
            return target
        label = "random" if name in ("normal", "uniform") else "constant"
        storage.content = Content(storage, target.dtype, interp.call_index, label)
        storage.version += 1
    return target


def contiguous(interp: Any, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    tensor = args[0]
    if not isinstance(tensor, Tensor):
        return tensor
    if name == "contiguous" and tensor.is_contiguous():
        return tensor
    event = record(interp, "copy", name, loc, [tensor], {"from": tensor.dtype, "to": tensor.dtype, "cast": False})
    made = make(interp, tensor.shape, tensor.dtype, event=event, device=tensor.device)
    made.storage.content.dtype = tensor.storage.content.dtype
    return made


@lru_cache(maxsize=64)
def device(kind: str) -> LibObject:
    """The torch.device of a kind: the same object each time, so that it finds what it was a key of."""
    return LibObject("torch.device", {"type": kind, "index": 0})


def scalar(interp: Any, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """item, tolist, equal, allclose: the host learns something of the content."""
    inputs = tensors_in(args)
    known = inputs[0].attrs.get("value") if inputs and name == "item" else None
    if known is not None:
        return known
    if name == "item" and inputs:
        known = remembered.comparison(interp, inputs[0].storage.content)
        if known is not None:
            return known
    interp.note("host-read", {"symbol": f"torch.Tensor.{name}"}, loc)
    contents = tuple(t.storage.content for t in inputs)
    if name == "item" and inputs and "holds" in inputs[0].attrs:
        return interp.world.settle(interp, loc, inputs[0].attrs["holds"], contents)
    if name in ("allclose", "equal"):
        # a self-check against a reference passes: the assumed world; a copy kept to notice changes notices them
        known = remembered.same_tensors(interp, inputs[0], inputs[1]) if len(inputs) > 1 else None
        return interp.world.settle(interp, loc, True, contents) if known is None else known
    if (
        name == "tolist"
        and inputs
        and inputs[0].shape
        and len(inputs[0].shape) == 1
        and isinstance(inputs[0].shape[0], int)
    ):
        count = min(inputs[0].shape[0], 4096)
        return [Unknown(contents, "an element", made=interp.round) for _ in range(count)]
    known_range = inputs[0].attrs.get("range") if inputs and name == "item" else None
    return Unknown(contents, f"a tensor's {name}", known_range, interp.round)


# --- views -------------------------------------------------------------------------------------------------


_KEPT = ("range", "steer", "subclass", "lazy", "lazy_loc", "complex")  # what holds for a view as for its tensor


def alias(tensor: Tensor, shape: Any, strides: Any = None, dtype: str | None = None, is_slice: bool = False) -> Tensor:
    """Another view of the same storage."""
    return Tensor(
        tensor.storage, dtype or tensor.dtype, shape, strides if strides is not None else row_major(shape),
        tensor.offset, tensor.device,
        attrs={name: tensor.attrs[name] for name in _KEPT if name in tensor.attrs},
        is_slice=tensor.is_slice or is_slice,
    )  # fmt: skip


def view(interp: Any, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Operations that only look at the same memory another way."""
    tensor = args[0] if args else None
    if not isinstance(tensor, Tensor):
        return tensor
    rest = shapes.in_order(name, args[1:], kwargs)
    if name == "view" and rest and isinstance(rest[0], DType):
        return alias(tensor, shapes.bitcast(tensor.shape, tensor.dtype, rest[0].name), None, rest[0].name)
    if name in ("unbind", "chunk", "split", "tensor_split", "split_with_sizes"):
        return tuple(alias(tensor, s, None, is_slice=True) for s in shapes.pieces(name, tensor.shape, rest))
    shape, strides = shapes.viewed(name, tensor, rest)
    sliced = name in ("narrow", "select", "as_strided", "unfold")
    if name in ("reshape", "flatten", "ravel") and not tensor.is_contiguous() and strides is None:
        event = record(interp, "copy", "reshape", loc, [tensor], {"cast": False})
        return make(interp, shape, tensor.dtype, event=event, device=tensor.device)
    return alias(tensor, shape, strides, is_slice=sliced)


def index(interp: Any, tensor: Tensor, key: Any, loc: ir.Loc | None) -> Any:
    """`tensor[key]`."""
    keys = key if isinstance(key, tuple) else (key,)
    picked = tensors_in(list(keys))
    known = tensor.attrs.get("known")
    if known is not None and len(keys) == 1 and isinstance(keys[0], int) and keys[0] in known:
        one = alias(tensor, (), (), is_slice=True)
        one.attrs["value"] = known[keys[0]]
        return one
    shape = shapes.indexed(tensor.shape, keys)
    if picked:
        event = record(interp, "copy", "index", loc, [tensor, *picked], {"cast": False})
        return make(interp, shape, tensor.dtype, event=event, device=tensor.device)
    if all(k is None or k is Ellipsis or k == slice(None) for k in keys if not isinstance(k, Unknown)) and not any(
        isinstance(k, Unknown) for k in keys
    ):
        return alias(tensor, shape, shapes.indexed_strides(tensor, keys))
    part = alias(tensor, shape, shapes.indexed_strides(tensor, keys), is_slice=True)
    steer = bounds_from(interp, keys)
    if steer:
        part.attrs["steer"] = (*part.attrs.get("steer", ()), *steer)
    return part


def bounds_from(interp: Any, keys: Sequence[Any]) -> tuple[Content, ...]:
    """The contents that indices and slice bounds were computed from."""
    parts = [part for key in keys for part in ((key.start, key.stop, key.step) if isinstance(key, slice) else (key,))]
    found: tuple[Content, ...] = interp.contents_of(parts)
    return found


def assign_index(interp: Any, tensor: Tensor, key: Any, value: Any, loc: ir.Loc | None) -> None:
    """`tensor[key] = value`."""
    inputs = tensors_in([value]) + tensors_in([key])
    contents = interp.contents_of(value) if isinstance(value, Unknown) else ()
    attrs: dict[str, Any] = {}
    if isinstance(value, Tensor):
        attrs = {"from": value.dtype, "to": tensor.dtype, "cast": value.dtype != tensor.dtype}
    steer = (*steered_by(inputs), *bounds_from(interp, key if isinstance(key, tuple) else (key,)))
    if steer:
        attrs["steer"] = steer
    event = Event("copy", "setitem", loc, [(t.storage.content, t) for t in inputs], attrs=attrs)
    event.reads.extend((c, Tensor(c.storage, c.dtype, None)) for c in contents)
    interp.emit(event)
    whole = key == slice(None) or key is Ellipsis
    write(interp, tensor, event, partial=not whole)


def rows(interp: Any, tensor: Tensor, loc: ir.Loc | None, want: int | None) -> Sequence[Any]:
    """The items of iterating over a tensor."""
    count = tensor.shape[0] if tensor.shape else want
    if not isinstance(count, int):
        count = want or 1
    rest = tensor.shape[1:] if tensor.shape else None
    return [alias(tensor, rest, None, is_slice=True) for _ in range(min(count, 4096))]


# --- attributes --------------------------------------------------------------------------------------------


_ATTRIBUTES = frozenset(
    "shape dtype device is_cuda T mT H mH data real imag grad ndim itemsize nbytes requires_grad is_sparse "
    "is_quantized is_meta is_mps is_nested layout is_leaf grad_fn names numpy numel sum mean max min abs add sub "
    "mul div pow exp log sqrt rsqrt neg amax amin argmax argmin cumsum prod std var norm softmax log_softmax "
    "sigmoid tanh relu gather scatter index_select index_add masked_fill where clamp round floor ceil repeat "
    "repeat_interleave roll flip tile eq ne lt le gt ge any all logical_and logical_or bitwise_and bitwise_or "
    "pin_memory is_pinned share_memory_ record_stream register_hook retain_grad backward apply_ map_ triu tril "
    "diag outer cross cdist histc bincount nonzero tolist".split()
)


def has_attribute(name: str) -> bool:
    """Whether a tensor has an attribute of this name by itself; what a submission hangs on one is kept elsewhere."""
    if name.startswith("_"):
        return name.startswith("__") or name in ("_version", "_base", "_typed_storage") or name in PRODUCTS
    base = name.removesuffix("_")
    tables = (_ATTRIBUTES, VIEWS, MAKERS, PRODUCTS, SOLVERS, SELECTIONS, SOFTMAXES, SPECIAL)
    return any(name in table or base in table for table in tables)


def attribute(interp: Any, tensor: Tensor, name: str, loc: ir.Loc | None) -> Any:
    """An attribute that is a value; NotImplemented when `name` is a method."""
    if name == "shape":
        if tensor.shape is None:
            return Unknown((), "a shape")
        return tuple(d if d is not None else Unknown((), "a dimension") for d in tensor.shape)
    if name == "dtype":
        return DType(tensor.dtype)
    if name == "device":
        return device(tensor.device)
    if name in ("is_cuda",):
        return tensor.device != "cpu"
    if name in ("T", "mT", "H", "mH"):
        return view(
            interp,
            "transpose" if name.startswith("m") else "t",
            [tensor, -1, -2] if name.startswith("m") else [tensor],
            {},
            loc,
        )
    if name in ("data", "real"):
        return tensor
    if name == "grad":
        return None
    if name == "ndim":
        return len(tensor.shape) if tensor.shape is not None else Unknown((), "a rank")
    if name == "_version":
        version = Version(tensor.storage.version)
        version.storage = tensor.storage
        return version
    if name == "itemsize":
        return max(dtypes.BITS.get(tensor.dtype, 32) // 8, 1)
    if name in ("nbytes",):
        return (tensor.numel() or 0) * max(dtypes.BITS.get(tensor.dtype, 32) // 8, 1)
    if name in ("requires_grad", "is_sparse", "is_quantized", "is_meta", "is_mps", "is_nested"):
        return False
    if name == "layout":
        return LibObject("torch.layout")
    if name in tensor.attrs and name not in ("range", "known", "value", "holds"):
        return tensor.attrs[name]
    return NotImplemented


def _meta(name: str) -> Callable[..., Any]:
    def answer(interp: Any, _: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        tensor = args[0]
        if not isinstance(tensor, Tensor):
            return Unknown((), name)
        if name == "stride":
            strides = tensor.strides if tensor.strides is not None else row_major(tensor.shape)
            if strides is None:
                return Unknown((), "strides")
            values = tuple(s if s is not None else Unknown((), "a stride") for s in strides)
            return values[args[1]] if len(args) > 1 and isinstance(args[1], int) else values
        if name == "size":
            shape = attribute(interp, tensor, "shape", loc)
            if isinstance(shape, Unknown) or len(args) < 2:
                return shape
            return shape[args[1]] if isinstance(args[1], int) else Unknown((), "a dimension")
        if name in ("dim", "ndimension"):
            return attribute(interp, tensor, "ndim", loc)
        if name in ("numel", "nelement", "__len__"):
            if name == "__len__":
                return tensor.shape[0] if tensor.shape else 0
            count = tensor.numel()
            return count if count is not None else Unknown((), "a size")
        if name == "data_ptr":
            interp.note("pointer-read", {"storage": tensor.storage.ident, "call": interp.call_index}, loc)
            return tensor.address
        if name == "element_size":
            return max(dtypes.BITS.get(tensor.dtype, 32) // 8, 1)
        if name == "is_contiguous":
            return tensor.is_contiguous()
        if name == "storage_offset":
            return tensor.offset
        if name in ("untyped_storage", "storage", "_typed_storage"):
            return LibObject("torch.UntypedStorage", {"tensor": tensor})
        if name == "is_floating_point":
            return tensor.dtype in dtypes.FLOATS
        if name in ("get_device",):
            return 0
        return Unknown((tensor.storage.content,), name)

    return answer


SPECIAL: dict[str, Callable[..., Any]] = {
    **dict.fromkeys("to type cuda cpu float half bfloat16 double int long short byte char bool type_as".split(), to),
    "copy": copy_, "zero": fill, "fill": fill, "normal": fill, "uniform": fill, "contiguous": contiguous,
    "clone": contiguous, "item": scalar, "tolist": scalar, "equal": scalar, "allclose": scalar, "numpy": scalar,
    **{n: _meta(n) for n in ("stride", "size", "dim", "ndimension", "numel", "nelement", "__len__", "data_ptr",
       "element_size", "is_contiguous", "storage_offset", "untyped_storage", "storage", "is_floating_point",
       "get_device")},
}  # fmt: skip
