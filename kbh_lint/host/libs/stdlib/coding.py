"""base64, zlib and others of the kind, and json: bytes, texts and what they stand for, where known."""

from __future__ import annotations

import json

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import decoding
from kbh_lint.host.values import bounds, unknowns
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.tensors import Unknown


class Decoders(Library):
    """The modules `base64`, `zlib` and others with functions that decode bytes."""

    @models("codecs.decode")
    def decode(self, site: Site, obj: Value, encoding: Value = "utf-8", errors: Value = "strict") -> Value:
        """Models `codecs.decode(obj, encoding)`."""
        return decoding.decode_as(site.run, obj, shown.show(encoding), site.loc)

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): a decoder, by its path."""
        data = site.args[0] if site.args else next(iter(site.kwargs.values()), None)
        return decoding.decode(site.run, site.path, data, site.loc)


class Json(Library):
    """The module `json`."""

    @models("dumps")
    def dumps(
        self, site: Site, obj: Value, *, sort_keys: Value = False, indent: Value = None, **options: Value
    ) -> Value:
        """Models `json.dumps(obj)`."""
        site.run.may_call(site.path, [], options, site.loc)
        if not bounds.is_small(obj):
            return NotImplemented
        if not isinstance(indent, (int, str, type(None))):
            return unknowns.merged(site.run, obj, why=site.path)
        try:
            return json.dumps(obj, sort_keys=bool(sort_keys), indent=indent)
        except (TypeError, ValueError, RecursionError):
            return unknowns.merged(site.run, obj, why=site.path)

    @models("loads")
    def loads(self, site: Site, s: Value, **options: Value) -> Value:
        """Models `json.loads(s)`."""
        site.run.may_call(site.path, [], options, site.loc)
        if not isinstance(s, (str, bytes)) or len(s) > decoding.MAX_IN // 4:
            return NotImplemented
        site.run.burn(len(s) // 64)
        try:
            return json.loads(str(s) if isinstance(s, str) else s)
        except (ValueError, RecursionError):
            site.run.may_fail("JSONDecodeError", site.loc)
            return NotImplemented

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): an unknown value."""
        return Unknown((), site.path)
