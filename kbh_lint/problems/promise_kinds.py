"""The kinds of promises: what a problem may tell each about itself, and the facts that show one broken.

The analysis of each kind is a module of `kbh_lint.analyses.promises`, named after it; its `judge` cannot be imported
without one for all of them. What machine code says of a kind is in `grader.silicon.promises`, counters in `counters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from kbh_lint.base import dtypes
from kbh_lint.base.fact_kind import FactKind
from kbh_lint.base.facts import Arch, Compensation, Int4, LibraryWork, NoAuthoredKernel, Product, Selection, UnreadInput

NAMES = "names"  # of inputs and state
Params = Mapping[str, str | tuple[Any, ...]]  # what a parameter may hold: names, or one of these values

_WORK = {"inputs": NAMES, "must_read": NAMES}


def _products(group: str) -> tuple[str, Params, tuple[type[FactKind], ...], str]:
    """The promise that products run on the types of a group; all that look at it are told the group by the kind."""
    types = tuple(sorted(dtypes.group(group)))
    return f"{group}-products", {"narrow": NAMES, "product": types}, (Product, Arch), group


class PromiseKind(StrEnum):
    """A kind of promise; its text is what problem.yaml says.

    `params` are the parameters that its analysis uses, `facts` what rules that say how one is broken ask for. `group`
    is the group of element types (`dtypes.group`) that products run on, of a kind that promises this.
    """

    params: Params
    facts: tuple[type[FactKind], ...]
    group: str

    def __new__(cls, text: str, params: Params, facts: tuple[type[FactKind], ...], group: str = "") -> PromiseKind:
        made = str.__new__(cls, text)
        made._value_ = text
        made.params, made.facts, made.group = params, facts, group
        return made

    FP8_PRODUCTS = _products("fp8")
    AUTHORED_COMPUTE = (
        "authored-compute",
        {**_WORK, "work": ("product", "reduction", "elementwise", "some")},
        (LibraryWork, NoAuthoredKernel, UnreadInput),
    )
    COMPENSATED_SUM = "compensated-sum", {"over": NAMES, "term": ("exp",)}, (Compensation,)
    INT4_PACKED = "int4-packed", {"packed": NAMES, "scales": NAMES, "with": NAMES, "bits": (4,)}, (Int4,)
    AUTHORED_SELECTION = (
        "authored-selection",
        {**_WORK, "work": ("selection",), "select_from": NAMES},
        (Selection, LibraryWork, NoAuthoredKernel, UnreadInput),
    )
    PAGED_ONLINE_SOFTMAX = (
        "paged-online-softmax",
        {**_WORK, "work": ("product",)},
        (LibraryWork, NoAuthoredKernel, UnreadInput),
    )
    RAGGED_OFFSETS = "ragged-offsets", {"must_read": NAMES}, (UnreadInput,)


KINDS: Mapping[str, PromiseKind] = {kind.value: kind for kind in PromiseKind}
