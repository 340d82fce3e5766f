"""What the judge for agents is asked and what it answers; plain data, no torch."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from grader.authoring.render import PUBLIC_SEEDS
from grader.record.bundle.codec import CodecError, from_json, to_json
from grader.record.cell import LATER
from grader.sandbox import Wanted
from kbh_lint.source.sidecars import MAX_BYTES, MAX_COUNT, MAX_DEPTH, MAX_TOTAL, OF_THE_RUN, TEXTS

__all__ = [
    "SOLUTION", "Answer", "Ask", "BadRequest", "JudgeLimits", "Outcome", "What", "answer_from_line", "ask_from_line",
    "submission_of", "to_line",
]  # fmt: skip

What = Literal["check", "benchmark"]
# `gone`: the agent hung up; `stopped`: the run ended; `refused`: the request was none that the judge answers.
Outcome = Literal["passed", "failed", "suspect", "not-checkable", "late", "trouble", "gone", "stopped", "refused"]
SOLUTION = "solution.py"
_NAME = re.compile(r"(?!\.)[ -.0-\[\]-~]{1,100}", re.ASCII)  # printable, without / and \


class BadRequest(Exception):
    """A request is none that the judge answers; the text is one sentence for the agent."""


@dataclass(frozen=True, slots=True)
class JudgeLimits:
    """What one run may ask of the judge. Times are seconds of wall clock.

    `requests` counts all, refused ones too; `seconds` is the judge's work for the run in all and `work_s` that for one
    request, both without what is spent waiting for a turn. `turn_s` bounds what a request may hold the device at a
    stretch: one seed of a check, or one benchmark. `seeds` are public ones; a benchmark draws from the first.
    `lint` says whether a check also tells what the linter says of the file.
    """

    requests: int = 500
    seconds: float = 7200.0
    turn_s: float = 240.0
    work_s: float = 900.0
    body_s: float = 30.0
    body_bytes: int = 12 << 20
    seeds: tuple[int, ...] = PUBLIC_SEEDS
    lint: bool = True
    sandbox: Wanted = "auto"


@dataclass(frozen=True, slots=True)
class Ask:
    """One piece of work for the judge's process: a line of its standard input.

    `problem` is the path of a problem.yaml, `files` the submission's in base64, `came` when it was asked for on the
    clock time.monotonic(), which is one for all processes of a machine.
    """

    what: What
    problem: str
    device: str
    target: str
    files: Mapping[str, str]
    came: float
    turn_s: float
    work_s: float
    seeds: tuple[int, ...]
    lint: bool
    sandbox: Wanted

    def contents(self) -> dict[str, bytes]:
        """The submission's files by name."""
        return {name: base64.b64decode(data) for name, data in self.files.items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it. `text` is for people; `message` its one sentence.

    `code` is the exit status of the client: 0 right, 1 wrong, 2 could not be judged. `score` is the geometric mean of
    the fractions of the least time, None in a check and where there is none; `error` the worst error in units of its
    bound. `fault` is for us alone: what went wrong in the judge.
    """

    outcome: Outcome
    code: int
    message: str
    text: str
    score: float | None = None
    error: float | None = None
    shapes: Mapping[str, float] = field(default_factory=dict)
    fault: str = field(default="", metadata=LATER)


def to_line(value: Ask | Answer, **more: object) -> bytes:
    """A value as one line of JSON."""
    data = {**to_json(value, type(value)), **more}
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def ask_from_line(line: bytes) -> Ask:
    """The reverse of `to_line` for a request. Raises ValueError."""
    try:
        return from_json(json.loads(line), Ask)
    except CodecError as error:
        raise ValueError(str(error)) from None


def answer_from_line(data: Mapping[str, Any]) -> Answer:
    """An answer from a line's object without its event. Raises ValueError."""
    try:
        return from_json({name: value for name, value in data.items() if name != "event"}, Answer)
    except CodecError as error:
        raise ValueError(str(error)) from None


def submission_of(body: bytes) -> dict[str, bytes]:
    """The files of a request: {"files": {"solution.py": BASE64, ...}}. Raises BadRequest."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("the request is not JSON") from None
    files = data.get("files") if isinstance(data, dict) else None
    if not isinstance(files, dict) or not all(isinstance(value, str) for value in files.values()):
        raise BadRequest('the request is no {"files": {"solution.py": BASE64, ...}}')
    if SOLUTION not in files:
        raise BadRequest(f"the request holds no {SOLUTION}")
    if len(files) > MAX_COUNT + 1:
        raise BadRequest(f"the request holds {len(files)} files; {SOLUTION} and {MAX_COUNT} others can be judged")
    for name in files:
        _check_name(name, files.keys())
    found = {name: _decoded(name, text) for name, text in cast(dict[str, str], files).items()}
    if sum(map(len, found.values())) > MAX_TOTAL:
        raise BadRequest(f"the files are larger than {MAX_TOTAL // 1_000_000} MB together")
    return found


def _check_name(name: str, names: Collection[str]) -> None:
    parts = name.split("/")
    suffix = "." + parts[-1].rpartition(".")[2].lower()
    fine = all(_NAME.fullmatch(part) for part in parts) and len(parts) <= MAX_DEPTH + 1 and suffix in TEXTS
    if not fine or (name != SOLUTION and parts[0] in OF_THE_RUN):
        raise BadRequest(f"{name[:80]!r} is not the name of a file that a solution may load")
    above = {"/".join(parts[:count]) for count in range(1, len(parts))}
    if any(other in above for other in names):
        raise BadRequest(f"{name[:80]!r} lies in a folder of which there is a file too")


def _decoded(name: str, text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(f"{name} is not in base64") from None
    if len(data) > MAX_BYTES:
        raise BadRequest(f"{name} is {len(data) / 1e6:.1f} MB long; a file may have {MAX_BYTES // 1_000_000} MB")
    return data
