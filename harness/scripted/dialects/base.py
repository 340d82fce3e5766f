"""An answer of a scripted model, and what a dialect must be able to do with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from harness.record.usage import Usage
from harness.scripted.tools import Call

__all__ = ["Answer", "Event", "Voice", "pieces"]

Event = tuple[str, dict[str, Any] | str]  # the name of a server-sent event ("" for none), and its data
_PIECE, _LARGE = 24, 64 << 10


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says. `ids` are those of the calls; `number` counts answers, for ids that must differ.

    `usage_in_stream` is read by chat completions alone. `provider` is "" where none is named.
    """

    number: int
    model: str
    provider: str
    text: str
    thinking: str
    calls: tuple[Call, ...]
    ids: tuple[str, ...]
    usage: Usage
    usage_in_stream: bool = False

    @property
    def named(self) -> dict[str, str]:
        """The provider's name where there is one, as routers put it beside an answer."""
        return {"provider": self.provider} if self.provider else {}


class Voice(Protocol):
    """One dialect; a module."""

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The body of an answer that is not streamed."""

    def events(self, answer: Answer) -> Iterator[Event]:
        """The events of a stream, to its end."""

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The body that goes with an HTTP status."""


def pieces(text: str) -> Iterator[str]:
    """A text as a stream brings it: a few letters at a time, and large blocks where it is very long."""
    size = _PIECE if len(text) < _LARGE else _LARGE
    return (text[at : at + size] for at in range(0, len(text), size))
