"""timeit: the time of a function or of a text."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.libs import autotuning
from kbh_lint.host.libs.plain import Foreign
from kbh_lint.host.values.modelled import Site, models
from kbh_lint.host.values.objects import LibObject


class Timeit(Foreign):
    """The module `timeit`."""

    @models("timeit.timeit")
    def timeit(
        self,
        site: Site,
        stmt: Value = None,
        setup: Value = None,
        timer: Value = None,
        number: Value = None,
        globals: Value = None,
    ) -> Value:
        """Models `timeit.timeit(stmt, ...)`: the time of the statement."""
        return autotuning.timed(site.run, stmt, globals, site.loc)

    @models("timeit.Timer")
    def timer(self, site: Site, *given: Value, **named: Value) -> Value:
        """Models `timeit.Timer(...)`."""
        return LibObject.by_path(site.path, {}, given, named)
