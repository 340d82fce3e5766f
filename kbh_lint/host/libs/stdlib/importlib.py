"""importlib and `__import__`: modules by name, and files as modules."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import modules, shown
from kbh_lint.host.effects import decoding
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown


class Importing(Library):
    """The function `__import__`, which both `builtins` and `importlib` have."""

    @models("__import__", "builtins.__import__")
    def by_statement(
        self,
        site: Site,
        name: Value,
        globals: Value = None,
        locals: Value = None,
        fromlist: Value = (),
        level: Value = 0,
    ) -> Value:
        """Models `__import__(name, ...)`: the top package, or with `fromlist` the module itself."""
        if not isinstance(name, str):
            return NotImplemented
        return modules.resolve(site.run, str(name) if fromlist else str(name).split(".")[0], site.loc)


class Importlib(Importing):
    """The module `importlib`."""

    @models("import_module")
    def import_module(self, site: Site, name: Value, package: Value = None) -> Value:
        """Models `importlib.import_module(name)`."""
        return modules.resolve(site.run, str(name), site.loc) if isinstance(name, str) else NotImplemented

    @models("module_from_spec")
    def module_from_spec(self, site: Site, spec: Value) -> Value:
        """Models `importlib.util.module_from_spec(spec)`: loads the module from the spec's file."""
        if isinstance(spec, LibObject) and "file" in spec.attrs:
            return decoding.load_module(site.run, spec.attrs["file"], site.loc)
        return spec

    @models("SourceFileLoader")
    def loader(self, site: Site, fullname: Value, path: Value) -> Value:
        """Models `importlib.machinery.SourceFileLoader(fullname, path)` and the like."""
        return LibObject.by_path(site.path, {}, (fullname, path))

    @models("spec_from_file_location")
    def of_file(self, site: Site, name: Value, location: Value = "", **options: Value) -> Value:
        """Models `importlib.util.spec_from_file_location(name, location)`."""
        return LibObject.by_path("importlib.spec", {"file": shown.show(location)})

    @models("find_spec")
    def find_spec(self, site: Site, name: Value, *package: Value) -> Value:
        """Models `importlib.util.find_spec(name)`."""
        return LibObject.by_path("importlib.spec", {"args": (name, *package), "path": shown.show((name, *package)[-1])})

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): an unknown value."""
        return Unknown((), site.path)
