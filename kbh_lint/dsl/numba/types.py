"""Element types by the names that numba and numpy give them, and what a signature says of arguments."""

from __future__ import annotations

from kbh_lint.base import dtypes
from kbh_lint.base.regexes import regex
from kbh_lint.base.values import DType, Value

PACKAGE = "numba"
_OWN = {
    "f2": "f16", "f4": "f32", "f8": "f64", "float_": "f32", "double": "f64", "i1": "i8", "i2": "i16", "i4": "i32",
    "i8": "i64", "u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64", "b1": "bool", "bool_": "bool", "boolean": "bool",
    "byte": "u8", "char": "i8", "uchar": "u8", "short": "i16", "ushort": "u16", "int_": "i32", "uint": "u32",
    "intc": "i32", "uintc": "u32", "long_": "i64", "ulong": "u64", "longlong": "i64", "ulonglong": "u64",
    "intp": "i64", "uintp": "u64", "size_t": "u64", "ssize_t": "i64", "single": "f32", "half": "f16",
}  # fmt: skip
_NUMBERED = regex(r"(?:float(?:16|32|64)|u?int(?:8|16|32|64)|bfloat16)\Z")
_MODULES = frozenset((PACKAGE, f"{PACKAGE}.types", f"{PACKAGE}.core.types", f"{PACKAGE}.cuda.types", "numpy"))


def element(path: str, name: str) -> str | None:
    """The element type called `name` in the module `path`; None for other names."""
    if path not in _MODULES and not (path.startswith(f"{PACKAGE}.cuda.") and name == "bfloat16"):
        return None
    return _OWN.get(name) or (dtypes.from_torch(name) if _NUMBERED.match(name) else None)


def in_signature(signature: Value) -> tuple[str, ...]:
    """The element types of the parameters that a signature declares, by position; "" for arrays and unknown types."""
    if isinstance(signature, str):
        inside = signature.partition("(")[2].rpartition(")")[0]
        flat, depth = "", 0
        for char in inside:  # commas between brackets are of one array
            depth += (char == "[") - (char == "]")
            flat += ";" if char == "," and depth == 0 else char
        parts = [part.strip().rpartition(".")[2] for part in flat.split(";")]
        return tuple(element(PACKAGE, part) or "" for part in parts) if inside else ()
    items = signature if isinstance(signature, (tuple, list)) else ()
    return tuple(item.name if isinstance(item, DType) else "" for item in items)
