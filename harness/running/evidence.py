"""What an archive says of how its run went: the evidence that `ending.decide` decides by, live or after a cut alike."""

from __future__ import annotations

from collections.abc import Iterable

from harness.record.events import AgentEnded, Event, ModelCalled
from harness.record.exchange import PROVIDER_FAULTS, CallStatus
from harness.record.run import RunRecord
from harness.running.ending import Evidence, Reason

__all__ = ["evidence_of"]


def evidence_of(record: RunRecord, events: Iterable[Event]) -> Evidence:
    """The evidence on how a run went, once its agent is gone; its grading is no part of it."""
    last: CallStatus | None = None
    faults: list[CallStatus] = []
    good, swapped = 0, False
    reason: Reason = "exit"
    stopped = ""
    for event in events:
        data = event.data
        if isinstance(data, AgentEnded):
            reason, stopped = data.reason, data.detail
        if not isinstance(data, ModelCalled):
            continue
        status: CallStatus = data.status  # type: ignore[assignment]
        swapped = swapped or status == "swapped"
        # After a provider's fault it changes nothing that the agent hung up, or that the proxy let no more through.
        if data.side or (status in ("gone", "limited", "refused") and last in PROVIDER_FAULTS):
            continue
        last = status
        if status == "ok":
            good += 1
            faults.clear()
        elif status in PROVIDER_FAULTS:
            faults.append(status)
    return Evidence(
        reason=reason, stopped=stopped, calls=record.calls, good_calls=good, last=last, faults=tuple(faults),
        swapped=swapped, solution=bool(record.solution), changed=record.changed_template,
        breaches=tuple(found.message for found in record.findings if found.decisive),
    )  # fmt: skip
