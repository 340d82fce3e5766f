"""What the machine code of the kernels that ran says of a promise, at one shape.

Machine code shows what a kernel can execute and what it cannot; how often it did is for the counters. So a kernel
without a single fp8 instruction breaks the promise of fp8 products, and one with both fp8 and wider products proves
nothing here. Kernels whose code was not found, or of which several versions may have run, leave a promise unproven.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grader.silicon.sass.census import Census
from kbh_lint.base import dtypes
from kbh_lint.findings import State
from kbh_lint.problems import Promise
from kbh_lint.problems.promise_kinds import ON_A_GROUP, PromiseKind

__all__ = ["KINDS", "Ran", "Settled", "products_of", "settle"]

SHOWN_NAME = 60
FEW = 4  # four-bit fields, conversions: fewer are found in address arithmetic as well
MULTIPLIERS = ("FFMA", "FFMA2", "HFMA2", "IDP", "IDP4A", "DFMA")
# Kernels that come with torch and neither multiply matrices nor sum: fills, casts, copies, also into a larger tensor.
NEUTRAL = re.compile(r"at(?:6|::)native.{0,4096}(?:elementwise|CatArrayBatchedCopy|_pad_?\w*kernel|indexSelect)")


@dataclass(frozen=True, slots=True)
class Ran:
    """A kernel of a call. `found`: the machine code of that name that may have run, none when no cache holds any;
    `library`: who wrote it, where the submission did not."""

    name: str
    found: tuple[Census, ...]
    library: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """The state of a promise at one shape, and the instructions that show it in one sentence."""

    state: State
    reason: str


def settle(promise: Promise, source: State | None, ran: Sequence[Ran]) -> Settled | None:
    """What machine code says of a promise; None where it says nothing about promises of its kind.

    `source` is what the linter says at this shape: an fp16 product is emulated fp8 only where fp8 was written.
    """
    judge = KINDS.get(promise.kind)
    if judge is None:
        return None
    if not ran:
        return Settled("unproven", "it is not known which kernels ran")
    return judge(promise, source, ran)


# --- kinds of promises -------------------------------------------------------------------------------------


def _narrow_products(promise: Promise, source: State | None, ran: Sequence[Ran]) -> Settled | None:
    """Products on operands of the promised group of types, such as fp8, and no others."""
    name = promise.kind.group
    group = dtypes.group(name)
    promised = frozenset(promise.params.get("product") or group)
    kinds = [_alike(kernel, lambda one: _narrow_kind(one, promised, group)) for kernel in ran]
    if "" in kinds:
        return _unproven(ran[kinds.index("")], "has versions that multiply different types")
    shown = _shown_products(ran)
    narrow, wide, emulating = "narrow" in kinds, "wide" in kinds, "emulated" in kinds
    if "both" in kinds or (narrow and (wide or emulating)):
        return Settled("unproven", f"{name} products and others both stand in the code that ran: {shown}")
    if wide:
        return Settled("broken", f"the products are not in {name}: {shown}")
    dark = _dark(ran)
    if dark is not None:
        return _unproven(dark, _no_code(dark))
    if emulating:
        how = f"{shown}, after {_sum(ran, lambda one: one.unpacked(group))} conversions of {name} to f16"
        if source in ("kept", "emulated"):
            return Settled("emulated", f"{name} was written, and the compiler made fp16 products of it: {how}")
        return Settled("broken", f"{name} was widened before the product: {how}")
    if narrow:
        return Settled("kept", shown)
    return Settled("broken", "no kernel that ran holds a matrix instruction")


def _narrow_kind(one: Census, promised: frozenset[str], group: frozenset[str]) -> str:
    """`narrow`, `emulated` (fp16 products of what was unpacked), `wide`, `both`, `none` or, where a call leads to code
    that is not known, `dark`."""
    narrow = sum(times for product, times in one.matrix.items() if product.may_be_of(promised))
    wide = sum(one.matrix.values()) - narrow
    if narrow and wide:
        return "both"
    if narrow:
        return "narrow"
    if not wide:
        return "dark" if one.indirect_calls else "none"
    halves = all(product.types <= {"f16"} for product in one.matrix)
    return "emulated" if halves and one.unpacked(group) else "wide"


def _int4_packed(promise: Promise, source: State | None, ran: Sequence[Ran]) -> Settled | None:
    """Four-bit fields are taken out of words in the very kernel that multiplies. Where the code does not show how it
    takes them, it says nothing: the bytes that were read tell.
    """
    matrix = any(one.matrix for kernel in ran for one in kernel.found)
    kinds = [_alike(kernel, lambda one: _int4_kind(one, matrix)) for kernel in ran]
    if "" in kinds:
        return _unproven(ran[kinds.index("")], "has versions that unpack and versions that do not")
    if "plain" in kinds:
        name = _short(ran[kinds.index("plain")].name)
        return Settled("broken", f"{name} multiplies, and takes no four-bit fields out of words")
    dark = _dark(ran)
    if dark is not None:
        return _unproven(dark, _no_code(dark))
    if "unclear" in kinds:
        return None
    if "unpacks" not in kinds:
        return Settled("unproven", "no kernel that ran is seen to multiply")
    kernel = ran[kinds.index("unpacks")]
    one = kernel.found[0]
    masks, products = one.nibbles + one.small_masks, sum(one.matrix.values()) or one.count(*MULTIPLIERS)
    what = "matrix" if one.matrix else "multiply-add"
    return Settled(
        "kept", f"{_short(kernel.name)} holds {masks} masks of four-bit fields beside {products} {what} instructions"
    )


def _int4_kind(one: Census, matrix: bool) -> str:
    """`unpacks`, `plain` or `unclear` for a kernel that multiplies, `none` for one that does not."""
    if matrix and not one.matrix or not matrix and one.count(*MULTIPLIERS) < FEW:
        return "dark" if one.indirect_calls else "none"
    converted = one.count("I2F", "I2FP", "I2I", "I2IP") + one.exponents
    if one.nibbles >= FEW or (one.small_masks >= FEW and converted >= FEW):
        return "unpacks"
    if one.nibbles + one.small_masks + one.indirect_calls or one.count("SGXT", "IDP", "IDP4A"):
        return "unclear"
    return "plain"


def _compensated_sum(promise: Promise, source: State | None, ran: Sequence[Ran]) -> Settled | None:
    """Rounding errors are computed and kept: values that exact arithmetic would make zero."""
    found = [(kernel, _alike(kernel, _sum_kind)) for kernel in ran]
    for kernel, kind in found:
        if kind == "residual":
            count = min(one.residuals for one in kernel.found)
            return Settled(
                "kept", f"{_short(kernel.name)} computes {count} rounding errors in fp32 that the compiler left in"
            )
    for kernel, kind in found:
        if kind == "double":
            count = min(one.count("DADD", "DFMA") for one in kernel.found)
            return Settled("kept-by-precision", f"{_short(kernel.name)} adds in fp64: {count} instructions")
    mixed = next((kernel for kernel, kind in found if not kind), None)
    if mixed is not None:
        return _unproven(mixed, "has versions with and without a compensation")
    dark = _dark(ran)
    if dark is not None:
        return _unproven(dark, _no_code(dark))
    if source in ("kept", "kept-by-precision"):  # an accusation needs more than that nothing was seen
        return Settled("unproven", "no kernel that ran is seen to compute a rounding error, though the source keeps it")
    return Settled("broken", "no kernel that ran computes a rounding error: every fp32 sum is a plain one")


def _sum_kind(one: Census) -> str:
    if one.residuals:
        return "residual"
    if one.count("DADD", "DFMA"):
        return "double"
    return "dark" if one.indirect_calls else "none"


def _authored_compute(promise: Promise, source: State | None, ran: Sequence[Ran]) -> Settled | None:
    """For promises about products: a kernel whose code the submission brought multiplies."""
    if promise.params.get("work") != "product":
        return None
    for kernel in ran:
        if kernel.found and all(one.matrix or one.count(*MULTIPLIERS) >= FEW for one in kernel.found):
            one = kernel.found[0]
            what = products_of([one]) if one.matrix else f"{one.count(*MULTIPLIERS)} multiply-adds"
            return Settled("kept", f"{_short(kernel.name)}, which the submission brought, holds {what}")
    dark = _dark(ran)
    if dark is not None and not dark.library:
        return _unproven(dark, _no_code(dark))
    return Settled("broken", "no kernel that the submission brought multiplies")


KINDS: Mapping[PromiseKind, Callable[[Promise, State | None, Sequence[Ran]], Settled | None]] = {
    **dict.fromkeys(ON_A_GROUP, _narrow_products),
    PromiseKind.INT4_PACKED: _int4_packed,
    PromiseKind.COMPENSATED_SUM: _compensated_sum,
    PromiseKind.AUTHORED_COMPUTE: _authored_compute,
}


# --- what they share ---------------------------------------------------------------------------------------


def _alike(kernel: Ran, kind: Callable[[Census], str]) -> str:
    """The kind of a kernel: empty where the versions that may have run differ, `none` where no code was found."""
    kinds = {kind(one) for one in kernel.found}
    return "none" if not kinds else kinds.pop() if len(kinds) == 1 else ""


def _dark(ran: Sequence[Ran]) -> Ran | None:
    """A kernel that may do anything: no code of that name, or calls into code that is not known."""
    for kernel in ran:
        neutral = kernel.library == "torch" and NEUTRAL.search(kernel.name) is not None
        unknown = not kernel.found and not neutral
        if unknown or any(one.indirect_calls for one in kernel.found):
            return kernel
    return None


def _no_code(kernel: Ran) -> str:
    if kernel.found:
        return "calls functions whose code is not known"
    return "ran, and no compiler cache of the submission holds its machine code"


def _unproven(kernel: Ran, what: str) -> Settled:
    return Settled("unproven", f"{_short(kernel.name)} {what}")


def _short(name: str) -> str:
    return name if len(name) <= SHOWN_NAME else name[: SHOWN_NAME - 3] + "..."


def _sum(ran: Sequence[Ran], number: Callable[[Census], int]) -> int:
    return sum(max((number(one) for one in kernel.found), default=0) for kernel in ran)


def products_of(found: Sequence[Census]) -> str:
    """`8 QGMMA of e4m3`, by family and operand types."""
    total: Counter[tuple[str, str]] = Counter()
    for one in found:
        for product, times in one.matrix.items():
            total[(product.family, " by ".join(dict.fromkeys((product.a, product.b))).replace("|", " or "))] += times
    return ", ".join(f"{times} {family} of {kind}" for (family, kind), times in total.most_common())


def _shown_products(ran: Sequence[Ran]) -> str:
    """The matrix instructions of the kernels that have any."""
    unique = {kernel.name: kernel for kernel in ran if any(one.matrix for one in kernel.found)}
    texts = [f"{products_of(kernel.found[:1])} in {_short(kernel.name)}" for kernel in unique.values()]
    return "; ".join(texts) or "no matrix instruction"
