"""Element types by cuTile's names, which its kernels may also take from numpy and torch."""

from __future__ import annotations

from kbh_lint.base import dtypes

_OWN = {"bool_": "bool", "tfloat32": "tf32", "float4_e2m1fn": "e2m1"}
_NONE = frozenset("float half double int long short bool".split())  # of Python and of torch


def element(name: str) -> str | None:
    """`float32` -> `f32`; None when cuTile has no such type."""
    return _OWN.get(name) or (None if name in _NONE else dtypes.from_torch(name))
