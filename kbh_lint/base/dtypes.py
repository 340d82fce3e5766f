"""Element types under one name each: a row says all that other parts ask of one.

That is its size and format, what chips and datasheets call its group, whether data is held in it and widened, and the
spellings that torch, Triton, CUTLASS, C++ and PTX give it. The file is as long as there are types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import lru_cache

from kbh_lint.base.records import dataclass

UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Format:
    """Of floating point: stored fraction bits, the exponent of the smallest normal number, the largest number. Of two
    types that meet in C++ or Triton the one of higher `rank` wins; 0 where none can meet."""

    fraction: int
    least: int
    largest: float
    rank: int = 0


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type.

    `group` is what peaks, counters and promises call it together with others (`fp8`). `narrow`: tensors are held in it,
    and what is multiplied in a wider type instead was widened. `whole`: its values are whole numbers. `vectors` are the
    packed vectors of C++, and how many elements each holds; the other fields are spellings, the usual one first.
    """

    name: str
    bits: int
    fmt: Format | None = None
    group: str = ""
    narrow: bool = False
    whole: bool = False
    torch: tuple[str, ...] = ()
    triton: tuple[str, ...] = ()
    cutlass: tuple[str, ...] = ()
    tilelang: tuple[str, ...] = ()
    aten: tuple[str, ...] = ()
    cpp: tuple[str, ...] = ()
    vectors: Mapping[str, int] = field(default_factory=dict)
    ptx: tuple[str, ...] = ()

    @property
    def largest(self) -> float:
        """The largest number of the type."""
        return self.fmt.largest if self.fmt is not None else 2 ** (self.bits - (self.name[0] == "i")) - 1


ROWS: tuple[ElementType, ...] = (
    ElementType(
        "e2m1",
        4,
        fmt=Format(1, 0, 6.0),
        group="fp4",
        torch=("float4_e2m1fn_x2",),
        cutlass=("Float4E2M1FN",),
        tilelang=("float4_e2m1fn",),
        cpp=("float_e2m1_t",),
        ptx=("e2m1", "e2m1x2"),
    ),
    ElementType("e2m3", 6, fmt=Format(3, 0, 7.5), group="fp6", cutlass=("Float6E2M3FN",), ptx=("e2m3",)),
    ElementType("e3m2", 6, fmt=Format(2, -2, 28.0), group="fp6", cutlass=("Float6E3M2FN",), ptx=("e3m2",)),
    ElementType(
        "e4m3",
        8,
        fmt=Format(3, -6, 448.0, rank=1),
        group="fp8",
        narrow=True,
        torch=("float8_e4m3fn", "float8_e4m3fnuz"),
        triton=("float8e4nv", "float8e4b8", "float8e4b15", "fp8e4nv"),
        cutlass=("Float8E4M3FN", "Float8E4M3", "Float8E4M3B11FNUZ"),
        tilelang=("float8_e4m3", "e4m3_float8"),
        aten=("kFloat8_e4m3fn",),
        cpp=("__nv_fp8_e4m3", "float_e4m3_t", "Float8_e4m3fn"),
        vectors={"__nv_fp8x2_e4m3": 2, "__nv_fp8x4_e4m3": 4},
        ptx=("e4m3", "e4m3x2", "e4m3x4"),
    ),
    ElementType(
        "e5m2",
        8,
        fmt=Format(2, -14, 57344.0, rank=1),
        group="fp8",
        narrow=True,
        torch=("float8_e5m2", "float8_e5m2fnuz"),
        triton=("float8e5", "float8e5b16", "fp8e5"),
        cutlass=("Float8E5M2",),
        tilelang=("e5m2_float8",),
        aten=("kFloat8_e5m2",),
        cpp=("__nv_fp8_e5m2", "float_e5m2_t", "Float8_e5m2"),
        vectors={"__nv_fp8x2_e5m2": 2, "__nv_fp8x4_e5m2": 4},
        ptx=("e5m2", "e5m2x2"),
    ),
    ElementType(
        "e8m0",
        8,
        fmt=Format(0, -127, 2.0**127),
        torch=("float8_e8m0fnu",),
        cutlass=("Float8E8M0FNU",),
        cpp=("float_ue8m0_t",),
        ptx=("ue8m0",),
    ),
    ElementType(
        "bf16",
        16,
        fmt=Format(7, -126, 3.3895313892515355e38, rank=2),
        group="bf16",
        torch=("bfloat16",),
        triton=("bfloat16", "bf16"),
        cutlass=("BFloat16",),
        aten=("kBFloat16",),
        cpp=("__nv_bfloat16", "nv_bfloat16", "bfloat16_t", "BFloat16", "bfloat16", "__nv_bfloat16_raw"),
        vectors={"__nv_bfloat162": 2, "nv_bfloat162": 2},
        ptx=("bf16", "bf16x2"),
    ),
    ElementType(
        "f16",
        16,
        fmt=Format(10, -14, 65504.0, rank=3),
        group="fp16",
        torch=("float16", "half"),
        triton=("float16", "fp16"),
        cutlass=("Float16",),
        aten=("kHalf", "kFloat16"),
        cpp=("__half", "half", "half_t", "Half", "__half_raw"),
        vectors={"__half2": 2, "half2": 2},
        ptx=("f16", "f16x2"),
    ),
    ElementType(
        "tf32",
        32,
        fmt=Format(10, -126, 3.4011621342146535e38, rank=4),
        group="tf32",
        cutlass=("TFloat32",),
        tilelang=("tfloat32",),
        cpp=("tfloat32_t", "tf32"),
        ptx=("tf32",),
    ),
    ElementType(
        "f32",
        32,
        fmt=Format(23, -126, 3.4028234663852886e38, rank=5),
        group="fp32",
        torch=("float32", "float"),
        triton=("float32", "fp32"),
        cutlass=("Float32",),
        aten=("kFloat", "kFloat32"),
        cpp=("float",),
        vectors={"float2": 2, "float3": 3, "float4": 4},
        ptx=("f32", "f32x2"),
    ),
    ElementType(
        "f64",
        64,
        fmt=Format(52, -1022, 1.7976931348623157e308, rank=6),
        group="fp64",
        torch=("float64", "double"),
        triton=("float64", "fp64"),
        cutlass=("Float64",),
        aten=("kDouble", "kFloat64"),
        cpp=("double",),
        vectors={"double2": 2, "double4": 4},
        ptx=("f64",),
    ),
    ElementType(
        "bool",
        8,
        whole=True,
        torch=("bool",),
        triton=("int1", "i1"),
        cutlass=("Boolean",),
        aten=("kBool",),
        cpp=("bool",),
        ptx=("b1",),
    ),
    ElementType(
        "i4",
        4,
        group="int4",
        whole=True,
        cutlass=("Int4",),
        tilelang=("int4",),
        cpp=("int4b_t",),
        ptx=("s4",),
    ),
    ElementType(
        "u4",
        4,
        group="int4",
        whole=True,
        cutlass=("Uint4",),
        tilelang=("uint4",),
        cpp=("uint4b_t",),
        ptx=("u4",),
    ),
    ElementType(
        "i8",
        8,
        group="int8",
        whole=True,
        torch=("int8",),
        triton=("int8", "i8"),
        cutlass=("Int8",),
        aten=("kChar", "kInt8"),
        cpp=("char", "signed char", "int8_t"),
        vectors={"char2": 2, "char4": 4},
        ptx=("s8",),
    ),
    ElementType(
        "u8",
        8,
        group="int8",
        whole=True,
        torch=("uint8",),
        triton=("uint8", "u8"),
        cutlass=("Uint8",),
        aten=("kByte", "kUInt8"),
        cpp=("unsigned char", "uint8_t", "__nv_fp8_storage_t"),
        vectors={"uchar2": 2, "uchar4": 4},
        ptx=("u8",),
    ),
    ElementType(
        "i16",
        16,
        whole=True,
        torch=("int16", "short"),
        triton=("int16", "i16"),
        cutlass=("Int16",),
        aten=("kShort", "kInt16"),
        cpp=("short", "int16_t"),
        vectors={"short2": 2, "short4": 4},
        ptx=("s16",),
    ),
    ElementType(
        "u16",
        16,
        whole=True,
        torch=("uint16",),
        triton=("uint16", "u16"),
        cutlass=("Uint16",),
        aten=("kUInt16",),
        cpp=("unsigned short", "uint16_t"),
        vectors={"ushort2": 2, "ushort4": 4},
        ptx=("u16",),
    ),
    ElementType(
        "i32",
        32,
        whole=True,
        torch=("int32", "int"),
        triton=("int32", "i32"),
        cutlass=("Int32",),
        aten=("kInt", "kInt32"),
        cpp=("int", "int32_t"),
        vectors={"int2": 2, "int3": 3, "int4": 4},
        ptx=("s32",),
    ),
    ElementType(
        "u32",
        32,
        whole=True,
        torch=("uint32",),
        triton=("uint32", "u32"),
        cutlass=("Uint32",),
        aten=("kUInt32",),
        cpp=("unsigned", "unsigned int", "uint32_t", "uint"),
        vectors={"uint2": 2, "uint3": 3, "uint4": 4},
        ptx=("u32",),
    ),
    ElementType(
        "i64",
        64,
        whole=True,
        torch=("int64", "long"),
        triton=("int64", "i64"),
        cutlass=("Int64",),
        aten=("kLong", "kInt64"),
        cpp=("long", "long long", "int64_t", "ssize_t", "ptrdiff_t"),
        vectors={"longlong2": 2, "long2": 2},
        ptx=("s64",),
    ),
    ElementType(
        "u64",
        64,
        whole=True,
        torch=("uint64",),
        triton=("uint64", "u64"),
        cutlass=("Uint64",),
        aten=("kUInt64",),
        cpp=("unsigned long", "unsigned long long", "uint64_t", "size_t", "uintptr_t"),
        vectors={"ulonglong2": 2, "ulong2": 2},
        ptx=("u64",),
    ),
    ElementType("c64", 64, torch=("complex64",)),
    ElementType("c128", 128, torch=("complex128",)),
)

TYPES: Mapping[str, ElementType] = {row.name: row for row in ROWS}
BITS = {row.name: row.bits for row in ROWS}
STORED = {row.name: max(row.bits, 8) for row in ROWS}  # bits of memory that an element of a tensor takes
FLOATS = frozenset(row.name for row in ROWS if row.fmt is not None)
INTS = frozenset(row.name for row in ROWS if row.whole)
NARROW = frozenset(row.name for row in ROWS if row.narrow)


def is_wider(name: str, than: str) -> bool:
    """Whether `name` is a floating-point type with more bits than `than` has."""
    return name in FLOATS and BITS[name] > BITS[than]


def group(name: str) -> frozenset[str]:
    """The element types that chips and datasheets call by one name: `fp8` -> `e4m3`, `e5m2`."""
    return frozenset(row.name for row in ROWS if row.group == name)


FP8 = group("fp8")


def _spelled(kind: str) -> Iterator[tuple[str, str]]:
    """Every spelling of a kind, and the type that it names."""
    return ((spelling, row.name) for row in ROWS for spelling in getattr(row, kind))


_TORCH = dict(_spelled("torch"))
_TRITON = dict(_spelled("triton"))
_CUTLASS = dict(_spelled("cutlass"))  # of NVIDIA's Python DSL, module `cutlass`
_TILELANG = dict(_spelled("tilelang"))
_ATEN = dict(_spelled("aten"))
_CPP = dict(_spelled("cpp"))
_PTX = dict(_spelled("ptx"))
_CPP_VECTORS = {spelling: (row.name, lanes) for row in ROWS for spelling, lanes in row.vectors.items()}


def from_torch(name: str) -> str | None:
    """The element type that an attribute of `torch` is: `bfloat16` -> `bf16`; None when it is none."""
    return _TORCH.get(name)


def torch_name(name: str) -> str:
    """The name that torch has for an element type: `bf16` -> `bfloat16`; the type's own where torch has none."""
    return next((known for known, found in _TORCH.items() if found == name), name)


def from_triton(name: str) -> str | None:
    """The element type that an attribute of `triton.language`, or a signature spelling, is: `float8e4nv` -> `e4m3`."""
    return _TRITON.get(name.lstrip("*"))


def from_cutlass(name: str) -> str | None:
    """The element type that an attribute of the Python package `cutlass` is: `Float8E4M3FN` -> `e4m3`; None when it
    is none."""
    return _CUTLASS.get(name)


def from_tilelang(name: str) -> str | None:
    """The element type that TileLang means by a string or an attribute: `float8_e4m3` -> `e4m3`, `float` -> `f32`;
    else None."""
    return _TILELANG.get(name) or _TORCH.get(name)


@lru_cache(maxsize=4096)
def from_aten(name: str) -> str | None:
    """The element type of an ATen constant: `kBFloat16`, with or without `at::` or `torch::`, or
    `at::ScalarType::BFloat16` -> `bf16`."""
    owner, _, last = name.rpartition("::")
    return _ATEN.get(f"k{last}" if owner.rpartition("::")[2] == "ScalarType" else last)


@lru_cache(maxsize=4096)
def from_cpp(name: str) -> str | None:
    """The element type of a C++ scalar type, by its name, qualified or not; None when it is none."""
    return _CPP.get(name) or _CPP.get(name.rsplit("::", 1)[-1])


def cpp_name(dtype: str, lanes: int = 1) -> str:
    """A C++ name for an element type (`f32` -> `float`), or for a packed vector of `lanes`; `dtype` itself without
    one."""
    if lanes > 1:
        return next((name for name, found in _CPP_VECTORS.items() if found == (dtype, lanes)), dtype)
    return next((name for name, found in _CPP.items() if found == dtype), dtype)


def vector_from_cpp(name: str) -> tuple[str, int] | None:
    """The element type and the number of lanes of a packed C++ type: `__nv_bfloat162` -> (`bf16`, 2); None when it
    is none."""
    return _CPP_VECTORS.get(name.rsplit("::", 1)[-1])


def from_ptx(modifier: str) -> str | None:
    """The element type of an opcode modifier without its dot, such as `e4m3` or `bf16x2`; None when it is none."""
    return _PTX.get(modifier)
