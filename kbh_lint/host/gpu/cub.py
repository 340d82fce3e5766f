"""What a device-wide function of cub writes: its signatures are alike, and say which pointers it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Places", "asks_for_a_size", "places"]

# What follows the workspace and its size, in the order of the signature: `i` is read, `o` written, `b` both.
_ROLES = {
    "DeviceRadixSort": "ioio",
    "DeviceSegmentedRadixSort": "ioio",
    "DeviceSegmentedSort": "ioio",
    "DeviceMergeSort::SortKeysCopy": "io",
    "DeviceMergeSort::StableSortKeysCopy": "io",
    "DeviceMergeSort::SortPairsCopy": "iioo",
    "DeviceMergeSort": "bb",
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


class Places(NamedTuple):
    """Which of the pointers of a call are read, and which are written."""

    reads: list[int]
    writes: list[int]


def asks_for_a_size(name: str, args: Sequence[object]) -> bool:
    """Whether a call of cub has no workspace, so that it only returns the workspace size."""
    return _roles(name) is not None and bool(args) and (args[0] is None or args[0] == 0)


def places(name: str, given: Sequence[int]) -> Places | None:
    """Returns which pointers a call of cub reads and writes, as positions among all its pointers; None for functions of
    other libraries. `given`: how many pointers each argument holds. The workspace comes first and is written; an
    argument of several pointers, as a `DoubleBuffer`, is read and written, like the only one of a function that works
    in place; those after the table's (ends of segments) are read."""
    roles = _roles(name)
    if roles is None:
        return None
    holding = [count for count in given[2:] if count]
    if len(holding) == 1:
        roles = "b"
    found, place = Places([], list(range(sum(given[:1])))), sum(given[:2])
    for at, count in enumerate(holding):
        role, here = "b" if count > 1 else roles[at : at + 1], range(place, place + count)
        if role != "o":
            found.reads.extend(here)
        if role in ("o", "b"):
            found.writes.extend(here)
        place += count
    return found


def _roles(name: str) -> str | None:
    """What is known of the arguments of `cub::DeviceRadixSort::SortPairs`, and of any other device-wide function."""
    spaces, _, method = name.rpartition("::")
    owner = spaces.rpartition("::")[2]
    if not name.lstrip(":").startswith("cub::") or not owner.startswith("Device"):
        return None
    roles = _ROLES.get(f"{owner}::{method}") or _ROLES.get(owner, "ioooo")
    return roles[:2] if "Keys" in method else roles  # no values beside them
