"""Script files: what they may say, and what is wrong with those that cannot be followed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from harness.record.exchange import Exchange, Item
from harness.record.usage import Usage
from harness.scripted.asked import Tool
from harness.scripted.script import Invoke, Script, ScriptError, Shell, Write, load_script
from harness.scripted.tools import NoTool, calls

WHOLE = """\
name: a run
model: some/model
provider: Somewhere
side: {text: A title, usage: {input: 7, output: 2}}
turns:
  - text: I write it.
    thinking: Hm.
    write:
      - {path: solution.py, content: "a = 1\\n"}
      - {path: kernels/add.cu, content_file: add.cu}
    usage: {input: 10, output: 20, cache_read: 3, cache_write: 4, reasoning: 5}
  - shell: python3 solution.py
    fault: {kind: 429, times: 2, retry_after: 1}
  - cases:
      - {if: Error, shell: cat solution.py}
      - {text: Done., end: true}
"""


def write(folder: Path, text: str) -> Path:
    """A script file, with a kernel beside it."""
    (folder / "add.cu").write_text("__global__ void add();\n")
    file = folder / "script.yaml"
    file.write_text(text)
    return file


def test_everything_in_a_script_file_is_read(tmp_path: Path) -> None:
    script = load_script(write(tmp_path, WHOLE))
    first, second, third = script.turns
    assert (script.name, script.model, script.provider, script.side.text) == (
        "a run", "some/model", "Somewhere", "A title",
    )  # fmt: skip
    assert first.cases[0].does == (
        Write("solution.py", "a = 1\n"),
        Write("kernels/add.cu", "__global__ void add();\n"),
    )
    assert first.cases[0].usage == Usage(10, 20, 3, 4, 5)
    assert second.cases[0].does == (Shell("python3 solution.py"),)
    assert second.fault is not None and (second.fault.status, second.fault.times) == (429, 2)
    assert third.case("an Error happened").does and not third.case("all well").does
    assert script.uses_tools


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("turns: []", "turns is not a list of 1 to 1000 turns"),
        ("- a", "the script is not a mapping"),
        ("turns: [{write: {path: a}}]", "turns[0].write has not one of content and content_file"),
        ("turns: [{write: {content: a}}]", "turns[0].write has no path"),
        ("turns: [{text: [1]}]", "turns[0].text is not text"),
        ("turns: [{sell: ls}]", "turns[0] has an unknown key 'sell'"),
        ("turns: [{shell: ls, end: true}]", "turns[0] ends the conversation and uses a tool"),
        ("turns: [{text: a, fault: 418}]", "turns[0].fault is '418', not one of 401, 402"),
        ("turns: [{text: a, usage: {input: -1}}]", "turns[0].usage.input is not a number of tokens"),
        ("turns: [{text: a, usage: {output: 1, reasoning: 2}}]", "more reasoning than output"),
        ("turns: [{text: a}]\nfault: {kind: 429, times: x}", "fault.times is not a whole number"),
        ("turns: [{write: {path: a, content_file: none.cu}}]", "none.cu: no such file or directory"),
        ("turns: [\n  {text: 'a}", "is no YAML at line"),
        ("turns: [{text: a}]\nturns2: !!python/object/apply:os.system ['true']", "is no YAML at line 2"),
    ],
)
def test_a_script_that_cannot_be_followed_is_refused_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ScriptError) as error:
        load_script(write(tmp_path, text))
    assert said in str(error.value) and str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


# --- a recorded run as a script ------------------------------------------------------------------------------


def recorded(turn: int, *, tools: tuple[str, ...] = ("Write",), complete: bool = True, text: str = "") -> Exchange:
    """The call of a turn, with the conversation before it."""
    before = [Item("text", "user", "Write a kernel.")]
    for number in range(turn):
        before += [
            Item("text", "assistant", f"turn {number}"),
            Item("tool_call", "assistant", call_id=f"id{number}", name="Write", arguments=f'{{"n": {number}}}'),
            Item("tool_result", "tool", "done", call_id=f"id{number}"),
        ]
    made = Item("tool_call", "assistant", call_id=f"id{turn}", name="Write", arguments=f'{{"n": {turn}}}')
    output = (Item("thinking", "assistant", "Hm."), Item("text", "assistant", text or f"turn {turn}"), made)
    return Exchange(
        "anthropic-messages", "m", "m-2026", "P", "", tools, tuple(before), output, Usage(turn, 1), "x", complete
    )


def test_a_recorded_run_becomes_a_script_with_its_tool_calls() -> None:
    calls_of_run = [
        recorded(0),
        recorded(0, tools=(), text="a title"),
        recorded(1, complete=False),
        recorded(1),
        recorded(2),
    ]
    script = Script.from_calls(calls_of_run)
    assert [turn.cases[0].text for turn in script.turns] == ["turn 0", "turn 1", "turn 2"]
    assert script.turns[2].cases[0].does == (Invoke("Write", '{"n": 2}'),)
    assert (script.model, script.provider, script.side.text) == ("m-2026", "P", "a title")
    assert script.turns[2].cases[0].usage == Usage(2, 1)


def test_a_record_without_answers_or_with_a_gap_is_refused() -> None:
    with pytest.raises(ScriptError, match="nothing to replay"):
        Script.from_calls([recorded(0, complete=False)])
    with pytest.raises(ScriptError, match="lacks the answer of turn 2"):
        Script.from_calls([recorded(0), recorded(2)])


# --- which tool does it --------------------------------------------------------------------------------------


def tool(name: str, *required: str, **properties: object) -> Tool:
    """A tool with these properties; text where nothing is said."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name, schema)


TEXT = {"type": "string"}


def test_a_tool_is_found_by_what_its_schema_takes() -> None:
    tools = [
        tool("Edit", file_path=TEXT, old_string=TEXT),
        tool("PutIntoFile", "absolute_path", absolute_path=TEXT, contents=TEXT),
        tool("RunIt", "cmd", cmd={"type": "array", "items": TEXT}),
    ]
    wrote, ran = calls([Write("a.py", "x\n"), Shell("ls")], tools, "/work")
    assert (wrote.name, json.loads(wrote.text)) == ("PutIntoFile", {"absolute_path": "/work/a.py", "contents": "x\n"})
    assert (ran.name, json.loads(ran.text)) == ("RunIt", {"cmd": ["bash", "-lc", "ls"]})


def test_a_usual_name_decides_between_tools_that_could_both_do_it() -> None:
    tools = [tool("notebook", path=TEXT, content=TEXT), tool("write", filePath=TEXT, content=TEXT)]
    assert calls([Write("a", "")], tools, "/w")[0].name == "write"


def test_what_a_tool_insists_on_besides_is_filled_in() -> None:
    offered = tool(
        "shell", "command", "description", "timeout", "background", "mode", "cwd", command=TEXT, description=TEXT,
        timeout={"type": "NUMBER"}, background={"type": ["boolean", "null"]}, mode={"enum": ["safe", "fast"]},
        cwd={"type": "string", "default": "."},
    )  # fmt: skip
    assert json.loads(calls([Shell("ls")], [offered], "/w")[0].text) == {
        "command": "ls", "description": "Run a command", "timeout": 60000, "background": False, "mode": "safe",
        "cwd": ".",
    }  # fmt: skip


def test_a_file_is_written_by_a_patch_where_only_that_is_offered() -> None:
    (call,) = calls([Write("a.py", "x = 1\n\ny = 2\n")], [Tool("apply_patch", freeform=True)], "/w")
    assert call.freeform
    assert call.text == "*** Begin Patch\n*** Add File: a.py\n+x = 1\n+\n+y = 2\n*** End Patch\n"


@pytest.mark.parametrize("content", ["x = 1\n", "no newline", "", "END_OF_FILE\n$HOME `x` 'q' \"\\\n"])
def test_a_file_is_written_by_the_shell_where_nothing_else_is_offered(tmp_path: Path, content: str) -> None:

    (call,) = calls([Write("deep/a b.py", content)], [tool("exec_command", cmd=TEXT)], str(tmp_path))
    subprocess.run(["bash", "-c", json.loads(call.text)["cmd"]], cwd=tmp_path, check=True)
    assert (tmp_path / "deep" / "a b.py").read_text() == content


def test_a_cli_without_a_fitting_tool_is_told_which_were_offered() -> None:
    with pytest.raises(NoTool, match="wants to run 'ls', and none of the offered tools can: Read, Grep"):
        calls([Shell("ls")], [tool("Read", file_path=TEXT), tool("Grep", pattern=TEXT)], "/w")
