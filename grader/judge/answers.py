# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""What the judge makes of a candidate's answer: go on, or end with one sentence about the submission."""

from __future__ import annotations

from typing import Literal

from grader.record.cell import ShapeStatus
from grader.wire.frames import Frame, Kind, clean_text

__all__ = ["Ended", "expect", "first_line"]

MESSAGE_CHARACTERS = 1000
DETAIL_CHARACTERS = 3000


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
