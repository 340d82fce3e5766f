"""The kinds of facts: a class each, whose fields are the attributes that rules may ask for. A table: as long as there
are kinds.

docs/facts.md says what they mean, and a test holds it against these classes. A rule that asks for another kind or
another attribute is refused when it is loaded. A field that is None is not known, and no attribute of that fact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, dataclass_transform

Names = tuple[str, ...]  # of inputs, weights, functions, element types


@dataclass_transform(eq_default=True, kw_only_default=True, frozen_default=True)
class FactKind:
    """What all kinds of facts have: fields by name, which mypy knows as those of a frozen dataclass.

    They are no dataclasses, because to compile the methods of fifty of these takes a tenth of the start of the linter.
    """

    def __init__(self, **attrs: object) -> None:
        missing = [name for name in fields_of(type(self)) if name not in attrs and not hasattr(type(self), name)]
        unknown = attrs.keys() - set(fields_of(type(self)))
        if missing or unknown:
            raise TypeError(f"{type(self).__name__} takes {', '.join(fields_of(type(self)))}, not {', '.join(attrs)}")
        vars(self).update(attrs)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *sorted(vars(self).items())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def attrs(self) -> dict[str, Any]:
        """The attributes that are known, by name, in the order of the class."""
        found = {name: getattr(self, name) for name in fields_of(type(self))}
        return {name: value for name, value in found.items() if value is not None}


_SPLIT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def kind_name(kind: type[FactKind]) -> str:
    """The name that rules use: that of the class in lower case, its words joined by `-`."""
    return _SPLIT.sub("-", kind.__name__).lower()


def fields_of(kind: type[FactKind]) -> tuple[str, ...]:
    """The names of a kind's attributes, in order."""
    return tuple(vars(kind).get("__annotations__", ()))


# --- what the number measures -------------------------------------------------------------------------------


class Product(FactKind):
    """A matrix product."""

    where: str
    engine: str
    operands: Names
    narrow: Names
    upcast: bool
    cast: str
    inputs: Names
    layer: str
    compiled: bool


class Arch(FactKind):
    """The architecture tag of a CUTLASS or CuTe product."""

    tag: int
    fp8_capable: bool


class LibraryWork(FactKind):
    """Heavy work that a library does."""

    category: str
    symbol: str
    layer: str
    operands: Names
    compiled: bool
    authored: str
    upcast: bool
    foreign: bool
    weight_expanded: bool


class TorchShare(FactKind):
    """Torch operations on inputs that are heavy only together."""


class NoAuthoredKernel(FactKind):
    """A result that no authored kernel is on the way to."""

    compiled: bool
    loop: bool
    foreign: bool
    reference: float | None = None


class ReferenceWork(FactKind):
    """Torch does all that the reference does, beside authored kernels."""

    authored: str
    steps: int


class Authored(FactKind):
    """The authored kernels of the file; one fact for each file."""

    reached: bool
    defined: int
    languages: Names


class DeadKernel(FactKind):
    """An authored kernel that no graded shape reaches."""

    name: str
    language: str
    only: bool


class Compensation(FactKind):
    """Whether a sum of exponentials is compensated."""

    state: str


class Int4(FactKind):
    """A full-width copy of a packed weight is multiplied."""

    state: str
    where: str
    survives: bool
    multiplied_by: str


class Selection(FactKind):
    """A whole selection done by a library or a built-in."""

    symbol: str
    layer: str
    scope: str


# --- replay ---------------------------------------------------------------------------------------------------


class Survivor(FactKind):
    """State that outlives a call."""

    what: str
    names: Names
    role: str
    key: str
    slot: str | None = None


class IgnoredState(FactKind):
    """The result uses what a weight held before it was loaded."""

    name: str


class IgnoredArgument(FactKind):
    """Tensors that an entry point is handed and does not look at."""

    names: Names


class L2Policy(FactKind):
    """The L2 cache is asked to keep data beyond the kernel that reads it."""

    kind: str
    what: str
    names: Names
    reads: str


class WarmUp(FactKind):
    """The arithmetic depends on the number of calls."""

    decided_by: str
    before: Names
    after: Names


# --- grader and environment -----------------------------------------------------------------------------------


class BackendState(FactKind):
    """A global setting is assigned."""

    symbol: str
    value: str
    restored: bool
    differs: bool
    when: str


class Monkeypatch(FactKind):
    """An attribute of something outside the submission is replaced."""

    symbol: str
    target: str
    what: str


class Sniff(FactKind):
    """Something is asked about those who run the submission."""

    symbol: str
    what: str
    decides: bool


class Effect(FactKind):
    """Something is done outside the submission's own work."""

    kind: str
    symbol: str
    what: str
    target: str
    undone: bool
    when: str


class Binary(FactKind):
    """Machine code without source is loaded."""

    path: str
    reached: bool


# --- outputs --------------------------------------------------------------------------------------------------


class Beside(FactKind):
    """Work on the way to the result that nothing waits for."""

    lane: str
    name: str


class LazyOutput(FactKind):
    """An output that acts when it is read."""

    name: str
    how: str


class ConstantOutput(FactKind):
    """A result that no input or weight is on the way to."""

    outputs: int


class UnwrittenOutput(FactKind):
    """An output that nothing has written, or only a part of it."""

    how: str


class InputWritten(FactKind):
    """forward changes what it was given."""

    what: str
    name: str


# --- work that depends on values ------------------------------------------------------------------------------


class ValueBranch(FactKind):
    """A branch on values of inputs changes the arithmetic."""

    layer: str
    inputs: Names
    change: str
    sides: Names


class Downcast(FactKind):
    """Products or sums that are narrower than the problem allows."""

    what: str
    types: Names
    allowed: str
    inputs: Names
    share: str
    split: str


class EntrySplit(FactKind):
    """Products narrower than at another size or in another entry point."""

    entry: str
    types: Names
    between: str


class ShortGrid(FactKind):
    """A grid with fewer tiles than one group of rows may need."""

    name: str
    rows: int
    of: int


class ShortSeries(FactKind):
    """A power series for an inverse that ends before its last nonzero term."""

    terms: int
    needed: int


class ArithmeticExp(FactKind):
    """Exponentials made of additions, products and quotients alone."""

    input: str


class CutKeys(FactKind):
    """Indices that depend on keys without their lowest bits."""

    input: str
    bits: int


# --- inputs and symbols ---------------------------------------------------------------------------------------


class UnreadInput(FactKind):
    """An input or a weight that the result does not depend on."""

    name: str
    of: str
    how: str


class Banned(FactKind):
    """A symbol of the problem's ban list."""

    symbol: str
    path: str
    alias: bool


class Vendored(FactKind):
    """Functions of a published library that the file holds."""

    library: str
    version: str
    licence: str
    functions: Names
    share: float
    forbidden: bool
    reached: bool | None = None


class Licence(FactKind):
    """A licence or copyright line."""

    spdx: str
    holder: str


class StateIgnored(FactKind):
    """The submission's own load_state_dict takes nothing."""

    names: Names


# --- promises and broken code ---------------------------------------------------------------------------------


class BrokenPromise(FactKind):
    """A promise that does not hold, made of its states."""

    promise: str
    kind: str
    why: str


class BrokenCode(FactKind):
    """Code that Python refuses or that raises when it is reached."""

    what: str
    code: str
    message: str


class Crash(FactKind):
    """The traced run cannot come to its end."""

    what: str
    message: str


# --- problem folders ------------------------------------------------------------------------------------------


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
    """What a reduced shape loses."""

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


class Suppression(FactKind):
    """A comment that is not honoured or hides nothing."""

    rule: str
    state: str


KINDS: Mapping[str, type[FactKind]] = {kind_name(kind): kind for kind in FactKind.__subclasses__()}
