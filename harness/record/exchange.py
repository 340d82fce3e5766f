"""One call of a model, in a form that all dialects share: what was sent, what came back, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from harness.record.usage import Usage

__all__ = ["CallStatus", "Dialect", "Exchange", "Item", "ItemKind", "ModelCall", "PROVIDER_FAULTS"]

Dialect = Literal["anthropic-messages", "openai-responses", "openai-chat", "gemini"]
ItemKind = Literal["text", "thinking", "tool_call", "tool_result", "other"]

# How a call ended, decided by the proxy alone. PROVIDER_FAULTS are the provider's doing; `rejected` is an answer that
# the request was wrong; `refused` and `limited` are the proxy's own, and `gone` says that the agent hung up.
CallStatus = Literal[
    "ok", "credit", "auth", "rate", "unavailable", "cut", "empty", "too-large", "timeout", "swapped", "rejected",
    "refused", "limited", "gone",
]  # fmt: skip
PROVIDER_FAULTS: frozenset[CallStatus] = frozenset(
    {"credit", "auth", "rate", "unavailable", "cut", "empty", "too-large", "timeout", "swapped"}
)


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of a conversation. `name` and `arguments` (JSON text) are a tool call's, and `call_id` ties
    the result to it.
    """

    kind: ItemKind
    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one call said. `input` is the whole conversation as it was sent, `output` what the model added.

    `model` and `provider` are those that the answer names ("" where it names none); `stop` is the reason in the
    dialect's own word; `complete` says whether the answer came to its end.
    """

    dialect: Dialect
    asked_model: str
    model: str = ""
    provider: str = ""
    system: str = ""
    tools: tuple[str, ...] = ()
    input: tuple[Item, ...] = ()
    output: tuple[Item, ...] = ()
    usage: Usage = field(default_factory=Usage)
    stop: str = ""
    complete: bool = False


@dataclass(frozen=True, slots=True)
class ModelCall:
    """The proxy's record of one call: a line of calls.jsonl. Times are in seconds, sizes in bytes.

    `number` counts all calls of the run from 1; it is the step in the trajectory. `began` is UTC (since the epoch),
    `elapsed` since the agent started. `request` and `answer` are SHA-256 of the redacted bodies among the archive's
    objects ("" where there is none). `detail` is one sentence on what went wrong.
    """

    number: int
    began: float
    elapsed: float
    seconds: float
    dialect: Dialect
    path: str
    stream: bool
    status: CallStatus
    http_status: int
    asked_model: str
    model: str
    provider: str
    usage: Usage
    stop: str
    request: str
    answer: str
    request_bytes: int
    answer_bytes: int
    first_byte_s: float | None = None
    detail: str = ""
