"""What an agent prints: read as fast as it comes, kept as far as a bound, and handed on line by line.

An agent never waits for whoever uses its lines, and 1 GB of output costs this process no more than its bounds.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from grader.record.bundle.redact import redact

__all__ = ["LINE_BYTES", "Output"]

LINE_BYTES = 1 << 20  # of a line that is used: redaction takes no longer text as a whole
READ_BYTES = 1 << 16
WAITING_BYTES = 64 << 20  # of lines that nobody has taken yet
LOOK_SECONDS = 0.2
CLOSE_SECONDS = 10.0


class Output:
    """A pipe for one stream of an agent; `end` is for the agent. Close it when the agent is gone.

    `path` gets at most `keep` bytes, redacted: the beginning while it comes, and the end by `close`. `line` is called
    with each whole line, one after the other, on a thread of this object; what it raises is counted in `failed`. Lines
    longer than `line_bytes` are neither kept nor handed on. After `close`, `bytes` is what came, `unkept` how much of
    it is not in the file, and `unheard` how many lines were not handed on.
    """

    def __init__(
        self, path: Path, *, keep: int, line: Callable[[str], None] | None = None, line_bytes: int = LINE_BYTES
    ) -> None:
        self.bytes = self.unkept = self.unheard = self.failed = 0
        self.trouble = ""  # why not all of the file could be written, "" where it was
        self._line, self._line_bytes = line, min(line_bytes, LINE_BYTES)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")
        self._half = keep // 2
        self._head_left = self._half
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._partial = bytearray()
        self._skipping = 0  # bytes of a line that is too long, so far
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._read_all = self._stop = self._closed = False
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._reader = reader
        self.end = os.fdopen(writer, "wb", buffering=0)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._hand_on)]
        for thread in self._threads:
            thread.start()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Returns when all that came is handed on and written, or after a time: then something still holds `end`."""
        if self._closed:
            return
        self._closed = True
        self.end.close()
        until = time.monotonic() + seconds
        reading, handing = self._threads
        reading.join(seconds)
        self._stop = True
        reading.join()
        handing.join(max(until - time.monotonic(), LOOK_SECONDS))
        with self._changed:
            self.unheard += len(self._waiting)
            self._waiting.clear()
        self._write_tail()
        os.close(self._reader)
        with contextlib.suppress(OSError):
            self._file.close()

    def _read(self) -> None:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        while not self._stop:
            if not poll.poll(LOOK_SECONDS * 1000):
                continue
            data = os.read(self._reader, READ_BYTES)
            if not data:
                break
            self.bytes += len(data)
            self._take(self._split(data))
        if self._partial or self._skipping:
            self._take([*self._ended()])
        with self._changed:
            self._read_all = True
            self._changed.notify_all()

    def _split(self, data: bytes) -> list[bytes]:
        """The whole lines, with their ends, that come with this part."""
        *whole, rest = data.split(b"\n")
        lines: list[bytes] = []
        for piece in whole:
            self._add(piece + b"\n")
            lines += self._ended()
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        if self._skipping or len(self._partial) + len(piece) > self._line_bytes:
            self._skipping += len(self._partial) + len(piece)
            self._partial.clear()
        else:
            self._partial += piece

    def _ended(self) -> Iterable[bytes]:
        if self._skipping:
            self.unkept += self._skipping
            self.unheard += self._line is not None
            self._skipping = 0
            return ()
        line = bytes(self._partial)
        self._partial.clear()
        return (line,)

    def _take(self, lines: list[bytes]) -> None:
        first = 0
        if self._head_left:
            for line in lines:
                if len(line) > self._head_left:
                    self._head_left = 0  # what comes later belongs to the end
                    break
                self._head_left -= len(line)
                first += 1
            self._write(b"".join(lines[:first]))
        for line in lines[first:]:
            self._tail.append(line)
            self._tail_bytes += len(line)
            while self._tail_bytes > self._half:
                left_out = len(self._tail.popleft())
                self._tail_bytes -= left_out
                self.unkept += left_out
        if self._line is not None:
            self._offer(lines)

    def _offer(self, lines: list[bytes]) -> None:
        with self._changed:
            for line in lines:
                if self._waiting_bytes + len(line) > WAITING_BYTES:
                    self.unheard += 1
                else:
                    self._waiting.append(line)
                    self._waiting_bytes += len(line)
            self._changed.notify_all()

    def _hand_on(self) -> None:
        while self._line is not None:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._read_all)
                if not self._waiting:
                    return
                line = self._waiting.popleft()
                self._waiting_bytes -= len(line)
            try:
                self._line(line.decode("utf-8", "replace").rstrip("\r\n"))
            except Exception:  # of whoever uses the lines: the next one is another matter
                self.failed += 1

    def _write_tail(self) -> None:
        if self.unkept:
            self._write(f"[{self.unkept} bytes are left out here]\n".encode())
        block: list[bytes] = []
        size = 0
        for line in (*self._tail, b""):
            if not line or size + len(line) > LINE_BYTES:
                self._write(b"".join(block))
                block, size = [], 0
            block.append(line)
            size += len(line)

    def _write(self, data: bytes) -> None:
        """Writes whole lines, without what they hold of secrets; at most LINE_BYTES."""
        if data:
            try:
                self._file.write(redact(data.decode("utf-8", "replace")).encode())
                self._file.flush()
            except (OSError, ValueError) as error:
                self.trouble = self.trouble or str(error)
