# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""What the judge has of a candidate's answer, and what it makes of it: go on, or end with one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from grader.record.cell import ShapeStatus
from grader.wire.frames import Frame, Kind, clean_text

__all__ = ["Batch", "Called", "Ended", "expect", "first_line"]

MESSAGE_CHARACTERS = 1000
DETAIL_CHARACTERS = 3000


@dataclass(frozen=True, slots=True)
class Called:
    """An answer, and seconds by the judge's clock from before the values were written until it came. `visit` is
    how often the process had called on the slot before, and may have made a graph for its address; None on a device
    without graphs.
    """

    answer: Frame
    wall: float
    visit: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The answer to a batch, its seconds by the judge's clock, and what was copied within them.

    `outputs` are those of a few slots; `bytes` lie at secret `places`, a row of them in each slot.
    """

    answer: Frame
    wall: float
    outputs: Mapping[int, tuple[Tensor, ...]]
    places: Tensor
    bytes: Tensor


class Ended(Exception):
    """Nothing further can be asked: the text is one sentence about the submission."""

    def __init__(self, status: ShapeStatus | Literal["refused"], message: str, detail: str = "") -> None:
        super().__init__(message)
        self.status: ShapeStatus | Literal["refused"] = status
        self.detail = detail


def expect(answer: Frame, when: str) -> None:
    """Raises Ended unless the answer is that all went well."""
    if answer.kind in (Kind.READY, Kind.DONE):
        return
    first, detail = first_line(answer.text), clean_text(answer.text, DETAIL_CHARACTERS).partition("\n")[2]
    if answer.kind == Kind.REFUSED:
        raise Ended("refused", f"it cannot be graded on this machine: {first}")
    if answer.kind == Kind.ERROR:
        raise Ended("crashed", f"the submission raised {first} {when}", detail)
    if answer.kind == Kind.FAULT:
        raise Ended("wrong", f"{first} {when}")
    raise Ended("wrong", f"the submission answered with {answer.kind.name} {when}")


def first_line(text: str) -> str:
    """The first line of what a candidate says, fit to be shown."""
    return clean_text(text.partition("\n")[0], MESSAGE_CHARACTERS)
