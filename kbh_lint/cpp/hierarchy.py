"""The classes that a class is derived from, each once, however many ways lead to it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from kbh_lint.cpp.domain import Bound, Domain

__all__ = ["ancestors"]

MOST = 64  # classes


def ancestors(domain: Domain, kind: Bound) -> Iterator[Bound]:
    """Yields the direct and indirect bases of a class, each once, in the order of name lookup; at most `MOST`."""
    seen: set[Hashable] = set()
    waiting = [*domain.classes.bases(kind)]
    for _ in range(MOST):
        if not waiting:
            return
        base = waiting.pop(0)
        key = domain.key(base)
        if key is not None and key in seen:
            continue
        seen.add(key)
        yield base
        waiting[:0] = domain.classes.bases(base)
