"""weakref and gc: references and finalizers, and containers of them, which keep what they hold."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.libs.plain import Giving, Passing
from kbh_lint.host.python import lifetimes
from kbh_lint.host.values.modelled import Site, models


class Weakref(Passing):
    """The module `weakref`."""

    @models("ref", "WeakMethod")
    def ref(self, site: Site, object: Value, callback: Value = None) -> Value:
        """Models `weakref.ref(object, callback)`."""
        return lifetimes.reference(site.run, object, callback, site.loc)

    @models("finalize")
    def finalize(self, site: Site, obj: Value, func: Value, /, *args: Value, **kwargs: Value) -> Value:
        """Models `weakref.finalize(obj, func, ...)`."""
        return lifetimes.finalizer(site.run, obj, (func, list(args), kwargs), site.loc)

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): a dict for a weak dictionary, else the first
        argument."""
        return {} if site.name.endswith("Dictionary") else super().other(site)


class Gc(Giving):
    """The module `gc`."""

    @models("collect")
    def collect(self, site: Site, *generation: Value, **named: Value) -> Value:
        """Models `gc.collect()`."""
        lifetimes.collect(site.run, site.loc)
        return 0
