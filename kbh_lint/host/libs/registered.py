"""What torch registers: its operators by a list of them all, by name, and by a name that nobody knows."""

from __future__ import annotations

from typing import Any

from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import modules, schemas
from kbh_lint.host.values.containers import Some
from kbh_lint.host.values.modelled import Library, Modelled, Site, models
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source.embedded import doubts

_KINDS = {"int": "IntType", "bool": "BoolType", "float": "FloatType", "number": "NumberType", "str": "StringType"}


class SchemaObject(Modelled):
    """A part of a schema of an operator: the schema, a parameter, a result or a type. `path` among its attributes is
    what it prints as."""

    @models("has_default_value")
    def has_default_value(self, site: Site) -> bool:
        """Models `argument.has_default_value()`."""
        return bool(self.attrs["default_value"] is not schemas.REQUIRED)

    @models("kind")
    def kind(self, site: Site) -> str:
        """Models `type.kind()`."""
        shown = str(self.attrs["path"])
        return _KINDS.get(shown) or f"{shown.partition('[')[0]}Type"


def _type(shown: str) -> SchemaObject:
    return SchemaObject("torch.Type", {"path": shown, "annotation_str": shown})


def _argument(given: schemas.Parameter) -> SchemaObject:
    held: dict[str, Any] = {"name": given.name, "type": _type(given.type), "real_type": _type(given.type)}
    held |= {"N": given.count, "kwarg_only": given.keyword, "is_out": False, "default_value": given.default}
    return SchemaObject("torch.Argument", {**held, "path": f"{given.type} {given.name}"})


def _schema(known: schemas.Schema) -> SchemaObject:
    held: dict[str, Any] = {"name": f"aten::{known.name}", "overload_name": known.overload, "path": known.text}
    held["arguments"] = [_argument(given) for given in known.parameters]
    held["returns"] = [SchemaObject("torch.Argument", {"name": name, "path": name}) for name in known.results]
    return SchemaObject("torch.FunctionSchema", held)


def _and_others(known: list[Value]) -> Some:
    """A list of what is known of what torch registers, and one that stands for all others."""
    return Some([*known, Unknown((), "one of the operators of torch")])


def is_known(name: Value) -> bool:
    """Whether a name is a text all of which is known."""
    return isinstance(name, str) and not doubts(name)


class Registered(Library):
    """What gives operators that torch registers."""

    @models("torch._C._jit_get_all_schemas")
    def schemas(self, site: Site) -> Value:
        """Models the list of the schemas of all operators."""
        return _and_others([_schema(known) for known in schemas.known()])

    @models("torch._C._dispatch_get_all_op_names")
    def names(self, site: Site) -> Value:
        """Models the list of the names of all operators, each with that of its overload."""
        found = [f"aten::{s.name}.{s.overload}".removesuffix(".") for s in schemas.known()]
        return _and_others([*found])

    @models("torch._C._jit_get_schemas_for_operator")
    def overloads(self, site: Site, name: Value) -> Value:
        """Models the schemas of one operator."""
        found = [_schema(s) for s in schemas.known() if is_known(name) and f"aten::{s.name}" == name]
        return _and_others([*found])

    @models("torch._C._get_schema", "torch._C._dispatch_find_schema_or_throw")
    def schema(self, site: Site, name: Value, overload: Value = "") -> Value:
        """Models what finds a schema by the names of an operator and of its overload."""
        wanted = (name, overload)
        found = (_schema(s) for s in schemas.known() if (f"aten::{s.name}", s.overload) == wanted)
        return next(found, NotImplemented) if is_known(name) and is_known(overload) else NotImplemented

    @models("keys", "values", "items")
    def of_namespace(self, site: Site) -> Value:
        """Models the methods of `vars(namespace)`."""
        space, at, _ = site.path.partition(".__dict__.")
        if not at:
            return NotImplemented
        pairs = [(name, modules.member(site.run, space, name, site.loc)) for name in modules.members(space)]
        return Some([pair if site.name == "items" else pair[site.name == "values"] for pair in pairs])

    @models("get", "__getitem__")
    def of_dict(self, site: Site, name: Value, default: Value = None) -> Value:
        """Models what `vars(namespace)` holds under a name."""
        space, at, _ = site.path.partition(".__dict__.")
        return modules.member(site.run, space, name, site.loc) if at else NotImplemented

    @models("__getattr__", "__getattribute__")
    def of_name(self, site: Site, name: Value) -> Value:
        """Models what gives something in a namespace by its name."""
        space = site.path.rpartition(".")[0]
        known = isinstance(name, (str, Unknown))
        return modules.member(site.run, space, name, site.loc) if known else NotImplemented

    @models("torch._C._jit_get_operation", "torch._C._get_operation_overload")
    def operation(self, site: Site, name: Value, overload: Value = "") -> Value:
        """Models what finds an operator by its name: with the names of its overloads, or one of these with its tags."""
        if is_known(name) and "::" in str(name):
            found: Value = Sym(f"torch.ops.{str(name).replace('::', '.')}")
        else:
            found = modules.unnamed(site.run, "torch.ops", name)
        return (found, [""]) if site.name == "_jit_get_operation" else (found, found, [])
