"""A trajectory in the Agent Trajectory Interchange Format of Harbor, version 1.7.

A step of ours is at most three of ATIF's: what the system or the user said, then what the agent said and did, with
what its tools gave back. Calls beside the conversation and failed ones are agent steps too, marked in `extra`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.record.archive import RunFolder
from harness.record.events import ToolResult
from harness.record.run import RunRecord
from harness.record.usage import Usage
from harness.view.exports.conversation import Turn, arguments_of, moment, told, turns

__all__ = ["VERSION", "atif"]

VERSION = "ATIF-v1.7"


def atif(folder: RunFolder) -> dict[str, Any]:
    """The run as an ATIF document. Raises ArchiveError and ExportError."""
    record = folder.load()
    found = turns(folder)
    steps = [step for turn in found for step in _steps(turn, record)]
    for number, step in enumerate(steps, 1):
        step["step_id"] = number
    name, _, version = record.harness.rpartition(" ")
    return {
        "schema_version": VERSION,
        "session_id": record.run_id,
        "trajectory_id": record.run_id,
        "agent": {"name": name or record.agent, "version": version or "unknown", "model_name": record.model},
        "steps": steps,
        "notes": "Made from the record of a proxy between the agent and its model. Steps with extra.side are calls "
        "that do not go on with the conversation.",
        "final_metrics": _final(record, len(steps)),
        "extra": {
            "problem": record.problem, "target": record.target, "outcome": record.outcome, "ending": record.ending,
            "verdict": record.verdict, "grade_outcome": record.grade_outcome, "peak_fraction": record.peak_fraction,
            "budget_s": record.budget_s, "sealed": record.room is not None and record.room.sealed,
            "findings": told(record.findings),
        },
    }  # fmt: skip


def _steps(turn: Turn, record: RunRecord) -> Iterator[dict[str, Any]]:
    at = moment(turn.time)
    for message in turn.before:
        yield {"step_id": 0, "timestamp": at, "source": "system" if message.role == "system" else "user",
               "message": message.text}  # fmt: skip
    if turn.end is None and not turn.answered:
        return
    step: dict[str, Any] = {"step_id": 0, "timestamp": at, "source": "agent", "message": turn.text(thinking=False)}
    thinking = turn.text(thinking=True)
    if thinking:
        step["reasoning_content"] = thinking
    if turn.calls:
        step["tool_calls"] = [
            {"tool_call_id": call.call_id, "function_name": call.name or "unnamed", "arguments": arguments_of(call)}
            for call in turn.calls
        ]
    if turn.results:
        step["observation"] = {"results": [_result(one, turn) for one in turn.results]}
    extra: dict[str, Any] = {"step": turn.step}
    if turn.end is not None:
        step["model_name"] = turn.end.model or record.model
        step["metrics"] = _metrics(turn.end.usage)
        step["llm_call_count"] = 1
        extra.update(status=turn.end.status, stop=turn.end.stop, seconds=turn.end.seconds, provider=turn.end.provider)
        extra.update(
            {"side": True} if turn.end.side else {}, **({"detail": turn.end.detail} if turn.end.detail else {})
        )
    step["extra"] = extra
    yield step


def _result(result: ToolResult, turn: Turn) -> dict[str, Any]:
    """A result; it names its call only where the step has it, as the format wants."""
    found: dict[str, Any] = {"content": result.output}
    if any(call.call_id == result.call_id for call in turn.calls):
        found["source_call_id"] = result.call_id
    else:
        found["extra"] = {"call_id": result.call_id}
    if result.is_error:
        found["extra"] = {**found.get("extra", {}), "is_error": True}
    return found


def _metrics(usage: Usage) -> dict[str, Any]:
    found: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
        "extra": {"cache_write_tokens": usage.cache_write_tokens, "reasoning_tokens": usage.reasoning_tokens},
    }  # fmt: skip
    return found if usage.cost_usd is None else {**found, "cost_usd": usage.cost_usd}


def _final(record: RunRecord, count: int) -> dict[str, Any]:
    usage = record.usage
    found: dict[str, Any] = {
        "total_prompt_tokens": usage.prompt_tokens, "total_completion_tokens": usage.output_tokens,
        "total_cached_tokens": usage.cache_read_tokens, "total_steps": count,
        "extra": {"calls": record.calls, "failed_calls": record.failed_calls},
    }  # fmt: skip
    return found if usage.cost_usd is None else {**found, "total_cost_usd": usage.cost_usd}
