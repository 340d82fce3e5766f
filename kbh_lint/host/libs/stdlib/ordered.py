"""heapq and bisect, on lists that they change in place."""

from __future__ import annotations

import bisect
import heapq

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import containers, operators
from kbh_lint.host.torch import recording
from kbh_lint.host.values import bounds, unknowns
from kbh_lint.host.values.modelled import Library, Site
from kbh_lint.host.values.tensors import Unknown

_PLAIN = (int, float, str, bytes, type(None))
_TAKING = ("heappop", "heapreplace", "heappushpop")
_LARGEST = ("nlargest", "nsmallest")
_ASKED, _ITEMS = 4, 200  # items of which a function is asked, and that are looked at
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
        asked = _asked(site, lists)
        if len(lists) == 1 and isinstance(args[0], list) and not site.kwargs:
            taken = _kept_unordered(site.name, args[0], *args[1:])
            return containers.any_order(site.run, site.path, [taken], asked, site.loc)[0]
        made = recording.ordered(site.run, site.path, asked, site.loc)
        return unknowns.merged(site.run, *args, why=site.path) if made is None else made


def _asked(site: Site, lists: list[list[Value]]) -> list[Value]:
    """What is compared: the items, or what a function says of the first of them."""
    key = site.kwargs.get("key", site.args[2] if site.name in _LARGEST and len(site.args) > 2 else None)
    items = [item for part in (*lists, *site.args) if not isinstance(part, int) for item in _first(part)]
    return [site.run.call(key, [item], {}, site.loc) for item in items[:_ASKED]] if key is not None else items


def _first(part: Value) -> list[Value]:
    """Some items of what is gone through; of all others, it itself."""
    return [*part[:_ITEMS]] if isinstance(part, (list, tuple, range)) else [part]


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
