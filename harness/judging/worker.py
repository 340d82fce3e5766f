"""The judge's process: `python -m harness.judging.worker`. It is asked by lines of JSON and answers by lines.

A line in is a harness.judging.base.Ask; lines out are events: `say` (a sentence for the agent), `turn` (asked, held,
free: where it stands with the device), and in the end `answer`. It has torch imported once for all that it is asked,
does one thing at a time, and ends with whoever started it: when the pipe to its standard input is closed, however that
came, so that nothing keeps a turn that nobody waits for.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from typing import BinaryIO

from harness.judging.base import Answer, Ask, ask_from_line, to_line

__all__ = ["main"]

SECONDS_BETWEEN = 1.0  # of sentences of which there are many
FAULT_CHARACTERS = 2000


class _Out:
    """Writes events. What goes to the standard output otherwise, as from a library, goes to the standard error."""

    def __init__(self) -> None:
        self._file: BinaryIO = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._last = -SECONDS_BETWEEN

    def event(self, name: str, **data: object) -> None:
        """Writes an event as a line of JSON."""
        self._file.write(json.dumps({"event": name, **data}).encode() + b"\n")

    def say(self, text: str, many: bool) -> None:
        """Writes a progress sentence; where there are `many`, one a second is written."""
        now = time.monotonic()
        if many and now < self._last + SECONDS_BETWEEN:
            return
        if many:
            self._last = now
        self.event("say", text=text[:300])

    def answer(self, answer: Answer) -> None:
        """Writes the answer, the last event of a request."""
        self._file.write(to_line(answer, event="answer"))


def main() -> int:
    """Serves until the standard input is closed. Returns the exit status."""
    out, asked = _Out(), queue.SimpleQueue[bytes]()
    threading.Thread(target=_read, args=(os.dup(0), asked), daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    while True:
        out.answer(_answered(asked.get(), out))


def _read(number: int, asked: queue.SimpleQueue[bytes]) -> None:
    """Hands on what is asked, and ends this process with the pipe, whatever it does then."""
    with os.fdopen(number, "rb") as file:
        for line in file:
            asked.put(line)
    os._exit(0)


def _answered(line: bytes, out: _Out) -> Answer:
    try:
        return _practised(ask_from_line(line), out)
    except Exception as error:  # a fault of ours must not end the next one's turn too
        print(traceback.format_exc(), file=sys.stderr)
        sentence = f"a fault of the judge itself ({type(error).__name__})"
        fault = traceback.format_exc()[-FAULT_CHARACTERS:]
        return Answer("trouble", 2, sentence, f"it could not be judged: {sentence}\n", fault=fault)


def _practised(ask: Ask, out: _Out) -> Answer:
    from harness.judging.practice import practise  # torch comes with it, which takes seconds

    return practise(ask, out.say, lambda standing: out.event("turn", standing=standing))


if __name__ == "__main__":
    sys.exit(main())
