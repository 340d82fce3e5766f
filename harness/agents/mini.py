"""A tiny agent: chat completions in a loop, with a tool that writes a file and one that runs a command.

It stands alone: one file, the standard library, started as `python mini.py` in the folder to work in. It reads
KBH_BASE_URL, KBH_KEY, KBH_MODEL and KBH_EFFORT from the environment and the prompt from standard input, and prints a
JSON object a line: {"type": "text" | "tool" | "usage" | "end", ...}. It exits with 0 when the model is done, 1 when the
model could not be asked, and 2 for a wrong call.
"""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any

SYSTEM = (
    "You are a programmer who works in the current folder with the tools you have. "
    "Write files with write_file and run commands with run. When the work is done, say so without using a tool."
)
MOST_TURNS = 200
TRIES = 4
ANSWER_BYTES = 32 << 20
CALL_S, COMMAND_S = 1800.0, 900.0
RESULT_CHARS = 16_000


def _tool(name: str, about: str, **properties: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": said} for key, said in properties.items()},
        "required": list(properties),
    }
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


TOOLS = [
    _tool("write_file", "Writes a file.", path="relative to the current folder", content="all of it"),
    _tool("run", "Runs a command in the shell and returns what it prints.", command="for sh -c"),
]


class CannotAsk(Exception):
    """The model gave no answer; the text is one sentence."""


def say(kind: str, **what: object) -> None:
    """Prints one event."""
    print(json.dumps({"type": kind, **what}, ensure_ascii=False), flush=True)


def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """One answer of the model; tries again where that may help. Raises CannotAsk."""
    body: dict[str, Any] = {"model": os.environ["KBH_MODEL"], "messages": messages, "tools": TOOLS}
    if os.environ.get("KBH_EFFORT"):
        body["reasoning_effort"] = os.environ["KBH_EFFORT"]
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ.get('KBH_KEY', '')}"}
    url = os.environ["KBH_BASE_URL"].rstrip("/") + "/v1/chat/completions"
    why = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(2.0**attempt / 4)
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=CALL_S) as answer:
                data = answer.read(ANSWER_BYTES + 1)
            found = json.loads(data) if len(data) <= ANSWER_BYTES else None
            if isinstance(found, dict) and found.get("choices"):
                return found
            why = "the answer is not a chat completion"
        except urllib.error.HTTPError as error:
            why = f"HTTP {error.code}"
            if error.code < 500 and error.code not in (408, 429):
                break
        except (OSError, ValueError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
    raise CannotAsk(f"the model gave no answer: {why}")


def write_file(path: str, content: str) -> str:
    """Writes `content` to `path`; returns what to tell the model."""
    place = pathlib.Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content, encoding="utf-8")
    return f"wrote {len(content.encode())} bytes to {path}"


def run(command: str) -> str:
    """Runs a shell command; returns what it printed, with its exit status."""
    try:
        done = subprocess.run(
            ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=COMMAND_S, errors="replace", text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it was ended after {COMMAND_S:.0f} s"
    said = done.stdout
    if len(said) > RESULT_CHARS:
        said = f"[... {len(said) - RESULT_CHARS} characters left out]\n" + said[-RESULT_CHARS:]
    return f"{said}\n[exit status {done.returncode}]"


def use(name: str, arguments: str) -> str:
    """Uses a tool as the model asked; what went wrong is its result."""
    try:
        given = json.loads(arguments)
        if name == "write_file":
            return write_file(str(given["path"]), str(given["content"]))
        if name == "run":
            return run(str(given["command"]))
        return f"there is no tool {name}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"it failed: {type(error).__name__}: {error}"


def count(usage: dict[str, Any]) -> dict[str, int]:
    """The usage that an answer states, with tokens read from a cache counted apart."""
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    written = (usage.get("prompt_tokens_details") or {}).get("cache_write_tokens") or 0
    return {
        "input_tokens": (usage.get("prompt_tokens") or 0) - cached - written,
        "output_tokens": usage.get("completion_tokens") or 0,
        "cache_read_tokens": cached,
        "cache_write_tokens": written,
        "reasoning_tokens": (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0,
    }


def work(prompt: str) -> str:
    """Lets the model work until it uses no tool; returns its last words. Raises CannotAsk."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]
    for _ in range(MOST_TURNS):
        answer = ask(messages)
        message = answer["choices"][0].get("message") or {}
        say("usage", **count(answer.get("usage") or {}))
        said, calls = message.get("content") or "", message.get("tool_calls") or []
        if said:
            say("text", text=said)
        messages.append({"role": "assistant", "content": said or None, **({"tool_calls": calls} if calls else {})})
        if not calls:
            return said
        for call in calls:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            say("tool", name=name, arguments=arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": use(name, arguments)})
    raise CannotAsk(f"the model did not end in {MOST_TURNS} turns")


def main() -> int:
    """Works on the prompt. Returns the exit code."""
    missing = [name for name in ("KBH_BASE_URL", "KBH_MODEL") if not os.environ.get(name)]
    if missing:
        print(f"mini: error: set {missing[0]}", file=sys.stderr)
        return 2
    try:
        text = work(sys.stdin.read())
    except CannotAsk as error:
        say("end", ok=False, text=str(error))
        print(f"mini: error: {error}", file=sys.stderr)
        return 1
    say("end", ok=True, text=text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
