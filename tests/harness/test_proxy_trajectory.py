"""The trajectory is the same whatever a CLI does to the conversation that it sends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.proxy.trajectory import MAX_TEXT, Conversation, Told
from harness.record.events import Message, ModelCalled, Note, ToolCall, ToolResult
from harness.record.exchange import CallStatus, Exchange, Item, ModelCall
from harness.record.usage import Usage

MODEL = "big-model-1"
TOOLS = ("Write", "Bash")


def call(number: int, *, path: str = "/v1/messages", status: CallStatus = "ok") -> ModelCall:
    return ModelCall(
        number,
        0.0,
        0.0,
        1.0,
        "anthropic-messages",
        path,
        True,
        status,
        200,
        MODEL,
        MODEL,
        "",
        Usage(),
        "",
        "",
        "",
        0,
        0,
    )


def user(text: str) -> Item:
    return Item("text", "user", text)


def says(text: str) -> Item:
    return Item("text", "assistant", text)


def uses(call_id: str, name: str = "Write", arguments: str = '{"path": "a", "content": "b"}') -> Item:
    return Item("tool_call", "assistant", "", call_id, name, arguments)


def gives(call_id: str, text: str, name: str = "") -> Item:
    return Item("tool_result", "tool", text, call_id, name)


def exchange(
    asked: Sequence[Item], said: Sequence[Item] = (), *, tools: Sequence[str] = TOOLS, system: str = "You are an agent."
) -> Exchange:
    return Exchange("anthropic-messages", MODEL, MODEL, "", system, tuple(tools), tuple(asked), tuple(said))


def told(found: Sequence[Told]) -> list[tuple[int, str, str]]:
    """Events in short: (step, kind, text)."""
    short = []
    for step, data in found:
        match data:
            case Message():
                short.append((step, data.role + (" thinks" if data.thinking else ""), data.text))
            case ToolCall():
                short.append((step, "call", f"{data.call_id} {data.name}"))
            case ToolResult():
                short.append((step, "result", f"{data.call_id} {data.output}"))
            case ModelCalled():
                short.append((step, "side" if data.side else "called", data.status))
            case Note():
                short.append((step, "note", data.text))
    return short


BEGIN = [user("Write a kernel.")]
FIRST = [says("I will."), uses("t1")]


def test_a_request_tells_only_what_it_adds_and_results_belong_to_their_call() -> None:
    talk = Conversation(MODEL)
    assert told(talk.add(call(1), exchange(BEGIN, [Item("thinking", "assistant", "Hm."), *FIRST]))) == [
        (1, "system", "You are an agent."), (1, "user", "Write a kernel."), (1, "assistant thinks", "Hm."),
        (1, "assistant", "I will."), (1, "call", "t1 Write"), (1, "called", "ok"),
    ]  # fmt: skip
    second = [*BEGIN, *FIRST, gives("t1", "written"), user("<reminder>")]
    assert told(talk.add(call(2), exchange(second, [uses("t2", "Bash", '{"command": "ls"}')]))) == [
        (1, "result", "t1 written"), (2, "user", "<reminder>"), (2, "call", "t2 Bash"), (2, "called", "ok"),
    ]  # fmt: skip
    third = [*second, uses("t2", "Bash", '{"command":"ls"}'), gives("t2", "a")]
    assert told(talk.add(call(3), exchange(third, [says("Done.")]))) == [
        (2, "result", "t2 a"), (3, "assistant", "Done."), (3, "called", "ok"),
    ]  # fmt: skip


def test_a_request_that_is_sent_again_after_a_fault_tells_nothing_twice() -> None:
    talk = Conversation(MODEL)
    talk.add(call(1), exchange(BEGIN, FIRST))
    again = [*BEGIN, *FIRST, gives("t1", "written")]
    assert told(talk.add(call(2, status="unavailable"), exchange(again))) == [
        (1, "result", "t1 written"), (2, "called", "unavailable")
    ]  # fmt: skip
    assert told(talk.add(call(3), exchange(again, [says("Done.")])))[0] == (3, "assistant", "Done.")


def test_the_same_words_said_twice_are_told_twice() -> None:
    talk = Conversation(MODEL)
    talk.add(call(1), exchange(BEGIN, [says("Ok.")]))
    longer = [*BEGIN, says("Ok."), user("Go on."), says("Ok."), user("Go on.")]
    found = told(talk.add(call(2), exchange(longer)))
    assert [text for _, kind, text in found if kind == "user"] == ["Go on.", "Go on."]


@pytest.mark.parametrize(
    "echo",
    [
        [says("I will.\n"), uses("t1", arguments='{"content":"b","path":"a"}')],
        [says("I"), says("will."), uses("t1")],
        [Item("thinking", "assistant", "[shortened]"), uses("t1")],
        [says("I will."), uses("t1", arguments='{"path":"a","content":"[shortened]"}')],
    ],
)
def test_an_answer_that_a_cli_words_anew_is_not_told_again(echo: list[Item]) -> None:
    talk = Conversation(MODEL)
    talk.add(call(1), exchange(BEGIN, FIRST))
    found = told(talk.add(call(2), exchange([*BEGIN, *echo, gives("t1", "written")])))
    assert found == [(1, "result", "t1 written"), (2, "called", "ok")]


def test_text_in_the_models_name_that_it_never_said_is_told_as_such() -> None:
    talk = Conversation(MODEL)
    talk.add(call(1), exchange(BEGIN, FIRST))
    found = told(talk.add(call(2), exchange([*BEGIN, *FIRST, says("I have seen the answers."), uses("t9", "Read")])))
    assert (2, "assistant", "I have seen the answers.") in found and (2, "call", "t9 Read") in found
    assert any(kind == "note" and text.startswith("2 pieces of this request") for _, kind, text in found)


def test_a_rewritten_history_tells_what_is_new_and_says_so() -> None:
    talk = Conversation(MODEL)
    talk.add(call(1), exchange(BEGIN, FIRST))
    talk.add(call(2), exchange([*BEGIN, *FIRST, gives("t1", "written")], [uses("t2", "Bash", "{}")]))
    summary = [user("Summary: wrote the kernel."), user("Go on.")]
    found = told(talk.add(call(3), exchange(summary, [says("Going on.")])))
    assert found[0] == (3, "note", "the CLI sent 2 pieces of the conversation where it had sent 4")
    assert found[1:] == [
        (3, "user", "Summary: wrote the kernel."), (3, "user", "Go on."), (3, "assistant", "Going on."),
        (3, "called", "ok"),
    ]  # fmt: skip


def test_a_result_that_a_cli_cleared_is_noted_and_not_told_again() -> None:
    talk = Conversation(MODEL)
    talk.add(call(1), exchange(BEGIN, FIRST))
    talk.add(call(2), exchange([*BEGIN, *FIRST, gives("t1", "long output")], [uses("t2", "Bash", "{}")]))
    later = [*BEGIN, *FIRST, gives("t1", "[cleared]"), uses("t2", "Bash", "{}"), gives("t2", "x")]
    found = told(talk.add(call(3), exchange(later)))
    assert [text for _, kind, text in found if kind == "result"] == ["t2 x"]
    assert any("another text than before" in text for _, kind, text in found if kind == "note")
    assert not [one for one in told(talk.add(call(4), exchange(later))) if one[1] == "note"]


def test_titles_helpers_and_counts_are_side_calls_and_keep_the_conversation_apart() -> None:
    talk = Conversation(MODEL)
    title = exchange(BEGIN, [says("A kernel")], tools=(), system="You are a title generator.")
    assert told(talk.add(call(1), title))[-1] == (1, "side", "ok")
    found = told(talk.add(call(2), exchange(BEGIN, FIRST)))
    assert (2, "user", "Write a kernel.") in found and found[-1][1] == "called"
    assert told(talk.add(call(3, path="/v1/messages/count_tokens"), exchange(BEGIN)))[-1][1] == "side"
    helper = exchange([*BEGIN, *FIRST, user("Is it done?")], [says("no")], tools=(), system="")
    assert told(talk.add(call(4), helper))[-1][1] == "side"
    other = exchange([user("Look into the files.")], [uses("s1", "Read")], tools=("Read",), system="You explore.")
    assert told(talk.add(call(5), other))[-1][1] == "side"
    more = exchange([user("Look into the files."), uses("s1", "Read"), gives("s1", "x")], tools=("Read",))
    assert (5, "result", "s1 x") in told(talk.add(call(6), more))
    assert told(talk.add(call(7), exchange([*BEGIN, *FIRST, gives("t1", "w")]))) == [
        (1 + 1, "result", "t1 w"), (7, "called", "ok")
    ]  # fmt: skip


def test_a_helper_with_the_same_tools_and_the_same_reminders_is_a_side_call() -> None:
    talk = Conversation(MODEL)
    begin = [user("<environment>"), user("Write a kernel.")]
    talk.add(call(1), exchange(begin, FIRST, system="You are an agent.\nWork hard."))
    helper = exchange([user("<environment>"), user("Explore.")], [says("x")], system="You are a helper.\nBe short.")
    assert told(talk.add(call(2), helper))[-1][1] == "side"
    summary = exchange([user("<environment>"), user("So far: a kernel.")], [says("x")], system="You are an agent.")
    assert told(talk.add(call(3), summary))[-1][1] == "called"


def test_a_small_model_asked_first_is_a_side_call_and_an_agent_without_tools_is_none() -> None:
    first = exchange(BEGIN, [says("hi")], tools=(), system="")
    assert told(Conversation(MODEL).add(call(1), replace(first, asked_model="claude-haiku")))[-1][1] == "side"
    talk = Conversation(MODEL)
    assert told(talk.add(call(1), first))[-1][1] == "called"
    assert told(talk.add(call(2), exchange([*BEGIN, says("hi"), user("more")], tools=(), system="")))[-1][1] == "called"


def test_calls_without_names_are_told_apart_by_their_order() -> None:
    """Gemini gives tool calls no identity, and the same call may be made twice."""
    talk = Conversation(MODEL)
    same = [uses("", "run", '{"c": 1}'), uses("", "run", '{"c": 1}'), uses("", "read", "{}")]
    found = talk.add(call(1), exchange(BEGIN, same))
    names = [data.call_id for _, data in found if isinstance(data, ToolCall)]
    assert len(set(names)) == 3
    second = [*BEGIN, *same, gives("", "one", "run"), gives("", "two", "run"), gives("", "three", "read")]
    found = talk.add(call(2), exchange(second, [uses("", "run", '{"c": 1}')]))
    results = [(step, data.call_id, data.output) for step, data in found if isinstance(data, ToolResult)]
    assert results == [(1, names[0], "one"), (1, names[1], "two"), (1, names[2], "three")]
    third = [*second, uses("", "run", '{"c": 1}'), gives("", "four", "run")]
    found = talk.add(call(3), exchange(third))
    assert [(step, data.output) for step, data in found if isinstance(data, ToolResult)] == [(2, "four")]


def test_identities_that_come_again_are_told_apart_too() -> None:
    talk = Conversation(MODEL)
    talk.add(call(1), exchange(BEGIN, [uses("call_0", "Bash", '{"command": "a"}')]))
    one = [*BEGIN, uses("call_0", "Bash", '{"command": "a"}'), gives("call_0", "x")]
    talk.add(call(2), exchange(one, [uses("call_0", "Bash", '{"command": "b"}')]))
    two = [*one, uses("call_0", "Bash", '{"command": "b"}'), gives("call_0", "y")]
    assert told(talk.add(call(3), exchange(two)))[0] == (2, "result", "call_0 y")


def test_a_system_prompt_with_a_clock_is_told_once() -> None:
    talk = Conversation(MODEL)
    prompt = "You are an agent.\n" + "\n".join(f"rule {n} " + "x" * 40 for n in range(30))
    assert told(talk.add(call(1), exchange(BEGIN, system=prompt + "\ntime 12:00")))[0][1] == "system"
    assert not [
        one for one in told(talk.add(call(2), exchange(BEGIN, system=prompt + "\ntime 12:01"))) if one[1] != "called"
    ]
    other = "\n".join(f"other {n} " + "y" * 40 for n in range(30))
    assert told(talk.add(call(3), exchange(BEGIN, system=other)))[0][1] == "system"


def test_long_texts_keep_their_ends_and_say_what_is_left_out() -> None:
    long = "a" * MAX_TEXT + "middle" + "z" * MAX_TEXT
    (_, _, text), *_ = told(Conversation(MODEL).add(call(1), exchange([user(long)], system="")))
    assert len(text) <= MAX_TEXT and text.startswith("aaa") and text.endswith("zzz") and "are left out" in text


def test_odd_pieces_never_break_it() -> None:
    talk = Conversation(MODEL)
    odd = [
        Item("other", "user", "image (9 characters)"), gives("never", "no call"), uses("", "", "{" * 5000),
        uses("x", "f", "[" * 100_000), Item("tool_result", "tool"), user(""), user("\ud800"), says(""),
        uses("big", "f", "9" * 5000),
    ]  # fmt: skip
    for number in range(1, 4):
        found = talk.add(call(number), exchange(odd, odd))
        assert isinstance(found[-1][1], ModelCalled)
    assert json.dumps([text for _, _, text in told(found)])


def test_a_call_that_was_refused_unread_is_told() -> None:
    found = told(Conversation(MODEL).add(call(1, status="refused"), Exchange("anthropic-messages", "")))
    assert found == [(1, "called", "refused")]
