"""The four ways in which CLIs talk to models: where they ask, what a request says, and what an answer says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.proxy.dialects.anthropic import Anthropic
from harness.proxy.dialects.chat import Chat
from harness.proxy.dialects.common import Asked, Language
from harness.proxy.dialects.gemini import Gemini
from harness.proxy.dialects.responses import Responses
from harness.record.exchange import Dialect

__all__ = ["LANGUAGES", "asked_for"]

LANGUAGES: Mapping[Dialect, Language] = {
    language.name: language for language in (Anthropic(), Responses(), Chat(), Gemini())
}


def asked_for(method: str, path: str, query: str = "") -> tuple[Language, Asked] | None:
    """The dialect whose path this is, and what is asked for; None where no model is asked. Texts are as sent."""
    if method != "POST":
        return None
    for language in LANGUAGES.values():
        asked = language.asked(path)
        if asked is not None:
            return language, replace(asked, beta="beta=true" in query.split("&"))
    return None
