"""The kinds of facts about submissions: a class each, whose fields are the attributes that rules may ask for.

docs/facts.md says what they mean, and a test holds it against these classes. A rule that asks for another kind or
another attribute is refused when it is loaded. A field that is None is not known, and no attribute of that fact.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbh_lint.base import folder_facts
from kbh_lint.base.fact_kind import FactKind, Names, kinds_among

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
    """The L2 cache is asked to keep data beyond the kernel that reads it; `said` to be for another call."""

    kind: str
    what: str
    names: Names
    reads: str
    said: bool = False


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


class Suppression(FactKind):
    """A comment that is not honoured or hides nothing."""

    rule: str
    state: str


KINDS: Mapping[str, type[FactKind]] = {**kinds_among(globals()), **kinds_among(vars(folder_facts))}
