"""A run as a log of inspect_ai (its JSON form, version 2): one task with one sample, for `inspect view`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.record.archive import RunFolder
from harness.record.run import RunRecord
from harness.record.usage import Usage
from harness.view.exports.conversation import Turn, arguments_of, moment, told, turns

__all__ = ["inspect_log"]

_STOPS = {
    "end_turn": "stop", "stop": "stop", "completed": "stop", "STOP": "stop", "tool_use": "tool_calls",
    "tool_calls": "tool_calls", "max_tokens": "max_tokens", "length": "max_tokens", "MAX_TOKENS": "max_tokens",
    "content_filter": "content_filter", "refusal": "content_filter", "SAFETY": "content_filter",
}  # fmt: skip


def inspect_log(folder: RunFolder) -> dict[str, Any]:
    """The run as a log, without the calls beside the conversation. A run without a score has none here.

    Raises ArchiveError and ExportError.
    """
    record = folder.load()
    found = turns(folder)
    talk = [turn for turn in found if not turn.side]
    usage = {record.model: _usage(record.usage)}
    value = record.peak_fraction
    began, ended = moment(record.started), moment(record.ended)
    sample = {
        "id": record.problem, "epoch": max(record.trial, 1), "input": _prompt(talk), "target": "",
        "messages": [message for turn in talk for message in _messages(turn)],
        "output": _output(talk, record), "model_usage": usage, "started_at": began, "completed_at": ended,
        "total_time": max(record.ended - record.started, 0.0), "working_time": record.spent.agent,
        "metadata": _facts(record),
    }  # fmt: skip
    if value is not None:
        sample["scores"] = {"kbh": {"value": value, "answer": record.outcome, "explanation": _why(record)}}
    log: dict[str, Any] = {
        "version": 2,
        "status": "error" if record.outcome == "ERR" else "success" if record.state == "done" else "started",
        "eval": {
            "run_id": record.run_id, "eval_id": record.run_id, "task_id": record.run_id, "created": began,
            "task": f"kbh/{record.problem}", "model": record.model, "solver": record.harness or record.agent,
            "dataset": {"name": record.problem, "samples": 1, "sample_ids": [record.problem]}, "config": {"epochs": 1},
            "packages": dict(record.versions), "metadata": _facts(record),
        },
        "plan": {"name": record.agent, "steps": [{"solver": record.agent}]},
        "results": {
            "total_samples": 1, "completed_samples": int(record.outcome in ("PASS", "FAIL")),
            "scores": [] if value is None else [{"name": "kbh", "scorer": "kbh", "metrics": {
                "peak_fraction": {"name": "peak_fraction", "value": value}}}],
        },
        "stats": {"started_at": began, "completed_at": ended, "model_usage": usage},
        "samples": [sample],
    }  # fmt: skip
    if record.outcome == "ERR":
        log["error"] = {"message": _why(record), "traceback": "", "traceback_ansi": ""}
    return log


def _messages(turn: Turn) -> Iterator[dict[str, Any]]:
    for message in turn.before:
        yield {"role": message.role, "content": message.text}
    if turn.answered:
        yield _assistant(turn)
    names = {call.call_id: call.name for call in turn.calls}
    for result in turn.results:
        error = {"error": {"type": "unknown", "message": result.output[:500]}} if result.is_error else {}
        yield {"role": "tool", "content": result.output, "tool_call_id": result.call_id,
               "function": names.get(result.call_id, "unknown"), **error}  # fmt: skip


def _assistant(turn: Turn) -> dict[str, Any]:
    content = [
        {"type": "reasoning", "reasoning": message.text} if message.thinking else {"type": "text", "text": message.text}
        for message in turn.said
    ]
    made: dict[str, Any] = {"role": "assistant", "content": content, "source": "generate"}
    if turn.end is not None and turn.end.model:
        made["model"] = turn.end.model
    if turn.calls:
        made["tool_calls"] = [
            {"id": call.call_id, "function": call.name, "arguments": arguments_of(call), "type": "function"}
            for call in turn.calls
        ]
    return made


def _prompt(talk: Sequence[Turn]) -> str:
    return next((message.text for turn in talk for message in turn.before if message.role == "user"), "")


def _output(talk: Sequence[Turn], record: RunRecord) -> dict[str, Any]:
    last = next((turn for turn in reversed(talk) if turn.answered), None)
    if last is None:
        return {"model": record.model, "choices": []}
    stop = _STOPS.get(last.end.stop, "unknown") if last.end is not None else "unknown"
    return {"model": record.model, "choices": [{"message": _assistant(last), "stop_reason": stop}]}


def _usage(usage: Usage) -> dict[str, Any]:
    found: dict[str, Any] = {
        "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens, "input_tokens_cache_read": usage.cache_read_tokens,
        "input_tokens_cache_write": usage.cache_write_tokens, "reasoning_tokens": usage.reasoning_tokens,
    }  # fmt: skip
    return found if usage.cost_usd is None else {**found, "total_cost": usage.cost_usd}


def _why(record: RunRecord) -> str:
    parts = [record.outcome or record.state, record.ending, record.detail]
    if record.verdict:
        parts.append(f"{record.grade_outcome}, verdict {record.verdict}")
    return ": ".join(part for part in parts if part)


def _facts(record: RunRecord) -> dict[str, Any]:
    return {
        "run_id": record.run_id, "agent": record.harness, "target": record.target, "effort": record.effort,
        "budget_s": record.budget_s, "outcome": record.outcome, "ending": record.ending, "verdict": record.verdict,
        "grade_outcome": record.grade_outcome, "sealed": record.room is not None and record.room.sealed,
        "findings": told(record.findings),
    }  # fmt: skip
