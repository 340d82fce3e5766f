"""Trials on a small problem: calls that are asked again of a new process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from ground import Ground
from toy import HONEST

from grader.judge.judging import NotReplayed


def test_a_wrong_result_on_the_same_values_is_told_and_other_bits_or_a_crash_are_not_taken_for_one(
    ground: Callable[[str], Ground],
) -> None:
    here = ground(HONEST)
    result = here.trial()
    shape = result.shapes[0]
    forged = tuple(replace(case, digest="0" * 64 if case.digest else "") for case in shape.cases)
    with pytest.raises(NotReplayed, match="at 64x16x32 it gave other bits for the same values"):
        here.replay(replace(result, shapes=(replace(shape, cases=forged),)))
    here.snapshot.file.chmod(0o600)
    here.snapshot.file.write_text(HONEST.replace("return (x", "return 2 * (x"))
    said = ("at 64x16x32 it gave another result for the same values when it was asked again",)
    assert here.replay(result) == said
    here.snapshot.file.write_text("import os\nos._exit(3)\n")
    with pytest.raises(NotReplayed, match="ended its process"):
        here.replay(result)


def test_a_call_is_asked_again_of_a_model_with_the_same_weights(ground: Callable[[str], Ground]) -> None:
    here = ground(HONEST)
    trial = here.trial()
    (shape,) = trial.shapes
    others = [case for case in shape.cases if case.digest and case.model]
    keys = iter(range(1, 99))
    while not others:  # each call is the first of two models' or the other's
        trial = here.trial(master=bytes(31) + bytes([next(keys)]))
        (shape,) = trial.shapes
        others = [case for case in shape.cases if case.digest and case.model]
    only = replace(shape, cases=tuple(case if case in others else replace(case, digest="") for case in shape.cases))
    assert here.replay(replace(trial, shapes=(only,))) == ()
    first = replace(only, cases=tuple(replace(case, model=0) for case in only.cases))
    with pytest.raises(NotReplayed, match="other bits for the same values"):
        here.replay(replace(trial, shapes=(first,)))


def test_a_shape_without_a_call_that_could_be_asked_again_shows_nothing(ground: Callable[[str], Ground]) -> None:
    here = ground(HONEST)
    trial = here.trial()
    (shape,) = trial.shapes
    bare = replace(shape, cases=tuple(replace(case, digest="") for case in shape.cases))
    with pytest.raises(NotReplayed, match="no call that could be asked again: take more samples"):
        here.replay(replace(trial, shapes=(bare,)))
