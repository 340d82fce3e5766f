"""How an object of a class comes to be of what it is given: by a constructor, as a copy, or field by field; and which
conversion operator makes a number of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kbh_lint.base import dtypes, ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Func
from kbh_lint.cpp.domain import Bound, Domain, Type
from kbh_lint.cpp.overloads import CONVERSION, EXACT, PROMOTION, arity, promotes


@dataclass(frozen=True, slots=True)
class Way:
    """How an object is made.

    `constructor`: by one of `makers`, chosen by the types of the arguments. `copy`: from its one argument, an object of
    the same class, which has no copy constructor of its own. `aggregate`: field by field.
    """

    by: Literal["constructor", "copy", "aggregate"]
    makers: tuple[Func, ...] = ()


def way(domain: Domain, kind: Bound, makers: Sequence[Func], args: Sequence[Bound | None]) -> Way:
    """How C++ makes an object of class `kind`, which has the constructors `makers`, from arguments of types `args`
    (None: unknown)."""
    usable = [func for func in makers if func.node.body is not None and arity(func.node, len(args))]
    if len(args) == 1 and args[0] is not None and _is(domain, args[0], kind):
        own = tuple(func for func in usable if _takes(domain, func, kind))
        return Way("constructor", own) if own else Way("copy")
    return Way("constructor", tuple(usable)) if usable else Way("aggregate")


def _is(domain: Domain, given: Bound, kind: Bound) -> bool:
    """Whether an argument is an object of the class."""
    one = domain.key(given)
    return isinstance(one, Type) and not isinstance(one.base, str) and not one.pointers and one == domain.key(kind)


def _takes(domain: Domain, func: Func, kind: Bound) -> bool:
    """Whether a constructor is one that copies or moves."""
    ref = func.node.params[0].type if func.node.params and not func.node.template else None
    return isinstance(ref, ir.TypeRef) and _is(domain, domain.named(ref, domain.scope(func.env, {})), kind)


def converter(domain: Domain, operators: Sequence[tuple[Bound, Func]], wanted: str) -> Func | None:
    """The conversion operator that converts an object to the number type `wanted`: preferably to that type, then to one
    that is promoted to it, then to any number. None without one."""
    found: list[tuple[int, int, Func]] = []
    for order, (kind, func) in enumerate(operators):
        key = domain.key(kind)
        if func.node.body is None or not isinstance(key, Type) or key != Type(key.base) or key.base not in dtypes.BITS:
            continue
        made = str(key.base)
        found.append((EXACT if made == wanted else PROMOTION if promotes(made, wanted) else CONVERSION, order, func))
    return min(found, key=lambda one: one[:2])[2] if found else None
