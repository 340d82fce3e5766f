"""collections, but for what is interpreted as Python (`host.interpreted.collections`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Sym, Value
from kbh_lint.host.datamodel import iteration, shown
from kbh_lint.host.values import bounds, keys
from kbh_lint.host.values.containers import Defaults, Ring, Tally
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.objects import ClassV

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


class Collections(Library):
    """The module `collections`."""

    @models("defaultdict")
    def defaultdict(self, site: Site, default_factory: Value = None, /, *args: Value, **kwargs: Value) -> Value:
        """Models `collections.defaultdict(default_factory, ...)`."""
        made = Defaults(site.run.call(site.run.builtins["dict"], list(args), kwargs, site.loc))
        made.factory = default_factory
        return made

    @models("OrderedDict", "WeakValueDictionary", "WeakKeyDictionary")
    def dict(self, site: Site, /, *args: Value, **kwargs: Value) -> Value:
        """Models `OrderedDict(...)` and the like: a dict."""
        return site.run.call(site.run.builtins["dict"], list(args), kwargs, site.loc)

    @models("deque")
    def deque(self, site: Site, iterable: Value = (), maxlen: Value = None) -> Value:
        """Models `collections.deque(iterable, maxlen)`: a list that keeps at most its last `maxlen` items."""
        ring = Ring(iteration.materialise(site.run, iterable, site.loc))
        ring.longest = maxlen if isinstance(maxlen, int) else None
        del ring[: max(len(ring) - maxlen, 0) if isinstance(maxlen, int) else 0]
        return ring

    @models("namedtuple")
    def namedtuple(
        self, site: Site, typename: Value, field_names: Value, *, defaults: Value = None, **options: Value
    ) -> Value:
        """Models `collections.namedtuple(typename, field_names)`."""
        return named_tuple(site.run, typename, field_names, defaults, site.loc)

    @models("Counter")
    def counter(self, site: Site, iterable: Value = (), /, **counts: Value) -> Value:
        """Models `collections.Counter(iterable, **counts)`."""
        if isinstance(iterable, dict):
            return Tally(bounds.visited(site.run, iterable))
        made = Tally(counts)
        for item in iteration.materialise(site.run, iterable, site.loc):
            made[keys.check_key(item)] = made.get(item, 0) + 1
        return made


def named_tuple(run: Run, typename: Value, field_names: Value, defaults: Value, loc: ir.Loc | None) -> ClassV:
    """Returns the class that collections.namedtuple or typing.NamedTuple makes of a name and fields."""
    given = (
        field_names.replace(",", " ").split()
        if isinstance(field_names, str)
        else iteration.materialise(run, field_names, loc)
    )
    fields = [str(field[0] if isinstance(field, (tuple, list)) else field) for field in given]
    values = iteration.materialise(run, defaults or (), loc)
    held = dict(zip(fields[len(fields) - len(values) :], values, strict=False))
    return ClassV(shown.show(typename), (Sym("typing.NamedTuple"),), Env(held), None, fields=fields)
