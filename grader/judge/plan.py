"""What a trial will call, decided before the submission is started: cases and timed calls in one shuffled order.

Plain data from a secret key. A call that is timed looks to the candidate like one that is checked, and the choice of
what is compared is the judge's own.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from grader.deck.cases import BASE, CaseSpec, plan_cases, state_group
from grader.deck.code import Code, DeckError
from grader.deck.keys import derive
from grader.record.cell import SealedBatch
from grader.record.spread import MEDIAN, Wanted
from kbh_lint.problems import Problem, Shape

__all__ = [
    "Group", "ShapePlan", "TrialOptions", "batch_specs", "bears_out", "default_options", "denied", "graded_shapes",
    "later_calls", "more_calls", "null_rounds", "plan_shape", "reachable", "round_count", "settled", "slot_count",
]  # fmt: skip

BUILD_SECONDS = 300.0
LEAST_ROUNDS = 3
NEAR = 1.03  # the longest of the batches that count over the shortest
DISTURBED = 1.25  # a proof so far above a claim is not for reasons of ours
QUICKEST = 2  # sealed batches of a GPU that count: what disturbs one only makes it longer
MORE_BATCHES = 8  # that a GPU's shape may take until these agree
SLACK_SECONDS = 3e-4  # by which a call of a short batch may be slower for reasons of ours
PLACES, PLACES_BYTES = 32, 4 << 30  # slots of timed calls on a GPU, and what they may take
MORE_SAMPLES, MOST_MORE = 100, 400  # timed calls that a shape gets at a time, and in all, where they vary much
HOPE = 1.25  # by which an error may be estimated too large
GPU_TRIM = 0.1  # of the claimed times at each end
LOT = 8  # outputs of a batch that are copied within its time
NULL_ROUNDS = {"cpu": 48, "cuda": 512}  # the longer batch by which the cost of an empty call is learned
MOST_ROUNDS = 1024
CPU_RING_BYTES = 256 << 20
# Of free memory, for each of the two rings that exist while a batch is revealed. What a large ring costs beyond an
# empty batch (1 to 1.5 ms) weighs less in a long batch: rings of 8 and 16 GiB made proofs of short calls worse.
GPU_RING_SHARE = 0.2
SEALED_SECONDS = {"cpu": 5e-3, "cuda": 10e-3}  # what a batch should last; revealing one jitters by 0.15 ms on a GPU
SLOW_BATCH_SECONDS = 0.2  # batches longer than this need no rehearsal and no repetition
_DRAWING = threading.Lock()  # hypothesis and imports of the deck's code are not for several threads at once


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """How much a trial does. `timeout` bounds the seconds of the submission's calls in all, `call_timeout` those of one
    call, `build_timeout` those of building in a process: the import, its models, and the first call of each.
    The first result that is wrong is the last one that is asked for, unless `all_cases` are wanted.

    `samples` timed calls a shape count after `warmups` calls, and `later` ones after those. Of a shape (by its label)
    that `wanted` wants to be known well the later ones are taken in a second process, which is there for nothing
    else: how long a call takes depends on the process too. `batches` are sealed ones. `compare_least` is how many
    timed calls of the first are compared where comparing all is too dear (None: all), and as large a share of the
    others. `instances` models with weights of their own take turns (None: as many as it takes that weights are not
    found in the cache). `trim` is the share of claimed times at each end that does not count for their middle. With
    `published` the claimed clock is that of the protocol of 2026-04, all single calls get the same tensors, and the
    median counts.
    """

    samples: int
    warmups: int
    batches: int
    timeout: float
    call_timeout: float
    compare_least: int | None
    instances: int | None = None
    timing: bool = True
    published: bool = False
    trim: float = MEDIAN
    wanted: Mapping[str, Wanted] = field(default_factory=dict)
    later: int = 0
    build_timeout: float = BUILD_SECONDS
    all_cases: bool = False


def default_options(device: str, *, timeout: float = 600.0, build_timeout: float = BUILD_SECONDS) -> TrialOptions:
    """The usual options of a trial on `device`: 200 samples on a GPU, of which 16 are compared and half may be taken in
    a second process; 10 on a CPU, where calls may be interpreted, all of them compared.

    Events of one call on an H200 vary by 0.5 us and more, those of a kernel that reads scattered pages by 4 %: the
    middle of 200 is known to 0.3 %. More are taken where a time has to be known better.
    """
    if device.startswith("cuda"):
        return TrialOptions(
            100, 10, 3, timeout, min(60.0, timeout), 8, trim=GPU_TRIM, later=100, build_timeout=build_timeout
        )
    return TrialOptions(10, 3, 2, timeout, min(120.0, timeout), None, 2, build_timeout=build_timeout)


@dataclass(frozen=True, slots=True)
class Group:
    """Calls that share a state, and so a model. `timed` are the ids whose times count, in the order of the calls."""

    specs: tuple[CaseSpec, ...]
    timed: tuple[str, ...] = ()

    @property
    def base(self) -> bool:
        """Whether this is the group of the problem's plain state."""
        return self.specs[0].state == BASE


@dataclass(frozen=True, slots=True)
class ShapePlan:
    """The calls of one shape, group after group. Ids in `compared` are held against the oracle.

    `first` are those on the plain state that tell most, which come before a call of any shape is timed; none where
    nothing is timed. As many of each kind are left among the timed calls, so that these need a model that is right on
    all.
    """

    shape: Shape
    groups: tuple[Group, ...]
    compared: frozenset[str]
    first: tuple[CaseSpec, ...] = ()

    @property
    def calls(self) -> int:
        """Number of single calls."""
        return len(self.first) + sum(len(group.specs) for group in self.groups)


def graded_shapes(problem: Problem, scale: str) -> tuple[Shape, ...]:
    """The shapes of a scale: `full` ones are scored, `reduced` ones are what a CPU can run. Raises DeckError."""
    shapes = problem.shapes if scale == "full" else problem.reduced
    if not shapes:
        raise DeckError(f"{problem.id} has no {scale} shapes")
    return shapes


def plan_shape(problem: Problem, shape: Shape, master: bytes, options: TrialOptions, code: Code) -> ShapePlan:
    """The plan of one shape. Raises DeckError for faults of the problem."""
    with _DRAWING:
        cases = plan_cases(problem, shape, master, code=code)
    timed = [CaseSpec(f"timed/{i}", "nominal", i) for i in range(_extra(options))]
    order = random.Random(derive(master, "order", shape.label))
    plain = [spec for spec in cases if options.timing and state_group(spec) == BASE]
    telling = [spec for spec in plain if spec.kind != "stress" and spec.id.endswith("/0")]
    order.shuffle(telling)
    groups: dict[str, list[CaseSpec]] = {}
    for spec in [*(case for case in cases if case not in telling), *timed]:
        groups.setdefault(state_group(spec), []).append(spec)
    shuffled = list(groups.values())
    order.shuffle(shuffled)
    for group in shuffled:
        order.shuffle(group)
    chosen = [spec.id for spec in timed]
    order.shuffle(chosen)
    least = len(chosen) if options.compare_least is None else options.compare_least
    compared = frozenset([spec.id for spec in cases] + chosen[:least])
    planned = tuple(Group(tuple(specs), _counted(specs, options)) for specs in shuffled)
    return ShapePlan(shape, planned, compared, tuple(telling))


def later_calls(plan: ShapePlan, master: bytes, options: TrialOptions) -> ShapePlan:
    """The plan of a shape's calls in a second process: warm-ups and `options.later` samples."""
    return _timed_calls(plan, master, options, _extra(options), options.warmups, options.later)


def more_calls(plan: ShapePlan, master: bytes, number: int, options: TrialOptions) -> ShapePlan:
    """The plan of MORE_SAMPLES further timed calls of a shape, after all planned ones and `number` further ones."""
    first = _extra(options) + (options.later and options.warmups + options.later) + number
    return _timed_calls(plan, master, options, first, 0, MORE_SAMPLES)


def reachable(error: float, wanted: float, samples: int, more: int) -> bool:
    """Whether `more` samples may bring a standard `error`, which `samples` samples have, down to what is `wanted`: at
    best it falls with the square root of their number. Where a time drifts for longer than they take, or differs
    between processes, they change nothing.
    """
    return error <= HOPE * wanted * math.sqrt(1 + more / max(samples, 1))


def _timed_calls(
    plan: ShapePlan, master: bytes, options: TrialOptions, first: int, warmups: int, count: int
) -> ShapePlan:  # fmt: skip
    """Plain calls from the number `first` on that no plan has yet; as large a share is compared as of its own."""
    specs = tuple(CaseSpec(f"timed/{i}", "nominal", i) for i in range(first, first + warmups + count))
    names = tuple(spec.id for spec in specs)
    least = len(names) if options.compare_least is None else options.compare_least * count // options.samples
    lot = random.Random(derive(master, "more", plan.shape.label, first)).sample(names, min(max(least, 1), len(names)))
    return ShapePlan(plan.shape, (Group(specs, names[warmups:]),), plan.compared | frozenset(lot))


def _extra(options: TrialOptions) -> int:
    return options.samples + options.warmups if options.timing else 0


def _counted(specs: Sequence[CaseSpec], options: TrialOptions) -> tuple[str, ...]:
    """The first `samples` plain calls after the warm-ups; there are as many, because warm-ups were planned for."""
    after = [spec.id for spec in specs[options.warmups :] if spec.id.startswith("timed/")]
    return tuple(after[: options.samples])


def batch_specs(batch: int, rounds: int) -> list[CaseSpec]:
    """The calls of one sealed batch: plain values that no other call gets."""
    return [replace(CaseSpec("", "nominal", i), id=f"sealed/{batch}/{i}") for i in range(rounds)]


def slot_count(device: str, models: int, slot_bytes: int) -> int:
    """How many slots the single calls take turns on: few, so that calls meet the same addresses with other values.

    On a GPU a time depends on where in memory tensors lie (copies of 32 MB on an H200 differ by 2 %), so there are as
    many places as there is room for, and the middle of all counts.
    """
    places = min(PLACES, PLACES_BYTES // max(slot_bytes, 1)) if device == "cuda" else 0
    return max(LEAST_ROUNDS, models, places)


def null_rounds(device: str, slot_bytes: int, room: int) -> int:
    """How many calls the longer batch of empty calls makes: what fits, and at least one more than the short one."""
    return max(LEAST_ROUNDS + 1, min(NULL_ROUNDS[device], room // max(slot_bytes, 1)))


def bears_out(short: Sequence[SealedBatch], claimed: float) -> bool:
    """Whether `short` batches are compatible with a `claimed` time of a call: up to four times as long may be the
    judge's overhead.
    """
    return min(batch.per_call for batch in short) <= 4 * claimed + SLACK_SECONDS


def settled(batches: Sequence[SealedBatch], claimed: float) -> bool:
    """Whether more sealed batches would say no more about a claim.

    The quickest, which count, are near one another, and at most as long as the claim or so long that nothing of ours
    explains it.

    What disturbs a batch only makes it longer, and no call takes less than it needs: more batches cannot prove less
    than what is true.
    """
    walls = sorted(batch.seconds / batch.rounds for batch in batches)[:QUICKEST]
    if len(walls) < QUICKEST or walls[-1] > NEAR * walls[0]:
        return False
    return _proved(batches) <= claimed or denied(batches, claimed)


def denied(batches: Sequence[SealedBatch], claimed: float) -> bool:
    """Whether a call of a GPU's sealed batches took so much longer than claimed that nothing of ours explains it."""
    return _proved(batches) > DISTURBED * claimed


def _proved(batches: Sequence[SealedBatch]) -> float:
    return fmean(sorted(batch.per_call for batch in batches)[:QUICKEST])


def round_count(device: str, seconds: float, slot_bytes: int, cache_bytes: int, room: int) -> int:
    """How many calls a sealed batch has: it lasts SEALED_SECONDS and touches four times the cache, as far as there is
    room.

    `seconds` is what one call takes, `slot_bytes` its inputs and outputs, `room` bytes for all slots.
    """
    lasting, cold = SEALED_SECONDS[device] / max(seconds, 1e-6), 4 * cache_bytes / max(slot_bytes, 1)
    most = min(MOST_ROUNDS, room // max(slot_bytes, 1))
    return max(LEAST_ROUNDS, min(most, int(max(lasting, cold)) + 1))
