"""The single calls of one shape of a trial: on how many models and slots, and what is looked at of each. Further down,
those that another process is asked for again."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grader.deck.cases import Case, CaseSpec, model_group
from grader.deck.code import TORCH_DTYPES
from grader.deck.digest import digest_of
from grader.deck.keys import derive
from grader.judge import plan as planning
from grader.judge.answers import Called, expect, first_line
from grader.judge.batches import State
from grader.judge.plan import Group, ShapePlan
from grader.judge.resources import cache_bytes, ring_room
from grader.judge.seen import Sample, Seen
from grader.judge.ticking import BUILDING
from grader.record.cell import CaseOutcome
from grader.record.spread import of_samples
from grader.wire.frames import Kind
from kbh_lint.problems import Shape

if TYPE_CHECKING:
    from grader.judge.trial import Trial

__all__ = ["first_calls", "instances", "later_calls", "replay", "single_calls", "ungated_calls"]

COLD_CALLS = 8  # with an empty L2, of a model that gave other bits than the trial saw, the same in each warm call
MOST_INSTANCES = 16
MAKING_SECONDS = 4.0  # for the models of a shape: those that quantise weights of their own take a second each
COPYING_SECONDS = MAKING_SECONDS / 8  # as if a copy took so long: as many on every host, since times depend on it
UNGATED_CALLS = 5
SLOW_SECONDS = 0.5  # that making the models of a shape may take before all but one are to be copies of it
TIMED_PLACE = 4  # timed calls of a process on one place of memory
DIGESTS = 2  # of the outputs of a shape: hashing 100 MB takes 0.1 s


def first_calls(trial: Trial, plan: ShapePlan, state: Seen) -> bool:
    """Makes the calls of `plan.first`, which tell most, on one model and a few slots; returns whether any came to its
    end.
    """
    first = trial.case(plan.shape, plan.first[0], None)
    trial.say(f"{BUILDING} for {plan.shape.label}: its model")
    slots = max(1, min(planning.LEAST_ROUNDS, len(plan.first) // 2))  # each is met again with other values
    began = time.monotonic()
    loaded = trial.session.load(first.binding, [first.state], rounds=slots)
    trial.making[plan.shape.label] = time.monotonic() - began
    if not trial.usable(loaded, f"when its model was made at {plan.shape.label}", state):
        return False
    one = _Calls(trial, plan, Group(plan.first), state, frozenset())
    made = _made(one, first, [first.state], slots)
    making = trial.making[plan.shape.label]
    if made and making * instances(trial, first, making) >= SLOW_SECONDS and _copy_works(trial, plan):
        state.copied = True
    return made


def _copy_works(trial: Trial, plan: ShapePlan) -> bool:
    """Whether a copy of the model that was slow to make is as right as one that the submission makes itself.

    It has weights and values that nothing else has. A wrong result is held against nobody: it says that the other
    models are to be made one by one.
    """
    label = plan.shape.label
    case = trial.case(plan.shape, CaseSpec("copy", "nominal", state=model_group(MOST_INSTANCES)))
    loaded = trial.session.load(case.binding, [case.state], rounds=planning.LEAST_ROUNDS, copies=True)
    if loaded.kind != Kind.READY or loaded.numbers[:1] != (1.0,):
        return False
    called = trial.session.call(0, case.inputs, f"run a copy at {label}")
    return called.answer.kind == Kind.DONE and trial.compare(case, trial.session.outputs(0), Seen())


def single_calls(trial: Trial, plan: ShapePlan, group: Group, state: Seen) -> Sequence[State]:
    """Makes the calls of one group and notes the results in `state`. Returns the weights of the group's models; none
    when the models cannot be called further.
    """
    first = trial.case(plan.shape, group.specs[0], None)
    states, slots = _loaded(trial, plan.shape, group, first, state)
    if not states:
        return ()
    for part, calls in itertools.chain([(plan, group)], _more(trial, plan, state) if group.base else ()):
        one = _Calls(trial, part, calls, state, _asked_again(trial, calls, plan.shape, state))
        if not _made(one, first, states if group.base else None, slots):
            return ()
    return states


def later_calls(trial: Trial, plan: ShapePlan, state: Seen) -> Sequence[State]:
    """As `single_calls`, for the samples of a shape that were left to another process; makes no calls where none were
    left.
    """
    later = planning.later_calls(plan, trial.master, trial.options)
    if plan.shape.label in trial.split:
        return single_calls(trial, later, later.groups[0], state)
    group = plan.groups[0]
    return _loaded(trial, plan.shape, group, trial.case(plan.shape, group.specs[0], None), state)[0]


def ungated_calls(trial: Trial, shape: Shape, state: Seen, states: Sequence[State]) -> None:
    """Makes a few further calls for which the device waits, so that the host's launches are timed too; the result is a
    claim and is never scored.
    """
    if trial.session.device.type != "cuda" or trial.options.published or state.status != "right":
        return
    for number in range(UNGATED_CALLS):
        index = number % max(planning.LEAST_ROUNDS, len(states))
        case = trial.case(shape, CaseSpec(f"launch/{number}", "nominal"), states[index % len(states)])
        called = trial.session.call(index, case.inputs, f"run at {shape.label}", gated=False)
        if not trial.usable(called.answer, f"in a call at {shape.label}", state):
            return
        seconds = called.answer.numbers[:1]
        state.ungated += [one for one in seconds if math.isfinite(one) and one > 0]


def _loaded(trial: Trial, shape: Shape, group: Group, first: Case, state: Seen) -> tuple[Sequence[State], int]:
    """The states of the models that a group's calls take turns on, and how many slots; no states where they cannot be
    made.
    """
    making = COPYING_SECONDS if state.copied else trial.making.get(shape.label, 0.0)
    count = instances(trial, first, making)
    states = _states(trial, shape, first, count) if group.base else [first.state]
    slots = _slots(trial, first, len(states), len(group.timed)) if group.base else planning.LEAST_ROUNDS
    trial.say(f"{BUILDING} for {shape.label}: its models")
    loaded = trial.session.load(first.binding, states, rounds=slots, copies=state.copied)
    usable = trial.usable(loaded, f"when its model was made at {shape.label}", state)
    return states if usable else (), slots


def _made(one: _Calls, first: Case, states: Sequence[State] | None, slots: int) -> bool:
    """Makes the calls of a group in turns on slots and models; whether all of them came to an end that lets go on.

    `first` is the case of its first call, drawn already, unless models of other `states` take turns.
    """
    trial, shape, specs = one.trial, one.plan.shape, one.group.specs
    for number, spec in enumerate(specs):
        index = number % slots
        model = index % len(states or "1")
        case = first if number == 0 and not states else trial.case(shape, spec, states[model] if states else None)
        doing = f"{shape.label}: call {number + 1} of {len(specs)}"
        trial.say(f"{BUILDING} for {doing}" if trial.session.builds(index) else doing)
        if not one.made(case, index, model) or trial.over(one.state):
            return False
    return True


def instances(trial: Trial, case: Case, making: float = 0.0) -> int:
    """How many models take turns at a shape: so many that a call does not find its weights in the cache.

    A time also depends on where weights lie (0.7 % between processes for three models of 67 MB on an H200), so there
    are more models where they are small enough, and fewer, twice the cache in all, where making one takes long:
    `making` seconds.
    """
    options, device = trial.options, trial.session.device
    if options.instances is not None or not options.timing:
        return options.instances or 1
    weights, cache = sum(tensor.nbytes for tensor in case.state.values()), cache_bytes(device)
    if weights < 4096 or not cache:
        return 1
    slow = int(MAKING_SECONDS / max(making, 1e-6))
    cold, room = math.ceil((2 if slow < MOST_INSTANCES else 4) * cache / weights), ring_room(device)
    places = min(planning.PLACES_BYTES, room // 4) // weights  # the submission may hold three times as much
    return max(1, min(MOST_INSTANCES, max(cold, min(places, slow)), room // weights))


@dataclass(frozen=True, slots=True)
class _Calls:
    """Calls of one group; those in `again` may be asked for once more in the evidence pass."""

    trial: Trial
    plan: ShapePlan
    group: Group
    state: Seen
    again: frozenset[str]

    def made(self, case: Case, index: int, model: int) -> bool:
        """Makes one call of model number `model` on a slot and notes the result; returns whether the model can be
        called further.
        """
        trial, state, spec, label = self.trial, self.state, case.spec, self.plan.shape.label
        called = trial.session.call(index, case.inputs, f"run {spec.id} at {label}")
        state.calls += 1
        if called.answer.kind == Kind.FAULT:
            state.wrong_case(spec.id, f"{spec.id} at {label}: {first_line(called.answer.text)}")
        elif trial.usable(called.answer, f"in {spec.id} at {label}", state):
            self._taken(case, called, index, model)
        else:
            return False
        return True

    def _taken(self, case: Case, called: Called, index: int, model: int) -> None:
        """Copies what the call left, then looks whether the call counts for right or for time."""
        session, state, spec, label = self.trial.session, self.state, case.spec, self.plan.shape.label
        outputs = session.outputs(index)
        changed, again = session.changed(index, case.inputs), spec.id in self.again
        if changed:
            state.wrong_case(spec.id, f"{spec.id} at {label}: it changed its input {', '.join(changed)}")
        elif spec.id in self.plan.compared or again:
            self.trial.compare(case, outputs, state, model=model, digest=again)
        if spec.id in self.group.timed:
            seconds, waited = (*called.answer.numbers, 0.0, 0.0)[:2]
            seconds = seconds if math.isfinite(seconds) and seconds > 0 else 0.0
            state.samples.append(Sample(seconds, called.wall, called.visit))
            state.waited |= waited != 0


def _more(trial: Trial, plan: ShapePlan, state: Seen) -> Iterator[tuple[ShapePlan, Group]]:
    """More timed calls: the later ones where they are not left to another process, and in the last process as many
    as it takes until the middle of the times is known as well as it is wanted.
    """
    wanted = trial.wanted(plan.shape.label)
    if state.status == "right" and not trial.last:
        if wanted is not None:
            trial.split.add(plan.shape.label)
            return
        later = planning.later_calls(plan, trial.master, trial.options)
        yield later, later.groups[0]
    for number in range(0, planning.MOST_MORE if wanted and trial.last else 0, planning.MORE_SAMPLES):
        claimed = state.claimed
        error = of_samples(claimed, trial.options.trim)
        if state.status != "right" or wanted is None or error is None or error <= wanted.error:
            return
        if not planning.reachable(error, wanted.error, len(claimed), planning.MOST_MORE - number):
            return
        more = planning.more_calls(plan, trial.master, number, trial.options)
        yield more, more.groups[0]


def _asked_again(trial: Trial, group: Group, shape: Shape, state: Seen) -> frozenset[str]:
    """The timed calls that the evidence pass may ask for: drawn, so that they are not guessed.

    They are compared like those of the lot. As many are of the first calls as of the later ones.
    """
    timed = [spec.id for spec in group.specs if spec.id.startswith("timed/")]
    drawn = random.Random(derive(trial.master, "again", shape.label))
    left = DIGESTS - sum(case.digest != "" for case in state.cases)
    count = min(left, DIGESTS // 2 if trial.options.later else DIGESTS, len(timed))
    return frozenset(drawn.sample(timed, count)) if group.base else frozenset()


def _slots(trial: Trial, case: Case, models: int, timed: int) -> int:
    """Places of memory for inputs and outputs, in which the calls take turns: few where few are timed, since the first
    on each is no sample.
    """
    if trial.options.published:
        return 1
    outputs = case.binding.outputs
    out = sum(math.prod(spec.shape) * TORCH_DTYPES[spec.dtype].itemsize for spec in outputs)
    held = sum(tensor.nbytes for tensor in case.inputs.values()) + out
    places = planning.slot_count(trial.session.device.type if trial.options.timing else "cpu", models, held)
    return max(planning.LEAST_ROUNDS, models, min(places, timed // TIMED_PLACE))


def _states(trial: Trial, shape: Shape, first: Case, count: int) -> list[State]:
    """States of as many models: the plain one and others drawn like it."""
    others = (CaseSpec("state", "nominal", state=model_group(i)) for i in range(1, count))
    return [first.state, *(trial.case(shape, spec).state for spec in others)]


# --- asked again, of another process, on the same hidden values ---


def replay(trial: Trial, shape: Shape, seen: CaseOutcome, *, copied: bool) -> list[str]:
    """What differs at a shape, a sentence each. Of other bits that are right `trial.unsure` says so, unless bits are
    seen to be left to chance.

    The model may be a copy of one that was rehearsed, where the trial had copies; where that gives other results, the
    submission makes one itself.
    """
    case = trial.case(shape, CaseSpec(seen.case, "nominal", state=model_group(seen.model)))
    before = trial.unsure
    for copies in (True, False) if copied else (False,):
        trial.unsure = before
        loaded = trial.session.load(case.binding, [case.state], rounds=planning.LEAST_ROUNDS, copies=copies)
        expect(loaded, f"at {shape.label}")
        found = _differs(trial, case, seen)
        if loaded.numbers[:1] != (1.0,) or not found and trial.unsure == before:
            break
    return found


def _differs(trial: Trial, case: Case, seen: CaseOutcome) -> list[str]:
    """What differs in calls of the model that is loaded."""
    shape, marks, states = case.shape, [], Seen()
    for index in range(planning.LEAST_ROUNDS):
        marks.append(_again(trial, case, index, keep=index == planning.LEAST_ROUNDS - 1))
        trial.compare(case, trial.session.outputs(index), states)
    if not all(outcome.ok for outcome in states.cases):
        return [f"at {shape.label} it gave another result for the same values when it was asked again"]
    if _handed_out(trial, case, index, marks[-1]):
        return [f"at {shape.label} a call with unchanged inputs computed nothing: it handed out the result before"]
    if marks[0] != seen.digest and len(set(marks)) == 1 and not _by_chance(trial, case, index, marks[0]):
        trial.unsure = f"at {shape.label} it gave other bits for the same values when it was asked again, also right"
    return []


def _handed_out(trial: Trial, case: Case, index: int, fresh: str) -> bool:
    """Whether one more call on values that stayed gives the tensors of the last one, which were overwritten since.

    A model that needs what it returned before, on other values too, is another thing, and accused of nothing.
    """
    if _again(trial, case, index, written=False) == fresh or _right(trial, case, index):
        return False
    _again(trial, case, index, keep=True)
    return _again(trial, case, index) == fresh or _right(trial, case, index)


def _by_chance(trial: Trial, case: Case, index: int, warm: str) -> bool:
    """Whether a call that finds an empty L2, as those of the trial, gives other bits than all that found a warm one:
    blocks that add to one sum come in other orders then.
    """
    for _ in range(COLD_CALLS):
        trial.session.flush()
        if _again(trial, case, index) != warm:
            return _right(trial, case, index)
    return False


def _again(trial: Trial, case: Case, index: int, *, written: bool = True, keep: bool = False) -> str:
    """The digest of one more call; with `keep` what it returned is overwritten before the next one."""
    inputs = case.inputs if written else None
    called = trial.session.call(index, inputs, f"run at {case.shape.label}", keep=keep)
    expect(called.answer, f"at {case.shape.label}")
    return digest_of(trial.session.outputs(index), trial.master)


def _right(trial: Trial, case: Case, index: int) -> bool:
    """Whether the outputs of the last call are right, in other bits too."""
    return trial.compare(case, trial.session.outputs(index), Seen())
