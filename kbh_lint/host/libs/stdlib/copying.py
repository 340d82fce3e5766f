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
        """Models `copy.copy(x)`."""
        return copies.shallow(site.run, x, site.loc)

    @models("deepcopy")
    def deepcopy(self, site: Site, x: Value, memo: Value = None, **options: Value) -> Value:
        """Models `copy.deepcopy(x)`."""
        return copies.deep(site.run, x, site.loc)


class Pickle(Unfollowed):
    """The module `pickle`, of what a program itself pickled."""

    @models("dumps")
    def dumps(self, site: Site, obj: Value, *how: Value, **named: Value) -> Value:
        """Models `pickle.dumps(obj)`."""
        return Pickled("pickle.bytes", {"value": copies.deep(site.run, obj, site.loc)})

    @models("loads")
    def loads(self, site: Site, data: Value, /, **named: Value) -> Value:
        """Models `pickle.loads(data)`: a copy of the pickled value."""
        return copies.deep(site.run, data.attrs["value"], site.loc) if isinstance(data, Pickled) else NotImplemented
