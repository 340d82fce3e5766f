"""The judge's side of one candidate process: what it asks, what it writes, and what it believes.

It believes bytes that it copied and its own clock. For each call it writes fresh values, poisons the place of the
outputs, and takes its own copy of them when the answer comes, so that later writes do not matter.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grader.deck.cases import Case
from grader.deck.code import TORCH_DTYPES
from grader.deck.correctness import output_name
from grader.judge.answers import Batch, Called
from grader.judge.seen import Null
from grader.sandbox import Sandbox
from grader.sandbox.base import CheckError
from grader.sandbox.candidate import SETUP_LIMIT, candidate
from grader.sandbox.snapshot import Snapshot
from grader.sandbox.supervise import Child, Purse
from grader.wire.channel import POISON, layout, slots_to_json
from grader.wire.driver import GpuError
from grader.wire.frames import Frame, Kind
from grader.wire.memory import SharedMemory, make_memory
from grader.wire.rows import Row
from kbh_lint.problems import Binding, TensorSpec

__all__ = ["Session"]

SAMPLED_BYTES = 2048  # of a batch's outputs, looked at within its time
LEAST_SAMPLE = 16  # of each of its calls
GRAPHS = ("cuda",)  # devices on which a model may make graphs of its calls
FLUSH_L2 = 2  # times its size is written and read


class Session:
    """A submission in its process; a context manager. One shape is loaded at a time."""

    def __init__(
        self, snapshot: Snapshot, *, device: str, sandbox: Sandbox, scratch: Path, timeout: float, call_timeout: float,
        build_timeout: float, timing: bool, published: bool = False, ahead: bool = False, collect: bool = False,
        child: Child | None = None,
    ) -> None:  # fmt: skip
        """Starts the process, or takes a `child` that was started with the same arguments."""
        self.snapshot = snapshot
        self.device = torch.device(device)
        self.setting = f"{sandbox.record.kind}{' published' if published else ''}"  # what calls cost depends on it
        self.in_bytes = self.out_bytes = 0
        self.loads = 0  # how many times models of a shape were made
        self.measured: dict[Path, Null] = {}  # what empty calls cost in this process, by where it is kept
        self._timeout, self._call_timeout, self._ahead, self._up = timeout, call_timeout, ahead, False
        self._started: Frame | None = None
        self._imported: Frame | None = None
        self._build = Purse.of(build_timeout, "building")
        self._unbuilt: set[int] = set()  # models that have not been called yet
        self._visits = Counter[int]()  # calls on each slot
        self._models = 1
        self._memory: dict[str, SharedMemory] = {}
        self._rows: dict[str, Row] = {}  # of state, inputs and outputs, at the shape that is loaded
        self._buffer: Tensor | None = None
        self._child = child or candidate(
            snapshot, device=device, sandbox=sandbox, scratch=scratch, timing=timing, published=published, ahead=ahead,
            collect=collect,
        )  # fmt: skip

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process and frees the shared memory."""
        self._child.close()
        self._free()

    def end(self) -> None:
        """Ends the process from another thread; the memory is freed by who closes."""
        self._child.close()

    def leave(self, seconds: float) -> None:
        """As `close`, after giving the process so many seconds to end by itself, as a profiler around it needs."""
        self._child.leave(seconds)
        self._free()

    @property
    def process(self) -> Child:
        """The candidate's process, for callers that stop it or ask for what it started."""
        return self._child

    @property
    def log(self) -> str:
        """What the process printed; complete once the session is closed."""
        return self._child.log

    def start(self) -> Frame:
        """Waits until the process is ready to use the device; no code of the submission has run then.

        One that was made `ahead`, while another is timed, has only imported torch; it begins to use the device now. A
        second call returns the same answer.
        """
        if not self._ahead:
            return self._child.wait("start", SETUP_LIMIT)
        if self._started is None:
            waited = self.up()
            if waited.kind != Kind.READY:
                return waited
            self._started = self._child.ask(Kind.BEGIN, "start", limit=SETUP_LIMIT)
        return self._started

    def up(self) -> Frame:
        """Waits until a process that was made `ahead` has imported torch; it has not used the device then."""
        if not self._ahead or self._up:
            return Frame(Kind.READY, 0)
        self._up = True
        return self._child.wait("start", SETUP_LIMIT)

    @property
    def imported(self) -> bool:
        """Whether the submission was asked to be imported."""
        return self._imported is not None

    def submission(self) -> Frame:
        """Has the submission imported, which may compile; the time limit of the build counts from here. A second call
        returns the same answer.
        """
        if self._imported is None:
            self._child.begin(self._timeout)
            self._imported = self._child.ask(Kind.IMPORT, "import the submission", purse=self._build)
        return self._imported

    def load(
        self, binding: Binding, states: Sequence[Mapping[str, Tensor]], *, rounds: int, null: bool = False,
        copies: bool = False,
    ) -> Frame:  # fmt: skip
        """Has one model made for each state at a shape, and `rounds` slots for single calls; slot i is for model i.
        With `copies` those that are slow to make may be copies of one; the answer's number is how many are.

        Making them, and the first call of each, which compiles and tunes, may take what is left for building.
        """
        self._free()
        self.loads += 1
        self._models = max(len(states), 1)
        self._unbuilt, self._visits = set() if null else set(range(self._models)), Counter()
        specs: dict[str, Iterable[TensorSpec]] = {
            "state": binding.state.values(),
            "inputs": binding.inputs,
            "outputs": [replace(output, name=output_name(binding, i)) for i, output in enumerate(binding.outputs)],
        }
        self._rows = {name: Row(layout(part, TORCH_DTYPES)) for name, part in specs.items()}
        strides = {name: row.stride for name, row in self._rows.items()}
        self.in_bytes, self.out_bytes = strides["inputs"], strides["outputs"]
        counts = {"state": max(len(states), 1), "inputs": rounds, "outputs": rounds}
        for name, stride in strides.items():
            self._memory[name] = self._region(name, stride * counts[name])
        for index, state in enumerate(states):
            self._write(self._memory["state"], "state", index, state)
        self._settle()
        plan: dict[str, Any] = {name: slots_to_json(row.slots) for name, row in self._rows.items()}
        plan |= {"strides": strides, "rounds": rounds, "instances": len(states), "init": list(binding.init.values())}
        plan |= {"sizes": [memory.size for memory in self._memory.values()], "null": null, "copies": copies}
        doing = f"make its model at {binding.shape.label}"
        descriptors = [memory.fd for memory in self._memory.values()]
        purse, limit = (None, SETUP_LIMIT) if null else (self._build, None)
        text = json.dumps(plan)
        return self._child.ask(Kind.LOAD, doing, text=text, descriptors=descriptors, limit=limit, purse=purse)

    def call(
        self, index: int, inputs: Mapping[str, Tensor] | None, doing: str, *, gated: bool = True, keep: bool = False
    ) -> Called:  # fmt: skip
        """Has the model called on a slot, once, after writing the inputs there (None: what lies there, unchanged).

        Not `gated`, the call is timed on a device that waits for it, so that the host's launches count. With `keep`
        the tensors that it returns are held, and overwritten before the next call.
        """
        self._memory["outputs"].poison(self.out_bytes, index * self.out_bytes)
        self._settle()
        began = time.monotonic()
        if inputs is not None:
            self._write(self._memory["inputs"], "inputs", index, inputs)
            self._settle()
        numbers = (float(index), float(not gated), float(inputs is None), float(keep))
        first = self.builds(index)
        self._unbuilt.discard(index % self._models)
        visit = self._visits[index] if self.device.type in GRAPHS else None
        self._visits[index] += 1
        purse, limit = (self._build, None) if first else (None, self._call_timeout)
        answer = self._child.ask(Kind.CALL, doing, numbers=numbers, limit=limit, purse=purse)
        return Called(answer, time.monotonic() - began, visit)

    def builds(self, index: int) -> bool:
        """Whether a call on this slot would be its model's first, in which kernels are compiled and tuned: such a call
        has a longer time limit."""
        return index % self._models in self._unbuilt

    def outputs(self, index: int) -> tuple[Tensor, ...]:
        """The judge's own copy of what lies in a slot's place for outputs now."""
        row = self._rows["outputs"]
        return row.split(row.copied(self._memory["outputs"], index))

    def changed(self, index: int, inputs: Mapping[str, Tensor], *, batch: bool = False) -> list[str]:
        """Names of the inputs in a slot that do not hold what the judge wrote there."""
        return self._rows["inputs"].changed(self._memory["batch inputs" if batch else "inputs"], index, inputs)

    def prepare(self, rounds: int, example: Mapping[str, Tensor] | None, doing: str, *, copies: int = 1) -> Frame:
        """Has the candidate get ready for batches of `rounds` calls, with an example in every slot.

        With the empty model, outputs are copied `copies` times a call, which tells what copying costs.
        """
        if "next inputs" in self._memory:
            self._memory.pop("next inputs").close()
        for name, stride in (("batch inputs", self.in_bytes), ("batch outputs", self.out_bytes)):
            if name in self._memory:
                self._memory.pop(name).close()
            self._memory[name] = self._region(name, stride * rounds)
        for index in range(rounds if example is not None else 0):
            self._write(self._memory["batch inputs"], "inputs", index, example or {})
        self._settle()
        regions = [self._memory["batch inputs"], self._memory["batch outputs"]]
        numbers = (float(rounds), float(copies), *(float(region.size) for region in regions))
        fds = [region.fd for region in regions]
        return self._child.ask(Kind.PREPARE, doing, numbers=numbers, descriptors=fds, limit=SETUP_LIMIT)

    def batch(self, cases: Iterable[Case] | None, rounds: int, lot: Sequence[int], doing: str) -> Batch:
        """Runs a sealed batch on slots that were prepared, on the inputs of `cases` or, without cases, on throw-away
        values.

        With `cases`, the values are written to memory that the candidate does not have. It gets the descriptor after
        the clock was read, so no work on them can have been done before. The outputs of the slots in `lot`, which the
        candidate does not know, and bytes at places over all slots are copied before the clock is read again:
        `unfinished` says whether work was done later.
        """
        spare = self._memory.pop("next inputs", None)
        if spare is not None and cases is not None:
            spare.close()  # the candidate has had it
            spare = None
        fresh = spare or self._region("next inputs", self._memory["batch inputs"].size)
        self._memory["next inputs"] = fresh  # given up with the others when the candidate ends in between
        for index, case in enumerate(cases or ()):
            self._write(fresh, "inputs", index, case.inputs)
        outputs, size = self._memory["batch outputs"], rounds * self.out_bytes
        places = self._places(rounds)
        self._settle()
        rehearsed = self._rehearsed(places, size, lot, doing)
        if rehearsed.kind != Kind.READY:
            return Batch(rehearsed, 0.0, {}, places, outputs.raw(size)[places])
        outputs.poison(size)  # last, so that no time is left in which something else could be written there
        self._settle()
        began = time.monotonic()
        answer = self._child.ask(Kind.GO, doing, descriptors=[fresh.fd], limit=self._call_timeout * rounds)
        seen = outputs.raw(size)[places]
        taken = {index: self._copied(index) for index in lot} if answer.kind == Kind.DONE else {}
        self._settle()
        wall = time.monotonic() - began
        used, self._memory["batch inputs"] = self._memory["batch inputs"], self._memory.pop("next inputs")
        if cases is None:  # nothing was written there, and giving memory up makes the next batch wait for the driver
            self._memory["next inputs"] = used
        else:
            used.close()
        whole = {index: self._rows["outputs"].split(copied) for index, copied in taken.items()}
        return Batch(answer, wall, whole, places, seen)

    def alone(
        self, inputs: Mapping[str, Tensor] | None, doing: str, before: Mapping[str, Tensor] | None = None
    ) -> Batch:  # fmt: skip
        """Makes one sealed call alone, in a batch of one that was prepared, on `inputs` or, without them, on throw-away
        values.

        The values are written where the candidate reads them, after the clock was read: for one call that costs less,
        and varies by much less, than to give it other memory. The candidate is awake, since it has just run once on the
        values `before`, or on what lies there, and the caches are empty.
        """
        memory, outputs = self._memory["batch inputs"], self._memory["batch outputs"]
        values = self._rows["inputs"].empty(self.device) if inputs is None else inputs
        places = self._places(1)
        if before is not None:
            self._write(memory, "inputs", 0, before)
        outputs.poison(self.out_bytes)  # what it gave for these values before does not lie there either
        self._settle()
        answer = self._child.ask(Kind.GO, doing, limit=self._call_timeout)
        seen = outputs.raw(self.out_bytes)[places]
        self._copied(0)
        self.flush()
        if answer.kind != Kind.DONE:
            return Batch(answer, 0.0, {}, places, seen)
        outputs.poison(self.out_bytes)
        self._settle()
        began = time.monotonic()
        self._write(memory, "inputs", 0, values)
        self._settle()
        answer = self._child.ask(Kind.GO, doing, limit=self._call_timeout)
        seen, whole = outputs.raw(self.out_bytes)[places], self._copied(0)
        self._settle()
        wall = time.monotonic() - began
        outputs_of = {0: self._rows["outputs"].split(whole)} if answer.kind == Kind.DONE else {}
        return Batch(answer, wall, outputs_of, places, seen)

    def flush(self) -> None:
        """Leaves nothing in the L2 of a GPU but clean lines of a buffer of ours."""
        if self.device.type != "cuda":
            return
        if self._buffer is None:
            cache = torch.cuda.get_device_properties(self.device).L2_cache_size
            self._buffer = torch.empty(FLUSH_L2 * cache // 4, dtype=torch.float32, device=self.device)
        self._buffer.zero_()
        self._buffer.sum()
        self._settle()

    def _rehearsed(self, places: Tensor, size: int, lot: Sequence[int], doing: str) -> Frame:
        """The answer when the candidate takes the memory that it has once more, and the judge copies as after a batch.

        A candidate that slept while values were drawn takes up to 0.5 ms longer on an H200 than one that is awake, and
        so empty batches, between which nothing is drawn, tell too little of what a batch costs.
        """
        fd = self._memory["batch inputs"].fd
        answer = self._child.ask(Kind.REHEARSE, doing, descriptors=[fd], limit=self._call_timeout)
        self._memory["batch outputs"].raw(size)[places]
        for index in lot:
            self._copied(index)
        self._settle()
        return answer

    def unfinished(self, batch: Batch, rounds: int) -> str:
        """What the candidate did wrong with the outputs of a batch, as a sentence: it wrote some after it had said that
        it was done, or left some out. Empty when neither.
        """
        now = self._memory["batch outputs"].raw(rounds * self.out_bytes)[batch.places]
        if not torch.equal(now, batch.bytes):
            return "it wrote outputs of a batch after it had said that it was done"
        if self._rows["outputs"].real_bytes >= LEAST_SAMPLE and bool((batch.bytes == POISON).all(dim=1).any()):
            return "it left outputs of a batch out"
        return ""

    def late_outputs(self, index: int) -> tuple[Tensor, ...]:
        """The outputs of call `index` of a batch, read after the batch's time was taken."""
        return self._rows["outputs"].split(self._copied(index))

    def compiled(self, limit: float) -> Frame:
        """Waits until all that a process that collects has collected is compiled; the number is how many kernels."""
        return self._child.ask(Kind.COMPILED, "compile its kernels", purse=Purse.of(limit, "building"))

    def finish(self) -> Frame:
        """Asks whether the weights were left alone; the end of a shape."""
        return self._child.ask(Kind.FINISH, "end a shape", limit=SETUP_LIMIT)

    def _write(self, memory: SharedMemory, region: str, index: int, tensors: Mapping[str, Tensor]) -> None:
        try:
            self._rows[region].write(memory, index, tensors)
        except ValueError as error:
            raise CheckError(f"the case has {error}") from error

    def _places(self, rounds: int) -> Tensor:
        """Where bytes of the outputs of each slot of a batch lie, drawn now: [rounds, bytes of a slot]."""
        return self._rows["outputs"].sampled(rounds, max(LEAST_SAMPLE, SAMPLED_BYTES // rounds)).to(self.device)

    def _copied(self, index: int) -> Tensor:
        return self._rows["outputs"].copied(self._memory["batch outputs"], index)

    def _region(self, name: str, size: int) -> SharedMemory:
        try:
            return make_memory(f"kbh-{name.replace(' ', '-')}", size, self.device)
        except (GpuError, OSError, RuntimeError) as error:
            raise CheckError(f"memory for the {name} cannot be had: {' '.join(str(error).split())[:300]}") from error

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _free(self) -> None:
        for memory in self._memory.values():
            memory.close()
        self._memory = {}
