"""Which function of one name a call means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbh_lint.base import dtypes, ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Func
from kbh_lint.cpp import templates
from kbh_lint.cpp.domain import Bound, Domain, Scope, Type
from kbh_lint.cpp.hierarchy import ancestors

EXACT, PROMOTION, CONVERSION, OWN, NEVER = 0, 1, 2, 3, 100  # what it costs to turn an argument into a parameter
_SMALL = frozenset({"bool", "i8", "u8", "i16", "u16"})
_BUILT_IN = dtypes.INTS | {"f32", "f64"}
_NUMBERS = dtypes.INTS | dtypes.FLOATS


@dataclass(frozen=True, slots=True)
class Choice:
    """The function that a call means, and what its template parameters are bound to."""

    func: Func
    bound: dict[str, Bound]


def arity(func: ir.FuncDef, count: int) -> bool:
    """Whether a function can be called with `count` arguments."""
    need = sum(1 for p in func.params if p.default is None and p.kind != "star")
    return need <= count and (any(p.kind == "star" for p in func.params) or count <= len(func.params))


def choose(
    domain: Domain,
    funcs: Sequence[Func],
    args: Sequence[Bound | None],
    given: Sequence[ir.Expr],
    at: Scope,
    outer: Mapping[str, Bound],
) -> Choice | None:
    """The overload among `funcs` that fits arguments of types `args` best (None: unknown type), specialised if it is a
    template; None when no function takes as many arguments.

    `given` are explicit template arguments, which are read in scope `at`; `outer` are the template arguments of the
    class to which `funcs` belong.
    """
    if len(funcs) == 1:
        only = funcs[0]
        return Choice(only, _bound(domain, only, args, given, at, outer)[0] if only.node.template else {})
    special = [func for func in funcs if func.node.explicit]
    others = [func for func in funcs if not func.node.explicit and not _instantiates(func)] or special
    usable = [f for f in others if f.node.body is not None or f.node.template and special] or others
    chosen = _best(domain, usable, args, given, at, outer) or _best(domain, others, args, given, at, outer)
    if chosen is not None and special and chosen.func.node.template:
        exact = templates.specialisation(domain, chosen.func, chosen.bound, special, outer)
        if exact is not None:
            return Choice(exact, {})
    return chosen


def _best(
    domain: Domain,
    funcs: Sequence[Func],
    args: Sequence[Bound | None],
    given: Sequence[ir.Expr],
    at: Scope,
    outer: Mapping[str, Bound],
) -> Choice | None:
    """Of functions that can be meant, the one that costs least to call."""
    best: tuple[tuple[int, ...], Choice] | None = None
    for order, func in enumerate(funcs):
        if not arity(func.node, len(args)) or given and not (func.node.template or func.node.explicit):
            continue
        found = _fit(domain, func, args, given, at, outer)
        if found is None:
            continue
        cost, bound = found
        rank = (cost, func.node.body is None, *_rank(func.node), order)
        if best is None or rank < best[0]:
            best = rank, Choice(func, bound)
    return best[1] if best is not None else None


def takes(
    domain: Domain,
    funcs: Sequence[Func],
    args: Sequence[Bound | None],
    given: Sequence[ir.Expr],
    at: Scope,
    below: int = NEVER,
) -> bool:
    """Whether a call with arguments of types `args` can mean one of `funcs`, at a cost `below` that. If not, it means a
    function of a library with the same name: a text that defines `exp(float4)` still calls CUDA's `exp` for a float."""
    fits = (_fit(domain, func, args, given, at, {}) for func in funcs if arity(func.node, len(args)))
    return any(fit is not None and fit[0] < below for fit in fits)


def _instantiates(func: Func) -> bool:
    """`template void f<1>(float);` defines nothing."""
    return bool(func.node.specialization) and func.node.body is None


def _rank(node: ir.FuncDef) -> tuple[int, int]:
    """Of equally good functions, one that is no template is meant, then the template that says most of its types."""
    names = {param.name for param in node.template}
    said = sum(templates.specificity(param.type, names) for param in node.params)
    return bool(names), -said if names else 0


def _fit(
    domain: Domain,
    func: Func,
    args: Sequence[Bound | None],
    given: Sequence[ir.Expr],
    at: Scope,
    outer: Mapping[str, Bound],
) -> tuple[int, dict[str, Bound]] | None:
    """What it costs to call a function, and its template arguments; None when it cannot be meant."""
    node = func.node
    packs = any(param.pack for param in node.template)
    if len(given) > len(node.template) and not packs and not node.explicit:
        return None
    bound, costs = _bound(domain, func, args, given, at, outer)
    scope = domain.scope(func.env, {**outer, **bound})
    total = 0
    for i, (param, arg) in enumerate(zip(node.params, args, strict=False)):
        if param.kind == "star":
            break
        if i in costs:
            total += costs[i]
        elif isinstance(param.type, ir.TypeRef):
            total += conversion(domain, arg, domain.named(param.type, scope), param.type)
        else:
            total += PROMOTION
    return total, bound


def _bound(
    domain: Domain,
    func: Func,
    args: Sequence[Bound | None],
    given: Sequence[ir.Expr],
    at: Scope,
    outer: Mapping[str, Bound],
) -> tuple[dict[str, Bound], dict[int, int]]:
    """The template arguments of a call, and what it costs to pass those arguments that they were deduced from."""
    node = func.node
    if not node.template:
        return {}, {}
    explicit = templates.bind(domain, node.template[: len(given)], given, at, func.env, outer)
    names = {param.name for param in node.template} - set(explicit)
    deduced = dict(explicit)
    scope = domain.scope(func.env, {**outer, **explicit})
    costs: dict[int, int] = {}
    for i, (param, arg) in enumerate(zip(node.params, args, strict=False)):
        ref = param.type
        if param.kind == "star" or not isinstance(ref, ir.TypeRef) or not templates.mentions(ref, names):
            continue
        found = templates.deduce(domain, ref, arg, names, deduced, scope)
        if found is not None:
            costs[i] = EXACT if found else NEVER
    return templates.bind(domain, node.template, given, at, func.env, outer, deduced), costs


def conversion(domain: Domain, given: Bound | None, wanted: Bound | None, ref: ir.TypeRef) -> int:
    """The rank (lower is better) of the conversion of an argument of type `given` to a parameter of type `wanted`,
    which is written as `ref`."""
    one = None if given is None else domain.key(given)
    other = None if wanted is None else domain.key(wanted)
    if not isinstance(one, Type) or not isinstance(other, Type):
        return PROMOTION
    if one == other:
        return EXACT
    if one.pointers or other.pointers:
        return _of_pointers(domain, given, one, other)
    if ref.reference and not ref.const:
        return CONVERSION if derived(domain, given, other) else NEVER
    if one.base in _NUMBERS and other.base in _NUMBERS:
        if one.lanes != other.lanes:
            return NEVER  # a number is no vector, and nothing converts one to the other unasked
        if one.lanes == 1:
            return _of_numbers(str(one.base), str(other.base))
    return CONVERSION if derived(domain, given, other) else OWN


def _of_pointers(domain: Domain, given: Bound | None, one: Type, other: Type) -> int:
    if one.pointers and other == Type("bool"):
        return OWN
    if one.pointers != other.pointers:
        return NEVER
    if other.base == "void" or "?" in (one.base, other.base):
        return CONVERSION
    return CONVERSION if derived(domain, domain.pointed(given, one.pointers), other) else NEVER


def _of_numbers(one: str, other: str) -> int:
    if promotes(one, other):
        return PROMOTION
    return CONVERSION if one in _BUILT_IN and other in _BUILT_IN else OWN


def promotes(given: str, wanted: str) -> bool:
    """Whether converting a number from type `given` to `wanted` is a promotion, which ranks above other conversions."""
    return given in _SMALL and wanted == "i32" or given == "f32" and wanted == "f64"


def derived(domain: Domain, kind: Bound, other: Type) -> bool:
    """Whether a class is derived from another."""
    keys = (domain.key(base) for base in ancestors(domain, kind))
    return any(isinstance(key, Type) and (key.base, key.args) == (other.base, other.args) for key in keys)
