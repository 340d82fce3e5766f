"""Element types by cuTile's names, which its kernels may also take from numpy and torch."""

from __future__ import annotations

from kbh_lint.base import dtypes

_OWN = {"bool_": "bool", "tfloat32": "tf32", "float4_e2m1fn": "e2m1"}
_NONE = frozenset("float half double int long short bool".split())  # of Python and of torch


def element(name: str) -> str | None:
    """The element type (`f32`) for a name of cuTile (`float32`); None for names that cuTile does not have."""
    return _OWN.get(name) or (None if name in _NONE else dtypes.from_torch(name))
