"""The process that runs a submission: `python -I -c BOOT root link ...`, started by `grader.sandbox.supervise`.

It is the only process that imports the submission. It never sees oracle, tolerances, keys or the plan of the cases: it
gets one call after the other, and for each only the values of the inputs. What it answers is a claim; the judge decides
by the bytes in the shared memory and by its own clock. Until the judge asks for the import, only our code runs in it.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from grader.candidate import clock
from grader.candidate.clock import make_clock, outside
from grader.candidate.clock.outside import Steps, run
from grader.candidate.collecting import Collector
from grader.candidate.interpreter import install
from grader.candidate.readings import FILE, Readings, watch
from grader.candidate.runner import Answer, Faults, Runner
from grader.wire.driver import bound
from grader.wire.frames import Frame, Kind, receive_with, send

CACHES = "TRITON_CACHE_DIR"  # the variable with a folder in that of a build's caches
TRACE_LINES = 14
TRACE_CHARACTERS = 3000
OURS = (__file__, clock.__file__, outside.__file__, Runner.start.__code__.co_filename)
NO_GPU = (
    "Torch not compiled with CUDA enabled", "No CUDA GPUs are available", "Found no NVIDIA driver", "0 active drivers",
    "CUDA_HOME environment variable is not set", "Cannot access accelerator device when none is available",
)  # fmt: skip


def main() -> None:
    """Reads the arguments and serves the judge until it hangs up.

    Nothing of that lies on the stack while code of the submission runs.
    """
    run(_serving(_arguments()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("places", help="where this package and the libraries lie; used before main")
    parser.add_argument("link", type=int)
    parser.add_argument("--device", required=True)
    parser.add_argument("--interpret", action="store_true", help="run Triton kernels in its interpreter")
    parser.add_argument("--timing", action="store_true", help="time calls, with cold caches")
    parser.add_argument("--published", action="store_true", help="time calls as the protocol of 2026-04 does")
    parser.add_argument("--ahead", action="store_true", help="leave the device alone until the judge says BEGIN")
    parser.add_argument("--collect", action="store_true", help="compile what Triton would launch, and launch nothing")
    parser.add_argument("--profile", choices=["counters", "trace"], help="mark calls for a profiler")
    parser.add_argument("file", type=Path)
    return parser.parse_args()


def _serving(arguments: argparse.Namespace) -> Steps[None]:
    """Answers one question after the other."""
    link = socket.socket(fileno=arguments.link)
    os.set_inheritable(arguments.link, False)
    if arguments.interpret:
        install()
    device, begun = torch.device(arguments.device), 0
    if arguments.ahead:
        if device.type == "cuda":
            bound("cuInit")  # loads the bindings, and uses nothing of the device
        send(link, Frame(Kind.READY, 0))  # all that can be done without the device is done
        try:
            begun = receive_with(link)[0].seq
        except EOFError:
            return
    collector = _collector() if arguments.collect else None
    clock_of = make_clock(device, arguments.timing, arguments.profile, arguments.published)
    runner = Runner(device, clock_of, collector, _readings(arguments))
    send(link, Frame(Kind.READY, begun))
    while True:
        try:
            question, descriptors = receive_with(link)
        except EOFError:
            return
        if question.kind == Kind.STOP:
            return
        yield from _answer(link, question.seq, partial(_serve, runner, arguments, question, descriptors))
        for descriptor in descriptors:
            os.close(descriptor)


def _readings(arguments: argparse.Namespace) -> Readings | None:
    """What the submission's own stopwatch showed in the build; None where nothing is launched."""
    caches = os.environ.get(CACHES)
    if arguments.collect or caches is None:
        return None
    readings = Readings(arguments.file.parent, Path(caches).parent / FILE)
    watch(readings)
    return readings


def _collector() -> Collector | None:
    """What compiles apart from launching; None where this Triton cannot, and each call then compiles and launches."""
    try:
        return Collector()
    except Exception:
        return None


def _serve(runner: Runner, arguments: argparse.Namespace, question: Frame, descriptors: Sequence[int]) -> Steps[Answer]:
    """Does what one frame asks."""
    if question.kind == Kind.IMPORT:
        return (yield from runner.start(arguments.file))
    if question.kind == Kind.LOAD:
        return (yield from runner.load(json.loads(question.text), descriptors))
    if question.kind == Kind.CALL:
        index, ungated, unchanged, keep = map(int, question.numbers)
        return (yield from runner.call(index, gated=not ungated, written=not unchanged, keep=bool(keep)))
    if question.kind == Kind.PREPARE:
        rounds, copies, *sizes = map(int, question.numbers)
        return (yield from runner.prepare(rounds, copies, sizes, descriptors))
    if question.kind == Kind.REHEARSE:
        return runner.rehearse(descriptors[0])
    if question.kind == Kind.GO:
        return (yield from runner.go(descriptors[0] if descriptors else None))
    if question.kind == Kind.COMPILED:
        return runner.compiled()
    assert question.kind == Kind.FINISH
    return runner.finish()


def _answer(link: socket.socket, seq: int, work: Callable[[], Steps[Answer]]) -> Steps[None]:
    """Does the work and sends its answer; whatever the submission raises becomes one."""
    try:
        kind, numbers = yield from work()
        frame = Frame(kind, seq, numbers)
    except Faults as fault:
        frame = Frame(Kind.FAULT, seq, text=str(fault))
    except BaseException as error:  # SystemExit and KeyboardInterrupt too: a submission may raise anything
        reason = _refusal(error)
        frame = Frame(Kind.REFUSED, seq, text=reason) if reason else Frame(Kind.ERROR, seq, text=_tell(error))
    send(link, frame)


def _refusal(error: BaseException) -> str:
    """Why this machine cannot run the submission, when that is what the exception says; else empty."""
    try:
        said = str(error)
    except BaseException:  # an exception whose own text raises
        return ""
    if type(error).__name__ == "InterpreterRefusal":
        return said
    if torch.cuda.is_available():
        return ""
    if isinstance(error, AssertionError):
        lines = traceback.extract_tb(error.__traceback__)
        if lines and ".is_cuda" in (lines[-1].line or ""):
            return "it needs a GPU (it asserts that its inputs are on one)"
    return next((f"it needs a GPU ({words})" for words in NO_GPU if words in said), "")


def _tell(error: BaseException) -> str:
    """`Type: message` on the first line, then the last lines of the traceback below the submission's first frame."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in OURS:
        trace = trace.tb_next
    try:
        first = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        lines = "".join(traceback.format_exception(type(error), error, trace)).splitlines()[-TRACE_LINES:]
    except BaseException as second:  # an exception whose own text raises
        return f"{type(error).__name__}, whose message cannot be shown ({type(second).__name__})"
    return first + "\n" + "\n".join(line[:300] for line in lines)[-TRACE_CHARACTERS:]
