"""The archive of a run: a folder that `kbh-lint` and `kbh grade` read as one submission, with everything that happened.

    RUN/run.json               harness.record.run.RunRecord, replaced as a whole
    RUN/solution.py            the last solution, with the files that it loads; none where the agent wrote none
    RUN/prompt.md              what the agent was asked
    RUN/record/trajectory.jsonl   one event a line (harness.record.events), only added to
    RUN/record/calls.jsonl     one model call a line (harness.record.exchange.ModelCall), only added to
    RUN/record/objects/ab/HASH bytes under their SHA-256, compressed: bodies of calls, contents of files
    RUN/record/agent/          what the agent's CLI printed and kept, without secrets
    RUN/record/cells/          bundles of gradings
    RUN/record/lock            held by the process that runs it

Nothing in it was written without `redact`, save the solution's own text and the files of the workspace. A line that a
crash cut is left out when it is read.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from grader.record.bundle.codec import CodecError, from_json, to_json
from harness.record.events import Event, EventData, Seen, event_from_json, event_to_json
from harness.record.exchange import ModelCall
from harness.record.run import RunRecord

__all__ = ["ArchiveError", "RECORD", "RUN_FILE", "RunFolder", "is_run", "new_run_id"]

RUN_FILE, RECORD = "run.json", "record"
MAX_RUN_BYTES = 4 << 20
MAX_LINE_BYTES = 8 << 20
MAX_OBJECT_BYTES = 64 << 20
MAX_EVENTS = 1_000_000
_HASH = re.compile(r"[0-9a-f]{64}")
_ID_PART = re.compile(r"[^A-Za-z0-9.]+")
_T = TypeVar("_T")


class ArchiveError(Exception):
    """An archive cannot be read or written; the text is one sentence."""


def new_run_id(agent: str, model: str, problem: str, *, now: float | None = None) -> str:
    """A name that no other run has: when, who, which model, which problem, and eight random digits."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    parts = (_ID_PART.sub("-", part).strip("-.")[:40] or "x" for part in (agent, model))
    return "_".join((stamp, *parts, problem, secrets.token_hex(4)))


def is_run(folder: Path) -> bool:
    """Whether a folder is the archive of a run of ours."""
    return (folder / RUN_FILE).is_file() and (folder / RECORD).is_dir()


class RunFolder:
    """One archive. Appending is safe from several threads of the process that holds the lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._writing = threading.Lock()
        self._seq = 0

    @classmethod
    def create(cls, out: Path, record: RunRecord) -> RunFolder:
        """A new archive under `out`, locked by this process, with its first record. Raises ArchiveError."""
        folder = cls(out / record.run_id)
        try:
            for name in ("objects", "agent", "cells"):
                (folder.path / RECORD / name).mkdir(parents=True)
            folder.take()
            folder.save(record)
        except OSError as error:
            raise ArchiveError(f"{folder.path}: {(error.strerror or str(error)).lower()}") from None
        return folder

    # --- who works on it ---------------------------------------------------------------------------------

    def take(self) -> bool:
        """Locks the archive for this process until `release` or the process's end; returns False where another process
        has it.
        """
        if self._lock is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            lock = os.open(self.path / RECORD / "lock", flags, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                return False
            self._lock = lock
        return True

    def release(self) -> None:
        """Lets go of the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # --- the record --------------------------------------------------------------------------------------

    def save(self, record: RunRecord) -> None:
        """Replaces run.json as a whole, so that a cut leaves the old one or the new one."""
        data = json.dumps(to_json(record, RunRecord), indent=1, ensure_ascii=False).encode("utf-8", "replace")
        self.write(RUN_FILE, data + b"\n")

    def load(self) -> RunRecord:
        """The record as it is now. Raises ArchiveError."""
        try:
            data = _bounded(self.path / RUN_FILE, MAX_RUN_BYTES)
            return from_json(json.loads(data), RunRecord)
        except (OSError, ValueError, CodecError, RecursionError) as error:
            raise ArchiveError(f"{self.path / RUN_FILE} is no record of a run ({_said(error)})") from None

    def write(self, name: str, data: bytes) -> Path:
        """Writes a file of the archive beside its place and moves it there. `name` is ours, never a submission's."""
        target = self.path / name
        made = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        with made.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, target)
        return target

    # --- objects -----------------------------------------------------------------------------------------

    def put(self, data: bytes) -> str:
        """Keeps bytes; returns their SHA-256."""
        name = hashlib.sha256(data).hexdigest()
        place = self._object(name)
        if not place.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            made = place.with_name(f".{name}.{secrets.token_hex(4)}")
            made.write_bytes(gzip.compress(data, 5, mtime=0))
            os.replace(made, place)
        return name

    def get(self, name: str) -> bytes:
        """The bytes that are stored under their SHA-256. Raises ArchiveError where none can be read, where they have
        another hash, and where they are more than MAX_OBJECT_BYTES."""
        try:
            with gzip.open(self._object(name), "rb") as file:
                data = file.read(MAX_OBJECT_BYTES + 1)
        except (OSError, EOFError, ValueError) as error:
            raise ArchiveError(f"{self.path}: the object {name[:12]} cannot be read ({_said(error)})") from None
        if len(data) > MAX_OBJECT_BYTES or hashlib.sha256(data).hexdigest() != name:
            raise ArchiveError(f"{self.path}: the object {name[:12]} does not hold what its name says")
        return data

    def _object(self, name: str) -> Path:
        if _HASH.fullmatch(name) is None:
            raise ArchiveError(f"{name[:80]!r} is not the name of an object")
        return self.path / RECORD / "objects" / name[:2] / name

    # --- what is only added to ---------------------------------------------------------------------------

    def append(self, data: EventData, *, step: int, seen: Seen, elapsed: float, now: float | None = None) -> Event:
        """Adds an event to the trajectory and gives it its number."""
        with self._writing:
            if self._seq == 0:
                self._seq = sum(1 for _ in self.events())
            self._seq += 1
            event = Event(self._seq, time.time() if now is None else now, elapsed, step, seen, data)
            self._add("trajectory.jsonl", event_to_json(event))
        return event

    def append_call(self, call: ModelCall) -> None:
        """Adds a model call."""
        with self._writing:
            self._add("calls.jsonl", to_json(call, ModelCall))

    def events(self) -> Iterator[Event]:
        """The trajectory, without a line that was cut. Raises ArchiveError where a line is no event."""
        for number, data in self._lines("trajectory.jsonl"):
            try:
                yield event_from_json(data)
            except CodecError as error:
                raise ArchiveError(f"{self.path}: line {number} of the trajectory: {error}") from None

    def calls(self) -> Iterator[ModelCall]:
        """The model calls, without a line that was cut. Raises ArchiveError where a line is none."""
        for number, data in self._lines("calls.jsonl"):
            try:
                yield from_json(data, ModelCall)
            except CodecError as error:
                raise ArchiveError(f"{self.path}: line {number} of the calls: {error}") from None

    def _add(self, name: str, data: dict[str, Any]) -> None:
        line = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self.path / RECORD / name, flags, 0o644)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line  # what a crash cut stays a line of its own
            os.write(fd, line)
        finally:
            os.close(fd)

    def _lines(self, name: str) -> Iterator[tuple[int, Any]]:
        place = self.path / RECORD / name
        if not place.is_file():
            return
        with place.open("rb") as file:
            for number in range(1, MAX_EVENTS + 1):
                line = file.readline(MAX_LINE_BYTES)
                if not line:
                    return
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError):
                    continue  # it was cut
                yield number, found


def _bounded(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it is longer than {most} bytes")
    return data


def _said(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()[:200]
