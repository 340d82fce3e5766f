"""The kinds of facts about problem folders, which `kbh-lint --authors` finds; see `facts`."""

from __future__ import annotations

from kbh_lint.base.fact_kind import FactKind, Names


class Malformed(FactKind):
    """A file that cannot be used."""

    file: str
    message: str


class ToleranceKey(FactKind):
    """A tolerance for an element type that no output has."""

    contract: str
    dtype: str
    outputs: Names


class Tolerance(FactKind):
    """A tolerance that does not follow from `tolerance.json`."""

    state: str
    place: str
    written: str
    derived: str


class Flops(FactKind):
    """The FLOP formula and a count that differs."""

    state: str
    formula: str
    declared: str
    counted: str
    shape: str
    hint: str


class Traffic(FactKind):
    """A byte formula away from the compulsory traffic."""

    side: str
    share: str
    formula: str


class Regime(FactKind):
    """A shape whose declared regime does not bind."""

    declared: str
    binding: str
    targets: Names


class Promise(FactKind):
    """One of the promises of a problem, and what can break it."""

    id: str
    rules: int
    decoys: int
    honest: int


class Honest(FactKind):
    """An honest solution and what is said of it."""

    file: str
    state: str
    said: str


class Decoy(FactKind):
    """A decoy and what is said of it."""

    file: str
    rule: str
    state: str
    said: str


class Ban(FactKind):
    """A banned path that was looked up."""

    symbol: str
    state: str


class Prompt(FactKind):
    """A prompt that is not generated."""

    state: str
    detail: str


class Input(FactKind):
    """An input that does not follow the key."""

    name: str
    state: str


class Count(FactKind):
    """How many mutants, decoys or honest solutions there are."""

    what: str
    number: int


class Mutant(FactKind):
    """Stored evidence about a mutant."""

    state: str
    what: str
    number: str


class Reduced(FactKind):
    """What a reduced shape no longer shows of its graded one, such as a tail: a kernel wrong there passes on a CPU."""

    state: str
    what: str
    full: str
    reduced: str


class Case(FactKind):
    """A property case that is only declared or only implemented."""

    id: str
    state: str


class Part(FactKind):
    """A function that the checker calls and that is missing."""

    file: str
    what: str


class Seeding(FactKind):
    """A random state that no key governs."""

    file: str
    symbol: str
    state: str


class Fault(FactKind):
    """A known fault without a catcher."""

    id: str
    state: str
    named: str
