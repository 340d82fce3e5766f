"""Tests on a launch's arguments that decided something, as expressions that another launch's arguments can be put into.

A walk that asked `K / BK > 0` holds for all arguments for which the answer is the same, and not only for this `K`.
A number knows how it was made only where an operator made it of arguments and literals; of any other the names of the
arguments that it depends on count as having decided, with their values (`Recorder.decide`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kbh_lint.base import ir, values
from kbh_lint.kernels.core.value import NOTHING, V

if TYPE_CHECKING:
    from kbh_lint.kernels.core.numbers import Numbers

MAX_TESTS = 512
MAX_DEPTH = 32  # operators, one in another
_NUMBERS = frozenset((int, bool, float))


class Term(NamedTuple):
    """How a known number was computed: by an operator from `parts`, or, without parts, as an argument of the launch or
    a field of one."""

    kind: str  # argument, field, binary, compare, unary, convert
    what: str  # the operator, the type, or the name
    parts: tuple[V, ...]
    depth: int


def argument(value: V, name: str, given: object) -> V:
    """Marks `value` as the argument `name` of the launch if `given` is a number; returns `value`."""
    number = _number(given)
    if number is not None and value.const is number and value.deps == {name}:
        value.term = Term("argument", name, (), 0)
    return value


def field_of(value: V, place: int, name: str, given: object) -> V:
    """Marks `value` as the field `name` of an object given to the launch, number `place` in the list from `objects`, if
    `given` is a number; returns `value`."""
    number = _number(given)
    if number is not None and value.const is number:
        value.term = Term("field", f"{place}.{name}", (), 0)
    return value


def objects(args: Iterable[object]) -> list[values.Made]:
    """The objects of the submission's classes among the arguments and, nested, in their fields, in a fixed order."""
    found: list[values.Made] = []
    for given in args:
        if isinstance(given, values.Made):
            found += [given] if given.path == values.OBJECT else []
            found += objects(part for _, part in given.fields)
        elif isinstance(given, tuple):
            found += objects(given)
    return found


def made(value: V, kind: str, what: str, *parts: V) -> V:
    """Records on `value` how it was computed, by the operator `what` of `kind` from `parts`, so that it can be computed
    again for another launch; returns `value`."""
    if not value.deps or value.term is not None or type(value.const) not in _NUMBERS:
        return value
    depth = 0
    for part in parts:
        if value is part or part.term is None and not _literal(part):
            return value
        depth = max(depth, 0 if part.term is None else part.term.depth)
    if depth < MAX_DEPTH:
        value.term = Term(kind, what, parts, depth + 1)
    return value


class Tests:
    """The tests of one walk that can be computed again for other arguments, each with its outcome."""

    def __init__(self, most: int = MAX_TESTS) -> None:
        self.most = most
        self.answers: dict[int, tuple[V, bool]] = {}
        self.operators: Callable[[], Numbers] | None = None  # which put other arguments in
        self._numbers: Numbers | None = None

    def note(self, value: V) -> bool:
        """Records a test whose outcome is known, and says whether it was recorded: that needs a value that can be
        computed again."""
        if value.term is None or len(self.answers) >= self.most:
            return False
        self.answers.setdefault(id(value), (value, bool(value.const)))
        return True

    @property
    def names(self) -> frozenset[str]:
        """The names of the arguments that recorded tests depend on."""
        return frozenset(name for value, _ in self.answers.values() for name in value.deps)

    def hold(self, loc: ir.Loc, args: Mapping[str, object], known: Mapping[str, object]) -> bool:
        """Whether every recorded test has the same outcome for the arguments `args` as for `known`, those of the
        walk."""
        if not self.answers or self.operators is None:
            return not self.answers
        if self._numbers is None:
            self._numbers = self.operators()
        put = _Put(self._numbers, loc, args, known)
        try:
            return all(bool(put.const(value)) == answer for value, answer in self.answers.values())
        except _Differs:
            return False


class _Differs(Exception):
    """Something cannot be made of other arguments as it was."""


class _Put:
    """Values with other arguments put in, each once."""

    def __init__(self, numbers: Numbers, loc: ir.Loc, args: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        self.numbers, self.loc, self.args, self.known = numbers, loc, args, known
        self.found: dict[int, Any] = {}
        self.objects: tuple[list[values.Made], list[values.Made]] | None = None

    def const(self, value: V) -> Any:
        """The number of `value`, computed from the new arguments."""
        if value.term is None:
            return value.const
        key = id(value)
        if key not in self.found:
            self.found[key] = self._made(value.term)
        return self.found[key]

    def _pair(self, what: str) -> tuple[object, object]:
        """What a field of an object holds in these arguments, and in those of the walk."""
        self.objects = self.objects or (objects(self.args.values()), objects(self.known.values()))
        place, _, name = what.partition(".")
        new, old = (some[int(place)].get(name) if int(place) < len(some) else None for some in self.objects)
        return new, old

    def _made(self, term: Term) -> object:
        if term.kind in ("argument", "field"):
            new, old = (
                self._pair(term.what) if term.kind == "field" else (self.args.get(term.what), self.known.get(term.what))
            )
            number = _number(new)
            if number is None or type(new) is not type(old) or type(number) is not type(_number(old)):
                raise _Differs
            if isinstance(new, values.Scalar) and isinstance(old, values.Scalar) and new.dtype != old.dtype:
                raise _Differs
            return number
        parts = [part.with_(const=self.const(part)) for part in term.parts]
        if term.kind == "binary":
            made = self.numbers.binary(term.what, parts[0], parts[1], self.loc)
        elif term.kind == "compare":
            made = self.numbers.compare(term.what, parts[0], parts[1])
        elif term.kind == "unary":
            made = self.numbers.unary(term.what, parts[0], self.loc)
        else:
            made = self.numbers.convert(parts[0], term.what, self.loc)
        if made.const is NOTHING:
            raise _Differs
        return made.const


def _number(given: object) -> int | float | None:
    """The number that an argument is."""
    number = given.value if isinstance(given, values.Scalar) else given
    return number if isinstance(number, (int, float)) else None


def _literal(value: V) -> bool:
    return not value.deps and type(value.const) in _NUMBERS
