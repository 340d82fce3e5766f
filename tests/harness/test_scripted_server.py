"""The scripted upstream over HTTP, with a plain client: every dialect, whole and streamed, and every fault."""

from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from harness.record.usage import Usage
from harness.scripted.faults import FAULTS
from harness.scripted.script import Case, Script, Shell, Turn, Write
from harness.scripted.server import Upstream, serve

USAGE = Usage(100, 50, 30, 0, 20)
SCRIPT = Script((
    Turn((Case(text="I write it.", thinking="Hm.", does=(Write("a.py", "x = 1\n"),), usage=USAGE),)),
    Turn((Case("well", text="Done.", usage=USAGE), Case(text="I look.", does=(Shell("ls"),), usage=USAGE))),
    Turn((Case(text="Over.", usage=USAGE),)),
))  # fmt: skip
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
}
RUN = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


@dataclass(frozen=True)
class Speaker:
    """How to ask in a dialect. `step` adds an answer's call with its result to the conversation."""

    path: str
    body: dict[str, Any]
    turns: str
    stream: dict[str, Any]
    stream_path: str = ""


def _anthropic(call: dict[str, str], result: str) -> list[dict[str, Any]]:
    used = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": json.loads(call["arguments"])}
    answered = {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": result}]}
    return [{"role": "assistant", "content": [used]}, {"role": "user", "content": [answered]}]


def _chat(call: dict[str, str], result: str) -> list[dict[str, Any]]:
    used = {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [used]},
        {"role": "tool", "tool_call_id": call["id"], "content": result},
    ]


def _responses(call: dict[str, str], result: str) -> list[dict[str, Any]]:
    used = {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": call["arguments"]}
    return [used, {"type": "function_call_output", "call_id": call["id"], "output": result}]


def _gemini(call: dict[str, str], result: str) -> list[dict[str, Any]]:
    """Without ids, as some clients send it: turns are counted then."""
    used = {"functionCall": {"name": call["name"], "args": json.loads(call["arguments"])}}
    answered = {"functionResponse": {"name": call["name"], "response": {"output": result}}}
    return [{"role": "model", "parts": [used]}, {"role": "user", "parts": [answered]}]


def _function(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


SPEAKERS = {
    "anthropic-messages": Speaker(
        "/v1/messages?beta=true",
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}],
         "tools": [{"name": "Put", "input_schema": SCHEMA}, {"name": "Run", "input_schema": RUN}]},
        "messages", {"stream": True},
    ),
    "openai-chat": Speaker(
        "/v1/chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": "Hi"}],
         "tools": [_function("Put", SCHEMA), _function("Run", RUN)]},
        "messages", {"stream": True, "stream_options": {"include_usage": True}},
    ),
    "openai-responses": Speaker(
        "/v1/responses",
        {"model": "m", "input": [{"type": "message", "role": "user", "content": "Hi"}],
         "tools": [{"type": "function", "name": "Put", "parameters": SCHEMA},
                   {"type": "function", "name": "Run", "parameters": RUN}]},
        "input", {"stream": True},
    ),
    "gemini": Speaker(
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
         "tools": [{"functionDeclarations": [{"name": "Put", "parametersJsonSchema": SCHEMA},
                                             {"name": "Run", "parameters": RUN}]}]},
        "contents", {}, "/v1beta/models/m:streamGenerateContent?alt=sse",
    ),
}  # fmt: skip
STEPS = {"anthropic-messages": _anthropic, "openai-chat": _chat, "openai-responses": _responses, "gemini": _gemini}
EVERY = pytest.mark.parametrize("dialect", SPEAKERS)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """The script above, served."""
    with Upstream(SCRIPT, workspace="/work") as served:
        yield served


def post(url: str, body: dict[str, Any]) -> bytes:
    """Raises HTTPError, IncompleteRead and what else a client sees."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return bytes(answer.read())


def whole(upstream: Upstream, dialect: str, *more: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """An answer that is not streamed."""
    speaker = SPEAKERS[dialect]
    body = {**speaker.body, speaker.turns: [*speaker.body[speaker.turns], *more], **changed}
    found = json.loads(post(upstream.url + speaker.path, body))
    assert isinstance(found, dict)
    return found


def streamed(upstream: Upstream, dialect: str, *more: dict[str, Any]) -> list[dict[str, Any]]:
    """The data of the events of a stream; [DONE] is left out."""
    speaker = SPEAKERS[dialect]
    body = {**speaker.body, speaker.turns: [*speaker.body[speaker.turns], *more], **speaker.stream}
    data = post(upstream.url + (speaker.stream_path or speaker.path), body).decode()
    lines = [line[6:] for line in data.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def text_of(dialect: str, answer: dict[str, Any]) -> str:
    """What a whole answer says."""
    if dialect == "anthropic-messages":
        return "".join(block.get("text", "") for block in answer["content"])
    if dialect == "openai-chat":
        return answer["choices"][0]["message"]["content"] or ""
    if dialect == "openai-responses":
        messages = [item for item in answer["output"] if item["type"] == "message"]
        return "".join(part["text"] for item in messages for part in item["content"])
    parts = answer["candidates"][0]["content"]["parts"]
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def call_of(dialect: str, answer: dict[str, Any]) -> dict[str, str]:
    """The first call of a tool in a whole answer."""
    if dialect == "anthropic-messages":
        block = next(block for block in answer["content"] if block["type"] == "tool_use")
        return {"id": block["id"], "name": block["name"], "arguments": json.dumps(block["input"])}
    if dialect == "openai-chat":
        call = answer["choices"][0]["message"]["tool_calls"][0]
        return {"id": call["id"], **call["function"]}
    if dialect == "openai-responses":
        item = next(item for item in answer["output"] if item["type"] == "function_call")
        return {"id": item["call_id"], "name": item["name"], "arguments": item["arguments"]}
    parts = answer["candidates"][0]["content"]["parts"]
    made = next(part["functionCall"] for part in parts if "functionCall" in part)
    return {"id": made["id"], "name": made["name"], "arguments": json.dumps(made["args"])}


@EVERY
def test_a_conversation_is_played_turn_by_turn_and_follows_results(upstream: Upstream, dialect: str) -> None:
    first = whole(upstream, dialect)
    assert text_of(dialect, first) == "I write it."
    call = call_of(dialect, first)
    assert (call["name"], json.loads(call["arguments"])) == ("Put", {"path": "/work/a.py", "content": "x = 1\n"})
    bad, good = STEPS[dialect](call, "it failed"), STEPS[dialect](call, "all is well")
    assert text_of(dialect, whole(upstream, dialect, *good)) == "Done."
    second = whole(upstream, dialect, *bad)
    assert text_of(dialect, second) == "I look."
    more = STEPS[dialect](call_of(dialect, second), "a.py")
    assert text_of(dialect, whole(upstream, dialect, *bad, *more)) == "Over."
    assert [served.turn for served in upstream.served] == [0, 1, 1, 2]
    assert upstream.usage == replace(USAGE + USAGE + USAGE + USAGE, cost_usd=None)


@EVERY
def test_the_same_request_gets_the_same_answer(upstream: Upstream, dialect: str) -> None:
    one, two = whole(upstream, dialect), whole(upstream, dialect)
    assert text_of(dialect, one) == text_of(dialect, two) and call_of(dialect, one) == call_of(dialect, two)


def test_an_anthropic_stream_has_the_events_of_the_real_one(upstream: Upstream) -> None:
    events = streamed(upstream, "anthropic-messages")
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "ping"] and kinds[-2:] == ["message_delta", "message_stop"]
    starts = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert starts == ["thinking", "text", "tool_use"]
    assert kinds.count("content_block_stop") == 3
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    made = json.loads("".join(delta.get("partial_json", "") for delta in deltas))
    assert made == {"path": "/work/a.py", "content": "x = 1\n"}
    assert events[0]["message"]["usage"]["input_tokens"] == 100
    assert events[-2]["usage"]["output_tokens"] == 50 and events[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_chat_stream_has_the_chunks_of_the_real_one(upstream: Upstream) -> None:
    chunks = streamed(upstream, "openai-chat")
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Hm."
    assert "".join(delta.get("content") or "" for delta in deltas) == "I write it."
    parts = [part for delta in deltas for part in delta.get("tool_calls", ())]
    assert parts[0]["id"] == "call_t0n0" and parts[0]["function"] == {"name": "Put", "arguments": ""}
    assert json.loads("".join(part["function"]["arguments"] for part in parts))["content"] == "x = 1\n"
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    usage = chunks[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (130, 50)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 30
    quiet = SPEAKERS["openai-chat"].body | {"stream": True}
    assert b'"usage"' not in post(upstream.url + "/v1/chat/completions", quiet)


def test_a_responses_stream_has_the_events_of_the_real_one(upstream: Upstream) -> None:
    events = streamed(upstream, "openai-responses")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed"
    for kind in ("reasoning_summary_text", "output_text", "function_call_arguments"):
        assert kinds.index(f"response.{kind}.delta") < kinds.index(f"response.{kind}.done")
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    assert [item["type"] for item in done] == ["reasoning", "message", "function_call"]
    usage = events[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]) == (130, 30)
    assert (usage["output_tokens"], usage["output_tokens_details"]["reasoning_tokens"]) == (50, 20)


def test_a_gemini_stream_ends_with_reason_and_usage(upstream: Upstream) -> None:
    answers = streamed(upstream, "gemini")
    parts = [part for answer in answers for part in answer["candidates"][0]["content"]["parts"]]
    assert "".join(part["text"] for part in parts if part.get("thought")) == "Hm."
    assert [part["functionCall"]["name"] for part in parts if "functionCall" in part] == ["Put"]
    assert [answer["candidates"][0].get("finishReason") for answer in answers][-2:] == [None, "STOP"]
    usage = answers[-1]["usageMetadata"]
    assert (usage["promptTokenCount"], usage["cachedContentTokenCount"]) == (130, 30)
    assert (usage["candidatesTokenCount"], usage["thoughtsTokenCount"], usage["totalTokenCount"]) == (30, 20, 180)


def test_a_freeform_tool_is_called_with_plain_text(upstream: Upstream) -> None:
    tools = [{"type": "custom", "name": "apply_patch"}, {"type": "web_search"}]
    answer = whole(upstream, "openai-responses", tools=tools)
    made = next(item for item in answer["output"] if item["type"] == "custom_tool_call")
    assert made["input"].startswith("*** Begin Patch\n*** Add File: a.py\n+x = 1\n")


@EVERY
def test_a_call_beside_the_conversation_gets_a_short_answer_of_its_own(upstream: Upstream, dialect: str) -> None:
    assert text_of(dialect, whole(upstream, dialect, tools=[])) == "Work on a kernel"
    assert [(served.side, served.usage) for served in upstream.served] == [(True, Usage(11, 3))]


@EVERY
def test_a_client_without_a_fitting_tool_is_told_so(upstream: Upstream, dialect: str) -> None:
    none: dict[str, Any] = {"type": "object", "properties": {}}
    offered: dict[str, list[dict[str, Any]]] = {
        "anthropic-messages": [{"name": "Look", "input_schema": none}],
        "openai-chat": [_function("Look", none)],
        "openai-responses": [{"type": "function", "name": "Look", "parameters": none}],
        "gemini": [{"functionDeclarations": [{"name": "Look", "parameters": none}]}],
    }
    with pytest.raises(urllib.error.HTTPError) as error:
        whole(upstream, dialect, tools=offered[dialect])
    assert error.value.code == 400
    assert "wants to write a.py, and none of the offered tools can: Look" in error.value.read().decode()


# --- faults --------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("fault", ["401", "402", "429", "500", "503"])
def test_a_refusal_has_its_status_and_the_error_of_the_dialect(dialect: str, fault: str) -> None:
    with Upstream(SCRIPT.failing(fault)) as upstream:
        with pytest.raises(urllib.error.HTTPError) as error:
            whole(upstream, dialect)
        assert error.value.code == int(fault)
        assert json.loads(error.value.read())["error"]["message"]
        assert [(call.fault, call.usage) for call in upstream.served] == [(fault, None)]


@EVERY
def test_a_cut_stream_breaks_off_without_its_end(dialect: str) -> None:
    with Upstream(SCRIPT.failing("cut")) as upstream:
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            streamed(upstream, dialect)
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            whole(upstream, dialect)
        assert upstream.usage == Usage(cost_usd=0.0)


@EVERY
def test_an_empty_answer_has_no_byte_and_a_blank_one_no_word(dialect: str) -> None:
    with Upstream(SCRIPT.failing("empty")) as upstream:
        assert streamed(upstream, dialect) == []
    with Upstream(SCRIPT.failing("blank")) as upstream:
        assert text_of(dialect, whole(upstream, dialect)) == ""
        assert streamed(upstream, dialect)
        assert upstream.usage == replace(Usage(), cost_usd=None)


def test_a_hanging_answer_sends_headers_and_is_let_go_at_the_end() -> None:
    upstream = Upstream(SCRIPT.failing("hang"))
    client = http.client.HTTPConnection("127.0.0.1", upstream.port, timeout=20)
    client.request("POST", "/v1/messages", json.dumps(SPEAKERS["anthropic-messages"].body))
    answer = client.getresponse()
    assert answer.status == 200
    assert client.sock is not None
    client.sock.settimeout(0.2)
    with pytest.raises((TimeoutError, socket.timeout)):
        answer.read(1)
    began = time.monotonic()
    upstream.close()
    assert time.monotonic() - began < 10
    client.close()


@EVERY
def test_a_big_answer_is_as_long_as_it_says(dialect: str) -> None:
    fault = replace(SCRIPT.failing("big"), fault=replace(SCRIPT.failing("big").fault, bytes=300_000))  # type: ignore[type-var]
    with Upstream(fault) as upstream:
        assert len(text_of(dialect, whole(upstream, dialect))) == 300_000
        assert sum(len(json.dumps(event)) for event in streamed(upstream, dialect)) > 300_000


@EVERY
def test_a_swapped_answer_names_another_model_and_provider(dialect: str) -> None:
    with Upstream(SCRIPT.failing("swapped")) as upstream:
        answer = whole(upstream, dialect)
        named = answer.get("modelVersion") or answer.get("model")
        assert (named, answer["provider"]) == ("another/model-than-asked", "Elsewhere")
    with Upstream(SCRIPT) as upstream:
        answer = whole(upstream, dialect)
        assert (answer.get("modelVersion") or answer.get("model"), "provider" in answer) == ("m", False)


def test_a_fault_that_passes_fails_so_many_tries_of_its_turn() -> None:
    fault = SCRIPT.failing("429").fault
    assert fault is not None
    turn = replace(SCRIPT.turns[0], fault=replace(fault, times=2, retry_after=3))
    with Upstream(replace(SCRIPT, turns=(turn, *SCRIPT.turns[1:]))) as upstream:
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError) as error:
                whole(upstream, "openai-chat")
            assert error.value.headers["retry-after"] == "3"
        assert text_of("openai-chat", whole(upstream, "openai-chat")) == "I write it."


def test_every_fault_has_a_test() -> None:
    tested = {"401", "402", "429", "500", "503", "cut", "empty", "blank", "hang", "big", "swapped"}
    assert set(FAULTS) == tested


# --- the server ----------------------------------------------------------------------------------------------


def test_what_clients_ask_besides_is_answered(upstream: Upstream) -> None:
    with urllib.request.urlopen(upstream.url + "/v1/models", timeout=20) as answer:
        assert json.load(answer)["data"]
    assert json.loads(post(upstream.url + "/v1/messages/count_tokens", {}))["input_tokens"]
    assert json.loads(post(upstream.url + "/v1beta/models/m:countTokens", {}))["totalTokens"]
    for path, code in (("/v1/embeddings", 404), ("/v1/messages", 400)):
        request = urllib.request.Request(upstream.url + path, b"not json")
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(request, timeout=20)
        assert error.value.code == code
    assert upstream.served == ()


def test_a_served_script_is_gone_after_close_and_only_on_loopback() -> None:
    url, close = serve(SCRIPT)
    assert url.startswith("http://127.0.0.1:")
    close()
    close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)
