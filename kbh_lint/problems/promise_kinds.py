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


def _products(group: str) -> tuple[str, str, Params, tuple[type[FactKind], ...], str]:
    """The promise that products run on the types of a group; all that look at it are told the group by the kind."""
    holds = "the product that `narrow` feeds runs on operands of the `product` element types"
    types = tuple(sorted(dtypes.group(group)))
    return f"{group}-products", holds, {"narrow": NAMES, "product": types}, (Product, Arch), group


class PromiseKind(StrEnum):
    """A kind of promise; its text is what problem.yaml says.

    `holds` says when it does, for docs/problem-format.md (`make docs`). `params` are the parameters that its analysis
    uses, `facts` what rules that say how one is broken ask for. `group` is the group of element types (`dtypes.group`)
    that products run on, of a kind that promises this.
    """

    holds: str
    params: Params
    facts: tuple[type[FactKind], ...]
    group: str

    def __new__(
        cls, text: str, holds: str, params: Params, facts: tuple[type[FactKind], ...], group: str = ""
    ) -> PromiseKind:
        made = str.__new__(cls, text)
        made._value_ = text
        made.holds, made.params, made.facts, made.group = holds, params, facts, group
        return made

    FP8_PRODUCTS = _products("fp8")
    AUTHORED_COMPUTE = (
        "authored-compute",
        "the work on `inputs`, and the `activation` of what comes of it, run in kernels of the submission, and"
        " `must_read` reaches the result; an index in `must_read` is followed by kernels, not by torch's gathers",
        {**_WORK, "work": ("product", "reduction", "elementwise", "some"), "activation": ("swiglu", "geglu", "gelu")},
        (LibraryWork, NoAuthoredKernel, UnreadInput),
    )
    COMPENSATED_SUM = (
        "compensated-sum",
        "the sum of `term` over `over` carries a compensation that reaches the result",
        {"over": NAMES, "term": ("exp",)},
        (Compensation,),
    )
    INT4_PACKED = (
        "int4-packed",
        "`packed` is unpacked only inside the kernel that multiplies it with `with`, and `scales` reach the result",
        {"packed": NAMES, "scales": NAMES, "with": NAMES, "bits": (4,)},
        (Int4,),
    )
    AUTHORED_SELECTION = (
        "authored-selection",
        "the selection from `select_from` is authored",
        {**_WORK, "work": ("selection",), "select_from": NAMES},
        (Selection, LibraryWork, NoAuthoredKernel, UnreadInput),
    )
    PAGED_ONLINE_SOFTMAX = (
        "paged-online-softmax",
        "as `authored-compute`, and torch makes no exponentials of all scores",
        {**_WORK, "work": ("product",)},
        (LibraryWork, NoAuthoredKernel, UnreadInput),
    )
    RAGGED_OFFSETS = "ragged-offsets", "`must_read` is read on every path", {"must_read": NAMES}, (UnreadInput,)


KINDS: Mapping[str, PromiseKind] = {kind.value: kind for kind in PromiseKind}
ON_A_GROUP = frozenset(kind for kind in PromiseKind if kind.group)  # those that products run on a group of types


def docs_table() -> str:
    """The kinds as a table, for docs/problem-format.md."""
    rows = ["| kind | holds when | params |", "|---|---|---|"]
    for kind in PromiseKind:
        params = ", ".join(_shown(name, held) for name, held in kind.params.items())
        rows.append(f"| `{kind.value}` | {kind.holds} | {params} |")
    return "\n".join(rows) + "\n"


def _shown(name: str, held: object) -> str:
    return f"`{name}` ({', '.join(map(str, held))})" if isinstance(held, tuple) else f"`{name}`"
