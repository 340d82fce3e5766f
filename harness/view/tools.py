"""What a tool call asks for, in a form that people read: a write, an edit, a command, or arguments by name.

CLIs name their tools and arguments in their own ways, so the shape of the arguments decides, not the tool's name.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.agents.base import WORKSPACE

__all__ = ["Asked", "Edit", "asked", "place"]

_PATHS = ("file_path", "filePath", "path", "absolute_path", "filename", "file", "target_file")
_CONTENTS = ("content", "contents", "file_text", "text", "code")
_OLD = ("old_string", "oldString", "old_str", "old", "search")
_NEW = ("new_string", "newString", "new_str", "new", "replace")
_COMMANDS = ("command", "cmd", "script", "commands")
_PATCHES = ("patch", "patchText", "input", "diff")
_PATCH_BEGINS = "*** Begin Patch"
_PATCH_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_WRITERS = re.compile(r"write|create|replace|save", re.IGNORECASE)
MOST_EDITS = 50


@dataclass(frozen=True, slots=True)
class Edit:
    """One text that takes another's place in a file; `every` where it does so wherever it stands."""

    old: str
    new: str
    every: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool call read. `path` is relative to the workspace where it lies there. `content` is a whole file's, `command`
    a shell's text, `patch` a patch in the CLI's own form; `others` are the arguments that are none of these.
    """

    path: str = ""
    content: str | None = None
    edits: tuple[Edit, ...] = ()
    command: str = ""
    patch: str = ""
    others: tuple[tuple[str, str], ...] = ()

    @property
    def gist(self) -> str:
        """The subject of the call, in few words."""
        first = self.command or self.path
        return first or (f"{self.others[0][0]}: {self.others[0][1]}" if self.others else "")

    def applied(self, before: str | None) -> str | None:
        """The file's content after a write or an edit of `before`; None where that cannot be known."""
        if self.content is not None:
            return self.content
        after = before
        for edit in self.edits:
            if not edit.old and not after:
                after = edit.new  # an edit of nothing makes the file
                continue
            if after is None or not edit.old or edit.old not in after:
                return None
            after = after.replace(edit.old, edit.new) if edit.every else after.replace(edit.old, edit.new, 1)
        return after


def place(path: str) -> str:
    """A path as the archive's events name it: relative to the workspace where it lies in it."""
    path = posixpath.normpath(path[:4096].replace("\0", "")) if path else ""
    inside = f"{WORKSPACE}/"
    return path.removeprefix(inside) if path.startswith(inside) else path


def asked(name: str, arguments: str) -> Asked:
    """What a tool call asks for. Never raises: arguments that are no JSON object are shown as they stand."""
    if arguments.lstrip()[:20].startswith(_PATCH_BEGINS):
        return Asked(path=_patched(arguments), patch=arguments)
    try:
        given = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return Asked(others=(("arguments", arguments),))
    path_key, path = _text(given, _PATHS)
    edits, edit_keys = _edits(given)
    if edits:
        return Asked(place(path), edits=edits, others=_rest(given, {path_key, *edit_keys}))
    content_key, content = _text(given, _CONTENTS)
    if path_key and content_key and (_WRITERS.search(name) or len(given) == 2):
        return Asked(place(path), content=content, others=_rest(given, {path_key, content_key}))
    command_key, command = _command(given)
    if command_key:
        return Asked(command=command, others=_rest(given, {command_key}))
    patch_key, patch = _text(given, _PATCHES)
    if patch_key and _PATCH_BEGINS in patch[:4096]:
        return Asked(_patched(patch), patch=patch, others=_rest(given, {patch_key}))
    return Asked(place(path), others=_rest(given, {path_key} if path_key else set()))


def _text(given: Mapping[str, Any], keys: Iterable[str]) -> tuple[str, str]:
    """The first of some arguments that is a text, with its name; two empty texts where there is none."""
    return next(((key, given[key]) for key in keys if isinstance(given.get(key), str)), ("", ""))


def _edits(given: Mapping[str, Any]) -> tuple[tuple[Edit, ...], set[str]]:
    """Edits, alone or in a list, and the arguments that said them."""
    for key in ("edits", "edit"):
        many = given.get(key)
        many = [many] if isinstance(many, dict) else many
        if isinstance(many, list) and many and all(isinstance(item, dict) for item in many[:MOST_EDITS]):
            found = [_edit(item) for item in many[:MOST_EDITS]]
            if all(found) and len(many) <= MOST_EDITS:
                return tuple(edit for edit in found if edit is not None), {key}
    alone = _edit(given)
    if alone is None:
        return (), set()
    return (alone,), {_text(given, _OLD)[0], _text(given, _NEW)[0], "replace_all", "replaceAll"}


def _edit(given: Mapping[str, Any]) -> Edit | None:
    (old_key, old), (new_key, new) = _text(given, _OLD), _text(given, _NEW)
    if not old_key or not new_key:
        return None
    return Edit(old, new, given.get("replace_all") is True or given.get("replaceAll") is True)


def _command(given: Mapping[str, Any]) -> tuple[str, str]:
    """A shell's text; an argument list without the shell that only carries it (`bash -lc TEXT`)."""
    for key in _COMMANDS:
        value = given.get(key)
        if isinstance(value, str):
            return key, value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            carried = len(value) == 3 and value[0].endswith("sh") and value[1] in ("-c", "-lc")
            return key, value[2] if carried else " ".join(value)
    return "", ""


def _rest(given: Mapping[str, Any], taken: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple((str(key), _plain(value)) for key, value in given.items() if key not in taken)


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "(nested too deeply to be shown)"


def _patched(patch: str) -> str:
    found = _PATCH_FILE.search(patch[: 1 << 20])
    return place(found.group(1).strip()) if found else ""
