"""Where the data of a value comes from: sets of origins and of casts, flagged, narrowed, united and bounded."""

from __future__ import annotations

from functools import lru_cache

from kbh_lint.base import dtypes
from kbh_lint.base.ir import Loc
from kbh_lint.kernels.core.facts import Origin, Origins

NO_ORIGINS: Origins = frozenset()
OF_CLOCK = -1_000_000  # which is no storage
CLOCK: Origins = frozenset((Origin("the GPU's clock", OF_CLOCK, "u64"),))
MAX_ORIGINS = 40
MAX_CASTS = 12


@lru_cache(maxsize=8192)
def flagged(origins: Origins, flag: str) -> Origins:
    """`origins` with `flag` added to each."""
    if not origins:
        return origins
    return capped(
        frozenset(o if flag in o.flags else Origin(o.param, o.storage, o.dtype, o.flags | {flag}) for o in origins)
    )


def choosing(origins: Origins) -> Origins:
    """`origins` flagged as those that chose between constants: a branch on the chosen constant is a branch on that
    data."""
    return flagged(flagged(origins, "index"), "test")


@lru_cache(maxsize=2048)
def testing(origins: Origins) -> Origins:
    """Those of `origins` that make a branch on the value a branch on data: loaded data, and data that chose between
    constants."""
    return frozenset(o for o in origins if "index" not in o.flags or "test" in o.flags)


FLOOR = "floor:"  # with a number: an integer of which and that number the larger was taken
CUT = "cut:"  # with a number: so many of the lowest bits of a float were dropped, as an integer or by a narrower type


def floors(origin: Origin) -> list[int]:
    """The numbers that the integer is known to be no less than, because a maximum with them was taken on the way."""
    return [int(flag.removeprefix(FLOOR)) for flag in origin.flags if flag.startswith(FLOOR)]


@lru_cache(maxsize=2048)
def cut_short(origins: Origins, count: int) -> Origins:
    """`origins` with each fp32 origin that is still complete flagged as lacking its lowest `count` bits."""
    return capped(
        frozenset(
            Origin(o.param, o.storage, o.dtype, o.flags | {f"{CUT}{count}"})
            if o.dtype == "f32" and not any(flag.startswith(CUT) for flag in o.flags)
            else o
            for o in origins
        )
    )


def rounded(origins: Origins, source: str, target: str) -> Origins:
    """`origins` of what is converted from a type to another."""
    cast = flagged(origins, "cast")
    wide, narrow = (row.fmt if (row := dtypes.TYPES.get(name)) is not None else None for name in (source, target))
    if source != "f32" or wide is None or narrow is None or dtypes.BITS[target] > 16:
        return cast
    return cut_short(cast, wide.fraction - narrow.fraction)


@lru_cache(maxsize=8192)
def data_origins(origins: Origins) -> Origins:
    """Those of `origins` whose data is part of the value, not only of the address or the mask."""
    return frozenset(o for o in origins if "index" not in o.flags)


@lru_cache(maxsize=8192)
def storages(origins: Origins) -> frozenset[tuple[str, int]]:
    """The parameters, each with its storage, whose data has passed through no product and no exponential."""
    return frozenset((o.param, o.storage) for o in origins if not (o.flags & {"index", "product", "exp"}))


@lru_cache(maxsize=8192)
def of_products(origins: Origins) -> bool:
    """Whether data in a value has passed through a product."""
    return any("product" in o.flags and "index" not in o.flags for o in origins)


def capped(origins: Origins) -> Origins:
    """`origins`, at most MAX_ORIGINS of them: if there are more, those of one parameter and type are merged and their
    flags united."""
    if len(origins) <= MAX_ORIGINS:
        return origins
    merged: dict[tuple[str, int, str, bool], frozenset[str]] = {}
    for o in origins:
        key = (o.param, o.storage, o.dtype, "index" in o.flags)
        merged[key] = merged.get(key, frozenset()) | o.flags
    whole = (frozenset(flag for flag in flags if not flag.startswith((CUT, FLOOR))) for flags in merged.values())
    return frozenset(Origin(key[0], key[1], key[2], flags) for key, flags in zip(merged, whole, strict=True))


def union(a: Origins, b: Origins) -> Origins:
    """The union of two sets of origins, capped; `a` itself if it contains `b`."""
    if not b or a is b:
        return a
    if not a:
        return b
    both = a | b
    if len(both) == len(a):
        return a
    return capped(both)


def union_casts(a: frozenset[Loc], b: frozenset[Loc]) -> frozenset[Loc]:
    """The union of two sets of places of casts, limited to about MAX_CASTS; `a` itself if it contains `b`."""
    if not b or a is b or len(a) >= MAX_CASTS:
        return a
    if not a:
        return b
    both = a | b
    return a if len(both) == len(a) else both
