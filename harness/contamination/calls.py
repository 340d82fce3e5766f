"""What a tool call asks for, whichever CLI's tool it is: commands, paths, patches and addresses in its arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness.contamination.commands import Reach, reach_of_code, reach_of_content, reach_of_path, reach_of_shell
from harness.contamination.places import Places, hosts_in, judge_of_host
from harness.contamination.rules import finding
from harness.record.events import Finding

__all__ = ["look_at_call"]

MOST_ARGUMENTS = 2 << 20  # characters
MOST_FINDINGS = 20  # of one call
MOST_DEPTH = 12
_COMMANDS = frozenset("command cmd script shell_command commands bash chars".split())
_FOLDERS = frozenset("workdir cwd working_directory working_dir dir_path directory".split())
# Text for people and models, or patterns: nothing in it is a place.
_WORDS = frozenset(
    "description prompt query reason justification explanation title todos plan question summary regex thought task"
    " search_term activeForm subject instruction instructions old_string oldString old_str output_mode timeout".split()
)
_CONTENTS = frozenset(
    "content contents new_string newString new_str file_text text insert_text patch diff input edit edits".split()
)
_CODES = frozenset(("code", "python", "source"))
_PATCH = "*** Begin Patch"
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)
_WEB_TOOL = re.compile(
    r"web_?(?:fetch|search)|fetch_?url|url_?fetch|google|browse|http_?(?:get|request)|^search_?web", re.I
)
_GLOB_TOOL = re.compile(r"glob|list|^ls$|find_?files", re.I)
_MESSAGES = {
    "reaches-for-judge": "asks for what belongs to the judge or to other runs",
    "reaches-for-secrets": "asks for keys, other processes or other users' files",
    "reaches-for-network": "asks for something outside the machine",
    "leaves-the-room": "runs a program that leaves the room or attaches to other processes",
    "outside-workspace": "names a place that is neither the agent's own nor the system's",
}


def look_at_call(
    name: str, arguments: str, cwd: str = "", home: str = "", *, places: Places | None = None, step: int = 0
) -> list[Finding]:
    """What a call of a tool reaches for outside its room, one finding for each place; at most MOST_FINDINGS.

    `arguments` is JSON text as the model wrote it, or any text. `cwd` and `home` are folders of the agent where they
    are not those of `places`. `step` is named in the findings where it is not 0.
    """
    places = places or Places()
    if cwd:
        places = replace(places, workspace=cwd)
    if home:
        places = replace(places, home=home)
    found: dict[Reach, None] = {}
    for reach in _reaches(name, arguments[:MOST_ARGUMENTS], places):
        found[reach] = None
        if len(found) >= MOST_FINDINGS:
            break
    start = f"Step {step}: a call of {name[:80]}" if step else f"A call of {name[:80]}"
    return [finding(rule, f"{start} {_MESSAGES[rule]}.", about, step=step) for rule, about in found]


def _reaches(name: str, arguments: str, places: Places) -> Iterator[Reach]:
    try:
        value: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        value = {"patch": arguments} if _PATCH in arguments else {"command": arguments}
    if not isinstance(value, dict):
        value = {"command": value} if isinstance(value, (str, list)) else {}
    if _WEB_TOOL.search(name):
        hosts = [host for text in _strings(value, 0) for host in hosts_in(text)]
        away = [reach for host in hosts if (reach := judge_of_host(host)) is not None]
        yield from away
        if not hosts:
            yield "reaches-for-network", name[:80]
        return
    cwd = places.workspace
    for key in _FOLDERS & value.keys():
        if isinstance(value[key], str) and value[key]:
            yield from reach_of_path(value[key], cwd, places, "list")
            cwd = value[key] if value[key].startswith("/") else f"{cwd}/{value[key]}"
    for key, item in value.items():
        if key not in _FOLDERS:
            yield from _of_item(name, str(key), item, cwd, places, 0)


def _of_item(name: str, key: str, item: object, cwd: str, places: Places, depth: int) -> Iterator[Reach]:
    if depth > MOST_DEPTH or key in _WORDS:
        return
    if key in _COMMANDS and isinstance(item, list) and all(isinstance(word, str) for word in item):
        yield from _of_command(" ".join(_quoted(word) for word in item), cwd, places)
    elif isinstance(item, dict):
        for inner, value in item.items():
            yield from _of_item(name, str(inner), value, cwd, places, depth + 1)
    elif isinstance(item, list):
        for value in item:
            yield from _of_item(name, key, value, cwd, places, depth + 1)
    elif isinstance(item, str) and item:
        yield from _of_text(name, key, item, cwd, places)


def _of_text(name: str, key: str, text: str, cwd: str, places: Places) -> Iterator[Reach]:
    if _PATCH in text and key not in _COMMANDS:
        yield from _of_patch(text, cwd, places)
    elif key in _COMMANDS:
        yield from _of_command(text, cwd, places)
    elif key in _CODES:
        yield from reach_of_code(text, cwd, places)
    elif key in _CONTENTS:
        yield from reach_of_content(text, cwd, places)
    elif "://" in text[:12] and not text.startswith("file://"):
        for host in hosts_in(text):
            if (reach := judge_of_host(host)) is not None:
                yield reach
    elif key != "pattern" or _GLOB_TOOL.search(name):
        yield from reach_of_path(text, cwd, places, "list" if _GLOB_TOOL.search(name) else "read")


def _of_command(text: str, cwd: str, places: Places) -> Iterator[Reach]:
    if _PATCH in text:
        yield from _of_patch(text, cwd, places)
    else:
        yield from reach_of_shell(text, cwd, places)


def _of_patch(text: str, cwd: str, places: Places) -> Iterator[Reach]:
    for place in _PATCHED.findall(text):
        yield from reach_of_path(place.strip(), cwd, places, "read")
    added = "\n".join(line[1:] for line in text.splitlines() if line.startswith("+"))
    yield from reach_of_content(added, cwd, places)
    before = text.partition(_PATCH)[0]
    if before.strip() and "<<" in before:  # a shell command that hands the patch on
        yield from reach_of_shell(before.rpartition("<<")[0], cwd, places)


def _strings(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < MOST_DEPTH and isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item, depth + 1)


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
