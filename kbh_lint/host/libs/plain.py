"""Libraries of which one thing can be said for all of their functions, and the base of those that add models to it."""

from __future__ import annotations

from kbh_lint.base.values import Func, Value
from kbh_lint.host.effects import foreign
from kbh_lint.host.values import unknowns
from kbh_lint.host.values.modelled import Library, Site
from kbh_lint.host.values.objects import Bound, LibObject


class Unfollowed(Library):
    """A library of harmless functions whose results are unknown values computed from their arguments."""

    def other(self, site: Site) -> Value:
        """Answers a call of any function (`Library.other`): an unknown value computed from its arguments."""
        reading = site.path if site.path.startswith("hashlib.") else ""
        return unknowns.merged(site.run, *site.args, why=site.path, reading=reading)


class Passing(Library):
    """A library of wrappers, which return their first argument."""

    def other(self, site: Site) -> Value:
        """Answers a call of any function (`Library.other`): its first argument."""
        return site.args[0] if site.args else LibObject.by_path(site.path)


class Giving(Library):
    """A library of functions that always return the same value."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def other(self, site: Site) -> Value:
        """Answers a call of any function (`Library.other`): always the same value."""
        return self.value


class Decorating(Library):
    """A library of context managers and decorators that change nothing of a function."""

    def other(self, site: Site) -> Value:
        """Answers a call of any function (`Library.other`): a function that is given is returned, as decorators do."""
        func = site.args[0] if site.args else None
        return func if isinstance(func, (Func, Bound)) else super().other(site)


class Foreign(Library):
    """A library without models, which may compute anything from its arguments."""

    def other(self, site: Site) -> Value:
        """Answers a call of any function (`Library.other`) as one of a foreign library."""
        return foreign.foreign(site)
