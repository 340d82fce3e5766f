"""What the candidate does with a submission: models of it, slots of shared memory, and one way to call it.

Every call goes the same way, whatever the judge wants it for. The submission gets tensors that lie in the shared memory
itself, at addresses that stay while their values change. Their version counters advance with each writing of the
judge's, as they would if torch had written in this process: a copy of x that is kept under `(x is held, x._version)` is
made anew. Weights are copied into each model by torch, which advances theirs. A new tensor at an address that was
used before starts above all versions until then, so a copy kept under `(x.data_ptr(), x._version)` is made anew too.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.abc import InspectLoader
from operator import methodcaller
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from grader.candidate.clock import Clock
from grader.candidate.clock.outside import Steps, outside
from grader.candidate.collecting import Collector
from grader.candidate.copies import Copies
from grader.candidate.readings import FIRST_CALLS, Readings, stage_of
from grader.wire.channel import Slot, slots_from_json
from grader.wire.driver import bound
from grader.wire.frames import Kind
from grader.wire.memory import SharedViews, make_views
from grader.wire.outputs import Expected, output_faults, outputs_of

__all__ = ["Faults", "Runner"]

Answer = tuple[Kind, tuple[float, ...]]
REGIONS = ("state", "inputs", "outputs")


class Faults(Exception):
    """The submission broke the contract; the text is one sentence."""


class _Null(nn.Module):
    """A model of ours that does nothing, by which the judge learns what calling costs before the import."""

    def __init__(self, outputs: tuple[Tensor, ...], device: torch.device) -> None:
        super().__init__()
        self.outputs: Any = outputs if len(outputs) > 1 else outputs[0]
        self.launch = device.type == "cuda"

    def forward(self, *_: Tensor) -> Any:
        """The same tensors each time; on a GPU an empty kernel runs."""
        if self.launch:
            torch.cuda._sleep(0)  # type: ignore[no-untyped-call]
        return self.outputs


@dataclass(frozen=True, slots=True)
class _Place:
    """A slot: the inputs of forward in order, and where its outputs go."""

    inputs: dict[str, Tensor]
    outputs: tuple[Tensor, ...]


class Runner:
    """The submission's module, its models at one shape, and the slots that they are called on."""

    def __init__(
        self, device: torch.device, clock: Clock, collector: Collector | None = None, readings: Readings | None = None
    ) -> None:  # fmt: skip
        """With a `collector` kernels of Triton's are compiled and not launched; with `readings` a submission that tunes
        itself chooses what it chose in the build."""
        self.device, self.clock, self.collector, self.readings = device, clock, collector, readings
        self._advance = torch.autograd.graph.increment_version
        if device.type == "cuda":  # found now: a file cuda.py of the submission would hide the package later
            bound("cuInit")
        self.module: Any = None
        self.models: list[nn.Module] = []
        self.views: dict[str, SharedViews] = {}
        self.expected: list[Expected] = []
        self.slots: dict[str, tuple[Slot, ...]] = {}
        self.strides: dict[str, int] = {}
        self.calls: list[_Place] = []
        self.kept: list[tuple[Tensor, ...]] = []
        self.handed: tuple[Any, ...] = ()
        self.batch: list[_Place] = []
        self.state: list[dict[str, Tensor]] = []
        self.pristine: list[dict[str, Tensor]] = []
        self.copies = Copies(device if device.type == "cuda" else None)
        self.newest = 0  # what no version of a tensor that was ours was above
        self.shape, self.called = "", Counter[int]()  # of the models: a name for it, and how often each was called

    def start(self, file: Path) -> Steps[Answer]:
        """Imports the submission."""
        sys.path.append(str(file.parent))
        spec = importlib.util.spec_from_file_location("solution", file)
        assert spec is not None and spec.loader is not None
        self.module = importlib.util.module_from_spec(spec)
        sys.modules["solution"] = self.module
        if self.readings is not None:
            self.readings.begin()
        with self._tuning("import"):
            yield from outside(exec, cast(InspectLoader, spec.loader).get_code("solution"), vars(self.module))
        if not isinstance(getattr(self.module, "Model", None), type) or not issubclass(self.module.Model, nn.Module):
            raise Faults("the submission has no class Model that is an nn.Module")
        return Kind.READY, ()

    def load(self, plan: Mapping[str, Any], descriptors: Sequence[int]) -> Steps[Answer]:
        """Makes models at one shape, each with its own weights from the judge, and the slots of single calls; the
        number in the answer is how many models are copies.
        """
        yield from self._drop()
        self.slots = {name: slots_from_json(plan[name]) for name in REGIONS}
        self.strides = plan["strides"]
        for name, fd, size in zip(REGIONS, descriptors, plan["sizes"], strict=True):
            self.views[name] = make_views(fd, size, self.device)
        self.expected = [Expected(slot.name, slot.dtype, slot.shape) for slot in self.slots["outputs"]]
        self.calls = self._places(self.views["inputs"], self.views["outputs"], plan["rounds"])
        if plan["null"]:
            nothing = tuple(torch.zeros_like(tensor) for tensor in self.calls[0].outputs)
            self.models = [_Null(nothing, self.device)]
            return Kind.READY, (self.clock.canary(),)
        before, self.shape = self.copies.used, stage_of(plan["init"], self.slots["inputs"])
        for index in range(plan["instances"]):
            places = [_at(slot, index * self.strides["state"]) for slot in self.slots["state"]]
            weights = {slot.name: self.views["state"].tensor(slot) for slot in places}
            with self._tuning(f"making {self.shape}"):
                yield from self._make(plan["init"], weights, plan["copies"])
        return Kind.READY, (float(self.copies.used - before),)

    def call(self, index: int, *, gated: bool = True, written: bool = True, keep: bool = False) -> Steps[Answer]:
        """Calls the model on a slot; the numbers are its seconds by this process's clock, and whether it waited.

        `written`: the slot has new values. With `keep` the outputs are held until the next call, before which they are
        overwritten, as their owner may do.
        """
        yield from self._poison(index)
        self._overwrite_handed()
        place = self.calls[index]
        model, inputs = self._model(index), tuple(place.inputs.values())
        if written:
            self._advance(inputs)
        called: Callable[[], Steps[Any]] = partial(outside, model, *inputs)
        number = index % len(self.models)
        self.called[number] += 1
        stage = f"call {self.called[number]} {self.shape}" if self.called[number] <= FIRST_CALLS else ""
        with torch.no_grad(), self._tuning(stage):
            outputs, seconds, waited = yield from (self.clock.timed if gated else self.clock.ungated)(called)
        held = {**place.inputs, **(self.state[index % len(self.state)] if self.state else {})}
        faults = output_faults(outputs, self.expected, self.device, held)
        if faults:
            raise Faults("; ".join(faults))
        yield from _copy_out(outputs, place)
        self.handed = outputs_of(outputs, len(place.outputs)) if keep else ()
        self._wait()
        return Kind.DONE, (seconds, float(waited))

    def prepare(self, rounds: int, copies: int, sizes: Sequence[int], descriptors: Sequence[int]) -> Steps[Answer]:
        """Maps a batch's inputs and outputs (`descriptors`, of `sizes` bytes), and prepares `rounds` calls that `go`
        makes each time. `copies`: how often the outputs of a call are copied out.
        """
        yield from self.clock.prepare(())
        self.newest = self._newest()
        self.kept = []
        self._close("batch inputs", "batch outputs")
        for name, fd, size in zip(("batch inputs", "batch outputs"), descriptors, sizes, strict=True):
            self.views[name] = make_views(fd, size, self.device)
        self.batch = self._places(self.views["batch inputs"], self.views["batch outputs"], rounds)
        for model in self.models:
            if isinstance(model, _Null):
                model.launch = False
        calls: list[Callable[[], Steps[None]]] = [partial(self._one, index, copies) for index in range(rounds)]
        with torch.no_grad():
            yield from self.clock.prepare(calls)
        self._wait()
        return Kind.READY, ()

    def rehearse(self, fd: int) -> Answer:
        """Reads a batch's inputs as `go` does, and runs nothing."""
        self._take(fd)
        self._wait()
        return Kind.READY, ()

    def go(self, fd: int | None) -> Steps[Answer]:
        """Reads the inputs of the prepared batch, from another memory or the one that it has, and runs the batch."""
        if fd is not None:
            self._take(fd)
        with torch.no_grad():
            yield from self.clock.run()
        return Kind.DONE, (float(self.clock.captured == ""),)

    def compiled(self) -> Answer:
        """Waits until all that was collected is compiled; the number is how many kernels that were."""
        return Kind.READY, (float(self.collector.wait() if self.collector is not None else 0),)

    def finish(self) -> Answer:
        """Ends a shape: answers READY. Raises Faults when the submission changed a model's weights."""
        for state, pristine in zip(self.state, self.pristine, strict=True):
            changed = [name for name, tensor in state.items() if not _same(tensor, pristine[name])]
            if changed:
                raise Faults("; ".join(f"it changed its state {name}" for name in changed))
        return Kind.READY, ()

    def _tuning(self, stage: str) -> AbstractContextManager[None]:
        """While the submission does what may tune it; no name is none of these stages."""
        return self.readings.stage(stage) if self.readings is not None and stage else nullcontext()

    def _take(self, fd: int) -> None:
        self.views["batch inputs"].replace(fd)
        self.views["batch inputs"].warm()

    def _make(self, init: Sequence[Any], weights: Mapping[str, Tensor], copies: bool) -> Steps[None]:
        model: nn.Module = yield from self.copies.model(self.module.Model, init, tuple(weights), copies)
        model = yield from outside(methodcaller("to", self.device), model)
        yield from outside(methodcaller("load_state_dict", dict(weights), strict=True), model)
        yield from outside(methodcaller("eval"), model)
        held = yield from outside(methodcaller("state_dict"), model)
        for name, weight in weights.items():
            if held[name].dtype != weight.dtype:
                raise Faults(f"the state {name} is {held[name].dtype} instead of {weight.dtype}")
        self._renew(held[name] for name in weights)
        self.models.append(model)
        self.state.append({name: held[name] for name in weights})
        self.pristine.append({name: tensor.clone() for name, tensor in weights.items()})

    def _places(self, inputs: SharedViews, outputs: SharedViews, count: int) -> list[_Place]:
        found = []
        for index in range(count):
            read = [_at(slot, index * self.strides["inputs"]) for slot in self.slots["inputs"]]
            write = [_at(slot, index * self.strides["outputs"]) for slot in self.slots["outputs"]]
            into = tuple(outputs.tensor(slot) for slot in write)
            found.append(_Place({slot.name: inputs.tensor(slot) for slot in read}, into))
            self._renew(found[-1].inputs.values())
        return found

    def _renew(self, tensors: Iterable[Tensor]) -> None:
        """Gives new tensors versions above those of all before: their memory may be that of earlier ones.

        Address and version together then never stand for two values, as what is kept under both takes for granted.
        """
        self._advance([tensor for tensor in tensors for _ in range(self.newest - tensor._version)])

    def _newest(self) -> int:
        held = [*self.state, *(place.inputs for place in (*self.calls, *self.batch))]
        return max((tensor._version + 1 for tensors in held for tensor in tensors.values()), default=self.newest)

    def _drop(self) -> Steps[None]:
        yield from self.clock.prepare(())
        self.newest = self._newest()
        self.models, self.calls, self.batch, self.state, self.pristine, self.kept = [], [], [], [], [], []
        self.shape = ""
        self.called.clear()
        self.handed = ()
        self._close(*self.views)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _close(self, *names: str) -> None:
        for name in names:
            if name in self.views:
                self.views.pop(name).close()

    def _model(self, index: int) -> nn.Module:
        return self.models[index % len(self.models)]

    def _one(self, index: int, copies: int) -> Steps[None]:
        place = self.batch[index]
        inputs = tuple(place.inputs.values())
        self._advance(inputs)  # at each call: also between the one that builds and the one that is captured
        outputs = yield from outside(self._model(index), *inputs)
        for _ in range(copies):
            yield from _copy_out(outputs, place)

    def _poison(self, index: int) -> Steps[None]:
        """Fills free blocks of the allocator that fit the outputs, so that unwritten ones do not hold old results.

        On a GPU there is a block for each slot, and all but the one that was filled are kept for the time of the call:
        the outputs of calls lie in as many places in turns.
        """
        self.kept = []
        count = max(len(self.calls), 2) if self.device.type == "cuda" else 2
        free = []
        for _ in range(count):
            block = []
            for tensor in self.calls[0].outputs:
                block.append((yield from outside(torch.empty_like, tensor)))
            free.append(tuple(block))
        if self.device.type == "cuda":
            self.kept, free = free, [free.pop(index % count)]
        for tensor in (tensor for block in free for tensor in block if tensor.numel()):
            yield from outside(tensor.view(torch.uint8).fill_, 0xFF)

    def _overwrite_handed(self) -> None:
        """Writes over the outputs that were held, unseen by their version counters."""
        handed, self.handed = self.handed, ()
        for tensor in handed:
            tensor.data.reshape(-1).view(torch.uint8).fill_(0xFF)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _copy_out(outputs: object, place: _Place) -> Steps[None]:
    for target, tensor in zip(place.outputs, outputs_of(outputs, len(place.outputs)), strict=True):
        yield from outside(target.copy_, tensor)


def _at(slot: Slot, offset: int) -> Slot:
    return Slot(slot.name, slot.dtype, slot.shape, slot.offset + offset)


def _same(tensor: Tensor, other: Tensor) -> bool:
    return torch.equal(*(t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (tensor, other)))
