"""The query language of rules: which facts a rule speaks about. docs/writing-rules.md describes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kbh_lint.base.fact_kind import fields_of
from kbh_lint.base.facts import KINDS
from kbh_lint.base.records import dataclass
from kbh_lint.findings import Fact
from kbh_lint.marked import DataError, Fields, Items, Map

COMPARISONS = ("ge", "gt", "le", "lt")
OPERATORS = ("not", *COMPARISONS, "has", "present")
SHAPES = ("any", "some", "every")
_SCALARS = (str, int, float, bool, type(None))
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Condition:
    """One test of an attribute: op in is, in, not, ge, gt, le, lt, has, present, all (every item must hold)."""

    op: str
    operand: Any

    def holds(self, value: object) -> bool:
        """Whether `value` passes; a missing attribute passes only `not` and `present: false`."""
        if self.op == "all":
            return all(item.holds(value) for item in self.operand)
        if self.op == "not":
            return not self.operand.holds(value)
        if self.op == "present":
            return (value is not _MISSING and value is not None) is self.operand
        if value is _MISSING:
            return False
        if self.op == "is":
            return _same(value, self.operand)
        if self.op == "in":
            return any(_same(value, item) for item in self.operand)
        if self.op == "has":
            return isinstance(value, (tuple, list, set, frozenset)) and any(
                _same(item, wanted) for item in value for wanted in self.operand
            )
        return _compare(self.op, value, self.operand)


@dataclass(frozen=True, slots=True)
class Query:
    """One query: a kind of fact, conditions on its attributes, and queries that must or must not match too.

    `same` (only in `also` and `unless`) names attributes that must equal those of the fact matched outside.
    """

    fact: str
    where: tuple[tuple[str, Condition], ...] = ()
    shapes: str = "any"
    same: tuple[str, ...] = ()
    also: tuple[Query, ...] = ()
    unless: tuple[Query, ...] = ()


def match(query: Query, facts: Mapping[str, Sequence[Fact]]) -> Iterator[Fact]:
    """The facts that `query` matches, in order; `facts` is grouped by kind."""
    for fact in facts.get(query.fact, ()):
        if _matches(query, fact, facts):
            yield fact


def by_kind(facts: Iterable[Fact]) -> dict[str, list[Fact]]:
    """Groups facts by kind, as `match` takes them."""
    grouped: dict[str, list[Fact]] = {}
    for fact in facts:
        grouped.setdefault(fact.kind, []).append(fact)
    return grouped


def _matches(query: Query, fact: Fact, facts: Mapping[str, Sequence[Fact]]) -> bool:
    if not all(condition.holds(fact.attrs.get(name, _MISSING)) for name, condition in query.where):
        return False
    if query.shapes != "any":
        everywhere = fact.total > 0 and len(fact.shapes) >= fact.total
        if everywhere is not (query.shapes == "every") or not fact.shapes:
            return False
    return all(_exists(other, fact, facts) for other in query.also) and not any(
        _exists(other, fact, facts) for other in query.unless
    )


def _exists(query: Query, outer: Fact, facts: Mapping[str, Sequence[Fact]]) -> bool:
    for fact in facts.get(query.fact, ()):
        agrees = all(
            name in outer.attrs and name in fact.attrs and _same(outer.attrs[name], fact.attrs[name])
            for name in query.same
        )
        if agrees and _matches(query, fact, facts):
            return True
    return False


def _same(left: object, right: object) -> bool:
    """Equality in which True is not 1 and a list equals a tuple of the same items."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def _compare(op: str, value: object, bound: float) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if op == "ge":
        return bool(value >= bound)
    if op == "gt":
        return bool(value > bound)
    if op == "le":
        return bool(value <= bound)
    return bool(value < bound)


def unknown(query: Query, outer: tuple[str, ...] | None = None) -> str:
    """A sentence on what a query asks for that no analysis makes; empty when all of it is there. `outer` holds the
    attributes of the fact that an inner query is compared with."""
    kind = KINDS.get(query.fact)
    if kind is None:
        return f"`{query.fact}` is not a kind of fact (docs/facts.md lists them)"
    names = fields_of(kind)
    for name in (*(name for name, _ in query.where), *query.same):
        if name not in names:
            return f"a fact `{query.fact}` has no attribute `{name}`; it has {', '.join(names) or 'none'}"
    for name in query.same:
        if name not in (outer or ()):
            return f"`same` names `{name}`, which the outer fact does not have"
    return next((fault for inner in (*query.also, *query.unless) if (fault := unknown(inner, names))), "")


# --- reading -----------------------------------------------------------------------------------------------


def read_when(data: object, path: str, line: int) -> tuple[Query, ...]:
    """The alternatives of a rule's `when`. Raises DataError."""
    if isinstance(data, Map) and "any" in data:
        fields = Fields(data, path, "`when`")
        alternatives = fields.items("any")
        fields.done()
        if not alternatives:
            raise DataError(path, line, "`any` needs at least one query")
        return tuple(_read(item, path, at, False, 0) for item, at in zip(alternatives, alternatives.lines, strict=True))
    return (_read(data, path, line, False, 0),)


def _read(data: object, path: str, line: int, inner: bool, depth: int) -> Query:
    if not isinstance(data, Map):
        raise DataError(path, line, "a query must be a mapping with the key `fact`")
    if depth > 4:
        raise DataError(path, line, "queries are nested more than four deep")
    fields = Fields(data, path, "the query")
    fact = fields.text("fact")
    where: list[tuple[str, Condition]] = []
    if "where" in data:
        tests = fields.mapping("where")
        where = [(name, _condition(value, path, tests.lines[name], name)) for name, value in tests.items()]
    shapes = fields.choice("shapes", SHAPES, "any")
    same = fields.texts("same")
    if same and not inner:
        raise fields.fail("same", "`same` compares with an outer query, so it belongs inside `also` or `unless`")
    also = _queries(fields, "also", path, depth)
    unless = _queries(fields, "unless", path, depth)
    fields.done()
    return Query(fact, tuple(where), shapes, same, also, unless)


def _queries(fields: Fields, key: str, path: str, depth: int) -> tuple[Query, ...]:
    if key not in fields.data:
        return ()
    items: Items = fields.items(key)
    return tuple(_read(item, path, at, True, depth + 1) for item, at in zip(items, items.lines, strict=True))


def _condition(value: object, path: str, line: int, name: str, depth: int = 0) -> Condition:
    if isinstance(value, Map):
        if not value or depth > 4:
            raise DataError(path, line, f"the condition on `{name}` must hold an operator: {', '.join(OPERATORS)}")
        tests = tuple(_operator(op, value[op], path, value.lines[op], name, depth) for op in value)
        return tests[0] if len(tests) == 1 else Condition("all", tests)
    if isinstance(value, Items):
        if not value or not all(isinstance(item, _SCALARS) for item in value):
            raise DataError(path, line, f"the list of values for `{name}` must hold plain values, at least one")
        return Condition("in", tuple(value))
    if not isinstance(value, _SCALARS):
        raise DataError(path, line, f"the value for `{name}` must be text, a number, true or false")
    return Condition("present", False) if value is None else Condition("is", value)


def _operator(op: str, operand: object, path: str, line: int, name: str, depth: int) -> Condition:
    if op == "not":
        return Condition("not", _condition(operand, path, line, name, depth + 1))
    if op == "present":
        if not isinstance(operand, bool):
            raise DataError(path, line, f"`present` for `{name}` must be true or false")
        return Condition("present", operand)
    if op in COMPARISONS:
        if isinstance(operand, bool) or not isinstance(operand, (int, float)):
            raise DataError(path, line, f"`{op}` for `{name}` must be a number")
        return Condition(op, operand)
    if op == "has":
        items = list(operand) if isinstance(operand, Items) else [operand]
        if not items or not all(isinstance(item, _SCALARS) and item is not None for item in items):
            raise DataError(path, line, f"`has` for `{name}` must be a value or a list of values")
        return Condition("has", tuple(items))
    raise DataError(path, line, f"`{op}` is not an operator; there are {', '.join(OPERATORS)}")
