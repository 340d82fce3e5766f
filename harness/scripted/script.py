"""Scripts: what a scripted model says and does, turn by turn (docs/scripts.md describes the file).

A script does not know which CLI it plays for. It says what is to be done (write a file, run a command) and
harness.scripted.tools finds the tool among those that the CLI offers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import yaml

from harness.record.exchange import Exchange
from harness.record.usage import Usage
from harness.scripted.faults import FAULTS, Fault, fault_named

__all__ = ["SOLUTION_SUFFIX", "Case", "Do", "Invoke", "Script", "ScriptError", "Shell", "Turn", "Write", "load_script"]

MAX_SCRIPT_BYTES = 4 << 20
MAX_CONTENT_BYTES = 4 << 20
MAX_TURNS = 1000
SOLUTION_SUFFIX = ".py"
_SIDE = Usage(input_tokens=11, output_tokens=3)
_TURN = Usage(input_tokens=1000, output_tokens=100)
_USAGE = {
    "input": "input_tokens", "output": "output_tokens", "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens", "reasoning": "reasoning_tokens",
}  # fmt: skip


class ScriptError(Exception):
    """A script cannot be followed; the text is one sentence that says where."""


@dataclass(frozen=True, slots=True)
class Write:
    """A file with this content is to be written. `path` is relative to the workspace."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Shell:
    """The scripted model answers with a call of the CLI's shell tool that runs this command."""

    command: str


@dataclass(frozen=True, slots=True)
class Invoke:
    """A tool is to be called just so: by name, with arguments as JSON text. It fits one CLI only."""

    name: str
    arguments: str


Do = Write | Shell | Invoke


@dataclass(frozen=True, slots=True)
class Case:
    """What the model says and does, if the last tool's result holds the text `holds` ("" always does)."""

    holds: str = ""
    text: str = ""
    thinking: str = ""
    does: tuple[Do, ...] = ()
    usage: Usage = _TURN


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model: the first case that fits. Without anything to do it ends the conversation."""

    cases: tuple[Case, ...]
    fault: Fault | None = None

    def case(self, result: str) -> Case:
        """The case for the last tool's result; the last one where none fits."""
        return next((case for case in self.cases if case.holds in result), self.cases[-1])


@dataclass(frozen=True, slots=True)
class Script:
    """A conversation to play. `model` and `provider` are what answers name; "" is the model that was asked for, and
    no provider. `side` answers calls that offer no tool (titles, summaries). `fault` is that of every call.
    """

    turns: tuple[Turn, ...]
    name: str = "script"
    model: str = ""
    provider: str = ""
    side: Case = field(default_factory=lambda: Case(text="Work on a kernel", usage=_SIDE))
    fault: Fault | None = None

    @property
    def uses_tools(self) -> bool:
        """Whether any turn does something."""
        return any(case.does for turn in self.turns for case in turn.cases)

    def failing(self, fault: str) -> Script:
        """The same script with a fault at every call. Raises ScriptError for a name that is none."""
        return replace(self, fault=_fault(fault, "fault"))

    @classmethod
    def from_calls(cls, exchanges: Iterable[Exchange], *, name: str = "replay") -> Script:
        """A script that gives the answers of a recorded run again, with the tools that they named: for the same CLI.

        A repeated request (the same conversation asked again) replays its last answer. Raises ScriptError where no
        answer came to its end.
        """
        turns: dict[int, Turn] = {}
        side: Case | None = None
        model = provider = ""
        for exchange in exchanges:
            if not exchange.complete:
                continue
            case = _recorded(exchange)
            if not exchange.tools:
                side = case
                continue
            turns[_answers(exchange)] = Turn((case,))
            model, provider = exchange.model, exchange.provider
        if not turns:
            raise ScriptError("the record holds no answer that came to its end, so there is nothing to replay")
        missing = sorted(set(range(max(turns))) - set(turns))
        if missing:
            raise ScriptError(f"the record lacks the answer of turn {missing[0] + 1}, so it cannot be replayed")
        script = cls(tuple(turns[number] for number in sorted(turns)), name, model, provider)
        return script if side is None else replace(script, side=side)


def _answers(exchange: Exchange) -> int:
    """How many answers with tool calls the request already has: the place of its answer in the conversation."""
    count, within = 0, False
    for item in exchange.input:
        if item.kind == "tool_call" and not within:
            count += 1
        within = item.kind == "tool_call" or (within and item.role == "assistant")
    return count


def _recorded(exchange: Exchange) -> Case:
    text = "".join(item.text for item in exchange.output if item.kind == "text")
    thinking = "".join(item.text for item in exchange.output if item.kind == "thinking")
    does = tuple(Invoke(item.name, item.arguments) for item in exchange.output if item.kind == "tool_call")
    return Case("", text, thinking, does, exchange.usage)


# --- the file ------------------------------------------------------------------------------------------------


def load_script(path: Path) -> Script:
    """The script in a YAML file, or one that writes a Python file as the solution and is done.

    Raises ScriptError, which names the file and the place in it.
    """
    if path.suffix == SOLUTION_SUFFIX:
        write = Case(does=(Write("solution.py", _read(path, MAX_CONTENT_BYTES)),))
        return Script((Turn((write,)), Turn((Case(text="Done."),))), path.stem)
    try:
        data = _read(path, MAX_SCRIPT_BYTES)
        loaded = yaml.safe_load(data)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise ScriptError(f"{path} is no YAML{where}") from None
    try:
        return _script(loaded, path.parent, path.stem)
    except ScriptError as error:
        raise ScriptError(f"{path}: {error}") from None


def _read(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ScriptError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if len(data) > most:
        raise ScriptError(f"{path} is longer than {most >> 20} MiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ScriptError(f"{path} is not text in UTF-8") from None


def _script(data: object, folder: Path, name: str) -> Script:
    found = _mapping(data, "the script", {"name", "model", "provider", "side", "fault", "turns"})
    turns = found.get("turns")
    if not isinstance(turns, list) or not 1 <= len(turns) <= MAX_TURNS:
        raise ScriptError(f"turns is not a list of 1 to {MAX_TURNS} turns")
    script = Script(
        tuple(_turn(turn, folder, f"turns[{number}]") for number, turn in enumerate(turns)),
        _text(found, "name", "the script") or name,
        _text(found, "model", "the script"),
        _text(found, "provider", "the script"),
        fault=_fault(found["fault"], "fault") if "fault" in found else None,
    )
    if "side" not in found:
        return script
    side = _mapping(found["side"], "side", {"text", "usage"})
    return replace(script, side=Case(text=_text(side, "text", "side"), usage=_usage(side, "side", _SIDE)))


def _turn(data: object, folder: Path, at: str) -> Turn:
    if isinstance(data, dict) and "cases" in data:
        found = _mapping(data, at, {"cases", "fault"})
        cases = found["cases"]
        if not isinstance(cases, list) or not cases:
            raise ScriptError(f"{at}.cases is not a list")
        made = tuple(_case(case, folder, f"{at}.cases[{number}]") for number, case in enumerate(cases))
    else:
        found = _mapping(data, at, {"text", "thinking", "write", "shell", "call", "end", "usage", "fault"})
        made = (_case({key: value for key, value in found.items() if key != "fault"}, folder, at),)
    return Turn(made, _fault(found["fault"], f"{at}.fault") if "fault" in found else None)


def _case(data: object, folder: Path, at: str) -> Case:
    found = _mapping(data, at, {"if", "text", "thinking", "write", "shell", "call", "end", "usage"})
    does: list[Do] = []
    for key, value in found.items():  # in the order of the file
        if key in ("write", "shell", "call"):
            several = value if isinstance(value, list) else [value]
            does += [_do(key, one, folder, f"{at}.{key}") for one in several]
    if does and found.get("end"):
        raise ScriptError(f"{at} ends the conversation and uses a tool; it can do one of both")
    return Case(
        _text(found, "if", at), _text(found, "text", at), _text(found, "thinking", at), tuple(does),
        _usage(found, at, _TURN),
    )  # fmt: skip


def _do(key: str, value: object, folder: Path, at: str) -> Do:
    if key == "shell":
        if not isinstance(value, str) or not value.strip():
            raise ScriptError(f"{at} is not a command")
        return Shell(value)
    if key == "call":
        found = _mapping(value, at, {"name", "arguments"})
        return Invoke(_needed(found, "name", at), json.dumps(found.get("arguments", {}), ensure_ascii=False))
    found = _mapping(value, at, {"path", "content", "content_file"})
    path = _needed(found, "path", at)
    if ("content" in found) == ("content_file" in found):
        raise ScriptError(f"{at} has not one of content and content_file")
    if "content" in found:
        return Write(path, _text(found, "content", at))
    return Write(path, _read(folder / _needed(found, "content_file", at), MAX_CONTENT_BYTES))


def _usage(found: Mapping[str, Any], at: str, default: Usage) -> Usage:
    if "usage" not in found:
        return default
    given = _mapping(found["usage"], f"{at}.usage", set(_USAGE))
    for name, value in given.items():
        if type(value) is not int or not 0 <= value < 1 << 40:
            raise ScriptError(f"{at}.usage.{name} is not a number of tokens")
    usage = Usage(**{_USAGE[name]: value for name, value in given.items()})
    if usage.reasoning_tokens > usage.output_tokens:
        raise ScriptError(f"{at}.usage has more reasoning than output, which includes it")
    return usage


def _fault(value: object, at: str) -> Fault:
    given: Mapping[str, Any] = value if isinstance(value, dict) else {"kind": value}
    found = _mapping(given, at, {"kind", "times", "bytes", "retry_after"})
    fault = fault_named(str(found.get("kind")))
    if fault is None:
        raise ScriptError(f"{at} is {str(found.get('kind'))[:40]!r}, not one of {', '.join(FAULTS)}")
    for name in ("times", "bytes", "retry_after"):
        number = found.get(name, 0)
        if type(number) is not int or not 0 <= number <= 1 << 30:
            raise ScriptError(f"{at}.{name} is not a whole number")
    return replace(fault, **{name: number for name, number in found.items() if name != "kind"})


def _mapping(data: object, at: str, known: set[str]) -> dict[str, Any]:
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ScriptError(f"{at} is not a mapping")
    odd = sorted(set(data) - known)
    if odd:
        raise ScriptError(f"{at} has an unknown key {odd[0][:40]!r}; it can have {', '.join(sorted(known))}")
    return cast(dict[str, Any], data)


def _text(found: Mapping[str, Any], key: str, at: str) -> str:
    value = found.get(key, "")
    if not isinstance(value, str):
        raise ScriptError(f"{at}.{key} is not text")
    return value


def _needed(found: Mapping[str, Any], key: str, at: str) -> str:
    value = _text(found, key, at)
    if not value:
        raise ScriptError(f"{at} has no {key}")
    return value
