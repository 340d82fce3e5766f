"""Functions and classes of Python itself called by their full path; the rest are `python.pybuiltins`."""

from __future__ import annotations

import builtins

from kbh_lint.base.values import Value
from kbh_lint.host.effects import builds, decoding
from kbh_lint.host.libs.plain import Unfollowed
from kbh_lint.host.libs.stdlib.importlib import Importing
from kbh_lint.host.python import lib_texts
from kbh_lint.host.values.library_objects import ClassMethod, Property, StaticMethod
from kbh_lint.host.values.modelled import Site, models
from kbh_lint.host.values.objects import OBJECT, ClassV, Instance, LibObject
from kbh_lint.host.values.tensors import Unknown

_EXCEPTIONS = tuple(
    f"builtins.{name}"
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)


class Builtins(Importing, Unfollowed):
    """The module `builtins`."""

    @models(*_EXCEPTIONS)
    def exception(self, site: Site, /, *args: Value, **named: Value) -> Value:
        """Models the constructor of an exception class."""
        return LibObject.by_path(site.path, {"args": args})

    @models("builtins.open")
    def open(self, site: Site, file: Value = "", mode: Value = "r", *how: Value, **named: Value) -> Value:
        """Models `open(file, mode)`."""
        return builds.opened(site.run, file, mode, site.loc)

    @models("builtins.property")
    def property(self, site: Site, fget: Value = None, fset: Value = None, *more: Value, **named: Value) -> Value:
        """Models `property(fget, fset)`."""
        return Property(fget, fset)

    @models("builtins.staticmethod")
    def staticmethod(self, site: Site, function: Value) -> Value:
        """Models `staticmethod(function)`."""
        return StaticMethod(function)

    @models("builtins.classmethod")
    def classmethod(self, site: Site, function: Value) -> Value:
        """Models `classmethod(function)`."""
        return ClassMethod(function)

    @models("builtins.memoryview")
    def memoryview(self, site: Site, object: Value) -> Value:
        """Models `memoryview(object)`: the object itself stands for it."""
        return object

    @models("builtins.slice")
    def slice(self, site: Site, first: Value, stop: Value = None, step: Value = None, /) -> Value:
        """Models `slice(first, stop, step)`."""
        return slice(*site.args)

    @models("builtins.compile")
    def compile(
        self,
        site: Site,
        source: Value,
        filename: Value = "",
        mode: Value = "exec",
        flags: Value = 0,
        *how: Value,
        **named: Value,
    ) -> Value:
        """Models `compile(source, filename, mode, flags)`: the source text stands for the code object."""
        return decoding.compiled(site.run, source, mode, flags, site.path, site.loc)

    @models("builtins.object")
    def object(self, site: Site) -> Value:
        """Models `object()`."""
        return Instance(OBJECT)

    @models("builtins.object.__new__")
    def new(self, site: Site, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
        """Models `cls.__new__(cls)`: an object before its `__init__`."""
        return Instance(cls) if isinstance(cls, ClassV) else Unknown((), site.path)

    @models("builtins.object.__setattr__")
    def set_plain(self, site: Site, owner: Value, name: Value, value: Value, /) -> None:
        """Models `object.__setattr__(owner, name, value)`."""
        site.run.set_plain(owner, str(name), value, site.loc)

    @models("builtins.delattr")
    def delattr(self, site: Site, owner: Value, name: Value, /) -> None:
        """Models `delattr(owner, name)`."""
        site.run.del_attr(owner, str(name), site.loc)

    @models("builtins.format")
    def format(self, site: Site, value: Value, format_spec: Value = "", /) -> Value:
        """Models `format(value, format_spec)`."""
        return lib_texts.shown_as(site.run, value, format_spec, site.loc)
