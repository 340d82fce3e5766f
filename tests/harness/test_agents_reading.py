"""What adapters make of the lines that the CLIs print, and how they start them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import replace
from fnmatch import fnmatch

import pytest
from agent_lines import PRINTED, Printed

from harness.agents.base import AgentUsage, Finished, Job
from harness.agents.registry import ADAPTERS, adapter_named
from harness.record.usage import Usage

JOB = Job("some/model", "Write a kernel.\nIt must be fast.", "http://127.0.0.1:4040", "stand-in-key")
HOSTILE = (
    "", "{", "null", "[]", '"text"', "{}", '{"type": null}', '{"type": ["result"]}', "[" * 100_000,
    '{"type": "result", "usage": 7, "modelUsage": [1], "stats": "x", "result": {"a": 1}, "is_error": "no"}',
    '{"type": "result", "usage": {"input_tokens": -1, "output_tokens": 1e99, "input": true}}',
    '{"type": "assistant", "message": {"content": [1, null, {"type": "text"}, {"type": "tool_use", "input": 3}]}}',
    '{"type": "assistant", "message": {"content": "text"}}',
    '{"role": "assistant", "content": {"a": 1}, "tool_calls": [{"function": "x"}, 7]}',
    '{"type": "item.completed", "item": {"type": "command_execution", "command": {"a": [1]}}}',
    '{"type": "step_finish", "part": {"tokens": {"input": "7", "cache": 3}, "reason": 1}}',
    '{"type": "usage", "input_tokens": 123456789012345678901234567890}',
)  # fmt: skip


def files_of(printed: Printed) -> Callable[[str], Iterable[tuple[str, bytes]]]:
    """The files of a home that fit a pattern."""
    return lambda pattern: [(path, data) for path, data in printed.files.items() if fnmatch(path, pattern)]


def plain(usage: Usage | None) -> Usage | None:
    """Without a price, of which the CLIs' own idea is none of ours."""
    return None if usage is None else replace(usage, cost_usd=None)


def test_every_adapter_has_a_row_of_lines() -> None:
    assert set(PRINTED) == set(ADAPTERS)


@pytest.mark.parametrize("name", PRINTED)
def test_lines_of_a_good_run_are_read(name: str) -> None:
    adapter, printed = ADAPTERS[name], PRINTED[name]
    said = [item for line in printed.lines for item in adapter.read(line)]
    assert tuple(said) == printed.said
    assert plain(adapter.usage(said, files_of(printed))) == printed.usage


@pytest.mark.parametrize("name", PRINTED)
def test_a_failure_is_never_read_as_a_good_end(name: str) -> None:
    said = [item for line in PRINTED[name].failed for item in ADAPTERS[name].read(line)]
    ends = [item for item in said if isinstance(item, Finished)]
    assert not any(item.well for item in ends)
    assert len(ends) == (0 if name == "kimi" else 1)  # kimi says it on standard error


@pytest.mark.parametrize("name", PRINTED)
def test_lines_that_are_none_of_its_events_do_no_harm(name: str) -> None:
    adapter = ADAPTERS[name]
    said = [item for line in HOSTILE for item in adapter.read(line)]
    for item in said:
        if isinstance(item, AgentUsage):
            assert 0 <= item.usage.input_tokens < 1 << 51
            assert 0 <= item.usage.output_tokens < 1 << 51
    adapter.usage(said, lambda pattern: [("a", b"\xff\x00{}\n" + b'{"type":"usage.record","usage":[]}')])


@pytest.mark.parametrize("name", [name for name in PRINTED if name != "command"])
def test_a_cli_is_started_with_the_proxy_as_its_only_address_and_no_real_key(name: str) -> None:
    launch = ADAPTERS[name].launch(JOB)
    known = " ".join([*launch.argv, *launch.env.values(), *(data.decode() for data in launch.files.values())])
    assert JOB.base_url in known and JOB.key in known
    assert JOB.model in known
    assert (JOB.prompt.encode() in launch.stdin) != (JOB.prompt in launch.argv)
    assert launch.env["HOME"] == "/agent/home" and launch.env["TMPDIR"] == "/agent/tmp"
    assert all(not path.startswith(("/", "..")) for path in launch.files)
    written = [value for key, value in launch.env.items() if key.startswith("XDG_") or key.endswith("_HOME")]
    assert all(value.startswith("/agent/home") for value in written)


@pytest.mark.parametrize("name", [name for name, adapter in ADAPTERS.items() if adapter.efforts])
def test_an_effort_reaches_the_cli_and_none_leaves_its_default(name: str) -> None:
    adapter = ADAPTERS[name]

    def shown(job: Job) -> str:
        launch = adapter.launch(job)
        values = [*launch.argv, *launch.env.values(), *(data.decode() for data in launch.files.values())]
        return " ".join(values)

    assert "high" in shown(replace(JOB, effort="high"))
    assert "high" not in shown(JOB)


def test_text_that_is_code_in_a_configuration_stays_text() -> None:
    model = 'x"\nsandbox_mode = "read-only'
    config = adapter_named("codex").launch(replace(JOB, model=model)).files[".codex/config.toml"].decode()

    assert tomllib.loads(config)["model"] == model


def test_a_prompt_too_long_for_an_argument_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="longer than 120000 bytes"):
        adapter_named("kimi").launch(replace(JOB, prompt="x" * 200_000))


def test_the_command_adapter_needs_a_program() -> None:
    with pytest.raises(ValueError, match="needs a program"):
        adapter_named("command").launch(JOB)
    launch = adapter_named("command").launch(replace(JOB, arguments=("python3", "agent.py")))
    assert launch.argv == ("python3", "agent.py")
    assert launch.env["KBH_BASE_URL"] == JOB.base_url


def test_a_name_that_is_no_agent_is_said_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="there is no agent 'cursor'; there are claude, codex"):
        adapter_named("cursor")
