"""What a product of cuBLAS or cuBLASLt multiplies: the element types of its operands, and how many operations it is."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from kbh_lint.base.values import Sym, Value
from kbh_lint.host.values.cpp_objects import MatrixLayout, Slot

_TYPES = {
    "CUDA_R_16BF": "bf16",
    "CUDA_R_16F": "f16",
    "CUDA_R_32F": "f32",
    "CUDA_R_8F_E4M3": "e4m3",
    "CUDA_R_8F_E5M2": "e5m2",
    "CUDA_R_8I": "i8",
    "CUDA_R_64F": "f64",
}
_BATCHED = {"cublasGemmStridedBatchedEx": 20, "cublasGemmBatchedEx": 17, "gemmStridedBatched": 17, "gemmBatched": 14}
_SUCCESS = Sym("CUBLAS_STATUS_SUCCESS")


def layout(short: str, args: Sequence[Value]) -> Value:
    """Models calls that make or change a cuBLASLt layout: `cublasLtMatrixLayoutCreate(&layout, type, rows, cols, ld)`.
    NotImplemented for all others."""
    if short in ("cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutInit") and len(args) > 3:
        kind, rows, cols = args[1:4]
        if isinstance(args[0], Slot):
            args[0].set(MatrixLayout("cublaslt.layout", {"type": kind, "rows": rows, "cols": cols, "batch": 1}))
        return _SUCCESS
    if short == "cublasLtMatrixLayoutSetAttribute" and len(args) > 2:
        of = args[0].get() if isinstance(args[0], Slot) else args[0]
        if isinstance(of, MatrixLayout) and "BATCH_COUNT" in _word(args[1]):
            of.attrs["batch"] = args[2].get() if isinstance(args[2], Slot) else args[2]
        return _SUCCESS
    return NotImplemented


def operands(args: Sequence[Value]) -> tuple[str, ...]:
    """Returns the element types of a product's two operands; empty where neither the call nor its layouts name them."""
    given = [word for arg in args if (word := _word(arg)).startswith("CUDA_R_")]
    given = given or [_word(arg.attrs["type"]) for arg in args if isinstance(arg, MatrixLayout)]
    return tuple(element(word) for word in given[:2])


def element(word: str) -> str:
    """Returns the element type of a symbol such as `CUDA_R_16F`; "?" for others."""
    return _TYPES.get(word, "?")


def operations(name: str, args: Sequence[Value]) -> int | None:
    """Returns the number of multiplications and additions of a call; None where its sizes are not known."""
    name = name.rpartition("::")[2]
    if not name.startswith("cu"):
        return _of_aten(name, args)
    layouts = [arg for arg in args if isinstance(arg, MatrixLayout)]
    if name.startswith("cublasLt"):
        return _of_layouts(layouts)
    short = name if name in _BATCHED else name[7:]  # `gemmBatched` of `cublasSgemmBatched`
    single = not any(word in name for word in ("Batched", "Grouped"))
    batched = next((at for word, at in _BATCHED.items() if word == short), None)
    if "gemm" not in name.lower() or batched is None and not single:
        return None
    sizes = [*args[3:6], *(args[batched : batched + 1] if batched is not None else (1,))]
    return _product(sizes)


def _of_aten(name: str, args: Sequence[Value]) -> int | None:
    """Of ATen's wrappers, whose sizes stand behind what says how operands lie: `gemm('n', 't', m, n, k, ...)`."""
    if "gemm" in name:
        return _product([*args[2:5], args[-1] if name.startswith("bgemm") else 1])
    return _product([*args[1:3], 1, 1]) if name == "gemv" else None


def _of_layouts(layouts: list[MatrixLayout]) -> int | None:
    """Of A [m, k] and D [m, n], whichever way A lies: each of its numbers is multiplied with n others."""
    if len(layouts) < 3:
        return None
    first, last = layouts[0].attrs, layouts[-1].attrs
    return _product([first["rows"], first["cols"], last["cols"], last["batch"]])


def _product(sizes: list[Value]) -> int | None:
    known = [size for size in sizes if isinstance(size, int) and not isinstance(size, bool)]
    return 2 * prod(known) if len(known) == len(sizes) == 4 else None


def _word(value: object) -> str:
    return value.path.rpartition("::")[2] if isinstance(value, Sym) else ""
