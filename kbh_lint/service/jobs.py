"""Analyses files in worker processes, each of which may die or hang without taking the others along."""

from __future__ import annotations

import os
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from kbh_lint.base.errors import SetupError
from kbh_lint.base.limits import fewer_collections, memory_limit
from kbh_lint.marked import DataError
from kbh_lint.service.one_file import Options, Outcome, gave_out, late, lint_file, load_rules_once

if TYPE_CHECKING:
    from kbh_lint.rules import Rule
    from kbh_lint.source.submissions import Submission

GRACE_S = 5.0  # a worker stops itself at the time limit; after so much more it is killed
AUTO_FILES_A_JOB = 12  # `auto` starts a second worker only when each has this many files: starting one costs 0.3 s

_HEAD = struct.Struct("<Q")
# The parent's sys.path and nothing else: the folder that is being linted must not be importable.
_BOOT = "import sys; sys.path[:] = {path!r}; from kbh_lint.service.jobs import serve; serve()"


def worker_count(jobs: int | str, files: int) -> int:
    """How many workers to start for `files`; `auto` takes the processors and the number of files."""
    if jobs == "auto":
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, min(available, files // AUTO_FILES_A_JOB))
    return max(1, min(int(jobs), files))


def run(submissions: Sequence[Submission], options: Options, jobs: int) -> Iterator[tuple[int, Outcome]]:
    """The outcome for each submission by its index, in the order they finish."""
    if jobs <= 1:
        rules = load_rules_once(options.rules_dir)  # once: looking whether 180 files changed takes .5 ms a submission
        with fewer_collections():
            yield from ((index, lint_file(submission, options, rules)) for index, submission in enumerate(submissions))
        return
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    # Long files first: one that starts last would leave the other workers idle.
    for index in sorted(range(len(submissions)), key=lambda i: -len(submissions[i].text)):
        todo.put(index)
    done: queue.SimpleQueue[tuple[int, Outcome | SetupError]] = queue.SimpleQueue()
    workers = [Worker(options) for _ in range(jobs)]
    threads = [threading.Thread(target=_drive, args=(w, submissions, todo, done), daemon=True) for w in workers]
    for thread in threads:
        thread.start()
    try:
        for _ in submissions:
            index, outcome = done.get()
            if isinstance(outcome, SetupError):
                raise outcome
            yield index, outcome
    finally:
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join()


def _drive(
    worker: Worker,
    submissions: Sequence[Submission],
    todo: queue.SimpleQueue[int],
    done: queue.SimpleQueue[tuple[int, Outcome | SetupError]],
) -> None:
    from pickle import PickleError

    while not worker.stopped:
        try:
            index = todo.get_nowait()
        except queue.Empty:
            break
        submission = submissions[index]
        try:
            outcome: Outcome | SetupError = worker.lint(submission)
        except (OSError, ValueError, TypeError, EOFError, PickleError) as error:
            outcome = gave_out(submission, f"the worker could not be used: {type(error).__name__}: {error}")
        done.put((index, outcome))
    worker.reap()


class Worker:
    """One child process, started on first use and again after a death."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def lint(self, submission: Submission) -> Outcome | SetupError:
        """The outcome for one file; a crash or an overrun says nothing of it, and becomes its `trouble`."""
        process = self._process if self._process is not None and self._process.poll() is None else self._start()
        assert process.stdin is not None and process.stdout is not None
        over = threading.Event()

        def kill() -> None:
            over.set()
            process.kill()

        limit = self._options.timeout
        timer = threading.Timer(limit + GRACE_S, kill)
        timer.daemon = True
        if limit > 0:
            timer.start()
        try:
            _send(process.stdin, submission)
            answer = _receive(process.stdout)
        except OSError:
            answer = None
        finally:
            timer.cancel()
        if isinstance(answer, (Outcome, SetupError)):
            return answer
        code = self.reap()
        if over.is_set():
            return gave_out(submission, late(limit))
        return gave_out(submission, f"kbh-lint crashed ({death(code)})")

    def stop(self) -> None:
        """Ends the process at once, from another thread; the thread that drives the worker clears up."""
        self.stopped = True
        process = self._process
        if process is not None:
            process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        boot = _BOOT.format(path=[os.path.abspath(entry) for entry in sys.path])
        process = subprocess.Popen([sys.executable, "-c", boot], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._process = process
        if self.stopped:
            process.kill()
        assert process.stdin is not None
        _send(process.stdin, self._options)
        return process

    def reap(self) -> int:
        """Ends the process, closes its pipes and returns its exit code; 0 when there is none."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        return process.wait()


def serve() -> None:
    """The main loop of a worker: reads options, then submissions one by one from standard input, and writes outcomes
    to standard output."""

    rules: tuple[Rule, ...] | None = None
    # Anything that prints must not get into the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with memory_limit(), fewer_collections():
        options = _receive(sys.stdin.buffer)
        while (submission := _receive(sys.stdin.buffer)) is not None:
            try:
                rules = load_rules_once(options.rules_dir) if rules is None else rules
                outcome: Outcome | SetupError = lint_file(submission, options, rules)
            except (DataError, ImportError, SetupError) as error:
                outcome = SetupError(str(error))
            try:
                _send(answers, outcome)
            except BrokenPipeError:
                return


def _send(stream: IO[bytes], item: object) -> None:
    import pickle

    data = pickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_HEAD.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    """The next item; None at the end of the stream. Both ends are processes of this run, so pickle is safe."""
    import pickle  # not at the top: one file alone is linted without it

    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    data = stream.read(_HEAD.unpack(head)[0])
    return pickle.loads(data) if len(data) == _HEAD.unpack(head)[0] else None


def death(code: int) -> str:
    """How a process ended, in words, by its exit code as `subprocess` gives it."""
    if code >= 0:
        return f"exit status {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
