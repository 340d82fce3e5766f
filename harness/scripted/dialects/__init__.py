"""How each dialect says an answer: whole, and as the events of a stream in the order of the real APIs."""

from __future__ import annotations

from harness.record.exchange import Dialect
from harness.scripted.dialects import anthropic, chat, gemini, responses
from harness.scripted.dialects.base import Answer, Voice

__all__ = ["VOICES", "Answer", "Voice"]

VOICES: dict[Dialect, Voice] = {
    "anthropic-messages": anthropic,
    "openai-chat": chat,
    "openai-responses": responses,
    "gemini": gemini,
}
