"""The architectures of NVIDIA GPUs: a row each, for all that read or measure what runs on one.

A table. Sizes are those of the CUDA programming guide (Compute Capabilities), families those of the instruction
tables (CUDA Binary Utilities), counters those of Nsight Compute 2025.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbh_lint.base.records import dataclass

__all__ = ["ARCHITECTURES", "DECK", "GENERATIONS", "Architecture", "Capability", "Counters", "multiplies", "of"]

Capability = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Counters:
    """What a chip calls its counters: bytes of DRAM, and by source type those whose sum counts its operations.

    A type that a chip cannot tell from others (fp4, fp6 and fp8 on sm_100) counts as the widest of them. `requested`:
    the bytes that load instructions ask of global memory, thread by thread; they cost a run of their own.
    """

    tensor: Mapping[str, tuple[str, ...]]
    read: str = "dram__bytes_read.sum"
    written: str = "dram__bytes_write.sum"
    requested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Architecture:
    """One compute capability. `family` is that of its instructions; `shared_kib` the shared memory that a block may opt
    in to, 1 KiB less than a multiprocessor has; `threads` what one multiprocessor holds; without `counters` nothing can
    be counted on it.
    """

    capability: Capability
    family: str
    shared_kib: int
    threads: int
    counters: Counters | None = None


_WIDE: Mapping[str, tuple[str, ...]] = {
    "fp16": ("fp16_dst_fp16", "fp16_dst_fp32"), "bf16": ("bf16_dst_fp32",), "tf32": ("tf32_dst_fp32",),
    "fp64": ("fp64",), "int8": ("int8",),
}  # fmt: skip
_AMPERE = Counters({**_WIDE, "int4": ("int4",), "int1": ("int1",)})
_ADA = Counters({**_WIDE, "int4": ("int4",), "int1": ("int1",), "fp8": ("fp8",)})
_HOPPER = Counters(
    {**_WIDE, "fp16": ("fp16",), "int1": ("int1",), "fp8": ("fp8",)},
    requested=("sm__sass_data_bytes_mem_global_op_ld.sum", "sm__sass_data_bytes_mem_global_op_ldgsts.sum"),
)
_TMEM = Counters({**_WIDE, "fp4": ("fp4_dst_fp32",), "fp8": ("fp4_fp6_fp8_dst_fp16", "fp4_fp6_fp8_dst_fp32")})
_BLACKWELL = Counters(
    {
        **_WIDE, "fp4": ("fp4_dst_fp32",), "fp6": ("fp4_fp6_dst_fp16", "fp4_fp6_dst_fp32"),
        "fp8": ("fp8_dst_fp16", "fp8_dst_fp32"),
    },
    "dram__bytes_op_read.sum", "dram__bytes_op_write.sum",
)  # fmt: skip

ARCHITECTURES: Mapping[Capability, Architecture] = {
    row.capability: row
    for row in (
        Architecture((8, 0), "ampere", 163, 2048),
        Architecture((8, 6), "ampere", 99, 1536, _AMPERE),
        Architecture((8, 7), "ampere", 163, 1536),
        Architecture((8, 8), "ampere", 163, 1536),
        Architecture((8, 9), "ada", 99, 1536, _ADA),
        Architecture((9, 0), "hopper", 227, 2048, _HOPPER),
        Architecture((10, 0), "blackwell-tmem", 227, 2048, _TMEM),
        Architecture((10, 1), "blackwell-tmem", 227, 1536),
        Architecture((10, 3), "blackwell-tmem", 227, 2048),
        Architecture((11, 0), "blackwell-tmem", 227, 1536),
        Architecture((12, 0), "blackwell", 99, 1536, _BLACKWELL),
        Architecture((12, 1), "blackwell", 99, 1536),
    )
}
STATIC_SHARED = 48 << 10  # bytes of shared memory that a block has without asking for more, on every GPU
MOST_SHARED = max(one.shared_kib for one in ARCHITECTURES.values()) << 10  # bytes that it may have on any GPU
# What a file is read for that names no GPU: for the first, and for the others where it asks which one it is.
DECK: tuple[Capability, ...] = ((12, 0), (9, 0), (10, 0))
GENERATIONS: tuple[Capability, ...] = ((8, 0), (9, 0), (10, 0), (12, 0))  # of GPUs that a module may ask for


def of(capability: Capability) -> Architecture:
    """The architecture with a compute capability; for one that is not listed, a row with the least that any has."""
    return ARCHITECTURES.get(capability) or Architecture(capability, "", 99, 1536)


def multiplies(capability: Capability, group: str) -> bool:
    """Whether the tensor cores of an architecture multiply types of `group`, told by which products the counters of
    its family count."""
    family = of(max(capability, min(ARCHITECTURES))).family
    counted = [row.counters.tensor for row in ARCHITECTURES.values() if row.family == family and row.counters]
    return not counted or any(group in types for types in counted)
