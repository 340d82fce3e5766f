"""Template arguments: how they are bound and deduced, and which specialisation they pick."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kbh_lint.base import ir
from kbh_lint.base.values import CppType, Env, Func
from kbh_lint.cpp.domain import Bound, Domain, Scope, Type
from kbh_lint.cpp.hierarchy import ancestors

MAX_DEPTH = 16
MAX_SEQUENCE = 256  # numbers of a sequence that are made


def bind(
    domain: Domain,
    params: Sequence[ir.TemplateParam],
    given: Sequence[ir.Expr],
    at: Scope,
    env: Env,
    outer: Mapping[str, Bound],
    bound: dict[str, Bound] | None = None,
) -> dict[str, Bound]:
    """Binds the template parameters `params`, by name: to the arguments `given`, which are read in scope `at`, then to
    those `bound` already, then to defaults, which may use earlier parameters."""
    made: dict[str, Bound] = {}
    for position, param in enumerate(params):
        if param.pack and bound is not None and param.name in bound:
            made[param.name] = bound[param.name]
        elif param.pack and position <= len(given):
            values = listed(domain, [_listed(domain, node, param.kind, at) for node in given[position:]])
            made[param.name] = domain.pack([value for value in values if value is not None])
        elif position < len(given):
            value = domain.argument(written(given[position], param.kind), param.kind, at)
            if value is not None:
                made[param.name] = value
        elif bound is not None and param.name in bound:
            made[param.name] = bound[param.name]
        elif param.default is not None:
            node = written(param.default, param.kind)
            value = domain.argument(node, param.kind, domain.scope(env, {**outer, **made}))
            if value is not None:
                made[param.name] = value
    return made


def _listed(domain: Domain, node: ir.Expr, kind: str, at: Scope) -> Bound | None:
    """One of the arguments that a parameter pack takes, or the pack that `Is...` is."""
    if isinstance(node, ir.Star) and _bare(node.value):
        return domain.held(_name(node.value), at)
    return domain.argument(written(node, kind), kind, at)


def written(node: ir.Expr, kind: str) -> ir.Expr:
    """A template argument in the form that a parameter of this `kind` needs, an expression or a type: a lone name may
    be either."""
    if kind == "value" and isinstance(node, ir.TypeRef) and _bare(node):
        return ir.Name(node.name, node.loc)
    if kind == "value" and isinstance(node, ir.TypeRef) and node.name == "function" and node.args and not node.pointers:
        called, *args = (written(arg, kind) for arg in node.args)  # `f(n)` is written like a function's type
        return ir.Call(called, tuple(args), (), node.loc)
    if kind != "value" and isinstance(node, ir.Name):
        return ir.TypeRef(node.id, (), node.loc)
    return node


def brought_in(node: ir.Using, known: object) -> CppType | None:
    """The class template `known`, if `using a::C;` gives it a name here; None for other aliases, which name a type."""
    ref = node.type
    if ref is None or ref.args or ref.member or ref.pointers or ref.name.rpartition("::")[2] != node.name:
        return None
    found = isinstance(known, CppType) and isinstance(known.node, ir.ClassDef) and known.node.template
    return known if found and isinstance(known, CppType) else None


# --- patterns --------------------------------------------------------------------------------------------------


def _name(node: object) -> str:
    return str(getattr(node, "name", "") or getattr(node, "id", ""))


def _bare(node: object) -> bool:
    """Whether a pattern is a name and nothing else."""
    return (
        isinstance(node, ir.Name)
        or isinstance(node, ir.TypeRef)
        and not (node.args or node.member or node.pointers or node.dims)
    )


def mentions(node: object, names: Collection[str], depth: int = 0) -> bool:
    """Whether a type or template argument in the source contains one of the template parameters `names`."""
    if _name(node) in names:
        return True
    if isinstance(node, ir.Star):
        return mentions(node.value, names, depth + 1)
    parts = (*node.args, *node.dims) if isinstance(node, ir.TypeRef) else ()
    return depth < MAX_DEPTH and any(mentions(part, names, depth + 1) for part in parts)


def specificity(node: object, names: Collection[str], depth: int = 0) -> int:
    """How specific a pattern is: 0 for a lone template parameter, more for every part that is written out."""
    if not isinstance(node, ir.TypeRef):
        return 0 if _name(node) in names else 8
    if not mentions(node, names):
        return 8
    inner = sum(specificity(arg, names, depth + 1) for arg in node.args) if depth < MAX_DEPTH else 0
    return node.pointers + len(node.dims) + (2 + inner if node.args else 0)


def match(
    domain: Domain,
    pattern: ir.Expr,
    kind: str,
    value: Bound,
    names: Collection[str],
    bound: dict[str, Bound],
    at: Scope,
) -> bool | None:
    """Whether the template argument `value` matches `pattern`; binds the parameters `names` of the pattern in `bound`.
    None where that is unknown."""
    key = domain.key(value)
    if key is None:
        return None
    if _bare(pattern) and _name(pattern) in names:
        name = _name(pattern)
        if name not in bound:
            bound[name] = value
            return True
        known = domain.key(bound[name])
        return None if known is None else known == key
    if isinstance(pattern, ir.TypeRef) and isinstance(key, Type) and mentions(pattern, names):
        return deduce(domain, pattern, value, names, bound, at)
    wanted = domain.argument(written(pattern, kind), kind, at)
    known = None if wanted is None else domain.key(wanted)
    return None if known is None else known == key


def deduce(
    domain: Domain,
    ref: ir.TypeRef,
    kind: Bound | None,
    names: Collection[str],
    bound: dict[str, Bound],
    at: Scope,
    depth: int = 0,
) -> bool | None:
    """Deduces the template parameters `names` in the parameter type `ref` from an argument of type `kind`; writes them
    into `bound`.

    False when the argument cannot have that type, None when nothing is known of its type.
    """
    key = None if kind is None else domain.key(kind)
    if key is None or depth > MAX_DEPTH:
        return None
    if not isinstance(key, Type):
        return False
    levels = ref.pointers + len(ref.dims)
    if key.pointers < levels or (ref.args and key.pointers > levels):
        return False
    if ref.dims and not _may_have_sizes(domain, ref, kind, names, bound, at):
        return False
    inner = domain.pointed(kind, levels) if levels else kind
    if ref.name in names and not ref.args and not ref.member:
        return match(domain, ir.Name(ref.name, ref.loc), "type", inner, names, bound, at)
    if not ref.args or ref.member:
        return None  # not a place that arguments are deduced from
    template, values = domain.class_template(inner)
    wanted = ref.name.rpartition("::")[2]
    if template in _SEQUENCES and wanted in ("integer_sequence", "index_sequence"):
        template, values = _sequence(domain, template, values, wanted, ref, at)
    if template == wanted:
        if (template in _SEQUENCES or _has_pack(domain, inner)) and not _as_many(ref.args, values):
            return False
        return _match_all(domain, ref.args, values, names, bound, at)
    for base in ancestors(domain, inner):
        if domain.key(base) is not None and domain.class_template(base)[0] != wanted:
            continue
        found = deduce(domain, ir.TypeRef(ref.name, ref.args, ref.loc), base, names, bound, at, depth + 1)
        if found is not False:
            return found
    return False


def listed(domain: Domain, values: Iterable[Bound]) -> list[Bound]:
    """Template arguments one by one: those that a pack is bound to stand in its place."""
    made: list[Bound] = []
    for value in values:
        items = None if value is None else domain.unpacked(value)
        made += [value] if items is None else items
    return made


def _has_pack(domain: Domain, kind: Bound) -> bool:
    """Whether a class template of the text takes any number of arguments."""
    definition = domain.definition(kind)
    primary = None if definition is None else definition[0].env.get(definition[0].node.name)
    found = primary if isinstance(primary, CppType) else None if definition is None else definition[0]
    return found is not None and any(param.pack for param in found.node.template)


def _as_many(patterns: Sequence[ir.Expr], values: Sequence[Bound]) -> bool:
    """Whether there are as many arguments as patterns, of which a pack takes any number."""
    packs = sum(isinstance(pattern, ir.Star) for pattern in patterns)
    return len(patterns) - packs <= len(values) and (packs > 0 or len(patterns) == len(values))


def _may_have_sizes(
    domain: Domain, ref: ir.TypeRef, kind: Bound | None, names: Collection[str], bound: dict[str, Bound], at: Scope
) -> bool:
    """Binds the sizes that a written array has, as N of `T (&)[N]`; False where an argument has others."""
    for dim, size in zip(ref.dims, domain.extents(kind), strict=False):
        if size is None or _name(dim) not in names:
            continue
        count = domain.argument(ir.Const(size, ref.loc), "value", at)
        if count is not None and match(domain, dim, "value", count, names, bound, at) is False:
            return False
    return True


def _match_all(
    domain: Domain, patterns: Sequence[ir.Expr], values: Sequence[Bound], names: Collection[str],
    bound: dict[str, Bound], at: Scope,
) -> bool | None:  # fmt: skip
    """Whether the arguments of a template fit those that are written, as `match` says of one."""
    results: list[bool | None] = []
    for position, (pattern, value) in enumerate(zip(patterns, values, strict=False)):
        if isinstance(pattern, ir.Star):  # a pack takes what is left
            if _bare(pattern.value) and _name(pattern.value) in names and all(v is not None for v in values[position:]):
                bound.setdefault(_name(pattern.value), domain.pack(list(values[position:])))
                break
            return None
        results.append(match(domain, pattern, "type", value, names, bound, at))
    return False if False in results else None if None in results else True


_SEQUENCES = ("make_integer_sequence", "make_index_sequence", "integer_sequence", "index_sequence")


def _sequence(
    domain: Domain, template: str, values: Sequence[Bound], wanted: str, ref: ir.TypeRef, at: Scope
) -> tuple[str, tuple[Bound, ...]]:
    """The numbers of a sequence of the standard library, as arguments of the template that is `wanted`."""
    numbers = list(values)
    kind: Bound | None = numbers.pop(0) if template.endswith("integer_sequence") and numbers else None
    if template.startswith("make_"):
        count = domain.key(numbers[0]) if len(numbers) == 1 and numbers[0] is not None else None
        count = count[1] if isinstance(count, tuple) and len(count) > 1 else count
        if type(count) is not int or not 0 <= count <= MAX_SEQUENCE:
            return template, tuple(values)
        numbers = [domain.argument(ir.Const(i, ref.loc), "value", at) for i in range(count)]
    if wanted == "integer_sequence":
        numbers.insert(0, kind if kind is not None else domain.argument(ir.TypeRef("size_t", (), ref.loc), "type", at))
    return wanted, tuple(numbers)


# --- specialisations -------------------------------------------------------------------------------------------


def specialised(domain: Domain, found: CppType, bound: Mapping[str, Bound]) -> tuple[CppType, dict[str, Bound]]:
    """The most specific specialisation of a class template that the arguments `bound` match, with what its own
    parameters are bound to; the template itself with `bound` when there is none."""
    best, chosen = -1, (found, dict(bound))
    for kind in found.special:
        node = kind.node
        assert isinstance(node, ir.ClassDef)
        names = {param.name for param in node.template}
        own: dict[str, Bound] = {}
        fits = _fits(domain, kind, found.node.template, bound, names, own)
        if fits is None:
            domain.unsure(f"a specialisation of {found.node.name} for something unknown", node.loc)
        said = sum(specificity(pattern, names) for pattern in node.specialization)
        if fits and said > best:
            best, chosen = said, (kind, own)
    return chosen


def _fits(
    domain: Domain, special: CppType, params: Sequence[ir.TemplateParam], bound: Mapping[str, Bound],
    names: Collection[str], own: dict[str, Bound],
) -> bool | None:  # fmt: skip
    """Whether the arguments `bound` of a class template with the parameters `params` are those that a specialisation is
    for; binds its own parameters `names` in `own`. None where that is unknown."""
    patterns = special.node.specialization if isinstance(special.node, ir.ClassDef) else ()
    if any(param.pack for param in params):
        values = listed(domain, [bound.get(param.name) for param in params])
        if not _as_many(patterns, values):
            return False
        return _match_all(domain, patterns, values, names, own, domain.scope(special.env, own))
    for pattern, param in zip(patterns, params, strict=False):
        value, at = bound.get(param.name), domain.scope(special.env, own)
        fits = None if value is None else match(domain, pattern, param.kind, value, names, own, at)
        if not fits:
            return fits
    left = params[len(patterns) :]  # which are their defaults
    at = domain.scope(special.env, bound)
    said = [None if p.default is None else domain.argument(written(p.default, p.kind), p.kind, at) for p in left]
    keys = [
        (None if value is None else domain.key(value), domain.key(bound[param.name]))
        for param, value in zip(left, said, strict=True)
        if param.name in bound
    ]
    return None if any(None in pair for pair in keys) else all(one == other for one, other in keys)


def specialisation(
    domain: Domain, primary: Func, bound: Mapping[str, Bound], funcs: Sequence[Func], outer: Mapping[str, Bound]
) -> Func | None:
    """The explicit specialisation of the function template `primary` for the arguments `bound`; None without one."""
    params = primary.node.template
    keys = {param.name: domain.key(bound[param.name]) for param in params if param.name in bound and not param.pack}
    for func in funcs:
        node = func.node
        if not node.explicit or len(node.params) != len(primary.node.params):
            continue
        at = domain.scope(func.env, outer)
        own: dict[str, Bound] = {}
        for param, arg in zip(params, node.specialization, strict=False):
            value = domain.argument(written(arg, param.kind), param.kind, at)
            if value is not None:
                own[param.name] = value
        names = {param.name for param in params} - set(own)
        fits = True
        for ours, theirs in zip(primary.node.params, node.params, strict=True):
            if isinstance(ours.type, ir.TypeRef) and isinstance(theirs.type, ir.TypeRef) and mentions(ours.type, names):
                fits = fits and deduce(domain, ours.type, domain.named(theirs.type, at), names, own, at) is not False
        wanted = {name: domain.key(value) for name, value in own.items()}
        if not fits or not wanted or wanted.keys() - keys.keys():
            continue
        if None in wanted.values() or any(keys[name] is None for name in wanted):
            domain.unsure(f"a specialisation of {node.name} for something unknown", node.loc)
        elif all(keys[name] == key for name, key in wanted.items()):
            return func
    return None
