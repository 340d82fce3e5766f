"""Which of a CLI's tools does what a script wants, and with which arguments.

A tool is chosen by what its JSON schema takes: a path and a content, or a command. Names only break ties, and decide
for tools that take plain text.
"""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.scripted.asked import Tool
from harness.scripted.script import Do, Invoke, Write

__all__ = ["Call", "NoTool", "calls"]

_PATHS = ("file_path", "filePath", "path", "absolute_path", "filename", "file")
_CONTENTS = ("content", "contents", "file_text", "text")
_COMMANDS = ("command", "cmd", "script")
_WRITERS = ("write", "write_file", "writefile", "create_file", "create")
_SHELLS = ("bash", "shell", "exec_command", "shell_command", "run_shell_command", "execute_command", "local_shell")
_PATCH = "apply_patch"
_FILLED: Mapping[str, Any] = {
    "integer": 60_000, "number": 60_000, "boolean": False, "array": [], "object": {}, "null": None,
}  # fmt: skip


class NoTool(Exception):
    """The CLI offers no tool that does what the script wants; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool. `text` is what a freeform tool is given, or the arguments as JSON."""

    name: str
    text: str
    freeform: bool = False


def calls(does: Sequence[Do], tools: Sequence[Tool], workspace: str) -> tuple[Call, ...]:
    """The tool calls that do what the script says. `workspace` is the root of relative paths. Raises NoTool."""
    return tuple(_call(do, tools, workspace) for do in does)


def _call(do: Do, tools: Sequence[Tool], workspace: str) -> Call:
    if isinstance(do, Invoke):
        found = next((tool for tool in tools if tool.name == do.name), None)
        return Call(do.name, do.arguments, found is not None and found.freeform)
    made = _write(do, tools, workspace) if isinstance(do, Write) else _shell(do.command, tools)
    if made is None:
        wanted = f"write {do.path}" if isinstance(do, Write) else f"run {do.command[:60]!r}"
        names = ", ".join(tool.name for tool in tools[:40]) or "none"
        raise NoTool(f"the script wants to {wanted}, and none of the offered tools can: {names}")
    return made


def _write(do: Write, tools: Sequence[Tool], workspace: str) -> Call | None:
    """By a tool that writes files, else by a patch, else by the shell."""
    tool = _best([tool for tool in tools if _key(tool, _PATHS) and _key(tool, _CONTENTS)], _WRITERS)
    if tool is not None:
        path = posixpath.join(workspace, do.path)
        chosen = {_key(tool, _PATHS): path, _key(tool, _CONTENTS): do.content}
        return _filled(tool, chosen, f"Write {do.path}")
    patch = next((tool for tool in tools if tool.name == _PATCH), None)
    if patch is not None and do.content.endswith("\n"):  # what a patch adds ends with a newline
        text = _patch(do)
        return Call(_PATCH, text, True) if patch.freeform else _filled(patch, {"input": text}, "Write a file")
    return _shell(_heredoc(do), tools)


def _patch(do: Write) -> str:
    added = "".join(f"+{line}\n" for line in do.content.split("\n")[:-1])
    return f"*** Begin Patch\n*** Add File: {do.path}\n{added}*** End Patch\n"


def _heredoc(do: Write) -> str:
    folder = posixpath.dirname(do.path)
    before = f"mkdir -p {shlex.quote(folder)} && " if folder else ""
    place = shlex.quote(do.path)
    if not do.content.endswith("\n"):
        return f"{before}printf %s {shlex.quote(do.content)} > {place}"
    mark = "END_OF_FILE"
    while mark in do.content:
        mark += "_"
    return f"{before}cat > {place} <<'{mark}'\n{do.content}{mark}"


def _shell(command: str, tools: Sequence[Tool]) -> Call | None:
    tool = _best([tool for tool in tools if _key(tool, _COMMANDS)], _SHELLS)
    if tool is None:
        return None
    key = _key(tool, _COMMANDS)
    kinds = _kinds(tool.schema["properties"][key])
    value: object = ["bash", "-lc", command] if "array" in kinds and "string" not in kinds else command
    return _filled(tool, {key: value}, "Run a command")


def _best(fitting: Sequence[Tool], names: Sequence[str]) -> Tool | None:
    """The tool with a usual name, else the one that needs the fewest arguments."""
    ranked = sorted(
        fitting,
        key=lambda tool: (
            names.index(tool.name.lower()) if tool.name.lower() in names else len(names),
            len(_required(tool)),
        ),
    )
    return ranked[0] if ranked else None


def _properties(tool: Tool) -> Mapping[str, Any]:
    found = tool.schema.get("properties")
    return found if isinstance(found, dict) else {}


def _required(tool: Tool) -> list[str]:
    found = tool.schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _key(tool: Tool, names: Sequence[str]) -> str:
    return next((name for name in names if name in _properties(tool)), "")


def _kinds(schema: object) -> set[str]:
    """The JSON types that a property may have, in lower case (Gemini's are upper case)."""
    if not isinstance(schema, dict):
        return set()
    kind = schema.get("type")
    kinds = {str(one).lower() for one in (kind if isinstance(kind, list) else [kind]) if one}
    for way in ("anyOf", "oneOf"):
        for one in schema.get(way) or ():
            kinds |= _kinds(one)
    return kinds


def _filled(tool: Tool, chosen: Mapping[str, object], said: str) -> Call:
    """The call with what else the tool insists on."""
    arguments = dict(chosen)
    for name in _required(tool):
        if name not in arguments:
            arguments[name] = _some(_properties(tool).get(name), said)
    return Call(tool.name, json.dumps(arguments, ensure_ascii=False))


def _some(schema: object, said: str) -> object:
    """A harmless value for a property that must be there."""
    if isinstance(schema, dict):
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return schema["enum"][0]
        if "default" in schema:
            return schema["default"]
    kinds = _kinds(schema)
    return next((_FILLED[kind] for kind in _FILLED if kind in kinds and "string" not in kinds), said)
