"""Our own agent, and any program, at work against the scripted model; test_agents_matrix.py has the CLIs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from agent_direct import SOLUTION, Ran, run, works

from harness.agents.base import AgentText, AgentTool, Finished
from harness.agents.registry import ADAPTERS
from harness.record.usage import Usage
from harness.scripted.script import Case, Script, Shell, Turn


def counted(usage: Usage | None) -> tuple[int, int, int, int] | None:
    """What all CLIs can tell: not all say what the model thought."""
    if usage is None:
        return None
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


def worked(ran: Ran) -> None:
    """Everything that a good run has."""
    assert ran.status == 0, ran.errors
    assert (ran.workspace / "solution.py").read_text() == SOLUTION, ran.errors
    assert [path.name for path in ran.workspace.iterdir()] == ["solution.py"]
    texts = "".join(item.text for item in ran.said if isinstance(item, AgentText))
    assert "I write it." in texts and "Done: it ran." in texts
    assert sum(isinstance(item, AgentTool) for item in ran.said) == 2
    assert counted(ran.usage) == counted(ran.told) == (4400, 420, 2800, 0)
    assert [call.turn for call in ran.served if not call.side] == [0, 1, 2]


def test_mini_writes_a_file_runs_it_and_ends(tmp_path: Path) -> None:
    ran = run(ADAPTERS["mini"], works(), tmp_path, arguments=(sys.executable,))
    worked(ran)
    assert ran.usage == replace(ran.told, cost_usd=None)


def test_mini_goes_on_after_faults_that_pass(tmp_path: Path) -> None:
    script = works()
    faulty = replace(script.turns[1], fault=script.failing("503").fault)
    assert faulty.fault is not None
    passing = replace(faulty, fault=replace(faulty.fault, times=1))
    ran = run(ADAPTERS["mini"], replace(script, turns=(script.turns[0], passing, script.turns[2])), tmp_path)
    worked(replace(ran, served=tuple(call for call in ran.served if not call.fault)))
    assert [call.fault for call in ran.served] == ["", "503", "", ""]


@pytest.mark.parametrize("fault", ["401", "402", "cut", "empty"])
def test_mini_ends_badly_where_the_model_gives_no_answer(tmp_path: Path, fault: str) -> None:
    ran = run(ADAPTERS["mini"], works().failing(fault), tmp_path)
    assert ran.status == 1
    assert [item.well for item in ran.said if isinstance(item, Finished)] == [False]
    assert "the model gave no answer" in ran.errors and "Traceback" not in ran.errors


def test_a_command_that_fails_is_a_result_that_the_model_sees(tmp_path: Path) -> None:
    script = Script((
        Turn((Case(does=(Shell("echo to-standard-error >&2; exit 3"),)),)),
        Turn((Case("exit status 3", text="I see."), Case(text="I see nothing."))),
    ))  # fmt: skip
    ran = run(ADAPTERS["mini"], script, tmp_path)
    assert [item.text for item in ran.said if isinstance(item, AgentText)] == ["I see."]


def test_any_program_can_be_the_agent(tmp_path: Path) -> None:
    program = tmp_path / "agent.sh"
    program.write_text('cat > prompt; echo "$KBH_MODEL" > model; echo \'{"type": "end", "ok": true}\'\n')
    ran = run(ADAPTERS["command"], works(), tmp_path / "run", arguments=("sh", str(program)), prompt="Do it.")
    assert (ran.workspace / "prompt").read_text() == "Do it."
    assert (ran.workspace / "model").read_text() == "kbh-model\n"
    assert ran.said == (Finished(True),) and ran.usage is None
