"""copy and pickle."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import copies
from kbh_lint.host.libs.plain import Unfollowed
from kbh_lint.host.values.modelled import Site, models
from kbh_lint.host.values.named_objects import Pickled


class Copy(Unfollowed):
    """The module `copy`."""

    @models("copy")
    def copy(self, site: Site, x: Value) -> Value:
        """Another with the same in it."""
        return copies.shallow(site.run, x, site.loc)

    @models("deepcopy")
    def deepcopy(self, site: Site, x: Value, memo: Value = None, **options: Value) -> Value:
        """Another with others in it."""
        return copies.deep(site.run, x, site.loc)


class Pickle(Unfollowed):
    """The module `pickle`, of what a program itself pickled."""

    @models("dumps")
    def dumps(self, site: Site, obj: Value, *how: Value, **named: Value) -> Value:
        """A value as bytes."""
        return Pickled("pickle.bytes", {"value": copies.deep(site.run, obj, site.loc)})

    @models("loads")
    def loads(self, site: Site, data: Value, /, **named: Value) -> Value:
        """The value of bytes."""
        return copies.deep(site.run, data.attrs["value"], site.loc) if isinstance(data, Pickled) else NotImplemented
