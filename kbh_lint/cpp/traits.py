"""What the standard library says of types: `std::is_same_v<A, B>`, `std::is_integral<T>::value`."""

from __future__ import annotations

from collections.abc import Callable

from kbh_lint.base import dtypes, ir
from kbh_lint.cpp import templates
from kbh_lint.cpp.domain import Bound, Domain, Scope, Type

_TRAITS: dict[str, Callable[[Type], bool]] = {
    "is_pointer": lambda kind: kind.pointers > 0,
    "is_floating_point": lambda kind: _number(kind, frozenset({"f32", "f64"})),
    "is_integral": lambda kind: _number(kind, dtypes.INTS),
    "is_arithmetic": lambda kind: _number(kind, dtypes.INTS | {"f32", "f64"}),
    "is_class": lambda kind: not kind.pointers and isinstance(kind.base, int),
    "is_void": lambda kind: not kind.pointers and kind.base == "void",
    "is_unsigned": lambda kind: _number(kind, dtypes.INTS) and (kind.base == "bool" or str(kind.base)[0] == "u"),
    "is_signed": lambda kind: _number(kind, dtypes.INTS | {"f32", "f64"}) and str(kind.base)[0] in "if",
}


# What changes nothing that a `Type` tells: references are what they refer to, arrays are pointers.
_SAME = frozenset(
    {"decay", "remove_reference", "remove_cv", "remove_const", "remove_volatile", "remove_cvref", "add_const", "add_cv",
     "add_lvalue_reference", "add_rvalue_reference", "type_identity"}
)  # fmt: skip
_CHANGES = _SAME | {"remove_pointer"}


def _number(kind: Type, among: frozenset[str]) -> bool:
    return not kind.pointers and kind.lanes == 1 and kind.base in among


def asked(ref: ir.TypeRef) -> str:
    """The name of the trait that a type expression such as `std::is_integral_v<T>` takes the value of; empty for
    others."""
    last = ref.name.rpartition("::")[2]
    name = last.removesuffix("_v") if not ref.member else last if ref.member == ("value",) else ""
    if ref.pointers or last == name and not ref.member:
        return ""
    return name if name in _TRAITS and len(ref.args) == 1 or name == "is_same" and len(ref.args) == 2 else ""


def value(domain: Domain, ref: ir.TypeRef, scope: Scope) -> bool | None:
    """The value of a type trait; None for other expressions, and where a type is unknown."""
    trait = asked(ref)
    kinds = [domain.argument(arg, "type", scope) for arg in ref.args] if trait else []
    keys = [None if kind is None else domain.key(kind) for kind in kinds]
    if not keys or None in keys:
        return None
    if trait == "is_same":
        return keys[0] == keys[1]
    return _TRAITS[trait](keys[0]) if isinstance(keys[0], Type) else None


def is_choice(ref: ir.TypeRef) -> bool:
    """Whether a type is a choice between two, `std::conditional_t<B, T, F>` or `std::conditional<B, T, F>::type`.

    CUTLASS and CuTe have the same under their own names.
    """
    return len(ref.args) == 3 and _operation(ref) == "conditional"


def makes(ref: ir.TypeRef) -> bool:
    """Whether the standard library makes a type of others, as a choice, `std::decay_t<T>` or
    `std::remove_pointer<T>::type`."""
    count = len(ref.args)
    if count == 1:
        return _operation(ref) in _CHANGES
    return count == 3 and _operation(ref) == "conditional"


def made(domain: Domain, ref: ir.TypeRef, scope: Scope) -> Bound | None:
    """The type that the standard library makes (`makes`), without members that are named behind it; None where that is
    unknown, as of a choice whose condition is."""
    if not is_choice(ref):
        return _changed(domain, ref, scope)
    test = domain.argument(templates.written(ref.args[0], "value"), "value", scope)
    known = None if test is None else domain.key(test)
    if not isinstance(known, int):
        return None
    return domain.argument(templates.written(ref.args[1 if known else 2], "type"), "type", scope)


def _changed(domain: Domain, ref: ir.TypeRef, scope: Scope) -> Bound | None:
    """A type without its reference, its qualifiers or one of its pointers."""
    kind = domain.argument(templates.written(ref.args[0], "type"), "type", scope)
    if kind is None or _operation(ref) in _SAME:
        return kind
    key = domain.key(kind)
    return None if not isinstance(key, Type) else domain.pointed(kind, 1) if key.pointers else kind


def behind(ref: ir.TypeRef) -> tuple[str, ...]:
    """The names of the members that are taken of the type that is made."""
    return ref.member if ref.name.endswith("_t") else ref.member[1:]


def _operation(ref: ir.TypeRef) -> str:
    """What a type is made by, `decay` of `std::decay_t<T>` and of `std::decay<T>::type`; empty for other types."""
    short = ref.name.rpartition("::")[2]
    if short.endswith("_t"):
        return short[:-2]
    return short if ref.member[:1] == ("type",) else ""
