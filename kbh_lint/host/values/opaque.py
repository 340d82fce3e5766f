"""Values that are not known and are the same each time: what a library gives for the same question, as the number of a
thread, the address of an object or a stream. As keys they find what was stored under them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbh_lint.base.values import Sym, Value
from kbh_lint.host.values.library_objects import Storage
from kbh_lint.host.values.objects import Bound, LibObject, Method, ProcessNumber
from kbh_lint.host.values.tensors import Unknown

MAX_DEPTH = 4
# What gives another value each time: of these nothing is found again.
_VARYING = ("random.", "secrets.", "uuid.uuid", "numpy.random.", "time.", "torch.rand", "itertools.")
# Objects of classes that are written in lower case, each of which equals none but itself.
_OBJECTS = ("threading.local", "collections.deque", "collections.defaultdict", "functools.partial")


def is_opaque(key: object, depth: int = 0) -> bool:
    """Whether a key is, or holds, a value that is not known but is the same each time it is asked for."""
    if isinstance(key, tuple):
        return depth < MAX_DEPTH and any(is_opaque(part, depth + 1) for part in key)
    if isinstance(key, Unknown):
        origin = _origin(key)
        return not key.contents and bool(origin) and not origin.startswith(_VARYING)
    if isinstance(key, LibObject):
        named = key.path.replace("::", ".").rpartition(".")[2]
        return named[:1].islower() and key.path not in _OBJECTS and not key.path.startswith(_VARYING)
    return isinstance(key, (Bound, Method))


def alike(left: object, right: object, depth: int = 0) -> bool:
    """Whether two values were obtained in the same way, so that they are equal as far as is known."""
    if left is right:
        return True
    if type(left) is not type(right) or depth >= MAX_DEPTH:
        return False
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(alike(a, b, depth + 1) for a, b in zip(left, right, strict=True))
    if isinstance(left, Unknown) and isinstance(right, Unknown):
        return is_opaque(left) and is_opaque(right) and (_origin(left), left.sort) == (_origin(right), right.sort)
    if isinstance(left, LibObject) and isinstance(right, LibObject):
        return _alike_objects(left, right, depth)
    if isinstance(left, Method) and isinstance(right, Method):
        return left.name == right.name and alike(left.self, right.self, depth + 1)
    if isinstance(left, Bound) and isinstance(right, Bound):
        return left.func is right.func and left.self is right.self
    return (
        isinstance(left, (str, int, float, bool, Sym)) and not isinstance(left, ProcessNumber) and bool(left == right)
    )


def _alike_objects(left: LibObject, right: LibObject, depth: int) -> bool:
    if isinstance(left, Storage) and isinstance(right, Storage):
        return left.attrs["tensor"].storage is right.attrs["tensor"].storage
    given = ((*each.args, *each.kwargs.items(), *_plain(each.attrs)) for each in (left, right))
    return is_opaque(left) and left.path == right.path and alike(next(given), next(given), depth + 1)


def _plain(attrs: Mapping[str, Value]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in sorted(attrs.items()) if isinstance(value, (str, int, float))]


def _origin(value: Unknown) -> str:
    """The function of a library that gave a value; nothing where it is not known, or a clock."""
    return value.origin if value.taint is None else value.taint.symbol
