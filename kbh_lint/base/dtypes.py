"""Element types under one name each, and the spellings that torch, Triton, CUTLASS, C++ and PTX give them."""

from __future__ import annotations

from functools import lru_cache

BITS = {
    "e4m3": 8, "e5m2": 8, "e2m1": 4, "e3m2": 6, "e2m3": 6, "e8m0": 8, "bf16": 16, "f16": 16, "tf32": 32, "f32": 32,
    "f64": 64, "bool": 8, "i4": 4, "u4": 4, "i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64,
    "u64": 64, "c64": 64, "c128": 128,
}  # fmt: skip

FP8 = frozenset({"e4m3", "e5m2"})
FLOATS = frozenset({"e4m3", "e5m2", "e2m1", "e3m2", "e2m3", "e8m0", "bf16", "f16", "tf32", "f32", "f64"})
WIDE_FLOATS = frozenset({"bf16", "f16", "tf32", "f32", "f64"})
INTS = frozenset({"bool", "i4", "u4", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"})
UNKNOWN = "?"

_TORCH = {
    "float8_e4m3fn": "e4m3", "float8_e4m3fnuz": "e4m3", "float8_e5m2": "e5m2", "float8_e5m2fnuz": "e5m2",
    "float8_e8m0fnu": "e8m0", "float4_e2m1fn_x2": "e2m1", "bfloat16": "bf16", "float16": "f16", "half": "f16",
    "float32": "f32", "float": "f32", "float64": "f64", "double": "f64", "bool": "bool", "int8": "i8", "uint8": "u8",
    "int16": "i16", "short": "i16", "uint16": "u16", "int32": "i32", "int": "i32", "uint32": "u32", "int64": "i64",
    "long": "i64", "uint64": "u64", "complex64": "c64", "complex128": "c128",
}  # fmt: skip

_TRITON = {
    "float8e4nv": "e4m3", "float8e4b8": "e4m3", "float8e4b15": "e4m3", "float8e5": "e5m2", "float8e5b16": "e5m2",
    "bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64", "int1": "bool", "int8": "i8",
    "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32", "int64": "i64", "uint64": "u64",
    # signature spellings
    "fp8e4nv": "e4m3", "fp8e5": "e5m2", "bf16": "bf16", "fp16": "f16", "fp32": "f32", "fp64": "f64", "i1": "bool",
    "i8": "i8", "u8": "u8", "i16": "i16", "u16": "u16", "i32": "i32", "u32": "u32", "i64": "i64", "u64": "u64",
}  # fmt: skip

# Of NVIDIA's Python DSL, module `cutlass`.
_CUTLASS = {
    "Float8E4M3FN": "e4m3", "Float8E4M3": "e4m3", "Float8E4M3B11FNUZ": "e4m3", "Float8E5M2": "e5m2",
    "Float8E8M0FNU": "e8m0", "Float6E3M2FN": "e3m2", "Float6E2M3FN": "e2m3", "Float4E2M1FN": "e2m1",
    "BFloat16": "bf16", "Float16": "f16", "TFloat32": "tf32", "Float32": "f32", "Float64": "f64", "Boolean": "bool",
    "Int4": "i4", "Uint4": "u4", "Int8": "i8", "Uint8": "u8", "Int16": "i16", "Uint16": "u16", "Int32": "i32",
    "Uint32": "u32", "Int64": "i64", "Uint64": "u64",
}  # fmt: skip

_ATEN = {
    "kFloat8_e4m3fn": "e4m3", "kFloat8_e5m2": "e5m2", "kBFloat16": "bf16", "kHalf": "f16", "kFloat16": "f16",
    "kFloat": "f32", "kFloat32": "f32", "kDouble": "f64", "kFloat64": "f64", "kBool": "bool", "kChar": "i8",
    "kInt8": "i8", "kByte": "u8", "kUInt8": "u8", "kShort": "i16", "kInt16": "i16", "kInt": "i32", "kInt32": "i32",
    "kLong": "i64", "kInt64": "i64", "kUInt16": "u16", "kUInt32": "u32", "kUInt64": "u64",
}  # fmt: skip

_CPP = {
    "float": "f32", "double": "f64", "__half": "f16", "half": "f16", "half_t": "f16", "Half": "f16",
    "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16", "bfloat16_t": "bf16", "BFloat16": "bf16", "bfloat16": "bf16",
    "__nv_fp8_e4m3": "e4m3", "float_e4m3_t": "e4m3", "Float8_e4m3fn": "e4m3", "__nv_fp8_e5m2": "e5m2",
    "float_e5m2_t": "e5m2", "Float8_e5m2": "e5m2", "float_ue8m0_t": "e8m0", "float_e2m1_t": "e2m1",
    "tfloat32_t": "tf32", "tf32": "tf32", "bool": "bool", "char": "i8", "signed char": "i8", "int8_t": "i8",
    "unsigned char": "u8", "uint8_t": "u8", "short": "i16", "int16_t": "i16", "unsigned short": "u16",
    "uint16_t": "u16", "int": "i32", "int32_t": "i32", "unsigned": "u32", "unsigned int": "u32", "uint32_t": "u32",
    "uint": "u32", "long": "i64", "long long": "i64", "int64_t": "i64", "ssize_t": "i64", "ptrdiff_t": "i64",
    "unsigned long": "u64", "unsigned long long": "u64", "uint64_t": "u64", "size_t": "u64", "uintptr_t": "u64",
    "int4b_t": "i4", "uint4b_t": "u4", "__nv_fp8_storage_t": "u8", "__nv_bfloat16_raw": "bf16", "__half_raw": "f16",
}  # fmt: skip

# Packed C++ vector types: element type and how many.
_CPP_VECTORS = {
    "__half2": ("f16", 2), "half2": ("f16", 2), "__nv_bfloat162": ("bf16", 2), "nv_bfloat162": ("bf16", 2),
    "__nv_fp8x2_e4m3": ("e4m3", 2), "__nv_fp8x4_e4m3": ("e4m3", 4), "__nv_fp8x2_e5m2": ("e5m2", 2),
    "__nv_fp8x4_e5m2": ("e5m2", 4), "float2": ("f32", 2), "float3": ("f32", 3), "float4": ("f32", 4),
    "double2": ("f64", 2), "double4": ("f64", 4), "char2": ("i8", 2), "char4": ("i8", 4), "uchar2": ("u8", 2),
    "uchar4": ("u8", 4), "short2": ("i16", 2), "short4": ("i16", 4), "ushort2": ("u16", 2), "ushort4": ("u16", 4),
    "int2": ("i32", 2), "int3": ("i32", 3), "int4": ("i32", 4), "uint2": ("u32", 2), "uint3": ("u32", 3),
    "uint4": ("u32", 4), "longlong2": ("i64", 2), "ulonglong2": ("u64", 2), "long2": ("i64", 2),
    "ulong2": ("u64", 2),
}  # fmt: skip

_PTX = {
    "e4m3": "e4m3", "e5m2": "e5m2", "e2m1": "e2m1", "e3m2": "e3m2", "e2m3": "e2m3", "ue8m0": "e8m0", "bf16": "bf16",
    "bf16x2": "bf16", "f16": "f16", "f16x2": "f16", "tf32": "tf32", "f32": "f32", "f32x2": "f32", "f64": "f64",
    "s8": "i8", "u8": "u8", "s4": "i4", "u4": "u4", "b1": "bool", "s16": "i16", "u16": "u16", "s32": "i32",
    "u32": "u32", "s64": "i64", "u64": "u64", "e4m3x2": "e4m3", "e5m2x2": "e5m2", "e4m3x4": "e4m3", "e2m1x2": "e2m1",
}  # fmt: skip


def from_torch(name: str) -> str | None:
    """`bfloat16` (the attribute of `torch`) -> `bf16`; None when it is not an element type."""
    return _TORCH.get(name)


def torch_name(name: str) -> str:
    """`bf16` -> `bfloat16`, as torch writes it; itself where torch has no such type."""
    return next((known for known, found in _TORCH.items() if found == name), name)


def from_triton(name: str) -> str | None:
    """`float8e4nv` (the attribute of `triton.language`, or a signature spelling) -> `e4m3`."""
    return _TRITON.get(name.lstrip("*"))


def from_cutlass(name: str) -> str | None:
    """`Float8E4M3FN` (the attribute of `cutlass`) -> `e4m3`."""
    return _CUTLASS.get(name)


def from_tilelang(name: str) -> str | None:
    """`float8_e4m3`, `float` (a string, or the attribute of `tilelang.language`) -> `e4m3`, `f32`."""
    plain = {"float8_e4m3": "e4m3", "e4m3_float8": "e4m3", "e5m2_float8": "e5m2", "float4_e2m1fn": "e2m1"}
    packed = {"int4": "i4", "uint4": "u4", "tfloat32": "tf32"}
    return plain.get(name) or packed.get(name) or _TORCH.get(name)


@lru_cache(maxsize=4096)
def from_aten(name: str) -> str | None:
    """`kBFloat16`, with or without `at::` or `torch::` before it, or `at::ScalarType::BFloat16` -> `bf16`."""
    owner, _, last = name.rpartition("::")
    return _ATEN.get(f"k{last}" if owner.rpartition("::")[2] == "ScalarType" else last)


@lru_cache(maxsize=4096)
def from_cpp(name: str) -> str | None:
    """A C++ scalar type name, qualified or not -> its element type."""
    return _CPP.get(name) or _CPP.get(name.rsplit("::", 1)[-1])


def cpp_name(dtype: str, lanes: int = 1) -> str:
    """A name that C++ has for an element type, or for a packed vector of it: `f32` -> `float`; itself without one."""
    if lanes > 1:
        return next((name for name, found in _CPP_VECTORS.items() if found == (dtype, lanes)), dtype)
    return next((name for name, found in _CPP.items() if found == dtype), dtype)


def vector_from_cpp(name: str) -> tuple[str, int] | None:
    """`__nv_bfloat162` -> (`bf16`, 2)."""
    return _CPP_VECTORS.get(name.rsplit("::", 1)[-1])


def from_ptx(modifier: str) -> str | None:
    """An opcode modifier without its dot, `e4m3` or `bf16x2` -> its element type."""
    return _PTX.get(modifier)
