"""enum, as far as it is called. Its classes are `datamodel.enums`."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import enums
from kbh_lint.host.libs.plain import Passing
from kbh_lint.host.values.modelled import Site, models


class Enum(Passing):
    """The module `enum`."""

    @models("Enum", "IntEnum", "StrEnum", "ReprEnum", "Flag", "IntFlag")
    def named(self, site: Site, value: Value, names: Value = None, *how: Value, **options: Value) -> Value:
        """Models `Enum("Mode", "FAST SLOW")`: a class of the named members."""
        if not isinstance(names, (str, list, tuple, dict)):
            return NotImplemented
        return enums.made_of(site.run, site.path, str(value), names, site.loc)
