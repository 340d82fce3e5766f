"""sys, as far as it is called."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import exceptions
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.tensors import Unknown


class Sys(Library):
    """The module `sys`."""

    @models("exit")
    def exit(self, site: Site, *status: Value) -> Value:
        """Models `sys.exit(status)`: raises SystemExit in the program."""
        return exceptions.raise_("SystemExit", list(status), site.loc)

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): an unknown value."""
        return Unknown((), site.path)
