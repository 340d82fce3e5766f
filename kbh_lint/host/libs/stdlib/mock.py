"""unittest.mock: other things in the place of what is there."""

from __future__ import annotations

from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import tampering
from kbh_lint.host.libs.plain import Foreign
from kbh_lint.host.values.modelled import Site, models
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown


class Mock(Foreign):
    """The package `unittest`, and `mock` by itself."""

    @models("unittest.mock.patch", "mock.patch")
    def patch(self, site: Site, target: Value = None, *new: Value, **named: Value) -> Value:
        """Models `mock.patch(target, new)`: replaces the attribute at a dotted name once it is entered or started."""
        if not isinstance(target, str):
            return LibObject.by_path(site.path)
        owner, _, name = str(target).rpartition(".")
        return tampering.patcher(owner, name, _replacement(new, named), site.loc)

    @models("unittest.mock.patch.object", "mock.patch.object")
    def patch_object(
        self, site: Site, target: Value = None, attribute: Value = "", *new: Value, **named: Value
    ) -> Value:
        """Models `mock.patch.object(target, attribute, new)`."""
        if not isinstance(target, Sym) or not attribute:
            return self.patch(site, target, *new, **named)
        return tampering.patcher(target.path, shown.show(attribute), _replacement(new, named), site.loc)


def _replacement(new: tuple[Value, ...], named: dict[str, Value]) -> Value:
    return named.get("new", new[0] if new else Unknown((), "a mock"))
