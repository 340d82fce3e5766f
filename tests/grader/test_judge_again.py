"""Trials on a small problem: calls that are asked again of a new process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from ground import Ground
from toy import HONEST

from grader.judge import single_calls
from grader.judge.judging import NotReplayed
from grader.judge.seen import Seen
from grader.wire.frames import Frame, Kind


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


@pytest.mark.parametrize(
    ("cold", "said"), [(["b"], ""), (["a", "a", "b"], ""), (["a"] * 8, "other bits"), (["x"], "other bits")]
)
def test_bits_that_cold_calls_alone_have_are_left_to_chance(
    monkeypatch: pytest.MonkeyPatch, cold: list[str], said: str
) -> None:
    """`a` is what warm calls give, `b` is right too, and `x` is not."""
    left, calls = iter(cold), SimpleNamespace(now="a")
    session = SimpleNamespace(
        load=lambda *_, **__: Frame(Kind.DONE, 0), flush=lambda: setattr(calls, "now", next(left)),
        call=lambda *_, **__: SimpleNamespace(answer=Frame(Kind.DONE, 0)), outputs=lambda _: calls.now,
    )  # fmt: skip
    case = SimpleNamespace(shape=SimpleNamespace(label="here"), binding=None, state=None, inputs={})

    def compare(_: object, outputs: str, states: Seen) -> bool:
        states.cases.append(SimpleNamespace(ok=outputs != "x"))  # type: ignore[arg-type]
        return outputs != "x"

    trial = SimpleNamespace(session=session, unsure="", master=b"", case=lambda *_: case, compare=compare)
    monkeypatch.setattr(single_calls, "digest_of", lambda outputs, _: outputs)
    seen = SimpleNamespace(case=0, model=0, digest="c")
    assert single_calls.replay(trial, case.shape, seen, copied=False) == []  # type: ignore[arg-type]
    assert (said in trial.unsure) if said else not trial.unsure
