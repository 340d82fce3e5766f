"""What device-wide functions of libraries do, and which of their pointers they write: cub, thrust, cuBLAS and its kin,
and ATen's own wrappers of these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Places", "answers", "asks_for_a_size", "does", "named", "places"]

# What functions do: put in order (all of it, or the first), tell where an extreme is, reduce, scan, pick out or merge,
# count, compute or move element by element, multiply, solve.
_OF_CUB = {
    "DeviceRadixSort": "sort",
    "DeviceSegmentedRadixSort": "sort",
    "DeviceSegmentedSort": "sort",
    "DeviceMergeSort": "sort",
    "DeviceMerge": "part",
    "DeviceTopK": "sort",
    "DeviceSegmentedTopK": "sort",
    "DeviceBatchedTopK": "sort",
    "DeviceReduce": "reduction",
    "DeviceSegmentedReduce": "reduction",
    "DeviceScan": "scan",
    "DeviceSegmentedScan": "scan",
    "DeviceSelect": "part",
    "DevicePartition": "part",
    "DeviceRunLengthEncode": "part",
    "DeviceFind": "part",
    "DeviceHistogram": "count",
    "DeviceFor": "elementwise",
    "DeviceTransform": "elementwise",
    "DeviceAdjacentDifference": "elementwise",
    "DeviceCopy": "copy",
    "DeviceMemcpy": "copy",
    "DeviceSpmv": "product",
}
_OF_METHODS = {"ArgMax": "place", "ArgMin": "place", "Max": "extreme", "Min": "extreme", "MinMax": "extreme"}
# The functions of thrust, and how their iterators are used: `i` is read, `o` written, `b` both; the sign before stands
# for all that have no letter of their own.
_THRUST = (
    ("sort", "b", "sort stable_sort sort_by_key stable_sort_by_key"),
    ("part", "i:o", "merge set_difference set_intersection set_union set_symmetric_difference"),
    ("part", "i:oo", "merge_by_key"),
    ("place", "i", "max_element min_element minmax_element"),
    (
        "reduction", "i",
        "reduce transform_reduce inner_product count count_if all_of any_of none_of equal mismatch is_sorted "
        "is_sorted_until is_partitioned",
    ),
    ("reduction", "i:oo", "reduce_by_key"),
    (
        "scan", "i:o",
        "inclusive_scan exclusive_scan inclusive_scan_by_key exclusive_scan_by_key transform_inclusive_scan "
        "transform_exclusive_scan",
    ),
    ("part", "b", "remove remove_if unique unique_by_key partition stable_partition"),
    ("part", "i:o", "copy_if remove_copy remove_copy_if unique_copy lower_bound upper_bound binary_search"),
    ("part", "i:oo", "partition_copy stable_partition_copy unique_by_key_copy"),
    ("part", "i", "find find_if find_if_not equal_range partition_point unique_count"),
    ("elementwise", "i:o", "transform transform_if adjacent_difference replace_copy replace_copy_if"),
    ("elementwise", "b", "for_each for_each_n replace replace_if"),
    ("copy", "o", "fill fill_n sequence generate generate_n tabulate uninitialized_fill uninitialized_fill_n"),
    ("copy", "i:o", "copy copy_n gather gather_if scatter scatter_if reverse_copy uninitialized_copy"),
    ("copy", "b", "swap_ranges reverse"),
)  # fmt: skip
_OF_THRUST = {name: what for what, _, names in _THRUST for name in names.split()}
_THRUST_ROLES = {name: roles for _, roles, names in _THRUST for name in names.split()}
# By parts of names: of ATen's wrappers of cub, and of routines of BLAS and LAPACK, whoever wraps them.
_BY_WORDS = {
    "cub": (
        ("sort", re.compile(r"sort|topk")),
        ("scan", re.compile(r"scan|sum")),
        ("part", re.compile(r"unique|run_length|select|partition|nonzero")),
        ("reduction", re.compile(r"reduce")),
    ),
    "blas": (
        (
            "product",
            re.compile(
                r"gemm|matmul|gemv|dot|s[yp]mm|hemm|s[yp]mv|hemv|trm[mv]|(?:sy|he)r2?k|ger[uc]?\Z|spm[mv]|sddmm|contract",
                re.I,
            ),
        ),
        (
            "solver",
            re.compile(r"trs[mv]|getr[fsi]|geqrf|gels|(?:po|sy)tr[fsi]|syev|gesv|(?:or|un)[gm]qr|ldl|sps[mv]", re.I),
        ),
        ("place", re.compile(r"amax|amin", re.I)),
        ("reduction", re.compile(r"nrm2|asum", re.I)),
        ("elementwise", re.compile(r"axpy|scal\Z|scalEx|geam|dgmm", re.I)),
    ),
}  # fmt: skip
_SPACES = {
    "at::cuda::cub::": "cub", "at::cuda::blas::": "blas", "at::cuda::solver::": "blas", "at::cuda::sparse::": "blas",
}  # fmt: skip

# What follows the workspace and its size, in the order of the signature: `i` is read, `o` written, `b` both.
_ROLES = {
    "DeviceRadixSort": "ioio",
    "DeviceSegmentedRadixSort": "ioio",
    "DeviceSegmentedSort": "ioio",
    "DeviceMergeSort::SortKeysCopy": "io",
    "DeviceMergeSort::StableSortKeysCopy": "io",
    "DeviceMergeSort::SortPairsCopy": "iioo",
    "DeviceMergeSort": "bb",
    "DeviceMerge::MergePairs": "iiiioo",
    "DeviceMerge": "iio",
    "DeviceTopK": "ioio",
    "DeviceReduce::ReduceByKey": "ioioo",
    "DeviceReduce": "ioo",
    "DeviceSegmentedReduce": "io",
    "DeviceScan::ExclusiveSumByKey": "iio",
    "DeviceScan::InclusiveSumByKey": "iio",
    "DeviceScan::ExclusiveScanByKey": "iio",
    "DeviceScan::InclusiveScanByKey": "iio",
    "DeviceScan": "io",
    "DeviceSelect::Flagged": "iioo",
    "DeviceSelect::FlaggedIf": "iioo",
    "DeviceSelect::UniqueByKey": "iiooo",
    "DeviceSelect": "ioo",
    "DevicePartition::Flagged": "iioo",
    "DevicePartition": "ioooo",
    "DeviceRunLengthEncode": "iooo",
    "DeviceHistogram": "io",
}
# Of ATen's wrappers, which make their workspace themselves.
_ATEN_ROLES = {
    "radix_sort_keys": "io",
    "radix_sort_pairs": "ioio",
    "segmented_sort_pairs": "ioio",
    "unique": "ioo",
    "unique_by_key": "iiooo",
    "run_length_encode": "iooo",
}


class Places(NamedTuple):
    """Which of the pointers of a call are read, and which are written."""

    reads: list[int]
    writes: list[int]


@lru_cache(maxsize=4096)
def does(name: str) -> str:
    """Returns what a device-wide function of a library does, by its full name: sort, place (where an extreme is),
    extreme, reduction, scan, part (picking out or merging), count, elementwise, copy, product, solver, or other; empty
    for all that is none."""
    name = name.removeprefix("::")
    spaces, _, short = name.rpartition("::")
    if spaces.startswith("cub::Device"):
        owner = spaces.rpartition("::")[2]
        known = _OF_CUB.get(owner, "other")
        return _OF_METHODS.get(short, known) if known == "reduction" else known
    if spaces == "thrust":
        return _OF_THRUST.get(short, "")
    for space, table in _SPACES.items():
        if name.startswith(space):
            return _by_words(table, name.removeprefix(space)) or "other"
    return _by_words("blas", short) if short.startswith(("cublas", "cusolver", "cusparse", "cutensor")) else ""


def named(name: str) -> bool:
    """Whether it is known what a function of that full name does: that a library has a function of this name."""
    return does(name) not in ("", "other")


def _by_words(table: str, short: str) -> str:
    return next((what for what, words in _BY_WORDS[table] if words.search(short)), "")


def answers(name: str) -> bool:
    """Whether a function returns what it computes, or an iterator to it, and no status."""
    return name.removeprefix("::").startswith("thrust::")


def asks_for_a_size(name: str, args: Sequence[object]) -> bool:
    """Whether a call of cub has no workspace, so that it only returns the workspace size."""
    return _roles(name) is not None and bool(args) and (args[0] is None or args[0] == 0)


def places(name: str, given: Sequence[int]) -> Places | None:
    """Returns which pointers a call of cub, of thrust or of ATen's wrappers of cub reads and writes, as positions among
    all its pointers; None for functions of other libraries. `given`: how many pointers each argument holds. The
    workspace comes first and is written; an argument of several pointers, as a `DoubleBuffer`, is read and written,
    like the only one of a function that works in place; those after the table's (ends of segments) are read."""
    name = name.removeprefix("::")
    space, _, short = name.rpartition("::")
    if space == "thrust" and short in _THRUST_ROLES:
        return _of_thrust(_THRUST_ROLES[short], given)
    if space == "at::cuda::cub":
        roles = _ATEN_ROLES.get(short, "iio" if "by_key" in short else "io")
        return _placed(roles, given, Places([], []), 0)
    known = _roles(name)
    if known is None:
        return None
    holding = [count for count in given[2:] if count]
    roles = "b" if len(holding) == 1 else known
    return _placed(roles, holding, Places([], list(range(sum(given[:1])))), sum(given[:2]))


def _placed(roles: str, given: Sequence[int], found: Places, place: int) -> Places:
    """Which pointers are read and written where arguments that hold so many have these roles."""
    for at, count in enumerate(given):
        role, here = "b" if count > 1 else roles[at : at + 1], range(place, place + count)
        if role != "o":
            found.reads.extend(here)
        if role in ("o", "b"):
            found.writes.extend(here)
        place += count
    return found


def _of_thrust(roles: str, given: Sequence[int]) -> Places:
    """The iterators of a function of thrust: all have one role, but for the last, which may have others."""
    every, _, last = roles.partition(":")
    count = sum(given)
    meant = every * (count - len(last)) + last if count > len(last) else "b" * count
    return _placed(meant, [1] * count, Places([], []), 0)


def _roles(name: str) -> str | None:
    """What is known of the arguments of `cub::DeviceRadixSort::SortPairs`, and of any other device-wide function."""
    spaces, _, method = name.rpartition("::")
    owner = spaces.rpartition("::")[2]
    if not name.lstrip(":").startswith("cub::") or not owner.startswith("Device"):
        return None
    roles = _ROLES.get(f"{owner}::{method}") or _ROLES.get(owner, "ioooo")
    return roles[:2] if "Keys" in method and owner != "DeviceMerge" else roles  # no values beside them
