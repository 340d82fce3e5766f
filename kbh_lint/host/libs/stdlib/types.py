"""types and typing: what makes functions, methods and classes of tuples by hand."""

from __future__ import annotations

from kbh_lint.base.values import Env, Func, Value
from kbh_lint.host.datamodel import names
from kbh_lint.host.libs.plain import Passing
from kbh_lint.host.libs.stdlib.collections import named_tuple
from kbh_lint.host.values.library_objects import OwnModule
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.objects import Bound, LibObject
from kbh_lint.host.values.tensors import Unknown


class Types(Library):
    """The module `types`."""

    @models("MethodType")
    def method(self, site: Site, function: Value, instance: Value) -> Value:
        """Models `types.MethodType(function, instance)`."""
        return Bound(instance, function)

    @models("FunctionType")
    def function(
        self, site: Site, code: Value, globals: Value, name: Value = None, argdefs: Value = None, closure: Value = None
    ) -> Value:
        """Models `types.FunctionType(code, globals, ...)`."""
        func = code.attrs.get("func") if isinstance(code, LibObject) else None
        if not isinstance(func, Func) or not isinstance(globals, dict):
            return Unknown((), site.path)
        made = Func(func.node, func.env if globals is names.globals_of(site.run, func).vars else Env(globals))
        site.run.set_attr(made, "__defaults__", argdefs, site.loc)
        return made

    @models("ModuleType")
    def module(self, site: Site, name: Value, doc: Value = None) -> Value:
        """Models `types.ModuleType(name, doc)`: a module that holds nothing yet."""
        return OwnModule({"__name__": name, "__doc__": doc})

    @models("MappingProxyType")
    def proxy(self, site: Site, mapping: Value) -> Value:
        """Models `types.MappingProxyType(mapping)`: the dict itself stands for it."""
        return mapping

    @models("SimpleNamespace")
    def namespace(self, site: Site, /, **attributes: Value) -> Value:
        """Models `types.SimpleNamespace(**attributes)`."""
        return LibObject.by_path(site.path, attributes)


class Typing(Passing):
    """The module `typing`, whose functions give back what they are given."""

    @models("NamedTuple")
    def named_tuple(self, site: Site, typename: Value, fields: Value = None, /, **named: Value) -> Value:
        """Models `typing.NamedTuple(typename, fields)`."""
        if fields is None:
            return LibObject(site.path)
        return named_tuple(site.run, typename, fields, named.get("defaults"), site.loc)
