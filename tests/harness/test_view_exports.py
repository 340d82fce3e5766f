"""Exports of a run, and the command that writes them and the page."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sample_run import Story, sample

from harness.record.events import Message, ToolCall, ToolResult
from harness.record.usage import Usage
from harness.view.cli import main
from harness.view.exports import atif, inspect_log
from harness.view.schema import trajectory_schema

AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
STEP = {"step_id", "timestamp", "source", "message", "observation", "extra", "llm_call_count", *AGENT_ONLY}
ROOT = {"schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics", "extra"}
METRICS = {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra"}


def faults(document: dict[str, Any]) -> list[str]:
    """What breaks the published rules of ATIF 1.7, as its schema and its prose say them."""
    found = [f"unknown field {name}" for name in set(document) - ROOT]
    agent = document["agent"]
    found += [] if isinstance(agent["name"], str) and isinstance(agent["version"], str) else ["agent"]
    for index, step in enumerate(document["steps"], 1):
        here = f"step {index}: "
        found += [here + f"unknown field {name}" for name in set(step) - STEP]
        if step["step_id"] != index:
            found.append(here + "step ids count from 1")
        if step["source"] not in ("system", "user", "agent") or not isinstance(step["message"], str):
            found.append(here + "source or message")
        datetime.fromisoformat(step["timestamp"])
        if step["source"] != "agent" and AGENT_ONLY & set(step):
            found.append(here + "a field that only an agent's step has")
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        for call in step.get("tool_calls", ()):
            if set(call) != {"tool_call_id", "function_name", "arguments"} or not isinstance(call["arguments"], dict):
                found.append(here + "tool call")
        for result in step.get("observation", {}).get("results", ()):
            if set(result) - {"source_call_id", "content", "extra"} or not isinstance(result["content"], str):
                found.append(here + "result")
            if "source_call_id" in result and result["source_call_id"] not in calls:
                found.append(here + "a result of a call that the step has not")
        metrics = step.get("metrics", {})
        if set(metrics) - METRICS or metrics.get("cached_tokens", 0) > metrics.get("prompt_tokens", 0):
            found.append(here + "metrics")
    return found


def test_atif_keeps_the_published_rules(tmp_path: Path) -> None:
    document = atif(sample(tmp_path))
    assert faults(document) == [] and document["schema_version"] == "ATIF-v1.7"
    sources = [step["source"] for step in document["steps"]]
    assert sources == ["system", "user"] + ["agent"] * 8
    assert document["final_metrics"]["total_steps"] == 10 and document["final_metrics"]["total_cost_usd"] == 1.27
    write = document["steps"][3]
    assert write["tool_calls"][0]["arguments"]["file_path"] == "/agent/workspace/solution.py"
    assert write["observation"]["results"][0]["source_call_id"] == write["tool_calls"][0]["tool_call_id"]
    assert [s["extra"]["step"] for s in document["steps"] if s.get("extra", {}).get("side")] == [6]
    assert document["steps"][2]["reasoning_content"].startswith("The reference first")


def test_atif_of_odd_calls_keeps_the_rules_too(tmp_path: Path) -> None:
    story = Story(tmp_path, harness="")

    def says() -> None:
        story.tell(Message("assistant", "\ud800"))
        story.tell(ToolCall("", "", "no json"))
        story.tell(ToolCall("c", "f", '{"a": NaN, "b": 1e999}'))
        story.tell(ToolResult("of nobody", "x", True))

    story.call(Usage(), said=says)
    document = atif(story.end(None))
    assert faults(document) == [] and document["agent"] == {
        "name": "claude-code", "version": "unknown", "model_name": "claude-opus-5.5",
    }  # fmt: skip
    step = document["steps"][0]
    assert step["tool_calls"][0]["arguments"] == {"raw": "no json"}
    assert step["observation"]["results"] == [{"content": "x", "extra": {"call_id": "of nobody", "is_error": True}}]


def test_the_log_for_inspect_is_one_sample_with_its_conversation(tmp_path: Path) -> None:
    log = inspect_log(sample(tmp_path))
    assert (log["version"], log["status"]) == (2, "success")
    assert {"created", "task", "dataset", "model", "config"} <= set(log["eval"])
    (one,) = log["samples"]
    roles = [message["role"] for message in one["messages"]]
    assert roles[:4] == ["system", "user", "assistant", "tool"] and roles[-1] == "assistant"
    asked = [call["id"] for message in one["messages"] for call in message.get("tool_calls", ())]
    assert [m["tool_call_id"] for m in one["messages"] if m["role"] == "tool"] == asked
    assert "FP8 GEMM kernel work" not in json.dumps(one["messages"])  # a side call is none of the conversation
    assert one["scores"]["kbh"]["value"] == 0.534 and one["output"]["choices"][0]["stop_reason"] == "stop"
    assert one["model_usage"]["claude-opus-5.5"]["total_tokens"] == 61_200 + 402_000 + 31_000 + 18_400


def test_a_run_that_nobody_can_judge_is_an_error_without_a_score(tmp_path: Path) -> None:
    log = inspect_log(sample(tmp_path, outcome="ERR", ending="provider-cut", peak_fraction=None))
    assert log["status"] == "error" and "provider-cut" in log["error"]["message"]
    assert log["results"]["scores"] == [] and "scores" not in log["samples"][0]


def test_the_command_writes_the_page_beside_the_run_or_where_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2")
    folder = sample(tmp_path)
    assert main([str(folder.path), "--open", "no"]) == 0
    assert capsys.readouterr().out.strip() == str(folder.path / "view.html")
    assert (folder.path / "view.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main([str(folder.path), "--open", "no", "-o", str(tmp_path / "a.html")]) == 0
    assert (tmp_path / "a.html").read_bytes() == (folder.path / "view.html").read_bytes()


def test_the_command_writes_exports_and_prints_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = sample(tmp_path)
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    assert main([str(folder.path), "--atif", str(a), "--inspect", str(b)]) == 0
    assert capsys.readouterr().out.split() == [str(a), str(b)]
    assert json.loads(a.read_text())["session_id"] == folder.load().run_id and json.loads(b.read_text())["version"] == 2
    assert not (folder.path / "view.html").exists()
    assert main(["--schema"]) == 0 and json.loads(capsys.readouterr().out) == trajectory_schema()


@pytest.mark.parametrize("words", [["{}"], [], ["{}", "--nonsense"], ["{}", "--atif", "/nowhere/a.json"]])
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    place = sample(tmp_path).path if "--atif" in words else tmp_path
    assert main([word.format(place) for word in words]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said and "kbh view: error: " in said


def test_help_has_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert "examples:" in said and "exit codes: 0" in said
