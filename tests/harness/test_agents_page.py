"""docs/agents.md is true: its table is that of the adapters, and its made-up CLI works as the page says."""

from __future__ import annotations

import re
import shutil
import sys
import types
from pathlib import Path

import agent_lines
import npm_registry
import pytest
from agent_direct import SOLUTION, run, works
from npm_registry import registry

from harness.agents.base import Adapter, AgentText, AgentTool, Finished
from harness.agents.install import NODE, install
from harness.agents.registry import ADAPTERS
from harness.scripted.faults import FAULTS
from harness.scripted.script import load_script

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "agents.md").read_text()
# The CLI that does not exist: chat completions without streaming, one tool of its own and a shell.
PROGRAM = """\
#!/usr/bin/env python3
import json, os, subprocess, sys, urllib.request
if "--version" in sys.argv: sys.exit(print("tiny 1.0.0"))
def tool(name, *keys):
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in keys}, "required": keys}
    return {"type": "function", "function": {"name": name, "parameters": schema}}
used, messages = {"in": 0, "out": 0}, [{"role": "user", "content": sys.stdin.read()}]
def say(event, **what): print(json.dumps({"event": event, **what}), flush=True)
try:
    while True:
        tools = [tool("put", "path", "content"), tool("sh", "cmd")]
        body = {"model": sys.argv[2], "messages": messages, "tools": tools}
        answer = json.load(urllib.request.urlopen(urllib.request.Request(
            os.environ["TINY_URL"] + "/chat/completions", json.dumps(body).encode(),
            {"authorization": "Bearer " + os.environ["TINY_KEY"]})))
        used["in"] += answer["usage"]["prompt_tokens"]
        used["out"] += answer["usage"]["completion_tokens"]
        message = answer["choices"][0]["message"]
        messages.append(message)
        say("says", text=message["content"])
        for call in message.get("tool_calls", ()):
            given = json.loads(call["function"]["arguments"])
            say("uses", tool=call["function"]["name"], **{"with": given})
            if call["function"]["name"] == "put":
                open(given["path"], "w", encoding="utf-8").write(given["content"])
                said = "done"
            else:
                said = subprocess.run(given["cmd"], shell=True, capture_output=True, text=True).stdout
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})
        if not message.get("tool_calls"):
            break
    say("over", fine=True, used=used)
except OSError:
    say("over", fine=False, used=used)
    sys.exit(1)
"""


def block(name: str) -> str:
    """The code between two marks of the page."""
    found = re.search(rf"<!-- begin: {name} -->\n```python\n(.*?)```\n<!-- end: {name} -->", PAGE, re.S)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def tiny() -> Adapter:
    """The adapter that the page shows."""
    module = types.ModuleType("tiny")
    exec(compile(block("adapter"), "docs/agents.md", "exec"), module.__dict__)
    adapter: Adapter = module.ADAPTER
    return adapter


def test_the_row_of_the_made_up_cli_fits_its_adapter(tiny: Adapter) -> None:
    names = dict(vars(agent_lines))
    exec(compile(block("row"), "docs/agents.md", "exec"), names)
    row = names["TINY"]
    said = [item for line in row.lines for item in tiny.read(line)]
    assert tuple(said) == row.said and tiny.usage(said, lambda pattern: ()) == row.usage
    assert [item.well for line in row.failed for item in tiny.read(line) if isinstance(item, Finished)] == [False]


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not on this machine")
def test_the_made_up_cli_is_installed_and_works(tiny: Adapter, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(npm_registry, "NAME", "tiny-agent")
    monkeypatch.setattr(npm_registry, "VERSION", "1.0.0")
    files = {"package.json": '{"name": "tiny-agent", "version": "1.0.0"}', "tiny": PROGRAM}
    with registry(files) as served:
        monkeypatch.setenv("npm_config_registry", served.url)
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
        there = install(tiny, tmp_path / "agents")
    good = run(tiny, works(), tmp_path / "good", there)
    assert (good.workspace / "solution.py").read_text() == SOLUTION
    assert [item.text for item in good.said if isinstance(item, AgentText)][-1] == "Done: it ran."
    assert [item.name for item in good.said if isinstance(item, AgentTool)] == ["put", "sh"]
    assert good.usage is not None and good.usage.input_tokens == good.told.prompt_tokens
    assert good.status == 0 and Finished(True) in good.said
    bad = run(tiny, works().failing("402"), tmp_path / "bad", there)
    assert bad.status == 1 and Finished(False) in bad.said


def test_the_table_of_the_page_is_that_of_the_adapters() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.M))
    assert list(rows) == list(ADAPTERS)
    for name, adapter in ADAPTERS.items():
        package, runs_on, dialect, _, _ = rows[name].split(" | ")
        if adapter.package is not None:
            assert package == f"{adapter.package.name} {adapter.package.version}"
            assert runs_on == (f"Node {NODE.version.split('.')[0]}" if adapter.package.node else "its own binary")
            assert int(NODE.version.split(".")[0]) >= adapter.package.node
        assert dialect == ("any" if len(adapter.dialects) > 1 else adapter.dialects[0])


def test_the_faults_of_the_page_are_those_there_are() -> None:
    table = (DOCS / "scripts.md").read_text().partition("| Fault |")[2].partition("## ")[0]
    assert re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in table.splitlines()[2:] if row)) == list(FAULTS)


def test_the_script_of_the_page_can_be_played(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", (DOCS / "scripts.md").read_text(), re.S)
    assert found is not None
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text("answer = 42\n")
    (tmp_path / "script.yaml").write_text(found[1])
    script = load_script(tmp_path / "script.yaml")
    result = run(ADAPTERS["mini"], script, tmp_path / "run", arguments=(sys.executable,))
    assert result.status == 0 and [call.turn for call in result.served] == [0, 1, 2, 3]
