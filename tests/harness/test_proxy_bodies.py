"""Bodies are kept piece by piece, without secrets, and come back as they were sent."""

from __future__ import annotations

import base64
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import KEY, MODEL, anthropic_stream, run_folder

from harness.proxy.bodies import Bodies, decode_answer, load_request
from harness.proxy.dialects import LANGUAGES
from harness.proxy.redaction import Redactor, Scrubber, forms
from harness.record.archive import ArchiveError, RunFolder
from harness.record.exchange import Dialect, ModelCall
from harness.record.usage import Usage

ANTHROPIC = LANGUAGES["anthropic-messages"]


def call(request: str, dialect: Dialect = "anthropic-messages") -> ModelCall:
    return ModelCall(
        1, 0.0, 0.0, 1.0, dialect, "/", True, "ok", 200, MODEL, MODEL, "", Usage(), "", request, "", 0, 0
    )  # fmt: skip


def stored(folder: RunFolder) -> int:
    return sum(path.stat().st_size for path in folder.path.rglob("objects/*/*"))


def conversation(turns: int) -> dict[str, Any]:
    """A conversation as CLIs send it: all of it, with a mark that moves along with its end."""
    messages: list[Any] = []
    for turn in range(turns):
        content = " ".join(f"{word:x}" for word in random.Random(turn).sample(range(1 << 30), 200))
        use = {"type": "tool_use", "id": f"t{turn}", "name": "Write", "input": {"content": content + " é"}}
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": f"written {turn}"}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    messages[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
    tools = [{"name": f"tool{n}", "description": "x" * 500} for n in range(20)]
    return {"model": MODEL, "system": "You are an agent. " * 500, "messages": messages, "tools": tools, "stream": True}


def test_a_conversation_that_grows_is_stored_once_and_each_request_comes_back(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    bodies = Bodies(folder, Redactor([KEY]))
    sent = [conversation(turns) for turns in range(1, 80)]
    for turns in (5, 20, 40):
        sent.insert(turns, {**conversation(1), "system": f"a title, please {turns}", "tools": []})
    names = [bodies.request(ANTHROPIC, body).name for body in sent]
    for name, body in zip(names, sent, strict=True):
        assert json.loads(load_request(folder, call(name))) == body
    last = len(gzip.compress(json.dumps(sent[-1]).encode(), 5))
    assert stored(folder) < 3 * last  # and not 40 times, as bodies by themselves would take


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("anthropic-messages", {}),
        ("anthropic-messages", {"messages": []}),
        ("anthropic-messages", {"messages": "odd", "system": None, "tools": 3}),
        ("openai-responses", {"model": "m", "input": "hello", "instructions": "x"}),
        ("openai-responses", {"input": ["a", None, {"type": "message"}]}),
        ("gemini", {"contents": [{"parts": [{"text": 'quotes " and \\ and \u2028'}]}], "systemInstruction": {}}),
        ("openai-chat", {'a "key"': 1, "messages": [{}], "z": [1.5, None, True]}),
    ],
)
def test_any_request_comes_back(tmp_path: Path, dialect: Dialect, body: Any) -> None:
    folder = run_folder(tmp_path)
    sent = Bodies(folder, Redactor([])).request(LANGUAGES[dialect], body)
    assert json.loads(load_request(folder, call(sent.name, dialect))) == body


def test_an_index_that_is_forged_is_told(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    for forged in (
        b"x",
        b"{}",
        b'{"parts": [{"sha256": "../../x"}]}',
        b'{"parts": [{"sha256": 7}]}',
        b'{"parts": [3]}',
    ):
        with pytest.raises(ArchiveError):
            load_request(folder, call(folder.put(forged)))
    big = folder.put(b" " * (32 << 20))
    with pytest.raises(ArchiveError, match="longer than any"):
        load_request(folder, call(folder.put(json.dumps({"parts": [{"sha256": big}] * 5}).encode())))


def test_texts_keep_their_places_when_a_private_key_swallows_a_border() -> None:
    opened = "-----BEGIN RSA PRIVATE KEY-----\nabc"
    clean = Redactor([]).json({"a": opened, "b": ["c" * 20, "-----END RSA PRIVATE KEY-----", "d"]})
    assert clean["b"] == ["c" * 20, "-----END RSA PRIVATE KEY-----", "d"] and "abc" not in clean["a"]


def test_json_within_json_stays_json() -> None:
    inner = json.dumps({"command": f"curl -H 'authorization: {KEY}' x", "password": "hunter22", "n": [1]})
    clean = Redactor([KEY]).json({"arguments": inner})
    found = json.loads(clean["arguments"])
    assert found["n"] == [1] and "hunter22" not in str(found) and KEY not in str(found)


def test_what_holds_no_secret_is_the_same_bytes() -> None:
    stream = anthropic_stream("Nothing — here: /root/x ~ $HOME", tool=("t", "Write", {"path": "/etc/passwd"}))
    for body in (stream, b"plain\r\ntext\n", b'{ "spaced" : [1.0, "x"] }', b""):
        assert Redactor([KEY]).body(body) == body


@pytest.mark.parametrize("before", range(6))
def test_a_secret_in_base64_is_known_wherever_it_starts(before: int) -> None:
    text = base64.b64encode(b"z" * before + KEY.encode() + b"yy" * before).decode()
    assert any(form in text for form in forms(KEY)) and Redactor([KEY]).text(text) != text


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_scrubber_takes_out_a_secret_that_comes_in_pieces_and_nothing_else(size: int) -> None:
    data = f"s{KEY}sk-{KEY[:-1]} and {KEY}{KEY} sk-upstream".encode()
    scrubber = Scrubber(KEY)
    found = b"".join(scrubber.feed(data[at : at + size]) for at in range(0, len(data), size)) + scrubber.close()
    assert found == data.replace(KEY.encode(), b"<redacted>")


def test_a_whole_answer_and_its_stream_say_the_same() -> None:
    stream = decode_answer(ANTHROPIC, anthropic_stream("Hello.", tool=("t", "Write", {"a": 1})))
    body = {
        "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "tool_use",
        "content": [{"type": "text", "text": "Hello."},
                    {"type": "tool_use", "id": "t", "name": "Write", "input": {"a": 1}}],
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2,
                  "output_tokens": 7},
    }  # fmt: skip
    whole = decode_answer(ANTHROPIC, json.dumps(body).encode())
    assert (whole.usage, whole.stop, whole.complete) == (stream.usage, stream.stop, stream.complete)
    assert [item.text for item in whole.output()] == [item.text for item in stream.output()]
    assert json.loads(whole.output()[1].arguments) == json.loads(stream.output()[1].arguments)
