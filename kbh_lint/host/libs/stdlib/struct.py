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

    @models("pack_into")
    def pack_into(self, site: Site, format: Value, buffer: Value, offset: Value, /, *values: Value) -> Value:
        """Models `struct.pack_into(format, buffer, offset, *values)`."""
        data = lib_texts.packed(site.run, "pack", [format, *values], site.loc)
        if isinstance(buffer, bytearray) and isinstance(data, bytes) and isinstance(offset, int):
            buffer[offset : offset + len(data)] = data
        else:
            site.run.lost("what struct.pack_into writes is not followed", site.loc)
        return None
