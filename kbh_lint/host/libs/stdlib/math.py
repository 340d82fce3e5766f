"""math, on known numbers."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.python import pybuiltins
from kbh_lint.host.values.modelled import Library, Site


class Math(Library):
    """The module `math`."""

    def other(self, site: Site) -> Value:
        """Answers a call of any function (`Library.other`): its result on known numbers."""
        return pybuiltins.math_call(site.run, site.name, site.args, site.loc)
