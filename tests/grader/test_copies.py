"""Models that are slow to make are copied where a copy means the same, and made one by one where it does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from ground import OPTIONS, Ground
from torch import nn
from toy import HONEST

from grader.candidate import copies as module
from grader.candidate.clock.outside import run
from grader.candidate.copies import Copies, plain
from grader.record.cell import TrialResult

INIT = "        super().__init__()\n"


class Plain(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(n))
        self.register_buffer("packed", torch.zeros(n, dtype=torch.uint8))
        self.inner = nn.ModuleList([nn.Linear(2, 2)])
        self.sizes, self.buffer = {"n": (n, "x", None)}, torch.empty(n, dtype=torch.bfloat16)


STATE = frozenset({"w", "packed", "inner.0.weight", "inner.0.bias"})


def test_a_model_of_plain_values_can_be_copied_with_what_the_judge_loads_into_it() -> None:
    assert plain(Plain(4), STATE) == 16 + 4 + 16 + 8 + 8


@pytest.mark.parametrize(
    "held",
    [
        lambda model: model.w.data_ptr() | 1 << 40, lambda model: torch.tensor([model.w.data_ptr()]),
        lambda model: torch.zeros(128, dtype=torch.uint8), lambda model: [lambda: model.w], lambda model: object(),
        lambda model: {"deep": [[[[[[[[model.w]]]]]]]]},
    ],
    ids=["an address", "addresses", "a descriptor", "a function", "an object", "too deep"],
)  # fmt: skip
def test_what_may_stand_for_a_place_in_memory_is_in_no_copy(held: Callable[[Plain], Any]) -> None:
    model = Plain(4)
    model.kept = held(model)
    assert plain(model, STATE) is None


def test_only_what_is_slow_to_make_is_copied_and_only_where_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make(n: int) -> nn.Module:
        made.append(n)
        return Plain(n)

    quick, slow = Copies(), Copies()
    run(quick.model(make, [4], tuple(STATE), True))
    run(quick.model(make, [4], tuple(STATE), True))
    assert len(made) == 2 and quick.used == 0
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    first = run(slow.model(make, [4], tuple(STATE), True))
    first.w.data.fill_(1.0)
    copied = run(slow.model(make, [4], tuple(STATE), True))
    assert len(made) == 3 and slow.used == 1 and copied is not first and not copied.w.any(), (
        "as it was when it was made"
    )
    run(slow.model(make, [4], tuple(STATE), False))
    run(slow.model(make, [5], tuple(STATE), True))
    assert made[3:] == [4, 5] and slow.used == 1


def slow(init: str = "", forward: str = "") -> str:
    """The honest submission with a slow `__init__` that tells of itself."""
    text = "import time\n" + HONEST.replace(
        INIT, INIT + "        time.sleep(0.3)\n        print('made', flush=True)\n" + init
    )
    return text.replace("        return (x", f"{forward}        return (x")


def graded(tmp_path: Path, text: str) -> tuple[TrialResult, int]:
    """A trial, and how often a model was made in it."""
    here = Ground(tmp_path, text)
    trial = here.trial(OPTIONS)
    return trial, "".join(here.logs).count("made")


def test_a_trial_of_a_slow_model_makes_it_once_a_shape(tmp_path: Path) -> None:
    trial, made = graded(tmp_path, slow())
    assert trial.status == "right", trial.message
    assert made == 1 and {case.model for case in trial.shapes[0].cases} == {0, 1}
    assert all(case.case != "copy" for case in trial.shapes[0].cases), "the call on trial is no case"


def test_a_model_whose_copies_are_wrong_is_made_again_each_time_and_is_right(tmp_path: Path) -> None:
    """Its class knows each model that it made, as tables of launch arguments do."""
    known = "        KNOWN.append(self)\n"
    text = slow(known, "        self = next(one for one in KNOWN if one.tag == self.tag)\n").replace(
        "class Model", "KNOWN = []\n\n\nclass Model"
    )
    text = text.replace(known, known + "        self.tag = len(KNOWN)\n")
    trial, made = graded(tmp_path, text)
    assert trial.status == "right", trial.message
    assert made > 2


def test_copies_that_are_one_object_have_the_weights_that_were_loaded_last_and_are_wrong(tmp_path: Path) -> None:
    text = slow().replace(
        "    def forward", "    def __reduce_ex__(self, how):\n        return one, ()\n\n    def forward"
    )
    text = text.replace(INIT, INIT + "        self.sizes = M, N, K\n        ONE.append(self)\n")
    trial, _ = graded(tmp_path, f"{text}\n\nONE = []\n\n\ndef one():\n    return ONE[0]\n")
    assert trial.status == "wrong"
