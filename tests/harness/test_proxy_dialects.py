"""Dialects read what CLIs and providers send, and never fail over what they do not know."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy_kit import anthropic_stream, chat_stream

from harness.proxy.base import Route
from harness.proxy.bodies import decode_answer
from harness.proxy.dialects import LANGUAGES, asked_for
from harness.proxy.dialects.common import MAX_EVENT_BYTES, Asked, Events, JsonError, parse_json, unescaped
from harness.proxy.pins import pin
from harness.proxy.status import of_answer, of_error
from harness.record.exchange import Dialect, Item
from harness.record.usage import Usage

MESSAGES: list[tuple[Dialect, Any, list[Item]]] = [
    ("anthropic-messages",
     {"role": "user", "content": [
         {"type": "tool_result", "tool_use_id": "t", "is_error": True,
          "content": [{"type": "text", "text": "a"}, {"type": "image", "source": {}}]},
         {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]},
     [Item("tool_result", "tool", "a\n[image (28 characters)]", "t", is_error=True), Item("text", "user", "b")]),
    ("anthropic-messages",
     {"role": "assistant", "content": [
         {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "xx"},
         {"type": "tool_use", "id": "t", "name": "Write", "input": {"a": 1}}]},
     [Item("thinking", "assistant", "hm"), Item("other", "assistant", "redacted_thinking (40 characters)"),
      Item("tool_call", "assistant", "", "t", "Write", '{"a":1}')]),
    ("openai-responses", {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
     [Item("text", "system", "rules")]),
    ("openai-responses", {"role": "user", "content": "hi"}, [Item("text", "user", "hi")]),
    ("openai-responses", {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
     [Item("tool_call", "assistant", "", "c", "local_shell", '{"command":["ls"]}')]),
    ("openai-responses", {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin"},
     [Item("tool_call", "assistant", "", "c", "apply_patch", "*** Begin")]),
    ("openai-responses", {"type": "function_call_output", "call_id": "c", "output": {"content": "x", "success": False}},
     [Item("tool_result", "tool", "x", "c", is_error=True)]),
    ("openai-responses", {"type": "reasoning", "summary": [], "encrypted_content": "xx"}, []),
    ("openai-responses", {"type": "new_thing", "x": 1}, [Item("other", "user", "new_thing (26 characters)")]),
    ("openai-chat", {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "out"}]},
     [Item("tool_result", "tool", "out", "c")]),
    ("openai-chat",
     {"role": "assistant", "content": None, "reasoning_content": "hm",
      "tool_calls": [{"id": "c", "function": {"name": "bash", "arguments": "{}"}}]},
     [Item("thinking", "assistant", "hm"), Item("tool_call", "assistant", "", "c", "bash", "{}")]),
    ("gemini",
     {"role": "user", "parts": [{"functionResponse": {"id": "i", "name": "run", "response": {"output": "x"}}}]},
     [Item("tool_result", "tool", "x", "i", "run")]),
    ("gemini", {"role": "user", "parts": [{"functionResponse": {"name": "run", "response": {"error": "bad"}}}]},
     [Item("tool_result", "tool", "bad", "", "run", is_error=True)]),
    ("gemini", {"role": "model", "parts": [{"text": "hm", "thought": True}, {"inlineData": {"data": "eA=="}}]},
     [Item("thinking", "assistant", "hm"), Item("other", "assistant", "inlineData (30 characters)")]),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "message", "items"), MESSAGES)
def test_messages_are_read(dialect: Dialect, message: Any, items: list[Item]) -> None:
    assert list(LANGUAGES[dialect].message(message)) == items


def test_system_and_tools_are_read() -> None:
    system = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert LANGUAGES["anthropic-messages"].system({"system": system}) == "a\nb"
    chat = {"messages": [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, {"role": "user"}]}
    assert LANGUAGES["openai-chat"].system(chat) == "a\nb"
    assert LANGUAGES["gemini"].system({"systemInstruction": {"parts": [{"text": "a"}]}}) == "a"
    assert LANGUAGES["openai-chat"].tools({"tools": [{"type": "function", "function": {"name": "x"}}]}) == ("x",)
    assert LANGUAGES["openai-responses"].tools({"tools": [{"type": "local_shell"}, {"name": "y"}]}) == (
        "local_shell", "y"
    )  # fmt: skip
    assert LANGUAGES["gemini"].tools({"tools": [{"functionDeclarations": [{"name": "z"}]}]}) == ("z",)


@pytest.mark.parametrize(
    ("path", "dialect", "what"),
    [
        ("/v1/messages", "anthropic-messages", "answer"),
        ("/v1/messages/count_tokens", "anthropic-messages", "count"),
        ("/v1/responses", "openai-responses", "answer"),
        ("/v1/chat/completions", "openai-chat", "answer"),
        ("/chat/completions", "openai-chat", "answer"),
        ("/v1beta/models/g-2.5:streamGenerateContent", "gemini", "answer"),
        ("/v1beta/models/g-2.5:countTokens", "gemini", "count"),
    ],
)
def test_paths_are_known(path: str, dialect: Dialect, what: str) -> None:
    found = asked_for("POST", path)
    assert found is not None and (found[0].name, found[1].what) == (dialect, what)
    assert asked_for("GET", path) is None and asked_for("POST", path + "/") is None


USAGES: list[tuple[Dialect, Any, Usage]] = [
    ("openai-chat", {"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop",
                                  "usage": {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4}}]},
     Usage(5, 2, 4)),
    ("openai-chat", {"choices": [], "usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 3}}, Usage(6, 0, 3)),
    ("openai-chat", {"usage": {"prompt_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}}}, Usage(0, 0, 5)),
    ("openai-chat", {"usage": {"prompt_tokens": -3, "completion_tokens": True}}, Usage()),
    ("openai-chat", {"usage": {"prompt_tokens": "7", "completion_tokens": 1e9}}, Usage()),
    ("gemini", {"usageMetadata": {"promptTokenCount": 9, "toolUsePromptTokenCount": 1, "candidatesTokenCount": 2,
                                  "thoughtsTokenCount": 5, "cachedContentTokenCount": 4}}, Usage(6, 7, 4, 0, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "body", "usage"), USAGES)
def test_usage_is_counted_in_one_way(dialect: Dialect, body: Any, usage: Usage) -> None:
    assert decode_answer(LANGUAGES[dialect], json.dumps(body).encode()).usage == usage


def test_a_cost_that_a_router_states_is_taken() -> None:
    body = {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 1, "cost": 0.25}}
    assert decode_answer(LANGUAGES["openai-chat"], json.dumps(body).encode()).cost == 0.25


def test_gemini_words_a_rate_as_a_quota_and_others_mean_money() -> None:
    from harness.proxy.dialects.common import ApiError

    error = ApiError("RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing.")
    assert of_error(429, error, "gemini").status == "rate"
    assert of_error(429, error, "openai-chat").status == "credit"
    assert of_error(500, ApiError("", "the credit of this theorem"), "openai-chat").status == "unavailable"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 402, "message": "Insufficient credits"}, "credit"),
        ({"code": 502, "message": "Provider returned error"}, "unavailable"),
        ({"code": 429, "message": "slow down"}, "rate"),
        ({"code": 401, "message": "who"}, "auth"),
        ({"code": "context_length_exceeded", "message": "too long"}, "rejected"),
        ({"code": "insufficient_quota", "message": "x"}, "credit"),
        ("text", "unavailable"),
    ],
)
def test_an_error_within_an_answer_of_200_is_read(error: Any, status: str) -> None:
    data = f"data: {json.dumps({'error': error, 'choices': []})}\n\n".encode()
    answer = decode_answer(LANGUAGES["openai-chat"], data)
    assert of_answer(answer, "openai-chat", size=len(data), counting=False).status == status


def test_a_prompt_that_gemini_blocks_is_rejected() -> None:
    answer = decode_answer(LANGUAGES["gemini"], b'{"promptFeedback": {"blockReason": "SAFETY"}}')
    assert of_answer(answer, "gemini", size=9, counting=False).status == "rejected"


def test_a_stream_of_gemini_without_sse_is_a_list() -> None:
    chunks = [{"candidates": [{"content": {"parts": [{"text": part}]}}]} for part in ("a", "b")]
    chunks[1]["candidates"][0]["finishReason"] = "STOP"
    answer = decode_answer(LANGUAGES["gemini"], json.dumps(chunks).encode())
    assert answer.complete and answer.output() == (Item("text", "assistant", "ab"),)


@pytest.mark.parametrize("data", [anthropic_stream(), chat_stream()])
@pytest.mark.parametrize("size", [1, 2, 3, 17])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_events_are_the_same_however_they_are_cut(data: bytes, size: int, ends: bytes) -> None:
    whole = Events().feed(data)
    events, found = Events(), []
    data = data.replace(b"\n", ends).rstrip()
    for start in range(0, len(data), size):
        found += events.feed(data[start : start + size])
    assert [*found, *events.close()] == whole and len(whole) > 4


def test_an_event_without_end_takes_bounded_memory() -> None:
    events = Events()
    for _ in range(3 * MAX_EVENT_BYTES // (1 << 20)):
        assert not events.feed(b"x" * (1 << 20))
        assert len(events._rest) <= MAX_EVENT_BYTES + (1 << 20)


@pytest.mark.parametrize(
    "data", [b"", b"[" * 1000, b"NaN", b"1e999", b"{", b"9" * 5000, b"[" + b"0," * 2_100_000 + b"0]"]
)
def test_what_is_no_usable_json_is_told(data: bytes) -> None:
    with pytest.raises(JsonError):
        parse_json(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from([
            "type", "role", "content", "text", "parts", "tool_calls", "function", "name", "id", "input", "output",
            "delta", "choices", "candidates", "usage", "index", "message", "messages", "contents", "tools", "system",
            "error", "usageMetadata", "response", "item", "output_index", "functionCall", "functionResponse", "summary",
            "model", "finish_reason", "status", "provider", "source", "url", "image_url",
        ]) | st.text(max_size=3),
        inner, max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip
KINDS = st.sampled_from([
    "message", "text", "tool_use", "tool_result", "message_start", "content_block_start", "content_block_delta",
    "message_delta", "error", "response.output_item.done", "response.output_text.delta", "response.completed",
    "function_call", "function_call_output", "reasoning", "assistant", "user", "tool",
])  # fmt: skip


@settings(max_examples=150)
@given(st.sampled_from(list(LANGUAGES)), JSON, KINDS)
def test_no_shape_makes_a_dialect_fail(dialect: Dialect, value: Any, kind: str) -> None:
    language = LANGUAGES[dialect]
    typed = {**value, "type": kind, "role": kind} if isinstance(value, dict) else value
    for shape in (value, typed):
        body = shape if isinstance(shape, dict) else {language.conversation: shape}
        assert all(isinstance(item, Item) for item in language.message(shape))
        assert isinstance(language.system(body), str) and isinstance(language.tools(body), tuple)
        pin(language, Asked("answer", "m"), body, model="m", route=Route("r", {}))
        answer = language.answer()
        answer.event(kind, shape)
        answer.whole(shape)
        answer.event(kind, typed)
        assert all(isinstance(item, Item) for item in answer.output())
        assert of_answer(answer, dialect, size=1, counting=False).status
        assert unescaped(shape)
