"""functools, but for what is interpreted as Python (`host.interpreted.functools`)."""

from __future__ import annotations

from kbh_lint.base.values import Func, Value
from kbh_lint.host.datamodel import iteration, ordering
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.library_objects import Property
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.named_objects import CacheDecorator
from kbh_lint.host.values.objects import Bound, ClassV, Memo, Partial
from kbh_lint.host.values.tensors import Unknown

_NOTHING = object()


class Functools(Library):
    """The module `functools`."""

    @models("partial")
    def partial(self, site: Site, func: Value, /, *args: Value, **keywords: Value) -> Value:
        """Models `functools.partial(func, *args, **keywords)`."""
        return Partial(func, args, keywords)

    @models("lru_cache", "cache")
    def cache(self, site: Site, maxsize: Value = None, typed: Value = False) -> Value:
        """Models `functools.lru_cache` and `cache`: a function that keeps its results, or a decorator."""
        if isinstance(maxsize, (Func, Bound, ClassV)):
            return Memo(maxsize)
        return CacheDecorator("functools.lru_cache.decorator", {"maxsize": maxsize})

    @models("wraps")
    def wraps(self, site: Site, wrapped: Value, *parts: Value, **named: Value) -> Value:
        """Models `functools.wraps(wrapped)`: a decorator that copies name and attributes."""
        return builtin(lambda run, args, kwargs, loc: _wrapping(args[0], wrapped))

    @models("reduce")
    def reduce(self, site: Site, function: Value, iterable: Value, initial: Value = _NOTHING) -> Value:
        """Models `functools.reduce(function, iterable, initial)`."""
        items = list(iteration.iterate(site.run, iterable, site.loc))
        total = initial if initial is not _NOTHING else items.pop(0) if items else None
        for item in items:
            total = site.run.call(function, [total, item], {}, site.loc)
        return total

    @models("cmp_to_key")
    def cmp_to_key(self, site: Site, mycmp: Value) -> Value:
        """Models `functools.cmp_to_key(mycmp)`."""
        return builtin(lambda run, args, kwargs, loc: ordering.Ordered(run, args[0], mycmp, loc))

    @models("cached_property")
    def cached_property(self, site: Site, func: Value) -> Value:
        """Models `functools.cached_property(func)`."""
        return Property(func, cached=True)

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): an unknown value."""
        return Unknown((), site.path)


def _wrapping(wrapper: Value, wrapped: Value) -> Value:
    if isinstance(wrapper, Func):
        wrapper.attrs["__wrapped__"] = wrapped
        if isinstance(wrapped, Func):
            named = {"__name__": wrapped.node.name, "__doc__": wrapped.node.doc, **wrapped.attrs}
            wrapper.attrs.update({key: value for key, value in named.items() if key != "__wrapped__"})
    return wrapper
