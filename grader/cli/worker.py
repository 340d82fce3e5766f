"""The process of one of several gradings: it grades one submission, and tells the command that started it of each step.

What it is to do comes as a line of JSON on its standard input, and the end of that input is the end of the command: it
then stops as it does on Ctrl-C, so that nothing is left and the bundle can be gone on with. It answers with lines of
JSON; what anything prints goes to its standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from grader.cli import grade as grade_cli
from grader.judge import cores
from grader.sandbox import cutlass

if TYPE_CHECKING:
    from grader.grading.progress import Progress

__all__ = ["work"]

INTERRUPTED = 130
NVIDIA = Path("/dev/nvidiactl")  # of every machine with a driver; torch, which would tell, takes seconds to import


def work() -> int:
    """Grades what the first line of the standard input says. The exit code says only whether it answered."""
    order = json.loads(sys.stdin.buffer.readline())
    answer = _Answer(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    threading.Thread(target=_until_the_command_ends, daemon=True).start()
    try:
        args = grade_cli.parser().parse_args(order["argv"])
        cores.share(on_gpus=args.target != "cpu" and NVIDIA.exists())
        if args.cutlass is not None:
            cutlass.use(args.cutlass)
        bundle = grade_cli.graded(args, Path(order["path"]), order["problem"], answer.step)
        answer.say({"bundle": str(bundle)})
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        plain = grade_cli.is_plain(error)
        if not plain:
            traceback.print_exc()
        answer.say({"error": grade_cli.sentence(error), "plain": plain, "type": type(error).__name__})
    return 0


def _until_the_command_ends() -> None:
    while os.read(0, 4096):
        pass
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGTERM)  # one to the process may come to this thread, and the main one waits on


def _stop(number: int, frame: FrameType | None) -> None:
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)  # once is enough: what follows takes things away
    raise KeyboardInterrupt


class _Answer:
    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self.step: Callable[[Progress], None] = lambda step: self.say(
            {"step": [step.stage, step.state, step.text, step.of]}
        )

    def say(self, message: dict[str, Any]) -> None:
        """Writes a message as one line; several threads of a grading may call it."""
        with self._lock:
            self._stream.write(json.dumps(message) + "\n")
            self._stream.flush()
