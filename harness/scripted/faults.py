"""What a scripted upstream does wrong on demand."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAULTS", "Fault", "fault_named"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to fail. `status` is the HTTP status; `times` how many tries of a turn fail (0: all of them); `bytes` the
    size of the text of a big answer; `retry_after` the seconds that a header tells to wait (0: no header).
    """

    kind: str
    status: int = 200
    times: int = 0
    bytes: int = 50 << 20
    retry_after: int = 0


_KINDS = (
    Fault("401", 401),
    Fault("402", 402),
    Fault("429", 429),
    Fault("500", 500),
    Fault("503", 503),
    Fault("cut"),  # the stream ends mid way, without its last events
    Fault("empty"),  # 200 and no byte of a body
    Fault("blank"),  # a whole answer that says nothing
    Fault("hang"),  # headers, then nothing
    Fault("big"),  # an answer of 50 MB
    Fault("swapped"),  # another model and another provider than were asked for
)
FAULTS = tuple(fault.kind for fault in _KINDS)
MESSAGES = {
    400: "The request is invalid.",
    401: "The API key is invalid.",
    402: "The account has no credit left.",
    404: "There is nothing here.",
    429: "Too many requests; the rate limit is reached.",
    500: "An internal error happened.",
    503: "The model is overloaded.",
}


def fault_named(kind: str) -> Fault | None:
    """The fault of a name, or None."""
    return next((fault for fault in _KINDS if fault.kind == kind), None)
