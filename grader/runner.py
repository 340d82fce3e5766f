"""What the candidate does with a submission: models of it, slots of shared memory, and one way to call it.

Every call goes the same way, whatever the judge wants it for. The submission gets tensors that lie in the shared memory
itself, at addresses that stay while their values change.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from grader.channel import Kind, Slot, slots_from_json
from grader.clock import make_clock
from grader.correctness import Expected, output_faults
from grader.memory import SharedViews, make_views

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


class Runner:
    """The submission's module, its models at one shape, and the slots that they are called on."""

    def __init__(self, device: torch.device, timing: bool) -> None:
        self.device = device
        self.clock = make_clock(device, timing)
        self.module: Any = None
        self.models: list[nn.Module] = []
        self.views: dict[str, SharedViews] = {}
        self.expected: list[Expected] = []
        self.inputs: list[dict[str, Tensor]] = []
        self.outputs: list[tuple[Tensor, ...]] = []
        self.state: list[dict[str, Tensor]] = []
        self.pristine: dict[str, Tensor] = {}

    def start(self, file: Path, root: str) -> Answer:
        """Imports the submission."""
        sys.path[:] = [entry for entry in sys.path if entry != root]
        sys.path.append(str(file.parent))
        spec = importlib.util.spec_from_file_location("solution", file)
        assert spec is not None and spec.loader is not None
        self.module = importlib.util.module_from_spec(spec)
        sys.modules["solution"] = self.module
        spec.loader.exec_module(self.module)
        if not isinstance(getattr(self.module, "Model", None), type) or not issubclass(self.module.Model, nn.Module):
            raise Faults("the submission has no class Model that is an nn.Module")
        return Kind.READY, ()

    def load(self, plan: Mapping[str, Any], descriptors: Sequence[int]) -> Answer:
        """Fresh models at one shape, with the judge's weights, and the slots that calls will use."""
        self._drop()
        slots = {name: slots_from_json(plan[name]) for name in REGIONS}
        for name, fd, size in zip(REGIONS, descriptors, plan["sizes"], strict=True):
            self.views[name] = make_views(fd, size, self.device)
        self.expected = [Expected(slot.name, slot.dtype, slot.shape) for slot in slots["outputs"]]
        for index in range(plan["rounds"]):
            placed = [[_at(slot, index * plan["strides"][name]) for slot in slots[name]] for name in REGIONS[1:]]
            self.inputs.append({slot.name: self.views["inputs"].tensor(slot) for slot in placed[0]})
            self.outputs.append(tuple(self.views["outputs"].tensor(slot) for slot in placed[1]))
        if plan["null"]:
            self.models = [_Null(tuple(torch.zeros_like(tensor) for tensor in self.outputs[0]), self.device)]
            return Kind.READY, ()
        weights = {slot.name: self.views["state"].tensor(slot) for slot in slots["state"]}
        for _ in range(plan["instances"]):
            self._make(plan["init"], weights)
        self.pristine = {name: tensor.clone() for name, tensor in weights.items()}
        return Kind.READY, ()

    def call(self, index: int) -> Answer:
        """Calls the model on a slot; the numbers are its seconds by this process's clock, and whether it waited."""
        self._poison()
        model, inputs = self._model(index), self.inputs[index]
        with torch.no_grad():
            outputs, seconds, waited = self.clock.timed(lambda: model(*inputs.values()))
        held = {**inputs, **(self.state[index % len(self.state)] if self.state else {})}
        faults = output_faults(outputs, self.expected, self.device, held)
        if faults:
            raise Faults("; ".join(faults))
        self._copy_out(index, outputs)
        self._wait()
        return Kind.DONE, (seconds, float(waited))

    def prepare(self, rounds: int) -> Answer:
        """Gets ready to call the first `rounds` slots one after the other."""
        for model in self.models:
            if isinstance(model, _Null):
                model.launch = False
        calls: list[Callable[[], None]] = [partial(self._one, index) for index in range(rounds)]
        with torch.no_grad():
            self.clock.prepare(calls)
        self._wait()
        return Kind.READY, ()

    def go(self, fd: int) -> Answer:
        """Takes the batch's inputs, which lie in another memory, and runs it."""
        self.views["inputs"].replace(fd)
        with torch.no_grad():
            self.clock.run()
        return Kind.DONE, ()

    def finish(self) -> Answer:
        """Whether the weights are still those of the judge; the end of a shape."""
        for state in self.state:
            changed = [name for name, tensor in state.items() if not _same(tensor, self.pristine[name])]
            if changed:
                raise Faults("; ".join(f"it changed its state {name}" for name in changed))
        return Kind.READY, ()

    def _make(self, init: Sequence[Any], weights: Mapping[str, Tensor]) -> None:
        model: nn.Module = self.module.Model(*init)
        model = model.to(self.device)
        model.load_state_dict(dict(weights), strict=True)
        model.eval()
        held = model.state_dict()
        for name, weight in weights.items():
            if held[name].dtype != weight.dtype:
                raise Faults(f"the state {name} is {held[name].dtype} instead of {weight.dtype}")
        self.models.append(model)
        self.state.append({name: held[name] for name in weights})

    def _drop(self) -> None:
        self.clock.prepare(())
        self.models, self.inputs, self.outputs, self.state, self.pristine = [], [], [], [], {}
        for views in self.views.values():
            views.close()
        self.views = {}
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _model(self, index: int) -> nn.Module:
        return self.models[index % len(self.models)]

    def _one(self, index: int) -> None:
        self._copy_out(index, self._model(index)(*self.inputs[index].values()))

    def _copy_out(self, index: int, outputs: Any) -> None:
        tensors: Sequence[Tensor] = outputs if isinstance(outputs, tuple) else (outputs,)
        for place, tensor in zip(self.outputs[index], tensors, strict=True):
            place.copy_(tensor)

    def _poison(self) -> None:
        """Fills free blocks of the allocator that fit the outputs, so that unwritten ones do not hold old results."""
        held = [torch.empty_like(tensor) for tensor in self.outputs[0] for _ in range(2)]
        for tensor in held:
            tensor.view(torch.uint8).fill_(0xFF) if tensor.numel() else None

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _at(slot: Slot, offset: int) -> Slot:
    return Slot(slot.name, slot.dtype, slot.shape, slot.offset + offset)


def _same(tensor: Tensor, other: Tensor) -> bool:
    return torch.equal(*(t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (tensor, other)))
