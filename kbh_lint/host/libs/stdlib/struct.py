"""struct, on known numbers and bytes."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.libs.plain import Unfollowed
from kbh_lint.host.python import lib_texts
from kbh_lint.host.values.modelled import Site, models


class Struct(Unfollowed):
    """The module `struct`."""

    @models("pack", "unpack", "unpack_from", "calcsize")
    def packed(self, site: Site, format: Value, /, *values: Value) -> Value:
        """Models `struct.pack`, `unpack`, `unpack_from` and `calcsize`."""
        return lib_texts.packed(site.run, site.name, [format, *values], site.loc)
