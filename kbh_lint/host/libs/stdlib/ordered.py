"""heapq and bisect, on lists that they change in place."""

from __future__ import annotations

import bisect
import heapq

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import operators
from kbh_lint.host.values import bounds, unknowns
from kbh_lint.host.values.modelled import Library, Site
from kbh_lint.host.values.tensors import Unknown

_PLAIN = (int, float, str, bytes, type(None))
_TAKING = ("heappop", "heapreplace", "heappushpop")
_GIVING = ("heappush", "heapreplace", "heappushpop", "insort", "insort_left", "insort_right")


class Ordered(Library):
    """The modules `heapq` and `bisect`."""

    def other(self, site: Site) -> Value:
        """Answers a call of any function of heapq or bisect (`Library.other`): it runs on numbers and texts; of other
        items the order is not known."""
        args, real = (
            site.args,
            getattr({"heapq": heapq, "bisect": bisect}.get(site.path.rpartition(".")[0]), site.name, None),
        )
        lists = [arg for arg in args if isinstance(arg, list)]
        if not site.kwargs and lists and all(_is_plain(arg) for arg in args):
            site.run.burn(sum(len(part) for part in lists) // 8)
            if site.name != "merge" and callable(real):
                try:
                    return real(*args)
                except Exception as error:
                    operators.failed(site.run, error, site.loc)
        if len(lists) == 1 and isinstance(args[0], list) and not site.kwargs:
            return _kept_unordered(site.name, args[0], *args[1:])
        return unknowns.merged(site.run, *args, why=site.path)


def _kept_unordered(name: str, items: list[Value], *more: object) -> Value:
    """heapq and bisect on items that the linter cannot compare: they keep what they are given, in no known order."""
    taken = items[0] if name in _TAKING and items else Unknown((), "heapq.heappop")
    if name in ("heappop", "heapreplace"):
        del items[:1]
    items.extend(more[:1] if name in _GIVING else ())
    if name == "heappushpop":
        del items[:1]
    return taken if name in _TAKING else None if name in _GIVING else Unknown((), name)


def _is_plain(value: Value, depth: int = 0) -> bool:
    if isinstance(value, (list, tuple)):
        return depth < 4 and len(value) <= bounds.MAX_NODES and all(_is_plain(item, depth + 1) for item in value)
    return isinstance(value, _PLAIN)
