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
        """Answers a call of any function (`Library.other`): the constructor of a path class."""
        return builds.path_of(site.run, site.path, site.args)


class Glob(Unfollowed):
    """The module `glob`."""

    @models("glob", "iglob")
    def glob(self, site: Site, pathname: Value, **options: Value) -> Value:
        """Models `glob.glob(pathname)`, where the matching files are known."""
        places = builds.listed(site.run, shown.show(pathname))
        return NotImplemented if places is None else places


class Tempfile(Library):
    """The module `tempfile`: made-up folders and files."""

    @models("mkdtemp", "gettempdir", "TemporaryDirectory")
    def folder(self, site: Site, *how: Value, **named: Value) -> str:
        """Models `tempfile.mkdtemp()` and the like: the path of a folder."""
        return "/tmp/made"

    @models("NamedTemporaryFile")
    def file(self, site: Site, *how: Value, suffix: Value = "", **named: Value) -> Value:
        """Models `tempfile.NamedTemporaryFile()` and the like: an open file."""
        return OpenFile(f"/tmp/made/file{shown.show(suffix)}", "w")

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): an unknown value."""
        return Unknown((), site.path)
