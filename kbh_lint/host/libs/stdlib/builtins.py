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
        """An exception."""
        return LibObject.by_path(site.path, {"args": args})

    @models("builtins.open")
    def open(self, site: Site, file: Value = "", mode: Value = "r", *how: Value, **named: Value) -> Value:
        """A file that is open."""
        return builds.opened(site.run, file, mode, site.loc)

    @models("builtins.property")
    def property(self, site: Site, fget: Value = None, fset: Value = None, *more: Value, **named: Value) -> Value:
        """A property."""
        return Property(fget, fset)

    @models("builtins.staticmethod")
    def staticmethod(self, site: Site, function: Value) -> Value:
        """A function that is given no object."""
        return StaticMethod(function)

    @models("builtins.classmethod")
    def classmethod(self, site: Site, function: Value) -> Value:
        """A function that is given the class."""
        return ClassMethod(function)

    @models("builtins.memoryview")
    def memoryview(self, site: Site, object: Value) -> Value:
        """The bytes that are looked at."""
        return object

    @models("builtins.slice")
    def slice(self, site: Site, first: Value, stop: Value = None, step: Value = None, /) -> Value:
        """`first:stop:step`."""
        return slice(*site.args)

    @models("builtins.compile")
    def compile(self, site: Site, source: Value, *how: Value, **named: Value) -> Value:
        """The text stands for its code."""
        return decoding.compiled(source, site.path)

    @models("builtins.object")
    def object(self, site: Site) -> Value:
        """An object that is like nothing else."""
        return Instance(OBJECT)

    @models("builtins.object.__new__")
    def new(self, site: Site, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
        """An object of a class, before its `__init__`."""
        return Instance(cls) if isinstance(cls, ClassV) else Unknown((), site.path)

    @models("builtins.object.__setattr__")
    def set_plain(self, site: Site, owner: Value, name: Value, value: Value, /) -> None:
        """An attribute, past what its class says of it."""
        site.run.set_plain(owner, str(name), value, site.loc)

    @models("builtins.delattr")
    def delattr(self, site: Site, owner: Value, name: Value, /) -> None:
        """`del owner.name`."""
        site.run.del_attr(owner, str(name), site.loc)

    @models("builtins.format")
    def format(self, site: Site, value: Value, format_spec: Value = "", /) -> Value:
        """A value as a text."""
        return lib_texts.shown_as(site.run, value, format_spec, site.loc)
