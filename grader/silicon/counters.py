"""What the hardware counted in one call, and what that says about a promise.

Executed operations are counted, not instructions that stand in the code: two for each product and sum of a tensor core,
whatever the instruction, so a count compares with the operations that `problem.yaml` gives. Padding makes it larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grader.deck.code import TORCH_DTYPES
from grader.silicon.kernels import DURATION
from grader.silicon.ncu import Launch, Unavailable
from kbh_lint.base.architectures import ARCHITECTURES, Counters
from kbh_lint.findings import State
from kbh_lint.problems import Contract, Problem, Promise, Shape
from kbh_lint.problems.promise_kinds import ON_A_GROUP, PromiseKind

__all__ = ["CHIPS", "KINDS", "Counts", "Judged", "compulsory", "counted", "metrics_of", "settle", "too_few_bytes"]

TENSOR = "sm__ops_path_tensor_src_"


CHIPS: Mapping[str, Counters] = {  # by compute capability, as Nsight Compute writes it
    f"{major}.{minor}": row.counters for (major, minor), row in ARCHITECTURES.items() if row.counters is not None
}

WHOLE = 0.999  # of the algorithm's operations: all of them, but for rounding in the counters
MOST_OTHER = 0.02  # of the algorithm's operations, on tensor cores of another type
MOST_PADDING = 4.0
LEAST_READ = 0.9  # of the compulsory bytes of the inputs, from a cold cache
MOST_UNPACKED = 0.5  # of the packed weights' bytes, by which more may be read than is compulsory


@dataclass(frozen=True, slots=True)
class Counts:
    """One call: operations of tensor cores by the type of their operands, bytes from and to DRAM, and seconds.

    `seconds` is the sum over its kernels, which the profiler runs one at a time. `requested`: bytes that load
    instructions asked for, 0 where that was not counted; copies by tensor descriptor are not among them.
    """

    tensor: Mapping[str, float]
    read: float
    written: float
    seconds: float
    launches: int
    requested: float = 0.0


@dataclass(frozen=True, slots=True)
class Judged:
    """The state of a promise at one shape and the sentence that goes with it."""

    state: State
    reason: str


def metrics_of(capability: str, problem: Problem | None = None) -> tuple[str, ...]:
    """The metrics that are asked of a chip, and of a problem where its promises need more.

    Raises Unavailable where none are known for it.
    """
    if capability not in CHIPS:
        raise Unavailable(f"no counters are known for a GPU of compute capability {capability}")
    chip = CHIPS[capability]
    return (
        DURATION,
        chip.read,
        chip.written,
        *(f"{TENSOR}{name}.sum" for kind in chip.tensor.values() for name in kind),
        *(chip.requested if problem and any(one.kind == PromiseKind.INT4_PACKED for one in problem.promises) else ()),
    )


def counted(launches: Sequence[Launch], capability: str) -> Counts:
    """Sums up the counts of the launches of one call."""
    chip = CHIPS[capability]

    def total(*metrics: str) -> float:
        return math.fsum(launch.metrics[metric] for launch in launches for metric in metrics)

    tensor = {kind: total(*(f"{TENSOR}{name}.sum" for name in names)) for kind, names in chip.tensor.items()}
    asked = all(metric in launch.metrics for launch in launches for metric in chip.requested)
    requested = total(*chip.requested) if asked else 0.0
    return Counts(tensor, total(chip.read), total(chip.written), total(DURATION), len(launches), requested)


def compulsory(problem: Problem, contract: Contract, shape: Shape) -> float:
    """Bytes that a call must read from a cold cache: those of the problem's formula, less its outputs."""
    outputs = contract.bind(shape).outputs
    written = sum(math.prod(spec.shape) * TORCH_DTYPES[spec.dtype].itemsize for spec in outputs)
    return max(problem.work(shape)[1] - written, 0.0)


def too_few_bytes(needed: float, read: float) -> str:
    """Why a call cannot have read its inputs from a cold cache, in one sentence; empty when it can."""
    if read >= LEAST_READ * needed:
        return ""
    return f"it read {_bytes(read)} of the {_bytes(needed)} that a cold call must read"


def settle(
    promise: Promise, problem: Problem, contract: Contract, shape: Shape, counts: Counts, source: State | None,
    code: State | None = None,
) -> Judged | None:  # fmt: skip
    """What the counts say of a promise at a shape; None where they say nothing about promises of its kind.

    `source` is what the linter says there: fp16 operations are emulated fp8 only where fp8 was written. `code` is what
    the machine code of the kernels that ran says, None where it was not found: it decides what bytes cannot tell.
    """
    if promise.kind not in KINDS:
        return None
    return KINDS[promise.kind](_Asked(promise, problem, contract, shape, counts, source, code))


@dataclass(frozen=True, slots=True)
class _Asked:
    promise: Promise
    problem: Problem
    contract: Contract
    shape: Shape
    counts: Counts
    source: State | None
    code: State | None


def _narrow_products(asked: _Asked) -> Judged:
    """Whether the operations ran on operands of the promised group of types, such as fp8."""
    group = asked.promise.kind.group
    needed, tensor = asked.problem.work(asked.shape)[0], asked.counts.tensor
    share = {kind: count / needed for kind, count in tensor.items()}
    others = {kind: value for kind, value in share.items() if kind != group and value > MOST_OTHER}
    told = _shares(share)
    if share.get(group, 0.0) >= WHOLE:
        if others:
            return Judged("unproven", f"the {group} operations are all there, but so are others: {told}")
        padded = f", padded {share[group]:.1f} times" if share.get(group, 0.0) > MOST_PADDING else ""
        return Judged("kept", f"{told}{padded}")
    if set(others) <= {"fp16"} and share.get(group, 0.0) + share.get("fp16", 0.0) >= WHOLE:
        if asked.source in ("kept", "emulated"):
            return Judged("emulated", f"{group} was written and fp16 ran: {told}")
        return Judged("broken", f"the operations ran in fp16: {told}")
    if share.get(group, 0.0) <= MOST_OTHER:
        where = f"ran on other tensor cores: {told}" if others else "did not run on tensor cores"
        return Judged("broken", f"the operations {where}")
    return Judged("unproven", f"only a part of the operations ran in {group}: {told}")


def _int4_packed(asked: _Asked) -> Judged:
    """Whether so few bytes were read, or asked for, that the weights cannot lie unpacked in memory.

    Tiles narrower than what memory gives at once are fetched more than once: then DRAM reads tell nothing, and the
    bytes that instructions asked for do, unless they are too few to be all that was read. A kernel that reads packed
    weights again for each tile of rows asks for as many bytes as one that reads unpacked ones once: then the code
    tells them apart, since only the first takes four-bit fields out of words where it multiplies.
    """
    names, bound = asked.promise.params["packed"], asked.contract.bind(asked.shape)
    specs = [spec for spec in (*bound.inputs, *bound.state.values()) if spec.name in names]
    packed = sum(math.prod(spec.shape) * TORCH_DTYPES[spec.dtype].itemsize for spec in specs)
    needed, read = compulsory(asked.problem, asked.contract, asked.shape), asked.counts.read
    told = f"{_bytes(read)} were read, where {_bytes(needed)} are compulsory with packed weights"
    most, requested = needed + MOST_UNPACKED * packed, asked.counts.requested
    if read <= most:
        return Judged("kept", told)
    if LEAST_READ * needed <= requested <= most:
        return Judged("kept", f"{told}; instructions asked for {_bytes(requested)}, so lines were fetched again")
    if asked.source == asked.code == "kept":
        return Judged("kept", f"{told}; packed ones were read again, as what multiplies takes them apart")
    return Judged("unproven", f"{told}; so many would be read of unpacked ones")


KINDS: Mapping[PromiseKind, Callable[[_Asked], Judged]] = {
    **dict.fromkeys(ON_A_GROUP, _narrow_products),
    PromiseKind.INT4_PACKED: _int4_packed,
}


def _shares(share: Mapping[str, float]) -> str:
    """`fp8 1.00, bf16 0.00` times the algorithm's operations, the largest first, without those that are nothing."""
    some = sorted(((value, kind) for kind, value in share.items() if value >= 0.0005), reverse=True)
    listed = ", ".join(f"{value:.2f} in {kind}" for value, kind in some) or "none"
    return f"of the algorithm's operations, tensor cores ran {listed}"


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} bytes"
