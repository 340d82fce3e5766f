"""Numba on numbers: what one thread computes. Constants with a point, and whole numbers that meet a float, are fp64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import UNKNOWN, DType, Sym, Value
from kbh_lint.dsl.numba.functions import HALVES, INDICES, LANE, LIBDEVICE, WARP_SIZE, plain
from kbh_lint.dsl.numba.types import PACKAGE, element
from kbh_lint.dsl.tensors.numeric import TensorDialect, at
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric import math as mathematics
from kbh_lint.kernels.numeric import python
from kbh_lint.kernels.numeric.builtins import Args, Builtin, launch_dim
from kbh_lint.kernels.numeric.ctypes import scalar
from kbh_lint.kernels.numeric.numbers import Num
from kbh_lint.kernels.numeric.state import Frame, Memory, Ptr

if TYPE_CHECKING:
    from kbh_lint.base.values import Made
    from kbh_lint.kernels.numeric.machine import Machine


_PLACES = {f"{PACKAGE}.cuda.{name}.{axis}": (name, axis) for name in INDICES for axis in "xyz"}
_PLACES[LANE] = "threadIdx", "x"


class Element(Num):
    """A number that was read by an index and may in fact be a row: `part` says of which array, so that a further index
    takes an element."""

    __slots__ = ("part",)

    def __init__(self, number: Num, part: Part) -> None:
        super().__init__(number.q, number.f, number.dt, number.src, number.near, number.wide)
        self.part = part


class Part(Ptr):
    """A row, or another part of an array: what an index of it adds to those before."""

    __slots__ = ("array", "before")

    def __init__(self, array: Ptr, before: tuple[Value, ...]) -> None:
        super().__init__(array.mem, UNKNOWN, array.type)
        self.array, self.before = array, before

    def whole(self, index: object) -> tuple[Value, ...]:
        """The full index into the array for `index` into this part: it fills the dimensions that slices left open
        first."""
        given = list(index) if isinstance(index, tuple) else [index]
        made = []
        for place in self.before:
            if isinstance(place, Open):
                more = given.pop(0) if given else 0
                place = place.start + more if isinstance(place.start, int) and isinstance(more, int) else UNKNOWN
            made.append(place)
        return (*made, *given)


class Open:
    """A place that a slice leaves open, and where the slice starts."""

    def __init__(self, start: object) -> None:
        self.start = start


def _opened(m: Machine, node: ir.Expr, index: object, frame: Frame) -> tuple[Value, ...] | None:
    """The places of an index with slices; None where it has none."""
    items = node.items if isinstance(node, ir.Seq) else (node,)
    if not any(isinstance(item, ir.SliceE) for item in items):
        return None
    places = index if isinstance(index, tuple) else (index,)
    return tuple(
        Open(0 if item.lower is None else m.expressions.evaluate(item.lower, frame))
        if isinstance(item, ir.SliceE) else place
        for item, place in zip(items, places, strict=False)
    )  # fmt: skip


def _alone(index: object) -> tuple[Value, ...]:
    return index if isinstance(index, tuple) else (index,)


def _allocated(kind: str) -> Builtin:
    def run(m: Machine, c: Args) -> Value:
        given = c.get(1, "dtype")
        dtype = given.name if isinstance(given, DType) else "f32"
        inner = scalar(dtype)
        made = Memory(kind, kind, inner)
        return Ptr(made, 0, inner)

    return run


def _place(c: Args) -> Value:
    array, index = c.get(0, "ary"), c.get(1, "idx")
    return at(array, index, c.site) if isinstance(array, Ptr) else array


def _atomic(handler: Builtin, value: int = 2, sign: int = 1) -> Builtin:
    """`atomic.add(array, index, value)`, as an atomic at a pointer."""

    def run(m: Machine, c: Args) -> Value:
        given = c.get(value, "val")
        if sign < 0 and isinstance(given, Num):
            given = m.numbers.neg(given)
        return handler(m, Args([_place(c), given], {}, c.site, c.node, c.frame))

    return run


def _swapped(m: Machine, c: Args) -> Value:
    """`atomic.cas(array, index, old, value)`: it is taken to succeed."""
    return mathematics.exchanged(m, Args([_place(c), c.get(3, "val")], {}, c.site, c.node, c.frame))


def _grid(m: Machine, c: Args) -> Value:
    """`cuda.grid(n)` in the first block."""
    count = c.get(0, "ndim")
    return _several(count, [_dim(m, "threadIdx", axis) for axis in "xyz"])


def _grid_size(m: Machine, c: Args) -> Value:
    """`cuda.gridsize(n)`."""
    sizes = [(_dim(m, "blockDim", axis), _dim(m, "gridDim", axis)) for axis in "xyz"]
    known = [a * b if isinstance(a, int) and isinstance(b, int) else UNKNOWN for a, b in sizes]
    return _several(c.get(0, "ndim"), known)


def _several(count: object, of: Sequence[Value]) -> Value:
    return of[0] if count == 1 else tuple(of[:count]) if isinstance(count, int) and 1 < count < 4 else UNKNOWN


def _dim(m: Machine, name: str, axis: str) -> Value:
    found = launch_dim(m, name, axis)
    return whole.converted(found, "i64") if isinstance(found, int) else UNKNOWN


def _bits(m: Machine, c: Args) -> Value:
    return mathematics.to_bits(m, c)


def _of_type(handler: Builtin, dt: str) -> Builtin:
    """A function that takes its arguments as fp32, or as fp16."""

    def run(m: Machine, c: Args) -> Value:
        items = [m.ctypes.convert(item, scalar(dt), c.site) if isinstance(item, Num) else item for item in c.items]
        return handler(m, Args(items, c.keywords, c.site, c.node, c.frame))

    return run


FUNCTIONS: dict[str, Builtin] = {
    "cuda.grid": _grid, "cuda.gridsize": _grid_size, "cuda.shared.array": _allocated("shared"),
    "cuda.local.array": _allocated("local"), "cuda.const.array_like": mathematics.same,
    **dict.fromkeys(
        ("cuda.syncthreads", "cuda.syncwarp", "cuda.threadfence", "cuda.threadfence_block", "cuda.threadfence_system",
         "cuda.nanosleep"), mathematics.nothing
    ),
    **dict.fromkeys(
        ("cuda.shfl_sync", "cuda.shfl_up_sync", "cuda.shfl_down_sync", "cuda.shfl_xor_sync"), mathematics.other_lane(1)
    ),
    **dict.fromkeys(
        ("cuda.syncthreads_count", "cuda.syncthreads_and", "cuda.syncthreads_or", "cuda.all_sync", "cuda.any_sync",
         "cuda.eq_sync", "cuda.ballot_sync", "cuda.match_any_sync", "cuda.match_all_sync", "cuda.activemask",
         "cuda.lanemask_lt", "cuda.popc", "cuda.clz", "cuda.ffs", "cuda.brev", "cuda.atomic.inc", "cuda.atomic.dec",
         "cuda.atomic.and_", "cuda.atomic.or_", "cuda.atomic.xor"), mathematics.unknown
    ),
    "cuda.atomic.add": _atomic(mathematics.atomic_add), "cuda.atomic.sub": _atomic(mathematics.atomic_add, sign=-1),
    **dict.fromkeys(("cuda.atomic.max", "cuda.atomic.nanmax"), _atomic(mathematics.larger(1.0))),
    **dict.fromkeys(("cuda.atomic.min", "cuda.atomic.nanmin"), _atomic(mathematics.larger(-1.0))),
    "cuda.atomic.exch": _atomic(mathematics.exchanged), "cuda.atomic.cas": _swapped,
    "cuda.fma": mathematics.fused, "cuda.selp": mathematics.select,
    **{f"{LIBDEVICE}{name}": _bits for name in ("float_as_int", "float_as_uint", "double_as_longlong")},
    **{f"{LIBDEVICE}{name}": mathematics.from_bits("f32") for name in ("int_as_float", "uint_as_float")},
    f"{LIBDEVICE}longlong_as_double": mathematics.from_bits("f64"),
    **{f"{LIBDEVICE}double2float_r{way}": mathematics.to_type("f32") for way in "nzud"},
    f"{LIBDEVICE}half2float": mathematics.to_type("f32"), f"{LIBDEVICE}float2half_rn": mathematics.to_type("f16"),
}  # fmt: skip


def _view(m: Machine, c: Args) -> Value:
    """`x.view(type)`."""
    value, dtype = c.get(0), c.get(1, "dtype")
    if isinstance(value, Ptr) or not isinstance(dtype, DType):
        return value
    return mathematics.from_bits(dtype.name)(m, c) if dtype.name.startswith(("f", "b")) else mathematics.to_bits(m, c)


class Numbers(TensorDialect):
    """Numba's functions, indices and types."""

    packages = (PACKAGE,)
    constants = "f64"
    functions = FUNCTIONS
    methods = {"view": _view, "item": mathematics.same, "reshape": mathematics.same, "ravel": mathematics.same}

    def element_type(self, path: str, name: str) -> str | None:
        """The element type that `name` stands for in the module `path`, as in `numba.float32` or `np.float32`; None for
        other names."""
        return element(path, name)

    def attribute(self, m: Machine, value: object, name: str, frame: Frame) -> Value:
        """The value of an attribute such as `cuda.threadIdx.x` or `cuda.laneid`; sizes of arrays are unknown."""
        full = f"{value.path}.{name}" if isinstance(value, Sym) else ""
        if full in _PLACES:
            return _dim(m, *_PLACES[full])
        if full == WARP_SIZE:
            return 32
        if isinstance(value, Ptr) and name in ("size", "ndim", "strides"):
            return UNKNOWN
        return super().attribute(m, value, name, frame)

    def indexed(self, value: object) -> object:
        """The row that a value stands for if it was read by an index and may be a row; else the value."""
        return value.part if isinstance(value, Element) else value

    def place(self, value: Ptr, index: object, site: int) -> Ptr:
        """The place of `value[index]`, where `value` may be a row."""
        return at(value.array, value.whole(index), site) if isinstance(value, Part) else at(value, index, site)

    def read(self, m: Machine, value: Ptr | Made, index: object, site: int) -> Value:
        """The value of `value[index]`: an element, or a view."""
        if not isinstance(value, Ptr):
            return super().read(m, value, index, site)
        array, before = (value.array, value.whole) if isinstance(value, Part) else (value, _alone)
        node = m.sites.nodes[site // 8]
        opened = _opened(m, node.index, index, m.frame) if isinstance(node, ir.Index) else None
        if opened is not None:
            return Part(array, before(opened))
        places = before(index)
        found = m.read(at(array, places, site), site)
        return Element(found, Part(array, places)) if type(found) is Num else found

    def builtin(self, path: str) -> Builtin | None:
        """The function for a path in the package, in numpy or in Python; None for unknown ones."""
        root, _, name = path.partition(".")
        if root == "numpy":
            dtype = element(root, name)
            return mathematics.to_type(dtype) if dtype is not None else python.function(name)
        if root != PACKAGE:
            return super().builtin(path)
        found = FUNCTIONS.get(name)
        if found is not None:
            return found
        for space, dt in ((LIBDEVICE, "f32"), (HALVES, "f16")):
            if name.startswith(space):
                return _named(name.removeprefix(space), dt)
        return None


def _named(name: str, dt: str) -> Builtin | None:
    """A function of numbers by a name that says its type."""
    base = plain(name) if dt == "f32" else name.removeprefix("h")
    single = dt == "f16" or base.endswith("f") or name.startswith("fast_") or base != name and name[0] == "f"
    handler = python.function(base) or python.function(base.removesuffix("f"))
    return None if handler is None else _of_type(handler, dt) if single else handler


DIALECT = Numbers()
