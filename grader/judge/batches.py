"""The sealed batches of one shape of a trial: how many calls, how often, and what is looked at of each."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from grader.deck.cases import CaseSpec
from grader.deck.keys import derive
from grader.judge import plan as planning
from grader.judge.resources import cache_bytes, health_of, ring_room
from grader.judge.seen import Seen
from grader.record.cell import SealedBatch, denies, least_alone
from grader.record.spread import middle
from kbh_lint.problems import Shape

if TYPE_CHECKING:
    from grader.judge.trial import Trial

__all__ = ["State", "lone_calls", "sealed_batches"]

State = Mapping[str, Tensor]
MOST_ALONE = 31  # sealed calls alone at a time, until one leaves the time that would be scored possible
SPELLS = (0.0, 0.3, 0.6)  # seconds before each time: for so long a host may disturb every call
FIRST_ALONE = 1 << 20  # the number of the first of them, after those of all batches


def sealed_batches(trial: Trial, shape: Shape, state: Seen, models: Sequence[State]) -> None:
    """Runs sealed batches on the models with these weights and adds those that count to `state.sealed`: short ones,
    then as long as it takes.

    The claimed time of a call says how many calls a batch needs, unless short batches deny the claim. The first short
    batch alone does not: it may have waited for what is loaded at a first launch, so more are made. Where long batches
    then leave the claim possible, the short ones were disturbed, and batches of as many calls as the claim needs count.
    Where a GPU's deny it still, a spell of the host may: more are made after a pause.
    """
    runs, options = _Runs(trial, shape, state, models, itertools.count()), trial.options
    claimed = middle(state.claimed, options.trim) if state.claimed else 0.0
    before = health_of(trial.session.device)
    short = runs.repeated(planning.LEAST_ROUNDS, 1)
    if short and not planning.bears_out(short, claimed):
        short = runs.repeated(planning.LEAST_ROUNDS, options.batches, prepared=True)
    if not short:
        return
    possible = planning.bears_out(short, claimed)
    sealed = runs.lasting(claimed if possible else min(batch.per_call for batch in short), claimed) or short
    if not possible and state.status == "right" and planning.bears_out(sealed, claimed):
        sealed = runs.lasting(claimed, claimed) or sealed
    state.sealed += [*sealed, *(_after_spells(runs, sealed, claimed) if trial.on_gpu else ())]
    state.health = [reading for reading in (before, health_of(trial.session.device)) if reading]


def _after_spells(runs: _Runs, sealed: Sequence[SealedBatch], claimed: float) -> list[SealedBatch]:
    """Batches that are made after each pause, for as long as all before deny the claim.

    None where a short one denies it too: calls that are truly slow would take as long again.
    """
    found: list[SealedBatch] = []
    for pause in SPELLS[1:]:
        if runs.state.status != "right" or not planning.denied([*sealed, *found], claimed):
            break
        time.sleep(pause)
        short = runs.repeated(planning.LEAST_ROUNDS, 1)
        if short and planning.bears_out(short, claimed):
            found += runs.lasting(claimed, claimed)
    return found


def lone_calls(trial: Trial, shape: Shape, state: Seen, models: Sequence[State]) -> None:
    """Makes sealed calls alone, on values that nobody had before the clock was read, as those of a batch.

    The calls of a batch may share work, or be done at the same time; one alone has nobody to share with. What disturbs
    a call only makes it longer, so one that leaves the claim and the batches possible is enough. Where none does, the
    shape is noted in `trial.denied`, and the next process makes calls alone again; it makes none if the earlier ones
    leave possible what would be scored now.
    """
    if state.status != "right" or not state.sealed:
        return
    runs = _Runs(trial, shape, state, models, itertools.count(FIRST_ALONE + len(state.alone)))
    prepared = False
    for pause in SPELLS:
        if state.alone and not _denied(trial, shape, state):
            return
        time.sleep(pause)
        for _ in range(MOST_ALONE):
            found = runs.one(1, next(runs.numbers), prepared=prepared, alone=True)
            if found is None:
                return
            prepared = True
            state.alone.append(found)
            if not _denied(trial, shape, state):
                return
    trial.denied.add(shape.label)


def _denied(trial: Trial, shape: Shape, state: Seen) -> bool:
    """Whether the calls that were made alone deny the time that would be scored by what is known now."""
    if not state.alone or not state.sealed:
        return False
    claimed = middle(state.claimed, trial.options.trim) if state.claimed else 0.0
    scored = max(claimed, min(batch.per_call for batch in state.sealed))
    least = least_alone(state.alone, trial.nulls[shape.label].alone_middle)
    return denies(trial.session.device.type, least, scored)


@dataclass(frozen=True, slots=True)
class _Runs:
    """What batches are run on. Every batch has a number of its own, from which its values are drawn."""

    trial: Trial
    shape: Shape
    state: Seen
    models: Sequence[State]
    numbers: Iterator[int]

    def lasting(self, seconds: float, claimed: float) -> list[SealedBatch]:
        """Runs batches that are long enough for their clock where a call takes `seconds`; on a CPU one is a rehearsal.

        Returns none where such batches would last too long, or where one fails. On a GPU more are run until the
        quickest agree, and while they are a little above what was `claimed`.
        """
        session, count = self.trial.session, self.trial.options.batches
        slot_bytes, device = session.in_bytes + session.out_bytes, session.device
        rounds = planning.round_count(device.type, seconds, slot_bytes, cache_bytes(device), ring_room(device))
        if seconds * rounds > planning.SLOW_BATCH_SECONDS:
            return []
        rehearsals = 0 if self.trial.on_gpu else 1  # a GPU's first batch, if it takes longer, does not count anyhow
        found = self.repeated(rounds, count + rehearsals)[rehearsals:]
        for _ in range(planning.MORE_BATCHES if self.trial.on_gpu else 0):
            if self.state.status != "right" or planning.settled(found, claimed):
                break
            found += self.repeated(rounds, 1, prepared=True)
        return found

    def repeated(self, rounds: int, count: int, *, prepared: bool = False) -> list[SealedBatch]:
        """Runs `count` batches of `rounds` calls; returns none as soon as one fails."""
        found: list[SealedBatch] = []
        for number in itertools.islice(self.numbers, count):
            sealed = self.one(rounds, number, prepared=prepared or bool(found))
            if sealed is None:
                return []
            found.append(sealed)
        return found

    def one(self, rounds: int, number: int, *, prepared: bool, alone: bool = False) -> SealedBatch | None:
        """Runs one batch, or one call `alone`, and compares outputs drawn by lot, and all others too where the oracle
        is cheap. Returns None when it failed.
        """
        trial, session, state, label = self.trial, self.trial.session, self.state, self.shape.label
        trial.say(f"{label}: {rounds} {'calls' if rounds > 1 else 'call'} on the judge's clock")
        doing, when = f"run a batch at {label}", f"in a batch at {label}"
        example = None
        if not prepared or alone:  # values of its own, so that none are ever seen twice
            example = trial.case(self.shape, CaseSpec(f"sealed/{number}/example", "nominal"), self.models[0]).inputs
        if not prepared and not trial.usable(session.prepare(rounds, example, doing), when, state):
            return None
        specs = planning.batch_specs(number, rounds)
        cases = (trial.case(self.shape, spec, self._model(i)) for i, spec in enumerate(specs))
        drawn = random.Random(derive(trial.master, "lot", label, number))
        lot = drawn.sample(range(rounds), min(rounds, planning.LOT))
        if alone:
            called = session.alone(next(cases).inputs, doing, example if prepared else None)
        else:
            called = session.batch(cases, rounds, lot, doing)
        if not trial.usable(called.answer, when, state):
            return None
        state.calls += rounds
        state.eager |= called.answer.numbers[:1] == (0.0,)
        late: Iterable[int] = () if trial.options.compare_least is not None else sorted(set(range(rounds)) - set(lot))
        outputs = {**called.outputs, **{index: session.late_outputs(index) for index in late}}
        for index in outputs:
            case = trial.case(self.shape, specs[index], self._model(index))
            changed = session.changed(index, case.inputs, batch=True)
            if changed:
                state.fault(f"a batch at {label}: it changed its input {', '.join(changed)}")
            trial.compare(case, outputs[index], state, model=index % len(self.models))
        unfinished = session.unfinished(called, rounds)
        if unfinished:
            state.fault(f"at {label}: {unfinished}")
        return SealedBatch(rounds, called.wall, trial.nulls[label].overhead(rounds, called.wall))

    def _model(self, index: int) -> State:
        return self.models[index % len(self.models)]
