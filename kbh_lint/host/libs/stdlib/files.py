"""pathlib, glob and tempfile: files by their names. What paths and files do is in `effects.builds`."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.effects import builds
from kbh_lint.host.libs.plain import Unfollowed
from kbh_lint.host.values.library_objects import OpenFile
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.tensors import Unknown


class Pathlib(Library):
    """The module `pathlib`."""

    def other(self, site: Site) -> Value:
        """A path of any of its classes."""
        return builds.path_of(site.run, site.path, site.args)


class Glob(Unfollowed):
    """The module `glob`."""

    @models("glob", "iglob")
    def glob(self, site: Site, pathname: Value, **options: Value) -> Value:
        """The files that a pattern names, where it is known which are there."""
        places = builds.listed(site.run, shown.show(pathname))
        return NotImplemented if places is None else places


class Tempfile(Library):
    """The module `tempfile`: made-up folders and files."""

    @models("mkdtemp", "gettempdir", "TemporaryDirectory")
    def folder(self, site: Site, *how: Value, **named: Value) -> str:
        """A folder."""
        return "/tmp/made"

    @models("NamedTemporaryFile")
    def file(self, site: Site, *how: Value, suffix: Value = "", **named: Value) -> Value:
        """A file."""
        return OpenFile(f"/tmp/made/file{shown.show(suffix)}", "w")

    def other(self, site: Site) -> Value:
        """What is not followed."""
        return Unknown((), site.path)
