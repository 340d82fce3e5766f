"""torch.utils, whose cpp_extension builds."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import shown
from kbh_lint.host.libs import extensions
from kbh_lint.host.libs.wrappers import OfTorch
from kbh_lint.host.values.modelled import Site, models
from kbh_lint.host.values.objects import LibObject


class CppExtension(OfTorch):
    """The package `torch.utils.cpp_extension`."""

    @models("load_inline")
    def load_texts(
        self,
        site: Site,
        name: Value = "extension",
        cpp_sources: Value = None,
        cuda_sources: Value = None,
        functions: Value = None,
        *more: Value,
        **options: Value,
    ) -> Value:
        """Models `load_inline(...)`: builds an extension from source texts."""
        sources = {"cpp_sources": cpp_sources, "cuda_sources": cuda_sources}
        told = extensions.Options.of(options)
        return extensions.built_inline(site.run, shown.show(name), sources, told, functions, site.loc)

    @models("load", "_jit_compile")
    def load_files(
        self,
        site: Site,
        name: Value = "extension",
        sources: Value = None,
        *more: Value,
        **options: Value,
    ) -> Value:
        """Models `load(...)`: builds an extension from source files."""
        listed = extensions.read_all(site.run, sources, site.loc)
        told = extensions.Options.of(options)
        return extensions.built_of(site.run, shown.show(name), listed, told, (), site.loc)

    @models("_import_module_from_library")
    def import_built(self, site: Site, module_name: Value, path: Value, *is_module: Value, **named: Value) -> Value:
        """Models torch's `_import_module_from_library`: imports an extension that was built."""
        return extensions.load_library(site.run, f"{shown.show(path)}/{shown.show(module_name)}.so", site.loc)

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`), of functions that return include folders and
        flags."""
        return LibObject.by_path(site.path, {"include": "/include"})
