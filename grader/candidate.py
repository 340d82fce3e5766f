"""The process that runs a submission: `python -I -c BOOT root link ...`, started by `grader.supervise`.

It is the only process that imports the submission. It never sees oracle, tolerances, keys or the plan of the cases: it
gets one call after the other, and for each only the values of the inputs. What it answers is a claim; the judge decides
by the bytes in the shared memory.

Inputs alternate between two sets of tensors that are overwritten in place. So a result kept by the address of an input
is wrong two calls later, and so is a captured graph that reads one address. No call gets the objects of the last one,
so a result kept for the last object alone is not noticed here; the linter names it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from grader.channel import Frame, Kind, Slot, Views, receive, send, slots_from_json
from grader.correctness import Expected, output_faults

TRACE_LINES = 14
TRACE_CHARACTERS = 3000
FILE_BYTES = 4 << 30  # the largest file a submission's compiler may write
CPU_DATA_BYTES = 12 << 30  # private memory on a CPU; a GPU's runtime reserves far more than it uses
NO_GPU = (
    "Torch not compiled with CUDA enabled", "No CUDA GPUs are available", "Found no NVIDIA driver", "0 active drivers",
    "CUDA_HOME environment variable is not set", "Cannot access accelerator device when none is available",
)  # fmt: skip

Answer = tuple[Kind, tuple[float, ...]]


class _Refused(Exception):
    """This machine cannot run the submission; the text says why."""


class _Faults(Exception):
    """The submission broke the contract; the text is one sentence."""


def main() -> None:
    """Reads the arguments, limits this process, imports the submission and serves calls until the judge hangs up."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("link", type=int)
    parser.add_argument("--memory", type=int, nargs=6, required=True, help="fd and size of state, inputs, outputs")
    parser.add_argument("--device", required=True)
    parser.add_argument("--interpret", action="store_true", help="run Triton kernels in its interpreter")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    link = socket.socket(fileno=arguments.link)
    os.set_inheritable(arguments.link, False)
    _limit(arguments.device)
    memory = arguments.memory
    views = [Views(fd, size) for fd, size in zip(memory[::2], memory[1::2], strict=True)]
    for fd in memory[::2]:
        os.close(fd)
    runner = _Runner(torch.device(arguments.device), *views)
    _answer(link, 0, lambda: runner.start(arguments.file, arguments.root, arguments.interpret))
    while True:
        try:
            question = receive(link)
        except EOFError:
            return
        if question.kind == Kind.STOP:
            return
        _answer(link, question.seq, partial(runner.serve, question))


def _limit(device: str) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    if device == "cpu":
        resource.setrlimit(resource.RLIMIT_DATA, (CPU_DATA_BYTES, CPU_DATA_BYTES))


def _answer(link: socket.socket, seq: int, work: Callable[[], Answer]) -> None:
    """Does the work and sends its answer; whatever the submission raises becomes one."""
    try:
        kind, numbers = work()
        frame = Frame(kind, seq, numbers)
    except _Faults as fault:
        frame = Frame(Kind.FAULT, seq, text=str(fault))
    except BaseException as error:  # SystemExit and KeyboardInterrupt too: a submission may raise anything
        reason = _refusal(error)
        frame = Frame(Kind.REFUSED, seq, text=reason) if reason else Frame(Kind.ERROR, seq, text=_tell(error))
    send(link, frame)


def _refusal(error: BaseException) -> str:
    """Why this machine cannot run the submission, when that is what the exception says; else empty."""
    if type(error).__name__ == "InterpreterRefusal" or isinstance(error, _Refused):
        return str(error)
    if torch.cuda.is_available():
        return ""
    return next((f"it needs a GPU ({words})" for words in NO_GPU if words in str(error)), "")


def _tell(error: BaseException) -> str:
    """`Type: message` on the first line, then the last lines of the traceback below the submission's first frame."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    try:
        first = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        lines = "".join(traceback.format_exception(type(error), error, trace)).splitlines()[-TRACE_LINES:]
    except BaseException as second:  # an exception whose own text raises
        return f"{type(error).__name__}, whose message cannot be shown ({type(second).__name__})"
    return first + "\n" + "\n".join(line[:300] for line in lines)[-TRACE_CHARACTERS:]


class _Runner:
    """The submission's module, one model of it at a time, and the tensors it is called with."""

    def __init__(self, device: torch.device, state: Views, inputs: Views, outputs: Views) -> None:
        self.device = device
        self.memory = {"state": state, "inputs": inputs, "outputs": outputs}
        self.module: Any = None
        self.model: nn.Module | None = None
        self.slots: dict[str, tuple[Slot, ...]] = {}
        self.sets: list[dict[str, Tensor]] = []
        self.calls = 0
        self.state: dict[str, Tensor] = {}
        self.pristine_state: dict[str, Tensor] = {}

    def start(self, file: Path, root: str, interpret: bool) -> Answer:
        """Imports the submission."""
        if interpret:
            from grader.interpreter import install

            install()
        sys.path[:] = [entry for entry in sys.path if entry != root]
        sys.path.append(str(file.parent))
        spec = importlib.util.spec_from_file_location("solution", file)
        assert spec is not None and spec.loader is not None
        self.module = importlib.util.module_from_spec(spec)
        sys.modules["solution"] = self.module
        spec.loader.exec_module(self.module)
        if not isinstance(getattr(self.module, "Model", None), type) or not issubclass(self.module.Model, nn.Module):
            raise _Faults("the submission has no class Model that is an nn.Module")
        return Kind.READY, ()

    def serve(self, question: Frame) -> Answer:
        """Does what one frame asks."""
        if question.kind == Kind.LOAD:
            self._load(json.loads(question.text))
            return Kind.READY, ()
        if question.kind == Kind.CALL:
            self._call()
            return Kind.DONE, ()
        assert question.kind == Kind.TIME
        return Kind.TIMES, self._time(int(question.numbers[0]))

    def _load(self, plan: Mapping[str, Any]) -> None:
        """A fresh model at one shape, with the judge's weights."""
        self.model, self.sets, self.calls, self.state, self.pristine_state = None, [], 0, {}, {}
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.slots = {name: slots_from_json(plan[name]) for name in self.memory}
        model: nn.Module = self.module.Model(*plan["init"])
        weights = {slot.name: self.memory["state"].tensor(slot) for slot in self.slots["state"]}
        model = model.to(self.device)
        model.load_state_dict(weights, strict=True)
        model.eval()
        held = model.state_dict()
        for name, weight in weights.items():
            if held[name].dtype != weight.dtype:
                raise _Faults(f"the state {name} is {held[name].dtype} instead of {weight.dtype}")
        self.state = {name: held[name] for name in weights}
        self.pristine_state = {name: tensor.clone() for name, tensor in self.state.items()}
        self.model = model

    def _inputs(self) -> dict[str, Tensor]:
        """This call's inputs: one of two sets of tensors in turn, overwritten in place."""
        shared = {slot.name: self.memory["inputs"].tensor(slot) for slot in self.slots["inputs"]}
        if len(self.sets) < 2:
            self.sets.append({name: torch.empty_like(tensor, device=self.device) for name, tensor in shared.items()})
        chosen = self.sets[self.calls % len(self.sets)]
        for name, tensor in shared.items():
            chosen[name].copy_(tensor)
        self.calls += 1
        return chosen

    def _call(self) -> None:
        assert self.model is not None
        inputs = self._inputs()
        pristine = {name: tensor.clone() for name, tensor in inputs.items()}
        with torch.no_grad():
            outputs = self.model(*inputs.values())
        self._wait()
        wanted = [Expected(slot.name, slot.dtype, slot.shape) for slot in self.slots["outputs"]]
        faults = output_faults(outputs, wanted, self.device, {**inputs, **self.state})
        faults += [f"it changed its input {name}" for name in _changed(inputs, pristine)]
        faults += [f"it changed its state {name}" for name in _changed(self.state, self.pristine_state)]
        if faults:
            raise _Faults("; ".join(faults))
        tensors: Sequence[Tensor] = outputs if isinstance(outputs, tuple) else (outputs,)
        for slot, tensor in zip(self.slots["outputs"], tensors, strict=True):
            self.memory["outputs"].tensor(slot).copy_(tensor)
        self._wait()

    def _time(self, trials: int) -> tuple[float, ...]:
        """Seconds of `trials` calls on the inputs that lie in the shared memory now."""
        from grader.timing import device_times

        assert self.model is not None
        model, inputs = self.model, tuple(self._inputs().values())
        with torch.no_grad():
            return tuple(device_times(lambda: model(*inputs), trials=trials, device=self.device))

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _changed(tensors: Mapping[str, Tensor], pristine: Mapping[str, Tensor]) -> list[str]:
    """Names of the tensors whose bytes are not the pristine ones."""
    return [name for name, tensor in tensors.items() if not torch.equal(_bytes(tensor), _bytes(pristine[name]))]


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
